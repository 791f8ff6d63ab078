package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// exitOurs is the exit status of exec for everything that is not the command's own.
const exitOurs = 125

type execFlags struct {
	gateFlags
	request     string
	work        string
	write       string
	timeout     time.Duration
	memoryMB    int
	cpuCores    int
	maxChildren int
	allowFork   bool
	read        []string
	env         []string
	isolation   string
	evidence    string
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...]",
		Short: "run one command in the sandbox",
		Long: `Exec runs one command in the sandbox of a profile, in a folder as it is given,
and passes its streams through as they come. What the command writes is kept apart
and judged when it has ended: if it ended with 0 and wrote only what and where it
may, that is applied to the folder, and otherwise none of it is.

With --request FILE it executes a request of the execution contract (YAML or
JSON) and prints an execution report, one line of canonical JSON.

The profile's allowed_commands apply, its limits can only be narrowed, and nothing
of the environment reaches the command.

Exit codes:
  0 to 255  the command's own; 126 not executable, 127 not found, 128+n signal n,
            137 out of memory, 143 over its time
  125       nothing of the command: usage, policy, no sandbox, or the command
            broke a limit or wrote where it may not; standard error says which`,
		Example: `  fiador exec --policy dev -- make test
  fiador exec --policy dev --write direct --timeout 5m -- cargo build
  fiador exec --work site -- node build.js
  fiador exec --request request.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.exec(cmd, f, args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	f.policy, f.tree = "default", "."
	flags.Var(&once{value: &f.policy}, "policy", "policy profile: strict, default, dev, or a folder with a profile.json")
	flags.StringVar(&f.request, "request", "", "execution request to execute instead of a command; - is standard input")
	flags.StringVar(&f.work, "work", ".", "folder that the command works in")
	flags.StringVar(&f.write, "write", string(sandbox.Staged), "staged: apply what was written when it is accepted; direct: let the command write into the folder, for large trees; what it writes is not judged")
	flags.DurationVar(&f.timeout, "timeout", 0, "time of the command (default: the profile's)")
	flags.IntVar(&f.memoryMB, "memory-mb", 0, "memory in MiB (default: the profile's)")
	flags.IntVar(&f.cpuCores, "cpu-cores", 0, "processors (default: the profile's)")
	flags.IntVar(&f.maxChildren, "max-children", 0, "processes beside the first; 0: none (default: the profile's)")
	flags.BoolVar(&f.allowFork, "allow-fork", true, "whether the command may start processes at all")
	flags.StringArrayVar(&f.read, "read", nil, "file or folder that the command may read besides, or that a request may ask for; may be repeated")
	flags.StringArrayVar(&f.env, "env", nil, "NAME=VALUE for the command, where the profile allows the name; may be repeated")
	flags.StringVar(&f.isolation, "isolation", "", "exactly this isolation: full or confined (default: the strongest there is)")
	flags.StringVar(&f.evidence, "evidence", "", "new folder for what was observed: runner.json, stdout, stderr")
	complete(cmd, "policy", harness.Profiles()...)
	complete(cmd, "write", string(sandbox.Staged), string(sandbox.Direct))
	complete(cmd, "isolation", string(sandbox.Full), string(sandbox.Confined))
	return cmd
}

func (a *app) exec(cmd *cobra.Command, f execFlags, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	work, err := folder("work", f.work)
	if err != nil {
		return err
	}
	read, err := readPaths(f.read)
	if err != nil {
		return err
	}
	env, err := assignments(f.env)
	if err != nil {
		return err
	}
	gate, err := a.profileGate(ctx, f.gateFlags)
	if err != nil {
		return err
	}
	e := a.execution()
	defer e.close(ctx, a)
	if err := errors.Join(a.recovered(ctx, e, work), e.openEvidence(f.evidence)); err != nil {
		return err
	}
	if f.request != "" {
		return a.execRequest(ctx, f, e, gate, work, read)
	}
	task, err := gate.Exec(harness.Exec{
		Argv: args, Env: env, Work: work, Write: sandbox.Write(f.write), Read: read,
		Isolation: sandbox.Isolation(f.isolation), Timeout: f.timeout,
		Limits: f.limits(cmd), Streams: a.streams(),
	})
	if err != nil {
		return err
	}
	if err := makeRoots(work, task.Sandbox.Roots); err != nil {
		return err
	}
	p, err := harness.Perform(ctx, e.host, task)
	if err != nil {
		return err
	}
	return errors.Join(a.execEnded(ctx, f, e, work, p), p.Close())
}

// makeRoots makes the folders that direct writes are kept to, for a command could not.
func makeRoots(work string, roots []string) error {
	root, err := os.OpenRoot(work)
	if err != nil {
		return usage("name a folder that can be read", "--work %q: %s", displayFolder(work), reason(err))
	}
	defer root.Close()
	for _, r := range roots {
		if err := root.MkdirAll(r, 0o777); err != nil {
			return usage("make it, or use --write staged", "folder %q cannot be made: %s", clean(r), reason(err))
		}
	}
	return nil
}

// check refuses what cannot be meant before anything is looked at.
func (f execFlags) check(cmd *cobra.Command, args []string) error {
	if err := choice("--write", f.write, []string{string(sandbox.Staged), string(sandbox.Direct)}); err != nil {
		return err
	}
	if f.isolation != "" {
		if err := choice("--isolation", f.isolation, []string{string(sandbox.Full), string(sandbox.Confined)}); err != nil {
			return err
		}
	}
	switch {
	case f.request == "" && len(args) == 0:
		return usage("put the command after --, as in: fiador exec -- node build.js", "COMMAND is missing")
	case f.request == "":
		if args[0] == "" {
			return usage("put the command after --", "the command is empty")
		}
		return nil
	case len(args) > 0:
		return usage("the request names its command", "unexpected argument %q", args[0])
	}
	for _, flag := range []string{"write", "timeout", "memory-mb", "cpu-cores", "max-children", "allow-fork", "env", "isolation"} {
		if cmd.Flags().Changed(flag) {
			return usage("the request says it", "--%s does not go together with --request", flag)
		}
	}
	return nil
}

func (f execFlags) limits(cmd *cobra.Command) harness.ExecLimits {
	given := func(flag string, value *int) *int {
		if !cmd.Flags().Changed(flag) {
			return nil
		}
		return value
	}
	return harness.ExecLimits{
		MemoryMB: given("memory-mb", &f.memoryMB), CPUCores: given("cpu-cores", &f.cpuCores),
		MaxChildren: given("max-children", &f.maxChildren), NoFork: !f.allowFork,
	}
}

// streams pass the command's streams through. A terminal does not reach the command:
// it would let it type there.
func (a *app) streams() harness.Streams {
	s := harness.Streams{Stdout: a.stdout, Stderr: a.stderr}
	if a.stdin != nil && !term.IsTerminal(int(a.stdin.Fd())) {
		s.Stdin = a.stdin
	}
	return s
}

// assignments reads NAME=VALUE words.
func assignments(list []string) (map[string]string, error) {
	env := map[string]string{}
	for _, e := range list {
		name, value, ok := cutAssignment(e)
		if !ok {
			return nil, usage("as in --env CI=true", "--env %q is no NAME=VALUE", clean(e))
		}
		if _, twice := env[name]; twice {
			return nil, usage("say it once", "--env gives %q twice", clean(name))
		}
		env[name] = value
	}
	return env, nil
}

func cutAssignment(s string) (name, value string, ok bool) {
	for i := range len(s) {
		if s[i] == '=' {
			return s[:i], s[i+1:], i > 0
		}
	}
	return "", "", false
}

// profileGate is a gate of a profile without layers: exec decides about no intent.
func (a *app) profileGate(ctx context.Context, f gateFlags) (*harness.Gate, error) {
	s, err := a.sources(f)
	if err != nil {
		return nil, err
	}
	s.Repo = nil
	r, err := s.Resolve(a.specs)
	if err != nil {
		return nil, err
	}
	return harness.ProfileGate(r), nil
}

// execEnded applies what was accepted and says on standard error why something was not.
func (a *app) execEnded(ctx context.Context, f execFlags, e *executing, work string, p *harness.Performed) error {
	if err := a.writeEvidence(e, p); err != nil {
		return err
	}
	code, reasons := p.Observed.Judge()
	if a.status = code; code == 0 {
		return p.Promote(ctx, e.state, work)
	}
	why, hint := whyEnded(p.Observed), contract.ActionHint(harness.Interpret(p.Observed.Command, code).Action)
	if msg, remedy := p.Diagnosis(); msg != "" && (why == "" || p.Observed.Command.NotExecutable) {
		why, hint = msg, remedy
	}
	if why != "" {
		a.ended(why, hint, code, reasons)
	}
	return nil
}

// whyEnded says why a command ended as it did, or nothing where that is its own
// business: it exited with its own code, or died of a signal.
func whyEnded(o evidence.Observed) string {
	end := o.Command
	switch {
	case end.OutOfMemory && (end.Code != 0 || end.Signal != 0):
		return "the command ran out of memory"
	case end.TimedOut:
		return "the command was over its time"
	case end.NotFound:
		return fmt.Sprintf("command %q is not there, or its folder or interpreter is not", clean(end.Argv[0]))
	case end.NotExecutable:
		return fmt.Sprintf("command %q cannot be executed", clean(end.Argv[0]))
	case len(o.Reasons) > 0:
		return "what the command wrote was rejected: none of it was applied"
	}
	return ""
}

// ended is the line on standard error for an end that was not the command's own.
func (a *app) ended(why, hint string, code int, reasons []string) {
	list := make([]any, len(reasons))
	for i, r := range reasons {
		list[i] = r
	}
	e := &result.RunError{Code: result.CodeEvidence, Message: why, Hint: hint, Details: map[string]any{"exit_code": code, "reasons": list}}
	if a.tty {
		a.term.message(e.Message)
		for _, r := range reasons {
			a.term.line("  " + plain(r))
		}
		a.term.hint(hint)
		return
	}
	_, _ = a.stderr.Write(e.Line())
}

// execRequest executes a request and prints its report.
func (a *app) execRequest(ctx context.Context, f execFlags, e *executing, gate *harness.Gate, work string, read []string) error {
	src, err := a.read(ctx, f.request, harness.MaxRequestBytes)
	if err != nil {
		return err
	}
	r, err := harness.ParseExecRequest(a.specs, src.path, src.bytes)
	if err != nil {
		return err
	}
	deps := harness.Deps{Now: a.now, Rand: a.rand, Specs: a.specs, Runner: e.host}
	rep, p, err := harness.ExecRequested(ctx, deps, gate, r, work, read, e.state)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := a.writeEvidence(e, p); err != nil {
		return err
	}
	b, err := rep.Bytes()
	if err != nil {
		return err
	}
	if a.tty && len(rep.Reasons) > 0 {
		msg, hint := p.Diagnosis()
		if msg != "" {
			a.term.message(msg)
		}
		a.term.hint(cmp.Or(hint, contract.ActionHint(rep.Action)))
	}
	if a.status = rep.ExitCode; len(rep.Reasons) == 0 {
		a.status = exitAccepted
	} else if a.status == exitAccepted {
		a.status = exitOurs
	}
	return a.print(b)
}
