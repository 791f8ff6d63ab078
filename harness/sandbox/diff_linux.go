//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Changes are the differences between the work folder as it was and as the commands
// left it, by path. It ends everything inside first. With direct writes there is
// nothing to compare, and no change.
//
// A staged folder that is full is ErrStageFull beside the changes: some write did not
// get the room that it wanted.
func (s *Sandbox) Changes() ([]Change, error) {
	if err := s.Finish(); err != nil {
		return nil, err
	}
	if s.staging == stageNone {
		return nil, nil
	}
	d := &differ{s: s, most: max(s.req.Limits.OutputBytes, 0)}
	defer d.close()
	if err := d.open(); err != nil {
		return nil, err
	}
	if err := d.folder(int(s.upper.Fd()), "", true); err != nil {
		return nil, err
	}
	d.missing()
	slices.SortFunc(d.list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if s.staging == stageOverlay && full(int(s.upper.Fd())) {
		return d.list, ErrStageFull
	}
	return d.list, nil
}

func full(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && (st.Bavail == 0 || st.Ffree == 0)
}

// Content opens a file that the commands left behind.
func (s *Sandbox) Content(p string) (io.ReadCloser, error) {
	if s.upper == nil {
		return nil, os.ErrNotExist
	}
	return openFile(int(s.upper.Fd()), p)
}

// beneath opens a path that neither leaves dir nor passes a link.
func beneath(dir int, p string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, p, &unix.OpenHow{
			Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// openFile opens a regular file, also one that its owner may not read: whoever could
// write it inside is gone.
func openFile(dir int, p string) (*os.File, error) {
	fd, err := beneath(dir, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if err == unix.EACCES {
		if err = allow(dir, p, 0o400); err == nil {
			fd, err = beneath(dir, p, unix.O_RDONLY|unix.O_NONBLOCK)
		}
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = f.Close()
		return nil, os.ErrInvalid
	}
	return f, nil
}

// allow gives the owner a permission on what stands at a path.
func allow(dir int, p string, mode uint32) error {
	fd, err := beneath(dir, p, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, procFD(fd), st.Mode&0o777|mode, 0)
}

func procFD(fd int) string { return "/proc/self/fd/" + itoa(fd) }

// differ compares what was left with what was there.
type differ struct {
	s    *Sandbox
	most int64 // bytes of a file that is still read
	was  []int // folders with what was there, the upper one first; -1: none
	list []Change
	seen map[string]bool // paths of the copy that are still there
}

func (d *differ) open() error {
	d.seen = map[string]bool{}
	for _, dir := range []string{d.s.req.Inputs, d.s.req.Work} {
		if dir == "" {
			d.was = append(d.was, -1)
			continue
		}
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		d.was = append(d.was, fd)
	}
	return nil
}

func (d *differ) close() {
	for _, fd := range d.was {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// before is what stood at a path: the folder that has it, and its status.
func (d *differ) before(p string) (int, *unix.Stat_t) {
	for _, dir := range d.was {
		if dir < 0 {
			continue
		}
		fd, err := beneath(dir, p, unix.O_PATH)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err == nil {
			return dir, &st
		}
	}
	return -1, nil
}

// folder walks one folder of what was left. Its own descriptor is dir.
func (d *differ) folder(dir int, at string, was bool) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.entry(dir, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	if was && d.s.staging == stageOverlay && opaque(dir) {
		return d.hidden(at, names)
	}
	return nil
}

// opaque says whether an overlay folder hides all that was below it.
func opaque(fd int) bool {
	var b [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

// hidden reports as deleted what an opaque folder hides.
func (d *differ) hidden(at string, kept []string) error {
	if at == "" {
		at = "."
	}
	for _, dir := range d.was {
		if dir < 0 {
			continue
		}
		fd, err := beneath(dir, at, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		names, err := readNames(fd)
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
		for _, name := range names {
			if p := path.Join(at, name); !slices.Contains(kept, name) && !d.seen[p] {
				d.seen[p] = true
				_, st := d.before(p)
				d.list = append(d.list, Change{Path: p, Kind: KindDeleted, Before: seenAs(st)})
			}
		}
	}
	return nil
}

func readNames(dir int) ([]string, error) {
	dup, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (d *differ) entry(dir int, name, p string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	d.seen[p] = true
	if m, ok := d.s.copied[p]; ok && m.same(&st) && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	from, old := d.before(p)
	c := Change{Path: p, Kind: kindOf(st.Mode), Before: seenAs(old)}
	switch c.Kind {
	case KindFolder:
		if old == nil || kindOf(old.Mode) != KindFolder {
			d.list = append(d.list, c)
		}
		return d.into(dir, name, p, old != nil && kindOf(old.Mode) == KindFolder)
	case KindOther:
		if d.s.staging == stageOverlay && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
			if old == nil {
				return nil // made and deleted again
			}
			c.Kind = KindDeleted
		}
	case KindLink:
		var err error
		if c.Target, err = readLink(dir, name); err != nil {
			return err
		}
		if old != nil && kindOf(old.Mode) == KindLink {
			if was, err := readLink(from, p); err == nil && was == c.Target {
				return nil
			}
		}
	case KindFile:
		same, err := d.file(dir, name, &st, from, old, &c)
		if err != nil || same {
			return err
		}
	}
	d.list = append(d.list, c)
	return nil
}

// longestPath is the length of a path, in bytes, beyond which nobody looks: a folder
// that deep is a change that is never accepted, whatever is in it.
const longestPath = 4095

func (d *differ) into(dir int, name, p string, was bool) error {
	if len(p) > longestPath {
		return nil
	}
	fd, err := beneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES {
		if err = allow(dir, name, 0o700); err == nil {
			fd, err = beneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.folder(fd, p, was)
}

// file fills in what a file holds, and says whether that is what it held before.
func (d *differ) file(dir int, name string, st *unix.Stat_t, from int, old *unix.Stat_t, c *Change) (bool, error) {
	c.Size, c.Executable = st.Size, st.Mode&0o100 != 0
	if c.Size > d.most {
		return false, nil
	}
	f, err := openFile(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if c.SHA256, err = digest(f); err != nil {
		return false, err
	}
	if old == nil || kindOf(old.Mode) != KindFile || old.Size != st.Size || (old.Mode&0o100 != 0) != c.Executable {
		return false, nil
	}
	was, err := openFile(from, c.Path)
	if err != nil {
		return false, nil
	}
	defer was.Close()
	sum, err := digest(was)
	return err == nil && bytes.Equal(sum[:], c.SHA256[:]), nil
}

func digest(r io.Reader) (sum [32]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// missing reports what a copy had and the commands deleted, each folder as one.
func (d *differ) missing() {
	for _, p := range d.s.copied.paths() {
		if d.seen[p] || gone(d.list, path.Dir(p)) {
			continue
		}
		_, old := d.before(p)
		d.list = append(d.list, Change{Path: p, Kind: KindDeleted, Before: seenAs(old)})
	}
}

// gone says whether the folder is among what was deleted, the paths above it included.
func gone(list []Change, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(list, func(c Change) bool { return c.Kind == KindDeleted && c.Path == dir }) {
			return true
		}
	}
	return false
}

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindFolder
	case unix.S_IFLNK:
		return KindLink
	}
	return KindOther
}

func seenAs(st *unix.Stat_t) *Seen {
	if st == nil {
		return nil
	}
	return &Seen{Kind: kindOf(st.Mode), Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, ChangedNS: st.Ctim.Nano()}
}

func readLink(dir int, p string) (string, error) {
	fd, err := beneathLink(dir, p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(fd, "", b)
	return string(b[:max(n, 0)]), err
}

// beneathLink opens a link itself.
func beneathLink(dir int, p string) (int, error) {
	parent, name := path.Split(p)
	if parent != "" {
		fd, err := beneath(dir, path.Clean(parent), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		dir = fd
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
