package harness

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/sandbox/shim"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/result"
)

// Folders are the host folders that an execution of an intent uses.
type Folders struct {
	Tree string // source of the inputs
	Work string // commands work on top of it; it is never changed; "": an empty folder
	Read []string
}

// perform is step 7: it performs the plan of a BUNDLE, and puts the observations into
// the result.
func perform(ctx context.Context, deps Deps, gate *Gate, req Request, intent kernel.Intent, d kernel.Decision, told *account) (*kernel.Execution, *execute.Performed, error) {
	if deps.Runner == nil {
		return nil, nil, runerr.New(result.CodeSandbox, "there is no sandbox to execute the plan in", "use --mode plan-only for the decision and the bundle")
	}
	if err := executable(deps, gate, req, intent); err != nil {
		return nil, nil, err
	}
	calls, err := execute.ModelCalls(deps.Caller, intent)
	if err != nil {
		return nil, nil, err
	}
	tools, err := gate.toolCalls(deps, req.ModelMode, intent)
	if err != nil {
		return nil, nil, err
	}
	inputs, err := deps.Runner.StageInputs(req.Folders.Tree, intent.Inputs, contract.MaxInputs, int64(contract.InputFilesBytes().Max))
	if err != nil {
		return nil, nil, runerr.Input(intent, err)
	}
	cleanInputs(inputs.Files)
	if err := execute.CheckInputs(inputs, intent); err != nil {
		return nil, nil, errors.Join(err, inputs.Remove())
	}
	task, err := gate.planned(req, intent, inputs, tools, deps.Progress)
	if err == nil {
		if req.Item != nil {
			told.work = req.Item.Begun()
		}
		err = told.begin(ctx, d)
	}
	if err == nil && task.Sandbox.Write == sandbox.Direct {
		err = makeRoots(task.Sandbox.Work, task.Sandbox.Roots)
	}
	if err != nil {
		return nil, nil, errors.Join(err, inputs.Remove())
	}
	task.RunID = req.RunID
	task.Cut = task.Cut && (deps.Place == nil || task.Stdout.Tee == nil) // of a stream from a worker, only the bytes that are kept are passed on
	task.Caller, task.Calls, task.Asker, task.Secrets, task.Cache, task.Now = deps.Caller, calls, deps.Asker, deps.Secrets, deps.ToolCache, deps.Now
	var p *execute.Performed
	if req.Item == nil {
		p, err = deps.perform(ctx, task)
	} else {
		p, err = req.Item.Perform(ctx, task, deps.perform)
	}
	if err != nil {
		return nil, nil, errors.Join(err, inputs.Remove())
	}
	e, err := evidence.Execution(d.BundleHash, gate.Profile.Contract(), p.Observed)
	if err != nil {
		return nil, nil, errors.Join(runerr.Internal("the execution has no canonical form", err), p.Close())
	}
	return &e, p, nil
}

// Prepare decides an intent as Run does, and returns the task that carries out its plan, and what
// performs a task: as often as the caller wants, each time in a sandbox of its own. The intent has
// neither inputs nor calls. Another decision than BUNDLE has no task.
func (g *Gate) Prepare(ctx context.Context, deps Deps, req Request) (d kernel.Decision, task execute.Task, perform Perform, err error) {
	if err := checkModes(g.Profile, req); err != nil {
		return d, task, nil, err
	}
	in, intent, err := g.ask(deps.Specs, req)
	if err != nil {
		return d, task, nil, err
	}
	if d, err = g.Decide(ctx, in, intent); err != nil || d.Outcome != kernel.OutcomeBundle {
		return d, task, nil, err
	}
	if err = executable(deps, g, req, intent); err == nil {
		task, err = g.planned(req, intent, sandbox.Inputs{}, nil, nil)
	}
	task.Now = deps.Now
	return d, task, deps.perform, err
}

// perform performs a task in a sandbox of its own.
func (d Deps) perform(ctx context.Context, t execute.Task) (*execute.Performed, error) {
	return execute.Perform(ctx, d.Where(), t)
}

// Where returns the place in which tasks are carried out.
func (d Deps) Where() execute.Place {
	if d.Place != nil {
		return d.Place
	}
	return execute.Here{Runner: d.Runner}
}

// executable refuses, before any effect, an intent that cannot be carried out here. The
// policy has checked commands and variables before. IV-01 and IV-04 are checked again,
// so that a wrong rule cannot start a command outside the profile.
func executable(deps Deps, gate *Gate, req Request, intent kernel.Intent) error {
	for i, a := range intent.Actions {
		at := "/actions/" + strconv.Itoa(i)
		switch a.Kind {
		case kernel.ActionCall:
			switch _, bound := intent.Calls()[i]; {
			case bound:
			case req.ModelMode != ModelNone && deps.Caller == nil:
				return runerr.New(result.CodeProfile, at+": a call of a model, and no recording of models", "name it with --model-recording", runerr.At(at))
			case req.ModelMode == ModelNone:
				return runerr.New(result.CodeSandbox, at+": a call is not dispatched in model mode none", "use --model-mode record or replay, or --mode plan-only", runerr.At(at))
			}
		case kernel.ActionRun:
			if err := gate.allows(at, a.Argv, a.Env); err != nil {
				return err
			}
		}
	}
	return nil
}

// allows checks a command by IV-01 and IV-04.
func (g *Gate) allows(at string, argv []string, env map[string]string) error {
	if v := contract.CheckCommand(at+"/argv/0", argv[0], contract.AllowList(g.Profile.AllowedCommands)); v != nil {
		return runerr.Violated(result.CodeSandbox, v)
	}
	if faults := contract.CheckEnvironment(at+"/env", env, contract.AllowList(g.Profile.EnvAllow)); len(faults) > 0 {
		return runerr.Violated(result.CodeSandbox, &faults[0])
	}
	return nil
}

// makeRoots makes the folders that direct writes are limited to, because a command could
// not make them.
func makeRoots(work string, roots []string) error {
	fault := func(what string, err error) error {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return runerr.New(result.CodeSandbox, what+": "+err.Error(), "make it, or let the writes be staged", runerr.Because(err))
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		return fault("the work folder cannot be read", err)
	}
	defer root.Close()
	for _, r := range roots {
		if err := root.MkdirAll(r, 0o777); err != nil {
			return fault("folder "+canon.Quote(r)+" cannot be made", err)
		}
	}
	return nil
}

// Limits returns the limits of executions under the profile.
func (g *Gate) Limits() sandbox.Limits {
	p := g.Profile
	return sandbox.Limits{
		MemoryMB: p.MemoryMB, CPUCores: p.CPUCores, MaxChildren: p.MaxChildren,
		OutputFiles: p.MaxOutputFiles, OutputBytes: int64(p.MaxTotalOutputBytes),
	}
}

// Rules says what executions under the profile may write.
func (g *Gate) Rules() change.Rules {
	p := g.Profile
	return change.Rules{Roots: p.AllowedWriteRoots.Names, AnyRoot: p.AllowedWriteRoots.All, MaxFiles: p.MaxOutputFiles, MaxBytes: int64(p.MaxTotalOutputBytes)}
}

// task returns the task that executes an intent.
func (g *Gate) task(req Request, intent kernel.Intent, inputs sandbox.Inputs, tools map[int]execute.ToolCall, progress func(action, of int)) execute.Task {
	stdout, stderr := contract.KeptBytes(g.Profile.MaxTotalOutputBytes)
	t := execute.Task{
		Profile: g.Profile,
		Sandbox: g.Confinement(req.Folders.Work, sandbox.Staged, req.Folders.Read),
		Rules:   g.Rules(),
		Budget:  time.Duration(g.Profile.TimeoutMS) * time.Millisecond,
		Inputs:  inputs, Tools: tools, Progress: progress,
		Stdout: command.Stream{Keep: int64(stdout)}, Stderr: command.Stream{Keep: int64(stderr)},
	}
	if len(inputs.Files) > 0 {
		t.Sandbox.Inputs = inputs.Dir
	}
	if access, ok := contract.ProfileAccess(g.Base); ok && access.TreeRead {
		t.Sandbox.Tree = req.Folders.Tree
	}
	t.Rules.Declared = cleanPaths(intent.Outputs)
	for i, a := range intent.Actions {
		addAction(&t, i, a, g.hosts())
	}
	return t
}

// addAction adds an action of an intent to a task. A call of a tool becomes the commands of
// its adapters, and the file with the answer. A run action may reach hosts, a call those of its adapter.
func addAction(t *execute.Task, i int, a kernel.Action, hosts contract.Hosts) {
	add := func(stdin *string, timeoutMS int, action sandbox.Action) {
		t.At = append(t.At, i)
		t.Stdin = append(t.Stdin, textReader(stdin))
		t.Times = append(t.Times, time.Duration(timeoutMS)*time.Millisecond)
		t.Sandbox.Actions = append(t.Sandbox.Actions, action)
	}
	switch a.Kind {
	case kernel.ActionCall:
		for _, b := range t.Tools[i] {
			if b.IsProcess() {
				own, _, _ := contract.ParseHosts(b.Hosts) // the adapter was checked
				t.Sandbox.Files = withShim(t.Sandbox.Files, b)
				add(b.Stdin, 0, sandbox.Action{Argv: b.Argv, Env: variables(b.Env), Hosts: contract.Hosts{Allow: own}})
			}
			if most := b.Adapter.Override.MemoryMB; most > 0 {
				t.Sandbox.Limits.MemoryMB = min(t.Sandbox.Limits.MemoryMB, most)
			}
		}
		add(nil, 0, sandbox.Action{Path: pack.ResponsePath(i), Given: true})
	case kernel.ActionWrite:
		add(nil, 0, sandbox.Action{Path: pathname.Clean(a.Path), Content: a.Bytes(), Executable: a.Executable})
	default:
		add(a.Stdin, a.TimeoutMS, sandbox.Action{Argv: a.Argv, Env: variables(a.Env), Dir: pathname.Clean(a.Cwd), Hosts: hosts})
	}
}

// withShim returns files with the shim that the command of a library's function starts, once.
func withShim(files []sandbox.File, b *adapter.Bound) []sandbox.File {
	if b.Adapter.Type != adapter.SDK || len(b.Argv) < 2 {
		return files
	}
	f := sandbox.File{Path: b.Argv[1], Text: shim.At(b.Argv[1])}
	if slices.Contains(files, f) {
		return files
	}
	return append(files, f)
}

// textReader reads a text. It returns nil if there is no text.
func textReader(s *string) io.Reader {
	if s == nil {
		return nil
	}
	return strings.NewReader(*s)
}

// variables returns an environment in the form that processes take, sorted by name.
func variables(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// cleanPaths returns the clean form of each path (pathname.Clean), in the same order.
func cleanPaths(paths []string) []string {
	list := make([]string, len(paths))
	for i, p := range paths {
		list[i] = pathname.Clean(p)
	}
	return list
}

// cleanInputs replaces the paths of inputs by clean paths. No two are the same, because
// each input was copied to a place of its own.
func cleanInputs(files []sandbox.Input) {
	for i := range files {
		files[i].Path = pathname.Clean(files[i].Path)
	}
	slices.SortFunc(files, func(a, b sandbox.Input) int { return canon.Compare(a.Path, b.Path) })
}
