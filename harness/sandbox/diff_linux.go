//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// Changes returns the differences between the original work folder and what the commands
// left, sorted by path. It ends everything inside first. With direct writes there is nothing
// to compare, and Changes returns no change.
//
// If the staged folder is full, Changes returns ErrStageFull beside the changes: a write may
// have failed for lack of room.
func (s *Sandbox) Changes() ([]change.Change, error) {
	if err := s.Finish(); err != nil {
		return nil, err
	}
	return s.changed()
}

// ChangesSoFar returns the changes between two actions. It alters no mode: a folder that
// cannot be read as it is, and a sandbox that writes into the work folder itself, are errors.
func (s *Sandbox) ChangesSoFar() ([]change.Change, error) {
	if s.staging == stageNone {
		return nil, errors.ErrUnsupported
	}
	return s.changes(true)
}

func (s *Sandbox) changes(running bool) ([]change.Change, error) {
	if s.staging == stageNone {
		return nil, nil
	}
	d := &differ{s: s, most: max(s.req.Limits.OutputBytes, 0), running: running, seen: map[string]bool{}}
	var err error
	if d.was, err = s.originals(); err != nil {
		return nil, err
	}
	defer d.was.close()
	if err := d.folder("", true, false); err != nil {
		return nil, err
	}
	d.missing()
	slices.SortFunc(d.list, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) })
	if s.staging == stageOverlay && full(int(s.upper.Fd())) {
		return d.list, ErrStageFull
	}
	return d.list, nil
}

// full says whether a file system has no more room, or no more inodes.
func full(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && (st.Bavail == 0 || st.Ffree == 0)
}

// Content opens a file that the commands left.
func (s *Sandbox) Content(p string) (io.ReadCloser, error) {
	if s.upper == nil {
		return nil, os.ErrNotExist
	}
	return tree.OpenFile(int(s.upper.Fd()), p)
}

// differ compares the files that commands left with the original files.
type differ struct {
	s    *Sandbox
	most int64 // bytes that may still be read

	running bool   // actions may follow: no mode is altered
	was     layers // the original folders
	list    []change.Change
	seen    map[string]bool // paths of the copy that still exist
}

// folder compares one folder and its subfolders. under says that this folder, or one above
// it, hides all original content. folder closes the folder before it opens the subfolders,
// because there may be more subfolders than descriptors.
func (d *differ) folder(at string, was, under bool) error {
	dir, err := d.enter(at)
	if err != nil {
		return err
	}
	under = under || d.s.staging == stageOverlay && opaque(dir)
	folders, err := d.entries(dir, at, was, under)
	_ = unix.Close(dir)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if err := d.folder(f.path, f.was, under); err != nil {
			return err
		}
	}
	return nil
}

// subfolder is a folder that is not yet compared.
type subfolder struct {
	path string
	was  bool // the original has a folder at this path
}

// enter opens a folder, even if its mode does not let its owner read it.
func (d *differ) enter(at string) (int, error) {
	root := int(d.s.upper.Fd())
	if at == "" {
		if !d.running {
			_ = unix.Fchmod(root, 0o755)
		}
		return unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	fd, err := tree.Beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if d.running {
		return fd, err
	}
	if err == unix.EACCES {
		if err = tree.Allow(root, at, 0o700); err == nil {
			fd, err = tree.Beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, st.Mode&0o777|0o700)
	}
	return fd, nil
}

func (d *differ) entries(dir int, at string, was, under bool) (folders []subfolder, err error) {
	names, err := tree.ReadNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := d.entry(dir, name, path.Join(at, name))
		if err != nil {
			return nil, err
		}
		if f != nil {
			folders = append(folders, *f)
		}
	}
	if was && under {
		return folders, d.hidden(at, names)
	}
	return folders, nil
}

// opaque says whether an overlay folder hides everything in the layers below it.
func opaque(fd int) bool {
	var b [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

// hidden reports the entries that an opaque folder hides as deleted.
func (d *differ) hidden(at string, kept []string) error {
	names, err := d.was.names(cmp.Or(at, "."), false)
	for _, name := range names {
		if p := path.Join(at, name); !slices.Contains(kept, name) && !d.seen[p] && (d.s.req.Shows(p) || d.s.req.Passes(p)) {
			d.seen[p] = true
			_, st := d.was.find(p)
			d.list = append(d.list, change.Change{Path: p, Kind: change.KindDeleted, Before: change.SeenAs(st)})
		}
	}
	return err
}

// longestPath is a length in bytes. Folders with a longer path are not searched: such a
// folder is a change that is never accepted, whatever its content is.
const longestPath = 1024

// entry compares one named entry of a folder. It returns a folder that must still be
// compared.
func (d *differ) entry(dir int, name, p string) (*subfolder, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	d.seen[p] = true
	if m, ok := d.s.copied[p]; ok && m == markOf(&st) && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, nil
	}
	from, old := d.was.find(p)
	c := change.Change{Path: p, Kind: change.KindOf(st.Mode), Before: change.SeenAs(old)}
	was := old != nil && change.KindOf(old.Mode) == change.KindFolder
	if !d.s.req.Shows(p) && !(was && d.s.req.Passes(p)) {
		from, old = -1, nil // a path that commands could not see is neither unchanged nor deleted
	}
	switch c.Kind {
	case change.KindFolder:
		if !was {
			d.list = append(d.list, c)
		}
		if len(p) > longestPath {
			return nil, nil
		}
		return &subfolder{p, was}, nil
	case change.KindOther:
		if d.s.staging == stageOverlay && whiteout(&st) {
			if old == nil {
				return nil, nil // created and deleted again
			}
			c.Kind = change.KindDeleted
		}
	case change.KindLink:
		same, err := d.link(dir, name, from, old, &c)
		if err != nil || same {
			return nil, err
		}
	case change.KindFile:
		same, err := d.file(dir, name, &st, from, old, &c)
		if err != nil || same {
			return nil, err
		}
	}
	d.list = append(d.list, c)
	return nil, nil
}

// link fills in the target of a link, and says whether the original link had the same
// target.
func (d *differ) link(dir int, name string, from int, old *unix.Stat_t, c *change.Change) (bool, error) {
	var err error
	if c.Target, err = tree.ReadLink(dir, name); err != nil {
		return false, err
	}
	if old == nil || change.KindOf(old.Mode) != change.KindLink {
		return false, nil
	}
	was, err := tree.ReadLink(from, c.Path)
	return err == nil && was == c.Target, nil
}

// file fills in size, mode and digest of a file, and says whether the original file is the
// same.
func (d *differ) file(dir int, name string, st *unix.Stat_t, from int, old *unix.Stat_t, c *change.Change) (bool, error) {
	c.Size, c.Executable = st.Size, st.Mode&0o100 != 0
	if c.Size > d.most {
		d.most = 0 // over the limit of all files together: no further file is read
		return false, nil
	}
	d.most -= c.Size
	f, err := tree.OpenFile(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if c.SHA256, err = tree.Digest(f); err != nil {
		return false, err
	}
	if old == nil || change.KindOf(old.Mode) != change.KindFile || old.Size != st.Size || (old.Mode&0o100 != 0) != c.Executable {
		return false, nil
	}
	was, err := tree.OpenFile(from, c.Path)
	if err != nil {
		return false, nil
	}
	defer was.Close()
	sum, err := tree.Digest(was)
	return err == nil && bytes.Equal(sum[:], c.SHA256[:]), nil
}

// missing reports the entries of a copy that the commands deleted. A deleted folder is
// reported once.
func (d *differ) missing() {
	for _, p := range slices.Sorted(maps.Keys(d.s.copied)) {
		if d.seen[p] || gone(d.list, path.Dir(p)) {
			continue
		}
		_, old := d.was.find(p)
		d.list = append(d.list, change.Change{Path: p, Kind: change.KindDeleted, Before: change.SeenAs(old)})
	}
}

// gone says whether the folder, or one above it, was deleted or replaced.
func gone(list []change.Change, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(list, func(c change.Change) bool { return c.Path == dir && c.Kind != change.KindFolder }) {
			return true
		}
	}
	return false
}
