package pack

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/pathname"
)

// TestPathsOfThePlanFitThePatch: PS3 and PS4 accept every clean path without a remark of
// the kernel. So no plan and no output is refused when it is packed.
func TestPathsOfThePlanFitThePatch(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	parts := []string{"a", "b", "out", "/", "/", "//", ".", "..", "\\", ":", "~", "C:", " ", "\t", "\n", "\r", "\v", "\f", "\x00", "\x1f", "\x7f", "\u0080", "\u0085", "\u009f",
		"\u00a0", "\u1680", "\u2000", "\u2003", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", "\u180e", "\u00e9", "\xff"}
	check := func(p string) bool {
		p = pathname.Clean(p)
		if pathname.Inspect(p).Fault != "" {
			return false
		}
		if IsAbsolute(p) || PatchPathFault(p) != "" {
			t.Errorf("%q: nothing to say, and in a patch it is absolute (%t), or %s", p, IsAbsolute(p), PatchPathFault(p))
		}
		return true
	}
	for r := rune(0); r <= 0x10ffff; r++ {
		for _, p := range []string{string(r) + "a", "a" + string(r), "d/a" + string(r)} {
			check(p)
		}
	}
	pick, fine := rand.New(rand.NewPCG(3, 4)), 0
	for range 50000 {
		var b strings.Builder
		for range 1 + pick.IntN(6) {
			b.WriteString(parts[pick.IntN(len(parts))])
		}
		if check(b.String()) {
			fine++
		}
	}
	if fine < 1000 {
		t.Errorf("only %d paths have nothing to say of them", fine)
	}
}
