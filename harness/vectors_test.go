package harness

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// runVectors is the folder that -update writes.
const runVectors = "../specs/vectors/run"

func TestVectors(t *testing.T) {
	files := loadVectors(t)
	for _, f := range files {
		src, err := os.ReadFile(filepath.Join(runVectors, f.path))
		if err != nil || !*UpdateVectors && !bytes.Equal(f.text(t), src) {
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
	if *UpdateVectors {
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
	if *UpdateVectors {
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
