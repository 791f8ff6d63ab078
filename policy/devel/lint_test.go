package devel

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/specs"
)

func TestClosedMembers(t *testing.T) {
	src, _ := specs.Schema(string(specs.KindPolicyInput))
	var schema any
	if err := json.Unmarshal(src, &schema); err != nil {
		t.Fatal(err)
	}
	known := closedMembers(schema)
	for name, want := range map[string]string{
		"kind": "call read run write", "mode": "execute-sandbox plan-only", "model_mode": "none record replay",
		"risk_level": "high low medium unknown",
	} {
		if got := strings.Join(known[name], " "); got != want {
			t.Errorf("%s is one of %q, want %q", name, got, want)
		}
	}
	if !slices.Contains(known["code"], "placeholder") || len(known["code"]) < 18 {
		t.Errorf("code is one of %q", known["code"])
	}
	if _, ok := known["path"]; ok {
		t.Error("path has a closed list")
	}
}

func TestLint(t *testing.T) {
	for body, want := range map[string]string{
		`some e in input.effects; e.kind == "wirte"`:                                `user/test.rego:11: "kind" is never "wirte"; did you mean "write"?`,
		`some e in input.effects; "runn" == e.kind`:                                 `"kind" is never "runn"; did you mean "run"?`,
		`some e in input.effects; e.kind in {"run", "exec"}`:                        `"kind" is never "exec"; one of: call, read, run, write`,
		`some f in input.findings; f.code = "placehoder"`:                           `"code" is never "placehoder"; did you mean "placeholder"?`,
		`input.mode == "plan"`:                                                      `"mode" is never "plan"`,
		`some a in input.intent.actions; a.risk_level in ["severe"]`:                `"risk_level" is never "severe"`,
		`every e in input.effects { e.kind == "wirte" }`:                            `"kind" is never "wirte"`,
		`some e in input.effects; e.kind == "write"`:                                "",
		`every e in input.effects { e.pth != "x" }`:                                 `user/test.rego:11: nothing in the input has a member "pth"; did you mean "path"?`,
		`bad(input.effects[0])` + "\n}\n\nbad(e) if {\n\te.comand == \"x\"":         `user/test.rego:15: nothing in the input has a member "comand"; did you mean "command"?`,
		`x := {"own": 1}; x.own == 2`:                                               "",
		`c := input.intent.context; c.anything == 1; input.intent.context.anything`: "",
		`input.intent.context.kind == "anything"`:                                   "",
		`some a in input.intent.actions; a.params.mode == "fast"`:                   "",
		`some e in input.effects; e.kind == input.mode`:                             "",
		`some e in input.effects; e.kind != "wirte"`:                                "",
		`some e in input.effects; e.path == "wirte"`:                                "",
	} {
		warnings := Lint(denying(body))
		switch {
		case want == "" && len(warnings) > 0:
			t.Errorf("%s: %v", body, warnings)
		case want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Error(), want)):
			t.Errorf("%s: %v, want %q", body, warnings, want)
		}
	}
	if warnings := Lint(user("nonsense {")); warnings != nil {
		t.Errorf("what does not parse: %v", warnings)
	}
	if warnings := Lint(builtinLayer(t)); warnings != nil {
		t.Errorf("the built-in policy: %v", warnings)
	}
}
