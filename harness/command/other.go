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

// SharesGroup returns false.
func SharesGroup(*os.File) bool { return false }

// Foreground returns false.
func Foreground(*os.File) bool { return false }

// readiness is never created on this system.
type readiness struct{}

type found struct {
	number int
	closed bool
}

func newReadiness([2]*os.File) (*readiness, error) { return nil, errLinuxOnly }

func (*readiness) add(*os.File, int) error     { return errLinuxOnly }
func (*readiness) remove(*os.File) error       { return errLinuxOnly }
func (*readiness) again(*os.File, int) error   { return errLinuxOnly }
func (*readiness) wait(*[2]found) (int, error) { return 0, errLinuxOnly }
func (*readiness) deadline(time.Time)          {}
func (*readiness) close()                      {}

func readNow(*os.File, []byte) (n int, empty bool, err error) { return 0, false, errLinuxOnly }

func poll(*os.File, *os.File, time.Duration) (readable, wanted bool) { return true, true }
