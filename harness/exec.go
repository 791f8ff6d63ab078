package harness

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// Exec is one command to execute under a profile, outside any intent. A limit can
// only be narrower than the profile's.
type Exec struct {
	Argv      []string
	Env       map[string]string
	Dir       string // beneath the work folder
	Work      string // host folder
	Write     sandbox.Write
	Read      []string          // absolute host paths
	Show      []string          // beneath the work folder, and nothing else of it but where may be written; nil: all of it
	Hide      []string          // beneath the work folder
	Isolation sandbox.Isolation // exactly this one; empty: as strong as can be had
	Timeout   time.Duration     // 0: the profile's
	Limits    ExecLimits
	Roots     []string // where may be written, beneath the profile's; nil: the profile's
	Expect    int      // exit code that is no failure, besides 0
	Outputs   []string // files that have to be there afterwards
	Bytes     int64    // of all outputs; 0: the profile's
	Offline   bool     // no network, whatever the profile allows
	Inputs    sandbox.Inputs
	Streams   Streams
}

// Streams are where a command's streams come from and go to as they come; nil: it is
// empty, or nobody is told.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// ExecLimits are limits of one command; nil members are the profile's.
type ExecLimits struct {
	MemoryMB, CPUCores, MaxChildren *int
	NoFork                          bool
}

// ProfileGate is a gate that has limits and no judge: it decides about no intent.
func ProfileGate(r policy.Resolved) *Gate {
	return &Gate{Profile: r.Profile, Builtin: r.Origins == nil, Base: Open{Resolved: r}.base()}
}

// Confinement is the sandbox of one command under the profile.
func (g *Gate) Confinement(work string, write sandbox.Write, read []string) sandbox.Request {
	return sandbox.Request{
		Work: work, Write: write, Read: read, Protect: Protected(), Network: g.Profile.AllowNetwork,
		Limits: g.Limits(), Least: sandbox.Isolation(g.Profile.Isolation),
	}
}

// Exec is a command as a task under the gate's profile. The error is always a
// *result.RunError: the profile does not allow the command, its environment, or a
// limit.
func (g *Gate) Exec(x Exec) (Task, error) {
	p := g.Profile
	if !slices.Contains(p.ExecutionModes, ModeExecuteSandbox) {
		return Task{}, modeError("profile "+strconv.Quote(p.Name)+" does not allow execute-sandbox", "use a profile that does")
	}
	if v := contract.CheckCommand("/argv/0", x.Argv[0], contract.AllowList(p.AllowedCommands)); v != nil {
		return Task{}, violated(result.CodeProfile, v)
	}
	if faults := contract.CheckEnvironment("/env", x.Env, contract.AllowList(p.EnvAllow)); len(faults) > 0 {
		return Task{}, violated(result.CodeProfile, &faults[0])
	}
	t := Task{
		Profile: p,
		Sandbox: g.Confinement(x.Work, x.Write, x.Read),
		Rules:   g.Rules(), Budget: time.Duration(p.TimeoutMS) * time.Millisecond, Inputs: x.Inputs, Cut: true,
	}
	t.Sandbox.Hide, t.Sandbox.Inputs, t.Expect = x.Hide, x.Inputs.Dir, x.Expect
	t.Sandbox.Network = t.Sandbox.Network && !x.Offline
	if err := g.narrow(&t, x); err != nil {
		return Task{}, err
	}
	if len(x.Inputs.Files) == 0 {
		t.Sandbox.Inputs = ""
	}
	if x.Show != nil {
		t.Sandbox.Show, t.Sandbox.Folders = x.Show, append(slices.Clone(t.Rules.Roots), x.Dir)
	}
	if x.Write == sandbox.Direct && !t.Rules.AnyRoot {
		t.Sandbox.Roots = append([]string{}, t.Rules.Roots...)
	}
	t.Rules.Links, t.Rules.Declared = true, x.Outputs
	env := make([]string, 0, len(x.Env))
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		env = append(env, name+"="+x.Env[name])
	}
	t.Sandbox.Actions = []sandbox.Action{{Argv: x.Argv, Env: env, Dir: x.Dir}}
	t.Stdin = append(t.Stdin, x.Streams.Stdin)
	stdout, stderr := contract.KeptBytes(int(t.Rules.MaxBytes))
	t.Stdout = command.Stream{Keep: int64(stdout), Tee: x.Streams.Stdout}
	t.Stderr = command.Stream{Keep: int64(stderr), Tee: x.Streams.Stderr}
	return t, nil
}

// narrow applies what the call asks for where the profile leaves room.
func (g *Gate) narrow(t *Task, x Exec) error {
	p, l := g.Profile, &t.Sandbox.Limits
	for _, m := range []struct {
		name   string
		asked  *int
		most   int
		bounds contract.Limit
		set    *int
	}{
		{"memory_mb", x.Limits.MemoryMB, p.MemoryMB, contract.MemoryMB(), &l.MemoryMB},
		{"cpu_cores", x.Limits.CPUCores, p.CPUCores, contract.CPUCores(), &l.CPUCores},
		{"max_children", x.Limits.MaxChildren, p.MaxChildren, contract.MaxChildren(), &l.MaxChildren},
	} {
		if m.asked == nil {
			continue
		}
		if err := within(p.Name, m.name, *m.asked, m.most, m.bounds); err != nil {
			return err
		}
		*m.set = *m.asked
	}
	l.NoFork = x.Limits.NoFork
	if x.Timeout != 0 {
		if err := within(p.Name, "timeout_ms", int(x.Timeout.Milliseconds()), p.TimeoutMS, contract.TimeoutMS()); err != nil {
			return err
		}
		t.Budget = x.Timeout
	}
	if x.Bytes > 0 && x.Bytes < t.Rules.MaxBytes {
		t.Rules.MaxBytes, l.OutputBytes = x.Bytes, x.Bytes
	}
	if x.Isolation != "" {
		if !x.Isolation.AtLeast(t.Sandbox.Least) {
			return &result.RunError{
				Code: result.CodeProfile, Message: "isolation " + string(x.Isolation) + " is weaker than profile " + strconv.Quote(p.Name) + " demands (" + string(p.Isolation) + ")",
				Hint: "leave --isolation out, or use a profile that allows it",
			}
		}
		t.Sandbox.Least, t.Sandbox.Most = x.Isolation, x.Isolation
	}
	return g.narrowRoots(t, x.Roots)
}

func (g *Gate) narrowRoots(t *Task, roots []string) error {
	if roots == nil {
		return nil
	}
	for _, root := range roots {
		beneath := t.Rules.AnyRoot || slices.ContainsFunc(t.Rules.Roots, func(r string) bool { return kernel.Beneath(root, r) })
		if !beneath {
			return &result.RunError{
				Code: result.CodeProfile, Message: strconv.Quote(root) + " is beneath none of the profile's allowed_write_roots",
				Hint: "name folders beneath them, or use a profile that allows more",
			}
		}
	}
	t.Rules.Roots, t.Rules.AnyRoot = roots, slices.Contains(roots, ".")
	return nil
}

func within(profile, name string, asked, most int, bounds contract.Limit) error {
	switch {
	case !bounds.Holds(asked):
		return &result.RunError{
			Code: result.CodeProfile, Message: name + " " + strconv.Itoa(asked) + " is not from " + strconv.Itoa(bounds.Min) + " to " + strconv.Itoa(bounds.Max),
			Hint: "these are the limits of the contract; specs/execution.md has all of them",
		}
	case asked > most:
		return &result.RunError{
			Code: result.CodeProfile, Message: name + " " + strconv.Itoa(asked) + " is more than profile " + strconv.Quote(profile) + " allows (" + strconv.Itoa(most) + ")",
			Hint: "ask for less, or use a profile that allows more",
		}
	}
	return nil
}

// ExecRequested executes a request in the folder work and applies what it wrote. What
// it reads of the host besides has to lie beneath the paths read, which the caller
// names: a request can come from whoever it is to keep in. The
// report says how it ended; the error, a *result.RunError, that there is none.
func ExecRequested(ctx context.Context, deps Deps, gate *Gate, r ExecRequest, work string, read []string, state string) (rep ExecReport, p *Performed, err error) {
	if deps.Runner == nil {
		return rep, nil, sandboxError(ctx, errors.New("commands cannot be executed here"))
	}
	if err := readable(r.Sandbox.Read, read); err != nil {
		return rep, nil, err
	}
	if r.Sandbox.Network && !gate.Profile.AllowNetwork {
		return rep, nil, noNetwork(gate.Profile.Name)
	}
	in, err := deps.Runner.StageInputs(work, r.Inputs.InputFiles, contract.MaxInputs, int64(contract.InputFilesBytes().Max))
	if err != nil {
		return rep, nil, inputError(kernel.Intent{Inputs: r.Inputs.InputFiles}, err)
	}
	task, err := gate.Exec(gate.requestedExec(r, work, in))
	if err == nil {
		p, err = Perform(ctx, deps.Runner, task)
	}
	if err != nil {
		return rep, nil, runError(errors.Join(err, in.Remove()))
	}
	p.box.Owns(in)
	r.expect(&p.Observed, p.Stdout.Size, p.Stderr.Size)
	artifacts, missing := r.artifacts(p)
	p.Observed.Reasons = append(p.Observed.Reasons, missing...)
	code, reasons := p.Observed.Judge()
	if r.Outputs.ExitCode != nil && code == *r.Outputs.ExitCode && code == p.Observed.Command.Code {
		reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == "EXIT "+strconv.Itoa(code) })
	}
	if len(reasons) == 0 {
		if err := p.Promote(ctx, state, work); err != nil {
			return rep, nil, runError(errors.Join(err, p.Close()))
		}
	}
	rep = r.report(p, code, reasons)
	rep.Artifacts = artifacts
	return rep, p, nil
}

// ReadFault says why a path of the host cannot be shown to commands where it is, or is
// empty. The path is absolute and clean.
func ReadFault(p string) string {
	if p == "/" {
		return "it would show the whole machine"
	}
	for _, taken := range []string{sandbox.WorkDir, sandbox.TreeDir, "/proc", "/dev", "/sys", "/tmp"} {
		if p == taken || taken != "/tmp" && kernel.Beneath(p, taken) {
			return "commands have a " + taken + " of their own"
		}
	}
	if p == "/etc" {
		return "commands have an /etc of their own: name what is needed of it"
	}
	return ""
}

// readable refuses paths of the host that a request asks to read and the caller does
// not allow, and paths that cannot be shown.
func readable(paths, allowed []string) error {
	for i, p := range paths {
		if p[0] != '/' {
			continue
		}
		why := ReadFault(p)
		if !slices.ContainsFunc(allowed, func(root string) bool { return kernel.Beneath(p, root) }) {
			why = "beneath no --read"
		}
		if why != "" {
			return &result.RunError{
				Code: result.CodeProfile, Message: "/sandbox/filesystem/read: " + strconv.Quote(canon.Cut(p)) + ": " + why,
				Hint: "list it in input_files if it is in the work folder; a path of the host has to be named with --read as well", Details: map[string]any{"pointer": "/sandbox/filesystem/read/" + strconv.Itoa(i)},
			}
		}
	}
	return nil
}

// noNetwork refuses a request that asks for a network under a profile without one.
func noNetwork(profile string) *result.RunError {
	return &result.RunError{
		Code: result.CodeProfile, Message: "/sandbox/network/enabled: profile " + strconv.Quote(profile) + " allows no network",
		Hint: "set it to false, or use a profile with allow_network", Details: map[string]any{"pointer": "/sandbox/network/enabled"},
	}
}

// requestedExec is what a request asks for. A limit that is the contract's default gives
// way to a profile that allows less.
func (g *Gate) requestedExec(r ExecRequest, work string, in sandbox.Inputs) Exec {
	s := r.Sandbox
	for _, m := range []struct {
		asked  *int
		limit  contract.Limit
		allows int
	}{
		{&s.TimeoutMS, contract.TimeoutMS(), g.Profile.TimeoutMS}, {&s.MemoryMB, contract.MemoryMB(), g.Profile.MemoryMB},
		{&s.CPUCores, contract.CPUCores(), g.Profile.CPUCores}, {&s.MaxChildren, contract.MaxChildren(), g.Profile.MaxChildren},
	} {
		if *m.asked == m.limit.Default {
			*m.asked = min(*m.asked, m.allows)
		}
	}
	expect := 0
	if r.Outputs.ExitCode != nil {
		expect = *r.Outputs.ExitCode
	}
	return Exec{
		Expect: expect,
		Argv:   r.Inputs.Argv(), Env: r.Inputs.Environment, Dir: r.Inputs.WorkingDirectory, Work: work, Write: sandbox.Staged,
		Read: absolute(s.Read), Show: r.shown(), Hide: s.Deny, Timeout: time.Duration(s.TimeoutMS) * time.Millisecond,
		Limits: ExecLimits{MemoryMB: &s.MemoryMB, CPUCores: &s.CPUCores, MaxChildren: &s.MaxChildren, NoFork: !s.AllowFork}, Offline: !s.Network,
		Roots: s.Write, Outputs: r.Outputs.OutputFiles, Bytes: int64(contract.OutputFilesBytes().Max), Inputs: in,
		Streams: Streams{Stdin: textReader(r.Inputs.Stdin)},
	}
}

// shown is what a request wants to see of the work folder: nil is all of it.
func (r ExecRequest) shown() []string {
	if r.Sandbox.Read == nil {
		return nil
	}
	beneath := slices.DeleteFunc(slices.Clone(r.Sandbox.Read), func(p string) bool { return p[0] == '/' })
	return append(beneath, r.Inputs.InputFiles...)
}

// absolute are the paths outside the work folder.
func absolute(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p[0] != '/' })
}

// expect adds what a request expects and did not get.
func (r ExecRequest) expect(o *evidence.Observed, stdout, stderr int64) {
	if r.Outputs.Stdout == StreamExpected && stdout == 0 {
		o.Reasons = append(o.Reasons, "OUTPUT_MISSING /outputs/stdout")
	}
	if r.Outputs.Stderr == StreamExpected && stderr == 0 {
		o.Reasons = append(o.Reasons, "OUTPUT_MISSING /outputs/stderr")
	}
	if want := r.Outputs.ExitCode; want != nil && *want != 0 && !o.Command.Failed() {
		o.Reasons = append(o.Reasons, "EXIT 0")
	}
}

func (r ExecRequest) report(p *Performed, code int, reasons []string) ExecReport {
	means := Interpret(p.Observed.Command, code)
	rep := ExecReport{
		ExecutionID: r.ExecutionID, ToolID: r.ToolID, AdapterID: r.AdapterID, Metadata: r.Metadata,
		ExitCode: code, Interpretation: means.Meaning, Action: means.Action, Reasons: reasons,
		Stdout: reportStream(p.Stdout), Stderr: reportStream(p.Stderr),
		Ephemeral: ExecEphemeral{StartedAt: p.Started, CompletedAt: p.Ended, Duration: p.Ended.Sub(p.Started), PeakMemoryBytes: p.PeakMemory},
	}
	for _, f := range p.Observed.Outputs {
		rep.OutputFiles = append(rep.OutputFiles, kernel.FileRef{Path: f.Path, SHA256: evidence.Hash(f.SHA256), SizeBytes: int(f.Size)})
	}
	for _, c := range p.Clauses {
		rep.Ephemeral.Clauses = append(rep.Ephemeral.Clauses, ExecClause{Clause: c.Clause, Mechanism: c.Mechanism, Status: string(c.Status)})
	}
	return rep
}

// Interpret says what an exit code means, by its cause: a signal that the command got
// from elsewhere is neither a timeout nor a lack of memory.
func Interpret(end *evidence.End, code int) contract.Interpretation {
	in := contract.Interpret(code)
	if end.Signal != 0 && code == 128+end.Signal && !end.TimedOut && !end.OutOfMemory {
		in.Meaning, in.Action = contract.MeaningSignal, contract.ActionLogSignal
	}
	return in
}

func reportStream(c command.Captured) ExecStream {
	return ExecStream{SHA256: evidence.Hash(c.SHA256), SizeBytes: len(c.Bytes), Truncated: c.Truncated}
}
