package runerr

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Reason returns the operating system's text for an error, without operation and path.
func Reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if se, ok := errors.AsType[*os.SyscallError](err); ok {
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
