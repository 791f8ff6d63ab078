//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/kernel"
)

// TestClausesOfPacks: by clause, tier and order, the table allows exactly the clauses that a
// sandbox can report.
func TestClausesOfPacks(t *testing.T) {
	promises := evidence.Clauses()
	for _, tier := range []Isolation{Full, Confined, None} {
		said := make([][]string, len(promises))
		eachHost(tier, func(h *Host, s *Sandbox) {
			list := h.clauses(s)
			if len(list) != len(promises) {
				t.Fatalf("%d clauses, and a pack has %d", len(list), len(promises))
			}
			for i, c := range list {
				if c.Clause != promises[i] || c.Mechanism == "" {
					t.Fatalf("clause %d is %q by %q, and in a pack %q", i, c.Clause, c.Mechanism, promises[i])
				}
				said[i] = append(said[i], string(c.Status))
				if want := map[bool]string{true: "enforced", false: "absent"}[s.req.Network]; tier == None && c.Clause == ClauseNetwork && string(c.Status) != want {
					t.Errorf("the network, allowed %t, is %s", s.req.Network, c.Status)
				}
			}
		})
		for i, p := range promises {
			slices.Sort(said[i])
			var can []string
			for _, status := range evidence.Statuses(p, kernel.Isolation(tier)) {
				can = append(can, string(status))
			}
			slices.Sort(can)
			if is := slices.Compact(said[i]); !slices.Equal(is, can) {
				t.Errorf("%s, %s: a sandbox says %q, and a pack can have %q", tier, p, is, can)
			}
		}
	}
}

// eachHost calls each with every state of a host and a sandbox that a clause depends on.
func eachHost(tier Isolation, each func(h *Host, s *Sandbox)) {
	groups := []*cgroup.Group{nil, {}, {Held: cgroup.Limits{Memory: 1}}, {Held: cgroup.Limits{Tasks: 1}}, {Held: cgroup.Limits{CPUs: 1}}}
	for landlock := range 8 {
		if tier == Confined && landlock == 0 {
			continue // this case is refused
		}
		for i := range 8 {
			for _, g := range groups {
				for _, st := range []staging{stageOverlay, stageCopy, stageNone} {
					h := &Host{host: host{landlock: landlock, root: i&1 != 0}}
					s := &Sandbox{Isolation: tier, staging: st, group: g}
					s.req.Network, s.req.Limits.MaxChildren = i&2 != 0, i>>2
					each(h, s)
					if tier == Full && !s.req.Network {
						s.req.Listed = true
						each(h, s)
					}
				}
			}
		}
	}
}
