// Package harnesstest has the fixtures of tests that need harness: gates with a policy of
// the test's own, vectors, a ledger in memory, a host with one kind of isolation. Tests
// alone import it.
package harnesstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// Bench opens the gate of each profile once. Its limits are wide enough for an emulated
// machine: no vector depends on time.
type Bench struct {
	Specs *specs.Set
	Gates map[string]*harness.Gate
}

func NewBench(t *testing.T) *Bench {
	t.Helper()
	return &Bench{Specs: specstest.NewSpecs(t), Gates: map[string]*harness.Gate{}}
}

func (b *Bench) Run(t *testing.T, v *Vector) (harness.Report, error) {
	t.Helper()
	gate, ok := b.Gates[v.Profile]
	if !ok {
		var err error
		if gate, err = harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: v.Profile}, b.Specs, Endless()); err != nil {
			return harness.Report{}, err
		}
		b.Gates[v.Profile] = gate
	}
	deps := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: b.Specs}
	return harness.Run(t.Context(), deps, gate, v.Request(t))
}

// Document returns the RunResult as another program reads it.
func Document(t *testing.T, rep harness.Report) (canon.Document, map[string]any) {
	t.Helper()
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc, result.Subset(doc.Value().(map[string]any))
}

// Answer returns everything that a run must repeat byte for byte: the canonical subset
// and the bundle, or the error.
func Answer(t *testing.T, rep harness.Report, err error) string {
	t.Helper()
	var re *result.RunError
	if errors.As(err, &re) {
		return string(re.Line())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, subset := Document(t, rep)
	b, err := canon.Canonical(subset)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n" + string(rep.Decision.BundleBytes)
}
