package runerr

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
)

// TestRefusedHint: the hint has the fix of every finding, each once, and stays small.
func TestRefusedHint(t *testing.T) {
	finding := func(id, fix string) kernel.Result { return kernel.Result{ID: id, Fix: fix} }
	d := kernel.Decision{Outcome: kernel.OutcomeRefuse, Findings: []kernel.Result{
		finding("A", "do a"), finding("B", ""), finding("A", "do a"), finding("C", "do c"),
	}}
	if got, want := Refused("exec", d).Hint, "do a; fiador explain B says what the rule means; do c"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	d.Findings = nil
	for i := range 100 {
		d.Findings = append(d.Findings, finding("A", strings.Repeat("x", i+100)))
	}
	if got := Refused("exec", d).Hint; len(got) > mostFixes+200 || !strings.HasSuffix(got, "; and so on") {
		t.Errorf("%d bytes", len(got))
	}
}
