package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// gatekeeper is a runner that notes that something was to be started, and starts nothing.
type gatekeeper struct{ started bool }

func (g *gatekeeper) Start(context.Context, sandbox.Request) (*sandbox.Sandbox, error) {
	g.started = true
	return nil, errors.New("nothing is started here")
}

func (g *gatekeeper) StageInputs(string, []string, int, int64) (sandbox.Inputs, error) {
	return sandbox.Inputs{}, nil
}

// verdict returns a gate's decision on a run as a text: the outcome, and the reasons for
// it.
func (s *stage) verdict(t *testing.T, gate *harness.Gate, req harness.Request) string {
	t.Helper()
	runner := new(gatekeeper)
	req.RunID = "r"
	deps := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Specs: s.Specs, Runner: runner}
	rep, err := harness.Run(t.Context(), deps, gate, req)
	var re *result.RunError
	switch {
	case runner.started:
		return string(kernel.OutcomeBundle)
	case errors.As(err, &re):
		return string(re.Code)
	}
	return string(rep.Decision.Outcome) + " " + strings.Join(rep.Decision.Reasons, ", ")
}

// argvs returns each argv of the run actions of all vectors and of the vectors of the
// command detector once.
func argvs(t *testing.T) [][]string {
	t.Helper()
	type action struct {
		Kind string
		Argv []string
	}
	var actions []action
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			var in struct{ Actions []action }
			if json.Unmarshal(v.Intent, &in) == nil {
				actions = append(actions, in.Actions...)
			}
		}
	}
	text, err := os.ReadFile("../specs/vectors/detect/command.json")
	if err != nil {
		t.Fatal(err)
	}
	var detected []action
	if err := json.Unmarshal(text, &detected); err != nil {
		t.Fatal(err)
	}
	var list [][]string
	seen := map[string]bool{}
	for _, a := range append(actions, detected...) {
		if key := fmt.Sprintf("%q", a.Argv); len(a.Argv) > 0 && a.Argv[0] != "" && !seen[key] {
			seen[key] = true
			list = append(list, a.Argv)
		}
	}
	return list
}

// layeredGates is the number of gates that layered has for each profile. The first of them
// has no other layer.
const layeredGates = 5

// layered returns gates of every built-in profile: alone, with a layer of each kind, and
// with a profile that denies metacharacters. The layers deny some commands and ask about
// others.
func (s *stage) layered(t *testing.T) []*harness.Gate {
	t.Helper()
	layer := adversary{src: `package PKG

# METADATA
# title: Longer than two words
# description: For a test
# custom: {id: LONG}
deny contains {"id": "LONG", "path": "/actions/0", "msg": "long"} if count(input.intent.actions[0].argv) > 2

# METADATA
# title: One word
# description: For a test
# custom: {id: SHORT}
clarify contains {"id": "SHORT", "path": "/actions/0", "question": "Is this all?"} if count(input.intent.actions[0].argv) == 1
`}
	var gates []*harness.Gate
	for _, name := range profiles.Names() {
		if len(gates)%layeredGates != 0 {
			t.Fatal("layeredGates is not the number of gates of a profile")
		}
		gates = append(gates, s.Gates[name])
		for _, kind := range kinds() {
			gates = append(gates, s.open(t, beside(kind, name, layer.files)))
		}
		plain := policy.Folder{FS: fstest.MapFS{harness.ProfileFile: {Data: []byte(`{"name":"plain","extends":"` + name + `","shell_metacharacters":"deny"}`)}}, Dir: ".", Show: "plain"}
		gates = append(gates, s.open(t, harness.Sources{Builtin: profiles.FS(), User: &plain, File: harness.ProfileFile}))
	}
	return gates
}

// TestExecDecidesLikeARun: an exec, an execution request and an intent of one run action
// with equal standard input have the same verdict. This holds under every profile and
// layer. None of the three starts a command that the others do not start.
func TestExecDecidesLikeARun(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	t.Parallel()
	s := newStage(t)
	list := argvs(t)
	if len(list) < 150 {
		t.Fatalf("%d argvs", len(list))
	}
	outcomes, third := map[string]int{}, rehearsal.Stride(3)
	for n, gate := range s.layered(t) {
		if !slices.Contains(gate.Profile.ExecutionModes, harness.ModeExecuteSandbox) {
			t.Fatalf("profile %q executes nothing", gate.Profile.Name)
		}
		for i, argv := range list {
			if builtin := n%layeredGates == 0; builtin && i%third != n/layeredGates%third || !builtin && i%8 != n%8 {
				continue // every argv under the built-in profiles, in the short form under one of them; each argv under some gates with layers
			}
			x := harness.Exec{Argv: argv, Write: sandbox.Staged}
			source, err := x.Intent()
			if err != nil {
				continue // bytes that no process can get
			}
			run := func(src []byte, x *harness.Exec) string {
				return s.verdict(t, gate, harness.Request{Source: src, Path: "exec", Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, Exec: x})
			}
			intent := func(stdin *string) string {
				action := map[string]any{"kind": "run", "argv": argv}
				if stdin != nil {
					action["stdin"] = *stdin
				}
				src, err := json.Marshal(map[string]any{"goal": "exec", "actions": []any{action}})
				if err != nil {
					t.Fatal(err)
				}
				return run(src, nil)
			}
			empty, text := "", "text"
			want := intent(&empty)
			if got := run(source, &x); got != want {
				t.Errorf("%s: exec %q: %s, an intent: %s", gate.Profile.Name, argv, got, want)
			}
			outcomes[strings.Fields(want)[0]]++
			for _, stdin := range []*string{nil, &empty, &text} {
				want := intent(stdin)
				got, known := s.requested(t, gate, argv, stdin)
				if known && got != want {
					t.Errorf("%s: a request of %q: %s, an intent: %s", gate.Profile.Name, argv, got, want)
				}
			}
		}
	}
	for _, o := range []string{"BUNDLE", "CLARIFY", "REFUSE"} {
		if outcomes[o] < 5 {
			t.Errorf("%d times %s", outcomes[o], o)
		}
	}
}

// requested returns the verdict of a request, and false if no request can have the argv.
func (s *stage) requested(t *testing.T, gate *harness.Gate, argv []string, stdin *string) (string, bool) {
	t.Helper()
	inputs := map[string]any{"command": argv[0], "arguments": argv[1:]}
	if stdin != nil {
		inputs["stdin"] = *stdin
	}
	src, err := json.Marshal(map[string]any{"execution_id": "e", "tool_id": "t", "inputs": inputs})
	if err != nil {
		t.Fatal(err)
	}
	r, err := request.Parse(s.Specs, "r.json", src)
	if err != nil {
		return "", false
	}
	req, err := gate.Requested(r, "r.json", "/nowhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.verdict(t, gate, req), true
}

// TestMetacharacters: under a profile that denies them, an argument with one of the
// contract's characters is refused as IV-02. Under every other profile it is data.
func TestMetacharacters(t *testing.T) {
	s := newStage(t)
	gates := s.layered(t)
	for _, c := range ";|&$`(){}[]<>\\\"'!#*?\n\r" {
		x := harness.Exec{Argv: []string{"node", "a" + string(c) + "b.js"}}
		source, err := x.Intent()
		if err != nil {
			t.Fatal(err)
		}
		for _, gate := range gates {
			req := harness.Request{Source: source, Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone}
			in, intent, err := gate.Ask(s.Specs, req)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(in.Findings, func(f kernel.Finding) bool {
				return f.Code == finding.Metacharacter && f.Path == "/actions/0/argv/1"
			})
			if found != (gate.Profile.Name == "plain") {
				t.Errorf("%q under %s: found %t", c, gate.Profile.Name, found)
			}
			if !found {
				continue
			}
			d, err := gate.Decide(t.Context(), in, intent)
			if err != nil || !slices.Contains(d.Reasons, "SHELL_METACHARACTER /actions/0/argv/1") {
				t.Fatalf("%q under %s: %v %v", c, gate.Profile.Name, d.Reasons, err)
			}
			if strings.HasPrefix(d.Reasons[0], "SHELL_METACHARACTER") && runerr.Refused("exec", d).RuleID != "IV-02" {
				t.Errorf("%q: %+v", c, runerr.Refused("exec", d))
			}
		}
	}
}

// TestRefusedNamesTheCheck: the RunError of a command that was not started has the input
// check of the contract, the outcome, and every reason or question.
func TestRefusedNamesTheCheck(t *testing.T) {
	s := newStage(t)
	for _, tc := range []struct {
		profile string
		exec    harness.Exec
		rule    string
		outcome kernel.Outcome
	}{
		{"default", harness.Exec{Argv: []string{"sh"}}, "IV-01", kernel.OutcomeRefuse},
		{"default", harness.Exec{Argv: []string{"./node", "x.js"}}, "IV-01", kernel.OutcomeRefuse},
		{"dev", harness.Exec{Argv: []string{"no\u200bde"}}, "IV-01", kernel.OutcomeRefuse},
		{"default", harness.Exec{Argv: []string{"node", "x.js"}, Env: map[string]string{"CI": "1"}}, "IV-04", kernel.OutcomeRefuse},
		{"default", harness.Exec{Argv: []string{"node"}}, "", kernel.OutcomeRefuse},
		{"strict", harness.Exec{Argv: []string{"node", "-e", "1"}}, "", kernel.OutcomeRefuse},
	} {
		source, err := tc.exec.Intent()
		if err != nil {
			t.Fatal(err)
		}
		deps := harness.Deps{Now: time.Now, Rand: strings.NewReader("01234567"), Specs: s.Specs, Runner: new(gatekeeper)}
		rep, err := harness.Run(t.Context(), deps, s.Gates[tc.profile], harness.Request{Source: source, Path: "exec", Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, Exec: &tc.exec})
		if err != nil || rep.Decision.Outcome != tc.outcome {
			t.Errorf("%q: %v, error %v", tc.exec.Argv, rep.Decision.Outcome, err)
			continue
		}
		e := runerr.Refused("exec", rep.Decision)
		if e.Code != result.CodeProfile || e.RuleID != tc.rule || e.Hint == "" || e.Details["outcome"] != string(tc.outcome) || len(e.Details["reasons"].([]any)) == 0 {
			t.Errorf("%q: %+v", tc.exec.Argv, e)
		}
	}
}

// TestExecIntentNeedsText: bytes that no JSON text can hold are an error, and are never
// replaced by other bytes.
func TestExecIntentNeedsText(t *testing.T) {
	for rule, x := range map[string]harness.Exec{
		"IV-02": {Argv: []string{"node", "\xff"}},
		"IV-04": {Argv: []string{"node"}, Env: map[string]string{"A": "\xff"}},
	} {
		_, err := x.Intent()
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeNotIntent || re.RuleID != rule {
			t.Errorf("%q: %v", x.Argv, err)
		}
	}
}

// TestPurposeIsTheGoal: the goal of a request is its purpose, or "exec" if the purpose
// shows nothing, because a goal must show something.
func TestPurposeIsTheGoal(t *testing.T) {
	s := newStage(t)
	for purpose, goal := range map[string]string{"count the entries": "count the entries", " ": "exec", "\u00a0\u200b\u3164": "exec"} {
		src, err := json.Marshal(map[string]any{
			"execution_id": "e", "tool_id": "t", "inputs": map[string]any{"command": "node", "arguments": []string{"x.js"}},
			"metadata": map[string]any{"purpose": purpose},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := request.Parse(s.Specs, "r.json", src)
		if err != nil {
			t.Fatal(err)
		}
		req, err := s.Gates["default"].Requested(r, "r.json", "/nowhere", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, intent, err := s.Gates["default"].Ask(s.Specs, req)
		if err != nil || intent.Goal != goal {
			t.Errorf("%q: goal %q, error %v", purpose, intent.Goal, err)
		}
	}
}
