package saferun

import (
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/fiador/fiador/harness/command"
)

// Notify has this process receive what [System] wants as Signals, and keeps a
// vanished reader, or a file that may not grow, from killing it: those writes
// fail. What is ignored stays ignored, for the command too, as under nohup.
// It uses Notify rather than Ignore: a command would inherit that.
func Notify() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), writeSignals...)
	return signals
}

// forwarded are the signals that are sent on to the command. A terminal sends INT
// and QUIT to a command that shares its group with this process by itself: those
// are not sent twice, and it is the command's own business whether it ends. heard
// says that one came.
func forwarded(sys System, heard *atomic.Bool) (_ <-chan os.Signal, release func()) {
	if sys.Signals == nil || !command.SharesGroup(sys.Stdin) {
		return sys.Signals, func() {}
	}
	signals, done := make(chan os.Signal, cap(sys.Signals)), make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-sys.Signals:
				if s == syscall.SIGINT || s == syscall.SIGQUIT {
					heard.Store(true)
					continue
				}
				select {
				case signals <- s:
				case <-done:
					return
				}
			}
		}
	}()
	return signals, func() { close(done) }
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGQUIT:
		return "QUIT"
	}
	return strconv.Itoa(int(s))
}
