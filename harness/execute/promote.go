package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Promote applies the accepted changes to a folder, all or none; state is the folder of
// the journal during the change.
//
// In the folder of the work, Promote replaces only entries that the execution saw, and
// puts nothing where the folder's name leads to another folder now. Promote compares
// another folder with the changes as NewPlan does. There, refuse can add refusals to
// the plan, and a modified file may be missing.
func (p *Performed) Promote(ctx context.Context, state, dir string, refuse func(*patch.Plan) error) error {
	if len(p.Accepted) == 0 {
		return nil
	}
	now, err := os.Stat(dir)
	here := err == nil && p.at != nil && os.SameFile(now, p.at)
	switch {
	case here:
		err = tree.Apply(ctx, state, dir, p.Accepted, p.Content, p.since)
	case dir == p.work:
		err = &tree.ConflictError{Path: "."}
	default:
		err = p.promoteElsewhere(ctx, state, dir, refuse)
	}
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	return promoteError(err)
}

func (p *Performed) promoteElsewhere(ctx context.Context, state, dir string, refuse func(*patch.Plan) error) error {
	files := map[string]*patch.FileState{}
	for _, c := range p.Accepted {
		if c.Kind == change.KindFile {
			files[c.Path] = &patch.FileState{Size: c.Size, SHA256: evidence.Hash(c.SHA256), Executable: c.Executable}
		}
	}
	plan, err := patch.NewPlanOf(dir, p.operations(dir), patch.Options{Missing: true}, patch.Files{
		After: func(o pack.Operation) (*patch.FileState, error) { return files[o.Path], nil },
		Open:  p.Content,
	})
	if err != nil {
		return err
	}
	defer plan.Close()
	if refuse != nil {
		if err := refuse(plan); err != nil {
			return err
		}
	}
	if err := refusal(plan); err != nil {
		return err
	}
	return plan.Apply(ctx, state)
}

// operations returns the accepted changes as operations on a folder other than the
// folder of the work. An entry removed under a name that no patch can have gives no
// operation if that folder does not have it.
func (p *Performed) operations(dir string) []pack.Operation {
	var ops []pack.Operation
	for _, c := range p.Accepted {
		o := pack.Operation{Op: pack.OpDelete, Path: c.Path, Executable: c.Executable}
		switch kind := p.Before(c.Path); {
		case c.Kind == change.KindFolder:
			o.Op = patch.OpFolder
		case c.Kind == change.KindFile && kind == change.KindFile:
			o.Op = pack.OpModify
		case c.Kind == change.KindFile:
			o.Op = pack.OpCreate
		case !pack.PatchPath(c.Path):
			if _, err := os.Lstat(filepath.Join(dir, c.Path)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if o.Op != pack.OpCreate {
			p.SetBefore(&o)
		}
		ops = append(ops, o)
	}
	return ops
}

// SetBefore adds to an operation the hash of the entry that the execution saw at its
// path.
func (p *Performed) SetBefore(o *pack.Operation) {
	switch kind, sum, _ := p.box.Before(o.Path); {
	case kind == change.KindFile:
		o.BeforeSHA256 = evidence.Hash(sum)
	case kind == change.KindFolder && o.Op == pack.OpDelete:
		o.BeforeTreeSHA256 = p.treeBefore(o.Path)
	}
}

// treeBefore returns the hash of a folder's content before the execution. It returns ""
// if a patch cannot describe that content.
func (p *Performed) treeBefore(folder string) canon.ContentHash {
	files := map[string]canon.ContentHash{}
	for name := range p.box.Below(folder) {
		kind, sum, _ := p.box.Before(name)
		switch {
		case !pack.PatchPath(name) || kind != change.KindFile && kind != change.KindFolder || len(files) == pack.MaxTree:
			return ""
		case kind == change.KindFile:
			files[strings.TrimPrefix(name, folder+"/")] = evidence.Hash(sum)
		}
	}
	return pack.TreeHash(files)
}

// maxNamedFaults is the maximum number of paths that a refusal to promote names.
const maxNamedFaults = 10

// refusal is the RunError for a plan that cannot be applied, or nil.
func refusal(p *patch.Plan) error {
	faults := append(p.Refused[:len(p.Refused):len(p.Refused)], p.Conflicts...)
	if len(faults) == 0 {
		return nil
	}
	e := runerr.New(result.CodeEvidence, "the outputs were not applied",
		"move what is in the way, promote to another folder, or let the execution work on top of this one with --work")
	if len(p.Refused) > 0 {
		e.Hint = "promote to another folder, or let the plan leave these paths alone"
	}
	for i, f := range faults {
		if i == maxNamedFaults {
			e.Message += "; and " + strconv.Itoa(len(faults)-i) + " more paths"
			break
		}
		e.Message += map[bool]string{true: ": ", false: "; "}[i == 0] + canon.Quote(f.Path) + ": " + f.Why
	}
	return e
}

// promoteError is the RunError for outputs that could not be applied. The folder is
// unchanged, or the next command on it completes the change.
func promoteError(err error) *result.RunError {
	e := runerr.Evidence("the outputs were not applied", err)
	if _, conflict := errors.AsType[*tree.ConflictError](err); conflict {
		e.Hint = "somebody else changed the folder in the meantime; nothing of it was changed: run it again"
	}
	return e
}
