package prose

import (
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/specs/vectors/detect"
)

func TestPlaceholderVectors(t *testing.T) {
	for _, v := range detect.Read(t, "placeholder.json", 20, 40) {
		got := Placeholders(v.Text)
		v.Check(t, got)
		for _, text := range got {
			if !strings.Contains(v.Text, text) {
				t.Errorf("%s: %q is not in the text", v.Name, text)
			}
		}
	}
}

// TestProseIsLinear: both detectors are linear in long text.
func TestProseIsLinear(t *testing.T) {
	detect.Slowly(t, func(s string) {
		Placeholders(s)
		contradiction(s, s+"x")
	})
}

func FuzzProse(f *testing.F) {
	for _, name := range []string{"placeholder.json", "contradiction.json"} {
		for _, v := range detect.Read(f, name, 1, 1) {
			f.Add(v.Text+v.A, v.B)
		}
	}
	f.Add("\xff<\xff>`\xff", "../\xff\x00/")
	f.Fuzz(func(t *testing.T, a, b string) {
		found := Placeholders(a)
		if !slices.Equal(found, Placeholders(a)) {
			t.Error("placeholders are not stable")
		}
		for i, text := range found {
			if !strings.Contains(a, text) || slices.Contains(found[:i], text) {
				t.Errorf("placeholder %q is not in the text, or twice", text)
			}
		}
		forth, ok := contradiction(a, b)
		if back, again := contradiction(b, a); ok != again || forth != back {
			t.Errorf("%q one way, %q the other", forth, back)
		}
		if text, ok := contradiction(a, a); ok {
			t.Errorf("a constraint clashes with itself: %q", text)
		}
	})
}
