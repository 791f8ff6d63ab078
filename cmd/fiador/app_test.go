package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/all"
	"github.com/fiador/fiador/cmd/fiador/cli"
)

var commands = all.Commands

// TestPanicIsAnError: a panic, wherever it comes from, is RUN_E007 and exit
// status 2, with nothing on stdout and no text of the runtime.
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	intent := filepath.Join(t.TempDir(), "intent.json")
	if err := os.WriteFile(intent, []byte(`{"goal":"g","constraints":["c"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	sound := func() cli.System {
		return cli.System{
			Stdin: os.Stdin, Env: func(string) string { return "" }, Now: time.Now,
			Rand: strings.NewReader(strings.Repeat("x", 64)),
		}
	}
	for name, spoil := range map[string]func(*cli.System){
		"nothing":         func(*cli.System) {},
		"the environment": func(s *cli.System) { s.Env = func(string) string { panic("secret") } },
		"the clock":       func(s *cli.System) { s.Now = func() time.Time { panic("secret") } },
		"randomness":      func(s *cli.System) { s.Rand = nil },
		"standard input":  func(s *cli.System) { s.Stdin = nil },
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
			got := cli.Run(context.Background(), []string{"run", arg}, sys, commands)
			if name == "nothing" {
				if got != cli.ExitAccepted || stdout.Len() == 0 {
					t.Fatalf("exit status %d, stderr %q", got, stderr.String())
				}
				return
			}
			if got != cli.ExitError || stdout.Len() > 0 || strings.Contains(stderr.String(), "secret") || strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("exit status %d, stdout %q, stderr %q", got, stdout.String(), stderr.String())
			}
			if !strings.HasPrefix(stderr.String(), `{"code":"RUN_E00`) {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

// TestNamedCommandIsAlone: the first argument builds the command with this name, and no
// other one. Any other argument builds all commands.
func TestNamedCommandIsAlone(t *testing.T) {
	t.Parallel()
	all := commands(&cli.App{})
	for _, cmd := range all {
		if one := commands(&cli.App{}, cmd.Name()); len(one) != 1 || one[0].Name() != cmd.Name() {
			t.Errorf("%q builds %v", cmd.Name(), one)
		}
	}
	for _, first := range []string{"help", "--help", "completion", "__complete", "rum", "Run", "run "} {
		if got := len(commands(&cli.App{}, first)); got != len(all) {
			t.Errorf("%q builds %d of %d commands", first, got, len(all))
		}
	}
}

// TestHelpFits: no help text is wider than 80 columns, and wrapping breaks no word.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := cli.NewApp(cli.System{Stdout: &out})
	root := cli.Root(a, commands(a)...)
	root.SetOut(&out)
	words := func(text string) []string {
		return slices.DeleteFunc(strings.Fields(text), func(w string) bool { return w == `\` })
	}
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		seen++
		out.Reset()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		text := cmd.Long
		if cmd.Runnable() || cmd.HasSubCommands() {
			text += "\n" + cmd.UsageString()
		}
		if whole := words(text); !slices.Equal(words(out.String()), whole) {
			t.Errorf("%s: other words than\n%s", cmd.CommandPath(), whole)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if seen < 80 {
		t.Errorf("only %d commands seen", seen)
	}
}

// TestEveryCommandHelps: the help of every command has an example and its exit
// codes.
func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
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
	walk(cli.Root(&cli.App{}, commands(&cli.App{})...))
	if seen < 13 {
		t.Errorf("only %d commands seen", seen)
	}
}
