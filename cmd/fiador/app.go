package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// The exit statuses (run-result.md, 5.4).
const (
	exitAccepted = 0
	exitRejected = 1
	exitError    = 2
)

// Compiling the policy allocates a few MiB, and startupGC lets it end without a collection
// of garbage. A process that decides one small intent then ends without any collection.
// For more than largeIntent bytes the runtime collects as usual, to keep the peak low. A
// command over many intents allocates much and keeps little. Collecting rarely, as manyGC
// does, saves a tenth of its time.
const (
	startupGC   = 400
	usualGC     = 100
	manyGC      = 800
	largeIntent = 64 << 10
)

// system holds everything of the machine that a command may touch.
type system struct {
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
	tty     bool // stderr is a terminal
	outTTY  bool // stdout is a terminal
	env     func(string) string
	environ []string // the whole environment, for a command that inherits it
	now     func() time.Time
	rand    io.Reader
	busy    *occupied // counts executions and records under way; a Ctrl-C waits for their end; or nil
}

// app is one invocation of the program: its system, and the state that commands share.
type app struct {
	system
	term    terminal  // stderr
	page    terminal  // stdout, for answers in words
	direct  io.Writer // stdout, for output of others: a failed write to it is no failure of this program
	color   string
	github  bool // a runner of workflow commands reads stderr
	runner  bool // the environment says that a runner reads the output
	specs   *specs.Set
	out     *sink    // what stdout writes through
	guarded []string // absolute folders; a write follows no link beneath them
	status  int      // exit status of a command that ends without an error
}

// usage returns the error of a call that the program does not understand, or that names
// something absent.
func usage(hint, format string, args ...any) error {
	return misuse(result.CodeUnreadable, hint, fmt.Sprintf(format, args...))
}

// unfit returns the error of a call whose flags exclude each other, or whose value is not
// allowed.
func unfit(hint, format string, args ...any) error {
	return misuse(result.CodeProfile, hint, fmt.Sprintf(format, args...))
}

func misuse(code result.Code, hint, msg string) error {
	return &result.RunError{Code: code, Message: msg, Hint: hint, Details: map[string]any{detailUsage: true}}
}

// detailUsage is the member of details that says that the call is at fault.
const detailUsage = "usage"

// newApp returns the invocation of the program on a system.
func newApp(sys system) *app {
	out := &sink{w: sys.stdout}
	sys.stdout = out
	return &app{system: sys, term: terminal{w: sys.stderr}, page: terminal{w: out}, direct: out.w, out: out}
}

// lost returns the RunError if a part of standard output was not written, or nil.
func (a *app) lost() error { return unprinted(a.out.err) }

// run is the whole program except for the process around it. It returns the exit status. A
// panic in any command becomes RUN_E007.
func run(ctx context.Context, args []string, sys system) (status int) {
	debug.SetMemoryLimit(512 << 20)
	debug.SetGCPercent(startupGC)
	a := newApp(sys)
	defer func() {
		if p := recover(); p != nil {
			status = a.report(runerr.Panicked())
		}
	}()
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(sys.stdin)
	root.SetOut(sys.stdout)
	root.SetErr(sys.stderr)
	cmd, err := root.ExecuteContextC(waiting(ctx, a))
	if lost := a.lost(); lost != nil {
		err = lost
	}
	if err != nil {
		status = a.report(err)
		if cmd != nil && cmd.Name() == "exec" && cmd.Parent() == root {
			status = exitOurs
		}
		return status
	}
	return a.status
}

// sink is standard output. It keeps the error of the first failed write, so that the
// program reports every lost answer, help texts included.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// unprinted returns the RunError for a failed write to standard output. It returns nil and
// a RunError as they are.
func unprinted(err error) error {
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	return runerr.New(result.CodeInternal, "standard output could not be written: "+runerr.Reason(err),
		"the answer did not reach its reader; run the command again", runerr.Because(err))
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "fiador",
		Short: "the safety catch for agent intents",
		Long: `Fiador reads what an agent wants to do, decides under a policy profile whether
it may, and answers BUNDLE (allowed, with the plan), CLARIFY (not yet, with
questions) or REFUSE (no, with the reason).

Nothing is sent anywhere but prompts, to models that --model-adapters lists, and
nothing is asked on the terminal.

Exit codes:
  0  accepted, valid, the same, or printed
  1  rejected, a check failed, or different
  2  no answer`,
		Example: `  fiador demo
  fiador run intent.json
  fiador run intent.json --policy strict --bundle bundle.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.prepare()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(helpHint(cmd), "%s", err)
	})
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colour on the terminal: auto, always or never")
	root.AddCommand(
		runCommand(a), checkCommand(a), execCommand(a), safeRunCommand(a), conformanceCommand(a), transcriptCommand(a), explainCommand(a), policyCommand(a), initCommand(a), ledgerCommand(a), doctorCommand(a), sandboxCommand(a), verifyCommand(a), digestCommand(a), compareCommand(a), packCommand(a), applyCommand(a), reproduceCommand(a), fingerprintCommand(a),
		demoCommand(a), schemaCommand(a), versionCommand(a),
		exitCodesTopic(), environmentTopic(),
	)
	complete(root, "color", "auto", "always", "never")
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			strictCompletion(cmd)
		}
	}
	return root
}

// prepare sets up the state that every command needs before it runs.
func (a *app) prepare() error {
	a.runner = inRunner(a.env)
	color := a.color
	if color == "auto" && a.env("FIADOR_COLOR") != "" {
		color = a.env("FIADOR_COLOR")
	}
	var err error
	if a.term.color, err = colored(color, a.tty, a.env); err != nil {
		return err
	}
	if a.page.color, err = colored(color, a.outTTY, a.env); err != nil {
		return err
	}
	a.specs, err = specs.New()
	return err
}

// report writes to stderr why a command ended without a decision: one line of canonical
// JSON for a RunError, and words for people on a terminal.
func (a *app) report(err error) int {
	var re *result.RunError
	if !errors.As(err, &re) {
		re = runerr.Internal("internal error: no decision was made", err)
	}
	line := re.Line()
	if a.github || a.runner {
		line = []byte(screen.Inert(string(line)))
	}
	if a.tty {
		msg := string(re.Code) + ": " + re.Message
		if re.Details[detailUsage] == true {
			msg = re.Message
		}
		a.term.message(msg)
		a.term.hint(re.Remedy())
	}
	_, _ = a.stderr.Write(line)
	return exitError
}

// print writes a command's answer to stdout. A write that fails ends the command with
// status 2, whatever the decision is.
func (a *app) print(b []byte) error {
	_, err := a.stdout.Write(b)
	return unprinted(err)
}

func helpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("%q lists what it takes", cmd.CommandPath()+" --help")
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasParent() {
		return usage(nearCommand(cmd, args[0]), "unknown command %q", args[0])
	}
	return usage(helpHint(cmd), "unexpected argument %q", args[0])
}

// groupArgs refuses an argument that is no command of the group.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(nearCommand(cmd, args[0]), "unknown command %q", cmd.Name()+" "+args[0])
}

// nearCommand returns the hint for an unknown command name.
func nearCommand(cmd *cobra.Command, name string) string {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := specs.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near)
	}
	return helpHint(cmd)
}

func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage(helpHint(cmd), "%s is missing", names[len(args)])
		case len(args) > len(names):
			return usage(helpHint(cmd), "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// notEmpty refuses flags with an empty value. An empty value would have the effect of a
// flag that is left out, and the caller does not mean that.
func notEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usage(helpHint(cmd), "--%s is empty", name)
		}
	}
	return nil
}

// choice refuses a flag value that is not in its list.
func choice(flag, value string, known []string) error {
	for _, k := range known {
		if k == value {
			return nil
		}
	}
	hint := "one of: " + strings.Join(known, ", ")
	if near := specs.Nearest(value, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return unfit(hint, "unknown %s %q", flag, value)
}

func complete(cmd *cobra.Command, flag string, values ...string) {
	fixed := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, fixed); err != nil {
		panic(err)
	}
}

func atMostOne() cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(helpHint(cmd), "unexpected argument %q", args[1])
		}
		return nil
	}
}
