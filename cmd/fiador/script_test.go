package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain runs the tests as if no signal were ignored, even under nohup or in the
// background of a script: what they start would ignore it too. In the place of fiador
// it leaves signals alone.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "fiador" {
		for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(s) {
				signal.Notify(make(chan os.Signal, 1), s)
			}
		}
	}
	testscript.Main(m, map[string]func(){"fiador": main, "model-endpoint": modelEndpoint})
}

// TestScripts runs testdata/script. Besides the commands of testscript there is
// "exits N COMMAND...", which demands the exact exit status, and the condition
// [exists:PATH] and [unprivileged].
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           exists,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exists is the condition [exists:PATH], and [unprivileged]: permissions count.
func exists(cond string) (bool, error) {
	if cond == "unprivileged" {
		return os.Geteuid() > 0, nil
	}
	path, ok := strings.CutPrefix(cond, "exists:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	_, err := os.Stat(path)
	return err == nil, nil
}

// exits is the command "exits N COMMAND...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command [args]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		got = ee.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
