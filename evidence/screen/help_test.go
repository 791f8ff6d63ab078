package screen

import "testing"

// TestHelp: a block that fits stays, and another one is filled, whatever its form.
// TestCommand: the parts of a command are joined for a shell, no quotation is broken, and the
// layout of a screen leaves them as they are.
func TestCommand(t *testing.T) {
	for in, want := range map[string]string{
		"  fiador run 'a b c' --policy x":  "  fiador run 'a b c' \\\n      --policy x",
		`  say 'it'\''s so' b c d e f g h`: "  say 'it'\\''s so' b \\\n      c d e f g h",
		`  say "a \" b c d" g h i j k l`:   "  say \"a \\\" b c d\" g \\\n      h i j k l",
		"  say /a/path/that/is/long b c":   "  say \\\n      /a/path/that/is/long\\\n      b c",
	} {
		if got := Command(in, 22); got != want || (Layout{Columns: 22}).Text(got) != got || Command(in, 0) != in {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a paragraph that fits", "one two three\nfour\n", "one two three\nfour\n"},
		{"a paragraph that is wide", "one two three four five\nsix\n\nseven\n", "one two three four\nfive six\n\nseven\n"},
		{"an entry with a line under it", "Exit codes:\n  0  one two three four\n     five\n  1  six\n", "Exit codes:\n  0  one two three\n     four five\n  1  six\n"},
		{"a flag", "Flags:\n  --a int  one two three\n", "Flags:\n  --a int\n      one two three\n"},
		{"a short flag", "Flags:\n  --a b  one two three\n", "Flags:\n  --a b  one two\n         three\n"},
		{"a word that is too long stays", "  0  one-two-three-four-five six\n", "  0  one-two-three-four-five\n     six\n"},
		{"commands", "Examples:\n  fiador run 'a b c' --policy strict\n  fiador x\n\nFlags:\n", "Examples:\n  fiador run \\\n      'a b c' \\\n      --policy \\\n      strict\n  fiador x\n\nFlags:\n"},
		{"no gap", "  one two three four five\n  six\n", "  one two three four\n  five\n  six\n"},
		{"other characters", "ééééé ééééé ééééé ééééé é\n", "ééééé ééééé ééééé\nééééé é\n"},
	} {
		if got := Help(c.text, 20); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
