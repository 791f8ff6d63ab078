package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/kernel/result"
)

// TestFlagErrors: a wrong flag is quoted, and the hint names the flag that was meant, or says
// what the flag takes.
func TestFlagErrors(t *testing.T) {
	command := func(a *App, _ ...string) []*cobra.Command {
		var format, policy string
		cmd := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return nil }}
		FormatFlag(cmd, &format, "human", "json")
		cmd.Flags().Var(&Once{Value: &policy}, "policy", "a `PROFILE`")
		cmd.Flags().Int("policies", 0, "a number")
		cmd.Flags().Duration("wait", time.Second, "how long")
		cmd.Flags().Bool("quick", false, "be quick")
		cmd.Flags().String("hidden", "", "")
		if err := cmd.Flags().MarkHidden("hidden"); err != nil {
			t.Fatal(err)
		}
		return []*cobra.Command{cmd}
	}
	for args, want := range map[string]string{
		"--polcy x":             `unknown flag "--polcy" | did you mean "--policy"?`,
		"-polcy x":              `unknown flag "-polcy" | did you mean "--policy"?`,
		"-policy=x":             `unknown flag "-policy" | did you mean "--policy"?`,
		"-p x":                  `unknown flag "-p" | one of: --policies, --policy`,
		"--pol":                 `unknown flag "--pol" | one of: --policies, --policy`,
		"--qu":                  `unknown flag "--qu" | did you mean "--quick"?`,
		"--json":                `unknown flag "--json" | did you mean "--format json"?`,
		"--hidde":               `unknown flag "--hidde" | "fiador do --help" lists what it takes`,
		"--nothing":             `unknown flag "--nothing" | "fiador do --help" lists what it takes`,
		"--policy":              `--policy has no value | --policy PROFILE: a PROFILE`,
		"--policy a --policy b": `--policy "b": given twice | leave all --policy out but one`,
		"--policies x":          `--policies "x": not a whole number, or too large | --policies int: a number`,
		"--wait 5":              `--wait "5": not a time such as 500ms, 30s or 5m | --wait duration: how long`,
		"--quick=maybe":         `--quick "maybe": neither true nor false | write --quick alone, or leave it out`,
		"--=x":                  `bad flag syntax: --=x | "fiador do --help" lists what it takes`,
	} {
		var said bytes.Buffer
		a := NewApp(System{Stdout: &said, Stderr: &said, Env: func(string) string { return "" }})
		root := Root(a, command(a)...)
		root.SetArgs(append([]string{"do"}, strings.Fields(args)...))
		err := root.ExecuteContext(context.Background())
		re, ok := errors.AsType[*result.RunError](err)
		if !ok || re.Message+" | "+re.Hint != want || re.Details["usage"] != true {
			t.Errorf("%s: got %v | %s, want %s", args, err, re.Remedy(), want)
		}
	}
}
