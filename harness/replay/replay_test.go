package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// TestReplayWithEveryLayer: the policy set has a profile of the user's with Rego, two
// layers of the organisation and one of the tree.
func TestReplayWithEveryLayer(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	s := harnesstest.Mine(map[string]string{
		"profile.json": `{"name":"mine","extends":"default","risk_tags":["x"],"severity":{"INLINE_CODE":"deny"},"timeout_ms":2000}`,
		"a/rules.rego": harnesstest.Asking("gate.user.mine"), "rules_test.rego": "package x",
	})
	s.Org = []policy.Folder{
		*harnesstest.Folder(map[string]string{"o.rego": "package gate.org.acme\n" + harnesstest.Quiet("ACME")}),
		*harnesstest.Folder(map[string]string{"o.rego": "package gate.org.other\n" + harnesstest.Quiet("OTHER"), "p/q.rego": "package gate.org.other\n# \u00e9\u4e16\u754c\U0001f600\n" + harnesstest.Quiet("MORE")}),
	}
	s.Repo = harnesstest.Folder(map[string]string{"r.rego": "package gate.repo.tree\n" + harnesstest.Quiet("TREE")})
	gate, err := harness.OpenGate(t.Context(), s, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	m := harnesstest.NewMemory()
	for src, want := range map[string]kernel.Outcome{intents.AllowedHere: kernel.OutcomeClarify, intents.RefusedHere: kernel.OutcomeRefuse} {
		rep, rec := m.Decided(t, set, gate, src)
		if rep.Decision.Outcome != want {
			t.Errorf("%s", rep.Bytes)
		}
		rp, err := (&Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec)
		if err != nil || rp.Status != Match {
			t.Errorf("%+v %v", rp, err)
		}
	}
}

// otherBuiltin returns the built-in profiles with one more rule, as a program of another
// version has them.
func otherBuiltin(t *testing.T) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(profiles.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := fs.ReadFile(profiles.FS(), name)
		files[name] = &fstest.MapFile{Data: src}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"builtin/decide.rego":  {"found contains f if some f in input.findings\n", "found contains f if some f in input.findings\n\n" + `found contains {"code": "later", "path": "/goal"} if input.intent.goal != ""` + "\n"},
		profiles.RecordsModule: {`"records": {`, `"records": {"later": {"id": "LATER", "title": "t", "description": "d", "severity": "deny", "text": "not in this version"},`},
	} {
		was := string(files[name].Data)
		if !strings.Contains(was, edit[0]) {
			t.Fatalf("%s has no %s", name, edit[0])
		}
		files[name] = &fstest.MapFile{Data: []byte(strings.Replace(was, edit[0], edit[1], 1))}
	}
	return files
}

// TestReplayDecidesByTheFrozenPolicy: a replay decides by the recorded policy, not by this
// program's. An intent that another built-in policy refused is refused again, and this
// program's policy allows it.
func TestReplayDecidesByTheFrozenPolicy(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	other, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: otherBuiltin(t), Profile: "default"}, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	m := harnesstest.NewMemory()
	rep, rec := m.Decided(t, set, other, intents.AllowedHere)
	if rep.Decision.Outcome != kernel.OutcomeRefuse {
		t.Fatalf("%s", rep.Bytes)
	}
	rp, err := (&Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec)
	if err != nil || rp.Status != Match || rp.Now.Outcome != kernel.OutcomeRefuse {
		t.Errorf("%+v %v", rp, err)
	}
	rp, err = (&Session{Specs: set, Evidence: m.Blob}).With(t.Context(), harnesstest.OpenBuiltin(t, set, "default"), rec)
	if err != nil || rp.Status != DecisionDiffers || rp.Difference.Pointer != "/outcome" ||
		rp.Recorded.Outcome != kernel.OutcomeRefuse || rp.Now.Outcome != kernel.OutcomeBundle || !slices.Equal(rp.Recorded.Reasons, []string{"LATER /goal"}) {
		t.Errorf("%+v %v", rp, err)
	}
}

// TestReplayAsksAsThen: a decision that was made under an earlier version of the policy
// contract matches, for the recorded policy is asked in that version. Answers had no effect
// then.
func TestReplayAsksAsThen(t *testing.T) {
	for _, contract := range policy.EarlierContracts() {
		t.Run(contract, func(t *testing.T) { replayAsThen(t, contract) })
	}
}

func replayAsThen(t *testing.T, contract string) {
	set := harnesstest.Deps(t).Specs
	files := otherBuiltin(t).(fstest.MapFS)
	delete(files, profiles.RecordsModule)
	delete(files, "builtin/policy.stored")
	files["builtin/decide.rego"] = &fstest.MapFile{Data: []byte("package gate.builtin\n\npermit contains e.id if some e in input.effects\n\n" +
		harnesstest.Meta("FOUND") + `note contains {"id": "FOUND", "path": f.path, "msg": f.code} if some f in input.findings` + "\n\n" +
		harnesstest.Meta("ASKED") + "#   answerable: true\n" + `clarify contains {"id": "ASKED", "path": "", "question": "q"}` + "\n")}
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: files, Profile: "default"}, set, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	src := `{"goal":"g","constraints":["c"],"actions":[{"kind":"run","argv":["node","x"],"env":{"CI":""}}],"context":{"answers":{"` +
		kernel.Result{Module: policy.Builtin, ID: "ASKED", Text: "q"}.QuestionID() + `":"a"}}}`
	in, _, err := gate.Ask(set, harnesstest.Planned(src, "r"))
	if err != nil {
		t.Fatal(err)
	}
	in.Contract = contract
	then, _, err := canon.Artifact(in.Document())
	if err != nil {
		t.Fatal(err)
	}
	m := harnesstest.NewMemory()
	now := gate.Judge
	gate.Judge = earlierContract{now, contract}
	_, rec := m.Decided(t, set, gate, src)
	gate.Judge = now
	told, err := testimony.Read(m.Blob, set, rec)
	if err != nil {
		t.Fatal(err)
	}
	told.Input = then
	blob, err := told.Blob()
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := m.Put(blob)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err = told.Record(evidence); err != nil {
		t.Fatal(err)
	}
	rec.Stamp(time.Unix(0, 0), "")
	session := &Session{Specs: set, Evidence: m.Blob}
	if rp, err := session.Replay(t.Context(), rec); err != nil || rp.Status != Match || rp.Now.Outcome != kernel.OutcomeClarify {
		t.Errorf("%+v %v", rp, err)
	}
	// Another policy is asked as it is asked now.
	if rp, err := session.With(t.Context(), harnesstest.OpenBuiltin(t, set, "dev"), rec); err != nil || rp.Now.Outcome != kernel.OutcomeBundle {
		t.Errorf("%+v %v", rp, err)
	}
}

// earlierContract is a judge that is asked in an earlier version of the policy contract.
type earlierContract struct {
	harness.Judge
	version string
}

func (j earlierContract) Eval(ctx context.Context, in policy.Input) (kernel.Verdict, error) {
	in.Contract = j.version
	return j.Judge.Eval(ctx, in)
}

// TestReplayWithAnotherPolicy: the same outcome for the same reasons is a match, and other
// reasons are no match. A profile that does not allow the mode gives no decision.
func TestReplayWithAnotherPolicy(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	gate := harnesstest.OpenBuiltin(t, set, "default")
	_, allowed := m.Decided(t, set, gate, intents.AllowedHere)
	_, refused := m.Decided(t, set, gate, intents.RefusedHere)
	strict := harnesstest.OpenBuiltin(t, set, "strict")
	closed := harnesstest.OpenBuiltin(t, set, "strict")
	closed.Profile.ExecutionModes = []string{harness.ModeExecuteSandbox}
	for _, tc := range []struct {
		name    string
		gate    *harness.Gate
		rec     ledger.Record
		status  Status
		pointer string
	}{
		{"the same", gate, allowed, Match, ""},
		{"strict allows it too", strict, allowed, Match, ""},
		{"strict refuses it too", strict, refused, Match, ""},
		{"asks", gateAsking(t), allowed, DecisionDiffers, "/outcome"},
		{"other reasons", gateRefusing(t), refused, DecisionDiffers, "/reasons/0"},
		{"no decision", closed, allowed, DecisionDiffers, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rp, err := (&Session{Specs: set, Evidence: m.Blob}).With(t.Context(), tc.gate, tc.rec)
			if err != nil || rp.Status != tc.status || rp.Difference.Pointer != tc.pointer || (rp.Now.Err != nil) != (tc.name == "no decision") {
				t.Errorf("%+v %v", rp, err)
			}
		})
	}
	// A replay with another policy does not need the policy set of the record.
	for sum, text := range m.Blobs {
		if bytes.Contains(text, []byte(`"kind":"policy-set"`)) {
			delete(m.Blobs, sum)
		}
	}
	if rp, err := (&Session{Specs: set, Evidence: m.Blob}).With(t.Context(), gate, allowed); err != nil || rp.Status != Match {
		t.Errorf("%+v %v", rp, err)
	}
}

func gateAsking(t *testing.T) *harness.Gate {
	t.Helper()
	gate, err := harness.OpenGate(t.Context(), harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "r.rego": harnesstest.Asking("gate.user.mine")}), harnesstest.Deps(t).Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

func gateRefusing(t *testing.T) *harness.Gate {
	t.Helper()
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: otherBuiltin(t), Profile: "default"}, harnesstest.Deps(t).Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

// TestOnlyDecisionsAreReplayed.
func TestOnlyDecisionsAreReplayed(t *testing.T) {
	m := harnesstest.NewMemory()
	for _, kind := range []ledger.Kind{ledger.KindGenesis, ledger.KindBegun, ledger.KindError, ledger.KindRepair, ""} {
		_, err := (&Session{Specs: harnesstest.Deps(t).Specs, Evidence: m.Blob}).Replay(t.Context(), ledger.Record{Kind: kind})
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeEvidence || re.Hint == "" {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// TestMissingEvidence: either blob.
func TestMissingEvidence(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "default"), intents.Simple)
	for sum, text := range m.Blobs {
		delete(m.Blobs, sum)
		rp, err := (&Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec)
		want := testimony.KindPolicySet
		if sum == rec.Evidence.SHA256 {
			want = testimony.KindDecision
		}
		if err != nil || rp.Status != EvidenceMissing || rp.Document != want || !strings.Contains(rp.Details[0], string(sum)) {
			t.Errorf("%+v %v", rp, err)
		}
		m.Blobs[sum] = text
	}
	unreadable := func(ledger.Blob) ([]byte, error) { return nil, errors.New("input/output error") }
	_, err := (&Session{Specs: set, Evidence: unreadable}).Replay(t.Context(), rec)
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeEvidence {
		t.Errorf("%v", err)
	}
}

// TestLargestIntentIsReplayed: an intent of one mebibyte with the greatest allowed depth
// is replayed.
func TestLargestIntentIsReplayed(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	m := harnesstest.NewMemory()
	deep := strings.Repeat(`[`, canon.MaxDepth-2) + strings.Repeat(`]`, canon.MaxDepth-2)
	src := `{"goal":"g","constraints":["c"],"context":{"deep":` + deep + `,"quotes":"`
	src += strings.Repeat(`\"`, (canon.MaxIntentBytes-len(src)-4)/2) + `"}}`
	_, rec := m.Decided(t, set, harnesstest.OpenBuiltin(t, set, "default"), src)
	if rp, err := (&Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec); err != nil || rp.Status != Match {
		t.Errorf("%.500v %v", rp, err)
	}
}

// TestEvidenceTooLarge: evidence that could not be replayed is not recorded, and there is
// no result.
func TestEvidenceTooLarge(t *testing.T) {
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	d.Recorder = m
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) {
		v := kernel.Verdict{}
		for i := range 1000 {
			v.Deny = append(v.Deny, kernel.Result{Module: "gate.builtin", ID: "X", Path: "/goal", Text: fmt.Sprint(i, strings.Repeat("x", 20000))})
		}
		return v, nil
	}))
	_, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(intents.Simple, "r"))
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeEvidence || !strings.Contains(re.Message, "too large") || m.Kinds() != "error:RUN_E006" {
		t.Errorf("%v, records %q", err, m.Kinds())
	}
}

// FuzzReplay: no evidence makes a replay panic, whatever the evidence says and however
// well the record agrees with it. Evidence of another decision than the recorded one does
// not match.
func FuzzReplay(f *testing.F) {
	set, err := specs.New()
	if err != nil {
		f.Fatal(err)
	}
	m := harnesstest.NewMemory()
	gate, err := harness.OpenGate(f.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "strict"}, set, harnesstest.Endless())
	if err != nil {
		f.Fatal(err)
	}
	d := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: harnesstest.Zeros{}, Specs: set, Recorder: m}
	if _, err := harness.Run(f.Context(), d, gate, harnesstest.Planned(intents.Simple, "r")); err != nil {
		f.Fatal(err)
	}
	whole, err := testimony.Read(m.Blob, set, m.Records[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(intents.Simple), whole.Input, whole.Decision, whole.Result)
	f.Add([]byte("{}"), []byte("{}\n"), []byte(`{"outcome":"BUNDLE","reasons":[]}`+"\n"), whole.Result)
	replayer := &Session{Specs: set, Evidence: m.Blob}
	f.Fuzz(func(t *testing.T, intent, input, decision, printed []byte) {
		told := testimony.Decided{Intent: intent, Input: input, Decision: decision, Result: printed, Policy: whole.Policy}
		blob, err := told.Blob()
		if err != nil {
			return
		}
		evidence, err := m.Put(blob)
		if err != nil {
			t.Fatal(err)
		}
		defer delete(m.Blobs, evidence.SHA256)
		rec := m.Records[0]
		if res, canonical, err := testimony.ReadResult(printed); err == nil {
			told.RunResult, told.Canonical = res, canonical
			if rec, err = told.Record(evidence); err != nil {
				t.Fatal(err)
			}
			rec.Stamp(time.Unix(0, 0), "")
		}
		rec.Evidence = evidence
		rp, err := replayer.Replay(t.Context(), rec)
		if _, bad := rec.Entry(); err != nil && bad == nil {
			t.Fatal(err)
		}
		if same := bytes.Equal(intent, []byte(intents.Simple)) && bytes.Equal(input, whole.Input) && bytes.Equal(decision, whole.Decision); rp.Status == Match && !same {
			t.Errorf("%+v", rp)
		}
	})
}
