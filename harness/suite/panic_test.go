package suite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/trial"
)

// broken is an agent in whose place the runner panics, at one case.
type broken struct{ at string }

func (b broken) Ask(_ context.Context, r suite.Request) suite.Observed {
	if r.CaseID == b.at {
		panic("a fault of the runner")
	}
	return suite.Observed{Status: 200, Whole: true, Body: fmt.Appendf(nil, `{"proposed_actions":[],"events":[],"final_output":{"content_type":"text","content":%q}}`, r.CaseID)}
}

func (broken) Place() (base, url string) { return "replay:broken", "replay:broken" }
func (broken) Kind() trial.Agent         { return trial.Agent{Transport: "replay"} }

// TestPanic: a fault of the runner is the failure of one case; the others are unharmed, and the
// directory is valid.
func TestPanic(t *testing.T) {
	rules, err := redact.New(redact.Config{SchemaVersion: redact.Version})
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]string{}
	p := suite.Plan{
		Cases: []trial.Case{{ID: "a"}, {ID: "b"}, {ID: "c"}}, CasesPath: "cases.json", CasesText: []byte("[]\n"),
		Agents: map[trial.Side]suite.Agent{trial.New: broken{"b"}}, Out: t.TempDir(), OutPath: "out", RunID: "r", Repeats: 1, Retries: 2, Concurrency: 3,
		Timeout: time.Minute, Limits: trial.DefaultLimits(), Rules: rules, Version: "test", Now: time.Now,
		Progress: func(e suite.Ended) { ends[e.CaseID] = string(e.Class) + " " + e.ErrorName },
	}
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ends["a"] != " " || ends["b"] != "other internal" || ends["c"] != " " {
		t.Errorf("the cases have ended with %q", ends)
	}
	d, err := suitedir.Open(filepath.Join(p.Out, "new", "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if v, err := d.Verify(); err != nil || !v.OK() || !v.Sealed {
		t.Errorf("%+v, %v", v, err)
	}
}
