//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteGiven performs action i, a file whose content the caller passes now. The errno says
// why the file could not be written; err says that the sandbox is gone.
func (s *Sandbox) WriteGiven(i int, content []byte) (syscall.Errno, error) {
	f, err := unnamed("content", content)
	if err != nil {
		return 0, s.fail(StepFiles, err)
	}
	defer f.Close()
	return s.write(i, []*os.File{f})
}

// unnamed returns a file without a name that holds b. The file is in memory; where memfd is
// refused, it is in the folder for temporary files. A sandbox whose memory no cgroup counts
// refuses memfd.
func unnamed(purpose string, b []byte) (*os.File, error) {
	var f *os.File
	fd, err := unix.MemfdCreate(purpose, unix.MFD_CLOEXEC)
	switch {
	case err == nil:
		f = os.NewFile(uintptr(fd), purpose)
	case errors.Is(err, unix.ENOSYS):
		if f, err = os.CreateTemp("", "fiador-"+purpose+"-"); err != nil {
			return nil, err
		}
		err = os.Remove(f.Name())
	default:
		return nil, err
	}
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
