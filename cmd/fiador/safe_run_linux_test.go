package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
)

// loggedRun is the result of a run under safe-run.
type loggedRun struct {
	code           int
	stdout, stderr string // without the name of the log
	log            string
}

var logName = regexp.MustCompile(`safe-run-\d{8}-\d{6}-[0-9a-f]{8}\.log`)

// logged runs a command under a tool. It calls act when the command has printed "ready".
func logged(t *testing.T, tool, argv []string, act func(tool *os.Process, stdin io.Writer)) loggedRun {
	t.Helper()
	argv = slices.Concat(tool, argv)
	cmd := exec.Command(argv[0], argv[1:]...)
	dir := t.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), "SAFE_LOG_DIR="+dir, "SAFE_RUN_VIEW=", "SAFE_SNIPPET_LINES=", "SAFE_RUN_LOG_NAMES=")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	act(cmd.Process, stdin)
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	r := loggedRun{code: status(t, cmd.Wait()), stdout: string(rest)}
	r.stderr = logName.ReplaceAllString(strings.ReplaceAll(stderr.String(), dir, "DIR"), "LOG")
	logs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q (%v), exit status %d, stderr %q", logs, err, r.code, r.stderr)
	}
	b, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	r.log = string(b)
	if _, err := transcript.Open(strings.NewReader(r.log), int64(len(r.log))); err != nil {
		t.Fatalf("%v in\n%s", err, r.log)
	}
	return r
}

// TestSafeRunSignals: a signal to "fiador safe-run" has the same effect as on safe-run, to
// the last byte of the log. The program waits for the end of the run without a limit.
func TestSafeRunSignals(t *testing.T) {
	small := filepath.Join(needSafeRun(t)[0], "safe-run")
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		script string
		code   int
		rest   string
	}{
		{"TERM", syscall.SIGTERM, "echo ready; exec sleep 600", 143, ""},
		{"INT", syscall.SIGINT, "echo ready; exec sleep 600", 130, ""},
		{"HUP", syscall.SIGHUP, "echo ready; exec sleep 600", 129, ""},
		{"QUIT", syscall.SIGQUIT, "ulimit -c 0; echo ready; exec sleep 600", 131, ""},
		// An end of its own, longer after the signal than other commands wait at a Ctrl-C.
		{"TERM", syscall.SIGTERM, `trap 'sleep 1.5; echo late; exit 41' TERM; sleep 600 & echo ready; wait`, 41, "late\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			argv := []string{"sh", "-c", tc.script}
			interrupt := func(tool *os.Process, _ io.Writer) {
				if err := tool.Signal(tc.signal); err != nil {
					t.Fatal(err)
				}
			}
			signalled := func(tool ...string) loggedRun {
				r := logged(t, tool, argv, interrupt)
				if r.code == 137 { // safe-run has killed a command that stood still for five seconds
					r = logged(t, tool, argv, interrupt)
				}
				return r
			}
			got := signalled(command(t).Path, "safe-run")
			if got.code != tc.code || got.stdout != tc.rest || !strings.Contains(got.log, "][META] safe-run interrupted: signal="+tc.name+"\n") {
				t.Errorf("exit status %d, want %d; stdout %q, want %q; log\n%s", got.code, tc.code, got.stdout, tc.rest, got.log)
			}
			if want := signalled(small); got != want {
				t.Errorf("fiador safe-run leaves\n%+v\nand safe-run\n%+v", got, want)
			}
		})
	}
}

// TestSafeRunNohup: "fiador safe-run" ignores a HUP that was ignored when it began, and
// its run goes on.
func TestSafeRunNohup(t *testing.T) {
	t.Parallel()
	for _, tool := range [][]string{
		{"nohup", command(t).Path, "safe-run"},
		{"sh", "-c", `trap "" HUP; exec "$0" safe-run "$@"`, command(t).Path},
	} {
		t.Run(tool[0], func(t *testing.T) {
			needPrograms(t, tool[0])
			got := logged(t, tool, []string{"sh", "-c", "echo ready; read go; echo $go; exit 5"}, func(tool *os.Process, stdin io.Writer) {
				if err := tool.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				time.Sleep(300 * time.Millisecond) // time in which a wrong end would come
				if _, err := io.WriteString(stdin, "on\n"); err != nil {
					t.Fatal(err)
				}
			})
			if got.code != 5 || got.stdout != "on\n" || strings.Contains(got.log, "interrupted") ||
				!strings.HasSuffix(got.stderr, "safe-run: exit code 5, log \"DIR/LOG\"\n") {
				t.Errorf("exit status %d, stdout %q, stderr %q, log\n%s", got.code, got.stdout, got.stderr, got.log)
			}
		})
	}
}
