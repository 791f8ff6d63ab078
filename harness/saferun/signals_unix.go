//go:build unix

package saferun

import (
	"os"
	"syscall"
)

// writeSignals kill a process for what a write could return as an error.
var writeSignals = []os.Signal{syscall.SIGPIPE, syscall.SIGXFSZ}
