package trial_test

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/trial"
)

// TestFaultWords: every fault of the vectors has a word, no two messages share one, and a word
// leads back to its message.
func TestFaultWords(t *testing.T) {
	words := trial.FaultWords()
	if slices.Sort(words); len(slices.Compact(slices.Clone(words))) != len(words) {
		t.Errorf("a word stands twice: %q", words)
	}
	used := map[string]bool{}
	for _, v := range vectors(t) {
		_, faults := trial.Normalize(parse(t, text(t, v.Answer)), v.want())
		for i, f := range faults {
			w := f.Word()
			if used[w] = true; i < 20 && trial.FaultText(w) != f.Msg {
				t.Errorf("%s: the word %q of %q", v.Name, w, f.Msg)
			}
		}
	}
	for _, w := range words {
		if !used[w] && w != "no_json_form" {
			t.Errorf("no vector has a fault %s", w)
		}
	}
}
