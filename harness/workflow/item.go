package workflow

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/ledger"
)

// item is one item that runs. It is the harness.Item of its run.
type item struct {
	*plan
	work.Item
	level     int
	agent     *work.Agent
	turn      <-chan struct{} // closed when the item may be integrated
	performed func()          // says that the item does not need its slot any more

	stage   string // folder with the delta
	base    receipt.Hash
	before  receipt.Hash
	tried   delta
	drifted bool // a file was changed that the agent has changed too
	trace   receipt.Trace
	denial  string
	after   receipt.Hash
	streams map[string][]byte
	tests   *receipt.Tests
	output  string // of the test
	receipt receipt.Receipt
	key     receipt.Hash
	move    *workspace.Move
}

// do runs the item, and gives its result out.
func (it *item) do(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return runerr.Stopped()
	}
	it.base, it.agent, it.streams = it.state, it.plan.agent(it.Item), map[string][]byte{}
	if it.key, err = it.keyOf(); err != nil {
		return err
	}
	source, err := it.intent(it.Item)
	if err != nil {
		return err
	}
	if l := it.known(it.key, it.base); l != nil {
		it.performed()
		<-it.turn
		return it.again(*l)
	}
	deps := it.Deps
	if it.agent != nil && len(it.agent.Env) > 0 {
		deps.Secrets = secret.New(it.Env)
	}
	rep, err := harness.Run(ctx, deps, it.Gate, harness.Request{
		Source: source, Path: it.ID, Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, Item: it,
		Folders: harness.Folders{Tree: it.Tree, Work: it.Tree, Read: it.Read},
	})
	if err == nil {
		err = harness.Deliver(ctx, deps, rep, harness.Sinks{Apply: it.apply})
		if rep.Execution != nil {
			err = errors.Join(err, rep.Execution.Close())
		}
	}
	err = errors.Join(err, it.clear())
	if err != nil {
		return runerr.Of(err)
	}
	it.ended[it.ID] = Ended{ID: it.ID, Level: it.level, Status: it.receipt.Core.Status, ReceiptID: it.receipt.ReceiptID}
	return it.Result(it.answer())
}

// again gives out the result of an earlier run, whose state the folder has.
func (it *item) again(l history.Line) error {
	r, err := it.resultOf(l)
	if err != nil {
		return err
	}
	r.ID, r.Replayed = it.ID, true
	it.ended[it.ID] = Ended{ID: it.ID, Level: it.level, Status: r.Status, ReceiptID: r.ReceiptID}
	return it.Result(r)
}

// Begun returns what the ledger says of the item before it runs.
func (it *item) Begun() *ledger.Work {
	return &ledger.Work{ItemID: it.ID, PlanSHA256: it.sha, Base: it.base.String()}
}

// Perform runs the agent, waits for the item's turn, and judges what it has done: admission,
// then the test on the change, then whether the folder is still what it was.
func (it *item) Perform(ctx context.Context, task execute.Task, perform harness.Perform) (*execute.Performed, error) {
	p, err := it.work(ctx, task, perform)
	it.performed()
	<-it.turn
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errors.Join(runerr.Stopped(), p.Close())
	}
	if it.overlaps() {
		if err := errors.Join(p.Close(), it.clear()); err != nil {
			return nil, runerr.Of(err)
		}
		it.base = it.state
		if p, err = it.work(ctx, task, perform); err != nil {
			return nil, err
		}
	}
	it.before = it.state
	if err := it.judge(ctx, task, p, perform); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// work runs the agent, or the actions of the item, and moves what was written to the store.
func (it *item) work(ctx context.Context, task execute.Task, perform harness.Perform) (*execute.Performed, error) {
	agent := it.agentTask(task)
	missing, err := it.missing()
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		agent.Sandbox.Actions, agent.At, agent.Stdin, agent.Times, agent.Rules.Declared = nil, nil, nil, nil, nil
	}
	if err := it.secrets(&agent); err != nil {
		return nil, err
	}
	if agent.Sandbox.Delta, err = it.hideTrace(); err != nil {
		return nil, err
	}
	p, err := perform(ctx, agent)
	if err != nil {
		return nil, err
	}
	if msg, hint := p.Diagnosis(); msg != "" && it.Advise != nil {
		it.Advise(it.ID, msg, hint)
	}
	p.Planned = len(task.Sandbox.Actions)
	p.Observed.Reject(missing...)
	it.streams[receipt.Stdout], it.streams[receipt.Stderr] = p.Stdout.Bytes, p.Stderr.Bytes
	if err = it.readTrace(p, agent.Secrets); err == nil {
		err = it.moveStage(p)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// agentTask returns the task without the test.
func (it *item) agentTask(task execute.Task) execute.Task {
	t := task
	if it.Test != nil {
		n := len(task.Sandbox.Actions) - 1
		t.Sandbox.Actions, t.At, t.Stdin, t.Times = task.Sandbox.Actions[:n], task.At[:n], task.Stdin[:n], task.Times[:n]
	}
	t.Budget = time.Duration(it.Constraints.TimeoutMS) * time.Millisecond
	t.Ignore = func(p string) bool { return it.ignored(p) }
	return t
}

// ignored says whether a change is no part of the delta: the trace, and scratch.
func (it *item) ignored(p string) bool {
	return it.scratch(p, false) || slices.ContainsFunc(append(change.Above(p), p), func(folder string) bool {
		return folder == work.Trace || it.scratch(folder, true)
	})
}

// missing returns the reasons of input files that are not there.
func (it *item) missing() (list []reason.Reason, err error) {
	for _, p := range it.InputFiles {
		e, err := it.Store.Entry(it.base, p)
		if err != nil {
			return nil, stateError(context.Background(), err)
		}
		if e.Mode != receipt.File && e.Mode != receipt.Executable {
			list = append(list, reason.Reason{ID: reason.InputMissing, Subject: p})
		}
	}
	return list, nil
}

// secrets gives the agent the variables of its entry.
func (it *item) secrets(t *execute.Task) error {
	if it.agent == nil {
		return nil
	}
	for _, name := range it.agent.Env {
		at := "agent " + canon.Quote(it.AgentID)
		faults := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList(it.Gate.Profile.EnvAllow))
		if len(faults) > 0 {
			return runerr.New(result.CodeProfile, at+": "+name+" "+faults[0].Msg, faults[0].Hint)
		}
		value, err := t.Secrets.ReadEnv(at, name)
		if err != nil {
			return err
		}
		t.Env = append(t.Env, value)
	}
	return nil
}

// readTrace counts the uses of tools. A trace that repeats a secret is bad, and is not kept.
func (it *item) readTrace(p *execute.Performed, secrets *secret.Vault) error {
	if it.agent == nil {
		it.trace = receipt.Trace{Coverage: receipt.Complete, Ops: p.Done}
		return nil
	}
	it.trace = receipt.Trace{Coverage: receipt.None}
	for _, c := range p.Ignored {
		if c.Path != work.Trace || c.Kind != change.KindFile {
			continue
		}
		text, err := content(p, c.Path, work.MaxTrace)
		if err != nil {
			return runerr.Evidence("the trace could not be read", err)
		}
		ops, err := work.ReadTrace(text)
		if err != nil || secrets != nil && secrets.Repeats(text) {
			p.Observed.Reject(reason.Reason{ID: reason.Trace})
			return nil
		}
		it.trace, it.streams[receipt.TraceFile] = receipt.Trace{Coverage: receipt.Reported, Ops: ops}, text
		return nil
	}
	if it.agent.Trace == "required" && len(p.Runs) > 0 && !failed(p) {
		p.Observed.Reject(reason.Reason{ID: reason.Trace})
	}
	return nil
}

// failed says whether the last command of an execution has failed.
func failed(p *execute.Performed) bool {
	return p.Observed.Command != nil && p.Observed.Command.Failed()
}

// content reads a written file, and at most one byte more than most.
func content(p *execute.Performed, name string, most int64) ([]byte, error) {
	f, err := p.Content(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// overlaps says whether what the level has applied touches what this item has changed.
func (it *item) overlaps() bool {
	for _, a := range it.tried.artifacts {
		for _, p := range it.applied {
			if kernel.Beneath(a.Path, p) || kernel.Beneath(p, a.Path) {
				return true
			}
		}
	}
	return false
}

// judge decides whether what the agent has done is admitted, tested and still fits.
func (it *item) judge(ctx context.Context, task execute.Task, p *execute.Performed, perform harness.Perform) error {
	if failed(p) {
		return nil
	}
	var err error
	if it.after = it.before; len(p.Observed.Reasons) == 0 {
		if it.after, err = receipt.After(it.Store, it.before, it.tried.artifacts); err != nil {
			return runerr.Internal("the change does not fit the state", err)
		}
	}
	reasons, denial := it.Admit(work.Tried{
		Paths: it.tried.paths(), Ops: it.trace.Ops, Delta: it.tried.counted, DuplicateOf: it.duplicate(),
		Base: func(name string) bool {
			e, err := it.Store.Entry(it.base, path.Clean(name))
			return err == nil && (e.Mode == receipt.File || e.Mode == receipt.Executable)
		},
	})
	if it.denial = denial; it.drifted {
		reasons, it.denial = []string{reason.StateDrift}, "" // what was tried cannot be counted
	}
	p.Observed.Reasons = append(p.Observed.Reasons, reasons...)
	if len(p.Observed.Reasons) > 0 {
		return nil
	}
	if it.Test != nil {
		if err := it.test(ctx, task, p, perform); err != nil || len(p.Observed.Reasons) > 0 || failed(p) {
			return err
		}
	}
	return it.ready(ctx, p)
}

// ready prepares the change of the folder, which still has to be what it was before.
func (it *item) ready(ctx context.Context, p *execute.Performed) error {
	var err error
	if len(it.tried.artifacts) > 0 {
		err = it.keep(ctx, p)
	}
	if err == nil {
		how := it.how
		how.Now = it.Deps.Now()
		it.move, err = it.Store.Plan(ctx, it.Tree, it.before, it.after, how)
	}
	if errors.Is(err, workspace.ErrDrift) {
		p.Observed.Reject(reason.Reason{ID: reason.StateDrift})
		return nil
	}
	return stateError(ctx, err)
}

// test runs the test on the folder with the change, in a sandbox of its own, in which nothing
// else is that the agent has left.
func (it *item) test(ctx context.Context, task execute.Task, p *execute.Performed, perform harness.Perform) error {
	n := len(task.Sandbox.Actions) - 1
	t := task
	t.Sandbox.Actions, t.At, t.Stdin, t.Times = task.Sandbox.Actions[n:], task.At[n:], task.Stdin[n:], nil
	t.Sandbox.Delta, t.Secrets = it.stage, nil
	t.Budget = time.Duration(it.TestTimeoutMS) * time.Millisecond
	t.Rules, t.Ignore = it.Gate.Rules(), func(string) bool { return true }
	test, err := perform(ctx, t)
	if err != nil {
		return err
	}
	defer test.Close()
	p.Tested(test)
	end := p.Runs[len(p.Runs)-1]
	it.streams[receipt.TestStdout], it.streams[receipt.TestStderr] = test.Stdout.Bytes, test.Stderr.Bytes
	it.tests = &receipt.Tests{Argv: it.Test, ExitCode: end.Cause().ExitCode()}
	if passed, failed, ok := receipt.Counts(test.Stdout.Bytes); ok {
		it.tests.Passed, it.tests.Failed = &passed, &failed
	}
	it.output = testOutput(test.Stdout, test.Stderr)
	return nil
}

// testOutput returns what a test printed, as a result has it.
func testOutput(streams ...command.Captured) string {
	var b strings.Builder
	for _, s := range streams {
		b.Write(s.Bytes)
	}
	text := strings.ToValidUTF8(b.String(), "\uFFFD")
	if len(text) > receipt.MaxOutput {
		text = strings.ToValidUTF8(text[:receipt.MaxOutput-3], "") + "…"
	}
	return canon.Clean(text)
}

// Sealed puts the receipt in its place, and returns what the ledger says of it.
func (it *item) Sealed(ctx context.Context, rep harness.Report) (*ledger.Work, error) {
	if rep.Execution == nil {
		it.performed()
		<-it.turn
		if ctx.Err() != nil { // an item before it may be pending
			return nil, runerr.Stopped()
		}
		it.before, it.after = it.state, it.state
	}
	if err := it.write(rep); err != nil {
		return nil, err
	}
	r := it.receipt
	return &ledger.Work{ItemID: it.ID, PlanSHA256: it.sha, Before: r.Core.Before, After: r.Core.After, Receipt: r.ReceiptHash}, nil
}

// apply changes the folder, and notes the receipt in the history.
func (it *item) apply(ctx context.Context) error {
	if it.move != nil {
		if err := it.move.Apply(ctx, it.Journals); err != nil {
			return stateError(ctx, err)
		}
		for _, a := range it.tried.artifacts {
			it.applied = append(it.applied, a.Path)
		}
		it.state = it.after
	}
	l := it.line(it.receipt)
	it.plan.lines = append(it.plan.lines, l)
	return it.Settle(l)
}

// clear removes what the item has in the store besides its receipt.
func (it *item) clear() error {
	if it.move != nil {
		_ = it.move.Close()
		it.move = nil
	}
	if it.stage == "" {
		return nil
	}
	err := os.RemoveAll(it.stage)
	it.stage = ""
	return err
}

// hideTrace returns a folder that hides a trace of the folder from the agent, or "".
func (it *item) hideTrace() (string, error) {
	if _, err := os.Lstat(filepath.Join(it.Tree, work.Trace)); err != nil {
		return "", nil
	}
	dir := filepath.Join(it.stages, ".hidden") // no id begins with a dot
	return dir, sandbox.Hidden(dir, work.Trace)
}
