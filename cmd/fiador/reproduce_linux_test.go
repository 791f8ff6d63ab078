//go:build amd64 || arm64

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// TestReproduceInterrupted: Ctrl-C ends the runs of an execution. It leaves no answer, no
// process and no folder.
func TestReproduceInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	intent := put(t, b.dir, "intent.json", `{"goal":"Wait","constraints":["once"],"actions":[{"kind":"run","argv":["sleep","0.7731"]}]}`)
	at := filepath.Join(b.dir, "pack")
	if out, errs, code := b.run(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--pack", at); code != cli.ExitAccepted {
		t.Fatalf("exit status %d: %s%s", code, out, errs)
	}
	cmd, stdout, stderr := b.command(t, "reproduce", at, "--intent", intent, "--runs", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	for begun := time.Now(); len(runningWith(t, "0.7731")) == 0; {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("nothing is executed")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	code := status(t, cmd.Wait())
	if !hung.Stop() {
		t.Fatal("it does not end")
	}
	if code != cli.ExitError || stdout.Len() != 0 || !strings.HasPrefix(stderr.String(), `{"code":"RUN_E005"`) || !strings.Contains(stderr.String(), `"message":"interrupted: `) {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if left := runningWith(t, "0.7731"); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

// TestReproduceOnATerminal: names and values of a pack do not move the cursor. The
// progress of many runs is in a line that is cleared at the end.
func TestReproduceOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	intent := put(t, dir, "intent.json", allowed)
	at := filepath.Join(dir, "pack")
	if out, err := command(t, "run", intent, "--pack", at).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	stdout, screen, code := onTerminal(t, []string{"NO_COLOR=1"}, "reproduce", at, "--intent", intent, "--runs", "1000")
	if code != cli.ExitAccepted || !strings.HasPrefix(stdout, "MATCH 1000 of 1000  sha256:") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit status %d: %q", code, stdout)
	}
	if shown := strings.Split(screen, "\r\x1b[K"); shown[len(shown)-1] != "" || len(shown) > 1 && !strings.HasPrefix(shown[1], "run ") {
		t.Errorf("screen %q", screen)
	}
	other := put(t, dir, "\x1b[2Jother.json", refused)
	_, screen, code = onTerminal(t, []string{"NO_COLOR=1"}, "reproduce", at, "--intent", other)
	if code != cli.ExitError || strings.Contains(screen, "\x1b") || !strings.Contains(screen, `\u001b[2Jother.json: not the intent of the pack`) {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
}
