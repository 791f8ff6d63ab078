// Command safe-run runs a command and leaves a log of it when it fails.
package main

import (
	"crypto/rand"
	"os"
	"time"

	"github.com/fiador/fiador/harness/saferun"
)

func main() {
	os.Exit(saferun.Run(os.Args[1:], saferun.System{
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Env:     os.Environ(),
		Signals: saferun.Notify(),
		Now:     time.Now,
		Rand:    rand.Reader,
	}))
}
