package runcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/decisions"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// ExitOurs is the exit status of exec for every end that is not the command's own.
const ExitOurs = 125

// execFlags are the flags of exec. A limit counts only if its flag is given, and can
// only narrow that of the profile. An empty isolation is the strongest that can be had.
// request names a file that takes the place of a command and of most flags. evidence is
// a new folder for the observed facts.
type execFlags struct {
	policies.GateFlags
	policies.ToolFlags
	keptFlags
	printIntent bool
	request     string
	line        string
	dir         string
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
	remote      remotes.Flags
}

// The values of --write and --isolation.
var (
	writes     = []string{string(sandbox.Staged), string(sandbox.Direct)}
	isolations = []string{string(sandbox.Full), string(sandbox.Confined)}
)

// Exec returns the command that runs one command, or one request, in the sandbox.
func Exec(a *cli.App) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:         "exec [flags] -- COMMAND [ARGUMENT...]",
		Short:       "run one command in the sandbox",
		Annotations: map[string]string{cli.FailsWith: strconv.Itoa(ExitOurs)},
		Long: `Exec runs one command in the sandbox of a profile, on a folder as it is, and passes
the command's streams through as they come. What the command writes is kept apart
and judged after the command has ended. If the command ended with 0 and wrote only
what and where it may, exec applies that to the folder. Otherwise it applies nothing.

With --request FILE it executes a request of the execution contract (YAML or JSON) and
prints an execution report, one line of canonical JSON. With --tools the command must be
that of the adapter that the request names. The policy decides the tool too, and the
adapter's limits hold as well.

With --line LINE it runs a line of a shell, in --dir of the work folder. A line of
plain words is decided command by command, as fiador hook decides it; any other line is
one command of a shell. A line writes into the work folder itself (--write direct),
unless --write says staged. No pack can prove a line.

The command is decided first, as fiador run decides an intent of this one action:
by the profile, --org-policy, and .fiador/policy beneath --tree. With REFUSE or
CLARIFY nothing is started. --print-intent prints that intent, and executes nothing.
Flags can only narrow the profile's limits, and nothing of the environment reaches
the command.

--ledger records the decision and the end of the execution. --pack writes a pack that
proves both elsewhere. No pack can hold a symbolic link or a truncated stream, so with
--pack each of these rejects the execution, as in a run. With --remote a truncated
stream does, because a worker sends back only the bytes that are kept.

Exit codes:
  0 to 255  the command's own; 126 not executable, 127 not found, 128+n signal n,
            137 out of memory, 143 over its time
  125       not the command's own: usage, REFUSE or CLARIFY, no sandbox, or the
            command broke a limit or wrote where it may not. Standard error says
            which`,
		Example: `  fiador exec --policy dev -- make test
  fiador exec --policy dev --write direct --timeout 5m -- cargo build
  fiador exec --work site -- node build.js
  fiador exec --request request.yaml
  fiador exec --request request.yaml --tools ../tools
  fiador exec --print-intent -- npm publish | fiador explain --intent -`,
		RunE: func(cmd *cobra.Command, args []string) error { return runExec(a, cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.keptFlags.register(cmd, "execution")
	f.remote.Register(cmd)
	flags.BoolVar(&f.printIntent, "print-intent", false, "print the intent that is decided, and execute nothing")
	flags.StringVar(&f.request, "request", "", "execution request to execute instead of a command; - is standard input")
	flags.StringVar(&f.line, "line", "", "line for sh, in the place of a command")
	flags.StringVar(&f.dir, "dir", ".", "folder beneath --work that the line starts in")
	flags.StringVar(&f.work, "work", ".", "folder that the command works in")
	flags.StringVar(&f.write, "write", string(sandbox.Staged), "staged: apply what was written if it is accepted; direct: let the command write into the folder itself, for large trees. With direct nothing is judged before it is there")
	flags.DurationVar(&f.timeout, "timeout", 0, "time of the command (default: the profile's)")
	flags.IntVar(&f.memoryMB, "memory-mb", 0, "memory in MiB (default: the profile's)")
	flags.IntVar(&f.cpuCores, "cpu-cores", 0, "processors (default: the profile's)")
	flags.IntVar(&f.maxChildren, "max-children", 0, "processes besides the first; 0: none (default: the profile's)")
	flags.BoolVar(&f.allowFork, "allow-fork", true, "whether the command may start processes at all")
	flags.StringArrayVar(&f.read, "read", nil, "further file or folder that the command may read, or that a request may ask for; may be repeated")
	flags.StringArrayVar(&f.env, "env", nil, "NAME=VALUE for the command, where the profile allows the name; may be repeated")
	flags.StringVar(&f.isolation, "isolation", "", "exactly this isolation: full or confined (default: the strongest there is)")
	flags.StringVar(&f.evidence, "evidence", "", "new folder for what was observed: runner.json, stdout, stderr")
	cli.Complete(cmd, "write", writes...)
	cli.Complete(cmd, "isolation", isolations...)
	return cmd
}

// runExec decides a command or a request and executes it if it is allowed. The gate
// opens in the background, while the request is read. With --print-intent it only
// prints the intent. Its errors end with exit status 125 (specs/execution.md, Exit
// status of exec).
func runExec(a *cli.App, cmd *cobra.Command, f execFlags, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	if f.line != "" && !cmd.Flags().Changed("write") {
		f.write = string(sandbox.Direct)
	}
	ctx := folders.Waiting(cmd.Context(), a)
	work, err := folders.Named("work", f.work)
	if err != nil {
		return err
	}
	read, err := sandboxes.ReadPaths("--read", f.read)
	if err != nil {
		return err
	}
	if err := apartFromExec(a, f, work); err != nil {
		return err
	}
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return err
	}
	opened := policies.OpenGateAhead(ctx, a, sources)
	asked, err := askExec(a, cmd, f, args, work, read)
	if err != nil {
		return err
	}
	gate, err := opened()
	if err == nil {
		err = f.Use(a, gate)
	}
	if err != nil {
		return err
	}
	req, err := asked.run(gate)
	if err != nil {
		return err
	}
	if req.RunID = f.runID; f.printIntent {
		return a.Print(req.Source)
	}
	return execDecided(ctx, a, f, gate, work, req, asked.request)
}

// execAsked is the task of an exec: a command of the command line, or a request.
type execAsked struct {
	request *request.Request // nil for a command of the command line
	run     func(*harness.Gate) (harness.Request, error)
}

// askExec reads the task of an exec. It needs no gate; the function in its result makes
// the request for harness.Run once there is one (specs/execution.md, Execs and requests
// are intents).
func askExec(a *cli.App, cmd *cobra.Command, f execFlags, args []string, work string, read []string) (execAsked, error) {
	if f.request != "" {
		src, err := a.Read(cmd.Context(), f.request, request.MaxBytes)
		if err != nil {
			return execAsked{}, err
		}
		r, err := request.Parse(a.Specs, src.Path, src.Bytes)
		return execAsked{&r, func(g *harness.Gate) (harness.Request, error) {
			req, err := g.Requested(r, src.Path, work, read)
			if err == nil {
				req.Exec.Packed = f.pack != ""
			}
			return req, err
		}}, err
	}
	env, err := assignments(f.env)
	if err != nil {
		return execAsked{}, err
	}
	x := harness.Exec{
		Argv: args, Env: env, Work: work, Write: sandbox.Write(f.write), Read: read,
		Isolation: sandbox.Isolation(f.isolation), Timeout: f.timeout,
		Limits: f.limits(cmd), Streams: streams(a), Packed: f.pack != "",
	}
	if f.line != "" {
		req, err := lineRequest(f.line, f.dir, x)
		return execAsked{nil, func(*harness.Gate) (harness.Request, error) { return req, err }}, err
	}
	return execAsked{nil, func(*harness.Gate) (harness.Request, error) {
		source, err := x.Intent()
		return harness.Request{
			Source: source, Path: "exec", Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone,
			Folders: harness.Folders{Tree: work, Work: work}, Exec: &x,
		}, err
	}}, nil
}

// execDecided decides a command, executes it if it is allowed, and delivers the result.
// Before it starts anything, it opens the ledger, the pack and the evidence. It also
// ends what a killed command began on the work folder. A request whose expectation a
// record or a pack cannot express is refused (RS8).
func execDecided(ctx context.Context, a *cli.App, f execFlags, gate *harness.Gate, work string, req harness.Request, r *request.Request) (err error) {
	log, err := ledgers.OpenLog(ctx, a, f.RecordFlags)
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
	}
	if what := unprovable(req.Exec.Expect, f.pack != ""); what != "" && (log != nil || f.pack != "") {
		return runerr.New(result.CodeProfile, what,
			"leave the expectation out, or execute the request without --ledger and --pack", runerr.Rule("RS8"), runerr.At("/outputs"))
	}
	w, err := packs.Open(f.pack)
	if err != nil {
		return err
	}
	if w != nil {
		defer func() { _ = w.Abort() }()
	}
	e := execution(a)
	defer e.close(ctx, a)
	e.state, err = folders.Recovered(ctx, a, work)
	if err := errors.Join(err, e.openEvidence(f.evidence)); err != nil {
		return err
	}
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Runner: e.host, Recorder: ledgers.Recorder(a, log)}
	leave, err := f.remote.Use(ctx, a, &deps)
	if err != nil {
		return err
	}
	defer leave()
	rep, err := harness.Run(ctx, deps, gate, req)
	if err != nil {
		return sandboxes.Named(ctx, a, err)
	}
	to := f.sinks(a, w)
	p := rep.Execution
	if p == nil {
		if err := harness.Deliver(ctx, deps, rep, to); err != nil {
			return err
		}
		return execRefused(a, harness.End{Request: req, Report: rep})
	}
	if e.evidence != nil {
		to.Evidence = e.keep
	}
	x := ran{asked: r, p: p}
	to.Accepts = x.accepts
	to.Promote = &harness.Promotion{Folder: func() (string, error) { return work, nil }, State: e.state}
	if err = harness.Deliver(ctx, deps, rep, to); err == nil {
		err = execEnded(a, x)
	}
	return errors.Join(err, p.Close())
}

// unprovable names an expectation of a request that no RunResult, or no pack, can express.
// It returns empty if there is none.
func unprovable(x execute.Expect, packed bool) string {
	switch {
	case x.Code != 0:
		return "a request that expects exit code " + strconv.Itoa(x.Code) + " can be neither recorded nor packed: a RunResult is accepted with exit code 0 alone"
	case packed && (x.Stdout || x.Stderr || len(x.Artifacts) > 0):
		return "a request that expects streams or artifacts cannot be packed: a pack proves outputs and exit codes"
	}
	return ""
}

// execRefused prints why the command was not started: in words, and then as one line of
// JSON. A terminal gets the words and the remedy.
func execRefused(a *cli.App, end harness.End) error {
	a.Status = ExitOurs
	refused, item := runerr.Refused(end.Path, end.Decision), decisions.ItemOf(end)
	item.Made = true
	if a.Words() {
		if err := report.Human(a.Term.W, a.Term.Color, item); err != nil {
			return err
		}
		if !slices.ContainsFunc(end.Decision.Findings, func(f kernel.Result) bool { return f.Fix == refused.Remedy() }) {
			a.Term.Hint(refused.Remedy())
		}
		return nil
	}
	var told bytes.Buffer
	if err := report.Human(&told, a.Term.Color, item); err != nil {
		return err
	}
	told.Write(refused.Line())
	text := told.String()
	if a.Runner {
		text = screen.Inert(text)
	}
	_, _ = io.WriteString(a.Stderr, text)
	return nil
}

// apartFromExec refuses places that the command could reach, and places that exclude each
// other.
func apartFromExec(a *cli.App, f execFlags, work string) error {
	if err := f.keptFlags.check(a); err != nil {
		return err
	}
	var p cli.Places
	f.ToolFlags.Places(&p)
	ledgers.RecordPlaces(a, f.RecordFlags, &p)
	p.Add(cli.Answers|cli.Fresh, "--receipt", "receipt", f.receipt)
	p.Add(cli.Written|cli.Kept, "--evidence", "evidence", f.evidence)
	p.Add(cli.Written|cli.Packs, "--pack", "pack", f.pack)
	p.Add(cli.Reached, "--work", "work", f.work)
	p.Add(cli.Guarded, "--tree", "tree", f.Tree)
	p.Add(cli.Guarded|cli.Exposed|cli.Worked|cli.Changed, "--work", "work", work)
	p.Add(cli.Exposed|cli.Worked, "--read", "read", f.read...)
	return a.CheckPlaces(p)
}

// check refuses contradictory flags before the command looks at any file.
func (f execFlags) check(cmd *cobra.Command, args []string) error {
	if err := cli.Choice("--write", f.write, writes); err != nil {
		return err
	}
	if f.isolation != "" {
		if err := cli.Choice("--isolation", f.isolation, isolations); err != nil {
			return err
		}
	}
	if f.pack != "" && f.write == string(sandbox.Direct) {
		return cli.Unfit("let the writes be staged", "--pack does not go together with --write direct, of which nothing is judged")
	}
	if line := cmd.Flags().Changed("line"); line || cmd.Flags().Changed("dir") {
		return f.checkLine(cmd, args)
	}
	switch {
	case f.request == "" && len(args) == 0:
		return cli.Usage("put the command after --, as in: fiador exec -- node build.js", "COMMAND is missing")
	case f.request == "" && args[0] == "":
		return cli.Usage("put the command after --", "the command is empty")
	case f.request == "" && f.Tools != "":
		return cli.Unfit("leave it out, or write the command as a request", "--tools belongs to --request")
	case f.request == "":
		return nil
	case len(args) > 0:
		return cli.Unfit("the request names its command", "unexpected argument %q", args[0])
	}
	for _, flag := range []string{"write", "timeout", "memory-mb", "cpu-cores", "max-children", "allow-fork", "env", "isolation"} {
		if cmd.Flags().Changed(flag) {
			return cli.Unfit("the request says it", "--%s does not go together with --request", flag)
		}
	}
	return nil
}

// limits returns the limits that flags give. A limit without its flag is nil: the
// profile decides it.
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

// streams returns the streams that the command gets. A terminal as standard input is left
// out, because the command could type there.
func streams(a *cli.App) harness.Streams {
	s := harness.Streams{Stdout: a.Stdout, Stderr: a.Stderr}
	if a.Stdin != nil && !cli.IsTerminal(a.Stdin) {
		s.Stdin = a.Stdin
	}
	return s
}

// assignments parses NAME=VALUE words. It refuses a word without a name and a name that
// is given twice. The profile decides later whether a name is allowed.
func assignments(list []string) (map[string]string, error) {
	env := map[string]string{}
	for _, e := range list {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return nil, cli.Usage("as in --env CI=true", "--env %q is no NAME=VALUE", canon.Clean(e))
		}
		if _, twice := env[name]; twice {
			return nil, cli.Unfit("say it once", "--env gives %q twice", canon.Clean(name))
		}
		env[name] = value
	}
	return env, nil
}

// profileGate opens a gate of a profile without layers. It decides no intent.
func profileGate(ctx context.Context, a *cli.App, f policies.GateFlags) (*harness.Gate, error) {
	s, err := policies.Sources(f)
	if err != nil {
		return nil, err
	}
	s.Repo = nil
	r, err := s.Resolve(a.Specs)
	if err != nil {
		return nil, err
	}
	return harness.ProfileGate(r), nil
}

// ran is a command that has ended, with the facts that exec reports.
type ran struct {
	asked   *request.Request // nil for a command of the command line
	p       *execute.Performed
	code    int // the exit status
	reasons []string
	answer  []byte // the report on a request
}

// accepts reports whether the files that the command wrote may be applied. It also sets
// the exit status and the reasons. A request may expect another exit code than 0.
func (x *ran) accepts(p *execute.Performed) (_ bool, err error) {
	x.code, x.reasons = p.Observed.Judge()
	if x.asked != nil {
		rep := p.Report(*x.asked)
		x.code, x.reasons = rep.ExitCode, rep.Reasons
		if x.answer, err = rep.Bytes(); err != nil {
			return false, err
		}
	}
	accepted := len(x.reasons) == 0
	switch {
	case accepted:
		x.code = cli.ExitAccepted // also for a request that expects another code than 0
	case x.direct() || x.code == cli.ExitAccepted:
		x.code = ExitOurs // never the command's own code
	}
	return accepted, nil
}

// direct reports whether the command wrote to control paths of the folder itself.
func (x *ran) direct() bool { return x.p.Direct() && len(x.p.Observed.Reasons) > 0 }

// execEnded reports how the command ended. A request gets a report on standard output. A
// command of the command line that was not accepted gets the reason on standard error.
func execEnded(a *cli.App, x ran) error {
	a.Status = x.code
	p := x.p
	code, _ := p.Observed.Judge()
	hint := contract.ActionHint(execute.Interpret(p.Observed.Command, code).Action)
	msg, remedy := p.Diagnosis()
	if x.asked != nil {
		if a.TTY && len(x.reasons) > 0 {
			if msg != "" {
				a.Term.Message(msg)
			}
			a.Term.Hint(cmp.Or(remedy, hint))
		}
		return a.Print(x.answer)
	}
	why := whyEnded(p.Observed)
	if msg != "" && (why == "" || p.Observed.Command.NotExecutable) {
		why, hint = msg, remedy
	}
	if x.direct() {
		why = "the command wrote to control paths: new ones were removed, and others are as the command left them"
	}
	if why != "" && x.code != cli.ExitAccepted {
		sayEnded(a, why, hint, x.code, x.reasons)
	}
	return nil
}

// whyEnded returns why a command ended as it did. It returns empty for an end of the
// command's own: it exited with its own code, or died of a signal.
func whyEnded(o evidence.Observed) string {
	end := o.Command
	switch {
	case end.OutOfMemory && (end.Code != 0 || end.Signal != 0):
		return "the command ran out of memory"
	case end.TimedOut:
		return "the command was over its time"
	case end.NotFound:
		return fmt.Sprintf("command %q is not there, or its folder or interpreter is not", canon.Clean(end.Argv[0]))
	case end.NotExecutable:
		return fmt.Sprintf("command %q cannot be executed", canon.Clean(end.Argv[0]))
	case len(o.Reasons) > 0:
		return "what the command wrote was rejected: none of it was applied"
	}
	return ""
}

// sayEnded writes the RunError line for an end that was not the command's own. A terminal
// gets it in words, with the reasons.
func sayEnded(a *cli.App, why, hint string, code int, reasons []string) {
	e := runerr.New(result.CodeEvidence, why, hint, runerr.With("exit_code", code), runerr.With("reasons", cli.OrEmpty(reasons)))
	if a.Words() {
		a.Term.Message(e.Message)
		for _, r := range reasons {
			a.Term.Line("  " + screen.Plain(r))
		}
		a.Term.Hint(e.Remedy())
		return
	}
	_, _ = a.Stderr.Write(e.Line())
}
