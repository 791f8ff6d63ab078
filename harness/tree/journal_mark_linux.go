//go:build linux && (amd64 || arm64)

package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// The mark of a record is an empty folder with a unique name, beside the path of the
// record's first operation. It exists from before the first change to the tree until after
// the last one. A tree without the mark therefore has either none or all of the operations.
// No operation changes a folder above the first operation's path.

// begin marks the tree and does the operations that are still due.
func (a *applier) begin(r *record, first bool) error {
	err := a.inMarked(r, func(dir int, shown string) error {
		err := a.do("mkdir", shown, func() error { return unix.Mkdirat(dir, r.Mark, 0o700) })
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return a.syncFolder(dir, shown)
	})
	if err != nil && (first || !unreachable(err)) {
		return err
	}
	return a.forward(r, first)
}

// end removes the mark, and then the record.
func (a *applier) end(r *record) error {
	err := a.inMarked(r, func(dir int, shown string) error {
		s, err := lookup(dir, r.Mark)
		if err != nil || s == nil {
			return err
		}
		if err := a.removeTree(dir, r.Mark, shown); err != nil {
			return err
		}
		return a.syncFolder(dir, shown)
	})
	if err != nil && !unreachable(err) {
		return err
	}
	return a.journal.clear(r)
}

// concerns says whether a record belongs to this folder. If the file system cannot tell for
// certain, the mark decides: without the mark there is nothing to complete or take back.
func (a *applier) concerns(r *record) (bool, error) {
	switch {
	case r.Origin.same(a.origin):
		return true, nil
	case r.Origin.differs(a.origin):
		return false, nil
	}
	return a.marked(r)
}

func (a *applier) marked(r *record) (there bool, err error) {
	err = a.inMarked(r, func(dir int, _ string) error {
		s, err := lookup(dir, r.Mark)
		there = s != nil && s.Kind == change.KindFolder
		return err
	})
	if unreachable(err) {
		return false, nil
	}
	return there, err
}

// inMarked calls f with the folder that contains the mark of a record, and with a name of
// that folder for messages.
func (a *applier) inMarked(r *record, f func(dir int, shown string) error) error {
	p := r.Operations[0].path()
	return a.in(p, func(dir int, _ string) error { return f(dir, p) })
}

// unreachable says that the folder above a path does not exist.
func unreachable(err error) bool { return blocked(err) || errors.Is(err, unix.ENOENT) }
