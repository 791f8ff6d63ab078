//go:build linux && (amd64 || arm64)

package tree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// A file system without a disk of its own, such as an overlay, may get another device number
// at every mount. The journal of a folder on it then has another name. Only the mark
// identifies it, because on another disk another folder may have the same inode.

// others returns the names of the journals of this inode on other devices.
func (j *journal) others() []string {
	names, err := ReadNames(j.state)
	if err != nil {
		return nil
	}
	end := j.name[strings.LastIndexByte(j.name, '-'):]
	return slices.DeleteFunc(names, func(name string) bool {
		_, ok := deviceOf(name)
		return !ok || !strings.HasSuffix(name, end) || name == j.name
	})
}

// deviceOf returns the device in the name of a journal.
func deviceOf(name string) (uint64, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 || parts[0] != "apply" {
		return 0, false
	}
	device, err := strconv.ParseUint(parts[1], 16, 64)
	return device, err == nil
}

// moved opens the journal that this folder had on another device, and reads its record. It
// skips a journal that another process holds or that cannot be read. Two calls on one folder
// still exclude each other: each must hold the folder's own journal first.
func (a *applier) moved() (*journal, *record, error) {
	for _, name := range a.journal.others() {
		j, r := a.other(name)
		if j == nil {
			continue
		}
		var err error
		ours := false
		if !r.Origin.differs(a.origin) {
			ours, _ = a.marked(r)
		}
		if ours {
			err = r.move(name, uint64(a.id.Dev))
		}
		if ours && err == nil {
			return j, r, nil
		}
		if j.release(); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, nil
}

// other opens a journal that no process holds, if it has a record.
func (a *applier) other(name string) (*journal, *record) {
	state, err := unix.FcntlInt(uintptr(a.journal.state), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil
	}
	j := &journal{calls: a.calls, state: state, dir: -1, name: name}
	var r *record
	if j.dir, err = Beneath(state, name, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		err = errors.Join(ownFolder(j.dir, name), unix.Flock(j.dir, unix.LOCK_EX|unix.LOCK_NB))
	}
	if err == nil {
		r, err = j.load()
	}
	if err != nil || r == nil {
		j.release()
		return nil, nil
	}
	return j, r
}

// release releases a journal and leaves its files as they are.
func (j *journal) release() {
	if j.dir >= 0 {
		_ = unix.Close(j.dir)
	}
	_ = unix.Close(j.state)
}

// move changes the record's device numbers to the device that the folder is on now. It
// returns an error if a replaced entry was on a third device.
func (r *record) move(name string, to uint64) error {
	from, _ := deviceOf(name)
	for i := range r.Operations {
		was := r.Operations[i].Was
		if was == nil {
			continue
		}
		if was.Device != from {
			return fmt.Errorf("journal %q is about this folder, whose device has changed, and about files of another one: put right by hand what has names that begin with %q, and remove the journal", name, change.TempPrefix)
		}
		was.Device = to
	}
	return nil
}

// resumeMoved completes or takes back the record of this folder's journal on another device.
func (a *applier) resumeMoved() (Recovery, error) {
	j, r, err := a.moved()
	if err != nil || j == nil {
		return RecoveredNothing, err
	}
	own := a.journal
	a.journal = j
	defer func() {
		j.close()
		a.journal = own
	}()
	return a.resumeWith(r)
}
