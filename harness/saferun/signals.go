package saferun

import (
	"bufio"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/command"
)

// Notify has this process receive what [System] wants as Signals. HUP and INT stay
// ignored where they were, for the command too, as under nohup; the Go runtime keeps
// no more. It uses Notify rather than Ignore: a command would inherit that.
//
// A write that nobody reads (SIGPIPE) and one beyond the limit of a file (SIGXFSZ) are
// errors of that write without it; see patient.
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

// interruption is the signal that interrupted a run; 0: none did. A key of the
// terminal did if the command died of it. This process gets it at the same time,
// and may hear of the command's end first.
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

// say writes what this process itself has to say. Somebody who does not read it
// holds it up, until a signal comes; after an interruption not for long.
func say(to io.Writer, signals <-chan os.Signal, interrupted bool, write func(io.Writer)) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		w := bufio.NewWriter(to)
		write(w)
		w.Flush() // nobody is left to tell
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

// patience is for what should come at once.
const patience = 200 * time.Millisecond

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
