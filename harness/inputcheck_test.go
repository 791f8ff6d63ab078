package harness_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// inputCheckCase is a run action, the input check that refuses it, and the pointer in an
// intent. The action is good if the case has no check.
type inputCheckCase struct {
	name          string
	argv          []string
	env           map[string]string
	inputs        []string
	rule, pointer string
}

func inputCheckCases() []inputCheckCase {
	long := func(n int) string { return strings.Repeat("\U0001f600", n/4) + strings.Repeat("x", n%4) }
	most := contract.MaxStringBytes
	node := []string{"true"}
	return []inputCheckCase{
		{name: "name with a digit first", argv: node, env: map[string]string{"1A": "x"}, rule: contract.IV04, pointer: "/actions/0/env/1A"},
		{name: "name with a dash", argv: node, env: map[string]string{"a-b": "x"}, rule: contract.IV04, pointer: "/actions/0/env/a-b"},
		{name: "no name", argv: node, env: map[string]string{"": "x"}, rule: contract.IV04, pointer: "/actions/0/env/"},
		{name: "NUL in a value", argv: node, env: map[string]string{"A": "\x00"}, rule: contract.IV04, pointer: "/actions/0/env/A"},
		{name: "value of too many characters", argv: node, env: map[string]string{"A": strings.Repeat("x", 32769)}, rule: contract.IV04, pointer: "/actions/0/env/A"},
		{name: "longest variable", argv: node, env: map[string]string{"AB": long(most - 3)}},
		{name: "variable of a byte more", argv: node, env: map[string]string{"ABC": long(most - 3)}, rule: contract.IV04, pointer: "/actions/0/env/ABC"},
		{name: "NUL in an argument", argv: []string{"true", "\x00"}, rule: contract.IV02, pointer: "/actions/0/argv/1"},
		{name: "longest argument", argv: []string{"true", strings.Repeat("x", most)}},
		{name: "longest argument beyond ASCII", argv: []string{"true", long(most)}},
		{name: "argument of a byte more", argv: []string{"true", "", strings.Repeat("x", most+1)}, rule: contract.IV02, pointer: "/actions/0/argv/2"},
		{name: "argument of a byte more beyond ASCII", argv: []string{"true", long(most + 1)}, rule: contract.IV02, pointer: "/actions/0/argv/1"},
		{name: "argument of too many characters", argv: []string{"true", strings.Repeat("x", contract.MaxArgRunes+1)}, rule: contract.IV02, pointer: "/actions/0/argv/1"},
		{name: "too many inputs", argv: node, inputs: slices.Repeat([]string{"in/a"}, contract.MaxInputs+1), rule: contract.IV05, pointer: "/inputs"},
	}
}

// intent returns the case as an intent.
func (c inputCheckCase) intent(t *testing.T) []byte {
	t.Helper()
	action := map[string]any{"kind": "run", "argv": c.argv}
	if c.env != nil {
		action["env"] = c.env
	}
	doc := map[string]any{"goal": "g", "constraints": []string{"c"}, "actions": []any{action}}
	if c.inputs != nil {
		doc["inputs"] = c.inputs
	}
	src, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestInputChecksAreNamed: an input check that refuses something before the policy is
// asked gives its id, its pointer and a remedy. This holds for an intent, an exec and a
// request.
func TestInputChecksAreNamed(t *testing.T) {
	s := newStage(t)
	gate := s.Gates["dev"]
	for _, tc := range inputCheckCases() {
		t.Run(tc.name, func(t *testing.T) {
			decide := func(src []byte) error {
				_, _, err := gate.Ask(s.Specs, harness.Request{Source: src, Path: "i.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
				return err
			}
			got := map[string]error{"intent": decide(tc.intent(t))}
			if tc.inputs == nil {
				src, err := harness.Exec{Argv: tc.argv, Env: tc.env}.Intent()
				if err == nil {
					err = decide(src)
				}
				got["exec"] = err
			}
			inputs := map[string]any{"command": tc.argv[0], "arguments": append([]string{}, tc.argv[1:]...)}
			if tc.env != nil {
				inputs["environment"] = tc.env
			}
			if tc.inputs != nil {
				inputs["input_files"] = tc.inputs
			}
			src, err := json.Marshal(map[string]any{"execution_id": "e", "tool_id": "t", "inputs": inputs})
			if err != nil {
				t.Fatal(err)
			}
			_, got["request"] = request.Parse(s.Specs, "r.json", src)
			for what, err := range got {
				var re *result.RunError
				switch {
				case tc.rule == "" && err == nil:
				case tc.rule == "" || !errors.As(err, &re) || re.Code != result.CodeNotIntent || re.RuleID != tc.rule || re.Hint == "":
					t.Errorf("%s: %.300v, %.300q", what, err, re)
				case what != "request" && re.Details["pointer"] != tc.pointer, what == "request" && re.Details["pointer"] != requestPointer(t, tc.pointer):
					t.Errorf("%s: pointer %v", what, re.Details["pointer"])
				}
			}
		})
	}
}

// requestPointer returns the pointer in a request for a pointer in an intent.
func requestPointer(t *testing.T, pointer string) string {
	t.Helper()
	if pointer == "/inputs" {
		return "/inputs/input_files"
	}
	if name, ok := strings.CutPrefix(pointer, "/actions/0/env/"); ok {
		return "/inputs/environment/" + name
	}
	n := strings.TrimPrefix(pointer, "/actions/0/argv/")
	return "/inputs/arguments/" + string(n[0]-1)
}
