package rehearsal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Holds is the condition [exists:PATH] of scripts, and [unprivileged]: permissions count.
func Holds(cond string) (bool, error) {
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

// Exits is the command "exits N COMMAND..." of scripts: the exit status must be N.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
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
