package decisions

import "testing"

// TestChangeFlags: a range has two sides, with two dots or three. No revision is a flag of git.
func TestChangeFlags(t *testing.T) {
	for covers, want := range map[string]string{
		"main..HEAD": "main HEAD", "main...topic": "main topic", "a.b..c.d": "a.b c.d", "main..HEAD~1": "main HEAD~1",
		"main": "", "..HEAD": "", "main..": "", "...": "", "-x..HEAD": "", "main..-x": "",
	} {
		f := ChangeFlags{covers: covers}
		err := f.check(nil)
		if got := f.base + " " + f.end; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: %q, %v", covers, got, err)
		}
	}
	for _, f := range []ChangeFlags{{changed: "-x"}, {changed: "a", covers: "b..HEAD"}} {
		if f.check(nil) == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	if same := (ChangeFlags{changed: "a", covers: "a..HEAD"}); same.check(nil) != nil || same.check([]string{"-"}) == nil {
		t.Error("the same base twice, and standard input")
	}
}
