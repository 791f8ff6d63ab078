package harness

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

var updateVectors = flag.Bool("update", false, "fill in the canonical subsets of the vectors whose outcome and reasons agree")

// runVectors is the folder that -update writes.
const runVectors = "../specs/vectors/run"

// A vectorFile is one file of specs/vectors/run; specs/vectors/README.md says
// what its members mean.
type vectorFile struct {
	path    string
	About   string    `json:"about"`
	Vectors []*vector `json:"vectors"`
}

type vector struct {
	Name   string          `json:"name"`
	Why    string          `json:"why"`
	Intent json.RawMessage `json:"intent"`
	Text   *string         `json:"intent_text"`
	Base64 *string         `json:"intent_base64"`
	Repeat *repeated       `json:"intent_repeat"`

	Profile   string      `json:"profile"`
	Mode      string      `json:"mode"`
	ModelMode string      `json:"model_mode"`
	Expect    expectation `json:"expect"`
}

type repeated struct {
	Before string `json:"before"`
	Unit   string `json:"unit"`
	Times  int    `json:"times"`
	After  string `json:"after"`
}

type expectation struct {
	Outcome   kernel.Outcome  `json:"outcome,omitempty"`
	Reasons   []string        `json:"reasons,omitzero"`
	Notes     []string        `json:"notes,omitempty"`
	Canonical json.RawMessage `json:"canonical,omitempty"`

	Error   result.Code `json:"error,omitempty"`
	Pointer *string     `json:"pointer,omitempty"`
	Offset  *int64      `json:"offset,omitempty"`
}

// source is the bytes of the vector's intent file.
func (v *vector) source(t *testing.T) []byte {
	t.Helper()
	switch {
	case v.Text != nil:
		return []byte(*v.Text)
	case v.Base64 != nil:
		raw, err := base64.StdEncoding.Strict().DecodeString(*v.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	case v.Repeat != nil:
		return []byte(v.Repeat.Before + strings.Repeat(v.Repeat.Unit, v.Repeat.Times) + v.Repeat.After)
	}
	doc, err := canon.Parse(v.Intent, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(doc.Bytes()), '\n')
}

// loadVectors reads every file and checks what holds for all of them: plain
// ASCII, no unknown member, one spelling of the intent and unique names.
func loadVectors(t *testing.T) []*vectorFile {
	t.Helper()
	paths, err := fs.Glob(specs.RunVectors(), "*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	seen := map[string]bool{}
	var files []*vectorFile
	for _, path := range paths {
		src, err := fs.ReadFile(specs.RunVectors(), path)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
			t.Errorf("%s: byte %d is not plain ASCII", path, i)
		}
		f := &vectorFile{path: path}
		dec := json.NewDecoder(bytes.NewReader(src))
		dec.DisallowUnknownFields()
		if err := dec.Decode(f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range f.Vectors {
			spelt := []bool{v.Intent != nil, v.Text != nil, v.Base64 != nil, v.Repeat != nil}
			if len(slices.DeleteFunc(spelt, func(b bool) bool { return !b })) != 1 {
				t.Fatalf("%s: %q has not exactly one intent", path, v.Name)
			}
			if seen[v.Name] || v.Name == "" || v.Why == "" || (v.Expect.Error == "") == (v.Expect.Outcome == "") {
				t.Fatalf("%s: %q is named twice, says not why, or not what is expected", path, v.Name)
			}
			seen[v.Name] = true
		}
		files = append(files, f)
	}
	return files
}

// bench opens each profile's gate once. Its limits are so wide that an emulated
// machine stays within them: no vector depends on time.
type bench struct {
	specs *specs.Set
	gates map[string]*Gate
}

func newBench(t *testing.T) *bench {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{specs: set, gates: map[string]*Gate{}}
}

func (b *bench) run(t *testing.T, v *vector) (Report, error) {
	t.Helper()
	gate, ok := b.gates[v.Profile]
	if !ok {
		limits := policy.DefaultLimits()
		limits.Compile, limits.Deadline, limits.MemoryBytes = time.Hour, time.Hour, 4<<30
		var err error
		if gate, err = OpenGate(t.Context(), Sources{Builtin: profiles.FS(), Profile: v.Profile}, b.specs, limits); err != nil {
			return Report{}, err
		}
		b.gates[v.Profile] = gate
	}
	deps := Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: b.specs}
	return Run(t.Context(), deps, gate, Request{
		Source: v.source(t), Path: "intent.json", Mode: v.Mode, ModelMode: v.ModelMode, RunID: "vector",
	})
}

// document is the RunResult as another program would read it.
func document(t *testing.T, rep Report) (canon.Document, map[string]any) {
	t.Helper()
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc, result.Subset(doc.Value().(map[string]any))
}

// answer is all that a run must repeat byte for byte: the canonical subset and
// the bundle, or the error.
func answer(t *testing.T, rep Report, err error) string {
	t.Helper()
	var re *result.RunError
	if errors.As(err, &re) {
		return string(re.Line())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, subset := document(t, rep)
	b, err := canon.Canonical(subset)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n" + string(rep.Decision.BundleBytes)
}

func TestVectors(t *testing.T) {
	files := loadVectors(t)
	for _, f := range files {
		src, err := os.ReadFile(filepath.Join(runVectors, f.path))
		if err != nil || !*updateVectors && !bytes.Equal(f.text(t), src) {
			t.Errorf("%s is not laid out as -update writes it (%v)", f.path, err)
		}
	}
	b := newBench(t)
	first := map[string]string{}
	each := func(pass string, check func(*testing.T, *vector)) {
		for _, f := range files {
			for _, v := range f.Vectors {
				t.Run(pass+"/"+strings.TrimSuffix(f.path, ".json")+"/"+v.Name, func(t *testing.T) { check(t, v) })
			}
		}
	}
	each("first", func(t *testing.T, v *vector) {
		rep, err := b.run(t, v)
		first[v.Name] = answer(t, rep, err)
		if err != nil {
			checkError(t, b.specs, v, err)
		} else {
			checkReport(t, b, v, rep)
		}
		rep, err = b.run(t, v)
		if again := answer(t, rep, err); again != first[v.Name] {
			t.Errorf("a second run gives\n%s\nnot\n%s", again, first[v.Name])
		}
	})
	fresh := newBench(t)
	each("fresh", func(t *testing.T, v *vector) {
		rep, err := fresh.run(t, v)
		if again := answer(t, rep, err); again != first[v.Name] {
			t.Errorf("a fresh gate gives\n%s\nnot\n%s", again, first[v.Name])
		}
	})
	if *updateVectors {
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(runVectors, f.path), f.text(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkError holds an error against the vector: its code, and the pointer and
// the offset of its details, where an absent one has to be absent.
func checkError(t *testing.T, set *specs.Set, v *vector, err error) {
	t.Helper()
	var re *result.RunError
	if !errors.As(err, &re) {
		t.Fatalf("not a RunError: %v", err)
	}
	got := expectation{Error: re.Code}
	if p, ok := re.Details["pointer"].(string); ok {
		got.Pointer = &p
	}
	if o, ok := re.Details["offset"].(int64); ok {
		got.Offset = &o
	}
	if g, w := encode(t, got), encode(t, v.Expect); g != w {
		t.Errorf("got %s, want %s (%s)", g, w, re.Message)
	}
	valid(t, set, specs.KindRunError, re.Line())
}

// checkReport holds a decision against the vector, and the documents against
// their schemas and invariants.
func checkReport(t *testing.T, b *bench, v *vector, rep Report) {
	t.Helper()
	doc, subset := document(t, rep)
	got := expectation{Outcome: rep.Decision.Outcome, Reasons: rep.Result.Decision.Reasons}
	for _, n := range rep.Decision.Notes {
		got.Notes = append(got.Notes, n.ID+" "+n.Path)
	}
	slices.SortFunc(got.Notes, canon.Compare)
	got.Notes = slices.Compact(got.Notes)
	want := v.Expect
	want.Canonical = nil
	if g, w := encode(t, got), encode(t, want); g != w {
		t.Errorf("got %s, want %s", g, w)
		return
	}
	delete(subset, "policy_provenance")
	canonical, err := canon.Canonical(subset)
	if err != nil {
		t.Fatal(err)
	}
	if *updateVectors {
		v.Expect.Canonical = canonical
	}
	if wanted, err := canon.Canonical(v.Expect.Canonical); err != nil || !bytes.Equal(canonical, wanted) {
		t.Errorf("canonical subset\n%s\nwant\n%s", canonical, wanted)
	}
	valid(t, b.specs, specs.KindRunResult, rep.Bytes)
	contract := b.gates[v.Profile].Profile.Contract()
	for _, c := range result.Checks(rep.Bytes, doc, &contract) {
		if c.Status != result.Pass {
			t.Errorf("%s %s: %s", c.ID, c.Status, c.Fault)
		}
	}
	if ref := rep.Result.Bundle; ref != nil {
		checkBundle(t, b.specs, *ref, rep.Decision.BundleBytes)
	}
}

// checkBundle recomputes what a RunResult says about its bundle.
func checkBundle(t *testing.T, set *specs.Set, ref result.BundleRef, raw []byte) {
	t.Helper()
	if sum := canon.Sum(raw); sum != ref.SHA256 {
		t.Errorf("the bundle's bytes hash to %s, the result says %s", sum, ref.SHA256)
	}
	bundle := valid(t, set, specs.KindBundle, raw).(map[string]any)
	id := bundle["id"]
	delete(bundle, "id")
	if want, err := canon.ID("bundle_", bundle); err != nil || id != want || id != ref.BundleID {
		t.Errorf("bundle id %v, the result says %s, its bytes give %s (%v)", id, ref.BundleID, want, err)
	}
}

// valid holds a document against its schema and returns its value.
func valid(t *testing.T, set *specs.Set, kind specs.Kind, raw []byte) any {
	t.Helper()
	doc, err := canon.Parse(raw, result.MaxBytes)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	if list, err := set.Validate(kind, doc.Value()); err != nil || len(list) > 0 {
		t.Errorf("%s: %v %v", kind, list, err)
	}
	return doc.Value()
}

// unreachable has the rules that no built-in profile can fire, and why.
var unreachable = map[string]string{
	"OUTPUT_BYTES":        "the built-in profiles allow more bytes than an intent can have",
	"UNKNOWN_FINDING":     "the kernel reports only findings that the built-in policy handles",
	"SHELL_METACHARACTER": "no built-in profile has shell_metacharacters deny",
	kernel.IDNotPermitted: "it is the reason for what is denied and no longer listed, behind a thousand others",
}

// TestVectorsCoverThePolicy: there are vectors for every rule of the built-in
// policy, and every error that a decision can end in.
func TestVectorsCoverThePolicy(t *testing.T) {
	total, fired, failed := 0, map[string]int{}, map[result.Code]int{}
	outcomes := map[string]int{}
	for _, f := range loadVectors(t) {
		total += len(f.Vectors)
		for _, v := range f.Vectors {
			failed[v.Expect.Error]++
			outcomes[v.Profile+" "+string(v.Expect.Outcome)]++
			for _, reason := range slices.Concat(v.Expect.Reasons, v.Expect.Notes) {
				id, _, _ := strings.Cut(reason, " ")
				fired[id]++
			}
		}
	}
	if total < 120 {
		t.Errorf("%d vectors", total)
	}
	b := newBench(t)
	if _, err := b.run(t, &vector{Intent: []byte(simple), Profile: "strict", Mode: ModePlanOnly, ModelMode: ModelNone}); err != nil {
		t.Fatal(err)
	}
	ids := []string{kernel.IDNotPermitted}
	rules, err := b.gates["strict"].Judge.(*policy.Engine).Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		ids = append(ids, r.ID)
	}
	for _, id := range ids {
		if why, known := unreachable[id]; (fired[id] > 0) == known {
			t.Errorf("rule %s: %d vectors fire it, and the reason why none can is %q", id, fired[id], why)
		}
	}
	for _, code := range []result.Code{
		result.CodeUnreadable, result.CodeNotJSON, result.CodeNotIntent, result.CodeProfile, result.CodeSandbox,
	} {
		if failed[code] == 0 {
			t.Errorf("no vector ends in %s", code)
		}
	}
	if n := failed[result.CodeInternal]; n > 0 {
		t.Errorf("%d vectors end in RUN_E007, which no intent does under the built-in policy", n)
	}
	for _, name := range profiles.Names() {
		for _, o := range []kernel.Outcome{kernel.OutcomeBundle, kernel.OutcomeClarify, kernel.OutcomeRefuse} {
			if outcomes[name+" "+string(o)] == 0 {
				t.Errorf("no vector ends in %s under %s", o, name)
			}
		}
	}
}

// text is the file as -update writes it: a line for each thing that a change
// would touch alone.
func (f *vectorFile) text(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"vectors\": [", encode(t, f.About))
	for i, v := range f.Vectors {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  {\"name\": %s,\n   \"why\": %s,\n   ", encode(t, v.Name), encode(t, v.Why))
		switch {
		case v.Text != nil:
			fmt.Fprintf(&b, "\"intent_text\": %s", encode(t, *v.Text))
		case v.Base64 != nil:
			fmt.Fprintf(&b, "\"intent_base64\": %s", encode(t, *v.Base64))
		case v.Repeat != nil:
			fmt.Fprintf(&b, "\"intent_repeat\": %s", encode(t, v.Repeat))
		default:
			fmt.Fprintf(&b, "\"intent\": %s", encode(t, v.Intent))
		}
		fmt.Fprintf(&b, ",\n   \"profile\": %s, \"mode\": %s, \"model_mode\": %s,\n   \"expect\": ",
			encode(t, v.Profile), encode(t, v.Mode), encode(t, v.ModelMode))
		e := v.Expect
		canonical := e.Canonical
		e.Canonical = nil
		head := encode(t, e)
		if canonical != nil {
			head = strings.TrimSuffix(head, "}") + ",\n    \"canonical\": " + encode(t, canonical) + "}"
		}
		b.WriteString(head + "}")
	}
	b.WriteString("\n ]\n}\n")
	return []byte(b.String())
}

// encode is v as JSON on one line in plain ASCII.
func encode(t *testing.T, v any) string {
	t.Helper()
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range strings.TrimSuffix(raw.String(), "\n") {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b.WriteString(`\u` + strconv.FormatUint(0x10000|uint64(unit), 16)[1:])
		}
	}
	return b.String()
}
