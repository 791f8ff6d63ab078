package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/lazy"
)

// Lock takes the lock of the file's inode. If waiting takes longer than ctx allows, Lock
// returns ctx's cause. A lock is never broken. The lock ends with the process.
func (f diskFile) Lock(ctx context.Context) error {
	err := flock(f.File, syscall.LOCK_EX|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return lockError(err)
	}
	// The kernel serves waiting processes in order. The waiting goroutine has its own
	// descriptor of the same open file. The descriptor outlives f if nobody waits any
	// more.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	own := os.NewFile(uintptr(fd), f.Name())
	got := make(chan error, 1)
	var settled atomic.Bool // set by the first of two: the lock, or the end of waiting
	go func() {
		err := flock(own, syscall.LOCK_EX)
		if settled.CompareAndSwap(false, true) {
			got <- err
		} else if err == nil {
			_ = flock(own, syscall.LOCK_UN)
		}
		_ = own.Close()
	}()
	select {
	case err := <-got:
		return lockError(err)
	case <-ctx.Done():
		if settled.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		return lockError(<-got)
	}
}

func (f diskFile) Unlock() error { return flock(f.File, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func lockError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("this file system has no locks: %w", err)
	}
	return err
}

// Datasync syncs the written data and the file's size.
func (f diskFile) Datasync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// networked are the file systems whose locks may not work between hosts.
var networked = lazy.Value[map[int64]string]{Make: func() map[int64]string {
	return map[int64]string{
		0x6969:     "NFS",
		0x517b:     "SMB",
		0xfe534d42: "SMB",
		0xff534d42: "CIFS",
		0x01021997: "9P",
		0x5346414f: "AFS",
		0x73757245: "Coda",
		0x564c:     "NCP",
		0x65735546: "FUSE",
	}
}}

// checkFileSystem refuses a file system with unreliable locks.
func checkFileSystem(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return checkFileSystemType(int64(uint32(st.Type)))
}

func checkFileSystemType(magic int64) error {
	if name, ok := networked.Get()[magic]; ok {
		return fmt.Errorf("it lies on %s, whose locks may not hold between hosts; put it on a local disk", name)
	}
	return nil
}

// checkWritable names the existing folders of a ledger that this process cannot write
// to. Without this check, an append would find this only after its record is safe.
func checkWritable(dir string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "write to", Path: path, Err: err}
		}
	}
	return nil
}

// bootID returns the id of this start of the system.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// inode returns the number of a file in its file system.
func inode(f file) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("a file without an inode")
	}
	return st.Ino, nil
}

// syncsAll says that SyncAll syncs every file.
const syncsAll = true

// SyncAll syncs all written data in the file system of the folder.
func (f folder) SyncAll() error {
	d, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
