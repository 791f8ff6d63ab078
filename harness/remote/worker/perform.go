package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
)

// performance is a spec that is performed. Package execute has the same order of actions, and
// the same ends of it, on the machine of fiador.
type performance struct {
	spec  *job.Spec
	stdin [][]byte // of each action
	box   *sandbox.Sandbox
	r     *job.Result
	d     *data
}

// perform starts the sandbox, performs the actions in order, and fills in the result. Nothing
// starts if the sandbox cannot be what the spec demands. Every later error is a begun.
func perform(ctx context.Context, scratch string, spec *job.Spec, r *job.Result, d *data) error {
	p := &performance{spec: spec, r: r, d: d}
	req, err := p.request(scratch)
	if err != nil {
		return err
	}
	host := sandbox.NewHost(scratch)
	defer host.Close()
	if p.box, err = host.Start(ctx, req); err != nil {
		if _, ours := errors.AsType[*sandbox.Error](err); ours {
			return &refusal{job.RefusedIsolation, err}
		}
		return err
	}
	err = p.actions(ctx)
	if err == nil {
		err = p.changes()
	}
	facts := p.box.Facts()
	r.Isolation, r.Clauses, r.Plan, r.Staging = string(facts.Isolation), facts.Clauses, evidence.Hash(facts.PlanHash), facts.Staging
	r.Machine, r.PeakMemory, r.Contacts = job.Machine(facts.Machine), p.box.PeakMemory(), p.box.Connections()
	if err = errors.Join(err, p.box.Close()); err != nil && len(spec.Actions) > 0 {
		err = &begun{err}
	}
	return err
}

// request decodes the spec, and refuses numbers that would mean something else further on.
func (p *performance) request(scratch string) (sandbox.Request, error) {
	numbers := []int64{p.spec.BudgetMS, p.spec.StdoutMax, p.spec.StderrMax}
	for i, a := range p.spec.Actions {
		var stdin []byte
		if a.Stdin != nil {
			var err error
			if stdin, err = base64.StdEncoding.DecodeString(*a.Stdin); err != nil {
				return sandbox.Request{}, refuse(job.RefusedSpec, "the standard input of action %d: %w", i, err)
			}
		}
		p.stdin, numbers = append(p.stdin, stdin), append(numbers, a.TimeoutMS)
	}
	for _, n := range numbers {
		if n < 0 || n > math.MaxInt32 {
			return sandbox.Request{}, refuse(job.RefusedSpec, "a time or a limit of streams is %d, and must be from 0 to %d", n, math.MaxInt32)
		}
	}
	req, err := p.spec.Request()
	if err != nil {
		return req, &refusal{job.RefusedSpec, err}
	}
	req.Work = filepath.Join(scratch, job.WorkDir)
	if p.spec.ShowsTree {
		req.Tree = filepath.Join(scratch, job.TreeDir)
	}
	return req, nil
}

// actions performs the actions in order and stops at the first that fails.
func (p *performance) actions(ctx context.Context) error {
	left := command.Budget(time.Duration(p.spec.BudgetMS) * time.Millisecond)
	for i, a := range p.spec.Actions {
		if len(a.Argv) == 0 {
			errno, err := p.box.Write(i)
			if err != nil {
				return err
			}
			p.r.Steps = append(p.r.Steps, job.Step{Errno: int(errno)})
			if errno != 0 {
				return nil
			}
			continue
		}
		failed, err := p.command(ctx, i, &left)
		if err != nil || failed {
			return err
		}
	}
	return nil
}

// command runs a command to its end, and says whether it has failed.
func (p *performance) command(ctx context.Context, i int, left *command.Budget) (failed bool, err error) {
	a := p.spec.Actions[i]
	var known sandbox.End
	limit := left.For(time.Duration(a.TimeoutMS) * time.Millisecond)
	streams := command.Spec{Stdout: command.Stream{Keep: p.spec.StdoutMax}, Stderr: command.Stream{Keep: p.spec.StderrMax}}
	if p.stdin[i] != nil {
		streams.Stdin = bytes.NewReader(p.stdin[i])
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	if p.spec.StopWhenCut {
		streams.Stdout.Tee = &bound{p.spec.StdoutMax, stop}
	}
	res, err := p.box.Run(run, i, limit, streams, &known)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return false, err
	}
	if run.Err() != nil {
		res.Code, res.Signal = 0, syscall.SIGPIPE // as package execute ends a command whose reader is gone
	}
	took := res.Ended.Sub(res.Started)
	left.Spend(took)
	end := &job.End{
		Code: res.Code, Signal: int(res.Signal), TimedOut: known.TimedOut, OutOfMemory: known.OutOfMemory,
		NotFound: known.NotFound, NotExecutable: known.NotExecutable, MaxRSS: known.MaxRSS, DurationMS: took.Milliseconds(),
	}
	at := len(p.r.Steps)
	p.r.Steps = append(p.r.Steps, job.Step{End: end})
	end.Stdout, err = p.stream("stdout", at, res.Stdout)
	if err == nil {
		end.Stderr, err = p.stream("stderr", at, res.Stderr)
	}
	failed = evidence.End{
		Code: end.Code, Signal: end.Signal, TimedOut: end.TimedOut, OutOfMemory: end.OutOfMemory, NotFound: end.NotFound, NotExecutable: end.NotExecutable,
	}.FailedBut(a.Code)
	cut := res.Stdout.Truncated || res.Stderr.Truncated
	return failed || cut && !p.spec.Cut, err
}

// bound is a Tee that ends a command when it has written more than is kept.
type bound struct {
	left int64
	stop func()
}

func (b *bound) Write(text []byte) (int, error) {
	if b.left -= int64(len(text)); b.left < 0 {
		b.stop()
		return 0, io.ErrShortWrite
	}
	return len(text), nil
}

func (p *performance) stream(kind string, at int, c command.Captured) (job.Stream, error) {
	s := job.Stream{Kept: int64(len(c.Bytes)), Size: c.Size, SHA256: evidence.Hash(c.SHA256)}
	return s, p.d.add(kind, at, s.Kept, bytes.NewReader(c.Bytes))
}

// changes ends the sandbox, and fills in what it changed.
func (p *performance) changes() error {
	list, err := p.box.Changes()
	if p.r.Full = errors.Is(err, sandbox.ErrStageFull); err != nil && !p.r.Full {
		return err
	}
	for i, c := range list {
		one := job.Change{
			Path: base64.StdEncoding.EncodeToString([]byte(c.Path)), Kind: string(c.Kind), Size: c.Size,
			Executable: c.Executable, Target: base64.StdEncoding.EncodeToString([]byte(c.Target)),
		}
		if c.Kind == change.KindFile && c.SHA256 != [32]byte{} {
			one.SHA256 = evidence.Hash(c.SHA256)
			if err := p.content(i, c); err != nil {
				return err
			}
		}
		p.r.Changes = append(p.r.Changes, one)
	}
	return nil
}

// content adds the bytes of a changed file.
func (p *performance) content(i int, c change.Change) error {
	f, err := p.box.Content(c.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.d.add("files", i, c.Size, f)
}
