package verify

import (
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// TestWorkInLedgerLines: the lines of a run for a work item are lines of the run. Both name
// the same item, or none.
func TestWorkInLedgerLines(t *testing.T) {
	state := "blake3:" + strings.Repeat("0", 64)
	begun := func(item string) any { return map[string]any{"base": state, "item_id": item} }
	decision := map[string]any{"after": state, "before": state, "item_id": "item", "receipt": state}
	for name, c := range map[string]struct {
		begun, decision any
		ok              bool
	}{
		"no work":           {nil, nil, true},
		"same item":         {begun("item"), decision, true},
		"another item":      {begun("other"), decision, false},
		"the decision's":    {nil, decision, false},
		"the begun's":       {begun("item"), nil, false},
		"a begun's in both": {begun("item"), begun("item"), false},
	} {
		d, err := newDraft(basePacks(t)["recorded"])
		if err != nil {
			t.Fatal(err)
		}
		for at, work := range map[string]any{"/0/work": c.begun, "/1/work": c.decision} {
			if work == nil {
				continue
			}
			if err := d.set(pack.LedgerFile+"#"+at, work); err != nil {
				t.Fatal(err)
			}
		}
		v := Pack(d.inMemory(t), builtin(t))
		if slices.ContainsFunc(v.Violations, func(f pack.Violation) bool { return f.Rule == "ST11" }) == c.ok {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
