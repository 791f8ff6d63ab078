//go:build !linux

package command

import (
	"errors"
	"fmt"
	"os"
	"time"
)

var errLinuxOnly = fmt.Errorf("commands are run on linux only: %w", errors.ErrUnsupported)

func startDirect([]string, []string, string, [3]*os.File) (Process, error) {
	return nil, errLinuxOnly
}

func newPipe(string, bool) (child, own *os.File, err error) { return nil, nil, errLinuxOnly }

func readNow(*os.File, []byte) (n int, empty bool, err error) { return 0, false, errLinuxOnly }

func poll(*os.File, *os.File, time.Duration) (readable, wanted bool) { return true, true }
