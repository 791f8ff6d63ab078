package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// made has an error of every maker: with a remedy of its own where the maker knows one, and
// else with that of its code.
func made(t *testing.T) []error {
	cause := errors.New("cause")
	decision := kernel.Decision{Outcome: kernel.OutcomeRefuse, Reasons: []string{"CMD_NOT_ALLOWED /actions/0/argv/0"}, Findings: []kernel.Result{{ID: "CMD_NOT_ALLOWED"}}}
	asked := decision
	asked.Outcome, asked.Bundle = kernel.OutcomeClarify, &kernel.Bundle{UnresolvedQuestions: []kernel.Question{{Text: "which?"}}}
	list := []error{
		Usage("do this", "no %q", "x"), Unfit("", "not %q", "x"), Unprinted(fs.ErrClosed), cause,
		runerr.Internal("m", cause), runerr.Interrupted(), runerr.Panicked(), runerr.Unreadable("f", "why", ""), runerr.Unreadable("f", "why", "hint"),
		runerr.Read(runerr.Text{Name: "f"}, &canon.Error{Kind: canon.KindSize, Offset: 3}), runerr.Read(runerr.Text{Name: "f"}, &canon.Error{Msg: "m", Offset: 3, Pointer: "/a"}),
		runerr.NotIntent(runerr.Text{Name: "f"}, nil, []specs.Violation{{Pointer: "/a", Msg: "one"}, {Pointer: "/b", Msg: "two"}}), runerr.Intent(runerr.Text{Name: "f"}, &kernel.IntentError{Pointer: "/goal", Msg: "m", Hint: "h"}),
		runerr.Policy(&policy.Error{Kind: policy.KindLimit, Msg: "m"}), runerr.Load(&policy.Error{Kind: policy.KindLimit, Msg: "m"}),
		runerr.Stopped(), runerr.Unchanged(), runerr.Sandbox(t.Context(), cause), runerr.Sandbox(t.Context(), &sandbox.Error{Isolation: sandbox.Full, Step: "s", Remedy: "ask"}),
		runerr.Evidence("m", cause), runerr.Testimony(cause), runerr.Input(kernel.Intent{}, &sandbox.InputError{Path: "a", Msg: "m"}),
		runerr.Violated(result.CodeNotIntent, &contract.Violation{ID: "IV-01", Pointer: "/a", Msg: "m", Hint: "h"}), runerr.Refused("exec", decision), runerr.Refused("exec", asked),
	}
	for _, r := range result.Records() {
		if r.Kind == result.RecordError {
			list = append(list, runerr.New(result.Code(r.ID), "m", ""), runerr.New(result.Code(r.ID), "m", "h\u202e", runerr.With("hint", "another")))
		}
	}
	return list
}

// TestRemedyIsOne: a terminal, a RunError line, an agent and the form human give an error the
// same remedy, and it is never empty. The terminal gets no JSON, and the pipe no words.
func TestRemedyIsOne(t *testing.T) {
	for _, err := range made(t) {
		re := runerr.Of(err)
		remedy := re.Remedy()
		if remedy == "" {
			t.Errorf("%v has no remedy", err)
		}
		var screen, pipe, human bytes.Buffer
		for out, tty := range map[*bytes.Buffer]bool{&screen: true, &pipe: false} {
			a := NewApp(System{Stdout: &bytes.Buffer{}, Stderr: out, TTY: tty, Env: func(name string) string { return map[string]string{"COLUMNS": "10000"}[name] }})
			if a.Report(err) != ExitError {
				t.Errorf("%v: another exit status", err)
			}
		}
		var line struct{ Details struct{ Hint string } }
		if err := json.Unmarshal(pipe.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		shown := strings.ReplaceAll(remedy, "\u202e", `\u202e`)
		if want := strings.ReplaceAll(remedy, "\u202e", "<U+202E>"); line.Details.Hint != want {
			t.Errorf("the line has the remedy %q, want %q", line.Details.Hint, want)
		}
		if said := screen.String(); !strings.Contains(said, "\nhint: "+shown+"\n") || strings.Count(said, "hint: ") != 1 || strings.Contains(said, "{\"") {
			t.Errorf("the terminal has %q, want the remedy %q", said, shown)
		}
		var answer struct{ Remedy string }
		if err := errors.Join(json.Unmarshal(report.AgentError(re), &answer), report.Human(&human, false, report.Item{Err: re})); err != nil || answer.Remedy != shown || !strings.Contains(human.String(), "\nhint: "+shown+"\n") {
			t.Errorf("an agent has the remedy %q, and human\n%s\nwant %q (%v)", answer.Remedy, human.String(), shown, err)
		}
	}
}

// TestReportOnce: the format that the command line asks for decides what a terminal gets of an
// error, even if another flag or the command is wrong. A format of the program that a command
// starts decides nothing.
func TestReportOnce(t *testing.T) {
	var unused string
	list := []*cobra.Command{{Use: "run"}, {Use: "check"}, {Use: "exec"}}
	for _, cmd := range list {
		cmd.Run = func(*cobra.Command, []string) {}
		if cmd.Use != "exec" {
			FormatFlag(cmd, &unused, "json", "human")
		}
	}
	root := Root(NewApp(System{}), list...)
	for want, lines := range map[string][][]string{
		"json":  {{"run", "--format", "json"}, {"run", "--bad", "--format=json"}, {"check", "--format", "human", "--format", "json"}},
		"agent": {{"run", "--format=agent", "x"}, {"rnu", "--format=agent"}, {"--format", "agent"}},
		"":      {{"run"}, {"run", "--", "a", "--format", "json"}, {"run", "--formats", "json"}, {"run", "--format"}, {"exec", "docker", "ps", "--format", "json"}},
	} {
		for _, args := range lines {
			if got := formatOf(root, args); got != want {
				t.Errorf("%q: format %q, want %q", args, got, want)
			}
		}
	}
}
