package verify

import "testing"

// TestLenientSurrogates: an escape of a lone surrogate becomes U+0000, and no other
// escape changes.
func TestLenientSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		`"\ud800"`: `"\u0000"`, `"\udc00\ud800"`: `"\u0000\u0000"`, `"\ud83d\ude00"`: `"\ud83d\ude00"`, `"\\ud800"`: `"\\ud800"`,
		`"\\\uDFFF"`: `"\\\u0000"`, `"\ud83d\u0041"`: `"\u0000\u0041"`, `"\ud800\ud83d\ude00"`: `"\u0000\ud83d\ude00"`, `"\ud8`: `"\ud8`, `\`: `\`,
	} {
		if got := string(surrogatesAsNUL([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestLenientReadsSurrogates: a lone surrogate is read as U+0000, and a pair as its
// character.
func TestLenientReadsSurrogates(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud83d\ude00"`:       "\U0001f600",
		`"\ud800"`:             "\x00",
		`"a\uDC00b"`:           "a\x00b",
		`"\ud800\ud83d\ude00"`: "\x00\U0001f600",
		`"\\ud800"`:            `\ud800`,
		`"\\\ud800"`:           "\\\x00",
		`"\ud800\u0041"`:       "\x00A",
		`"\ud800`:              "",
	} {
		got, fault := lenient([]byte(text))
		if s, _ := got.(string); s != want || (fault != "") != (want == "") {
			t.Errorf("%s: %q, %q", text, got, fault)
		}
	}
}
