//go:build linux && (amd64 || arm64)

package harness_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/replay"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
)

// lab has a policy that lets simple commands run, and a Recorder. The policy is read from
// files, like a user's.
type lab struct {
	harnesstest.Executor
	*harnesstest.Memory
}

func newLab(t *testing.T, runner execute.Runner) lab {
	t.Helper()
	d, m := harnesstest.Deps(t), harnesstest.NewMemory()
	d.Runner, d.Recorder = runner, m
	gate, err := harness.OpenGate(t.Context(), harnesstest.Mine(map[string]string{"profile.json": `{"name":"lab","extends":"dev","isolation":"confined","timeout_ms":120000}`}), d.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	return lab{harnesstest.Executor{Deps: d, Gate: gate, Tree: t.TempDir()}, m}
}

// again fails the test unless every decision of the lab is decided again as before.
func (l lab) again(t *testing.T) {
	t.Helper()
	for _, rec := range l.Records {
		if rec.Kind != ledger.KindDecision {
			continue
		}
		rp, err := (&replay.Session{Specs: l.Deps.Specs, Evidence: l.Blob}).Replay(t.Context(), rec)
		if err != nil || rp.Status != replay.Match || (rec.ExecutionMode == harness.ModeExecuteSandbox) != (len(rp.Details) == 1) {
			t.Errorf("%+v %v", rp, err)
		}
	}
}

// TestExecutionsAreRecorded: there is a begun record before anything runs, and a decision
// record after it. Both kinds of end are replayed, and nothing runs then.
func TestExecutionsAreRecorded(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for name, tc := range map[string]struct {
				members  string
				accepted bool
				reasons  string
			}{
				"accepted": {intents.Actions(intents.Write("out/a", "1"), intents.Argv("cp", "out/a", "out/b")) + `,"outputs":["out/b"]`, true, ""},
				"failed":   {intents.Actions(intents.Argv("false")), false, "EXIT 1"},
				"missing":  {intents.Actions(intents.Argv("true")) + `,"outputs":["out/secret"]`, false, "OUTPUT_MISSING"},
				"ended":    {intents.Actions(`{"kind":"run","argv":["sleep","30"],"timeout_ms":100}`), false, "TIMEOUT"},
			} {
				t.Run(name, func(t *testing.T) {
					l := newLab(t, h)
					rep := l.Run(t, tc.members, harness.Folders{})
					if l.Kinds() != "begun decision" {
						t.Fatalf("records %q", l.Kinds())
					}
					begun, decision := l.Records[0], l.Records[1]
					if begun.BundleSHA256 != rep.Decision.BundleHash || begun.InputSHA256 != decision.InputSHA256 || begun.PolicySHA256 != decision.PolicySHA256 || begun.RunID != "r" {
						t.Errorf("begun %+v", begun)
					}
					if decision.Accepted != tc.accepted || strings.Join(decision.Reasons, " ") != tc.reasons || decision.ResultKind != "BUNDLE" {
						t.Errorf("decision %+v", decision)
					}
					checkEvidence(t, l.Deps.Specs, l.Memory, rep, decision)
					l.again(t)
				})
			}
		})
	}
}

// TestDecisionIsTheSameExecutedOrNot: decision_sha256 covers the decision of the policy,
// and an execution does not change it.
func TestDecisionIsTheSameExecutedOrNot(t *testing.T) {
	l := newLab(t, harnesstest.NewTier(t, sandbox.Confined))
	l.Run(t, intents.Actions(intents.Argv("false")), harness.Folders{})
	req := l.Request(intents.Actions(intents.Argv("false")), harness.Folders{})
	req.Mode, req.RunID = harness.ModePlanOnly, "plan"
	if _, err := harness.Run(t.Context(), l.Deps, l.Gate, req); err != nil {
		t.Fatal(err)
	}
	executed, planned := l.Records[1], l.Records[2]
	if executed.DecisionSHA256 != planned.DecisionSHA256 || executed.CanonicalSHA256 == planned.CanonicalSHA256 || planned.Accepted == executed.Accepted {
		t.Errorf("executed %+v\nplanned %+v", executed, planned)
	}
	l.again(t)
}

// TestForgedExecution: an impossible execution is found without running it.
func TestForgedExecution(t *testing.T) {
	l := newLab(t, harnesstest.NewTier(t, sandbox.Confined))
	l.Run(t, intents.Actions(intents.Write("out/a", "1"), intents.Argv("true")), harness.Folders{})
	for name, tc := range map[string]struct {
		change  func(e map[string]any)
		status  replay.Status
		pointer string
	}{
		"sandbox": {func(e map[string]any) { e["sandbox_id"] = "sbx_0123456789abcdef" }, replay.CanonicalDiffers, "/execution/sandbox_id"},
		"total":   {func(e map[string]any) { e["outputs"] = []any{} }, replay.EvidenceCorrupt, ""}, // breaks RS8
	} {
		rec, kept := forge(t, l.Memory, l.Records[1], func(f *forged) {
			doc := f.text("result")
			tc.change(doc["execution"].(map[string]any))
			f.rec.ResultSHA256 = f.put("result", doc)
			var err error
			if f.rec.CanonicalSHA256, err = result.Digest(doc); err != nil {
				t.Fatal(err)
			}
		})
		rp, err := (&replay.Session{Specs: l.Deps.Specs, Evidence: kept.Blob}).Replay(t.Context(), rec)
		if err != nil || rp.Status != tc.status || rp.Difference.Pointer != tc.pointer {
			t.Errorf("%s: %+v %v", name, rp, err)
		}
	}
}

// failing is a host that cannot make sandboxes.
type failing struct{ execute.Runner }

func (failing) Start(context.Context, sandbox.Request) (*sandbox.Sandbox, error) {
	return nil, errors.New("none here")
}

// TestExecutionsThatEndInAnError: an error before the first effect leaves no begun record.
// An error after it closes the begun record.
func TestExecutionsThatEndInAnError(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Confined)
	t.Run("a call", func(t *testing.T) {
		l := newLab(t, h)
		l.Gate.Judge = harnesstest.JudgeFunc(harnesstest.Permissive)
		l.Fails(t, intents.Actions(`{"kind":"call","tool_id":"t","params":{}}`), harness.Folders{})
		if l.Kinds() != "error:RUN_E005" {
			t.Errorf("records %q", l.Kinds())
		}
	})
	t.Run("an input that is missing", func(t *testing.T) {
		l := newLab(t, h)
		l.Fails(t, intents.Actions(intents.Argv("true"))+`,"inputs":["in/none"]`, harness.Folders{})
		if l.Kinds() != "error:RUN_E001" {
			t.Errorf("records %q", l.Kinds())
		}
	})
	t.Run("no sandbox", func(t *testing.T) {
		l := newLab(t, failing{h})
		l.Fails(t, intents.Actions(intents.Argv("true")), harness.Folders{})
		if l.Kinds() != "begun error:RUN_E005" {
			t.Errorf("records %q", l.Kinds())
		}
	})
	t.Run("told to stop", func(t *testing.T) {
		l := newLab(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		l.Deps.Progress = func(action, _ int) {
			if action == 1 {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
		}
		_, err := harness.Run(ctx, l.Deps, l.Gate, l.Request(intents.Actions(intents.Write("out/a", ""), intents.Argv("sleep", "30")), harness.Folders{}))
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeSandbox || l.Kinds() != "begun error:RUN_E005" {
			t.Errorf("%v, records %q", err, l.Kinds())
		}
	})
	t.Run("told to stop before it began", func(t *testing.T) {
		l := newLab(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		l.Gate.Judge = harnesstest.JudgeFunc(func(in policy.Input) (kernel.Verdict, error) { cancel(); return harnesstest.Permissive(in) })
		_, err := harness.Run(ctx, l.Deps, l.Gate, l.Request(intents.Actions(intents.Argv("true")), harness.Folders{}))
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeSandbox || l.Kinds() != "error:RUN_E005" {
			t.Errorf("%v, records %q", err, l.Kinds())
		}
	})
}

// TestExecutionThatIsNotRecorded: without a begun record nothing runs. Without a decision
// record the execution leaves nothing (newTier looks for it).
func TestExecutionThatIsNotRecorded(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Confined)
	for _, tc := range []struct{ call, message, records string }{
		{"put policy-set", "the evidence could not be kept", "error:RUN_E006"},
		{"append begun", "the beginning of the execution could not be recorded, so nothing was executed", ""},
		{"put decision", "the evidence could not be kept", "begun error:RUN_E006"},
		{"append decision", "the decision could not be recorded", "begun"},
	} {
		t.Run(tc.call, func(t *testing.T) {
			l := newLab(t, h)
			l.Refuse = harnesstest.Refusing(tc.call)
			ran := false
			l.Deps.Progress = func(int, int) { ran = true }
			if err := os.WriteFile(filepath.Join(l.Tree, "in"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			re := l.Fails(t, intents.Actions(intents.Write("out/a", "1"), intents.Argv("true"))+`,"inputs":["in"]`, harness.Folders{})
			if re.Code != result.CodeEvidence || !strings.HasPrefix(re.Message, tc.message) || l.Kinds() != tc.records {
				t.Errorf("%v, records %q", re, l.Kinds())
			}
			if before := tc.call == "put policy-set" || tc.call == "append begun"; ran == before {
				t.Errorf("executed: %v", ran)
			}
		})
	}
}

// TestExecutedRunAgain: a run that has ended is not executed a second time. A run that was
// killed after it began is executed again.
func TestExecutedRunAgain(t *testing.T) {
	l := newLab(t, harnesstest.NewTier(t, sandbox.Confined))
	l.Run(t, intents.Actions(intents.Argv("true")), harness.Folders{})
	l.Deps.Progress = func(int, int) { t.Error("it was executed a second time") }
	re := l.Fails(t, intents.Actions(intents.Argv("true")), harness.Folders{})
	if re.Code != result.CodeEvidence || l.Kinds() != "begun decision" {
		t.Errorf("%v, records %q", re, l.Kinds())
	}
	l.Records, l.Deps.Progress = l.Records[:1], nil
	l.Run(t, intents.Actions(intents.Argv("true")), harness.Folders{})
	if l.Kinds() != "begun decision" {
		t.Errorf("records %q", l.Kinds())
	}
	l.again(t)
}
