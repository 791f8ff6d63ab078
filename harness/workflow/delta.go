package workflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
)

// delta is what an item has changed.
type delta struct {
	artifacts []receipt.Artifact // by path
	others    []string           // changed paths that no state can have
	counted   work.Delta
}

// paths returns the changed paths.
func (d delta) paths() []string {
	list := slices.Clone(d.others)
	for _, a := range d.artifacts {
		list = append(list, a.Path)
	}
	return list
}

// moveStage moves what was written to the store's folder, and compares it with the base.
func (it *item) moveStage(p *execute.Performed) error {
	it.tried, it.drifted = delta{}, false
	it.stage = filepath.Join(it.stages, it.ID)
	if err := p.MoveTo(it.stage); err != nil {
		return runerr.Evidence("what was written could not be moved to the store", err)
	}
	for _, c := range p.Changes {
		if err := it.compare(p, c); err != nil {
			return err
		}
	}
	slices.SortFunc(it.tried.artifacts, func(a, b receipt.Artifact) int { return canon.Compare(a.Path, b.Path) })
	return it.count(p)
}

// compare adds the artifacts of a change.
func (it *item) compare(p *execute.Performed, c change.Change) error {
	was := receipt.Entry{}
	var err error
	if change.IsClean(c.Path) {
		if was, err = it.Store.Entry(it.base, c.Path); err != nil {
			return stateError(context.Background(), err)
		}
	}
	if was.Mode == receipt.Folder {
		if c.Kind == change.KindFolder {
			return nil
		}
		if err := it.leaves(c.Path, was); err != nil {
			return err
		}
		was = receipt.Entry{}
	}
	a := receipt.Artifact{Path: c.Path, Op: receipt.Delete, Mode: was.Mode}
	if was.Mode != "" {
		a.Before = was.Hash.String()
	}
	switch {
	case c.Kind == change.KindOther, c.Kind == change.KindFile && c.SHA256 == [32]byte{}, !named(c.Path):
		if c.Kind != change.KindFolder && c.Kind != change.KindDeleted {
			it.tried.others = append(it.tried.others, c.Path)
		}
		return nil
	case c.Kind == change.KindFile:
		f, err := p.Content(c.Path)
		if err != nil {
			return runerr.Evidence("what was written could not be read", err)
		}
		h, _, err := receipt.Copy(io.Discard, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return runerr.Evidence("what was written could not be read", err)
		}
		a.Mode, a.After = receipt.File, h.String()
		if c.Executable {
			a.Mode = receipt.Executable
		}
	case c.Kind == change.KindLink:
		a.Mode, a.After = receipt.Link, receipt.Sum([]byte(c.Target)).String()
	}
	switch {
	case a.Before == "" && a.After == "", a.Before == a.After && a.Mode == was.Mode:
		return nil // nothing that a state has
	case a.Before == "":
		a.Op = receipt.Create
	case a.After != "":
		a.Op = receipt.Modify
	}
	it.tried.artifacts = append(it.tried.artifacts, a)
	return nil
}

// named says whether a state can have the path.
func named(p string) bool {
	for _, up := range append(change.Above(p), p) {
		if !receipt.IsName(path.Base(up)) {
			return false
		}
	}
	return change.IsClean(p)
}

// leaves adds the removal of all files and links in a folder of the base.
func (it *item) leaves(at string, folder receipt.Entry) error {
	text, err := it.Store.Node(folder.Hash)
	if err != nil {
		return history.Error(err)
	}
	list, err := receipt.ReadNode(text)
	if err != nil {
		return history.Error(err)
	}
	for _, e := range list {
		p := path.Join(at, e.Name)
		if e.Mode != receipt.Folder {
			it.tried.artifacts = append(it.tried.artifacts, receipt.Artifact{Path: p, Op: receipt.Delete, Mode: e.Mode, Before: e.Hash.String()})
		} else if err := it.leaves(p, e); err != nil {
			return err
		}
	}
	return nil
}

// count counts the edit regions.
func (it *item) count(p *execute.Performed) error {
	root, err := os.OpenRoot(it.Tree)
	if err != nil {
		return runerr.Evidence("the folder could not be read", err)
	}
	defer root.Close()
	targets := map[string]string{}
	for _, c := range p.Changes {
		targets[c.Path] = c.Target
	}
	for _, a := range it.tried.artifacts {
		var before, after work.Side
		if a.Before != "" {
			e, err := it.Store.Entry(it.base, a.Path)
			if err != nil {
				return history.Error(err)
			}
			text, ok := original(root, a.Path, e)
			if before = side(e.Mode, text, e.Hash.String()); !ok {
				it.drifted, before = true, work.Side{Mode: string(e.Mode), Large: true, Digest: e.Hash.String()}
			}
		}
		switch {
		case a.After == "":
		case a.Mode == receipt.Link:
			after = work.Side{Mode: string(a.Mode), Text: []byte(targets[a.Path])}
		default:
			text, err := content(p, a.Path, work.MaxText)
			if err != nil {
				return runerr.Evidence("what was written could not be read", err)
			}
			after = side(a.Mode, text, a.After)
		}
		it.tried.counted.Add(a.Path, before, after, it.OutputFiles)
	}
	for _, name := range it.tried.others {
		it.tried.counted.Add(name, work.Side{}, work.Side{Mode: string(receipt.File), Large: true}, it.OutputFiles)
	}
	return nil
}

// side is one side of a change of a file.
func side(mode receipt.Mode, text []byte, hash string) work.Side {
	if len(text) > work.MaxText {
		return work.Side{Mode: string(mode), Large: true, Digest: hash}
	}
	return work.Side{Mode: string(mode), Text: text}
}

// original reads a file or a link of the folder. Of a file larger than work.MaxText, it returns
// one byte more than that. ok says whether it is what the base has.
func original(root *os.Root, name string, e receipt.Entry) (text []byte, ok bool) {
	if e.Mode == receipt.Link {
		target, err := root.Readlink(filepath.FromSlash(name))
		return []byte(target), err == nil && receipt.Sum([]byte(target)) == e.Hash
	}
	f, err := workspace.OpenFile(root, name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, work.MaxText+1))
	return text, err == nil && (len(text) > work.MaxText || receipt.Sum(text) == e.Hash)
}

// keep puts what the receipt needs into the store: the nodes of both states, and the files that
// the item has touched, before and after. The error wraps workspace.ErrDrift if the folder does
// not have the former.
func (it *item) keep(ctx context.Context, p *execute.Performed) error {
	root, err := os.OpenRoot(it.Tree)
	if err != nil {
		return fmt.Errorf("%w: %s", workspace.ErrDrift, runerr.Reason(err))
	}
	defer root.Close()
	err = it.Store.Keep(ctx, func(to workspace.Sink) error {
		for _, state := range []receipt.Hash{it.before, it.after} {
			if err := it.keepNodes(to, state); err != nil {
				return err
			}
		}
		for _, a := range it.tried.artifacts {
			if err := it.keepSides(to, root, p, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		clear(it.kept)
	}
	return err
}

// keepNodes keeps the node of a folder and those beneath it. What this run has kept before is
// not looked at again.
func (it *item) keepNodes(to workspace.Sink, h receipt.Hash) error {
	if it.kept[h] {
		return nil
	}
	it.kept[h] = true
	text, err := it.Store.Node(h)
	if err != nil {
		return err
	}
	if !to.Has(h) {
		if err := to.Put(h, newReader(text)); err != nil {
			return err
		}
	}
	list, err := receipt.ReadNode(text)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Mode == receipt.Folder {
			if err := it.keepNodes(to, e.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

func (it *item) keepSides(to workspace.Sink, root *os.Root, p *execute.Performed, a receipt.Artifact) error {
	put := func(hash string, open func() (io.ReadCloser, error)) error {
		h, err := receipt.ParseHash(hash)
		if err != nil || to.Has(h) {
			return err
		}
		f, err := open()
		if err != nil {
			return err
		}
		return errors.Join(to.Put(h, f), f.Close())
	}
	if a.Before != "" {
		var missing error // the folder has no such file any more
		err := put(a.Before, func() (f io.ReadCloser, err error) {
			if was, err := it.Store.Entry(it.before, a.Path); err != nil {
				return nil, err
			} else if was.Mode == receipt.Link {
				var target string
				target, missing = root.Readlink(filepath.FromSlash(a.Path))
				return io.NopCloser(newReader([]byte(target))), missing
			}
			f, missing = workspace.OpenFile(root, a.Path)
			return f, missing
		})
		if missing != nil || errors.Is(err, workspace.ErrOther) {
			return fmt.Errorf("%q: %w", a.Path, workspace.ErrDrift)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", a.Path, err)
		}
	}
	if a.After == "" || a.Mode == receipt.Link { // no link is admitted
		return nil
	}
	return put(a.After, func() (io.ReadCloser, error) { return p.Content(a.Path) })
}
