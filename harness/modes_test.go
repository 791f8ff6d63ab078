package harness

import (
	"errors"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// TestModelModes: plan-only decides in every model mode that the profile has, and nobody
// is asked; an execution needs somebody who answers.
func TestModelModes(t *testing.T) {
	d := deps(t)
	gate := gateWith(t, d, judgeFunc(func(policy.Input) (kernel.Verdict, error) {
		return kernel.Verdict{Permits: []string{"call:/actions/0"}}, nil
	}))
	run := func(mode, modelMode string) (Report, *result.RunError) {
		rep, err := Run(t.Context(), d, gate, Request{
			Source: []byte(`{"goal":"Ask","constraints":["once"],` + actions(call("m", `{}`)) + `}`), Path: "intent.json", Mode: mode, ModelMode: modelMode, RunID: "r",
		})
		var re *result.RunError
		errors.As(err, &re)
		return rep, re
	}
	for _, modelMode := range []string{ModelRecord, ModelReplay} {
		gate.Profile.ModelModes = []string{ModelNone}
		for _, mode := range []string{ModePlanOnly, ModeExecuteSandbox} {
			if _, re := run(mode, modelMode); re == nil || re.Code != result.CodeProfile || !strings.Contains(re.Message, "does not allow model mode") {
				t.Errorf("%s, %s without leave: %v", mode, modelMode, re)
			}
		}
		gate.Profile.ModelModes = []string{ModelNone, ModelRecord, ModelReplay}
		rep, re := run(ModePlanOnly, modelMode)
		if re != nil || !rep.Result.Decision.Accepted || rep.Result.ModelMode != modelMode {
			t.Errorf("%s: %s, error %v", modelMode, rep.Bytes, re)
		}
		if _, re := run(ModeExecuteSandbox, modelMode); re == nil || re.Code != result.CodeProfile || !strings.Contains(re.Message, "needs a recording") {
			t.Errorf("execute, %s without a recording: %v", modelMode, re)
		}
	}
	for _, modelMode := range []string{"", "live", "Record"} {
		if _, re := run(ModePlanOnly, modelMode); re == nil || re.Code != result.CodeProfile {
			t.Errorf("%q: %v", modelMode, re)
		}
	}
}
