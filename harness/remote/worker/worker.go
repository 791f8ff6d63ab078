// Package worker performs on a worker what a spec demands (specs/remote.md): it lays out the
// work folder, performs the actions in a sandbox, and writes result.json and data.tar. It never
// writes into the worker's inputs, and it holds each of them against the spec before anything
// starts.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/canon"
)

// ScratchPrefix begins the names of the folders that shims make. A shim removes what begins so
// and was left by another.
const ScratchPrefix = "fiador-shim-"

// Perform performs the spec of the action whose folder is dir, and writes the two outputs. A
// refusal is a result too. An error says that there is no result: the outputs could not be
// written, or ctx ended. Perform makes its copies beneath the folder scratch and removes it,
// and a folder that a killed shim has left beside it.
func Perform(ctx context.Context, dir, scratch string) error {
	if lock, err := hold(scratch); err == nil { // a file system without locks has folders that nobody sweeps
		defer lock.Close()
	}
	sweep(scratch)
	defer func() { _ = tree.RemoveAll(scratch) }() // a copy that cannot be removed does not make the result wrong
	return report(dir, func(root *os.Root, spec *job.Spec, r *job.Result, d *data) error {
		err := layOut(ctx, root, scratch, spec)
		if err == nil {
			err = perform(ctx, scratch, spec, r, d)
		}
		return cmp.Or(ctx.Err(), err)
	})
}

// Refuse writes the outputs of an action that could not begin.
func Refuse(dir string, why error) error {
	return report(dir, func(*os.Root, *job.Spec, *job.Result, *data) error { return why })
}

// report reads the spec, lets do fill in the result, and writes the outputs. If do returns an
// error, the result is the refusal alone, unless the error is that of a context.
func report(dir string, do func(*os.Root, *job.Spec, *job.Result, *data) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(job.OutDir, 0o755); err != nil {
		return err
	}
	spec, sum, why := readSpec(root)
	r := job.Result{Version: job.Version, Spec: sum, Machine: job.Machine(sandbox.ThisMachine())}
	refused := r
	d, err := newData(root)
	if err != nil {
		return err
	}
	if why == nil {
		why = do(root, spec, &r, d)
	}
	if errors.Is(why, context.Canceled) {
		return errors.Join(why, d.Abort())
	}
	text, _, err := r.Artifact()
	if err == nil && len(text) > job.MaxResult {
		err = fmt.Errorf("the result is larger than %d MiB: let the commands change fewer files", job.MaxResult>>20)
	}
	if err != nil {
		err = &begun{err}
	}
	if why = cmp.Or(why, err); why != nil {
		refused.Refused = refusalOf(why)
		if text, _, err = refused.Artifact(); err == nil {
			err = d.clear()
		}
	}
	if err != nil {
		return errors.Join(err, d.Abort())
	}
	if err := d.finish(); err != nil {
		return err
	}
	return put(root, job.ResultFile, text)
}

// put writes a file that everybody can read.
func put(root *os.Root, name string, text []byte) error {
	f, err := durable.Create(root, name, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Chmod(0o644) // whatever the umask is
	}
	if err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Replace()
}

// readSpec returns the spec, and the hash of what was read of it.
func readSpec(root *os.Root) (*job.Spec, canon.ContentHash, error) {
	var text []byte
	f, err := root.Open(job.SpecFile)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, job.MaxSpec+1))
	}
	sum := canon.Sum(text)
	if err != nil {
		return nil, sum, refuse(job.RefusedSpec, "reading the spec: %w", err)
	}
	spec, err := job.ReadSpec(text)
	if err != nil {
		return nil, sum, refuse(job.RefusedSpec, "%s: %w", job.SpecFile, err)
	}
	return spec, sum, nil
}

// refusal is an error of a kind of job.Refusal. Every other error is RefusedWorker.
type refusal struct {
	kind string
	error
}

func (r *refusal) Unwrap() error { return r.error }

// begun is an error after the first action had begun.
type begun struct{ error }

func (b *begun) Unwrap() error { return b.error }

func refuse(kind, form string, args ...any) error { return &refusal{kind, fmt.Errorf(form, args...)} }

func refusalOf(why error) *job.Refusal {
	d := &job.Refusal{Kind: job.RefusedWorker, Message: strings.ToValidUTF8(why.Error(), "\uFFFD")}
	if r, ok := errors.AsType[*refusal](why); ok {
		d.Kind = r.kind
	}
	_, d.Started = errors.AsType[*begun](why)
	if e, ok := errors.AsType[*sandbox.Error](why); ok {
		d.Isolation, d.Step, d.Errno, d.Cause, d.Remedy = string(e.Isolation), e.Step, int(e.Errno), e.Cause, e.Remedy
	}
	return d
}
