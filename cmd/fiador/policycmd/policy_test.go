package policycmd

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// TestIntentFaults: a fault stands at the file that the reader can open, with its place once and
// with a remedy.
func TestIntentFaults(t *testing.T) {
	text := runerr.Text{Name: "a.json", Src: []byte("{\n \"goal\":1}")}
	_, broken := canon.Parse([]byte(`{"goal":`), 100)
	for name, c := range map[string]struct {
		err  error
		want []fault
	}{
		"no JSON": {runerr.Read(runerr.Text{Name: "a.json", Src: []byte(`{"goal":`)}, broken), []fault{
			{"p/a.json", 1, 9, "", "/goal: the text ends where a value must stand", "mend the text at the line and the column that the message gives"}}},
		"two violations": {runerr.NotIntent(text, nil, []specs.Violation{{Pointer: "", Msg: "one"}, {Pointer: "/goal", Msg: "two"}}), []fault{
			{"p/a.json", 1, 1, "", "one", "fiador schema intent prints what an intent may hold"},
			{"p/a.json", 2, 9, "", "/goal: two", "fiador schema intent prints what an intent may hold"}}},
		"no place":   {runerr.Unreadable("a.json", "a link", "name the file itself"), []fault{{"p/a.json", 0, 0, "", "a link", "name the file itself"}}},
		"one or not": {runerr.NotIntent(text, nil, []specs.Violation{{Pointer: "/goal", Msg: "two"}}), []fault{{"p/a.json", 2, 9, "", "/goal: two", "fiador schema intent prints what an intent may hold"}}},
	} {
		if got := intentFaults("p/a.json", c.err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestNewChange: the outcome says which policy is stricter, and reasons count by themselves only
// where the outcomes are the same.
func TestNewChange(t *testing.T) {
	for _, c := range []struct {
		a, b          verdict
		kind          string // empty: nothing changes
		removed, adds string
	}{
		{verdict{outcome: "BUNDLE"}, verdict{outcome: "BUNDLE"}, "", "", ""},
		{verdict{outcome: "BUNDLE"}, verdict{outcome: "CLARIFY", reasons: []string{"A /goal"}}, "stricter", "", "A /goal"},
		{verdict{outcome: "REFUSE", reasons: []string{"A /goal", "B /goal"}}, verdict{outcome: "CLARIFY", reasons: []string{"A /goal"}}, "wider", "B /goal", ""},
		{verdict{outcome: "REFUSE", reasons: []string{"A /goal", "B /goal"}}, verdict{outcome: "REFUSE", reasons: []string{"A /goal", "C /goal"}}, "reasons", "B /goal", "C /goal"},
	} {
		got, changes := newChange(c.a, c.b)
		first := func(list []string) string { return append(list, "")[0] }
		if changes != (c.kind != "") || changes && got.Kind != c.kind || first(got.Removed) != c.removed || first(got.Added) != c.adds {
			t.Errorf("%v and %v: %+v, %v", c.a, c.b, got, changes)
		}
	}
}

// TestLineRanges: lines that follow each other are one range.
func TestLineRanges(t *testing.T) {
	for want, lines := range map[string][]int{"": nil, "3": {3}, "3-4": {3, 4}, "1, 3-5, 9": {1, 3, 4, 5, 9}} {
		if got := lineRanges(lines); got != want {
			t.Errorf("%v: %q", lines, got)
		}
	}
}
