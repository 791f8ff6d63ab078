package evidence

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel"
)

// TestMechanisms: every row of the table is complete, and stands with the other rows of
// its clause. A row holds with any number, and with no other status.
func TestMechanisms(t *testing.T) {
	var used []Mechanism
	for _, tier := range Tiers() {
		used = append(used, Mechanisms(tier.Isolation)...)
		if TierAt(tier.Isolation) != tier || TierNamed(tier.Level) != tier {
			t.Errorf("%+v is not found", tier)
		}
		for _, clause := range Clauses() {
			if len(Statuses(clause, tier.Isolation)) == 0 {
				t.Errorf("%s says nothing at isolation %s", clause, tier.Isolation)
			}
		}
	}
	for m := range mechanisms {
		c := Mechanism(m).With(12)
		if !slices.Contains(used, Mechanism(m)) || c.Mechanism == "" || !c.Holds() {
			t.Errorf("mechanism %d: %+v", m, c)
		}
		for _, s := range []Status{Enforced, Partial, Absent} {
			if s != c.Status && (Clause{c.Clause, c.Mechanism, s}).Holds() {
				t.Errorf("%+v holds as %s", c, s)
			}
		}
	}
	if list := Clauses(); len(list) != 13 || list[0] != ClauseTimeout {
		t.Errorf("the clauses are %q", list)
	}
	if TierNamed("other") != (Tier{}) || Statuses(ClauseCPU, kernel.Isolation("other")) != nil {
		t.Error("another level is one")
	}
	if got, want := FilesLandlock.With(5).Mechanism, "Landlock 5: not the mode and times of files"; got != want {
		t.Errorf("%q", got)
	}
}
