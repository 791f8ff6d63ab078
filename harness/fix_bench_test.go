package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// bench opens each profile's gate once. Its limits are so wide that an emulated
// machine stays within them: no vector depends on time.
type bench struct {
	specs *specs.Set
	gates map[string]*Gate
}

func newBench(t *testing.T) *bench {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{specs: set, gates: map[string]*Gate{}}
}

func (b *bench) run(t *testing.T, v *vector) (Report, error) {
	t.Helper()
	gate, ok := b.gates[v.Profile]
	if !ok {
		limits := policy.DefaultLimits()
		limits.Compile, limits.Deadline, limits.MemoryBytes = time.Hour, time.Hour, 4<<30
		var err error
		if gate, err = OpenGate(t.Context(), Sources{Builtin: profiles.FS(), Profile: v.Profile}, b.specs, limits); err != nil {
			return Report{}, err
		}
		b.gates[v.Profile] = gate
	}
	deps := Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: b.specs}
	return Run(t.Context(), deps, gate, Request{
		Source: v.source(t), Path: "intent.json", Mode: v.Mode, ModelMode: v.ModelMode, RunID: "vector",
	})
}

// document is the RunResult as another program would read it.
func document(t *testing.T, rep Report) (canon.Document, map[string]any) {
	t.Helper()
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc, result.Subset(doc.Value().(map[string]any))
}

// answer is all that a run must repeat byte for byte: the canonical subset and
// the bundle, or the error.
func answer(t *testing.T, rep Report, err error) string {
	t.Helper()
	var re *result.RunError
	if errors.As(err, &re) {
		return string(re.Line())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, subset := document(t, rep)
	b, err := canon.Canonical(subset)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n" + string(rep.Decision.BundleBytes)
}
