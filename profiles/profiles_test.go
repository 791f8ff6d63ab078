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
		m := map[string]any{"CONTRADICTION": "clarify", "RISK_REVIEW": risk, "TOOL_DEPRECATED": "note", "TOOL_EXPERIMENTAL": risk}
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
			"model_modes": []any{"none", "record", "replay"}, "model_adapters": "*", "allowed_tools": "*",
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

// builtinText returns the text of a file of the built-in policy.
func builtinText(t *testing.T, name string) []byte {
	t.Helper()
	src, err := fs.ReadFile(FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestRecords: the built-in records can be read. Each text uses only what the policy fills
// in, and each id has a fix and the version that has it since.
func TestRecords(t *testing.T) {
	records, _, err := ReadRecords(builtinText(t, RecordsModule))
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`\{(value|place|other|list)\}`)
	since := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	priorities := map[string]int{"contradiction": 90, "placeholder": 80, "done_undefined": 70}
	for code, r := range records {
		if strings.Contains(known.ReplaceAllString(r.Text+r.Question, ""), "{") {
			t.Errorf("%s: a text has a brace that nothing fills in", code)
		}
		if strings.Contains(r.Text, "{list}") != (r.List != "") {
			t.Errorf("%s: list is %q, the text is %q", code, r.List, r.Text)
		}
		if r.Title != "" && (r.Fix == "" || !since.MatchString(r.Since)) {
			t.Errorf("%s: fix is %q, since is %q", code, r.Fix, r.Since)
		}
		if want, given := priorities[code]; given != (r.Priority != nil) || given && *r.Priority != want {
			t.Errorf("%s: priority is %v, want %d", code, r.Priority, want)
		}
		if rule := Rules()[r.ID]; rule.Title == "" || r.Question != "" && !rule.Asks {
			t.Errorf("%s: the rule is %+v", code, rule)
		}
	}
}

// TestRecordErrors: a file of records that is at fault is not read.
func TestRecordErrors(t *testing.T) {
	whole := `{"id":"A","title":"t","description":"d","severity":"deny","text":"x"}`
	for src, want := range map[string]string{
		`{`:              "",
		`{"records":{}}`: "it has no record",
		`{"recs":{}}`:    `/recs: unknown member "recs"`,
		`{"records":[]}`: "/records: not an object",
		`{"records":{"a":` + whole[:len(whole)-1] + `,"weight":1}}}`:                                  `/records/a/weight: unknown member "weight"`,
		`{"records":{"a":{"id":"A","title":"t","description":"d","severity":"deny"}}}`:                "/records/a: it has no text",
		`{"records":{"a":{"id":"A","title":"t","description":"d","severity":"allow","text":"x"}}}`:    "/records/a: severity is neither deny nor clarify nor note",
		`{"records":{"a":{"id":"A","title":"t","description":"d","severity":"note","text":"x"}}}`:     "/records/a: without a question, severity must be deny",
		`{"records":{"a":{"id":"A","title":"t","severity":"deny","text":"x"}}}`:                       "/records/a: it needs a title and a description",
		`{"records":{"a":{"id":"A","severity":"deny","text":"x"}}}`:                                   `/records/a: no record of "A" has a title`,
		`{"records":{"a":` + whole + `,"b":{"id":"A","severity":"deny","text":"x","options":["y"]}}}`: "/records/b: it needs a title and a description",
		`{"records":{"a":` + whole + `,"b":` + whole + `}}`:                                           `/records/b: another record of "A" has a title`,
		`{"records":{"a":` + whole[:len(whole)-1] + `,"priority":101}}}`:                              "/records/a: priority is not from 0 to 100",
	} {
		if _, _, err := ReadRecords([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", src, err, want)
		}
	}
	if records, doc, err := ReadRecords([]byte(`{"records":{"a":` + whole + `,"b":{"id":"A","severity":"deny","text":"y"}}}`)); err != nil || len(records) != 2 || doc["records"] == nil {
		t.Errorf("%v, %v, error %v", records, doc, err)
	}
}

// TestEveryFindingHasARecord: every code of the kernel and of the rules has a record, and
// no other code has one. A finding without a record would refuse every intent that has it.
func TestEveryFindingHasARecord(t *testing.T) {
	records, _, err := ReadRecords(builtinText(t, RecordsModule))
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{"finding_unknown": true}
	for _, code := range finding.Codes() {
		codes[code] = code != finding.CmdPath // a fact for the record command_not_a_name
	}
	decide := string(builtinText(t, "builtin/decide.rego"))
	for _, line := range regexp.MustCompile(`(?:"code":|code :=) (.+?)(?:, "|\n)`).FindAllStringSubmatch(decide, -1) {
		for _, code := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(line[1], -1) {
			codes[code[1]] = true
		}
	}
	for code, wanted := range codes {
		if _, ok := records[code]; ok != wanted {
			t.Errorf("finding %q has a record: %t, want %t", code, ok, wanted)
		}
	}
	for code := range records {
		if !codes[code] {
			t.Errorf("no finding has the code %q of a record", code)
		}
	}
}
