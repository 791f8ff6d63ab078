package harness_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/replay"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// forged is one record and its two blobs, which a test may change.
type forged struct {
	rec      ledger.Record
	decision map[string]any
	set      map[string]any
}

func (f forged) text(name string) map[string]any {
	doc, err := canon.Parse([]byte(f.decision[name].(string)), testimony.MaxBlobBytes)
	if err != nil {
		panic(err)
	}
	return doc.Value().(map[string]any)
}

// put writes a document back into the blob as text, and returns its hash.
func (f forged) put(name string, doc map[string]any) canon.ContentHash {
	b, sum, err := canon.Artifact(doc)
	if err != nil {
		panic(err)
	}
	f.decision[name] = string(b)
	return sum
}

// forge takes apart what was recorded, lets change modify it, and puts it together again
// under its new hashes.
func forge(t *testing.T, m *harnesstest.Memory, rec ledger.Record, change func(*forged)) (ledger.Record, *harnesstest.Memory) {
	t.Helper()
	open := func(b ledger.Blob) map[string]any {
		doc, err := canon.Parse(m.Blobs[b.SHA256], testimony.MaxBlobBytes)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Value().(map[string]any)
	}
	f := forged{rec: rec, decision: open(rec.Evidence)}
	ref := f.decision["policy"].(map[string]any)
	f.set = open(ledger.Blob{SHA256: canon.ContentHash(ref["sha256"].(string))})
	change(&f)
	out := harnesstest.NewMemory()
	keep := func(doc map[string]any) ledger.Blob {
		text, _, err := canon.Artifact(doc)
		if err != nil {
			t.Fatal(err)
		}
		b, err := out.Put(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if b := keep(f.set); ref["sha256"] != "kept" {
		f.decision["policy"] = map[string]any{"sha256": string(b.SHA256), "size": b.Size}
	}
	f.rec.Evidence = keep(f.decision)
	return f.rec, out
}

// TestCorruptEvidence: evidence that differs from the record is found, even if the name of
// every blob fits its bytes.
func TestCorruptEvidence(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "default"), intents.AskedHere)
	otherHash := string(canon.Sum([]byte("x")))
	module := func(f *forged) map[string]any {
		return f.set["layers"].([]any)[0].(map[string]any)["modules"].([]any)[0].(map[string]any)
	}
	edit := func(name string, change func(map[string]any)) func(*forged) {
		return func(f *forged) {
			doc := f.text(name)
			change(doc)
			f.put(name, doc)
		}
	}
	for _, tc := range []struct {
		name              string
		change            func(*forged)
		document, pointer string
	}{
		{"another intent", func(f *forged) {
			f.decision["intent_base64"] = base64.StdEncoding.EncodeToString([]byte(intents.AllowedHere))
		}, "record", "/intent_sha256"},
		{"an intent that is no base64", func(f *forged) { f.decision["intent_base64"] = "e30" }, testimony.KindDecision, "/intent_base64"},
		{"another input", edit("input", func(d map[string]any) { d["findings"] = []any{} }), "record", "/input_sha256"},
		{"another decision", edit("decision", func(d map[string]any) { d["questions"] = []any{"x"} }), "record", "/decision_sha256"},
		{"a note that is none", edit("decision", func(d map[string]any) { d["notes"] = []any{"x"} }), "decision", ""},
		{"a decision with a member more", edit("decision", func(d map[string]any) { d["more"] = "x" }), "decision", ""},
		{"a decision without reasons", edit("decision", func(d map[string]any) { delete(d, "reasons") }), "decision", ""},
		{"a decision that is none", func(f *forged) { f.decision["decision"] = "[]\n" }, "decision", ""},
		{"a decision with white space", func(f *forged) { f.decision["decision"] = " " + f.decision["decision"].(string) }, "decision", ""},
		{"a reason that is none", edit("decision", func(d map[string]any) { d["reasons"] = []any{json.Number("1")} }), "decision", ""},
		{"another result", edit("result", func(d map[string]any) { d["clarify_questions"] = []any{"x"} }), "record", "/canonical_sha256"},
		{"other times", edit("result", func(d map[string]any) { d["started_at"] = "2020-01-01T00:00:00.000Z" }), "record", "/result_sha256"},
		{"another run", edit("result", func(d map[string]any) { d["run_id"] = "other" }), "record", "/result_sha256"},
		{"a result that breaks an invariant", edit("result", func(d map[string]any) { d["refuse_reason"] = "x" }), "result", ""},
		{"a result with a member more", edit("result", func(d map[string]any) { d["more"] = "x" }), "result", ""},
		{"a result with a number for a text", edit("result", func(d map[string]any) { d["run_id"] = json.Number("1") }), "result", ""},
		{"a result of no kind", func(f *forged) { f.decision["result"] = "null\n" }, "result", ""},
		{"a member more", func(f *forged) { f.decision["more"] = "x" }, testimony.KindDecision, "/more"},
		{"a member less", func(f *forged) { delete(f.decision, "input") }, testimony.KindDecision, ""},
		{"another version", func(f *forged) { f.decision["schema_version"] = "2.0.0" }, testimony.KindDecision, "/schema_version"},
		{"a policy set in its place", func(f *forged) { clear(f.decision); copyInto(f.decision, f.set); f.set["base"] = "kept" }, "", ""},
		{"another profile", func(f *forged) {
			f.set["profile"] = strings.Replace(f.set["profile"].(string), `"timeout_ms":60000`, `"timeout_ms":60001`, 1)
		}, "record", "/policy_sha256"},
		{"a profile that is none", func(f *forged) { f.set["profile"] = "{}\n" }, testimony.KindPolicySet, "/profile"},
		{"another module", func(f *forged) {
			text := module(f)["text"].(string) + "# \n"
			module(f)["text"], module(f)["sha256"] = text, string(canon.Sum([]byte(text)))
		}, "record", "/policy_sha256"},
		{"a module with another hash", func(f *forged) { module(f)["sha256"] = otherHash }, testimony.KindPolicySet, "/layers"},
		{"a module as base64", func(f *forged) {
			module(f)["text_base64"] = base64.StdEncoding.EncodeToString([]byte(module(f)["text"].(string)))
			delete(module(f), "text")
		}, testimony.KindPolicySet, "/layers"},
		{"a module that is no base64", func(f *forged) { module(f)["text_base64"] = "!"; delete(module(f), "text") }, testimony.KindPolicySet, "/layers/0"},
		{"other capabilities", func(f *forged) { f.set["capabilities_sha256"] = otherHash }, "record", "/policy_sha256"},
		{"no layers", func(f *forged) { f.set["layers"] = []any{} }, testimony.KindPolicySet, "/layers"},
		{"another record", func(f *forged) { f.rec.ResultKind, f.rec.BundleSHA256 = "REFUSE", "" }, "record", "/bundle_sha256"},
		{"another policy in the record", func(f *forged) { f.rec.Policy = "strict" }, "record", "/policy"},
		{"another policy hash in the record", func(f *forged) { f.rec.PolicySHA256 = canon.ContentHash(otherHash) }, "record", "/policy_sha256"},
		{"another run in the record", func(f *forged) { f.rec.RunID = "r1" }, "record", "/run_id"},
		{"another mode in the record", func(f *forged) { f.rec.ExecutionMode = harness.ModeExecuteSandbox }, "record", "/execution_mode"},
		{"other reasons in the record", func(f *forged) { f.rec.Reasons = nil }, "record", "/reasons/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, kept := forge(t, m, rec, tc.change)
			rp, err := (&replay.Session{Specs: set, Evidence: kept.Blob}).Replay(t.Context(), rec)
			if tc.document == "" {
				if err != nil || rp.Status != replay.EvidenceCorrupt {
					t.Errorf("%+v %v", rp, err)
				}
				return
			}
			if err != nil || rp.Status != replay.EvidenceCorrupt || rp.Document != tc.document || rp.Difference.Pointer != tc.pointer || len(rp.Details) == 0 {
				t.Errorf("%+v %v", rp, err)
			}
		})
	}
}

func copyInto(to, from map[string]any) {
	for k, v := range from {
		to[k] = v
	}
}

// TestReplayFindsAForgery: the evidence agrees with a forged record in every hash, and
// says something that the policy does not say.
func TestReplayFindsAForgery(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	gate := harnesstest.OpenBuiltin(t, set, "default")
	_, asked := m.Decided(t, set, gate, intents.AskedHere)
	_, refused := m.Decided(t, set, gate, intents.RefusedHere)
	result := func(f *forged, change func(map[string]any)) {
		doc := f.text("result")
		change(doc)
		f.rec.ResultSHA256 = f.put("result", doc)
		var err error
		if f.rec.CanonicalSHA256, err = digest(doc); err != nil {
			t.Fatal(err)
		}
	}
	decision := func(f *forged, change func(map[string]any)) {
		doc := f.text("decision")
		change(doc)
		f.rec.DecisionSHA256 = f.put("decision", doc)
	}
	for _, tc := range []struct {
		name              string
		rec               ledger.Record
		change            func(*forged)
		status            replay.Status
		document, pointer string
	}{
		{"no findings of the kernel", asked, func(f *forged) {
			doc := f.text("input")
			doc["findings"] = []any{}
			f.rec.InputSHA256 = f.put("input", doc)
		}, replay.DecisionDiffers, "input", "/findings/0"},
		{"an input that is no JSON", asked, func(f *forged) {
			f.decision["input"] = "x"
			f.rec.InputSHA256 = canon.Sum([]byte("x"))
		}, replay.DecisionDiffers, "input", ""},
		{"another question", asked, func(f *forged) {
			decision(f, func(d map[string]any) { d["questions"] = []any{"really?"} })
		}, replay.DecisionDiffers, "decision", "/questions/0"},
		{"another reason", refused, func(f *forged) {
			decision(f, func(d map[string]any) { d["reasons"] = []any{"OTHER /goal"} })
		}, replay.DecisionDiffers, "decision", "/reasons/0"},
		{"an intent that is none", asked, func(f *forged) {
			f.decision["intent_base64"] = "e30="
			f.rec.IntentSHA256 = canon.Sum([]byte("{}"))
			result(f, func(d map[string]any) { d["intent"].(map[string]any)["sha256"] = string(canon.Sum([]byte("{}"))) })
		}, replay.DecisionDiffers, "decision", ""},
		{"a mode that the profile does not have", asked, func(f *forged) {
			f.rec.Mode = harness.ModelReplay
			result(f, func(d map[string]any) { d["model_mode"] = harness.ModelReplay })
		}, replay.DecisionDiffers, "decision", ""},
		{"another bundle in the result", asked, func(f *forged) {
			result(f, func(d map[string]any) { d["bundle"].(map[string]any)["bundle_id"] = "bundle_0123456789abcdef" })
		}, replay.CanonicalDiffers, "result", "/bundle/bundle_id"},
		{"another question in the result", asked, func(f *forged) {
			result(f, func(d map[string]any) { d["clarify_questions"] = []any{"really?"} })
		}, replay.CanonicalDiffers, "result", "/clarify_questions/0"},
		{"another limit in the result", refused, func(f *forged) {
			result(f, func(d map[string]any) { d["policy"].(map[string]any)["timeout_ms"] = json.Number("1") })
		}, replay.CanonicalDiffers, "result", "/policy/timeout_ms"},
		{"a policy that does not compile", asked, func(f *forged) {
			broken(t, f, result, "package gate.builtin\n\ndeny contains if")
		}, replay.DecisionDiffers, "decision", ""},
		{"a policy that permits nothing", asked, func(f *forged) {
			broken(t, f, result, "package gate.builtin\n\npermit contains e.id if { e := input.effects[_]; e.id == \"x\" }\n")
		}, replay.DecisionDiffers, "decision", "/bundle"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, kept := forge(t, m, tc.rec, tc.change)
			rp, err := (&replay.Session{Specs: set, Evidence: kept.Blob}).Replay(t.Context(), rec)
			if err != nil || rp.Status != tc.status || rp.Document != tc.document || !strings.HasPrefix(rp.Difference.Pointer, tc.pointer) {
				t.Errorf("%+v %v", rp, err)
			}
		})
	}
}

func digest(doc map[string]any) (canon.ContentHash, error) { return result.Digest(doc) }

// broken gives a policy set one module of its own, and the digests that follow.
func broken(t *testing.T, f *forged, edit func(*forged, func(map[string]any)), src string) {
	t.Helper()
	sum := string(canon.Sum([]byte(src)))
	f.set["layers"] = []any{map[string]any{"package": "gate.builtin", "embedded": true, "modules": []any{
		map[string]any{"name": "builtin/x.rego", "sha256": sum, "text": src},
	}}}
	edit(f, func(d map[string]any) {
		p := d["policy_provenance"].(map[string]any)
		p["modules"] = []any{map[string]any{"name": "builtin/x.rego", "sha256": sum}}
		var err error
		if _, f.rec.PolicySHA256, err = canon.Artifact(p); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReplayOfAnotherKernel: bundle and result name their kernel, so they differ. The
// decision does not differ, and the policy gets the same kernel version as before.
func TestReplayOfAnotherKernel(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "default"), intents.AskedHere)
	rec, kept := forge(t, m, rec, func(f *forged) {
		f.rec.Kernel = "0.0.9"
		in := f.text("input")
		in["kernel_version"] = "0.0.9"
		f.rec.InputSHA256 = f.put("input", in)
		sum := string(canon.Sum([]byte("bundle of another kernel")))
		d := f.text("decision")
		d["bundle"].(map[string]any)["sha256"] = sum
		f.rec.DecisionSHA256, f.rec.BundleSHA256 = f.put("decision", d), canon.ContentHash(sum)
		res := f.text("result")
		res["kernel_version"], res["bundle"].(map[string]any)["sha256"] = "0.0.9", sum
		f.rec.ResultSHA256 = f.put("result", res)
		var err error
		if f.rec.CanonicalSHA256, err = digest(res); err != nil {
			t.Fatal(err)
		}
	})
	rp, err := (&replay.Session{Specs: set, Evidence: kept.Blob}).Replay(t.Context(), rec)
	if err != nil || rp.Status != replay.CanonicalDiffers || rp.Document != "result" || len(rp.Details) != 1 || !strings.Contains(rp.Details[0], "0.0.9") {
		t.Errorf("%+v %v", rp, err)
	}
}

// TestEveryFlippedByteIsFound flips bytes in both blobs, which keep their old names.
func TestEveryFlippedByteIsFound(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "strict"), intents.Simple)
	r := rand.New(rand.NewPCG(1, 2))
	for sum, text := range m.Blobs {
		for range 200 {
			at := r.IntN(len(text))
			bad := bytes.Clone(text)
			bad[at] ^= 1 << r.IntN(8)
			m.Blobs[sum] = bad
			if rp, err := (&replay.Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec); err != nil || rp.Status != replay.EvidenceCorrupt {
				t.Fatalf("byte %d: %+v %v", at, rp, err)
			}
		}
		for _, bad := range [][]byte{nil, text[:len(text)-1], append(bytes.Clone(text), '\n')} {
			m.Blobs[sum] = bad
			if rp, err := (&replay.Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec); err != nil || rp.Status != replay.EvidenceCorrupt {
				t.Fatalf("%+v %v", rp, err)
			}
		}
		m.Blobs[sum] = text
	}
}

// TestHostileBlobs: blobs with right names that are made to do harm are found corrupt in
// little time and memory.
func TestHostileBlobs(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "strict"), intents.Simple)
	inside := func(name, text string) string {
		doc, err := canon.Parse(m.Blobs[rec.Evidence.SHA256], testimony.MaxBlobBytes)
		if err != nil {
			t.Fatal(err)
		}
		blob := map[string]any{}
		copyInto(blob, doc.Value().(map[string]any))
		blob[name] = text
		b, _, err := canon.Artifact(blob)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	many := func(unit string, n int) string { return "[" + strings.Repeat(unit+",", n) + unit + "]" }
	for name, text := range map[string]string{
		"nothing": "", "a line feed": "\n", "deep": strings.Repeat("[", 10<<20), "empty objects": many("{}", 5<<20), "numbers": many("1", 7<<20),
		"as many values as are read": many("{}", testimony.MaxValues-2), "a result of as many": inside("result", `{"execution":{"outputs":`+many("{}", testimony.MaxValues-8)+"}}\n"),
		"one text": `"` + strings.Repeat("x", 15<<20) + `"`, "results that are lists": inside("result", many("{}", 4<<20)),
		"a result of empty files":            inside("result", `{"execution":{"outputs":`+many("{}", 4<<20)+"}}\n"),
		"a deep decision":                    inside("decision", strings.Repeat(`{"a":`, 1<<20)),
		"a decision of reasons":              inside("decision", `{"outcome":"BUNDLE","reasons":`+many("1", 4<<20)+"}\n"),
		"a number without an end":            "[1" + strings.Repeat("0", 10<<20) + "]",
		"a schema that sees twenty thousand": `{"kind":"policy-set","layers":` + many(`{"modules":1}`, 20000) + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			rec := rec
			rec.Evidence = ledger.Blob{SHA256: canon.Sum([]byte(text)), Size: int64(len(text))}
			kept := harnesstest.NewMemory()
			kept.Blobs[rec.Evidence.SHA256] = []byte(text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rp, err := (&replay.Session{Specs: set, Evidence: kept.Blob}).Replay(t.Context(), rec)
			runtime.ReadMemStats(&after)
			if err != nil || rp.Status != replay.EvidenceCorrupt {
				t.Errorf("%.300v %v", rp, err)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 400 {
				t.Errorf("%d MiB were allocated", used)
			}
		})
	}
	rec.Evidence.Size = testimony.MaxBlobBytes + 1
	read := func(ledger.Blob) ([]byte, error) { t.Error("a blob over the limit is read"); return nil, nil }
	if rp, err := (&replay.Session{Specs: set, Evidence: read}).Replay(t.Context(), rec); err != nil || rp.Status != replay.EvidenceCorrupt {
		t.Errorf("%+v %v", rp, err)
	}
}
