//go:build linux && (amd64 || arm64)

package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// record lists the operations to do on a folder.
type record struct {
	Version    int         `json:"version"`
	Folder     string      `json:"folder"` // path of the folder when the record was written, for people
	Origin     origin      `json:"origin"`
	Since      int64       `json:"since"` // nanoseconds since 1970
	Mark       string      `json:"mark"`
	Operations []operation `json:"operations"`

	phase phase
	links map[identity]int // number of operations per replaced object
}

// origin distinguishes a folder from a later one with the same inode.
type origin struct {
	Birth  int64  `json:"birth"`  // nanoseconds since 1970; 0: unknown
	Handle []byte `json:"handle"` // inode and generation as the file system encodes them; or empty
}

func originOf(fd int) (o origin) {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) == nil && st.Mask&unix.STATX_BTIME != 0 {
		o.Birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
		o.Handle = h.Bytes()
	}
	return o
}

// known says whether the file system identifies its folders for certain.
func (o origin) known() bool { return o.Birth != 0 && len(o.Handle) > 0 }

// same says whether both origins certainly belong to one folder.
func (o origin) same(p origin) bool {
	return o.known() && o.Birth == p.Birth && bytes.Equal(o.Handle, p.Handle)
}

// differs says whether the origins certainly belong to two folders. A different birth or a
// different handle alone is not enough. An overlay gives a folder another birth when it
// copies the folder up. File systems in user space give a folder another handle after they
// have forgotten it.
func (o origin) differs(p origin) bool {
	return o.known() && p.known() && o.Birth != p.Birth && !bytes.Equal(o.Handle, p.Handle)
}

// identity identifies an object on the machine.
type identity struct{ device, inode uint64 }

func identityOf(s *change.Seen) identity { return identity{s.Device, s.Inode} }

const recordVersion = 1

// action is what an operation does.
type action string

const (
	doFolder action = "folder" // makes a folder
	doPut    action = "put"    // puts a file or a symbolic link
	doDelete action = "delete"
)

// operation is one operation of a record. Paths are bytes, because they may not be UTF-8.
type operation struct {
	Do         action       `json:"do"`
	Path       []byte       `json:"path"`
	Kind       change.Kind  `json:"kind,omitempty"`   // kind of the entry that is put
	Target     []byte       `json:"target,omitempty"` // target of a symbolic link
	Blob       int          `json:"blob"`             // number of the blob with a file's content
	Size       int64        `json:"size"`
	SHA256     []byte       `json:"sha256,omitempty"`
	Executable bool         `json:"executable,omitempty"`
	Temp       string       `json:"temp"`  // name, in the same folder, of an entry that is not yet in place
	Aside      string       `json:"aside"` // name, in the same folder, of a replaced or deleted entry
	Was        *change.Seen `json:"was"`   // the entry that it replaces, or nil
}

func (o *operation) path() string { return string(o.Path) }

// valid says whether the record is complete and safe to carry out.
func (r *record) valid() bool {
	if r.Version != recordVersion {
		return false
	}
	temp := func(name string) bool {
		return len(name) == len(change.TempPrefix)+16 && name[:len(change.TempPrefix)] == change.TempPrefix && change.IsClean(name)
	}
	if len(r.Operations) == 0 || !temp(r.Mark) {
		return false
	}
	for _, o := range r.Operations {
		known := o.Do == doFolder || o.Do == doDelete && o.Was != nil ||
			o.Do == doPut && (o.Kind == change.KindFile && len(o.SHA256) == sha256.Size || o.Kind == change.KindLink && len(o.Target) > 0)
		if !known || !change.IsClean(o.path()) || !temp(o.Temp) || !temp(o.Aside) {
			return false
		}
	}
	return true
}

// nameTemps gives the record its mark and every operation its temporary names. No other
// record has these names.
func (r *record) nameTemps() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	whole := sha256.Sum256(b)
	name := func(i int, what string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %s", whole, i, what))
		return change.TempPrefix + hex.EncodeToString(sum[:8])
	}
	r.Mark = name(-1, "mark")
	for i := range r.Operations {
		r.Operations[i].Temp, r.Operations[i].Aside = name(i, "temp"), name(i, "aside")
	}
	return nil
}

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
