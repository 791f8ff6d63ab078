//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"regexp"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// TestMechanismsOfPacks: what package pack knows of the mechanisms of clauses, and of the
// status that each gives, is what is said here of every state of a host, and nothing else.
func TestMechanismsOfPacks(t *testing.T) {
	number := regexp.MustCompile(`[0-9]+`)
	said := map[string]map[string]string{}
	for _, tier := range []Isolation{Full, Confined, None} {
		eachHost(tier, func(h *Host, s *Sandbox) {
			for _, c := range h.clauses(s) {
				if said[c.Clause] == nil {
					said[c.Clause] = map[string]string{}
				}
				mechanism := number.ReplaceAllString(c.Mechanism, "N")
				if is, known := said[c.Clause][mechanism]; known && is != string(c.Status) {
					t.Fatalf("%s: %q is %s and %s", c.Clause, mechanism, is, c.Status)
				}
				said[c.Clause][mechanism] = string(c.Status)
			}
		})
	}
	for _, p := range pack.Promises() {
		if !maps.Equal(said[p.Clause], p.Mechanisms()) {
			t.Errorf("%s: a sandbox says %q, and a pack can have %q", p.Clause, said[p.Clause], p.Mechanisms())
		}
	}
}
