package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/harness/rehearsal"
)

// TestConfig: an entry outside of the bounds is an error that names it and the remedy.
func TestConfig(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for want, c := range map[string]redact.Config{
		`/schema_version: "v1" is another version; write "redact.v1"`:                                   {SchemaVersion: "v1"},
		"/literals/1: the entry has 3 bytes; use 4 to 8192":                                             {Literals: []string{"abcd", "abc"}},
		"/literals/0: the entry has 8193 bytes; use 4 to 8192":                                          {Literals: []string{long(8193)}},
		"/literals: the list has 1001 entries; leave at most 1000":                                      {Literals: make([]string, 1001)},
		"/literals/32: the literals have more than 262144 bytes together; remove some":                  {Literals: slices.Repeat([]string{long(8192)}, 33)},
		"/patterns/2: the pattern matches the empty text; let it require a character":                   {Patterns: []string{"a", "b+", "c*"}},
		"/patterns/0: error parsing regexp: missing closing ]: `[a`; write an expression of RE2":        {Patterns: []string{"[a"}},
		"/patterns/0: error parsing regexp: invalid escape sequence: `\\1`; write an expression of RE2": {Patterns: []string{`(a)\1`}},
		"/patterns/0: the entry has 1025 bytes; use 1 to 1024":                                          {Patterns: []string{long(1025)}},
		"/patterns/0: the entry has 0 bytes; use 1 to 1024":                                             {Patterns: []string{""}},
		"/names/0: the entry has 65 bytes; use 1 to 64":                                                 {Names: []string{long(65)}},
		"/names/0: the entry has 0 bytes; use 1 to 64":                                                  {Names: []string{""}},
	} {
		if c.SchemaVersion == "" {
			c.SchemaVersion = redact.Version
		}
		if _, err := redact.New(c); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	_, err := redact.New(redact.Config{SchemaVersion: redact.Version}, "long enough", "abc")
	if want := "values/1: the entry has 3 bytes; use 4 to 8192"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	newRules(t, redact.Config{Literals: []string{long(8192), "abcd"}, Patterns: []string{long(1024)}, Names: []string{long(64)}})
}

// spellings are forms in which encoders write a text within a JSON string.
func spellings(s string) map[string]string {
	quoted := func(s string, html bool) string {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		_ = enc.Encode(s)
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
	}
	units := func(form string, all bool) string {
		out := ""
		for _, r := range s {
			switch {
			case r > 0xffff:
				out += fmt.Sprintf(form+form, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			case all || r > '~' || r < ' ' || strings.ContainsRune(`"\+<>&'/`, r):
				out += fmt.Sprintf(form, r)
			default:
				out += string(r)
			}
		}
		return out
	}
	plain := quoted(s, false)
	return map[string]string{
		"raw": s, "json": plain, "html": quoted(s, true), "slashes": strings.ReplaceAll(plain, "/", `\/`), "twice": quoted(plain, true),
		"thrice": quoted(quoted(plain, false), false), "ascii": units(`\u%04x`, false), "upper": units(`\u%04X`, false), "all": units(`\u%04x`, true),
		"all twice": quoted(units(`\u%04X`, true), false),
	}
}

// TestSpellings: a literal, a learned value and an escaped key are found in each form that encoders write.
func TestSpellings(t *testing.T) {
	for _, secret := range []string{"pass/word", `qu"ote'd`, `back\slash`, `C:\new\table`, "línea\nzwei\t\u2028", "a+b<c>&=d", "😀 smile 日本", `ends with \`, `\\\\both`, "plain word"} {
		for form, spelt := range spellings(secret) {
			for how, c := range map[string]redact.Config{"literal": {Literals: []string{secret}}, "learned": {}} {
				x := newRules(t, c).Redactor()
				if how == "learned" {
					x.Value(map[string]any{"Pass-Word": secret})
				}
				got := string(x.Bytes([]byte(`{"a":"b `+spelt+` c"}`), false))
				if rest, ok := strings.CutPrefix(got, `{"a":"b [redacted:`+how+`]`); !ok || strings.TrimLeft(rest, `\`) != ` c"}` {
					t.Errorf("%s %q as %s: %q", how, secret, form, got)
				}
			}
		}
	}
}

// TestNoSecretAtTheEnd: wherever the bytes end, with more behind them, nothing of a secret is left at the end.
func TestNoSecretAtTheEnd(t *testing.T) {
	secrets := map[string]string{"two words/ünd more": "", "0123456789abcdef": "abcd"}
	for _, vectors := range ruleVectors(t) {
		for _, v := range vectors[:3] {
			secrets[strings.Join(v.Text, "")] = ""
		}
	}
	rules := newRules(t, redact.Config{Literals: []string{"two words/ünd more"}}, "abcd0123456789abcdef")
	for secret, before := range secrets {
		text := "the text " + before + secret
		whole := rules.Redactor().Text(text)
		public := whole[:strings.Index(whole+"[redacted:", "[redacted:")]
		for end := len(public) + 4; end < len(text); end++ {
			got := string(rules.Redactor().Bytes([]byte(text)[:end], true))
			if strings.Contains(secret, "-----") || strings.ContainsAny(text[len(public):end], "\n") {
				continue // a header without a body is no secret
			}
			if shown := got[:strings.Index(got+"[redacted:", "[redacted:")]; len(shown) > len(public) {
				t.Fatalf("%q: %q is left of %q", text[:end], got, secret)
			}
		}
	}
}

// TestNoSpeltSecretAtTheEnd: the same for a secret with spaces, in each form that encoders write. The end can be within
// an escape.
func TestNoSpeltSecretAtTheEnd(t *testing.T) {
	const secret = "two words/ünd 😀 more"
	for form, spelt := range spellings(secret) {
		for how, c := range map[string]redact.Config{"literal": {Literals: []string{secret}}, "learned": {}} {
			rules := newRules(t, c)
			for end := range len(spelt) {
				x := rules.Redactor()
				if how == "learned" {
					x.Value(map[string]any{"password": secret})
				}
				body := "say <" + spelt[:end+1]
				if got := string(x.Bytes([]byte(body), true)); !strings.HasPrefix(got, "say <[redacted:") || strings.Contains(got, "] ") {
					t.Errorf("%s as %s: %q is left of %q", how, form, got, body)
				}
			}
		}
	}
}

// TestLearnedBound: beyond the bound of learned values, each secret is still redacted in its place.
func TestLearnedBound(t *testing.T) {
	var list []any
	for i := range 3000 {
		list = append(list, fmt.Sprintf("value-%04d-%s", i, strings.Repeat("x", 30)))
	}
	x := newRules(t, redact.Config{}).Redactor()
	got := x.Value(map[string]any{"token": list, "secret": strings.Repeat("long ", 5000)})
	if b, _ := json.Marshal(got); bytes.Contains(b, []byte("value-")) || bytes.Contains(b, []byte("long ")) {
		t.Errorf("%.200s", b)
	}
	last := list[2999].(string)
	if text := x.Text(last); text != last {
		t.Errorf("more values are learned than the bound allows: %q", text)
	}
	body := string(x.Bytes([]byte(`{"token": "`+last+`"`), false))
	if body != `{"token": "[redacted:learned]"` {
		t.Errorf("a body after the bound: %q", body)
	}
}

// TestValueIsKept: what has no secret is not copied, and what has one is changed in a copy alone.
func TestValueIsKept(t *testing.T) {
	same := func(a, b any) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	clean := map[string]any{"list": []any{"a", json.Number("1"), nil}}
	for what, secret := range map[string]map[string]any{
		"text": {"say": "Bearer abcdefgh123456789"}, "name": {"Bearer abcdefgh123456789": true}, "list": {"say": []any{"Bearer abcdefgh123456789"}},
		"learned": {"password": "correct horse", "say": "the correct horse"},
	} {
		v := map[string]any{"clean": clean, "secret": secret}
		before := fmt.Sprint(v)
		got, _ := newRules(t, redact.Config{}).Redactor().Value(v).(map[string]any)
		if fmt.Sprint(v) != before || fmt.Sprint(got) == before || !same(got["clean"], clean) || same(got["secret"], secret) {
			t.Errorf("%s: %v became %v, and was %s", what, v, got, before)
		}
	}
	if got := newRules(t, redact.Config{}).Redactor().Value(clean); !same(got, clean) {
		t.Error("a value without a secret was copied")
	}
}

// TestCasesAreApart: what one case learns is not known to another.
func TestCasesAreApart(t *testing.T) {
	rules := newRules(t, redact.Config{})
	rules.Redactor().Value(map[string]any{"password": "correct horse"})
	if got := rules.Redactor().Text("correct horse"); got != "correct horse" {
		t.Error(got)
	}
}

// TestLinear: with each doubling of the input, the time grows less than threefold, for texts that make naive searches
// slow. Eight times the input would take 64 times as long if the time were quadratic.
func TestLinear(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	words := func(n int) []any {
		var list []any
		for i := range n {
			list = append(list, strings.Repeat("a", 100)+fmt.Sprint(i))
		}
		return list
	}
	for name, unit := range map[string]string{
		"a": "a", "prose": "the quick brown fox jumps over the lazy dog. ", "eyJ": "eyJ", "sk-": "-sk-", "pem": "-----BEGIN PRIVATE KEY-----", "pem dashes": "-----BEGIN PRIVATE KEY-----a-",
		"urls": "://a:", "escapes": `\n`, "backslashes": `\`, "units": `\ud83d`, "names": `token="`, "colons": ":", "github": "ghp_", "aws": "ecret_key ", "bearer": "Bearer ", "basic": "basic aaaa", "quotes": `"token":"\"`, "literals": "abcd ", "values": `"token":"abcdefgh\u0020",`,
	} {
		t.Run(name, func(t *testing.T) {
			measure := func(size int) time.Duration {
				body := []byte(strings.Repeat(unit, size/len(unit)))
				best := time.Hour
				for range 3 {
					x := newRules(t, redact.Config{}, "abcd", strings.Repeat("a", 8000)+"b").Redactor()
					x.Value(map[string]any{"token": words(1000)})
					start := time.Now()
					x.Bytes(body, true)
					best = min(best, time.Since(start))
				}
				return best
			}
			const size = 1 << 16
			rehearsal.Again(t, 3, func(int) string {
				if one, eight := measure(size), measure(8*size); eight > 27*one+100*time.Millisecond {
					return fmt.Sprintf("%v for the text, %v for eight of them", one, eight)
				}
				return ""
			})
		})
	}
}

// FuzzRedact: a redacted text stays as it is, bytes outside of marks are those of the text, and the text itself is
// not changed.
func FuzzRedact(f *testing.F) {
	for _, vectors := range ruleVectors(f) {
		for _, v := range vectors {
			f.Add([]byte(strings.Join(v.Text, "")), v.Want != nil)
		}
	}
	f.Add([]byte("foofoofooabcdfoo \xff\xfe \\ud83d\\u"), true)
	f.Add([]byte(`{"password":"[redacted:jwt] and more","token=abcdefgh[redacted:`), false)
	rules := newRules(f, redact.Config{Literals: []string{"abcd", "redacted", `x\ny"z`}, Patterns: []string{`foo\b`, `^x`, `y$`}, Names: []string{"redacted"}})
	f.Fuzz(func(t *testing.T, b []byte, more bool) {
		given := bytes.Clone(b)
		once := bytes.Clone(rules.Redactor().Bytes(b, more))
		if !bytes.Equal(b, given) {
			t.Fatalf("%q has become %q", given, b)
		}
		if twice := rules.Redactor().Bytes(once, more); !bytes.Equal(once, twice) {
			t.Fatalf("%q: once %q, twice %q", b, once, twice)
		}
		rest := given
		for part := range strings.SplitSeq(string(once), "[redacted:") { // in this order, so invalid bytes too
			if _, behind, ok := strings.Cut(part, "]"); ok {
				part = behind
			}
			i := bytes.Index(rest, []byte(part))
			if i < 0 {
				t.Fatalf("%q became %q: %q is new", b, once, part)
			}
			rest = rest[i+len(part):]
		}
		text := rules.Redactor().Text(string(b))
		if again := rules.Redactor().Text(text); again != text {
			t.Fatalf("%q: once %q, twice %q", b, text, again)
		}
	})
}

// TestRandomValues: a redacted value stays as it is, also with names that become equal.
func TestRandomValues(t *testing.T) {
	rules := newRules(t, redact.Config{Literals: []string{"abcd", "1234"}, Names: []string{"pin"}})
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"abcd", "abcdabcd", "token", "pin", "x", "Bearer abcdefgh123456789", "[redacted:literal]", "[redacted:literal] 2", "long enough for a secret"}
	var build func(depth int) any
	build = func(depth int) any {
		switch n := random.IntN(8); {
		case n < 2 && depth > 0:
			m := map[string]any{}
			for range random.IntN(6) {
				m[words[random.IntN(len(words))]] = build(depth - 1)
			}
			return m
		case n < 4 && depth > 0:
			return []any{build(depth - 1), build(depth - 1)}
		case n == 5:
			return json.Number([]string{"1234", "12345", "0"}[random.IntN(3)])
		case n == 6:
			return []any{nil, true}[random.IntN(2)]
		}
		return words[random.IntN(len(words))] + words[random.IntN(len(words))]
	}
	members := func(v any) (n int) {
		b, _ := json.Marshal(v)
		return strings.Count(string(b), `":`)
	}
	for range 3000 {
		v := map[string]any{"a": build(4), "abcd": build(3), "xabcdabcd": 1}
		once := rules.Redactor().Value(v)
		twice := rules.Redactor().Value(once)
		a, _ := json.Marshal(once)
		b, _ := json.Marshal(twice)
		if !bytes.Equal(a, b) || members(v) != members(once) || bytes.Contains(a, []byte("abcd")) {
			given, _ := json.Marshal(v)
			t.Fatalf("given %s\nonce %s\ntwice %s", given, a, b)
		}
	}
}
