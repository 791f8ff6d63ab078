// Package execute carries out a task in a sandbox and judges what it did: which changes
// are accepted, and why an execution is rejected.
//
// It knows neither the policy nor the ledger: package harness decides before, and puts
// its effects in order. An execution that has ended can say what runner.json holds,
// answer a request, and apply the accepted changes to a folder.
package execute

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// Task is an execution: the actions of a sandbox, and how to treat their results.
type Task struct {
	Profile kernel.Profile // the profile that gives the limits
	Sandbox sandbox.Request
	Rules   change.Rules
	Budget  time.Duration   // for all commands together; 0: no limit
	Times   []time.Duration // of each action, if less than the rest of the budget
	Stdin   []io.Reader     // of each action; nil: empty
	Stdout  command.Stream
	Stderr  command.Stream
	Inputs  sandbox.Inputs
	Cut     bool // a truncated stream is no reason to reject
	Expect  Expect
	Caller  Caller
	Calls   map[int]ModelCall // by action of the intent; each writes a file of Given; nil: no calls
	Tools   map[int]ToolCall  // by action of the intent; nil: no calls
	Cache   *Cache            // of the session; nil: every call of Tools is made
	RunID   string            // of the run, as the cache names it
	Program canon.ContentHash // of the file that every command of a run action has to be; empty: any
	Asker   Asker             // makes the calls of Tools without a process; nil if there are none
	// Ignore says of a path whether changes of it are neither judged nor kept; nil: none are.
	Ignore func(path string) bool
	// Secrets has the secrets of Tools and the values of Env, read; nil: there are none.
	Secrets *secret.Vault
	Env     []string         // secret variables of every command of a run action
	At      []int            // for each action of the sandbox, the action of the intent; nil: the same
	Now     func() time.Time // the clock of the run; its times never go back
	// Progress is called before each action, from 0 on; it may be nil.
	Progress func(action, of int)
}

// Expect is what a command must produce besides its outputs.
type Expect struct {
	Code           int // exit code besides 0 that is no failure
	Stdout, Stderr bool
	Artifacts      []request.ArtifactSpec
}

// Performed is an execution that has ended. It holds the written files until Close.
type Performed struct {
	Observed       evidence.Observed
	Runs           []Ran            // every command that was started, in their order
	Unchanged      []string         // outputs that are the same as before the execution
	Planned, Done  int              // number of actions, and number of successful ones
	Stdout, Stderr command.Captured // of the command whose result counts
	Isolation      sandbox.Isolation
	Clauses        []evidence.Clause
	PlanHash       canon.ContentHash
	PeakMemory     int64 // bytes, 0: unknown
	resident       int64 // maximum bytes of one process of the command whose result counts
	Started, Ended time.Time
	Accepted       []change.Change    // changes that may be applied if the execution is accepted
	Changes        []change.Change    // all changes, except Responses and Ignored
	Ignored        []change.Change    // changes that the task ignores
	Artifacts      []request.Artifact // files of Expect that exist

	Calls     []pack.CallEvidence // every answered call, in order
	Attempts  []pack.Attempt      // every attempt of a call of a tool, in order
	Responses []change.Change     // unchanged responses to calls: outputs that are never applied
	ModelIO   []byte              // model_io.json of a task with calls; else nil
	ToolIO    []byte              // tool_io.json of a task whose Asker records; else nil

	box   Box
	facts sandbox.Facts
	task  Task
	work  string      // the host folder of the work, or empty
	at    fs.FileInfo // state of that folder when the execution began
	since time.Time   // begin of the execution, by the clock of file times
}

// Ran is the end of one command.
type Ran struct {
	Action int // its position, from 0 on
	evidence.End
}

// Content opens a written file.
func (p *Performed) Content(name string) (io.ReadCloser, error) { return p.box.Content(name) }

// Before returns the kind of the entry that commands saw at a path when the execution
// began.
func (p *Performed) Before(name string) change.Kind {
	kind, _, _ := p.box.Before(name)
	return kind
}

// MoveTo moves what was written, without what the task ignores, to a new folder in the form of
// sandbox.Request.Delta, and releases the sandbox. Content still reads it.
func (p *Performed) MoveTo(dir string) error { return p.box.MoveTo(dir, p.task.Ignore) }

// Staging says how written files were kept apart from the work folder.
func (p *Performed) Staging() string { return p.facts.Staging }

// Tested adds the execution of a test, which was the last action.
func (p *Performed) Tested(test *Performed) {
	for _, r := range test.Runs {
		r.Test = true
		p.Runs = append(p.Runs, r)
		p.Observed.Command = &r.End
	}
	p.Done += test.Done
	p.Stdout, p.Stderr = test.Stdout, test.Stderr
	p.PeakMemory, p.resident, p.Ended = max(p.PeakMemory, test.PeakMemory), test.resident, test.Ended
}

// DurationMS returns the milliseconds that the execution took, by its timestamps.
func (p *Performed) DurationMS() int64 { return p.Ended.UnixMilli() - p.Started.UnixMilli() }

// Direct says whether commands wrote into the work folder itself.
func (p *Performed) Direct() bool { return p.task.Sandbox.Write == sandbox.Direct }

// Close discards written files that were not applied.
func (p *Performed) Close() error { return p.box.Close() }

// Perform executes a task. Close of the execution removes the inputs of the task too. The
// error is always a *result.RunError. After an error nothing is applied, and only the
// inputs remain, which are the caller's then.
func Perform(ctx context.Context, place Place, task Task) (*Performed, error) {
	p := &Performed{Started: task.Now(), since: time.Now(), task: task}
	for _, f := range task.Inputs.Files {
		p.Observed.Inputs = append(p.Observed.Inputs, evidence.File{Path: f.Path, SHA256: f.SHA256, Size: f.Size})
	}
	if task.Sandbox.Work != "" {
		p.at, _ = os.Stat(task.Sandbox.Work) // the code that opens the folder reports the error
	}
	direct, err := controlsOf(task)
	if err != nil {
		return nil, runerr.Evidence("the control paths of the work folder could not be listed", err)
	}
	if direct != nil {
		task.Sandbox.Protect = sorted(slices.Concat(task.Sandbox.Protect, direct.standing()))
	}
	box, err := place.Open(ctx, task)
	if err != nil {
		return nil, err
	}
	p.box, p.facts, p.work = box, box.Facts(), task.Sandbox.Work
	p.Isolation, p.Clauses, p.PlanHash = p.facts.Isolation, p.facts.Clauses, evidence.Hash(p.facts.PlanHash)
	w := &performance{ctx: ctx, task: task, p: p, left: command.Budget(task.Budget)}
	err = w.run()
	if direct != nil {
		touched, listErr := direct.settle()
		if err == nil && listErr != nil {
			err = runerr.Evidence("the control paths of the work folder could not be listed", listErr)
		}
		for _, name := range touched {
			p.Observed.Reject(reason.Outside(name))
		}
	}
	p.PeakMemory = max(box.PeakMemory(), w.peak)
	p.Ended = task.Now()
	if err == nil {
		err = w.judge()
	}
	if err == nil {
		err = w.recording()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	box.Owns(task.Inputs)
	return p, nil
}

// performance is a running task.
type performance struct {
	ctx    context.Context
	task   Task
	p      *Performed
	left   command.Budget
	failed bool
	peak   int64

	written []string // files that actions wrote

	leaked  bool // a stream of the last command repeated a secret, and was thrown away
	scratch bool // a folder for temporary files has an entry

	responses []response
	given     int64 // bytes of all responses
}

// run performs the actions in order and stops at the first that fails.
func (w *performance) run() error {
	actions := w.task.Sandbox.Actions
	if len(actions) > 0 {
		w.p.Planned = w.task.intended(len(actions)-1) + 1
	}
	for i := 0; i < len(actions); i++ {
		if w.failed {
			return nil
		}
		a, at := actions[i], w.task.intended(i)
		if w.task.Progress != nil {
			w.task.Progress(at, w.p.Planned)
		}
		var err error
		switch tool := w.task.Tools[at]; {
		case tool != nil:
			err = w.tool(i, tool)
			i += tool.processes() // the file with the answer
		case a.Given:
			err = w.call(i, a)
		case len(a.Argv) == 0:
			err = w.write(i, a)
		default:
			err = w.command(i, a)
		}
		if err != nil {
			return err
		}
		if !w.failed {
			w.p.Done++
		}
	}
	return nil
}

// intended returns the action of the intent that an action of the sandbox belongs to.
func (t Task) intended(i int) int {
	if t.At == nil {
		return i
	}
	return t.At[i]
}

// own returns the time limit of an action of the sandbox, 0 for none.
func (t Task) own(i int) time.Duration {
	if i < len(t.Times) {
		return t.Times[i]
	}
	return 0
}

// write performs a write action. If its path cannot be written, the intent is at fault:
// a folder or a link has that path, or there is no space.
func (w *performance) write(i int, a sandbox.Action) error {
	errno, err := w.p.box.Write(i)
	switch {
	case err != nil:
		return runerr.Sandbox(w.ctx, err)
	case errno != 0:
		w.unwritten(a.Path, errno)
	default:
		w.written = append(w.written, a.Path)
	}
	return nil
}

// unwritten ends the execution after a file could not be written.
func (w *performance) unwritten(path string, errno syscall.Errno) {
	w.failed = true
	why := reason.Kind(path)
	if errno == syscall.ENOSPC || errno == syscall.EDQUOT || errno == syscall.EFBIG {
		why = reason.Limit()
	}
	w.p.Observed.Reject(why)
}

func (w *performance) command(i int, a sandbox.Action) error {
	if pin := w.task.Program; pin != "" && ProgramHash(a.Argv[0]) != pin {
		w.failed = true
		w.p.Observed.Reject(reason.Refused(w.task.intended(i)))
		return nil
	}
	end, cut, err := w.start(i, w.left.For(w.task.own(i)), w.task.Env...)
	if err != nil {
		return err
	}
	w.end(w.task.intended(i), end)
	w.failed = end.FailedBut(w.task.Expect.Code)
	if w.leaked {
		w.failed = true
		w.p.Observed.Reject(reason.Answer(w.task.intended(i)))
	}
	if cut && !w.task.Cut {
		w.failed = true
		w.p.Observed.Reject(reason.StreamCut(w.task.intended(i)))
	}
	return nil
}

// end notes the end of the command of an action of the intent.
func (w *performance) end(at int, end evidence.End) {
	w.p.Observed.Command = &end
	w.p.Runs = append(w.p.Runs, Ran{at, end})
}

// start runs the command of an action of the sandbox to its end, with secret variables. cut
// says whether a stream was truncated.
func (w *performance) start(i int, limit time.Duration, secrets ...string) (end evidence.End, cut bool, err error) {
	spec := command.Spec{Stdout: w.task.Stdout, Stderr: w.task.Stderr}
	if i < len(w.task.Stdin) {
		spec.Stdin = w.task.Stdin[i]
	}
	return w.startWith(i, limit, spec, secrets...)
}

func (w *performance) startWith(i int, limit time.Duration, spec command.Spec, secrets ...string) (end evidence.End, cut bool, err error) {
	var known sandbox.End
	ctx, unread := context.WithCancel(w.ctx)
	defer unread()
	for _, s := range []*command.Stream{&spec.Stdout, &spec.Stderr} {
		if s.Tee != nil {
			s.Tee = &pipe{s.Tee, unread}
		}
	}
	res, err := w.p.box.Run(ctx, i, limit, spec, &known, secrets...)
	if w.ctx.Err() != nil {
		return end, false, runerr.Stopped()
	}
	if err != nil {
		return end, false, runerr.Sandbox(w.ctx, err)
	}
	if ctx.Err() != nil {
		res.Code, res.Signal = 0, syscall.SIGPIPE
	}
	w.left.Spend(res.Ended.Sub(res.Started))
	w.peak, w.p.resident = max(w.peak, known.MaxRSS), known.MaxRSS
	w.scratch, w.leaked = known.Scratch, w.withhold(&res.Stdout, &res.Stderr)
	w.p.Stdout, w.p.Stderr = res.Stdout, res.Stderr
	end = evidence.End{
		Argv: w.task.Sandbox.Actions[i].Argv, Code: res.Code, Signal: int(res.Signal),
		TimedOut: known.TimedOut, OutOfMemory: known.OutOfMemory, NotFound: known.NotFound, NotExecutable: known.NotExecutable,
		Stdout: stream(res.Stdout), Stderr: stream(res.Stderr),
	}
	return end, res.Stdout.Truncated || res.Stderr.Truncated, nil
}

// pipe passes a stream on. When its reader is gone, the command ends, as at the end of a
// pipe.
type pipe struct {
	io.Writer
	unread func()
}

func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if err != nil {
		p.unread()
	}
	return n, err
}

func stream(c command.Captured) evidence.Stream {
	return evidence.Stream{SHA256: c.SHA256, Size: c.Size, Truncated: c.Truncated}
}

// judge compares the written files with the permitted ones.
func (w *performance) judge() error {
	o := &w.p.Observed
	changes, err := w.p.box.Changes()
	if errors.Is(err, sandbox.ErrStageFull) {
		o.Reject(reason.Limit())
	} else if err != nil {
		return runerr.Evidence("what the commands wrote could not be read", err)
	}
	changes = w.settle(changes)
	if w.task.Ignore != nil {
		all := changes
		changes = nil
		for _, c := range all {
			if w.task.Ignore(c.Path) {
				w.p.Ignored = append(w.p.Ignored, c)
			} else {
				changes = append(changes, c)
			}
		}
	}
	if changes, err = w.withheld(changes); err != nil {
		return err
	}
	rules := w.task.Rules
	// An unchanged response is an output by itself, declared or not.
	declared := slices.DeleteFunc(slices.Clone(rules.Declared), func(p string) bool {
		return slices.ContainsFunc(o.Outputs, func(f evidence.File) bool { return f.Path == p })
	})
	if rules.Declared = declared; w.failed {
		rules.Declared = nil // after a failure, a missing output is no separate reason
	}
	rules.Exists, rules.Below, rules.Shown = w.p.Before, w.p.box.Below, w.task.Sandbox.Shows
	for _, response := range o.Outputs {
		rules.MaxFiles, rules.MaxBytes = rules.MaxFiles-1, rules.MaxBytes-response.Size
	}
	verdict := change.Judge(changes, rules)
	o.Reasons = append(o.Reasons, verdict.Reasons...)
	o.Reject(w.untouchable(changes)...)
	for _, c := range verdict.Outputs {
		o.Outputs = append(o.Outputs, evidence.File{Path: c.Path, SHA256: c.SHA256, Size: c.Size})
	}
	o.Cut = slices.Contains(verdict.Reasons, reason.OutputLimit)
	w.unchanged(slices.Concat(w.written, declared), changes)
	w.p.Accepted, w.p.Changes = verdict.Accepted, changes
	w.expected()
	return nil
}

// untouchable returns reasons for forbidden changes: changed inputs, which are
// read-only; entries written over hidden paths; and removed folders with entries that
// commands could not see.
func (w *performance) untouchable(changes []change.Change) []reason.Reason {
	at := byPath(changes)
	var reasons []reason.Reason
	for _, c := range changes {
		box := w.task.Sandbox
		gone := c.Kind != change.KindFolder && c.Before != nil && c.Before.Kind == change.KindFolder
		if gone && !box.ShowsAll(c.Path) || slices.ContainsFunc(box.Hide, func(p string) bool { return kernel.Beneath(c.Path, p) }) {
			reasons = append(reasons, reason.Outside(c.Path))
		}
	}
	for _, f := range w.task.Inputs.Files {
		if !asBefore(at, f.Path) {
			reasons = append(reasons, reason.Outside(f.Path))
		}
	}
	return reasons
}

// byPath returns the change at each changed path.
func byPath(changes []change.Change) map[string]change.Change {
	at := make(map[string]change.Change, len(changes))
	for _, c := range changes {
		at[c.Path] = c
	}
	return at
}

// asBefore says whether the entry at a path is unchanged: no change has that path, and
// no folder above it was removed or replaced. Such a change of a folder covers its whole
// content.
func asBefore(at map[string]change.Change, p string) bool {
	if _, changed := at[p]; changed {
		return false
	}
	for up := path.Dir(p); up != "."; up = path.Dir(up) {
		if c, changed := at[up]; changed && c.Kind != change.KindFolder {
			return false
		}
	}
	return true
}

// unchanged lists outputs that are the same as before: declared ones without a change,
// and files that an action wrote with the same content. They count as written files:
// sorted by path, files from the first one beyond a limit on are not listed, and the
// execution is rejected for them.
func (w *performance) unchanged(paths []string, changes []change.Change) {
	o := &w.p.Observed
	left := w.task.Rules.MaxBytes
	for _, f := range o.Outputs {
		left -= f.Size
	}
	at := byPath(changes)
	for _, p := range sorted(paths) {
		if !asBefore(at, p) || !w.task.Sandbox.Shows(p) {
			continue
		}
		kind, sum, size := w.p.box.Before(p)
		if kind != change.KindFile {
			continue
		}
		if len(o.Outputs) >= w.task.Rules.MaxFiles || size > left {
			o.Reject(reason.Limit())
			o.Cut = true
			return
		}
		left -= size
		o.Outputs = append(o.Outputs, evidence.File{Path: p, SHA256: sum, Size: size})
		w.p.Unchanged = append(w.p.Unchanged, p)
	}
}

// Protected returns the names at the top of a work folder that commands can read and not
// write. These entries control what other tools run.
func Protected() []string { return []string{".git", ".fiador", ".github"} }
