// Command fiador decides whether an agent's intent may go ahead.
package main

import (
	"crypto/rand"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fiador/fiador/cmd/fiador/all"
	"github.com/fiador/fiador/cmd/fiador/cli"
)

func main() { process(time.Now, rand.Reader) }

// process runs the command line of this process, and ends the process.
func process(now func() time.Time, random io.Reader) {
	// A reader that goes away must cause a failed write, and so exit status 2. The process
	// must not die of SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, busy := cli.Interruptible()
	// With this variable, shell completion would write a log to the file that it names.
	os.Unsetenv("BASH_COMP_DEBUG_FILE")
	os.Exit(cli.Run(ctx, os.Args[1:], cli.System{
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		TTY:     cli.IsTerminal(os.Stderr),
		OutTTY:  cli.IsTerminal(os.Stdout),
		Env:     os.Getenv,
		Environ: os.Environ(),
		Now:     now,
		Rand:    random,
		Busy:    busy,
	}, all.Commands))
}
