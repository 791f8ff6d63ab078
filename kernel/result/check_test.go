package result

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

type vectorFile struct {
	Bases   map[string]json.RawMessage `json:"bases"`
	Vectors []struct {
		Name   string         `json:"name"`
		Base   string         `json:"base"`
		Breaks []string       `json:"breaks"`
		Set    map[string]any `json:"set"`
		Remove []string       `json:"remove"`
		Bytes  string         `json:"bytes"`
	} `json:"vectors"`
}

func defaultPolicy() *kernel.PolicyProfile {
	return &kernel.PolicyProfile{
		Name: "default", TimeoutMS: 60000, MaxOutputFiles: 500, MaxTotalOutputBytes: 52428800,
		AllowedCommands:   []string{"node", "npm", "npx"},
		AllowedWriteRoots: []string{"out", "dist", "build", "tmp"},
	}
}

// edit sets v at a pointer of at most two members, or removes the value there.
func edit(doc map[string]any, pointer string, v any, remove bool) {
	parts := strings.Split(pointer, "/")[1:]
	for _, p := range parts[:len(parts)-1] {
		doc = doc[p].(map[string]any)
	}
	if last := parts[len(parts)-1]; remove {
		delete(doc, last)
	} else {
		doc[last] = v
	}
}

// spell returns the canonical bytes in a form that is not canonical.
func spell(t *testing.T, canonical []byte, form string) []byte {
	t.Helper()
	switch form {
	case "":
		return canonical
	case "indented":
		var b bytes.Buffer
		if err := json.Indent(&b, canonical, "", " "); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	case "no-lf":
		return bytes.TrimSuffix(canonical, []byte("\n"))
	case "two-lf":
		return append(canonical, '\n')
	case "crlf":
		return append(bytes.TrimSuffix(canonical, []byte("\n")), "\r\n"...)
	case "unsorted":
		return []byte(`{"zz":0,` + strings.TrimPrefix(string(canonical), "{"))
	case "1e0":
		return bytes.Replace(canonical, []byte(`"cpu_cores":1,`), []byte(`"cpu_cores":1e0,`), 1)
	}
	t.Fatalf("unknown form %q", form)
	return nil
}

func TestResultVectors(t *testing.T) {
	src, err := os.ReadFile("../../specs/vectors/result/invariants.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(src, &file); err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var doc map[string]any
			if err := json.Unmarshal(file.Bases[v.Base], &doc); err != nil {
				t.Fatal(err)
			}
			for p, val := range v.Set {
				edit(doc, p, val, false)
			}
			for _, p := range v.Remove {
				edit(doc, p, nil, true)
			}
			raw, _, err := canon.Artifact(doc)
			if err != nil {
				t.Fatal(err)
			}
			raw = spell(t, raw, v.Bytes)
			parsed, err := canon.Parse(raw, MaxBytes)
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, c := range Checks(raw, parsed, defaultPolicy()) {
				if c.Status == Fail {
					failed = append(failed, c.ID)
					broken[c.ID] = true
				}
				if (c.Status == Pass) != (c.Fault == "") {
					t.Errorf("%s is %s with fault %q", c.ID, c.Status, c.Fault)
				}
			}
			if !slices.Equal(failed, append([]string(nil), v.Breaks...)) {
				t.Errorf("breaks %v, want %v", failed, v.Breaks)
			}
		})
	}
	for _, id := range []string{"RS1", "RS2", "RS3", "RS3a", "RS4", "RS5", "RS6", "RS7", "RS8"} {
		if !broken[id] {
			t.Errorf("no vector breaks %s", id)
		}
	}
}

func TestChecksWithoutTheProfile(t *testing.T) {
	doc, err := canon.Parse([]byte(`{}`), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks([]byte("{}\n"), doc, nil) {
		want := Fail
		switch c.ID {
		case "RS5":
			want = NotChecked
		case "RS6", "RS7":
			want = Pass
		}
		if c.Status != want {
			t.Errorf("%s is %s, want %s", c.ID, c.Status, want)
		}
	}
}

func TestSubsetLeavesOutTheEphemeral(t *testing.T) {
	base := map[string]any{"kernel_version": "0.1.0", "intent": map[string]any{"sha256": "x", "path": "a"}}
	want, err := Digest(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run_id", "started_at", "completed_at", "sandbox_path", "model_io_path"} {
		doc := map[string]any{"kernel_version": "0.1.0", "intent": map[string]any{"sha256": "x", "path": "b"}, name: "y"}
		if got, err := Digest(doc); err != nil || got != want {
			t.Errorf("%s changes the digest (%v)", name, err)
		}
		if _, ok := doc[name]; !ok || doc["intent"].(map[string]any)["path"] != "b" {
			t.Errorf("the document was changed: %v", doc)
		}
	}
	for _, name := range []string{"policy_provenance", "execution_mode", "model_mode", "policy"} {
		doc := map[string]any{"kernel_version": "0.1.0", "intent": map[string]any{"sha256": "x"}, name: "y"}
		if got, err := Digest(doc); err != nil || got == want {
			t.Errorf("%s does not change the digest (%v)", name, err)
		}
	}
}

func TestCompareFindsTheFirstDifference(t *testing.T) {
	for i, tc := range []struct{ a, b, pointer string }{
		{`{"a":1}`, `{"a":1}`, "same"},
		{`{"b":1,"a":2}`, `{"b":2,"a":3}`, "/a"},
		{`{"a":{"x/y":[1,2]}}`, `{"a":{"x/y":[1,3]}}`, "/a/x~1y/1"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "/a/1"},
		{`{"a":[1,2]}`, `{"a":[1]}`, "/a/1"},
		{`{}`, `{"a":null}`, "/a"},
		{`{"a":null}`, `{}`, "/a"},
		{`{"a":[]}`, `{"a":{}}`, "/a"},
		{`{"a":"1"}`, `{"a":1}`, "/a"},
		{`{"\ud83d\ude00":1,"\uffee":1}`, `{"\ud83d\ude00":2,"\uffee":2}`, "/😀"},
	} {
		da, err := canon.Parse([]byte(tc.a), MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		db, err := canon.Parse([]byte(tc.b), MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		got, differs := Compare(da.Value(), db.Value())
		if !differs {
			got.Pointer = "same"
		}
		if got.Pointer != tc.pointer {
			t.Errorf("%s: got %q, want %q", strconv.Itoa(i), got.Pointer, tc.pointer)
		}
	}
}

// TestPlanAgrees: the plan writes the same bytes as encoding/json and jcs.
func TestPlanAgrees(t *testing.T) {
	full := RunResult{
		RunSchemaVersion: "1", RunID: "2", StartedAt: "3", CompletedAt: "4", KernelVersion: "5", Policy: *defaultPolicy(),
		PolicyProvenance: Provenance{"6", "7", []ModuleDigest{{"8", "9"}}, Limits{1, kernel.IsolationFull, 2, 3, 4, 5, 6}, "10"},
		ExecutionMode:    "a", ModelMode: "b", Intent: IntentRef{"c", "d"}, Bundle: &BundleRef{"e", "f"}, KernelResultKind: "g",
		Execution:        &kernel.Execution{Cmd: []string{}, Inputs: []kernel.FileRef{}, Outputs: []kernel.FileRef{}},
		Decision:         kernel.DecisionRecord{Accepted: true, Reasons: []string{"h"}},
		ClarifyQuestions: []string{"i"}, RefuseReason: "j",
	}
	least := RunResult{Policy: *defaultPolicy(), PolicyProvenance: Provenance{Modules: []ModuleDigest{}}, Decision: kernel.DecisionRecord{Reasons: []string{}}}
	for _, r := range []RunResult{full, least} {
		want, err := canon.Transform(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Bytes(); err != nil || !bytes.Equal(got, append(want, '\n')) {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}

// TestPlanAgreesOnVectors: for all vectors, the plan writes results and bundles with
// the same bytes as encoding/json and jcs.
func TestPlanAgreesOnVectors(t *testing.T) {
	results, bundles := 0, 0
	var look func(v any)
	look = func(v any) {
		if list, ok := v.([]any); ok {
			for _, one := range list {
				look(one)
			}
		}
		obj, ok := v.(map[string]any)
		if !ok {
			if text, ok := v.(string); ok && strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &obj) == nil {
				look(obj)
			}
			return
		}
		for _, one := range obj {
			look(one)
		}
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		var r RunResult
		var b kernel.Bundle
		if obj["run_schema_version"] != nil && json.Unmarshal(text, &r) == nil {
			results++
			got, err := resultPlan.Canonical(&r)
			if want, wantErr := canon.Transform(r); !bytes.Equal(got, want) || err != nil || wantErr != nil {
				t.Errorf("got %s %v, want %s %v", got, err, want, wantErr)
			}
		}
		if obj["source_intent_hash"] != nil && json.Unmarshal(text, &b) == nil {
			bundles++
			got, err := canon.Canonical(b)
			if want, wantErr := canon.Transform(b); !bytes.Equal(got, want) || err != nil || wantErr != nil {
				t.Errorf("got %s %v, want %s %v", got, err, want, wantErr)
			}
		}
	}
	for _, pattern := range []string{"../../specs/vectors/*/*.json", "../../evidence/pack/verify/testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no vectors at %s (%v)", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatal(err)
			}
			look(v)
		}
	}
	t.Logf("%d results and %d bundles", results, bundles)
	if results < 10 || bundles < 2 {
		t.Errorf("%d results and %d bundles: the test looks in the wrong place", results, bundles)
	}
}

// FuzzChecks: any document gets nine checks and a digest, and never a panic. A document
// that passes all checks is printed as the same bytes.
func FuzzChecks(f *testing.F) {
	src, err := os.ReadFile("../../specs/vectors/result/invariants.json")
	if err != nil {
		f.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(src, &file); err != nil {
		f.Fatal(err)
	}
	for _, base := range file.Bases {
		f.Add([]byte(base))
	}
	f.Add([]byte(`{"intent":[],"bundle":1,"decision":{"accepted":0},"execution":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := canon.Parse(raw, MaxBytes)
		if err != nil {
			return
		}
		failed := 0
		checks := Checks(raw, doc, defaultPolicy())
		for _, c := range checks {
			if c.Status != Pass {
				failed++
			}
		}
		if len(checks) != 9 {
			t.Fatalf("%d checks", len(checks))
		}
		obj, ok := doc.Value().(map[string]any)
		if !ok {
			if failed == 0 {
				t.Fatal("a document that is no object passes")
			}
			return
		}
		if _, err := Digest(obj); err != nil {
			t.Fatal(err)
		}
		if d, differs := Compare(obj, obj); differs {
			t.Fatalf("differs from itself at %s", d.Pointer)
		}
		if again, _, err := canon.Artifact(obj); failed == 0 && (err != nil || !bytes.Equal(again, raw)) {
			t.Fatalf("passes every check and is not canonical (%v)", err)
		}
	})
}
