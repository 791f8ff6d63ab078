package saferun_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/saferun"
)

// interrupting are the signals that end a run, by their names for a shell.
var interrupting = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
}

const (
	dies = "echo ready; exec sleep 1000"
	// traps is a format: the command for a signal, and the signal.
	traps = "trap '%s' %s; echo ready; while :; do sleep 0.05; done"
)

// TestInterrupted: a signal to safe-run goes to the command. The command dies of it or
// ends by itself, and there is a log in any case.
func TestInterrupted(t *testing.T) {
	var patient patience
	for name, sig := range interrupting {
		for _, c := range []struct {
			name, script, stdout string
			code                 int
		}{
			{"dies", dies, "ready\n", 128 + int(sig)},
			{"code of its own", fmt.Sprintf(traps, "echo bye; exit 7", name), "ready\nbye\n", 7},
			{"success of its own", fmt.Sprintf(traps, "exit 0", name), "ready\n", 0},
			{"dies of another signal", fmt.Sprintf(traps, "kill -ABRT $$", name), "ready\n", 128 + int(sig)},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				r := patient.prompt(t, overstayed, func() result {
					p := start(t, options{}, sh(c.script)...)
					p.await("ready")
					p.signal(sig)
					return p.wait()
				})
				if l := r.failed(t, c.code, "safe-run interrupted: signal="+name); l.stdout != c.stdout {
					t.Errorf("%q, want %q", l.stdout, c.stdout)
				}
			})
		}
	}
}

// TestInterruptedEarly: a signal that comes before the command has started is not lost.
func TestInterruptedEarly(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		in, err := os.Open(os.DevNull)
		if terminal {
			in, _ = rehearsal.Terminal(t)
		} else if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		signals := make(chan os.Signal, 1)
		signals <- os.Interrupt
		var stdout, stderr rehearsal.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- saferun.Run(sh("exec sleep 1000"), saferun.System{
				Stdin: in, Stdout: &stdout, Stderr: &stderr, Env: []string{path, "SAFE_LOG_DIR=" + dir},
				Signals: signals, Now: time.Now, Rand: rand.Reader,
			})
			in.Close()
		}()
		select {
		case code := <-ended:
			if code != 130 || !strings.Contains(stderr.String(), "interrupted by INT") {
				t.Errorf("terminal %v: exit status %d, %q", terminal, code, stderr.String())
			}
		case <-time.After(hang / 4):
			t.Errorf("terminal %v: the signal is lost", terminal)
			signals <- syscall.SIGTERM
		}
	}
}

// TestInterruptedTwice: a second Ctrl-C ends the run without delay.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	r := prompt(t, overstayed, func() result {
		p := start(t, options{}, sh(fmt.Sprintf(traps, "echo again", "INT"))...)
		p.await("ready")
		p.signal(syscall.SIGINT)
		p.await("again") // otherwise the two signals might become one
		time.Sleep(200 * time.Millisecond)
		p.signal(syscall.SIGINT)
		return p.wait()
	})
	r.failed(t, 130, "safe-run interrupted: signal=INT", "safe-run killed: second INT")
}

// TestInterruptedByTimeout: timeout(1), for example, sends its signal to the process and
// to the group. That counts as one Ctrl-C, not as two.
func TestInterruptedByTimeout(t *testing.T) {
	t.Parallel()
	var patient patience
	for range rehearsal.Count(5, 20) {
		r := patient.prompt(t, "safe-run killed: ", func() result { // one signal came late, or the command stood still
			p := start(t, options{}, sh(fmt.Sprintf(traps, "sleep 0.1; echo bye; exit 7", "INT"))...)
			p.await("ready")
			p.signal(syscall.SIGINT)
			p.signal(syscall.SIGINT)
			return p.wait()
		})
		if l := r.failed(t, 7, "safe-run interrupted: signal=INT"); l.stdout != "ready\nbye\n" {
			t.Errorf("%q", l.stdout)
		}
	}
}

// TestInterruptedIgnoringTERM: the command and its children ignore TERM.
func TestInterruptedIgnoringTERM(t *testing.T) {
	t.Parallel() // it takes five seconds
	p := start(t, options{}, sh("trap '' TERM; sleep 1000 & echo $!; exec sleep 1000")...)
	pid := p.await("\n")
	p.signal(syscall.SIGTERM)
	p.wait().failed(t, 143, "safe-run interrupted: signal=TERM", "safe-run killed: after=5s")
	if !gone(pid) {
		t.Errorf("process %s is still there", pid)
	}
}

// TestInterruptedStopped: a stopped command is continued so that it gets the signal.
func TestInterruptedStopped(t *testing.T) {
	var patient patience
	for name, sig := range interrupting {
		r := patient.prompt(t, overstayed, func() result {
			p := start(t, options{}, sh("echo $$; kill -STOP $$; exec sleep 1000")...)
			pid := strings.TrimSpace(p.await("\n"))
			for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
				if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(stat), ") T ") {
					break
				}
			}
			p.signal(sig)
			return p.wait()
		})
		r.failed(t, 128+int(sig), "safe-run interrupted: signal="+name)
	}
}

// TestGroup: a signal reaches the children of the command. Children that are left when the
// command has ended are killed.
func TestGroup(t *testing.T) {
	var patient patience
	for name, sig := range interrupting {
		r := patient.prompt(t, overstayed, func() result {
			p := start(t, options{}, sh("trap : "+name+"; ("+fmt.Sprintf(traps, "echo below; exit", name)+"); exit 6")...)
			p.await("ready")
			p.signal(sig)
			return p.wait()
		})
		if l := r.failed(t, 6, "safe-run interrupted: signal="+name); l.stdout != "ready\nbelow\n" {
			t.Errorf("%s: %q", name, l.stdout)
		}
	}
	var pid string
	r := patient.prompt(t, overstayed, func() result {
		p := start(t, options{}, sh("trap '' TERM; sleep 1000 & trap - TERM; echo $!; wait")...)
		pid = p.await("\n")
		p.signal(syscall.SIGTERM)
		return p.wait()
	})
	r.failed(t, 143, "safe-run interrupted: signal=TERM")
	if !gone(pid) {
		t.Errorf("process %s is still there", pid)
	}
}

// TestInterruptedWhileHeld: the command has ended by itself, and a process outside its
// group holds the streams. A signal is an interruption even then.
func TestInterruptedWhileHeld(t *testing.T) {
	for code, script := range map[int]string{0: `"$@"; echo end`, 3: `"$@"; echo end; exit 3`} {
		var r result
		for range 5 { // on a slow machine the test sends the signal too late
			p := start(t, options{}, sh(script, as(t, "leave", "other session")...)...)
			pid, _, _ := strings.Cut(p.await("end"), "\n")
			p.signal(syscall.SIGTERM)
			r = p.wait()
			killed(t, pid)
			if strings.Contains(r.stderr, "interrupted") {
				break
			}
		}
		// If the command was still running, it died of the signal.
		if l := r.log(t); r.code != l.Code() || r.code != code && r.code != 143 || len(l.Notes()) != 2 ||
			l.Notes()[0] != "safe-run interrupted: signal=TERM" || !strings.HasPrefix(l.Notes()[1], "safe-run output held: ") {
			t.Errorf("exit status %d, %q", r.code, l.Notes())
		}
	}
}

// TestNohup: an ignored signal is not forwarded, and the command ignores it too.
func TestNohup(t *testing.T) {
	in, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer lines.Close()
	p := start(t, options{under: []string{"nohup"}, stdin: in}, sh("echo $$.; read line; echo $line; exit 8")...)
	pid, _, _ := strings.Cut(p.await("."), ".")
	p.signal(syscall.SIGHUP)
	signalled(t, pid, syscall.SIGHUP)
	if _, err := lines.WriteString("still there\n"); err != nil {
		t.Error(err)
	}
	if l := p.wait().failed(t, 8); l.stdout != pid+".\nstill there\n" {
		t.Errorf("%q", l.stdout)
	}
}

// TestOtherSignals: a signal that safe-run does not handle has its usual effect.
func TestOtherSignals(t *testing.T) {
	p := start(t, options{}, sh("echo $$; exec sleep 1000")...)
	pid := p.await("\n")
	p.signal(syscall.SIGKILL)
	if r := p.wait(); r.code != -1 {
		t.Errorf("exit status %d", r.code)
	}
	killed(t, pid)
}
