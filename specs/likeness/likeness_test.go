package likeness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

func decoded(t *testing.T, text string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(text), len(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return doc.Value()
}

// TestOf: each kind of document is recognised, and none is taken for the wanted kind.
func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"run_schema_version":"1.2.0","run_id":"r"}`:    "a RunResult",
		`{"goal":"g","actions":[]}`:                      "an intent",
		`{"name":"a","allowed_commands":[]}`:             "a policy profile",
		`{"name":"a","extends":"strict"}`:                "a policy profile",
		`{"name":"a","version":"1.0.0","scripts":{}}`:    "a package.json",
		`{"version":"2.1.0","runs":[]}`:                  "a SARIF report",
		`{"$schema":"x","type":"object"}`:                "a JSON Schema",
		`{"code":"RUN_E001","message":"m"}`:              "a RunError",
		`{"mcpServers":{}}`:                              "the settings of MCP servers",
		`{"hooks":{}}`:                                   "the settings of a coding agent",
		`[{"goal":"g"}]`:                                 "a list of intents",
		`[{"id":"i","agent_id":"a"}]`:                    "a plan of work items",
		`{"plan_version":"1.0.0","items":[]}`:            "a plan of work items",
		`{"execution_id":"e","tool_id":"t","inputs":{}}`: "an execution request",
		`{"tool_id":"t","adapters":["A"]}`:               "a tool",
		`{"goal":"g"}`:                                   "an intent",
		`{"gaol":"g","actions":[]}`:                      "",
		`{"name":"a"}`:                                   "",
		`{}`:                                             "",
		`[]`:                                             "",
		`[[1]]`:                                          "",
		`7`:                                              "",
		`{"id":"b","root_node":"n","source_intent_hash":0}`: "a bundle",
	} {
		got := Of(decoded(t, text), "")
		if got == nil {
			got = &Likeness{}
		}
		if got.What != want || (got.Use == "") != (want == "") {
			t.Errorf("%s seems to be %+v, want %q", text, got, want)
		}
		if got.Kind != "" && Of(decoded(t, text), got.Kind) != nil {
			t.Errorf("%s is not what was wanted", text)
		}
	}
}

// TestExamples: no file of an intent or of a profile seems to be something else.
func TestExamples(t *testing.T) {
	for pattern, kind := range map[string]string{
		"../../examples/*.json": "intent", "../../examples/agent/intents/*.json": "intent",
		"../../profiles/*/profile.json": "profile", "../../examples/agent/profile.json": "profile",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := Of(decoded(t, string(src)), kind); got != nil && !strings.HasSuffix(name, "package.json") && got.Kind != "work-plan" {
				t.Errorf("%s seems to be %s", name, got.What)
			}
		}
	}
}

// TestOfText: texts that are no JSON.
func TestOfText(t *testing.T) {
	for text, want := range map[string]string{
		"package gate.builtin\n": "a Rego module", "\n# x": "", "\x1f\x8b\x08": "a gzip archive", "goal: x\n": "YAML", "": "", "=== STDOUT ===\n": "a log of safe-run",
	} {
		got := OfText([]byte(text))
		if got == nil {
			got = &Likeness{}
		}
		if got.What != want {
			t.Errorf("%q seems to be %q, want %q", text, got.What, want)
		}
	}
}
