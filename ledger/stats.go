package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// Stats are counts of records. The zero value has counted none.
type Stats struct {
	Entries    int64                            `json:"entries"`
	First      string                           `json:"-"` // timestamp; empty: no entries
	Last       string                           `json:"-"`
	Kinds      Tally                            `json:"kinds"`
	Outcomes   Tally                            `json:"outcomes"` // of decisions, by result_kind
	Accepted   int64                            `json:"accepted"` // decisions
	Rejected   int64                            `json:"rejected"`
	Profiles   Tally                            `json:"profiles"`        // decisions and errors, by policy
	Modes      Tally                            `json:"modes"`           // by mode
	Executions Tally                            `json:"execution_modes"` // by execution_mode
	Reasons    Tally                            `json:"reasons"`         // a decision counts once for each of its reasons
	Codes      Tally                            `json:"errors"`          // of errors
	Kernels    Tally                            `json:"kernels"`         // by version
	Days       Tally                            `json:"days"`            // ended runs by day, in UTC
	Policies   map[canon.ContentHash]*PolicyUse `json:"-"`
}

// PolicyUse says how often, and when, one policy decided.
type PolicyUse struct {
	SHA256  canon.ContentHash `json:"policy_sha256"`
	Profile string            `json:"profile"` // of its last use
	Ends    int64             `json:"runs"`
	First   string            `json:"first"` // timestamps
	Last    string            `json:"last"`
}

// Tally counts by name.
type Tally map[string]int64

// Count is the count of one name in a tally.
type Count struct {
	Name string
	N    int64
}

func (t *Tally) add(name string) {
	if *t == nil {
		*t = Tally{}
	}
	(*t)[name]++
}

// ByName returns the counts, sorted by name.
func (t Tally) ByName() []Count {
	var list []Count
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, Count{name, t[name]})
	}
	return list
}

// Most returns the counts, the largest first.
func (t Tally) Most() []Count {
	list := t.ByName()
	slices.SortStableFunc(list, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	return list
}

// Add counts a record. Records come in their order.
func (s *Stats) Add(r Record) {
	if s.Entries == 0 {
		s.First = r.Timestamp
	}
	s.Last = r.Timestamp
	s.Entries++
	s.Kinds.add(string(r.Kind))
	if !r.Kind.Ends() {
		return
	}
	s.Profiles.add(r.Policy)
	s.Modes.add(r.Mode)
	s.Executions.add(r.ExecutionMode)
	s.Kernels.add(r.Kernel)
	s.Days.add(r.Timestamp[:len("2006-01-02")])
	s.use(r)
	if r.Kind == KindError {
		s.Codes.add(r.Code)
		return
	}
	s.Outcomes.add(r.ResultKind)
	if r.Accepted {
		s.Accepted++
	} else {
		s.Rejected++
	}
	for _, reason := range r.Reasons {
		s.Reasons.add(reason)
	}
}

func (s *Stats) use(r Record) {
	if s.Policies == nil {
		s.Policies = map[canon.ContentHash]*PolicyUse{}
	}
	p := s.Policies[r.PolicySHA256]
	if p == nil {
		p = &PolicyUse{SHA256: r.PolicySHA256, First: r.Timestamp}
		s.Policies[r.PolicySHA256] = p
	}
	p.Profile, p.Last = r.Policy, r.Timestamp
	p.Ends++
}

// Uses returns the policies, the one used last first.
func (s *Stats) Uses() []PolicyUse {
	var list []PolicyUse
	for _, p := range s.Policies {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b PolicyUse) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(b.First, a.First), cmp.Compare(a.SHA256, b.SHA256))
	})
	return list
}
