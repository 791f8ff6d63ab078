package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/report"
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

// Compiling the policy leaves a few MiB behind and needs no collection before
// that; a process that decides one small intent then ends without one. Beyond
// largeIntent bytes the runtime collects as usual, to keep the peak low. Many intents
// leave much behind and little of it lives on, so collecting seldom saves a tenth of
// the time.
const (
	startupGC   = 400
	usualGC     = 100
	manyGC      = 800
	largeIntent = 64 << 10
)

// system is everything of the machine that a command may touch.
type system struct {
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
	tty     bool // stderr is a terminal
	outTTY  bool // stdout is a terminal
	env     func(string) string
	environ []string // all of it, for a command that gets all of it
	now     func() time.Time
	rand    io.Reader
	busy    *occupied // while something is executed or recorded: a Ctrl-C waits for its end; or nil
}

// app is one invocation: its system, and what commands share.
type app struct {
	system
	term    terminal  // stderr
	page    terminal  // stdout, for answers that are words
	direct  io.Writer // stdout, for what is not this program's answer: a failed write is not its failure
	color   string
	github  bool // stderr is read by a runner of workflow commands
	runner  bool // so it is by what the environment says
	specs   *specs.Set
	guarded []string // folders in which no link is followed to what is written
	status  int      // exit status of a command that ended without an error
}

// usage is the error of a call that cannot be understood, or names what is not there.
func usage(hint, format string, args ...any) error {
	return misuse(result.CodeUnreadable, hint, fmt.Sprintf(format, args...))
}

// unfit is the error of a call that combines what does not go together, or chooses what
// is no choice.
func unfit(hint, format string, args ...any) error {
	return misuse(result.CodeProfile, hint, fmt.Sprintf(format, args...))
}

func misuse(code result.Code, hint, msg string) error {
	return &result.RunError{Code: code, Message: msg, Hint: hint, Details: map[string]any{detailUsage: true}}
}

// detailUsage is the member of details that says that the call is at fault.
const detailUsage = "usage"

// run is the whole program but for the process around it: it returns the exit
// status. A panic anywhere below is RUN_E007.
func run(ctx context.Context, args []string, sys system) (status int) {
	debug.SetMemoryLimit(512 << 20)
	debug.SetGCPercent(startupGC)
	out := &sink{w: sys.stdout}
	sys.stdout = out
	a := &app{system: sys, term: terminal{w: sys.stderr}, page: terminal{w: sys.stdout}, direct: out.w}
	defer func() {
		if p := recover(); p != nil {
			status = a.report(runerr.Panicked())
		}
	}()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(sys.stdin)
	root.SetOut(sys.stdout)
	root.SetErr(sys.stderr)
	cmd, err := root.ExecuteContextC(a.waiting(ctx))
	if failure := out.failure(); failure != nil {
		err = failure
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

// sink is standard output. It keeps the first failed write, so that no answer
// can be lost unseen, help texts included.
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

// failure is the RunError for output that did not arrive.
func (s *sink) failure() error {
	if s.err == nil {
		return nil
	}
	return runerr.New(result.CodeInternal, "standard output could not be written: "+reason(s.err),
		"the answer did not reach its reader; run the command again", runerr.Because(s.err))
}

func (a *app) root() *cobra.Command {
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
		a.runCommand(), a.checkCommand(), a.execCommand(), a.safeRunCommand(), a.conformanceCommand(), a.transcriptCommand(), a.explainCommand(), a.policyCommand(), a.initCommand(), a.ledgerCommand(), a.doctorCommand(), a.sandboxCommand(), a.verifyCommand(), a.digestCommand(), a.compareCommand(), a.packCommand(), a.applyCommand(), a.reproduceCommand(), a.fingerprintCommand(),
		a.demoCommand(), a.schemaCommand(), a.versionCommand(),
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

// prepare is what every command needs before it runs.
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

// report says on stderr why a command ended without a decision: a line of
// canonical JSON for a RunError, and words for people on a terminal.
func (a *app) report(err error) int {
	var re *result.RunError
	if !errors.As(err, &re) {
		re = runerr.Internal("internal error: no decision was made", err)
	}
	line := re.Line()
	if a.github || a.runner {
		line = []byte(report.Inert(string(line)))
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

// print writes a command's answer to stdout. A write that fails ends the
// command with status 2, whatever was decided.
func (a *app) print(b []byte) error {
	_, err := a.stdout.Write(b)
	if err != nil {
		return (&sink{err: err}).failure()
	}
	return nil
}

// reason is the operating system's words for an error, without operation and
// path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var se *os.SyscallError
	if errors.As(err, &se) {
		err = se.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return strings.ToLower(err.Error())
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

// groupArgs refuses what is no command of a group.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(nearCommand(cmd, args[0]), "unknown command %q", cmd.Name()+" "+args[0])
}

// nearCommand is the hint for a command that is none.
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

// notEmpty refuses flags that were given without a value: what stands for a flag that was
// left out is not what the caller meant.
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
