package page

import (
	"regexp"

	"github.com/fiador/fiador/lazy"
)

const (
	maxLines = 500 // of an output
	around   = 2   // equal lines that are shown beside a changed one
)

// output is what both sides answered.
type output struct {
	Same  bool
	Where string // of a text that is not compared
	Text  text
	Lines []outLine
	Cut   bool // lines or bytes are left out
}

type outLine struct {
	Tone    string
	Parts   []part
	Skipped int // equal lines that are left out
}

type part struct {
	S      string
	Marked bool
}

// newOutput compares the outputs of two runs by their lines.
func newOutput(baseline, new *Shown) *output {
	old, hasOld := content(baseline)
	now, hasNew := content(new)
	switch {
	case !hasOld && !hasNew:
		return nil
	case !hasNew:
		return &output{Where: "on baseline alone", Text: body(old, maxInline)}
	case !hasOld:
		return &output{Where: "on new alone", Text: body(now, maxInline)}
	case old == now:
		return &output{Same: true, Where: "= the same on both sides", Text: body(old, maxText)}
	}
	a, moreA := lines(old, maxInline)
	b, moreB := lines(now, maxInline)
	return &output{Lines: skip(compare(a, b)), Cut: moreA+moreB > 0}
}

// content returns the text of an output; JSON stands on many lines.
func content(s *Shown) (string, bool) {
	if s == nil {
		return "", false
	}
	v := member(s.Doc, "final_output", "content")
	return indented(v), v != nil
}

// compare returns the lines of both texts, each old one before the new one in its place.
func compare(a, b []string) (all []outLine) {
	keptA, keptB := common(a, b)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		var x, y string
		goes, comes := i < len(a) && !keptA[i], j < len(b) && !keptB[j]
		if !goes && !comes {
			all = append(all, outLine{Tone: "equal", Parts: []part{{a[i], false}}})
			i, j = i+1, j+1
			continue
		}
		if goes {
			x = a[i]
		}
		if comes {
			y = b[j]
		}
		old, now := words(x, y)
		if goes {
			all = append(all, outLine{Tone: "removed", Parts: old})
			i++
		}
		if comes {
			all = append(all, outLine{Tone: "added", Parts: now})
			j++
		}
	}
	return all
}

// skip leaves out equal lines that are far from a changed one.
func skip(all []outLine) (kept []outLine) {
	for i, l := range all {
		far := true
		for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
			far = far && all[k].Tone == "equal"
		}
		if n := len(kept) - 1; !far {
			kept = append(kept, l)
		} else if n >= 0 && kept[n].Skipped > 0 {
			kept[n].Skipped++
		} else {
			kept = append(kept, outLine{Skipped: 1})
		}
	}
	return kept
}

var token = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`[\pL\pN]+| +|.`) }}

// words marks the words of two lines that differ. Lines that have little in common have no marks.
func words(a, b string) (old, now []part) {
	x, y := token.Get().FindAllString(a, -1), token.Get().FindAllString(b, -1)
	keptX, keptY := common(x, y)
	same := 0
	mark := func(tokens []string, kept []bool) (parts []part) {
		for i, s := range tokens {
			if n := len(parts) - 1; n >= 0 && parts[n].Marked == !kept[i] {
				parts[n].S += s
			} else {
				parts = append(parts, part{s, !kept[i]})
			}
			if kept[i] {
				same += len(s)
			}
		}
		return parts
	}
	if old, now = mark(x, keptX), mark(y, keptY); same*3 < len(a)+len(b) {
		return []part{{a, false}}, []part{{b, false}}
	}
	return old, now
}

// common says which elements belong to a longest common part.
func common(a, b []string) (keptA, keptB []bool) {
	keptA, keptB = make([]bool, len(a)), make([]bool, len(b))
	width := len(b) + 1
	best := make([]int16, (len(a)+1)*width) // both have at most 2 048 elements
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			if best[at] = max(best[at+width], best[at+1]); a[i] == b[j] {
				best[at] = best[at+width+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch at := i*width + j; {
		case a[i] == b[j]:
			keptA[i], keptB[j] = true, true
			i, j = i+1, j+1
		case best[at+width] >= best[at+1]:
			i++
		default:
			j++
		}
	}
	return keptA, keptB
}
