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
	if err := d.folder("", true, false); err != nil {
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
	most int64 // bytes that are still read
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

// folder compares one folder of what was left, with those in it. Under says that it
// hides, or one above it, all that was there before. It is closed before
// they are opened, for there may be more of them than descriptors.
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

// subfolder is a folder that has yet to be compared.
type subfolder struct {
	path string
	was  bool // there was one before
}

// enter opens a folder, also one that its owner may not look into.
func (d *differ) enter(at string) (int, error) {
	root := int(d.s.upper.Fd())
	if at == "" {
		_ = unix.Fchmod(root, 0o755)
		return unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	fd, err := beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES {
		if err = allow(root, at, 0o700); err == nil {
			fd, err = beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
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
	names, err := readNames(dir)
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
			if p := path.Join(at, name); !slices.Contains(kept, name) && !d.seen[p] && (d.s.req.Shows(p) || d.s.req.passes(p)) {
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

// longestPath is the length of a path, in bytes, beyond which nobody looks: a folder
// that deep is a change that is never accepted, whatever is in it.
const longestPath = 1024

// entry compares what has a name in a folder. A folder is returned, to be compared
// later.
func (d *differ) entry(dir int, name, p string) (*subfolder, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	d.seen[p] = true
	if m, ok := d.s.copied[p]; ok && m.same(&st) && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, nil
	}
	from, old := d.before(p)
	c := Change{Path: p, Kind: kindOf(st.Mode), Before: seenAs(old)}
	was := old != nil && kindOf(old.Mode) == KindFolder
	if !d.s.req.Shows(p) && !(was && d.s.req.passes(p)) {
		from, old = -1, nil // what commands could not see is neither the same nor deleted
	}
	switch c.Kind {
	case KindFolder:
		if !was {
			d.list = append(d.list, c)
		}
		if len(p) > longestPath {
			return nil, nil
		}
		return &subfolder{p, was}, nil
	case KindOther:
		if d.s.staging == stageOverlay && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
			if old == nil {
				return nil, nil // made and deleted again
			}
			c.Kind = KindDeleted
		}
	case KindLink:
		same, err := d.link(dir, name, from, old, &c)
		if err != nil || same {
			return nil, err
		}
	case KindFile:
		same, err := d.file(dir, name, &st, from, old, &c)
		if err != nil || same {
			return nil, err
		}
	}
	d.list = append(d.list, c)
	return nil, nil
}

// link fills in where a link leads, and says whether it led there before.
func (d *differ) link(dir int, name string, from int, old *unix.Stat_t, c *Change) (bool, error) {
	var err error
	if c.Target, err = readLink(dir, name); err != nil {
		return false, err
	}
	if old == nil || kindOf(old.Mode) != KindLink {
		return false, nil
	}
	was, err := readLink(from, c.Path)
	return err == nil && was == c.Target, nil
}

// file fills in what a file holds, and says whether that is what it held before.
func (d *differ) file(dir int, name string, st *unix.Stat_t, from int, old *unix.Stat_t, c *Change) (bool, error) {
	c.Size, c.Executable = st.Size, st.Mode&0o100 != 0
	if c.Size > d.most {
		d.most = 0 // over the limit of all files together: none of the rest is read
		return false, nil
	}
	d.most -= c.Size
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

// gone says whether the folder was deleted or replaced, or one above it.
func gone(list []Change, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(list, func(c Change) bool { return c.Path == dir && c.Kind != KindFolder }) {
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
