package profiles

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/finding"
)

// TestFSHoldsEveryModule fails when a module of builtin/ is not embedded, or when any
// file but modules and profiles is embedded.
func TestFSHoldsEveryModule(t *testing.T) {
	want := []string{"default/profile.json", "dev/profile.json", "strict/profile.json"}
	entries, err := os.ReadDir("builtin")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), "_test.rego") {
			want = append(want, "builtin/"+entry.Name())
		}
	}
	slices.Sort(want)

	var got []string
	err = fs.WalkDir(FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			got = append(got, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("embedded %q, want %q", got, want)
	}
}

// TestProfileValues checks the values of each built-in profile.
func TestProfileValues(t *testing.T) {
	severity := func(commands, others, risk string) map[string]any {
		m := map[string]any{"CONTRADICTION": "clarify", "RISK_REVIEW": risk}
		for _, id := range []string{"INLINE_CODE", "CMD_WRAPPER", "SHELL_COMMAND", "NETWORK_NEEDED"} {
			m[id] = commands
		}
		for _, id := range []string{"AGENT_INSTRUCTIONS", "PLACEHOLDER", "DONE_UNDEFINED", "WRITE_TWICE", "OUTPUT_UNPRODUCED", "INPUT_WRITTEN"} {
			m[id] = others
		}
		return m
	}
	modes := []any{"plan-only", "execute-sandbox"}
	cases := map[string]map[string]any{
		"strict": {
			"timeout_ms": 30000.0, "max_output_files": 200.0, "max_total_output_bytes": 10485760.0,
			"allowed_commands":    []any{"node", "npm"},
			"allowed_write_roots": []any{"out", "dist", "build"},
			"model_modes":         []any{"none"},
			"risk_tags":           []any{"destructive", "irreversible", "credential", "payment", "production"},
			"severity":            severity("deny", "clarify", "clarify"),
		},
		"default": {
			"timeout_ms": 60000.0, "max_output_files": 500.0, "max_total_output_bytes": 52428800.0,
			"allowed_commands":    []any{"node", "npm", "npx"},
			"allowed_write_roots": []any{"out", "dist", "build", "tmp"},
			"model_modes":         []any{"none"},
			"severity":            severity("deny", "clarify", "note"),
		},
		"dev": {
			"timeout_ms": 300000.0, "max_output_files": 1000.0, "max_total_output_bytes": 104857600.0,
			"allowed_commands": "*", "allowed_write_roots": "*", "env_allow": "*",
			"model_modes": []any{"none", "record", "replay"}, "model_adapters": "*",
			"severity": severity("note", "note", "note"),
		},
	}
	for name, want := range cases {
		want["isolation"] = map[string]any{"strict": "full", "default": "full", "dev": "confined"}[name]
		want["name"], want["allow_network"], want["execution_modes"] = name, false, modes
		want["memory_mb"], want["max_children"], want["cpu_cores"] = 512.0, 10.0, 1.0
		src, err := fs.ReadFile(FS(), path.Join(name, "profile.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(src, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, member := range members(got, want) {
			if !reflect.DeepEqual(got[member], want[member]) {
				t.Errorf("%s: %s is %v, want %v", name, member, got[member], want[member])
			}
		}
	}
}

func members(maps ...map[string]any) []string {
	var names []string
	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestRecords checks the properties of the modules' text that a reader of records
// needs. Each id in a head has one record, above one of its rules, with a title, a
// description and a fix. Every denial has a fix, and it equals the fix of the record. A
// permit has a title and a description.
func TestRecords(t *testing.T) {
	head := regexp.MustCompile(`(?m)^(deny|clarify|note) contains \{\s*"id": "([A-Z][A-Z0-9_]{1,31})",`)
	anyHead := regexp.MustCompile(`(?m)^(deny|clarify|note) contains `)
	record := regexp.MustCompile(`(?m)^# METADATA\n# title: (.+)\n# description: (.+)\n# custom:\n#   id: (.+)\n#   since: \d+\.\d+\.\d+\n#   fix: (.+)\n(?:#   priority: (\d+)\n)?deny contains \{\s*"id": "(.+?)",`)
	permit := regexp.MustCompile(`(?m)^# METADATA\n# title: (.+)\n# description: (.+)\npermit contains id if \{`)
	priorities := map[string]string{"CONTRADICTION": "90", "PLACEHOLDER": "80", "DONE_UNDEFINED": "70"}

	seen := map[string]string{}
	modules, err := fs.Glob(FS(), "builtin/*.rego")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range modules {
		src, err := fs.ReadFile(FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(src)
		if !strings.Contains(text, "\nimport future.keywords.not\n") {
			t.Errorf("%s: does not import future.keywords.not", name)
		}
		heads := head.FindAllStringSubmatch(text, -1)
		if len(heads) != len(anyHead.FindAllString(text, -1)) {
			t.Errorf("%s: a head without a literal id", name)
		}
		records := record.FindAllStringSubmatch(text, -1)
		permits := permit.FindAllString(text, -1)
		if len(permits) != strings.Count(text, "\npermit contains ") {
			t.Errorf("%s: a permit without a title and a description", name)
		}
		if len(records)+len(permits) != strings.Count(text, "# METADATA") {
			t.Errorf("%s: a record that is incomplete or not above a deny", name)
		}
		for _, r := range records {
			id, fix := r[3], r[4]
			if id != r[6] {
				t.Errorf("%s: record of %s above a rule of %s", name, id, r[6])
			}
			if other, twice := seen[id]; twice {
				t.Errorf("%s: %s has a record in %s too", name, id, other)
			}
			seen[id] = name
			if !strings.Contains(text, `"fix": "`+fix+`"`) {
				t.Errorf("%s: no denial of %s gives its fix %q", name, id, fix)
			}
			if r[5] != priorities[id] {
				t.Errorf("%s: priority of %s is %q, want %q", name, id, r[5], priorities[id])
			}
		}
		for _, h := range heads {
			if seen[h[2]] != name {
				t.Errorf("%s: %s of %s has no record in its module", name, h[1], h[2])
			}
		}
		denials := regexp.MustCompile(`(?m)^deny contains `).FindAllString(text, -1)
		if len(denials) != strings.Count(text, `"fix": "`) {
			t.Errorf("%s: a denial without a fix", name)
		}
	}
}

// TestEveryFindingIsHandled fails when the kernel has a code that the policy does not
// know. Such a finding would refuse every intent that has it.
func TestEveryFindingIsHandled(t *testing.T) {
	src, err := fs.ReadFile(FS(), "builtin/facts.rego")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{
		finding.Placeholder, finding.Contradiction, finding.DoneUndefined,
		finding.PathAbsolute, finding.PathTraversal, finding.PathBackslash, finding.PathCharacter,
		finding.PathForm, finding.PathReserved, finding.PathControl,
		finding.PathCase, finding.EnvGuarded, finding.CmdPath, finding.CmdCharacter, finding.CmdShell, finding.CmdWrapper, finding.InlineCode, finding.NetworkNeeded,
		finding.WriteTwice, finding.Unproduced, finding.InputWritten,
	} {
		if !strings.Contains(string(src), "\n\t\""+code+"\": ") {
			t.Errorf("no rule handles finding %q", code)
		}
	}
}
