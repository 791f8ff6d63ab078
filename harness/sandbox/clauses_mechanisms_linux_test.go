//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"regexp"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/kernel"
)

// TestMechanismsOfHosts: in every state of a host, the clauses of a sandbox are exactly
// those that the table of mechanisms lists for its isolation.
func TestMechanismsOfHosts(t *testing.T) {
	number := regexp.MustCompile(`[0-9]+`)
	numberless := func(c Clause) Clause {
		c.Mechanism = number.ReplaceAllString(c.Mechanism, "N")
		return c
	}
	for _, tier := range []Isolation{Full, Confined, None} {
		said, has := map[Clause]bool{}, map[Clause]bool{}
		eachHost(tier, func(h *Host, s *Sandbox) {
			for _, c := range h.clauses(s) {
				said[numberless(c)] = true
				if !c.Holds() {
					t.Errorf("%s: %+v does not hold", tier, c)
				}
			}
		})
		for _, m := range evidence.Mechanisms(kernel.Isolation(tier)) {
			has[numberless(m.With(0))] = true
		}
		if !maps.Equal(said, has) {
			t.Errorf("%s: a sandbox says %v, and the table has %v", tier, said, has)
		}
	}
}
