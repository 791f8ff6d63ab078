package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestPanicIsAnError: a panic, wherever it comes from, is RUN_E007 and exit
// status 2, with nothing on stdout and no text of the runtime.
func TestPanicIsAnError(t *testing.T) {
	intent := filepath.Join(t.TempDir(), "intent.json")
	if err := os.WriteFile(intent, []byte(`{"goal":"g","constraints":["c"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	sound := func() System {
		return System{
			Stdin: os.Stdin, Env: func(string) string { return "" }, Now: time.Now,
			Rand: strings.NewReader(strings.Repeat("x", 64)),
		}
	}
	for name, spoil := range map[string]func(*System){
		"nothing":         func(*System) {},
		"the environment": func(s *System) { s.Env = func(string) string { panic("secret") } },
		"the clock":       func(s *System) { s.Now = func() time.Time { panic("secret") } },
		"randomness":      func(s *System) { s.Rand = nil },
		"standard input":  func(s *System) { s.Stdin = nil },
	} {
		t.Run(name, func(t *testing.T) {
			sys := sound()
			spoil(&sys)
			var stdout, stderr bytes.Buffer
			sys.Stdout, sys.Stderr = &stdout, &stderr
			arg := intent
			if sys.Stdin == nil {
				arg = "-"
			}
			got := Run(context.Background(), []string{"run", arg}, sys, commands)
			if name == "nothing" {
				if got != ExitAccepted || stdout.Len() == 0 {
					t.Fatalf("exit status %d, stderr %q", got, stderr.String())
				}
				return
			}
			if got != ExitError || stdout.Len() > 0 || strings.Contains(stderr.String(), "secret") || strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("exit status %d, stdout %q, stderr %q", got, stdout.String(), stderr.String())
			}
			if !strings.HasPrefix(stderr.String(), `{"code":"RUN_E00`) {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

// TestEveryCommandHelps: the help of every command has an example and its exit
// codes.
func TestEveryCommandHelps(t *testing.T) {
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.IsAdditionalHelpTopicCommand() && !cmd.Hidden {
			seen++
			if cmd.Example == "" || !strings.Contains(cmd.Long, "Exit codes:") {
				t.Errorf("%s has no example or no exit codes", cmd.CommandPath())
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(Root(&App{}, commands(&App{})...))
	if seen < 13 {
		t.Errorf("only %d commands seen", seen)
	}
}
