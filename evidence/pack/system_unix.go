//go:build unix

package pack

import (
	"errors"
	"os"
	"syscall"
)

// nonblock keeps what was put in a file's place meanwhile from making an open wait.
const nonblock = syscall.O_NONBLOCK

// syncFolder makes the names of a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
