// Command fiador decides whether an agent's intent may go ahead.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	// A reader that went away must show as a failed write, and so as exit
	// status 2, not as death by signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// What does not look at ctx, a write that nobody reads above all, must not
	// outlive a Ctrl-C.
	var busy sync.Mutex
	context.AfterFunc(ctx, func() {
		time.Sleep(time.Second)
		busy.Lock()
		os.Exit(exitError)
	})
	// The completion of a shell would write a log to the file that this names.
	os.Unsetenv("BASH_COMP_DEBUG_FILE")
	os.Exit(run(ctx, os.Args[1:], system{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		tty:    term.IsTerminal(int(os.Stderr.Fd())),
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		env:    os.Getenv,
		now:    time.Now,
		rand:   rand.Reader,
		busy:   &busy,
	}))
}
