package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// feed writes a line every few milliseconds until stop is closed, or until the reader is
// gone.
func feed(t *testing.T, w *os.File, text string, stop <-chan struct{}) {
	t.Helper()
	go func() {
		defer w.Close()
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				if _, err := io.WriteString(w, text+"\n"); err != nil {
					return
				}
			}
		}
	}()
}

// TestCheckProgress: a long check shows progress on a terminal, in one line that is
// cleared at the end. Other outputs get no such line.
func TestCheckProgress(t *testing.T) {
	t.Parallel() // it waits for three seconds
	for _, terminal := range []bool{true, false} {
		in, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		feed(t, w, allowed, stop)
		cmd := command(t, "check", "-", "--format", "github")
		cmd.Stdin = in
		cmd.Env = append(os.Environ(), "NO_COLOR=1")
		var screen string
		if terminal {
			slave, master := rehearsal.Terminal(t)
			cmd.Stderr = slave
			var err error
			screen, err = watched(t, cmd, slave, master, func(screen *rehearsal.Buffer) {
				awaits(t, "the progress is shown", func() bool { return strings.Contains(screen.String(), "checked ") })
				close(stop)
			})
			if got := status(t, err); got != cli.ExitAccepted {
				t.Errorf("exit status %d", got)
			}
			if !strings.Contains(screen, "\r\x1b[Kchecked ") {
				t.Errorf("no progress on the terminal: %q", screen)
			}
		} else {
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			time.AfterFunc(1500*time.Millisecond, func() { close(stop) }) // time in which a wrong line would come
			if got := status(t, cmd.Run()); got != cli.ExitAccepted {
				t.Errorf("exit status %d", got)
			}
			if screen = stderr.String(); strings.ContainsAny(screen, "\r\x1b") || strings.Contains(screen, "checked") {
				t.Errorf("progress where nobody looks: %q", screen)
			}
		}
		in.Close()
		lines := strings.Split(strings.TrimRight(strings.ReplaceAll(screen, "\r\n", "\n"), "\n"), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, ` BUNDLE; profile "default"`) {
			t.Errorf("the last line is %q", last)
		}
	}
}

// TestCheckInterrupt: Ctrl-C leaves whole results on stdout, the old report, and
// exit status 2.
func TestCheckInterrupt(t *testing.T) {
	t.Parallel()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	feed(t, w, allowed, nil)
	dir := t.TempDir()
	sarif := put(t, dir, "out.sarif", "old")
	cmd := command(t, "check", "-", "--report", "sarif="+sarif)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(&stdout, out, 1); err != nil { // the first result is there
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&stdout, out); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd.Wait()); got != cli.ExitError || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit status %d, stderr %q", got, stderr.String())
	}
	for line := range strings.Lines(stdout.String()) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n") {
			t.Errorf("half a line: %q", line)
		}
	}
	if b, err := os.ReadFile(sarif); err != nil || string(b) != "old" {
		t.Errorf("the report is %q, %v", b, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// TestPolicyTestInterrupt: Ctrl-C during the tests of a policy is no failed test, and the
// message says that it was Ctrl-C.
func TestPolicyTestInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "profile.json", `{"name": "slow", "extends": "default"}`)
	tests := "package gate.user.slow_test\n"
	for i := range 30 { // each takes its whole second
		tests += fmt.Sprintf("test_%d if count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a == b + 5000]) == %d\n", i, i)
	}
	put(t, dir, "slow_test.rego", tests)
	cmd := command(t, "policy", "test", dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaits(t, "the tests of the policy run", func() bool { return processorTime(t, cmd.Process.Pid) > 2*time.Second })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd.Wait()); got != cli.ExitError || !strings.Contains(out.String(), "interrupted: not every test ran") {
		t.Errorf("exit status %d: %s", got, out.String())
	}
}

// TestCheckEndsWithABomb: an evaluation that does not stop ends the process with RUN_E007
// and exit status 2, whatever intents come before and after it.
func TestCheckEndsWithABomb(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	dir := t.TempDir()
	policy := filepath.Join(dir, "bomb")
	if err := os.Mkdir(policy, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, policy, "profile.json", `{"name":"bomb","extends":"default"}`)
	var body strings.Builder
	for i := range 30 {
		fmt.Fprintf(&body, "\ta%d := [a%d, a%d]\n", i+1, i, i)
	}
	put(t, policy, "bomb.rego", "package gate.user.bomb\n\n# METADATA\n# title: t\n# description: d\n# custom:\n#   id: BOMB\n"+
		`deny contains {"id": "BOMB", "path": "", "msg": "m"} if {`+"\n\tinput.intent.goal == \"Write\"\n\ta0 := [input.mode]\n"+body.String()+"\tjson.marshal(a30) == \"\"\n}\n")
	intents := filepath.Join(dir, "intents")
	if err := os.Mkdir(intents, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		text := `{"goal":"x","constraints":["c"]}`
		if i == 20 {
			text = allowed
		}
		put(t, intents, fmt.Sprintf("%02d.json", i), text)
	}
	cmd := command(t, "check", intents, "--policy", policy, "--tree", intents)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if got := status(t, cmd.Run()); got != cli.ExitError || !strings.Contains(stderr.String(), `"code":"RUN_E007"`) {
		t.Errorf("exit status %d, stderr %q", got, stderr.String())
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if n := strings.Count(stdout.String(), "\n"); n > 20 || strings.Contains(stdout.String(), "20.json") {
		t.Errorf("%d results, and one of them may be that of the bomb: %q", n, stdout.String())
	}
}
