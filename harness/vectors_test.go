package harness_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// runVectors is the folder that -update writes.
const runVectors = "../specs/vectors/run"

func TestVectors(t *testing.T) {
	files := harnesstest.LoadVectors(t)
	for _, f := range files {
		src, err := os.ReadFile(filepath.Join(runVectors, f.Path))
		if err != nil || !*harness.UpdateVectors && !bytes.Equal(f.Text(t), src) {
			t.Errorf("%s is not laid out as -update writes it (%v)", f.Path, err)
		}
	}
	b := harnesstest.NewBench(t)
	first := map[string]string{}
	each := func(pass string, check func(*testing.T, *harnesstest.Vector)) {
		for _, f := range files {
			for _, v := range f.Vectors {
				t.Run(pass+"/"+strings.TrimSuffix(f.Path, ".json")+"/"+v.Name, func(t *testing.T) { check(t, v) })
			}
		}
	}
	each("first", func(t *testing.T, v *harnesstest.Vector) {
		rep, err := b.Run(t, v)
		first[v.Name] = harnesstest.Answer(t, rep, err)
		if err != nil {
			checkError(t, b.Specs, v, err)
		} else {
			checkReport(t, b, v, rep)
		}
		rep, err = b.Run(t, v)
		if again := harnesstest.Answer(t, rep, err); again != first[v.Name] {
			t.Errorf("a second run gives\n%s\nnot\n%s", again, first[v.Name])
		}
	})
	fresh := harnesstest.NewBench(t)
	each("fresh", func(t *testing.T, v *harnesstest.Vector) {
		rep, err := fresh.Run(t, v)
		if again := harnesstest.Answer(t, rep, err); again != first[v.Name] {
			t.Errorf("a fresh gate gives\n%s\nnot\n%s", again, first[v.Name])
		}
	})
	if *harness.UpdateVectors {
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(runVectors, f.Path), f.Text(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkError compares an error with the vector: its code, and the pointer and the offset
// of its details. An absent one must be absent.
func checkError(t *testing.T, set *specs.Set, v *harnesstest.Vector, err error) {
	t.Helper()
	var re *result.RunError
	if !errors.As(err, &re) {
		t.Fatalf("not a RunError: %v", err)
	}
	got := harnesstest.Expectation{Error: re.Code}
	if p, ok := re.Details["pointer"].(string); ok {
		got.Pointer = &p
	}
	if o, ok := re.Details["offset"].(int64); ok {
		got.Offset = &o
	}
	if g, w := specstest.Encode(t, got), specstest.Encode(t, v.Expect); g != w {
		t.Errorf("got %s, want %s (%s)", g, w, re.Message)
	}
	specstest.Valid(t, set, specs.KindRunError, re.Line())
}

// checkReport compares a decision with the vector, and checks the documents by their
// schemas and invariants.
func checkReport(t *testing.T, b *harnesstest.Bench, v *harnesstest.Vector, rep harness.Report) {
	t.Helper()
	doc, subset := harnesstest.Document(t, rep)
	got := harnesstest.Expectation{Outcome: rep.Decision.Outcome, Reasons: rep.Result.Decision.Reasons}
	for _, n := range rep.Decision.Notes {
		got.Notes = append(got.Notes, n.ID+" "+n.Path)
	}
	slices.SortFunc(got.Notes, canon.Compare)
	got.Notes = slices.Compact(got.Notes)
	want := v.Expect
	want.Canonical = nil
	if g, w := specstest.Encode(t, got), specstest.Encode(t, want); g != w {
		t.Errorf("got %s, want %s", g, w)
		return
	}
	delete(subset, "policy_provenance")
	canonical, err := canon.Canonical(subset)
	if err != nil {
		t.Fatal(err)
	}
	if *harness.UpdateVectors {
		v.Expect.Canonical = canonical
	}
	if wanted, err := canon.Canonical(v.Expect.Canonical); err != nil || !bytes.Equal(canonical, wanted) {
		t.Errorf("canonical subset\n%s\nwant\n%s", canonical, wanted)
	}
	specstest.Valid(t, b.Specs, specs.KindRunResult, rep.Bytes)
	contract := b.Gates[v.Profile].Profile.Contract()
	for _, c := range result.Checks(rep.Bytes, doc, &contract) {
		if c.Status != result.Pass {
			t.Errorf("%s %s: %s", c.ID, c.Status, c.Fault)
		}
	}
	if ref := rep.Result.Bundle; ref != nil {
		checkBundle(t, b.Specs, *ref, rep.Decision.BundleBytes)
	}
}

// checkBundle computes again what a RunResult says about its bundle.
func checkBundle(t *testing.T, set *specs.Set, ref result.BundleRef, raw []byte) {
	t.Helper()
	if sum := canon.Sum(raw); sum != ref.SHA256 {
		t.Errorf("the bundle's bytes hash to %s, the result says %s", sum, ref.SHA256)
	}
	bundle := specstest.Valid(t, set, specs.KindBundle, raw).(map[string]any)
	id := bundle["id"]
	delete(bundle, "id")
	if want, err := canon.ID("bundle_", bundle); err != nil || id != want || id != ref.BundleID {
		t.Errorf("bundle id %v, the result says %s, its bytes give %s (%v)", id, ref.BundleID, want, err)
	}
}

const noRegistry = "the vectors have no registry of tools"

// unreachable lists the rules that no built-in profile can fire, with the reason.
var unreachable = map[string]string{
	"OUTPUT_BYTES":        "the built-in profiles allow more bytes than an intent can have",
	"UNKNOWN_FINDING":     "the kernel reports only findings that the built-in policy handles",
	"SHELL_METACHARACTER": "no built-in profile has shell_metacharacters deny",
	"ADAPTER_UNKNOWN":     noRegistry,
	"HOST_NOT_ALLOWED":    noRegistry,
	"PARAMS_INVALID":      noRegistry,
	"TOOL_DEPRECATED":     noRegistry,
	"TOOL_EXPERIMENTAL":   noRegistry,
	"TOOL_INACTIVE":       noRegistry,
	"TOOL_NOT_ALLOWED":    noRegistry,
	"TOOL_UNKNOWN":        noRegistry,
	kernel.IDNotPermitted: "it is the reason for what is denied and no longer listed, behind a thousand others",
}

// TestVectorsCoverThePolicy: there are vectors for every rule of the built-in policy, and
// for every error in which a decision can end.
func TestVectorsCoverThePolicy(t *testing.T) {
	total, fired, failed := 0, map[string]int{}, map[result.Code]int{}
	outcomes := map[string]int{}
	for _, f := range harnesstest.LoadVectors(t) {
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
	b := harnesstest.NewBench(t)
	if _, err := b.Run(t, &harnesstest.Vector{Intent: []byte(intents.Simple), Profile: "strict", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}); err != nil {
		t.Fatal(err)
	}
	ids := []string{kernel.IDNotPermitted}
	rules, err := b.Gates["strict"].Judge.(*policy.Engine).Rules()
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
