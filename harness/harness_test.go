package harness_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// TestNoVerdictIsNoResult: whatever goes wrong from the policy on, the run ends in an
// error and never in a result.
func TestNoVerdictIsNoResult(t *testing.T) {
	for _, tc := range []struct {
		name  string
		judge harnesstest.JudgeFunc
		code  result.Code
	}{
		{"panic", func(policy.Input) (kernel.Verdict, error) { panic("secret") }, result.CodeInternal},
		{"index out of range", func(in policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{Permits: []string{in.Effects[len(in.Effects)].ID}}, nil
		}, result.CodeInternal},
		{"plain error", func(policy.Input) (kernel.Verdict, error) { return kernel.Verdict{}, errors.New("x") }, result.CodeInternal},
		{"evaluation", func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindEval, Msg: "x"}
		}, result.CodeInternal},
		{"limit", func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindLimit, Msg: "x"}
		}, result.CodeInternal},
		{"timeout", func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindTimeout, Msg: "x"}
		}, result.CodeInternal},
		{"watchdog", func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindWatchdog, Msg: "x"}
		}, result.CodeInternal},
		{"module", func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindModule, Module: "m", Line: 3, Msg: "x"}
		}, result.CodeProfile},
		{"text that is not UTF-8", func(in policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{Permits: []string{"write:/actions/0"}, Clarify: []kernel.Result{{ID: "Q", Path: "/goal", Text: "\xff"}}}, nil
		}, result.CodeInternal},
		{"a question without a text", func(in policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{Permits: []string{"write:/actions/0"}, Clarify: []kernel.Result{{ID: "Q", Path: "/goal"}}}, nil
		}, result.CodeInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := harnesstest.Deps(t)
			rep, err := harness.Run(t.Context(), d, harnesstest.GateWith(t, d, tc.judge), harness.Request{Source: []byte(intents.Simple), Path: "i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != tc.code || rep.Bytes != nil {
				t.Fatalf("%v, %q", err, rep.Bytes)
			}
			if line := string(re.Line()); strings.Contains(line, "secret") || strings.Contains(line, "range") || !strings.HasSuffix(line, "}\n") {
				t.Errorf("line %q", line)
			}
		})
	}
}

// TestEmptyVerdictRefuses: a policy that says nothing permits nothing.
func TestEmptyVerdictRefuses(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) { return kernel.Verdict{}, nil }))
	rep, err := harness.Run(t.Context(), d, gate, harness.Request{Source: []byte(intents.Simple), Path: "i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Result.KernelResultKind != kernel.OutcomeRefuse || rep.Result.ExitCode() != 1 || rep.Result.RefuseReason != "NOT_PERMITTED /actions/0: No rule permits this effect" {
		t.Errorf("%+v", rep.Result)
	}
}

// TestPolicySeesTheCanonicalIntent: the input has the values of the canonical document,
// and every member.
func TestPolicySeesTheCanonicalIntent(t *testing.T) {
	d := harnesstest.Deps(t)
	var seen policy.Input
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(in policy.Input) (kernel.Verdict, error) { seen = in; return kernel.Verdict{}, nil }))
	src := " {\"goal\" : \"\\u0067\",\n\"context\":{\"n\":1.50e1}}"
	if _, err := harness.Run(t.Context(), d, gate, harness.Request{Source: []byte(src), Path: "i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}); err != nil {
		t.Fatal(err)
	}
	got, err := canon.Canonical(seen.Intent)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"actions":[],"constraints":[],"context":{"n":15},"goal":"g","inputs":[],"outputs":[]}`; string(got) != want {
		t.Errorf("intent %s", got)
	}
	if seen.IntentSHA256 != string(canon.Sum([]byte(src))) {
		t.Errorf("hash %s", seen.IntentSHA256)
	}
}

// TestResultThatBreaksAnInvariantIsNotPrinted shows it for RS6.
func TestResultThatBreaksAnInvariantIsNotPrinted(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) { return kernel.Verdict{}, nil }))
	rep, err := harness.Run(t.Context(), d, gate, harness.Request{Source: []byte(intents.Simple), Path: "/home/u/i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeInternal || re.RuleID != "RS6" || rep.Bytes != nil {
		t.Errorf("%v", err)
	}
}

func TestNoRandomnessNoRunID(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = strings.NewReader("short")
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) { return kernel.Verdict{}, nil }))
	req := harness.Request{Source: []byte(intents.Simple), Path: "i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
	if _, err := harness.Run(t.Context(), d, gate, req); err == nil {
		t.Error("a run id was made of nothing")
	}
	req.RunID = "given"
	if rep, err := harness.Run(t.Context(), d, gate, req); err != nil || rep.Result.RunID != "given" {
		t.Errorf("%v %v", rep.Result.RunID, err)
	}
}

func TestUnknownProfile(t *testing.T) {
	for _, name := range []string{"", "Strict", "../strict", "builtin", "stirct"} {
		_, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: name}, harnesstest.Deps(t).Specs, policy.DefaultLimits())
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeProfile {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSealHoldsTheGatesProfile: a result that names another policy than the gate's is an
// internal error, even if it agrees with itself.
func TestSealHoldsTheGatesProfile(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	rep, err := harness.Run(t.Context(), d, gate, harness.Request{Source: []byte(intents.Simple), Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := gate.Seal(rep.Result); err != nil {
		t.Fatal(err)
	}
	rep.Result.Policy.TimeoutMS++
	var re *result.RunError
	if _, _, err := gate.Seal(rep.Result); !errors.As(err, &re) || re.Code != result.CodeInternal || re.RuleID != "RS5" {
		t.Errorf("%v", err)
	}
}

// TestTwoEncodersAgree: bytes that differ from those of encoding/json and jcs are no
// result.
func TestTwoEncodersAgree(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	rep, err := harness.Run(t.Context(), d, gate, harness.Request{Source: []byte(intents.Simple), Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	if err != nil {
		t.Fatal(err)
	}
	if e := harness.Agree(rep.Bytes, rep.Result); e != nil {
		t.Fatal(e)
	}
	other := rep.Result
	other.ModelMode = "nonf"
	for name, e := range map[string]*result.RunError{
		"another value":     harness.Agree(rep.Bytes, other),
		"another line feed": harness.Agree(append(bytes.Clone(rep.Bytes), '\n'), rep.Result),
		"a member less":     harness.Agree([]byte("{}\n"), rep.Result),
	} {
		if e == nil || e.Code != result.CodeInternal || e.RuleID != "RS7" {
			t.Errorf("%s: %v", name, e)
		}
	}
	other = rep.Result
	other.Decision.Reasons = nil // null, which is no list
	var re *result.RunError
	if _, _, err := gate.Seal(other); !errors.As(err, &re) || re.RuleID != "RS7" {
		t.Errorf("a result without a list is sealed: %v", err)
	}
}

// BenchmarkAgree measures the cost of the comparison for a run with a small result.
func BenchmarkAgree(b *testing.B) {
	set, err := specs.New()
	if err != nil {
		b.Fatal(err)
	}
	d := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader("0123456789abcdef"), Specs: set}
	gate, err := harness.OpenGate(b.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "default"}, set, policy.DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	rep, err := harness.Run(b.Context(), d, gate, harness.Request{Source: []byte(intents.Simple), Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if e := harness.Agree(rep.Bytes, rep.Result); e != nil {
			b.Fatal(e)
		}
	}
}
