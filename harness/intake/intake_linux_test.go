package intake

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/result"
)

// enter makes a folder with empty files and with links, and works in it. A text is the
// target of a link; a file has none.
func enter(t *testing.T, entries map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, target := range entries {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(name, nil, 0o644)
		if target != "" {
			err = errors.Join(os.Remove(name), os.Symlink(target, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the names of files, with ! before each that has an error.
func names(t *testing.T, list []File) string {
	t.Helper()
	var out []string
	for _, f := range list {
		name := f.Name
		if f.Err != nil {
			name = "!" + name
			var re *result.RunError
			if !errors.As(f.Err, &re) || re.Code != result.CodeUnreadable || !strings.Contains(re.Message, f.Name) {
				t.Errorf("%s: %v", f.Name, f.Err)
			}
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// TestFind: which files the arguments name, and in which order.
func TestFind(t *testing.T) {
	enter(t, map[string]string{
		"a.json": "", "b.jsonl": "", "notes.txt": "", "-": "", "[a].json": "", "in/x.json": "", "in/y.NDJSON": "", "in/z.txt": "",
		"in/deep/w.json": "", "in/deep/er/v.json": "", "odd.json/inside.json": "",
		"links/file.json": "../a.json", "links/gone.json": "nothing", "links/note": "../notes.txt", "links/folder": "../in", "links/dead": "nothing",
		"linked.json": "a.json",
	})
	for args, want := range map[string]string{
		"a.json":                     "a.json",
		"notes.txt":                  "notes.txt", // a file that is named is taken, whatever its name
		"absent.json":                "absent.json",
		"b.jsonl a.json b.jsonl":     "b.jsonl a.json",
		"a.json ./a.json .//a.json":  "a.json",
		"a.json in/../a.json":        "a.json in/../a.json", // in may be a link
		"- -":                        "-",
		"in":                         "in/deep/er/v.json in/deep/w.json in/x.json in/y.NDJSON",
		"in/x.json in":               "in/x.json in/deep/er/v.json in/deep/w.json in/y.NDJSON",
		"links":                      "!links/dead !links/file.json !links/folder !links/gone.json",
		"linked.json":                "linked.json",
		"*.txt":                      "notes.txt",
		"in/*.json":                  "in/x.json",
		"in/**/*.json":               "in/deep/er/v.json in/deep/w.json in/x.json",
		"**/[vw].json":               "in/deep/er/v.json in/deep/w.json !links/folder",
		"in/*/[!x].json":             "in/deep/w.json",
		"in/dee*":                    "in/deep/er/v.json in/deep/w.json",
		"l*d.json":                   "linked.json",
		"links/*.json":               "links/file.json !links/gone.json",
		"[a].json":                   "[a].json a.json",
		"?":                          "./-",
		"odd.*":                      "odd.json/inside.json",
		"o?d.json/* a.json odd.json": "odd.json/inside.json a.json",
	} {
		list, err := Find(strings.Fields(args))
		if got := names(t, list); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", args, got, err, want)
		}
	}
}

// TestFindNothing: an argument that names no file is an error, and so is a pattern that
// cannot be read.
func TestFindNothing(t *testing.T) {
	enter(t, map[string]string{"a.json": "", "empty/notes.txt": ""})
	for _, arg := range []string{"empty", "*.jsonl", "absent/**", "empty/*.json"} {
		var re *result.RunError
		if list, err := Find([]string{"a.json", arg}); !errors.As(err, &re) || re.Code != result.CodeUnreadable || !strings.Contains(re.Message, "no intent found") || list != nil {
			t.Errorf("%s: %v, %v", arg, list, err)
		}
	}
	var bad *PatternError
	if list, err := Find([]string{"a.json", "in/[a"}); !errors.As(err, &bad) || err.Error() != `pattern "in/[a" cannot be read` || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// TestUnreadableFolder: what cannot be read and could hold an intent is found as an error.
func TestUnreadableFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	enter(t, map[string]string{"in/a.json": "", "in/shut/b.json": ""})
	if err := os.Chmod("in/shut", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod("in/shut", 0o755) })
	for arg, want := range map[string]string{
		"in": "in/a.json !in/shut", "in/**/*.json": "in/a.json !in/shut", "in/*.json": "in/a.json", "in/s*": "!in/shut",
	} {
		list, err := Find([]string{arg})
		if got := names(t, list); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", arg, got, err, want)
		}
	}
}

// TestLines: which files have one intent per line.
func TestLines(t *testing.T) {
	var got []string
	for _, name := range []string{"-", "a.json", "a.jsonl", "a.NDJSON", "jsonl", "a.jsonl.json", "./-"} {
		if (File{Name: name}).Lines() {
			got = append(got, name)
		}
	}
	if want := []string{"-", "a.jsonl", "a.NDJSON"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNames: by its name alone, an argument names the files that it finds on a disk.
func TestNames(t *testing.T) {
	entries := map[string]string{"a.json": "", "b.jsonl": "", "notes.txt": "", "[a].json": "", "in/x.json": "", "in/z.txt": "", "in/deep/w.json": "", "in/deep/er/v.JSON": "", "odd.json/inside.json": ""}
	enter(t, entries)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range strings.Fields(`a.json ./a.json notes.txt absent.json in in/ ./in/deep in/deep/.. . * ** *.json in/*.json in/**/*.json **/[vw].* **/[!w].* in/d* [a].json [!b].json o?d.json odd.json *.txt in/z.txt in/** in/deep/**`) {
		list, err := Find([]string{arg})
		var want, got []string
		for _, f := range list {
			if _, err := os.Lstat(f.Name); err == nil {
				want = append(want, filepath.Clean(f.Name))
			}
		}
		for name := range entries {
			if Names(arg, name) {
				got = append(got, name)
			}
			if abs := filepath.Join(here, arg); !strings.Contains(arg, "..") && Names(arg, name) != Names(abs, filepath.Join(here, name)) {
				t.Errorf("%s and %s are not alike for %s", arg, abs, name)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s names %q, and finds %q, %v", arg, got, want, err)
		}
	}
	for _, c := range [][2]string{{"..", "../../x.json"}, {"../..", "../x.json"}, {".", "../x.json"}, {"in", "inside/x.json"}, {"in", "../in/x.json"}, {"*", "../x.json"}, {"**/*.json", "../x.json"}, {"../*", "../../x.json"}} {
		if Names(c[0], c[1]) {
			t.Errorf("%s names %s", c[0], c[1])
		}
	}
}

// TestFindSince: an argument may name files that are gone, and a link in the place of their folder
// is an error.
func TestFindSince(t *testing.T) {
	enter(t, map[string]string{"in/a.json": "", "now": "in"})
	earlier := func(names ...string) func(string) []string {
		return func(arg string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !Names(arg, name) })
		}
	}
	before := earlier("in/a.json", "in/b.json", "old/c.json", "d.json", "now/e.json")
	for args, want := range map[string]string{
		"in":         "in/a.json - in/b.json",
		"in/*":       "in/a.json - in/b.json",
		"old":        " - old/c.json",
		"old/*.json": " - old/c.json",
		"d.json old": " - d.json old/c.json",
		"in ?n":      "in/a.json - in/b.json",
		"now/*":      "!now - ",
	} {
		list, gone, err := FindSince(strings.Fields(args), before)
		if got := names(t, list) + " - " + strings.Join(gone, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", args, got, err, want)
		}
	}
	for _, arg := range []string{"nowhere/*", "x*"} {
		var re *result.RunError
		if list, _, err := FindSince([]string{arg}, before); !errors.As(err, &re) || !strings.Contains(re.Message, "no intent found") {
			t.Errorf("%s: %v, %v", arg, list, err)
		}
	}
	if list, gone, err := FindSince([]string{"nowhere"}, before); len(list) != 1 || gone != nil || err != nil {
		t.Errorf("a file that is not there is not passed over: %v, %v, %v", list, gone, err)
	}
}
