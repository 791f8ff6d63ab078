package saferun

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attempts is how many names are tried before an error.
const attempts = 100

// log writes a log and returns its path. It writes to a temporary name, syncs the file,
// and links it to a name that is free. A reader sees the whole log or no log. An error
// with a path means that the log is written, but a later step failed.
//
// A process that is killed before its end may leave ".safe-run-xxxxxxxx.tmp" behind.
func (s settings) log(sys System, started time.Time, aborted bool, write func(io.Writer) error) (path string, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", at(s.dir, err)
	}
	dir, err := os.OpenRoot(s.dir)
	if err != nil {
		return "", at(s.dir, err)
	}
	defer dir.Close()
	temp, err := writeTemp(dir, sys.Rand, write)
	if err != nil {
		return "", at(s.dir, err)
	}
	name, renamed, err := publish(dir, temp, s.namesOf(sys.Rand, started, aborted))
	if err != nil {
		dir.Remove(temp)
		return "", at(s.dir, err)
	}
	path = strings.TrimSuffix(s.dir, "/") + "/" + name
	if !renamed {
		err = again(func() error { return dir.Remove(temp) })
	}
	removed := err == nil || dir.Remove(temp) == nil
	if err := syncFolder(dir); err != nil {
		return path, fmt.Errorf("which a power failure may undo: %s", reason(err))
	}
	if !removed {
		return path, fmt.Errorf("and %s beside it, which could not be removed: %s", temp, reason(err))
	}
	return path, nil
}

// at adds the folder to an error, whose own path is relative to that folder.
func at(dir string, err error) error {
	return fmt.Errorf("folder %q: %s", dir, reason(err))
}

// writeTemp writes and syncs a file under a new temporary name, and returns that name. An error
// leaves no file.
func writeTemp(dir *os.Root, random io.Reader, write func(io.Writer) error) (name string, err error) {
	var f *os.File
	for range attempts {
		if name, err = suffix(random); err != nil {
			return "", err
		}
		name = ".safe-run-" + name + ".tmp"
		f, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		dir.Remove(name)
		return "", err
	}
	return name, nil
}

// publish gives the temporary file the first free name. If renamed is true, the temporary
// name is gone. Otherwise the file has both names.
func publish(dir *os.Root, temp string, next func(attempt int) (string, error)) (name string, renamed bool, err error) {
	for i := range attempts {
		if name, err = next(i); err != nil {
			return "", false, err
		}
		err = again(func() error { return dir.Link(temp, name) })
		if renamed = noLinks(err); renamed {
			err = rename(dir, temp, name)
		}
		if err == nil {
			return name, renamed, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", false, err
		}
	}
	return "", false, fmt.Errorf("%d names are taken", attempts)
}

// noLinks reports whether an error means that the file system has no hard links.
func noLinks(err error) bool {
	none := []error{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS}
	return slices.ContainsFunc(none, func(e error) bool { return errors.Is(err, e) })
}

// rename moves temp to name and never replaces a file. Where the system has no such
// rename, an empty file reserves the name for a moment.
func rename(dir *os.Root, temp, name string) error {
	err := renameNoReplace(dir, temp, name)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), dir.Rename(temp, name)); err != nil {
		dir.Remove(name)
		return err
	}
	return nil
}

// again repeats a system call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncFolder makes the name durable, if the file system can sync folders.
func syncFolder(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// namesOf returns a function for the name to try at each attempt.
func (s settings) namesOf(random io.Reader, started time.Time, aborted bool) func(attempt int) (string, error) {
	started = started.UTC()
	if s.names != "rfc" {
		return func(int) (string, error) {
			x, err := suffix(random)
			return "safe-run-" + started.Format("20060102-150405") + "-" + x + ".log", err
		}
	}
	status := map[bool]string{false: "FAIL", true: "ABORTED"}[aborted]
	base := started.Format("20060102T150405Z") + "-pid" + strconv.Itoa(os.Getpid()) + "-" + status
	return func(attempt int) (string, error) {
		if attempt == 0 {
			return base + ".log", nil
		}
		return base + "-" + strconv.Itoa(attempt) + ".log", nil
	}
}

// suffix returns eight random hexadecimal digits.
func suffix(random io.Reader) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
