//go:build linux && (amd64 || arm64)

package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
)

// lab has a policy that lets simple commands run, read from files as a user's is, and a
// Recorder.
type lab struct {
	executor
	*memory
}

func newLab(t *testing.T, runner Runner) lab {
	t.Helper()
	d, m := deps(t), newMemory()
	d.Runner, d.Recorder = runner, m
	gate, err := OpenGate(t.Context(), mine(map[string]string{"profile.json": `{"name":"lab","extends":"dev","isolation":"confined","timeout_ms":20000}`}), d.Specs, endless())
	if err != nil {
		t.Fatal(err)
	}
	return lab{executor{deps: d, gate: gate, tree: t.TempDir()}, m}
}

// again says whether every decision of the lab is what it was.
func (l lab) again(t *testing.T) {
	t.Helper()
	for _, rec := range l.records {
		if rec.Kind != ledger.KindDecision {
			continue
		}
		rp, err := (&Replayer{Specs: l.deps.Specs, Evidence: l.Blob}).Replay(t.Context(), rec)
		if err != nil || rp.Status != Match || (rec.ExecutionMode == ModeExecuteSandbox) != (len(rp.Details) == 1) {
			t.Errorf("%+v %v", rp, err)
		}
	}
}

// TestExecutionsAreRecorded: a begun record before anything runs, a decision after it,
// and a replay of both kinds of end without running anything.
func TestExecutionsAreRecorded(t *testing.T) {
	for _, isolation := range tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := newTier(t, isolation)
			for name, tc := range map[string]struct {
				members  string
				accepted bool
				reasons  string
			}{
				"accepted": {actions(write("out/a", "1"), argv("cp", "out/a", "out/b")) + `,"outputs":["out/b"]`, true, ""},
				"failed":   {actions(argv("false")), false, "EXIT 1"},
				"missing":  {actions(argv("true")) + `,"outputs":["out/secret"]`, false, "OUTPUT_MISSING"},
				"ended":    {actions(`{"kind":"run","argv":["sleep","30"],"timeout_ms":100}`), false, "TIMEOUT"},
			} {
				t.Run(name, func(t *testing.T) {
					l := newLab(t, h)
					rep := l.run(t, tc.members, Folders{})
					if l.kinds() != "begun decision" {
						t.Fatalf("records %q", l.kinds())
					}
					begun, decision := l.records[0], l.records[1]
					if begun.BundleSHA256 != rep.Decision.BundleHash || begun.InputSHA256 != decision.InputSHA256 || begun.PolicySHA256 != decision.PolicySHA256 || begun.RunID != "r" {
						t.Errorf("begun %+v", begun)
					}
					if decision.Accepted != tc.accepted || strings.Join(decision.Reasons, " ") != tc.reasons || decision.ResultKind != "BUNDLE" {
						t.Errorf("decision %+v", decision)
					}
					checkEvidence(t, l.deps.Specs, l.memory, rep, decision)
					l.again(t)
				})
			}
		})
	}
}

// TestDecisionIsTheSameExecutedOrNot: decision_sha256 is what the policy decided; what
// was executed does not change it.
func TestDecisionIsTheSameExecutedOrNot(t *testing.T) {
	l := newLab(t, newTier(t, sandbox.Confined))
	l.run(t, actions(argv("false")), Folders{})
	req := l.request(actions(argv("false")), Folders{})
	req.Mode, req.RunID = ModePlanOnly, "plan"
	if _, err := Run(t.Context(), l.deps, l.gate, req); err != nil {
		t.Fatal(err)
	}
	executed, planned := l.records[1], l.records[2]
	if executed.DecisionSHA256 != planned.DecisionSHA256 || executed.CanonicalSHA256 == planned.CanonicalSHA256 || planned.Accepted == executed.Accepted {
		t.Errorf("executed %+v\nplanned %+v", executed, planned)
	}
	l.again(t)
}

// TestForgedExecution: an execution that cannot have been is found without running it.
func TestForgedExecution(t *testing.T) {
	l := newLab(t, newTier(t, sandbox.Confined))
	l.run(t, actions(write("out/a", "1"), argv("true")), Folders{})
	for name, tc := range map[string]struct {
		change  func(e map[string]any)
		status  Status
		pointer string
	}{
		"sandbox": {func(e map[string]any) { e["sandbox_id"] = "sbx_0123456789abcdef" }, CanonicalDiffers, "/execution/sandbox_id"},
		"total":   {func(e map[string]any) { e["outputs"] = []any{} }, EvidenceCorrupt, ""}, // breaks RS8
	} {
		rec, kept := forge(t, l.memory, l.records[1], func(f *forged) {
			doc := f.text("result")
			tc.change(doc["execution"].(map[string]any))
			f.rec.ResultSHA256 = f.put("result", doc)
			var err error
			if f.rec.CanonicalSHA256, err = result.Digest(doc); err != nil {
				t.Fatal(err)
			}
		})
		rp, err := (&Replayer{Specs: l.deps.Specs, Evidence: kept.Blob}).Replay(t.Context(), rec)
		if err != nil || rp.Status != tc.status || rp.Difference.Pointer != tc.pointer {
			t.Errorf("%s: %+v %v", name, rp, err)
		}
	}
}

// failing is a host whose sandboxes cannot be had.
type failing struct{ Runner }

func (failing) Start(context.Context, sandbox.Request) (*sandbox.Sandbox, error) {
	return nil, errors.New("none here")
}

// TestExecutionsThatEndInAnError: before the first effect there is no begun record, and
// after it the error closes it.
func TestExecutionsThatEndInAnError(t *testing.T) {
	h := newTier(t, sandbox.Confined)
	t.Run("a call", func(t *testing.T) {
		l := newLab(t, h)
		l.gate.Judge = judgeFunc(permissive)
		l.fails(t, actions(`{"kind":"call","tool_id":"t","params":{}}`), Folders{})
		if l.kinds() != "error:RUN_E005" {
			t.Errorf("records %q", l.kinds())
		}
	})
	t.Run("an input that is missing", func(t *testing.T) {
		l := newLab(t, h)
		l.fails(t, actions(argv("true"))+`,"inputs":["in/none"]`, Folders{})
		if l.kinds() != "error:RUN_E001" {
			t.Errorf("records %q", l.kinds())
		}
	})
	t.Run("no sandbox", func(t *testing.T) {
		l := newLab(t, failing{h})
		l.fails(t, actions(argv("true")), Folders{})
		if l.kinds() != "begun error:RUN_E005" {
			t.Errorf("records %q", l.kinds())
		}
	})
	t.Run("told to stop", func(t *testing.T) {
		l := newLab(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		l.deps.Progress = func(action, _ int) {
			if action == 1 {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
		}
		_, err := Run(ctx, l.deps, l.gate, l.request(actions(write("out/a", ""), argv("sleep", "30")), Folders{}))
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeSandbox || l.kinds() != "begun error:RUN_E005" {
			t.Errorf("%v, records %q", err, l.kinds())
		}
	})
	t.Run("told to stop before it began", func(t *testing.T) {
		l := newLab(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		l.gate.Judge = judgeFunc(func(in policy.Input) (kernel.Verdict, error) { cancel(); return permissive(in) })
		_, err := Run(ctx, l.deps, l.gate, l.request(actions(argv("true")), Folders{}))
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeSandbox || l.kinds() != "error:RUN_E005" {
			t.Errorf("%v, records %q", err, l.kinds())
		}
	})
}

// TestExecutionThatIsNotRecorded: without a begun record nothing runs, and without a
// decision record nothing of what ran is left (newTier looks for it).
func TestExecutionThatIsNotRecorded(t *testing.T) {
	h := newTier(t, sandbox.Confined)
	for _, tc := range []struct{ call, message, records string }{
		{"put policy-set", "the evidence could not be kept", "error:RUN_E006"},
		{"append begun", "the beginning of the execution could not be recorded, so nothing was executed", ""},
		{"put decision", "the evidence could not be kept", "begun error:RUN_E006"},
		{"append decision", "the decision could not be recorded", "begun"},
	} {
		t.Run(tc.call, func(t *testing.T) {
			l := newLab(t, h)
			l.refuse = refusing(tc.call)
			ran := false
			l.deps.Progress = func(int, int) { ran = true }
			if err := os.WriteFile(filepath.Join(l.tree, "in"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			re := l.fails(t, actions(write("out/a", "1"), argv("true"))+`,"inputs":["in"]`, Folders{})
			if re.Code != result.CodeEvidence || !strings.HasPrefix(re.Message, tc.message) || l.kinds() != tc.records {
				t.Errorf("%v, records %q", re, l.kinds())
			}
			if before := tc.call == "put policy-set" || tc.call == "append begun"; ran == before {
				t.Errorf("executed: %v", ran)
			}
		})
	}
}

// TestExecutedRunAgain: a run that has ended is not executed a second time; one that
// was killed after it began is.
func TestExecutedRunAgain(t *testing.T) {
	l := newLab(t, newTier(t, sandbox.Confined))
	l.run(t, actions(argv("true")), Folders{})
	l.deps.Progress = func(int, int) { t.Error("it was executed a second time") }
	re := l.fails(t, actions(argv("true")), Folders{})
	if re.Code != result.CodeEvidence || l.kinds() != "begun decision" {
		t.Errorf("%v, records %q", re, l.kinds())
	}
	l.records, l.deps.Progress = l.records[:1], nil
	l.run(t, actions(argv("true")), Folders{})
	if l.kinds() != "begun decision" {
		t.Errorf("records %q", l.kinds())
	}
	l.again(t)
}
