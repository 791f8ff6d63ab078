package saferun

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/command"
)

// Notify makes this process receive the signals that [System] takes as Signals. HUP and
// INT stay ignored where they were ignored before, as under nohup, also for the command.
// The Go runtime keeps no other signal ignored. Notify calls signal.Notify instead of
// signal.Ignore, because a command would inherit an ignored signal.
//
// A write without a reader (SIGPIPE) and a write beyond the limit of a file (SIGXFSZ) need
// no handler: the write returns an error; see patient.
func Notify() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	var list []os.Signal
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	signal.Notify(signals, list...)
	return signals
}

// interruption returns the signal that interrupted a run, or 0. If the command died of a
// signal from a key of the terminal, that key interrupted the run. This process gets the
// same signal, but may learn of the command's end first.
func interruption(r command.Result, signals <-chan os.Signal, keys bool) syscall.Signal {
	if r.Forwarded != 0 || !keys || r.Signal != syscall.SIGINT && r.Signal != syscall.SIGQUIT {
		return r.Forwarded
	}
	late := time.After(patience)
	for r.Key != r.Signal {
		select {
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok {
				r.Key = sig
			}
		case <-late:
			return 0
		}
	}
	return r.Signal
}

// say writes the messages of this process. A reader that does not read can block it until
// a signal comes, or only for a short time after an interruption.
func say(to io.Writer, signals <-chan os.Signal, interrupted bool, write func(io.Writer)) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		w := bufio.NewWriter(to)
		write(w)
		w.Flush() // an error here has no reader
	}()
	var late <-chan time.Time
	if interrupted {
		late = time.After(drain)
	}
	select {
	case <-said:
		return
	case <-late:
	case <-signals:
	}
	select {
	case <-said:
	case <-time.After(patience):
	}
}

// patience is how long this process waits for events that should come at once.
const patience = 200 * time.Millisecond

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT"}
	return cmp.Or(names[s], strconv.Itoa(int(s)))
}
