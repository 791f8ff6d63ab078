package harness_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// TestModelModes: plan-only decides in every model mode that the profile has, and asks
// nobody. An execution needs a Caller that answers.
func TestModelModes(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) {
		return kernel.Verdict{Permits: []string{"call:/actions/0"}}, nil
	}))
	run := func(mode, modelMode string) (harness.Report, *result.RunError) {
		rep, err := harness.Run(t.Context(), d, gate, harness.Request{
			Source: []byte(`{"goal":"Ask","constraints":["once"],` + intents.Actions(intents.Call("m", `{}`)) + `}`), Path: "intent.json", Mode: mode, ModelMode: modelMode, RunID: "r",
		})
		var re *result.RunError
		errors.As(err, &re)
		return rep, re
	}
	for _, modelMode := range []string{harness.ModelRecord, harness.ModelReplay} {
		gate.Profile.ModelModes = []string{harness.ModelNone}
		for _, mode := range []string{harness.ModePlanOnly, harness.ModeExecuteSandbox} {
			if _, re := run(mode, modelMode); re == nil || re.Code != result.CodeProfile || !strings.Contains(re.Message, "does not allow model mode") {
				t.Errorf("%s, %s without leave: %v", mode, modelMode, re)
			}
		}
		gate.Profile.ModelModes = []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}
		rep, re := run(harness.ModePlanOnly, modelMode)
		if re != nil || !rep.Result.Decision.Accepted || rep.Result.ModelMode != modelMode {
			t.Errorf("%s: %s, error %v", modelMode, rep.Bytes, re)
		}
		if _, re := run(harness.ModeExecuteSandbox, modelMode); re == nil || re.Code != result.CodeProfile || !strings.Contains(re.Message, "needs a recording") {
			t.Errorf("execute, %s without a recording: %v", modelMode, re)
		}
	}
	for _, modelMode := range []string{"", "live", "Record"} {
		if _, re := run(harness.ModePlanOnly, modelMode); re == nil || re.Code != result.CodeProfile {
			t.Errorf("%q: %v", modelMode, re)
		}
	}
}
