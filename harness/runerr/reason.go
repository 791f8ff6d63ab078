package runerr

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Reason returns the operating system's text for an error, without operation and path.
func Reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var se *os.SyscallError
	if errors.As(err, &se) {
		err = se.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return strings.ToLower(err.Error())
}
