package evidence

import (
	"slices"
	"testing"
)

// TestWarnings: what is written is read as the same value.
func TestWarnings(t *testing.T) {
	for text, want := range map[string]Warning{
		"the patch does not have the empty folder out/a":          {EmptyFolder, "out/a", 0},
		`the patch does not have the removal of "a\n"`:            {Removal, `"a\n"`, 0},
		"the patch does not have these, and 7 more empty folders": {EmptyFolder, "", 7},
		"the patch does not have these, and 12 more removals":     {Removal, "", 12},
	} {
		if got, ok := ParseWarning(text); !ok || got != want || want.String() != text {
			t.Errorf("%q is %+v, %t, and %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "the patch does not have a", "the patch does not have these, and 0 more removals", "the patch does not have these, and 07 more removals", "the patch does not have these, and -1 more removals", "7 more removals"} {
		if got, ok := ParseWarning(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if got := Warn(Removal, slices.Repeat([]string{"a"}, MaxWarned+3)); len(got) != MaxWarned+1 || got[MaxWarned] != (Warning{Kind: Removal, More: 3}).String() {
		t.Errorf("%q", got)
	}
}
