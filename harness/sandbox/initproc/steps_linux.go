//go:build linux && (amd64 || arm64)

package initproc

import (
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// walker performs the set-up. Paths of steps are relative: until the pivot, the working
// folder is the new root.
type walker struct {
	plan   *Plan
	mounts map[string]int // mounts that are open and not yet placed
	sent   []int          // for the supervisor: the folder that takes the writes, the proxy's socket
	ready  chan<- func()  // to the thread of the rehearsal; nil if it has ended
}

// setUp performs the steps. It stops at the first step that fails and returns its number.
func (w *walker) setUp() (int, error) {
	for i, s := range w.plan.Steps {
		if err := w.step(s); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (w *walker) step(s Step) error {
	switch s.Op {
	case OpIdentity:
		if syscall.Getuid() != s.ID || syscall.Getgid() != s.ID {
			return syscall.EPERM
		}
		return nil
	case OpGuard:
		return prctl(prSetDumpable, 0)
	case OpReaper:
		return prctl(prSetSubreaper, 1)
	case OpPrivate:
		return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	case OpOpen:
		return w.open(s)
	case OpRoot:
		return w.root(s)
	case OpDir:
		return mkdir(s.To, s.Mode)
	case OpFile:
		return writeNew(s.To, []byte(s.Text), s.Mode)
	case OpLink:
		return syscall.Symlink(s.Text, s.To)
	case OpPlace:
		return w.place(s)
	case OpTmpfs:
		fd, err := memory(s)
		if err != nil {
			return err
		}
		return attach(fd, s.To)
	case OpStage:
		return w.stage(s)
	case OpOverlay:
		return w.layer(s)
	case OpCover:
		return cover(s.To)
	case OpHide:
		return hide(s.To)
	case OpProc:
		fd, err := newMount("proc", ReadOnly|NoSUID|NoDev|NoExec)
		if err != nil {
			return err
		}
		return attach(fd, s.To)
	case OpSeal:
		fd, err := syscall.Open("/", oPath|syscall.O_CLOEXEC|syscall.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		return mountSetattr(fd, false, ReadOnly|NoSUID|NoDev)
	case OpPivot:
		return pivot()
	case OpHostname:
		return syscall.Sethostname([]byte(s.Text))
	case OpLoopback:
		return loopback()
	case OpListen:
		return w.listen()
	case OpRehearse:
		return w.rehearse()
	case OpEnter:
		return syscall.Chdir(s.To)
	}
	return syscall.ENOSYS
}

// rehearse gives up, on a thread of its own, the rights that commands will give up. An error
// is therefore known before any command runs. The thread then waits for the first command
// (initial.start), so that its rights are given up only once. It does not wait if commands
// do not start from a thread, or have another id: whoever has that id could send signals to
// the thread.
func (w *walker) rehearse() error {
	c := &w.plan.Confine
	if c.Last || c.UID != 0 {
		var err error
		onThread(func() { err = c.apply() })
		return err
	}
	result, ready := make(chan error), make(chan func())
	w.ready = ready
	go func() {
		runtime.LockOSThread() // and never unlocked
		result <- c.apply()
		if f := <-ready; f != nil {
			f()
		}
	}()
	return <-result
}

const oPath = 0x200000

func (w *walker) open(s Step) error {
	fd := s.FD
	if fd == 0 {
		var err error
		fd, err = openTree(atFdcwd, s.From, openTreeClone|openTreeCloexec|atRecursive)
		if err != nil {
			return err
		}
	}
	w.mounts[s.Name] = fd
	return mountSetattr(fd, true, s.Attr)
}

func (w *walker) root(s Step) error {
	fd, err := memory(s)
	if err != nil {
		return err
	}
	if err := moveMount(fd, atFdcwd, "/"); err != nil {
		return err
	}
	return syscall.Fchdir(fd)
}

func (w *walker) place(s Step) error {
	fd, ok := w.mounts[s.Name]
	if !ok {
		return syscall.ENOENT
	}
	delete(w.mounts, s.Name)
	return attach(fd, s.To)
}

// attach puts a mount at a path of the new root and closes its descriptor.
func attach(fd int, to string) error {
	err := moveMount(fd, atFdcwd, to)
	syscall.Close(fd)
	return err
}

// attachNew is attach with a folder that it makes first.
func attachNew(fd int, to string) error {
	return inOrder(func() error { return mkdir(to, 0o700) }, func() error { return attach(fd, to) })
}

func memory(s Step) (int, error) {
	return newMount("tmpfs", s.Attr,
		[2]string{"size", strconv.FormatInt(s.Bytes, 10)},
		[2]string{"nr_inodes", strconv.FormatInt(s.Inodes, 10)},
		[2]string{"mode", strconv.FormatUint(uint64(s.Mode), 8)})
}

const stageDir = ".stage"

// stage makes the file system for written files: one folder for the overlay's upper layer
// and one for its work. It is not part of the view: the overlay keeps both folders, and
// layer removes the path to them.
func (w *walker) stage(s Step) error {
	fd, err := memory(s)
	if err != nil {
		return err
	}
	if err := attachNew(fd, stageDir); err != nil {
		return err
	}
	for _, name := range []string{"/upper", "/work"} {
		if err := mkdir(stageDir+name, 0o755); err != nil {
			return err
		}
	}
	upper, err := syscall.Open(stageDir+"/upper", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err == nil {
		w.sent = append(w.sent, upper)
	}
	return err
}

// layer mounts the overlay. Paths of the new root name its layers; they contain no character
// that an option must escape.
func (w *walker) layer(s Step) error {
	if len(s.Lower) == 0 { // there is no lower layer: the work folder contains only written files
		fd, err := openTree(atFdcwd, stageDir+"/upper", openTreeClone|openTreeCloexec)
		if err != nil {
			return err
		}
		return inOrder(func() error { return attach(fd, s.To) }, func() error { return away(stageDir) })
	}
	var lower []string
	options := "upperdir=" + stageDir + "/upper,workdir=" + stageDir + "/work,userxattr,lowerdir="
	for i, name := range s.Lower {
		fd, ok := w.mounts[name]
		if !ok {
			return syscall.ENOENT
		}
		delete(w.mounts, name)
		at := ".lower" + strconv.Itoa(i)
		if err := attachNew(fd, at); err != nil {
			return err
		}
		if i > 0 {
			options += ":"
		}
		lower, options = append(lower, at), options+at
	}
	if err := syscall.Mount("overlay", s.To, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return err
	}
	for _, at := range append(lower, stageDir) {
		if err := away(at); err != nil {
			return err
		}
	}
	return nil
}

// away removes a mount from the view, with the folder of its mount point.
func away(path string) error {
	return inOrder(func() error { return syscall.Unmount(path, umountDetach) }, func() error { return syscall.Rmdir(path) })
}

// cover makes the entry at a path read-only. It does nothing if the path has no entry: the
// judgement of the changes finds a protected name that appears later.
func cover(path string) error {
	var st syscall.Stat_t
	switch err := syscall.Lstat(path, &st); {
	case err == syscall.ENOENT, err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFLNK:
		return nil
	case err != nil:
		return err
	}
	fd, err := openTree(atFdcwd, path, openTreeClone|openTreeCloexec)
	if err != nil {
		return err
	}
	return inOrder(
		func() error { return mountSetattr(fd, false, ReadOnly|NoSUID|NoDev) },
		func() error { return attach(fd, path) },
	)
}

// hide mounts an unreadable entry over the entry at a path. It does nothing if the path has
// no entry. A link, there or on the way, is an error, because it would lead the mount
// elsewhere.
func hide(path string) error {
	root, err := syscall.Open(".", oPath|syscall.O_CLOEXEC|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(root)
	at, err := openBeneath(root, path, oPath|syscall.O_NOFOLLOW, 0)
	if err == syscall.ENOENT || err == syscall.ENOTDIR {
		return nil
	}
	if err != nil {
		return err
	}
	defer syscall.Close(at)
	fd, err := nothing(at)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := moveMount(fd, at, ""); err != nil {
		return err
	}
	if err = syscall.Unlink(none); err == syscall.ENOENT {
		return nil
	}
	return err
}

// none is the path of an empty file until it is mounted over another.
const none = ".none"

// nothing returns an empty mount of the same kind as the entry behind the descriptor. Its
// mode gives nobody a permission.
func nothing(at int) (int, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(at, &st); err != nil {
		return -1, err
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return newMount("tmpfs", ReadOnly|NoSUID|NoDev|NoExec, [2]string{"size", "4096"}, [2]string{"mode", "0"})
	case syscall.S_IFREG:
		if err := writeNew(none, nil, 0); err != nil {
			return -1, err
		}
		fd, err := openTree(atFdcwd, none, openTreeClone|openTreeCloexec)
		if err != nil {
			return -1, err
		}
		return fd, mountSetattr(fd, false, ReadOnly|NoSUID|NoDev|NoExec)
	}
	return -1, syscall.ELOOP
}

// pivot makes the new root the root and removes the old one.
func pivot() error {
	return inOrder(
		func() error { return syscall.PivotRoot(".", ".") },
		func() error { return syscall.Unmount(".", umountDetach) },
		func() error { return syscall.Chdir("/") },
	)
}

func mkdir(path string, mode uint32) error {
	err := syscall.Mkdir(path, mode)
	if err == syscall.EEXIST {
		return nil
	}
	return err
}

func writeNew(path string, b []byte, mode uint32) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return writeAll(fd, b)
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// copyAll copies the content of another descriptor from its beginning. It uses little
// memory, because an init collects no garbage and can have the limits of its commands.
func copyAll(to, from int) error {
	var b [16 << 10]byte
	for at := int64(0); ; {
		n, err := syscall.Pread(from, b[:], at)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		if err := writeAll(to, b[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
}

// loopback brings the interface lo up.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var req struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	return do(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req)))
}

// listen makes the socket at which the supervisor accepts connections of commands. The
// supervisor ends listening after each action, and listens again although connections of
// the action before are not forgotten yet.
func (w *walker) listen() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.sent = append(w.sent, fd)
	return inOrder(
		func() error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) },
		func() error {
			return syscall.Bind(fd, &syscall.SockaddrInet4{Port: ProxyPort, Addr: [4]byte{127, 0, 0, 1}})
		},
		func() error { return syscall.Listen(fd, syscall.SOMAXCONN) },
	)
}
