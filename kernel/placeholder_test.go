package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// detectVector is one line of a file in specs/vectors/detect. Which members it
// has depends on the detector.
type detectVector struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`
	A      string   `json:"a"`
	B      string   `json:"b"`
	Path   string   `json:"path"`
	Argv   []string `json:"argv"`
	Stdin  bool     `json:"stdin"`
	Expect []string `json:"expect"`
}

// detectVectors reads one file, and checks what holds for all of them: plain
// ASCII, unique names, and enough lines of both kinds.
func detectVectors(t testing.TB, name string, fire, quiet int) []detectVector {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "specs", "vectors", "detect", name))
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", name, i)
	}
	var list []detectVector
	if err := json.Unmarshal(src, &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	fires := 0
	for _, v := range list {
		if seen[v.Name] {
			t.Errorf("%s: two vectors are called %q", name, v.Name)
		}
		seen[v.Name] = true
		if v.Expect == nil {
			t.Errorf("%s: %s expects nothing, not even []", name, v.Name)
		}
		if len(v.Expect) > 0 {
			fires++
		}
	}
	if fires < fire || len(list)-fires < quiet {
		t.Errorf("%s: %d vectors fire and %d do not, want %d and %d", name, fires, len(list)-fires, fire, quiet)
	}
	return list
}

func checkVector(t *testing.T, v detectVector, got []string) {
	t.Helper()
	if !slices.Equal(got, v.Expect) {
		t.Errorf("%s: got %q, want %q", v.Name, got, v.Expect)
	}
}

func TestPlaceholderVectors(t *testing.T) {
	for _, v := range detectVectors(t, "placeholder.json", 20, 40) {
		got := placeholders(v.Text)
		checkVector(t, v, got)
		for _, text := range got {
			if !strings.Contains(v.Text, text) {
				t.Errorf("%s: %q is not in the text", v.Name, text)
			}
		}
	}
}

// TestDetectorsAreLinear gives every detector long text made to be slow. The
// bound is far above what a linear detector needs, and far below what a
// quadratic one would take.
func TestDetectorsAreLinear(t *testing.T) {
	const size = 256 << 10
	units := []string{"a", " ", "<", "<a", "</a", "<a>", "`", "`` ` ", "?", "? ", "{{", "{{a", "[", "[insert ", "to be ", "TBD ", "TODO and ",
		"\n", ".", "stateless ", "not ", "a.b ", "x, ", "\"", "\x00", "\xff", "\u202e", "é", "/", "../", ".git/", "~1", "-", "-e", ": ", "lorem ", "fill in "}
	for _, unit := range units {
		s := strings.Repeat(unit, size/len(unit))
		start := time.Now()
		placeholders(s)
		contradiction(s, s+"x")
		pathFaults(s)
		commandFaults([]string{s}, true, &budget{maxSteps})
		commandFaults([]string{"perl", "-" + s, s}, true, &budget{maxSteps})
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%q repeated took %v", unit, took)
		}
	}
	for _, unit := range []string{"-x", "npx", "env", "find", "-exec", "node", "a", "--", "-", "inspect", "--title"} {
		argv := slices.Repeat([]string{unit}, 50_000)
		for _, name := range []string{"node", "npx", "env", "find", "npm", "perl", "awk", "bun", "yarn"} {
			start := time.Now()
			commandFaults(append([]string{name}, argv...), true, &budget{maxSteps})
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%q and many %q took %v", name, unit, took)
			}
		}
	}
}

func FuzzDetectors(f *testing.F) {
	for _, name := range []string{"placeholder.json", "contradiction.json", "path.json", "command.json"} {
		for _, v := range detectVectors(f, name, 1, 1) {
			f.Add(v.Text+v.Path+strings.Join(v.Argv, "\n")+v.A, v.B)
		}
	}
	f.Add("\xff<\xff>`\xff", "../\xff\x00/")
	f.Fuzz(func(t *testing.T, a, b string) {
		found := placeholders(a)
		if !slices.Equal(found, placeholders(a)) {
			t.Error("placeholders are not stable")
		}
		for i, text := range found {
			if !strings.Contains(a, text) || slices.Contains(found[:i], text) {
				t.Errorf("placeholder %q is not in the text, or twice", text)
			}
		}
		forth, ok := contradiction(a, b)
		if back, again := contradiction(b, a); ok != again || forth != back {
			t.Errorf("%q one way, %q the other", forth, back)
		}
		if text, ok := contradiction(a, a); ok {
			t.Errorf("a constraint clashes with itself: %q", text)
		}
		checkPath(t, a)
		argv := strings.Split(a, "\n")
		faults := commandFaults(argv, b != "", &budget{maxSteps})
		if !slices.Equal(faults, commandFaults(argv, b != "", &budget{maxSteps})) {
			t.Error("command faults are not stable")
		}
		for i, f := range faults {
			if f.arg < 0 || f.arg >= len(argv) {
				t.Errorf("argument %d of %d", f.arg, len(argv))
			}
			if i > 0 && commandRank(faults[i-1].code) > commandRank(f.code) {
				t.Errorf("%v before %v", faults[i-1], f)
			}
			if f.code == FindCmdCharacter && (!utf8.ValidString(f.value) || strings.ContainsFunc(f.value, func(r rune) bool { return r < 0x20 || r > 0x7e })) {
				t.Errorf("unsafe value %q", f.value)
			}
		}
	})
}
