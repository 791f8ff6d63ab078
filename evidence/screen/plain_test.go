package screen_test

import (
	"testing"

	"github.com/fiador/fiador/evidence/screen"
)

// TestPlain: the result is one line of UTF-8 with only visible characters, which no
// runner obeys. Nothing else is changed.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		`as "is" 😀 é \n`:             `as "is" 😀 é \n`,
		"a\nb\tc\rd":                 `a\nb\tc\u000dd`,
		"\x00\x1b\x7f\u0085\u00a0":   `\u0000\u001b\u007f\u0085\u00a0`,
		"\u202e\u2028\u200b\ufeff":   `\u202e\u2028\u200b\ufeff`,
		"\u3164\u115f\u2800":         `\u3164\u115f\u2800`,
		"\xff\xc3(\ufffd)":           `\xff\xc3(` + "\ufffd)",
		"\U000e0041\U0010ffff\ue000": `\U000e0041\U0010ffff\ue000`,

		"\ufe00\ufe0f\U000e0100\U000e01ef": `\ufe00\ufe0f\U000e0100\U000e01ef`,
		"\u034f\u17b4\u17b5\u180b\u180f":   `\u034f\u17b4\u17b5\u180b\u180f`,
		"e\u0301 \u0e33 \u093f":            "e\u0301 \u0e33 \u093f",

		"##[error]x ####[y] a##[": `#\u0023[error]x ###\u0023[y] a#\u0023[`,
		"##vso[task] ##teamCity[": `#\u0023vso[task] #\u0023teamCity[`,
		"# a ## b [c] ##d ## [e]": "# a ## b [c] ##d ## [e]",
		"##\u200b[x]##\u00e9[":    `##\u200b[x]##é[`,
	} {
		if got := screen.Plain(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
