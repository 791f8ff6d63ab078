package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Place is a cluster of workers. It is an execute.Place, and safe for tasks side by side. Close
// ends the helper.
type Place struct {
	Config Config
	Helper string                   // the program fiador-remote
	Env    func(name string) string // the environment, for the values of headers
	RunID  string                   // the command, as the server's logs name it

	helper helper
}

// Close ends the helper. It returns when the helper has ended.
func (p *Place) Close() error { return p.helper.close() }

// taskGrace is how much longer than its commands a task may take on a worker.
const taskGrace = 30 * time.Second

// noBudget is the time of the commands of a task without a limit.
const noBudget = 10 * time.Minute

// Open has a worker carry out a task, and returns a box in which every action is already done.
func (p *Place) Open(ctx context.Context, task execute.Task) (execute.Box, error) {
	if err := unsendable(task); err != nil {
		return nil, err
	}
	dir, err := sandbox.NewScratch("")
	if err != nil {
		return nil, runerr.Sandbox(ctx, err)
	}
	b, err := p.open(ctx, task, dir)
	if err != nil {
		return nil, errors.Join(runerr.Sandbox(ctx, err), os.RemoveAll(dir))
	}
	return b, nil
}

func (p *Place) open(ctx context.Context, task execute.Task, dir string) (*box, error) {
	spec, was, root, err := p.spec(ctx, task)
	if err != nil {
		return nil, err
	}
	text, sum, err := spec.Artifact()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	root = append(root, input{Path: job.SpecFile, SHA256: sum.Hex(), Size: int64(len(text)), Source: file})
	list := filepath.Join(dir, "root.jsonl")
	if err := writeRoot(list, root); err != nil {
		return nil, err
	}
	budget := task.Budget
	if budget == 0 {
		budget = noBudget
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	err = p.helper.execute(ctx, p, order{
		Argv: []string{job.ShimFile}, Root: list, Outputs: []string{job.ResultFile, job.DataFile}, MaxBytes: []int64{job.MaxResult, maxData(spec)},
		Platform: p.Config.Platform, TimeoutMS: (budget + taskGrace + layoutTime(root)).Milliseconds(), Out: out, Once: spec.Network || spec.Listed, Transfer: transferTime(root, maxData(spec)),
	})
	if err != nil {
		return nil, err
	}
	return read(out, p.Config.Arch, spec, sum, was)
}

// Probe has a worker try each isolation with a task without actions. It returns what the server
// says that it can do, the machine of the worker, and the SHA-256 of the shim.
func (p *Place) Probe(ctx context.Context) (list []sandbox.Probe, server Server, machine sandbox.Machine, shim string, err error) {
	for _, at := range []sandbox.Isolation{sandbox.Full, sandbox.Confined} {
		one := sandbox.Probe{Isolation: at}
		b, err := p.Open(ctx, execute.Task{
			Budget: taskGrace, Stdout: command.Stream{Keep: 1}, Stderr: command.Stream{Keep: 1},
			Sandbox: sandbox.Request{
				Write: sandbox.Staged, Least: at, Most: at, Limits: sandbox.Limits{MemoryMB: 64, CPUCores: 1, MaxChildren: 1, OutputFiles: 1, OutputBytes: 1024},
			},
		})
		switch {
		case err == nil:
			facts := b.Facts()
			one.Clauses, one.Staging, machine = facts.Clauses, facts.Staging, facts.Machine
			err = b.Close()
		case errors.As(err, &one.Err):
			err = nil
		}
		if err != nil {
			return nil, server, machine, "", err
		}
		list = append(list, one)
	}
	if p.helper.run == nil { // nothing was sent: this system cannot read a work folder for a worker
		return nil, server, machine, "", runerr.New(result.CodeSandbox, "commands are sent to a worker from Linux (amd64, arm64) alone", "run it there")
	}
	sent, err := p.shim()
	return list, p.helper.run.server, machine, sent.SHA256, err
}

// unsendable says what of a task cannot be carried out by a worker.
func unsendable(t execute.Task) error {
	refuse := func(what, hint string) error {
		return runerr.New(result.CodeSandbox, "not sent to a worker: "+what, hint)
	}
	switch {
	case t.Sandbox.Write == sandbox.Direct:
		return refuse("the commands would write into the work folder itself", "leave --write direct out")
	case len(t.Sandbox.Read) > 0:
		return refuse("the commands would read folders of this machine", "leave --read and the profile's folders out, or put the files into the work folder")
	case len(t.Env) > 0, t.Secrets != nil && !t.Secrets.Empty():
		return refuse("the commands need secrets, and secrets stay on this machine", "run it without --remote")
	case len(t.Calls) > 0, len(t.Tools) > 0, slices.ContainsFunc(t.Sandbox.Actions, func(a sandbox.Action) bool { return a.Given }):
		return refuse("the intent calls tools or models, and calls are made on this machine", "run it without --remote")
	case t.Program != "":
		return refuse("the command is pinned to a file of this machine", "run it without --remote")
	}
	return nil
}

// spec returns the task as a document, the entries of the work folder, and the files to upload.
func (p *Place) spec(ctx context.Context, task execute.Task) (*job.Spec, *originals, []input, error) {
	s := &job.Spec{
		Version: job.Version, BudgetMS: task.Budget.Milliseconds(), StdoutMax: task.Stdout.Keep, StderrMax: task.Stderr.Keep, Cut: task.Cut,
		ShowsTree: task.Sandbox.Tree != "", StopWhenCut: task.Cut && task.Stdout.Tee != nil,
	}
	s.Fill(task.Sandbox)
	left := int64(job.MaxStdin)
	for i := range s.Actions {
		a := &s.Actions[i]
		if i < len(task.Times) {
			a.TimeoutMS = task.Times[i].Milliseconds()
		}
		a.Code = task.Expect.Code
		if i < len(task.Stdin) && task.Stdin[i] != nil {
			b, err := readAll(ctx, io.LimitReader(task.Stdin[i], left+1))
			if err != nil {
				return nil, nil, nil, err
			}
			if left -= int64(len(b)); left < 0 {
				return nil, nil, nil, runerr.New(result.CodeSandbox, fmt.Sprintf("not sent to a worker: standard input has more than %d bytes", job.MaxStdin), "put it into a file of the work folder")
			}
			a.Stdin = new(base64.StdEncoding.EncodeToString(b))
		}
	}
	shim, err := p.shim()
	if err != nil {
		return nil, nil, nil, err
	}
	c := &collector{ctx: ctx, list: []input{shim}}
	was := &originals{at: map[string]original{}}
	if s.Work, err = c.folder(job.WorkDir, task.Sandbox, was); err != nil {
		return nil, nil, nil, err
	}
	if s.ShowsTree {
		if s.Tree, err = c.folder(job.TreeDir, sandbox.Request{Work: task.Sandbox.Tree}, nil); err != nil {
			return nil, nil, nil, err
		}
	}
	return s, was, c.list, nil
}

// readAll reads to the end, unless the context ends before. A Read that blocks is left alone then.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := io.ReadAll(r)
		done <- read{text, err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shim returns the program that the workers start.
func (p *Place) shim() (input, error) {
	name := p.Config.Shim[p.Config.Arch]
	f, err := os.Open(name)
	if err != nil {
		return input{}, runerr.New(result.CodeSandbox, "the shim for "+p.Config.Arch+" cannot be read: "+runerr.Reason(err), "install it beside fiador, or name it as shim in the document of --remote", runerr.Because(err))
	}
	defer f.Close()
	sum, size, err := digest(f)
	return input{Path: job.ShimFile, SHA256: sum, Size: size, Executable: true, Source: name}, err
}

// transferTime is the most that the helper takes for files, folders and outputs, beyond wait_ms: a
// second for each MiB, and for every 64 of them.
func transferTime(root []input, out int64) time.Duration {
	const entry = 128 // bytes beside the name, in the message of a folder
	bytes, folders := out+job.MaxResult, map[string]bool{}
	for _, in := range root {
		bytes += in.Size + entry + int64(len(in.Path))
		for dir := path.Dir(in.Path); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			bytes += entry + int64(len(dir))
		}
	}
	return time.Duration(bytes>>20+int64(len(root)+len(folders))/64+1) * time.Second
}

// layoutTime is how much longer a task may take because the shim copies its files first: a second
// for each 64 MiB, and for every 1000 files.
func layoutTime(root []input) time.Duration {
	var bytes int64
	for _, in := range root {
		bytes += in.Size
	}
	return time.Duration(bytes>>26+int64(len(root))/1000) * time.Second
}

// maxData returns how many bytes data.tar can have: the streams and the written files, each file
// with its header and the rest of its last block.
func maxData(s *job.Spec) int64 {
	per := s.StdoutMax + s.StderrMax + 4*tarBlock
	return int64(len(s.Actions))*per + s.Limits.OutputBytes + 2*tarBlock*maxWritten(s) + 64*tarBlock
}

// maxWritten returns how many changes an answer can have. A sandbox bounds the entries that
// commands make; they may delete every entry that there was.
func maxWritten(s *job.Spec) int64 { return int64(len(s.Work)) + 4*int64(s.Limits.OutputFiles) + 1<<16 }

// mostValues returns how many values result.json can have. A step has 24, and a change 7.
func mostValues(s *job.Spec) int {
	return 1000 + 32*len(s.Actions) + 8*int(maxWritten(s)) + 8*evidence.MaxConnections
}

// refusedAs returns the error for a refusal of the shim.
func refusedAs(r *job.Refusal, s *job.Spec) error {
	at := sandbox.Isolation(r.Isolation)
	switch {
	case r.Started:
		hint := "nothing of the answer was used; run it again, or use another worker"
		if s.Network || s.Listed {
			hint = mayHaveReached
		}
		return runerr.New(result.CodeEvidence, "it is not known what the commands did: the worker failed while they ran: "+told(r.Message), hint)
	case r.Errno < 0 || r.Errno > 4095, r.Kind == job.RefusedIsolation && at != sandbox.Full && at != sandbox.Confined && at != sandbox.None:
		return broken("a refusal of isolation %s with errno %d", canon.Quote(r.Isolation), r.Errno)
	}
	switch r.Kind {
	case job.RefusedIsolation:
		return &sandbox.Error{
			Isolation: at, Step: told(r.Step), Errno: syscall.Errno(r.Errno), Msg: "on the worker: " + told(r.Message), Cause: told(r.Cause), Remedy: told(r.Remedy),
		}
	case job.RefusedInputs:
		return runerr.New(result.CodeSandbox, "the worker has other files than were sent: "+told(r.Message), "the server's storage is damaged, or somebody else writes to it")
	}
	return runerr.New(result.CodeSandbox, "the worker could not carry out the task: "+told(r.Message), "use the shim of this version of fiador, or another worker")
}

// mayHaveReached is what to do about commands with a network that may have run.
const mayHaveReached = "they may have reached the network: look there before you run it again"

// told returns a text of the helper or of a worker, as a message can have it.
func told(text string) string { return canon.Cut(screen.Plain(canon.Clean(text))) }

// broken is the RunError for an answer that cannot be that of the shim.
func broken(format string, args ...any) error {
	return runerr.New(result.CodeEvidence, "the worker's answer is not one to this task: "+fmt.Sprintf(format, args...), "nothing of it was used; ask those who run the cluster")
}

// clausesFault says what a sandbox of this version cannot have reached.
func clausesFault(list []evidence.Clause, at sandbox.Isolation, s *job.Spec) string {
	names := evidence.Clauses()
	if len(list) != len(names) {
		return strconv.Itoa(len(list)) + " clauses, and a sandbox has " + strconv.Itoa(len(names))
	}
	for i, c := range list {
		if c.Clause != names[i] || !c.HoldsAt(at) {
			return "clause " + canon.Quote(c.Clause) + " is not one of isolation " + string(at)
		}
	}
	network := list[slices.Index(names, evidence.ClauseNetwork)]
	if (network == evidence.NetworkAllowed.Clause()) != s.Network || (network == evidence.NetworkProxy.Clause()) != s.Listed {
		return "clause network is not what the task allows"
	}
	return ""
}
