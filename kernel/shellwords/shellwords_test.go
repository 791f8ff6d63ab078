package shellwords

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type vector struct {
	Name     string `json:"name"`
	Line     string `json:"line"`
	Dir      string `json:"dir"`
	Commands []struct {
		Argv  []string `json:"argv"`
		Piped bool     `json:"piped"`
	} `json:"commands"`
}

// readVectors returns the vectors of specs/vectors/shell.
func readVectors(t testing.TB) []vector {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/shell/lines.json")
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("byte %d is not plain ASCII", i)
	}
	var f struct{ Vectors []vector }
	if err := json.Unmarshal(src, &f); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, v := range f.Vectors {
		if v.Name == "" || names[v.Name] {
			t.Errorf("%q stands twice, or has no name", v.Name)
		}
		names[v.Name] = true
	}
	return f.Vectors
}

// TestVectors: Split agrees with the vectors, and the shells of this machine agree too.
func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		want := Line{Dir: v.Dir}
		for _, c := range v.Commands {
			want.Commands = append(want.Commands, Command{c.Argv, c.Piped})
		}
		if l, ok := Split(v.Line); ok != (v.Commands != nil) || !reflect.DeepEqual(l, want) {
			t.Errorf("%s: %q is split as %#v, %v", v.Name, v.Line, l, ok)
		}
	}
}

// TestShells: bash, dash and zsh start the commands that Split finds in the vectors and in
// random lines.
func TestShells(t *testing.T) {
	running := startShells(t)
	accepted := 0
	try := func(line string) {
		l, ok := Split(line)
		if !ok {
			return
		}
		accepted++
		for _, s := range running {
			s.check(t, line, l)
		}
	}
	for _, v := range readVectors(t) {
		try(v.Line)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		try(randomLine(random))
	}
	for _, s := range running {
		if s.ran < 100 {
			t.Errorf("%s ran %d lines of %d", shells[s.kind].name, s.ran, accepted)
		}
	}
}

// randomLine returns a line of parts that are special to shells or that surround those.
func randomLine(random *rand.Rand) string {
	parts := strings.Split("a|b|./c|'d e'|\"f\"|=|''|\"\"|'\n'|'|\"|echo|true|false|test -f|exit|cd|cd a &&|cd /a &&|;|&&|\n|/bin/x|if|'\\'|\"'\"|'\"'|%|+|-|:|,|@|.|..|/|_|0|1|'$x'|'!'|'é'|~|A=b|\t|&|#|in|{|'*'", "|")
	parts = append(parts, "|", "||", " ", " ", " ", " ")
	var b strings.Builder
	for range 1 + random.IntN(12) {
		b.WriteString(parts[random.IntN(len(parts))])
		if random.IntN(2) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// FuzzSplit: Split is total, and bash, dash and zsh start what it finds.
func FuzzSplit(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.Line)
	}
	running := startShells(f)
	f.Fuzz(func(t *testing.T, line string) {
		l, ok := Split(line)
		if !ok {
			if l.Dir != "" || l.Commands != nil {
				t.Errorf("%q is not split, and has %#v", line, l)
			}
			return
		}
		again(t, line, l)
		sum := 0 // one shell each, since starting processes is slow
		for i := range len(line) {
			sum += int(line[i])
		}
		running[sum%len(running)].check(t, line, l)
	})
}

// again checks that the quoted words of a line are split alike, where no word has a quote
// that cannot stand in a plain line.
func again(t *testing.T, line string, l Line) {
	t.Helper()
	var b strings.Builder
	if l.Dir != "" {
		b.WriteString("cd " + Quote(l.Dir) + " && ")
	}
	for i, c := range l.Commands {
		if i > 0 && c.Piped {
			b.WriteString(" | ")
		} else if i > 0 {
			b.WriteString(" && ")
		}
		for _, word := range c.Argv {
			if strings.Contains(word, "'") {
				return
			}
			b.WriteString(Quote(word) + " ")
		}
	}
	if got, ok := Split(b.String()); !ok || !reflect.DeepEqual(got, l) {
		t.Errorf("%q, split and joined as %q, is split as %#v", line, b.String(), got)
	}
}

// TestSplitBytes: every byte in an unquoted word, in single and in double quotes.
func TestSplitBytes(t *testing.T) {
	const outside = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	printable := func(c byte) bool { return c >= ' ' && c <= '~' || c == '\n' || c == '\t' }
	for i := range 256 {
		c := byte(i)
		for _, try := range []struct {
			open string
			may  bool
		}{
			{"", strings.IndexByte(outside, c) >= 0},
			{"'", printable(c) && c != '\''},
			{`"`, printable(c) && strings.IndexByte("\"$`\\!", c) < 0},
		} {
			word := "x" + string([]byte{c}) + "y"
			l, ok := Split("a " + try.open + word + try.open)
			as := ok && reflect.DeepEqual(l, Line{Commands: []Command{{Argv: []string{"a", word}}}})
			if as != try.may {
				t.Errorf("%q between %q: %#v, %v", c, try.open, l, ok)
			}
		}
	}
}

// TestSplitBounds: the largest lines, and those that are one byte or one command larger.
func TestSplitBounds(t *testing.T) {
	commands := strings.Repeat("a;", maxCommands)
	for _, c := range []struct {
		line string
		want bool
	}{
		{"a " + strings.Repeat("b", maxLine-2), true},
		{"a " + strings.Repeat("b", maxLine-1), false},
		{"a" + strings.Repeat(" b", maxLine/2-1), true},
		{"a '" + strings.Repeat("é", maxLine/2-2) + "'", true},
		{commands, true},
		{commands + "a", false},
		{"cd a &&" + strings.Repeat("a|", maxCommands-1) + "a", true},
		{"a '\xff'", false},
		{"a '\xc3'", false},
		{"a '\xed\xa0\x80'", false},
	} {
		if l, ok := Split(c.line); ok != c.want {
			t.Errorf("%.20q of %d bytes: %d commands, %v", c.line, len(c.line), len(l.Commands), ok)
		}
	}
}

// TestQuote: Quote leaves plain words as they are, and every shell reads each word back.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "a": "a", "./a-b_c.d:e,f@g%h+i/0": "./a-b_c.d:e,f@g%h+i/0", "a=b": "'a=b'", "=ls": "'=ls'", "if": "'if'", "time": "'time'",
		"it's": `'it'\''s'`, "'": `''\'''`, "a b": "'a b'", "$x": "'$x'", "~": "'~'", "é": "'é'", "a\nb": "'a\nb'", "\\": `'\'`, "exec": "exec",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q is quoted as %s", word, got)
		}
	}
	words := []string{"", "=ls", "a=b", "~", "~root", "*", "{a,b}", "''", "'''", "\r", "\x7f", "\x01", "!!", "^a^b", "#", "-n", "\\n", "\u00a0", "\xff"}
	for c := 1; c < 256; c++ {
		words = append(words, string([]byte{byte(c)}), "a"+string([]byte{byte(c)})+"'b")
	}
	words = append(words, strings.Fields(string(keywords+" "+builtins))...)
	script := "set --"
	for _, word := range words {
		script += " " + Quote(word)
	}
	script += "\nprintf '%s\\0' \"$@\""
	for _, name := range []string{"bash", "dash", "zsh"} {
		cmd := exec.CommandContext(t.Context(), name, "-c", script)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		got, err := cmd.Output()
		if cmd.Err != nil {
			t.Logf("%v: it reads no words", cmd.Err)
			continue
		}
		if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(got) != want {
			t.Errorf("%s reads other words: %v\n%q\n%q", name, err, got, want)
		}
	}
}

// TestNames: every keyword, builtin and alias of the shells is one to Split too. And each
// name in the lists is one in some shell, if all three are here.
func TestNames(t *testing.T) {
	split := strings.Fields("echo pwd true false test exit")
	known := strings.Fields(string(keywords + " " + builtins))
	found := map[string]bool{}
	asked := 0
	for _, q := range [][]string{
		{"bash", "-c", "compgen -bk"},
		{"zsh", "-fc", "print -l -- ${(k)builtins} ${(k)reswords} ${(k)aliases}"},
		{"dash", "-c", "for n; do case $(command -V \"$n\" 2>&1) in *builtin | *keyword) echo \"$n\" ;; esac; done", "dash"},
	} {
		if q[0] == "dash" {
			q = slices.Concat(q, known, split)
		}
		cmd := exec.CommandContext(t.Context(), q[0], q[1:]...)
		cmd.Env = []string{"PATH=" + t.TempDir()}
		out, err := cmd.Output()
		if cmd.Err != nil {
			t.Logf("%v: nobody asks it for its names", cmd.Err)
			continue
		}
		names := strings.Fields(string(out))
		if err != nil || len(names) < 30 {
			t.Fatalf("%s: %d names, %v", q[0], len(names), err)
		}
		asked++
		for _, name := range names {
			found[name] = true
			_, ok := Split("'" + name + "'")
			_, bare := Split(name + " x")
			if (ok || bare) && !slices.Contains(split, name) {
				t.Errorf("%s has the name %s, and Split splits it", q[0], name)
			}
		}
	}
	for _, name := range known {
		if asked == 3 && !found[name] {
			t.Errorf("no shell has the name %s", name)
		}
	}
}
