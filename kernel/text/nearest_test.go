package text

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"actions", "constraints", "context", "goal", "inputs", "outputs", "timeout_ms"}
	for name, want := range map[string]string{
		"gaol": "goal", "gol": "goal", "goals": "goal", "GOAL": "goal", "g": "", "go": "", "goat": "goal", "boat": "",
		"action": "actions", "acitons": "actions", "constrains": "constraints", "contexts": "context", "timeout": "timeout_ms",
		"TimeoutMS": "timeout_ms", "timeout-ms": "timeout_ms", "output": "outputs", "input": "inputs", "putputs": "outputs",
		"": "", "completely_different": "", strings.Repeat("goal", 10000): "",
		"contrints": "constraints", "contrits": "", "trainsts": "", "constrainetsing": "", // two edits away, and three
	} {
		if got := Nearest(name, known, nil); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", name, got, want)
		}
	}
	if got := Nearest("xputs", []string{"inputs", "outputs"}, nil); got != "inputs" {
		t.Errorf("of equals the first is nearest, got %q", got)
	}
	if got := Nearest("aputs", []string{"bputs", "cputs"}, map[string]any{"bputs": nil}); got != "cputs" {
		t.Errorf("of equals the absent one is nearest, got %q", got)
	}
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1},
		{"abc", "bca", 2}, {"kitten", "sitting", 3}, {"ä", "a", 1}, {"ab", "ba", 1}, {"abcd", "badc", 2},
	} {
		if got := edits(c.a, c.b); got != c.want {
			t.Errorf("edits(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
		}
		if got := edits(c.b, c.a); got != c.want {
			t.Errorf("edits(%q, %q) is %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
