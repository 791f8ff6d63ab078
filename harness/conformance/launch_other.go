//go:build !linux

package conformance

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fiador/fiador/harness/command"
)

func launch([]string, []string, string, string, invocation) command.Start {
	return func(*os.File, *os.File, *os.File) (command.Process, error) {
		return nil, fmt.Errorf("vectors are run on linux only: %w", errors.ErrUnsupported)
	}
}

func sweep(string, time.Duration) []string { return nil }
