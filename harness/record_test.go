package harness_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/replay"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// TestEveryVectorIsRecorded: each vector leaves the one expected record, and has the same
// decision as without a Recorder. A replay of the kept evidence gives the same decision
// again.
func TestEveryVectorIsRecorded(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	b, m := harnesstest.NewBench(t), harnesstest.NewMemory()
	for _, name := range profiles.Names() {
		b.Gates[name] = harnesstest.OpenBuiltin(t, b.Specs, name)
	}
	replayer := &replay.Session{Specs: b.Specs, Evidence: m.Blob}
	decided := 0
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			gate := b.Gates[v.Profile]
			if gate == nil {
				continue // there is no policy, so nothing is recorded
			}
			d := harnesstest.Deps(t)
			d.Specs, d.Recorder = b.Specs, m
			req := v.Request(t)
			if !slices.Contains([]string{harness.ModePlanOnly, harness.ModeExecuteSandbox}, v.Mode) || !slices.Contains([]string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}, v.ModelMode) {
				continue // a record names the modes that there are
			}
			req.RunID = fmt.Sprintf("vector-%d", len(m.Records))
			rep, err := harness.Run(t.Context(), d, gate, req)
			d.Recorder = nil
			alone, errAlone := harness.Run(t.Context(), d, gate, req)
			if harnesstest.Answer(t, rep, err) != harnesstest.Answer(t, alone, errAlone) {
				t.Errorf("%s: recorded %s\nnot recorded %s", v.Name, harnesstest.Answer(t, rep, err), harnesstest.Answer(t, alone, errAlone))
			}
			rec := m.Records[len(m.Records)-1]
			if rec.RunID != req.RunID || rec.IntentSHA256 != canon.Sum(req.Source) {
				t.Fatalf("%s: no record of its own: %+v", v.Name, rec)
			}
			if err != nil {
				if rec.Kind != ledger.KindError || rec.Code != string(v.Expect.Error) {
					t.Errorf("%s: %+v", v.Name, rec)
				}
				continue
			}
			decided++
			checkEvidence(t, b.Specs, m, rep, rec)
			rp, err := replayer.Replay(t.Context(), rec)
			if err != nil || rp.Status != replay.Match || len(rp.Details) > 0 || rp.Recorded.Outcome != rep.Decision.Outcome || !slices.Equal(rp.Now.Reasons, rep.Decision.Reasons) {
				t.Errorf("%s: %+v %v", v.Name, rp, err)
			}
		}
	}
	if decided < 400 || m.Puts[testimony.KindPolicySet] != len(profiles.Names()) || m.Puts[testimony.KindDecision] != decided {
		t.Errorf("%d decisions, %v", decided, m.Puts)
	}
}

// checkEvidence computes the values of a record from its blobs again, with no code of the
// program but SHA-256.
func checkEvidence(t *testing.T, set *specs.Set, m *harnesstest.Memory, rep harness.Report, rec ledger.Record) {
	t.Helper()
	if rep.Receipt == nil || rep.Receipt.Again || rep.Receipt.Record.RunID != rec.RunID {
		t.Errorf("receipt %+v", rep.Receipt)
	}
	raw := m.Blobs[rec.Evidence.SHA256]
	specstest.Valid(t, set, specs.KindEvidence, raw)
	var doc struct {
		Intent                  string `json:"intent_base64"`
		Input, Decision, Result string
		Policy                  ledger.Blob
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	intent, err := base64.StdEncoding.DecodeString(doc.Intent)
	if err != nil {
		t.Fatal(err)
	}
	for name, sum := range map[string][2]canon.ContentHash{
		"evidence": {canon.Sum(raw), rec.Evidence.SHA256}, "intent": {canon.Sum(intent), rec.IntentSHA256},
		"input": {canon.Sum([]byte(doc.Input)), rec.InputSHA256}, "decision": {canon.Sum([]byte(doc.Decision)), rec.DecisionSHA256},
		"result": {canon.Sum([]byte(doc.Result)), rec.ResultSHA256}, "policy set": {canon.Sum(m.Blobs[doc.Policy.SHA256]), doc.Policy.SHA256},
		"policy": {canon.Sum(provenanceOf(t, rep)), rec.PolicySHA256},
	} {
		if sum[0] != sum[1] {
			t.Errorf("%s: %s, the record says %s", name, sum[0], sum[1])
		}
	}
	if doc.Result != string(rep.Bytes) || int64(len(raw)) != rec.Evidence.Size || int64(len(m.Blobs[doc.Policy.SHA256])) != doc.Policy.Size {
		t.Errorf("the result that was kept is not the one that was printed, or a size is wrong")
	}
	_, subset := harnesstest.Document(t, rep)
	if _, sum, err := canon.Artifact(subset); err != nil || sum != rec.CanonicalSHA256 {
		t.Errorf("canonical_sha256 %s, want %s", rec.CanonicalSHA256, sum)
	}
	if rec.ResultKind != string(rep.Result.KernelResultKind) || rec.Accepted != rep.Result.Decision.Accepted || rec.Mode != rep.Result.ModelMode ||
		rec.Policy != rep.Result.Policy.Name || rec.Kernel != kernel.Version || rec.ExecutionMode != rep.Result.ExecutionMode {
		t.Errorf("%+v", rec)
	}
	if _, err := set.Validate(specs.KindPolicyInput, value(t, doc.Input)); err != nil {
		t.Errorf("input: %v", err)
	}
}

// value returns a JSON text as encoding/json reads it.
func value(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// provenanceOf is the policy_provenance of a result as an artifact.
func provenanceOf(t *testing.T, rep harness.Report) []byte {
	t.Helper()
	_, subset := harnesstest.Document(t, rep)
	b, _, err := canon.Artifact(subset["policy_provenance"])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBlobsHaveNothingOfTheMachine: no blob has the place of a file, its name on this
// machine, or the name or the environment of the host.
func TestBlobsHaveNothingOfTheMachine(t *testing.T) {
	t.Setenv("FIADOR_TEST_SECRET", "hunter2-hunter2")
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	s := harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "rules.rego": harnesstest.Asking("gate.user.mine")})
	s.User.Show = "/home/somebody/policy"
	org := harnesstest.Folder(map[string]string{"o.rego": harnesstest.Asking("gate.org.acme")})
	org.Show = "/etc/acme"
	s.Org = []policy.Folder{*org}
	gate, err := harness.OpenGate(t.Context(), s, d.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	m.Decided(t, d.Specs, gate, intents.Simple)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range m.Blobs {
		for _, secret := range []string{"/home/", "/etc/acme", "hunter2", wd, os.TempDir() + "/"} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%q stands in %.300s", secret, text)
			}
		}
		if len(host) > 8 && bytes.Contains(text, []byte(host)) {
			t.Errorf("the host's name stands in %.300s", text)
		}
	}
}

// TestNothingRecordedIsNoResult: whichever call of the Recorder fails, there is no result,
// and the error says what to do. Once the state of the ledger is unknown, no second record
// of the run is tried.
func TestNothingRecordedIsNoResult(t *testing.T) {
	for _, tc := range []struct{ call, message, records string }{
		{"put policy-set", "the evidence could not be kept, so the decision does not count: no room", "error:RUN_E006"},
		{"put decision", "the evidence could not be kept, so the decision does not count: no room", "error:RUN_E006"},
		{"append decision", "the decision could not be recorded, so it does not count: no room", ""},
	} {
		t.Run(tc.call, func(t *testing.T) {
			d, m := harnesstest.Deps(t), harnesstest.NewMemory()
			m.Refuse, d.Recorder = harnesstest.Refusing(tc.call), m
			gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
			rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r"))
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeEvidence || re.Message != tc.message || re.Hint == "" || rep.Bytes != nil || rep.Receipt != nil {
				t.Fatalf("%v, %q", err, rep.Bytes)
			}
			if got := m.Kinds(); got != tc.records {
				t.Errorf("records %q", got)
			}
			m.Refuse = func(string) error { return nil }
			if _, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r2")); err != nil {
				t.Errorf("the next run: %v", err)
			}
		})
	}
}

// hinting is an error with a hint.
type hinting struct{}

func (hinting) Error() string { return "locked" }
func (hinting) Hint() string  { return "wait" }

// TestErrorsAreRecorded: the error that ends a run leaves a record if the intent was read.
// The error is the same with a Recorder and without one. If the record fails, the error
// says so.
func TestErrorsAreRecorded(t *testing.T) {
	for _, tc := range []struct {
		name, src string
		judge     harnesstest.JudgeFunc
		change    func(*harness.Request)
		want      string
	}{
		{name: "not JSON", src: "{", want: "error:RUN_E002"},
		{name: "empty", src: "", want: "error:RUN_E002"},
		{name: "not an intent", src: "{}", want: "error:RUN_E003"},
		{name: "too large", src: strings.Repeat(" ", 2<<20), want: "error:RUN_E001"},
		{name: "mode", src: intents.Simple, change: func(r *harness.Request) { r.ModelMode = harness.ModelReplay }, want: "error:RUN_E004"},
		{name: "policy", src: intents.Simple, judge: func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindEval, Msg: "x"}
		}, want: "error:RUN_E007"},
		{name: "panic", src: intents.Simple, judge: func(policy.Input) (kernel.Verdict, error) { panic("secret") }, want: "error:RUN_E007"},
		{name: "invariant", src: intents.Simple, change: func(r *harness.Request) { r.Path = "/abs" }, want: "error:RUN_E007"},
		{name: "no sandbox", src: intents.Simple, change: func(r *harness.Request) { r.Mode = harness.ModeExecuteSandbox }, want: "error:RUN_E005"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, m := harnesstest.Deps(t), harnesstest.NewMemory()
			gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(permissiveHere))
			if tc.judge != nil {
				gate.Judge = tc.judge
			}
			req := harnesstest.Planned(tc.src, "r")
			if tc.change != nil {
				tc.change(&req)
			}
			_, alone := harness.Run(t.Context(), d, gate, req)
			d.Recorder = m
			_, err := harness.Run(t.Context(), d, gate, req)
			var a, b *result.RunError
			if !errors.As(alone, &a) || !errors.As(err, &b) || string(a.Line()) != string(b.Line()) || a.Hint != b.Hint {
				t.Errorf("%v, without a Recorder %v", err, alone)
			}
			if m.Kinds() != tc.want || m.Records[0].RuleID != b.RuleID {
				t.Errorf("records %+v", m.Records)
			}
			req.RunID = "r2"
			m.Refuse = func(string) error { return hinting{} }
			_, err = harness.Run(t.Context(), d, gate, req)
			if tc.name == "no sandbox" || tc.name == "invariant" {
				return // the Recorder fails before these errors occur
			}
			if !errors.As(err, &b) || b.Code != a.Code || b.Message != a.Message || b.Details["not_recorded"] != "locked" ||
				!strings.HasSuffix(b.Hint, "the error could not be recorded: locked") || a.Details["not_recorded"] != nil {
				t.Errorf("%v, hint %q, details %v", err, b.Hint, b.Details)
			}
			specstest.Valid(t, d.Specs, specs.KindRunError, b.Line())
		})
	}
}

// permissiveHere permits every effect.
func permissiveHere(in policy.Input) (kernel.Verdict, error) {
	var v kernel.Verdict
	for _, e := range in.Effects {
		v.Permits = append(v.Permits, e.ID)
	}
	return v, nil
}

func TestRecorderSaysWhatToDo(t *testing.T) {
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	m.Refuse, d.Recorder = func(string) error { return hinting{} }, m
	_, err := harness.Run(t.Context(), d, harnesstest.OpenBuiltin(t, d.Specs, "default"), harnesstest.Planned(intents.Simple, "r"))
	var re *result.RunError
	if !errors.As(err, &re) || !strings.HasPrefix(re.Hint, "wait") {
		t.Errorf("%v, hint %q", err, re.Hint)
	}
}

// TestCancelledRunIsRecorded: a cancelled run leaves its error all the same, and the
// record gets a context that is not cancelled.
func TestCancelledRunIsRecorded(t *testing.T) {
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	d.Recorder = m
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := harness.Run(ctx, d, harnesstest.OpenBuiltin(t, d.Specs, "default"), harnesstest.Planned(intents.Simple, "r"))
	var re *result.RunError
	if !errors.As(err, &re) || m.Kinds() != "error:RUN_E007" {
		t.Errorf("%v, records %q", err, m.Kinds())
	}
	// A decision that was made is recorded, whatever happens afterwards.
	ctx, cancel = context.WithCancel(t.Context())
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	engine := gate.Judge
	gate.Judge = harnesstest.JudgeFunc(func(in policy.Input) (kernel.Verdict, error) {
		defer cancel()
		return engine.Eval(t.Context(), in)
	})
	if _, err := harness.Run(ctx, d, gate, harnesstest.Planned(intents.Simple, "r2")); err != nil || m.Kinds() != "error:RUN_E007 decision" {
		t.Errorf("%v, records %q", err, m.Kinds())
	}
}

// TestRunAgain: a recorded run has the recorded result, whatever the time is now. It has
// no result if the record's evidence is lost, or if the run was a different one.
func TestRunAgain(t *testing.T) {
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	d.Recorder = m
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	first, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r"))
	if err != nil {
		t.Fatal(err)
	}
	d.Now = func() time.Time { return time.Unix(1e9, 0) }
	rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r"))
	if err != nil || !bytes.Equal(rep.Bytes, first.Bytes) || rep.Result.StartedAt != first.Result.StartedAt || !rep.Receipt.Again || len(m.Records) != 1 {
		t.Fatalf("%s %+v %v", rep.Bytes, rep.Receipt, err)
	}
	if again, err := rep.Result.Bytes(); err != nil || !bytes.Equal(again, first.Bytes) {
		t.Errorf("the value of the result is another: %s", again)
	}
	lost := func(status replay.Status) {
		t.Helper()
		d.Now = func() time.Time { return time.Unix(2e9, 0) }
		rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r"))
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeEvidence || re.Details["status"] != string(status) || re.Hint == "" || rep.Bytes != nil || len(m.Records) != 1 {
			t.Errorf("%v, %s, %q", err, rep.Bytes, m.Kinds())
		}
	}
	sum := m.Records[0].Evidence.SHA256
	kept := m.Blobs[sum]
	m.Blobs[sum] = bytes.Replace(kept, []byte("1970"), []byte("1971"), 1)
	lost(replay.EvidenceCorrupt)
	delete(m.Blobs, sum)
	lost(replay.EvidenceMissing)
	m.Blobs[sum] = kept
	_, err = harness.Run(t.Context(), d, gate, harnesstest.Planned(`{"goal":"another"}`, "r"))
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeEvidence || !strings.Contains(re.Message, `run id "r"`) || len(m.Records) != 1 {
		t.Errorf("%v", err)
	}
}

// TestEachRecords: many runs at once leave one record each, and one policy set.
func TestEachRecords(t *testing.T) {
	d, m := harnesstest.Runs(t), harnesstest.NewMemory()
	d.Recorder = m
	const n = 200
	jobs := func(yield func(harness.Job) bool) {
		for i := range n {
			src := fmt.Sprintf(`{"goal":"goal %d","constraints":["c"]}`, i)
			if i%10 == 3 {
				src = "{"
			}
			if !yield(harness.Job{Request: harnesstest.Planned(src, fmt.Sprintf("run-%d", i))}) {
				return
			}
		}
	}
	failed := 0
	err := harness.Each(t.Context(), d, harnesstest.OpenBuiltin(t, d.Specs, "default"), 8, jobs, func(e harness.End) error {
		if e.Err != nil {
			failed++
		} else if e.Receipt == nil || e.Receipt.Record.RunID != e.RunID {
			t.Errorf("%s has receipt %+v", e.RunID, e.Receipt)
		}
		return nil
	})
	if err != nil || len(m.Records) != n || failed != n/10 || m.Puts[testimony.KindPolicySet] != 1 {
		t.Errorf("%d records, %d errors, %v, %v", len(m.Records), failed, m.Puts, err)
	}
}

// TestGateKeepsItsPolicyInEachRecorder: two ledgers each have the policy set.
func TestGateKeepsItsPolicyInEachRecorder(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	gate := harnesstest.OpenBuiltin(t, set, "default")
	for range 2 {
		m := harnesstest.NewMemory()
		_, rec := m.Decided(t, set, gate, intents.Simple)
		m.Decided(t, set, gate, intents.Simple)
		if rp, err := (&replay.Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec); err != nil || rp.Status != replay.Match || m.Puts[testimony.KindPolicySet] != 1 {
			t.Errorf("%+v %v %v", rp, m.Puts, err)
		}
	}
}
