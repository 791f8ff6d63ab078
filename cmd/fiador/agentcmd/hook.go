// Package agentcmd has the commands that stand between agents and their tools: hook
// answers the hooks of coding agents.
package agentcmd

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/agent"
	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/shellwords"
	"github.com/fiador/fiador/specs"
)

// The time of a hook. A client that waits longer than its own limit lets the tool run, so
// a hook ends long before the 30 seconds that an installed entry gives the client.
const (
	hookTime = 4 * time.Second
	readTime = 2 * time.Second
)

// hookFlags select the policy, the ledger, and what of the calls is decided.
type hookFlags struct {
	policies.GateFlags
	ledgers.RecordFlags
	reads   bool
	sandbox string
	tree    string // --tree as it was given
}

func (f *hookFlags) register(cmd *cobra.Command) {
	f.GateFlags.Register(cmd)
	f.RecordFlags.Register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.reads, "reads", false, "decide tools that only read, too")
	flags.StringVar(&f.sandbox, "sandbox", "", "run an allowed command in the sandbox: direct writes into the project, staged applies what was written only if the command succeeds")
	flags.Lookup("sandbox").NoOptDefVal = "direct"
	cli.Complete(cmd, "sandbox", writes...)
}

var writes = []string{"direct", "staged"}

func clientNames() []string {
	var names []string
	for _, c := range hook.Clients() {
		names = append(names, c.Name)
	}
	return names
}

// clientOf returns the client that an argument names.
func clientOf(name string) (hook.Client, error) {
	c, ok := hook.Find(name)
	if !ok {
		return c, cli.Usage("name a client"+specs.Suggest(name, clientNames()), "client %q is not known", name)
	}
	return c, nil
}

// Hook returns the command that answers one event of a coding agent.
func Hook(a *cli.App) *cobra.Command {
	var f hookFlags
	cmd := &cobra.Command{
		Use:   "hook CLIENT",
		Short: "decide the tool calls of a coding agent",
		Long: `Hook reads one event of a coding agent from standard input, decides the tool call
that it is about, and answers as the client expects. CLIENT is ` + strings.Join(clientNames(), ", ") + `.

A call that the policy allows has no answer: the client asks its user as before, and
its own permissions hold. Every other end blocks the call, errors too, and gives the
agent the reason. With --sandbox an allowed shell command is answered with one that
runs it in the sandbox, and the client does not ask.

A shell line of plain words is decided command by command; any other line is one
command of a shell. Writes and patches are decided by their paths, and tools of MCP
servers and other tools by allowed_tools (mcp:SERVER/TOOL, client:CLIENT/TOOL).

Exit codes:
  0  allowed, or not decided
  2  blocked: the answer gives the reason`,
		Example: `  fiador hook install claude-code --policy ./profile
  fiador hook claude-code --policy dev <event.json`,
		Args:      cli.ExactArgs("CLIENT"),
		ValidArgs: clientNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientOf(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("tree") {
				f.tree = f.Tree
			}
			return answerHook(a, cmd.Context(), c, f)
		},
	}
	f.register(cmd)
	cmd.AddCommand(HookInstall(a), HookUninstall(a), HookStatus(a), HookTest(a))
	return cmd
}

// answerHook answers one event within its time. What goes wrong is a refusal, and so is
// a call that is still undecided when the time is over.
func answerHook(a *cli.App, ctx context.Context, c hook.Client, f hookFlags) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	answers := make(chan hook.Answer, 1)
	go func() {
		defer func() {
			if recover() != nil {
				answers <- undecided(c, runerr.Panicked())
			}
		}()
		answer, err := decideEvent(ctx, a, c, f)
		if err != nil {
			answer = undecided(c, err)
		}
		answers <- answer
	}()
	var answer hook.Answer
	select {
	case answer = <-answers:
	case <-ctx.Done():
		answer = undecided(c, runerr.New(result.CodeInternal, "no decision within "+hookTime.String(), "use a faster policy, or try again"))
	}
	_, _ = a.Stderr.Write(answer.Stderr)
	a.Status = answer.Status
	return a.Print(answer.Stdout)
}

// undecided returns the answer to a call that could not be decided.
func undecided(c hook.Client, err error) hook.Answer {
	return c.Deny(agent.Words(harness.End{Request: harness.Request{Path: c.Name}, Err: err}))
}

// decideEvent reads an event and decides its call.
func decideEvent(ctx context.Context, a *cli.App, c hook.Client, f hookFlags) (answer hook.Answer, err error) {
	if f.sandbox != "" {
		if err := cli.Choice("--sandbox", f.sandbox, writes); err != nil {
			return answer, err
		}
	}
	call, err := readEvent(ctx, a, c, f)
	if err != nil || call.Undecided {
		return answer, err
	}
	f.Tree = call.Root
	sources, err := policies.Sources(f.GateFlags)
	if err != nil {
		return answer, err
	}
	opened := policies.OpenGateAhead(ctx, a, sources)
	log, err := ledgers.OpenLog(ctx, a, f.RecordFlags)
	if err != nil {
		return answer, err
	}
	if log != nil {
		defer log.Close()
	}
	gate, err := opened()
	if err != nil {
		return answer, err
	}
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Recorder: ledgers.Recorder(a, log)}
	allowed, words := agent.Ask(ctx, deps, gate, call.Question)
	switch {
	case !allowed:
		return c.Deny(words), nil
	case f.sandbox == "" || call.Line == "":
		return hook.Answer{}, nil
	}
	line, err := f.sandboxed(call)
	if err != nil {
		return answer, err
	}
	return call.Rewritten(line)
}

// readEvent reads the event on standard input.
func readEvent(ctx context.Context, a *cli.App, c hook.Client, f hookFlags) (hook.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	src, err := a.Read(ctx, "-", hook.MaxEventBytes)
	if ctx.Err() != nil {
		err = runerr.Unreadable("-", "no whole event within "+readTime.String(), "check that the client sends the event and closes standard input")
	}
	if err != nil {
		return hook.Call{}, err
	}
	call, err := c.Read(src.Bytes, hook.Options{Tree: f.tree, Reads: f.reads, Env: a.Env})
	if err != nil {
		err = runerr.New(result.CodeNotIntent, err.Error(), "fiador hook test "+c.Name+" shows whether the installed hook and the client agree", runerr.File("-"))
	}
	return call, err
}

// sandboxed returns the command line that runs a decided line in the sandbox.
func (f hookFlags) sandboxed(call hook.Call) (string, error) {
	words, err := f.words(false)
	if err != nil {
		return "", err
	}
	root := call.Root
	words = slices.Concat([]string{"exec"}, words, []string{"--tree", root, "--work", root, "--write", f.sandbox, "--dir", call.Dir, "--line", call.Line})
	return commandLine(words)
}

// words returns the flags of the policy and the ledger again, with absolute paths. With
// own it returns those of the hook as well.
func (f hookFlags) words(own bool) ([]string, error) {
	var failed error
	absolute := func(name string) string {
		path, err := filepath.Abs(name)
		failed = cmp.Or(failed, err)
		return path
	}
	policy := f.Policy
	if len(policies.ProfileFiles(policy)) > 1 || strings.ContainsRune(policy, filepath.Separator) {
		policy = absolute(policy)
	}
	words := []string{"--policy", policy}
	for _, dir := range f.Org {
		words = append(words, "--org-policy", absolute(dir))
	}
	if f.Dir != "" {
		words = append(words, "--ledger", absolute(f.Dir))
	}
	if file := f.KeyFile(); file != "" {
		words = append(words, "--ledger-key", absolute(file))
	}
	if !own {
		return words, failed
	}
	if f.tree != "" {
		words = append(words, "--tree", absolute(f.tree))
	}
	if f.reads {
		words = append(words, "--reads")
	}
	if f.sandbox != "" {
		words = append(words, "--sandbox="+f.sandbox)
	}
	return words, failed
}

// commandLine returns a line for a shell that runs this program with arguments.
func commandLine(words []string) (string, error) {
	program, err := os.Executable()
	line := []string{shellwords.Quote(program)}
	for _, w := range words {
		line = append(line, shellwords.Quote(w))
	}
	return strings.Join(line, " "), err
}
