package prose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/specs/vectors/detect"
)

func TestContradictionVectors(t *testing.T) {
	for _, v := range detect.Read(t, "contradiction.json", 20, 40) {
		for _, pair := range [][2]string{{v.A, v.B}, {v.B, v.A}} {
			got := []string{}
			if text, ok := contradiction(pair[0], pair[1]); ok {
				got = append(got, text)
			}
			v.Check(t, got)
		}
	}
}

// TestQuietConstraintsTogether puts every sentence of the quiet placeholder vectors
// into one list. The sentences are ordinary prose, and no sentence contradicts another.
func TestQuietConstraintsTogether(t *testing.T) {
	var list []string
	for _, v := range detect.Read(t, "placeholder.json", 1, 1) {
		list = append(list, v.Text)
	}
	for _, c := range Contradictions(list) {
		t.Errorf("%q against %q: %s", list[c.I], list[c.J], c.Text)
	}
}

// TestEveryOppositeClashes tests each pair of words of each opposite: a plain sentence
// with one word contradicts the same sentence with the other word.
func TestEveryOppositeClashes(t *testing.T) {
	words := sideWords()
	for _, o := range opposites {
		for _, a := range words[o.a] {
			for _, b := range words[o.b] {
				form := "the thing must be %s"
				if o.class == verb {
					form = "must %s things"
				}
				want := o.a + " / " + o.b
				got, ok := contradiction(fmt.Sprintf(form, a), fmt.Sprintf(form, b))
				if !ok || got != want {
					t.Errorf("%s against %s: got %q, want %q", a, b, got, want)
				}
				spaced := strings.ReplaceAll(b, "-", " ")
				if got, _ := contradiction(fmt.Sprintf(form, a), fmt.Sprintf(form, spaced)); got != want {
					t.Errorf("%s against %s: got %q, want %q", a, spaced, got, want)
				}
			}
		}
	}
	if n := len(opposites); n < 25 {
		t.Errorf("%d opposites, want at least 25", n)
	}
}

// TestSides: the sides of the opposites are those that words name, and the opposites of one
// side stand together. The word that is shown for a side is the first one of the side.
func TestSides(t *testing.T) {
	words := sideWords()
	last := map[string]int{} // the last opposite of each side
	for i, o := range opposites {
		for _, side := range []string{o.a, o.b} {
			if at, known := last[side]; known && at != i-1 {
				t.Errorf("%s is a side of the opposites %d and %d, and of none between them", side, at, i)
			}
			last[side] = i
			if len(words[side]) == 0 || words[side][0] != side {
				t.Errorf("%s is shown for the words %q", side, words[side])
			}
		}
	}
	for side, list := range words {
		if _, known := last[side]; !known {
			t.Errorf("%q name the side %q, which has no opposite", list, side)
		}
	}
}

func TestContradictionsOrder(t *testing.T) {
	list := []string{"use tabs", "the api is public", "stateless", "do not use tabs", "the api is private", "be stateful", "use tabs"}
	want := []Clash{{0, 3, "must / must not: tabs"}, {1, 4, "public / private"}, {2, 5, "stateless / stateful"}, {3, 6, "must / must not: tabs"}}
	got := Contradictions(list)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestContradictionsScale gives the greatest number of constraints of an intent, each
// with many sentences.
func TestContradictionsScale(t *testing.T) {
	list := make([]string, 1000)
	for i := range list {
		list[i] = strings.Repeat(fmt.Sprintf("Part %d must not be public. Use tool %d. ", i, i), 20)
	}
	list[999] = "Part 7 must be public"
	rehearsal.Again(t, 3, func(int) string {
		start := time.Now()
		got := Contradictions(list)
		if len(got) != 1 || got[0] != (Clash{7, 999, "public / not public"}) {
			t.Errorf("got %v", got)
		}
		if took := time.Since(start); took > 10*time.Second {
			return fmt.Sprintf("took %v", took)
		}
		return ""
	})
}

// TestManyContradictions: up to a limit, every pair is listed. Beyond the limit, each
// constraint has one pair, so that no intent gives the policy too many findings.
func TestManyContradictions(t *testing.T) {
	list := func(n int) []string {
		var out []string
		for i := range n {
			out = append(out, "stateless"+strings.Repeat(" ", i), "stateful"+strings.Repeat(" ", i))
		}
		return out
	}
	if got := len(Contradictions(list(30))); got != 30*30 {
		t.Errorf("%d pairs, want %d", got, 30*30)
	}
	many := Contradictions(list(500))
	if len(many) != 999 {
		t.Fatalf("%d pairs, want one for each constraint but the last", len(many))
	}
	for i, c := range many {
		if c.I != i || c.J != i+1 {
			t.Fatalf("pair %d is %d, %d", i, c.I, c.J)
		}
	}
}

// TestContradictionsAreAllPairs compares the pairs of a list with those of every two
// constraints alone. Beyond the limit it compares the first later constraint of each.
func TestContradictionsAreAllPairs(t *testing.T) {
	says := []string{"Be stateless. ", "Be stateful. ", "The service is stateful. ", "The api must be public. ", "The api must be private. ",
		"Use tabs. ", "Do not use tabs. ", "Must not use the tabs. ", "The api must not be public. ", "Allow ads. ", "Forbid ads. "}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 5, 20, 120} {
		list := make([]string, n)
		for i := range list {
			for range r.IntN(4) {
				list[i] += says[r.IntN(len(says))]
			}
			list[i] += strings.Repeat(" ", i)
		}
		var want, first []Clash
		for i := range list {
			began := len(want)
			for j := i + 1; j < n; j++ {
				if text, ok := contradiction(list[i], list[j]); ok {
					want = append(want, Clash{i, j, text})
				}
			}
			if len(want) > began {
				first = append(first, want[began])
			}
		}
		if len(want) > maxClashes {
			want = first
		}
		if got := Contradictions(list); !slices.Equal(got, want) {
			t.Errorf("%d constraints: got %v\nwant %v", n, got, want)
		}
	}
}

// TestClashesAreLinear: a thousand constraints with many sentences take as many steps
// as there are sentences, not as there are pairs of sentences. Twice the sentences
// allocate about twice as much.
func TestClashesAreLinear(t *testing.T) {
	say := func(sentences int) []string {
		list := make([]string, 1000)
		for i := range list {
			list[i] = fmt.Sprint(i, ". ", strings.Repeat([]string{"Be stateless. ", "Be stateful. "}[i%2], sentences))
		}
		return list
	}
	cost := func(sentences int) float64 {
		list := say(sentences)
		return testing.AllocsPerRun(1, func() { Contradictions(list) })
	}
	one, four := cost(8), cost(32)
	if four > 6*one {
		t.Errorf("four times the sentences take %.1f times the allocations", four/one)
	}
	groups := make([]statement, 1000)
	for i := range groups {
		groups[i].constraint = i
	}
	texts := say(1)
	for i := range texts {
		texts[i] += "."
	}
	p := newPairs(texts)
	p.addAll(plain, groups, negated(groups))
	if p.all != nil || len(p.first) != 999 {
		t.Errorf("%d first pairs, and all: %v", len(p.first), p.all != nil)
	}
}

func negated(list []statement) []statement {
	list = slices.Clone(list)
	for i := range list {
		list[i].negated = true
	}
	return list
}

// contradiction says whether two constraints contradict each other, and describes the
// contradiction: "stateless / stateful", "public / not public", "must / must not:
// tabs". The text does not depend on the order of the constraints.
func contradiction(a, b string) (string, bool) {
	for _, c := range Contradictions([]string{a, b}) {
		return c.Text, true
	}
	return "", false
}
