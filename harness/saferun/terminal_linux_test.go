package saferun_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// atTerminal starts safe-run in the foreground of a terminal of its own, which is its
// standard input.
func atTerminal(t *testing.T, o options, args ...string) (p *tool, far *os.File) {
	t.Helper()
	o.stdin, far = rehearsal.Terminal(t)
	o.attr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	return start(t, o, args...), far
}

func typed(t *testing.T, far *os.File, keys string) {
	t.Helper()
	if _, err := far.WriteString(keys); err != nil {
		t.Error(err)
	}
}

const ctrlC, ctrlBackslash = "\x03", "\x1c"

func TestTerminalInput(t *testing.T) {
	p, far := atTerminal(t, options{}, sh(`tty; printf 'name? '; read name; echo "hello $name"; exit 3`)...)
	p.await("name? ")
	typed(t, far, "world\n")
	l := p.wait().failed(t, 3)
	if !strings.HasPrefix(l.stdout, "/dev/pts/") || !strings.HasSuffix(l.stdout, "name? hello world\n") {
		t.Errorf("%q", l.stdout)
	}
}

// TestTerminalKeys: Ctrl-C and Ctrl-\ end the command.
func TestTerminalKeys(t *testing.T) {
	var patient patience
	for _, c := range []struct {
		keys, name string
		code       int
	}{{ctrlC, "INT", 130}, {ctrlBackslash, "QUIT", 131}} {
		for range 10 {
			note := "safe-run interrupted: signal=" + c.name
			var r result
			patient.again(t, func() string { // safe-run waits 200 ms for the signal that it gets itself
				p, far := atTerminal(t, options{}, sh(dies)...)
				p.await("ready")
				typed(t, far, c.keys)
				r = p.wait()
				if notes := r.log(t).Notes(); len(notes) == 0 {
					return "the log has no note " + note
				}
				return ""
			})
			if l := r.failed(t, c.code, note); l.stdout != "ready\n" {
				t.Errorf("%s: %q", c.name, l.stdout)
			}
		}
	}
}

// TestTerminalKeysHandled: a command that survives Ctrl-C is not killed. It gets the
// signal once for each press, and leaves no log when it succeeds.
func TestTerminalKeysHandled(t *testing.T) {
	p, far := atTerminal(t, options{}, sh(`trap 'n=x$n; echo $n.' INT; echo ready; while [ "$n" != xxx ]; do sleep 0.05; done; read line; echo $line`)...)
	p.await("ready")
	for _, answer := range []string{"\nx.", "\nxx.", "\nxxx."} {
		typed(t, far, ctrlC)
		p.await(answer)
	}
	typed(t, far, "end\n")
	r := p.wait()
	r.succeeded(t)
	if r.stdout != "ready\nx.\nxx.\nxxx.\nend\n" {
		t.Errorf("%q", r.stdout)
	}
}

// TestTerminalKeysOutlived: after the command has survived a key, its later end is no
// interruption.
func TestTerminalKeysOutlived(t *testing.T) {
	for _, c := range []struct {
		end  string
		code int
	}{{"kill -SEGV $$", 139}, {"kill -KILL $$", 137}} {
		p, far := atTerminal(t, options{}, sh(`trap 'n=x; echo again' INT; echo ready; while [ -z "$n" ]; do sleep 0.05; done; read line; `+c.end)...)
		p.await("ready")
		typed(t, far, ctrlC)
		p.await("again")
		typed(t, far, "\n")
		p.wait().failed(t, c.code)
	}
}

// TestTerminalKeysOwnCode: the exit code of a command that ends itself after Ctrl-C is
// kept.
func TestTerminalKeysOwnCode(t *testing.T) {
	r := prompt(t, overstayed, func() result {
		p, far := atTerminal(t, options{}, sh("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done")...)
		p.await("ready")
		typed(t, far, ctrlC)
		return p.wait()
	})
	if r.code != 7 || r.log(t).Code() != 7 {
		t.Errorf("exit status %d, %q", r.code, r.stderr)
	}
}

// TestTerminalKeysLastWords: the children of the command get the key as well, and have as
// much time to end as without safe-run.
func TestTerminalKeysLastWords(t *testing.T) {
	t.Parallel()
	var patient patience
	for range rehearsal.Count(3, 10) {
		r := patient.prompt(t, held, func() result {
			p, far := atTerminal(t, options{}, as(t, "hand over")...)
			p.await("ready")
			typed(t, far, ctrlC)
			return p.wait()
		})
		if l := r.log(t); r.code != 3 || l.stdout != "ready\nlast words\n" {
			t.Errorf("exit status %d, %q, %q", r.code, l.stdout, l.Notes())
		}
	}
}

// TestTerminalSignals: signals from elsewhere than the keyboard reach safe-run alone,
// which forwards them.
func TestTerminalSignals(t *testing.T) {
	var patient patience
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		r := patient.prompt(t, overstayed, func() result {
			p, _ := atTerminal(t, options{}, sh(dies)...)
			p.await("ready")
			p.signal(sig)
			return p.wait()
		})
		r.failed(t, 128+int(sig), "safe-run interrupted: signal="+name)
	}
	p, _ := atTerminal(t, options{}, sh("kill -INT $$")...)
	p.wait().failed(t, 130) // nobody has typed this signal
	r := patient.prompt(t, overstayed, func() result {
		p, far := atTerminal(t, options{}, sh(dies)...)
		p.await("ready")
		far.Close() // the line is cut
		return p.wait()
	})
	r.failed(t, 129, "safe-run interrupted: signal=HUP")
}

// TestTerminalOfOthers: the keyboard of a terminal that does not control safe-run sends it
// no signals. Its signals come from elsewhere and reach safe-run alone.
func TestTerminalOfOthers(t *testing.T) {
	var patient patience
	for name, sig := range interrupting {
		r := patient.prompt(t, overstayed, func() result {
			var o options
			o.stdin, _ = rehearsal.Terminal(t)
			p := start(t, o, sh(dies)...)
			p.await("ready")
			p.signal(sig)
			defer time.AfterFunc(hang/2, func() { p.signal(syscall.SIGTERM) }).Stop()
			return p.wait()
		})
		r.failed(t, 128+int(sig), "safe-run interrupted: signal="+name)
	}
}

// TestTerminalBackground: the keyboard reaches the foreground. Signals in the background
// come from elsewhere.
func TestTerminalBackground(t *testing.T) {
	var patient patience
	for name, sig := range interrupting {
		r := patient.prompt(t, overstayed, func() result {
			in, _ := rehearsal.Terminal(t)
			o := options{stdin: in, attr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}}
			argv := as(t, "in the background", sh("echo ready >&2; exec sleep 1000")...)
			p := prepared(t, o, argv).start()
			p.awaitIn(&p.stderr, "ready")
			pid, _, _ := strings.Cut(p.await("\n"), "\n")
			signalled(t, pid, sig)
			defer time.AfterFunc(hang/2, func() { signalled(t, pid, syscall.SIGTERM) }).Stop()
			return p.wait()
		})
		if l := r.log(t); r.code != 128+int(sig) || !slices.Equal(l.Notes(), []string{"safe-run interrupted: signal=" + name}) {
			t.Errorf("%s: exit status %d, %q", name, r.code, l.Notes())
		}
	}
}

// TestTerminalNotInput: with another standard input the command has a process group of its
// own. The keyboard does not reach that group, so safe-run forwards its signals.
func TestTerminalNotInput(t *testing.T) {
	r := prompt(t, overstayed, func() result {
		in, far := rehearsal.Terminal(t)
		o := options{stdout: in, attr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}}
		p := start(t, o, sh("trap 'n=x$n; echo $n. >&2; exit 9' INT; echo ready >&2; while :; do sleep 0.05; done")...)
		p.awaitIn(&p.stderr, "ready")
		typed(t, far, ctrlC)
		p.awaitIn(&p.stderr, "x.")
		return p.wait()
	})
	if l := r.failed(t, 9, "safe-run interrupted: signal=INT"); l.stderr != "ready\nx.\n" {
		t.Errorf("%q", l.stderr)
	}
}

// TestTerminalReaderStalls: Ctrl-C ends a run in bounded time even without a reader of its
// output.
func TestTerminalReaderStalls(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p, far := atTerminal(t, options{stdout: write}, sh("echo ready >&2; exec yes")...)
	write.Close()
	p.awaitIn(&p.stderr, "ready")
	stalled(t, read)
	typed(t, far, ctrlC)
	guard := time.AfterFunc(hang/2, func() {
		t.Error("safe-run waits for the reader")
		p.signal(syscall.SIGTERM)
	})
	r := p.wait()
	guard.Stop()
	want := []string{"safe-run interrupted: signal=INT", "safe-run output not passed on: stdout: the reader of the output does not read"}
	if l := r.log(t); r.code != 130 || l.Code() != 130 || !slices.Equal(l.Notes(), want) {
		t.Errorf("exit status %d, %q", r.code, l.Notes())
	}
}
