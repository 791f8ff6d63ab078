package runerr

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
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

// maxNear is how many names of a folder are compared with a name that it does not have.
const maxNear = 4096

// NearFile asks for the file or folder whose name is most like a name that is not there, or
// returns "".
func NearFile(name string) string {
	dir, base := filepath.Split(filepath.Clean(name))
	folder, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(maxNear + 1)
	if len(names) > maxNear || base == "." || slices.Contains(names, base) {
		return ""
	}
	slices.Sort(names)
	near := specs.Nearest(base, names)
	if near == "" {
		return ""
	}
	return "did you mean " + canon.Quote(screen.Folder(dir+near)) + "? "
}
