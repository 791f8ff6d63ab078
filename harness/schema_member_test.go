package harness_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// TestSchemaMemberNeverCounts: an intent with $schema gives the same question to the
// policy, and the same result, but for the hash of its bytes.
func TestSchemaMemberNeverCounts(t *testing.T) {
	for name, src := range map[string]string{"BUNDLE": intents.Simple, "CLARIFY": intents.AskedHere, "REFUSE": intents.RefusedHere} {
		t.Run(name, func(t *testing.T) {
			plain, question := decided(t, src)
			named, other := decided(t, strings.Replace(src, "{", `{"$schema":"../specs/intent.schema.json",`, 1))
			if plain.Result.KernelResultKind != kernel.Outcome(name) {
				t.Fatalf("outcome %s", plain.Result.KernelResultKind)
			}
			if plain.Result.Intent.SHA256 == named.Result.Intent.SHA256 || question.IntentSHA256 == other.IntentSHA256 {
				t.Error("the hash of the intent's bytes does not change")
			}
			if other.IntentSHA256 = question.IntentSHA256; !reflect.DeepEqual(question, other) {
				t.Errorf("the policy sees\n%v\nwithout $schema\n%v", other.Document(), question.Document())
			}
			named.Result.Intent.SHA256 = plain.Result.Intent.SHA256
			a, errA := plain.Result.Bytes()
			b, errB := named.Result.Bytes()
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("result\n%s\nwithout $schema\n%s", b, a)
			}
			if !reflect.DeepEqual(plain.Decision, named.Decision) {
				t.Errorf("decision\n%+v\nwithout $schema\n%+v", named.Decision, plain.Decision)
			}
		})
	}
}

// decided runs an intent as a plan. It returns the report and what the policy was asked.
func decided(t *testing.T, src string) (harness.Report, policy.Input) {
	t.Helper()
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	in, err := harness.Question(d.Specs, gate.Profile, harnesstest.Planned(src, ""))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(src, ""))
	if err != nil {
		t.Fatal(err)
	}
	return rep, in
}

// TestSchemaMemberHasItsPlace: $schema is a string at the top, and an error at any other
// place that is not free data.
func TestSchemaMemberHasItsPlace(t *testing.T) {
	d := harnesstest.Deps(t)
	long, _ := json.Marshal(strings.Repeat("x", 2049))
	for src, code := range map[string]result.Code{
		`{"goal":"g","$schema":""}`:                                             "",
		`{"goal":"g","context":{"$schema":1}}`:                                  "",
		`{"goal":"g","$schema":1}`:                                              result.CodeNotIntent,
		`{"goal":"g","$schema":null}`:                                           result.CodeNotIntent,
		`{"goal":"g","$schema":` + string(long) + `}`:                           result.CodeNotIntent,
		`{"goal":"g","$shema":"x"}`:                                             result.CodeNotIntent,
		`{"goal":"g","actions":[{"kind":"run","argv":["node"],"$schema":"x"}]}`: result.CodeNotIntent,
	} {
		_, err := harness.Question(d.Specs, harnesstest.OpenBuiltin(t, d.Specs, "default").Profile, harnesstest.Planned(src, ""))
		re, failed := err.(*result.RunError)
		if failed != (code != "") || failed && re.Code != code {
			t.Errorf("%s: %v, want %q", canon.Cut(src), err, code)
		}
		// The kernel reads it in the same way without the schema.
		var doc any
		if err := json.Unmarshal([]byte(src), &doc); err != nil {
			t.Fatal(err)
		}
		if _, err := kernel.ParseIntent(doc); (err != nil) != (code != "") {
			t.Errorf("%s: the kernel says %v", canon.Cut(src), err)
		}
	}
}
