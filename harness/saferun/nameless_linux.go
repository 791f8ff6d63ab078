package saferun

import (
	"os"
	"syscall"
)

// openNameless opens a file that never has a name: O_TMPFILE of open(2).
func openNameless(folder string) (*os.File, error) {
	return os.OpenFile(folder, os.O_RDWR|oTmpfile, 0o600)
}

// oTmpfile is O_TMPFILE, which package syscall lacks. It includes O_DIRECTORY, so that a
// kernel without O_TMPFILE returns an error.
const oTmpfile = 0o20000000 | syscall.O_DIRECTORY
