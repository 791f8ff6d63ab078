package transcript

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var quoted = []struct {
	argv []string
	want string
}{
	{nil, ""},
	{[]string{""}, "''"},
	{[]string{"", ""}, "'' ''"},
	{[]string{"make", "-j2", "CC=gcc", "a/b.c", "x@y", "100%", "a,b:c+d_e"}, "make -j2 CC=gcc a/b.c x@y 100% a,b:c+d_e"},
	{[]string{"A=b", "A=b"}, "'A=b' A=b"},
	{[]string{"a b", " "}, "'a b' ' '"},
	{[]string{"it's"}, `'it'\''s'`},
	{[]string{"'", "''"}, `''\''' ''\'''\'''`},
	{[]string{`"`, `\`, "$HOME", "`id`", "!x"}, "'\"' '\\' '$HOME' '`id`' '!x'"},
	{[]string{"*", "?", "[a]", "~", "{a,b}", "#", "a;b", "a&b", "a|b", "(a)", "<", ">"}, "'*' '?' '[a]' '~' '{a,b}' '#' 'a;b' 'a&b' 'a|b' '(a)' '<' '>'"},
	{[]string{"a\nb"}, `'a'$'\n''b'`},
	{[]string{"\n\t\r", "\n1"}, `$'\n\t\r' $'\n''1'`},
	{[]string{"\x01f\x7f", "\x1b[0m"}, `$'\x01''f'$'\x7f' $'\x1b''[0m'`},
	{[]string{"größe", "日本", "😀"}, "'größe' '日本' '😀'"},
	{[]string{"\xff", "a\xc3", "\xc3\xa4\xa4"}, `$'\xff' 'a'$'\xc3' 'ä'$'\xa4'`},
	{[]string{"\ufffd", "\ufeff", "\u00a0", "\u202e"}, "'\ufffd' '\ufeff' '\u00a0' '\u202e'"},
	{[]string{"\u2028\u2029", "\u0085x"}, `$'\xe2\x80\xa8\xe2\x80\xa9' $'\xc2\x85''x'`},
	{[]string{"\n\xff\u2028"}, `$'\n\xff\xe2\x80\xa8'`},
	{[]string{"'\n'"}, `''\'''$'\n'''\'''`},
	{[]string{"-", "--", "-n", "=", "a="}, "- -- -n = a="},
	{[]string{"="}, "'='"},
	{[]string{"\x00"}, `$'\x00'`},
}

func TestQuote(t *testing.T) {
	for _, c := range quoted {
		if got := Quote(c.argv); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
		checkQuote(t, c.argv)
	}
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	for c := range 256 {
		word := string([]byte{byte(c)})
		if got := Quote([]string{"x", word}); (got == "x "+word) != strings.Contains(plain, word) {
			t.Errorf("%q: %s", word, got)
		}
	}
}

// checkQuote checks that a quoted argv is one line of text.
func checkQuote(t *testing.T, argv []string) {
	t.Helper()
	q := Quote(argv)
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }
	if !utf8.ValidString(q) || strings.ContainsFunc(q, odd) || strings.ContainsRune(q, '\n') {
		t.Errorf("%q: %q", argv, q)
	}
}

// TestQuoteBash: a real bash reads argv back, byte for byte, in two locales.
func TestQuoteBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash: ", err)
	}
	var list [][]string
	for _, c := range quoted {
		if !strings.Contains(strings.Join(c.argv, ""), "\x00") {
			list = append(list, c.argv)
		}
	}
	for c := 1; c < 256; c++ {
		b := string([]byte{byte(c)})
		list = append(list, []string{b, b + b, "a" + b + "1", b + "'"})
	}
	for r := rune(0x80); r < 0x3000; r += 7 {
		list = append(list, []string{string(r), "a" + string(r) + "f"})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		list = append(list, randomWords(random))
	}
	for _, locale := range []string{"C", "C.UTF-8"} {
		for some := range slices.Chunk(list, 250) {
			throughBash(t, bash, locale, some)
		}
	}
}

// randomWords returns words of bytes, of text and of characters that are special to
// shells; no NUL.
func randomWords(random *rand.Rand) []string {
	parts := []string{"'", "\"", "\\", "$", "$'", "\n", "\r", "\t", " ", "\x1b", "\xff", "\xc3", "ä", "\u2028", "😀", "a", "0f", "=", "`", "!", "\\x", "x41", "u0041", "(", "{a,b}", "*"}
	words := make([]string, random.IntN(4))
	for i := range words {
		for range random.IntN(6) {
			if random.IntN(2) == 0 {
				words[i] += parts[random.IntN(len(parts))]
			} else {
				words[i] += string([]byte{byte(1 + random.IntN(255))})
			}
		}
	}
	return words
}

func throughBash(t *testing.T, bash, locale string, list [][]string) {
	t.Helper()
	const script = `for q; do eval "set -- $q"; printf '%s\0' "$#" "$@"; done`
	args := []string{"--norc", "--noprofile", "-c", script, "bash"}
	var want bytes.Buffer
	for _, argv := range list {
		args = append(args, Quote(argv))
		fmt.Fprintf(&want, "%d\x00", len(argv))
		for _, word := range argv {
			want.WriteString(word + "\x00")
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, args...)
	cmd.Env = []string{"LC_ALL=" + locale}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s", locale, err, stderr.String())
	}
	if bytes.Equal(got, want.Bytes()) {
		return
	}
	if len(list) > 1 {
		throughBash(t, bash, locale, list[:len(list)/2])
		throughBash(t, bash, locale, list[len(list)/2:])
		return
	}
	t.Errorf("%s: %q as %s is read as %q", locale, list[0], args[len(args)-1], got)
}

// TestQuoteCommand: the whole line runs the command again, even if its name looks like
// an assignment.
func TestQuoteCommand(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash: ", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"plain", "A=b", "two words", "it's"} {
		program := "#!" + bash + "\nprintf '%s\\0' \"${0##*/}\" \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
		argv := []string{name, "A=b", "", "a\nb"}
		cmd := exec.CommandContext(t.Context(), bash, "-c", Quote(argv))
		cmd.Env = []string{"PATH=" + dir}
		got, err := cmd.CombinedOutput()
		if want := strings.Join(argv, "\x00") + "\x00"; err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", strconv.Quote(name), got, err)
		}
	}
}
