package resultfile

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// TestParse: a document without the marks of a RunResult is none, whatever else it holds.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                          "",
		`[]`:                         "the document is not an object",
		`{"code":"RUN_E001"}`:        "it has neither run_schema_version nor kernel_result_kind",
		`{"kernel_result_kind":"x"}`: "ok",
		`{"run_schema_version":"x"}`: "ok",
	} {
		_, err := Parse([]byte(text))
		switch {
		case want == "ok":
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case err == nil || want != "" && err.Error() != want:
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestChecks: a file is checked against the schema of its own version, and with a given
// profile RS5 covers the whole profile.
func TestChecks(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	own, err := profile.Load(profiles.FS(), "default", set)
	if err != nil {
		t.Fatal(err)
	}
	_, hash, err := canon.Artifact(own)
	if err != nil {
		t.Fatal(err)
	}
	other := own
	other.MemoryMB++
	named := func(m map[string]any) { m["policy_provenance"].(map[string]any)["profile_sha256"] = string(hash) }
	with := func(name string, value any) func(map[string]any) { return func(m map[string]any) { m[name] = value } }
	contract := func(m map[string]any) {
		m["run_schema_version"] = result.ContractVersion
		for _, name := range result.SinceContract() {
			delete(m, name)
		}
	}
	for _, c := range []struct {
		name          string
		edit          func(map[string]any)
		given         *kernel.Profile
		id            string
		status        result.Status
		contains, not string
	}{
		{"current", func(map[string]any) {}, nil, "SCHEMA", result.Pass, "", "not checked"},
		{"wrong type", with("model_mode", 1), nil, "SCHEMA", result.Fail, "/model_mode", ""},
		{"unknown member", with("more", 1), nil, "SCHEMA", result.Fail, "more", ""},
		{"unknown member of a later version", func(m map[string]any) { m["run_schema_version"], m["more"] = "1.9.0", 1 }, nil, "SCHEMA", result.Pass, "are not checked: /more", ""},
		{"foreign version", with("run_schema_version", "2.0.0"), nil, "SCHEMA", result.Fail, "/run_schema_version is none of 1.0.0, 1.1.0 and later versions 1.x.y", ""},
		{"contract", contract, nil, "SCHEMA", result.Pass, "", "not checked"},
		{"contract with a later member", func(m map[string]any) { contract(m); m["execution_mode"] = "plan-only" }, nil, "SCHEMA", result.Fail, "/execution_mode is no member of version 1.0.0", ""},
		{"profile that is named", func(map[string]any) {}, nil, "RS5", result.Pass, "", "profile"},
		{"profile that is not known", func(m map[string]any) { m["policy"].(map[string]any)["name"] = "acme" }, nil, "RS5", result.NotChecked, "", ""},
		{"given profile", named, &own, "RS5", result.Pass, "", "profile"},
		{"another profile with the same contract", named, &other, "RS5", result.Fail, "policy_provenance.profile_sha256 is not that of the given profile, sha256:", ""},
		{"contract with a given profile", contract, &own, "RS5", result.Pass, "has no policy_provenance", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := base(t)
			c.edit(doc)
			raw, _, err := canon.Artifact(doc)
			if err != nil {
				t.Fatal(err)
			}
			f, err := Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			checks, err := f.Checks(set, c.given)
			if err != nil || len(checks) != 10 || checks[len(checks)-1].ID != "SCHEMA" {
				t.Fatalf("%d checks, error %v", len(checks), err)
			}
			for _, got := range checks {
				said := got.Fault + got.Note
				if got.ID == c.id && (got.Status != c.status || !strings.Contains(said, c.contains) || c.not != "" && strings.Contains(said, c.not) || got.Title == "") {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// base returns the RunResult that the vectors of the invariants begin with.
func base(t *testing.T) map[string]any {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/result/invariants.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Bases map[string]map[string]any }
	if err := json.Unmarshal(src, &file); err != nil {
		t.Fatal(err)
	}
	return file.Bases["bundle"]
}
