package agentcmd

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/settings"
	"github.com/fiador/fiador/kernel/result"
)

// installation is where the hook of a client is installed.
type installation struct {
	client hook.Client
	scope  string
	dryRun bool
	root   *os.Root // the home folder, the project, or the root of the file system
	dir    string
}

// name returns a file of the scope in the form for messages.
func (i *installation) name(file string) string {
	return map[string]string{"user": "~/", "system": "/"}[i.scope] + file
}

// register adds the flag of the scope.
func (i *installation) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.scope, "scope", "user", "whose settings: user, project (that of --tree) or system")
	cli.Complete(cmd, "scope", hook.Scopes...)
}

// open finds the folder of the settings. A project is the folder with .git at or above the
// working folder, unless tree names it.
func (i *installation) open(a *cli.App, client, tree string) (err error) {
	if i.client, err = clientOf(client); err != nil {
		return err
	}
	if err := cli.Choice("--scope", i.scope, hook.Scopes); err != nil {
		return err
	}
	switch i.scope {
	case "user":
		if i.dir = a.Env("HOME"); i.dir == "" {
			return cli.Usage("set it, or use --scope project", "HOME names no folder for the settings of a user")
		}
	case "project":
		if i.dir = tree; tree == "" {
			i.dir, err = project()
		}
	default:
		i.dir = "/"
	}
	if err == nil {
		i.root, err = os.OpenRoot(i.dir)
	}
	if err != nil {
		return runerr.Unreadable(screen.Folder(i.dir), runerr.Reason(err), "name a folder that is there")
	}
	return nil
}

func project() (string, error) {
	cwd, err := os.Getwd()
	return hook.Repository(cwd), err
}

// HookInstall returns the command that installs the hook of a client.
func HookInstall(a *cli.App) *cobra.Command {
	var f hookFlags
	var i installation
	cmd := &cobra.Command{
		Use:   "install CLIENT",
		Short: "put the hook into the settings of a client",
		Long: `Install adds one entry to the settings of a client, so that the client asks fiador
before every tool call. Every other byte of the file stays, and the file as it was is
kept beside it (.fiador-backup). Installing again replaces the entry. If the program
crashes, is killed or is missing, the entry blocks the call.

The policy and the ledger must lie outside the project: what is in the project, the
agent can change.

Exit codes:
  0  installed, or installed before
  2  not installed`,
		Example: `  fiador hook install claude-code --policy ./profile --ledger ~/ledger --ledger-key ~/gate.key
  fiador hook install codex --scope system --policy /etc/fiador/profile
  fiador hook install gemini --scope project --sandbox --dry-run`,
		Args:      cli.ExactArgs("CLIENT"),
		ValidArgs: clientNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("tree") {
				f.tree = f.Tree
			}
			if err := i.open(a, args[0], f.tree); err != nil {
				return err
			}
			return i.install(a, cmd.Context(), f)
		},
	}
	f.register(cmd)
	i.register(cmd)
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "print the file as it would be, and write nothing")
	return cmd
}

// install puts the entry into the file.
func (i *installation) install(a *cli.App, ctx context.Context, f hookFlags) error {
	if i.scope == "project" && f.tree == "" {
		f.tree = i.dir
	}
	if err := f.apart(); err != nil {
		return err
	}
	sources, err := policies.Sources(f.GateFlags)
	if err != nil {
		return err
	}
	if _, err := policies.OpenGateAhead(ctx, a, sources)(); err != nil {
		return err // with such a policy the hook would block every call
	}
	words, err := f.words(true)
	if err != nil {
		return err
	}
	line, err := commandLine(slices.Concat([]string{"hook", i.client.Name}, words))
	if err != nil {
		return err
	}
	entry, err := i.client.Entry(i.scope, line)
	if err != nil {
		return cli.Usage("see fiador hook install --help", "%s", err)
	}
	change, err := i.apply(ctx, entry)
	if err != nil {
		return i.refused(err, entry)
	}
	if i.dryRun {
		return a.Print(change.After)
	}
	what := "is installed"
	if bytes.Equal(change.Before, change.After) {
		what = "was installed before"
	}
	a.Term.Message(fmt.Sprintf("the hook of %s %s in %s", i.client.Product, what, i.name(entry.File)))
	if entry.Note != "" {
		a.Term.Warning(entry.Note)
	}
	return nil
}

// apart refuses a policy or a ledger in the project, where the agent could change it.
func (f hookFlags) apart() error {
	root := f.tree
	if root == "" {
		var err error
		if root, err = project(); err != nil {
			return err
		}
	}
	places := append([]string{f.Dir, f.KeyFile()}, f.Org...)
	if words, err := f.words(false); err != nil {
		return err
	} else if filepath.IsAbs(words[1]) {
		places = append(places, words[1])
	}
	for _, place := range places {
		if place != "" && cli.LiesIn(root, place) {
			return cli.Unfit("keep the policy, the ledger and its key outside the project", "%q lies in the project %q, where the agent could change it", screen.Path(place), screen.Folder(root))
		}
	}
	return nil
}

// apply changes JSON settings, or makes the file of an entry that is a whole file.
func (i *installation) apply(ctx context.Context, e hook.Entry) (settings.Change, error) {
	if e.Text == "" {
		return settings.File{Root: i.root, Name: e.File, DryRun: i.dryRun}.Apply(ctx, e.Edits...)
	}
	c := settings.Change{After: []byte(e.Text)}
	old, err := i.root.ReadFile(e.File)
	switch {
	case err == nil && hook.RequirementsLine(string(old)) == "":
		return c, &settings.Refused{File: e.File, Msg: "it is there already, and not Fiador's alone"}
	case err == nil:
		c.Before = old
	case !errors.Is(err, fs.ErrNotExist):
		return c, err
	}
	if i.dryRun {
		return c, nil
	}
	if err := i.root.MkdirAll(filepath.Dir(e.File), 0o755); err != nil {
		return c, err
	}
	return c, durable.Write(i.root, e.File, c.After, 0o644)
}

// refused adds the text that a user can put in by hand to the error about a file.
func (i *installation) refused(err error, e hook.Entry) error {
	name := i.name(e.File)
	if !errors.As(err, new(*settings.Refused)) {
		return runerr.Unreadable(name, runerr.Reason(err), "check that the file and its folder can be written")
	}
	text := e.Text
	if text == "" {
		text, _ = settings.Snippet(e.Edits...)
	}
	return runerr.New(result.CodeUnreadable, err.Error(), "mend the file, or put this into it: "+text, runerr.File(name))
}

// HookUninstall returns the command that takes the hook of a client out again.
func HookUninstall(a *cli.App) *cobra.Command {
	var i installation
	var tree string
	cmd := &cobra.Command{
		Use:   "uninstall CLIENT",
		Short: "take the hook out of the settings of a client",
		Long: `Uninstall removes the entry that install made. If nobody changed the file since, it has
its old bytes again; otherwise every other byte stays.

Exit codes:
  0  not installed any more
  2  the file could not be changed`,
		Example:   "  fiador hook uninstall claude-code",
		Args:      cli.ExactArgs("CLIENT"),
		ValidArgs: clientNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := i.open(a, args[0], tree); err != nil {
				return err
			}
			e, err := i.client.Entry(i.scope, "")
			if err != nil {
				return cli.Usage("see fiador hook uninstall --help", "%s", err)
			}
			change, err := i.remove(cmd.Context(), e)
			if err != nil {
				return i.refused(err, e)
			}
			what := "is removed from"
			if bytes.Equal(change.Before, change.After) {
				what = "is not in"
			}
			a.Term.Message(fmt.Sprintf("the hook of %s %s %s", i.client.Product, what, i.name(e.File)))
			return nil
		},
	}
	i.register(cmd)
	cmd.Flags().StringVar(&tree, "tree", "", "the project, with --scope project")
	return cmd
}

func (i *installation) remove(ctx context.Context, e hook.Entry) (settings.Change, error) {
	if e.Text == "" {
		return settings.File{Root: i.root, Name: e.File}.Remove(ctx, e.Edits...)
	}
	old, err := i.root.ReadFile(e.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return settings.Change{}, nil
	case err == nil && hook.RequirementsLine(string(old)) == "":
		err = &settings.Refused{File: e.File, Msg: "it is not Fiador's alone"}
	case err == nil:
		err = durable.Remove(i.root, e.File)
	}
	return settings.Change{Before: old}, err
}

// installed returns the installed line and its file, or an empty line.
func (i *installation) installed() (line, file string, err error) {
	e, err := i.client.Entry(i.scope, "")
	if err != nil {
		return "", "", nil // the client has no such settings
	}
	file = i.name(e.File)
	if e.Text != "" {
		text, err := i.root.ReadFile(e.File)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return hook.RequirementsLine(string(text)), file, err
	}
	value, err := settings.File{Root: i.root, Name: e.File}.Value()
	return i.client.Installed(value), file, err
}

// HookStatus returns the command that says where the hook of a client is installed.
func HookStatus(a *cli.App) *cobra.Command {
	var tree string
	cmd := &cobra.Command{
		Use:   "status [CLIENT]",
		Short: "say where hooks are installed",
		Long: `Status reads the settings of one client, or of all, in every scope, and prints each
installed line.

Exit codes:
  0  the hook is installed somewhere
  1  it is installed nowhere
  2  settings cannot be read; status prints what is installed elsewhere`,
		Example:   "  fiador hook status codex",
		Args:      cli.AtMostOne,
		ValidArgs: clientNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = clientNames()
			}
			var out strings.Builder
			var unread error // the first error
			for _, client := range args {
				for _, scope := range hook.Scopes {
					unread = cmp.Or(unread, status(a, &out, client, scope, tree))
				}
			}
			if out.Len() == 0 && unread == nil {
				a.Status = cli.ExitRejected
				a.Term.Message("no hook is installed")
			}
			if err := a.Say([]byte(out.String())); err != nil {
				return err
			}
			return unread
		},
	}
	cmd.Flags().StringVar(&tree, "tree", "", "the project whose settings are read (default: that of the working folder)")
	return cmd
}

func status(a *cli.App, out *strings.Builder, client, scope, tree string) error {
	i := installation{scope: scope}
	if err := i.open(a, client, tree); err != nil {
		return err
	}
	line, file, err := i.installed()
	if err != nil {
		return runerr.Unreadable(file, runerr.Reason(err), "mend the file")
	}
	if line == "" {
		return nil
	}
	fmt.Fprintf(out, "%s  %s  %s\n  %s\n", client, scope, file, screen.Plain(line))
	if e, err := i.client.Entry(scope, ""); err == nil && e.Note != "" {
		fmt.Fprintf(out, "  note: %s\n", e.Note)
	}
	return nil
}

//go:embed events
var events embed.FS

// HookTest returns the command that tries the installed hook.
func HookTest(a *cli.App) *cobra.Command {
	var i installation
	var tree string
	cmd := &cobra.Command{
		Use:   "test CLIENT",
		Short: "try the installed hook with events of the client",
		Long: `Test runs the installed line, as the client does, with events that the client was seen
to send, and one that no client sends. It prints what the client would be told. Nothing
that the events ask for is done. With a ledger, the decisions are recorded.

Exit codes:
  0  the hook answered every event, and blocked the one that no client sends
  1  it did not`,
		Example:   "  fiador hook test claude-code",
		Args:      cli.ExactArgs("CLIENT"),
		ValidArgs: clientNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := i.open(a, args[0], tree); err != nil {
				return err
			}
			return i.test(a, cmd.Context())
		},
	}
	i.register(cmd)
	cmd.Flags().StringVar(&tree, "tree", "", "the project (default: that of the working folder)")
	return cmd
}

func (i *installation) test(a *cli.App, ctx context.Context) error {
	line, file, err := i.installed()
	reason := "no hook of " + i.client.Product + " is there"
	if err != nil {
		reason = runerr.Reason(err)
	}
	if line == "" {
		return runerr.Unreadable(file, reason, "fiador hook install "+i.client.Name+" puts it there")
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	list, err := fs.ReadDir(events, "events/"+i.client.Name)
	if err != nil {
		return err
	}
	for _, e := range list {
		event, err := events.ReadFile("events/" + i.client.Name + "/" + e.Name())
		if err != nil {
			return err
		}
		event = bytes.ReplaceAll(event, []byte("/home/dev/project"), []byte(filepath.ToSlash(cwd)))
		said, status := tell(ctx, line, event)
		a.RejectIf(status != 0 && status != 2)
		if err := a.Say([]byte(fmt.Sprintf("%-12s %s\n", strings.TrimSuffix(e.Name(), ".json"), said))); err != nil {
			return err
		}
	}
	said, status := tell(ctx, line, []byte("{}\n"))
	a.RejectIf(status != 2)
	return a.Say([]byte(fmt.Sprintf("%-12s %s\n", "no event", said)))
}

// tell runs a line with an event, and returns in words what the client would be told.
func tell(ctx context.Context, line string, event []byte) (said string, status int) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	var out, reason bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(event), &out, &reason
	err := c.Run()
	if c.ProcessState == nil {
		return "not started: " + runerr.Reason(err), -1
	}
	switch status = c.ProcessState.ExitCode(); {
	case status == 0 && out.Len() == 0:
		return "allowed: the client asks its user as before", 0
	case status == 0:
		return "allowed in the sandbox", 0
	case status != 2:
		return fmt.Sprintf("exit status %d, which not every client takes for a refusal", status), status
	}
	lines := strings.Split(strings.TrimSpace(reason.String()), "\n")
	return "blocked: " + screen.Plain(strings.Join(lines[:min(2, len(lines))], "; ")), status
}
