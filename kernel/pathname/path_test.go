package pathname

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/specs/vectors/detect"
)

func pathTexts(p string) []string {
	got := []string{}
	for _, f := range Faults(p) {
		text := f.Code
		if f.Code == finding.PathControl {
			text += " " + f.Value
		}
		got = append(got, text)
	}
	return got
}

func TestPathVectors(t *testing.T) {
	for _, v := range detect.Read(t, "path.json", 20, 20) {
		v.Check(t, pathTexts(v.Path))
		checkPath(t, v.Path)
	}
}

// TestControlPathVariants proves that every published control path is found at any
// depth, in any case, and with file names beneath it.
func TestControlPathVariants(t *testing.T) {
	for _, control := range Tables()["control_paths"] {
		title := strings.ToUpper(control)
		for _, p := range []string{control, title, "a/b/" + control, control + "/x/y", "./" + title + "//x", "a\\" + strings.ReplaceAll(control, "/", "\\"),
			strings.ReplaceAll(control, "fi", "\ufb01"), strings.ReplaceAll(control, "s", "\u017f"), strings.ReplaceAll(title, "K", "\u212a"),
			"a/" + control + " ", "a/" + control + "...", "a/\u200d" + control} {
			if got, _ := find(appendFolded(nil, strings.FieldsFunc(p, isSlash))); got != control {
				t.Errorf("%q: got %q, want %q", p, got, control)
			}
		}
		for _, p := range []string{control + "x", "x" + control} {
			if got, _ := find(appendFolded(nil, strings.FieldsFunc(p, isSlash))); got == control {
				t.Errorf("%q falls into %q", p, got)
			}
		}
	}
}

// TestPathsAreSorted: near finds every path of the list, for each stands in the row of its
// first character, and rows are sorted. Every path is folded, and has one or two segments.
func TestPathsAreSorted(t *testing.T) {
	for first, row := range paths {
		before := ""
		for _, k := range row {
			name := strings.TrimPrefix(k.path, ".")
			stem := name[:min(len(name), shortStem)]
			if int(name[0]) != first || stem < before {
				t.Errorf("%s is in the wrong row, or behind %s", k.path, before)
			}
			before = stem
			segments := strings.Split(k.path, "/")
			if len(segments) > 2 || slices.ContainsFunc(segments, func(seg string) bool { return seg == "" || FoldSegment(seg) != seg || strings.Contains(seg, "~") }) {
				t.Errorf("%q is not folded, or has the wrong number of segments", k.path)
			}
		}
	}
}

// TestControlPathsAreFound: for any path, find finds the same as a comparison with
// every control path in turn.
func TestControlPathsAreFound(t *testing.T) {
	controlPaths := Tables()["control_paths"]
	same := func(seg, control string) bool {
		tilde := strings.IndexByte(seg, '~')
		if seg == control || tilde < 1 || tilde+1 >= len(seg) || seg[tilde+1] < '1' || seg[tilde+1] > '9' {
			return seg == control
		}
		stem, ext := strings.TrimPrefix(control, "."), ""
		if dot := strings.LastIndexByte(stem, '.'); dot >= 0 {
			stem, ext = stem[:dot], stem[dot:]
		}
		if control[0] != '.' && len(stem) <= 8 && len(ext) <= 4 {
			return false
		}
		return seg[:tilde] == stem[:min(6, len(stem))] && seg[tilde+2:] == ext[:min(4, len(ext))]
	}
	find := func(path string) (found string, leads bool) {
		var folded []string
		segments := strings.FieldsFunc(path, isSlash)
		for _, seg := range segments {
			if seg = FoldSegment(seg); seg != "" {
				folded = append(folded, seg)
			}
		}
		for i := range folded {
			for _, control := range controlPaths {
				head, tail, two := strings.Cut(control, "/")
				if found == "" && same(folded[i], head) && (!two || i+1 < len(folded) && same(folded[i+1], tail)) {
					found = control
				}
			}
		}
		for _, control := range controlPaths {
			head, _, two := strings.Cut(control, "/")
			leads = leads || two && len(segments) > 0 && same(FoldSegment(segments[len(segments)-1]), head)
		}
		return found, leads
	}
	parts := []string{"", ".", "..", "a", "~", "~1", "a~1", "~1~1", "1", "0", ".y", ".yml", ".yam", " ", ":", "\u017f", "\ufb01", "\u200d"}
	for _, control := range controlPaths {
		for seg := range strings.SplitSeq(control, "/") {
			bare := strings.TrimPrefix(seg, ".")
			parts = append(parts, seg, strings.ToUpper(seg), bare[:min(6, len(bare))], bare[:min(6, len(bare))]+"~1", seg[strings.LastIndexByte(seg, '.')+1:])
		}
	}
	pick, hits, leading := rand.New(rand.NewPCG(7, 8)), 0, 0
	for range 20000 {
		var b strings.Builder
		for range 1 + pick.IntN(6) {
			b.WriteString(parts[pick.IntN(len(parts))])
			if pick.IntN(2) == 0 {
				b.WriteByte("/\\"[pick.IntN(2)])
			}
		}
		p := b.String()
		got := Inspect(p)
		found, leads := find(p)
		if got.Control != found || got.Leads != leads {
			t.Fatalf("%q: control %q, leads %t; one by one %q, %t", p, got.Control, got.Leads, found, leads)
		}
		if found != "" {
			hits++
		}
		if leads {
			leading++
		}
	}
	if hits < 2000 || leading < 100 {
		t.Errorf("only %d paths lead into a control path, and %d to one", hits, leading)
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "././.": "", "a": "a", "./a//b": "a/b", "a/./b/": "a/b", "a/../b": "a/../b", "..": "..",
		"/": "/", "/a": "/a", "//a//b": "/a/b", "/.": "/", "a/...": "a/...", `a\.\b`: `a\.\b`, "\xff/./\xff": "\xff/\xff",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// checkPath checks the properties of every path.
func checkPath(t *testing.T, p string) {
	t.Helper()
	clean := Clean(p)
	if again := Clean(clean); again != clean {
		t.Errorf("Clean(%q) = %q, and of that %q", p, clean, again)
	}
	order := []string{finding.PathAbsolute, finding.PathTraversal, finding.PathBackslash, finding.PathCharacter, finding.PathForm, finding.PathReserved, finding.PathControl, finding.AgentPath}
	last := -1
	faults := Faults(p)
	for _, f := range faults {
		at := slices.Index(order, f.Code)
		if at <= last {
			t.Errorf("%q: %s out of order or twice", p, f.Code)
		}
		last = at
	}
	if len(faults) == 0 && (clean == "" || strings.HasPrefix(clean, "/") || slices.Contains(strings.Split(clean, "/"), "..")) {
		t.Errorf("%q has no fault and leaves the tree", p)
	}
}

func TestInspectOutput(t *testing.T) {
	for _, c := range []struct {
		path, fault, control string
		leads                bool
	}{
		{path: "out/a"},
		{path: "context/a"},
		{path: "calls"},
		{path: "out/caf\u00e9"},
		{path: "out/cafe\u0301", fault: finding.PathForm},
		{path: "out/a\nb", fault: finding.PathCharacter},
		{path: "out/\xff", fault: finding.PathCharacter},
		{path: "../a", fault: finding.PathTraversal},
		{path: "/a", fault: finding.PathAbsolute},
		{path: "", fault: finding.PathForm},
		{path: "a/aux.c", fault: finding.PathForm},
		{path: ".git/hooks/x", control: ".git"},
		{path: "a/.GIT/config", control: ".git"},
		{path: "a/.git /x", fault: finding.PathForm, control: ".git"},
		{path: ".fiador", control: ".fiador"},
		{path: ".github/workflows", control: ".github/workflows"},
		{path: ".github", leads: true},
		{path: "a/.GitLab", leads: true},
		{path: ".github/a"},
		{path: ".githubs"},
	} {
		got := Inspect(c.path)
		if got.Fault != c.fault || got.Control != c.control || got.Leads != c.leads {
			t.Errorf("Inspect(%q) = %+v", c.path, got)
		}
		if strings.Count(got.Folded, "/") != strings.Count(c.path, "/") {
			t.Errorf("Inspect(%q).Folded = %q", c.path, got.Folded)
		}
	}
	for _, twins := range [][]string{{"Out/A", "out/a"}, {"\u03c3", "\u03c2", "\u03a3"}, {"stra\u00dfe", "STRASSE"}, {"\u212a", "k"}, {"\u00b5", "\u03bc"}, {"\ufb01", "FI"}} {
		for _, p := range twins[1:] {
			if a, b := Inspect(twins[0]).Folded, Inspect(p).Folded; a != b {
				t.Errorf("%q and %q are folded to %q and %q", twins[0], p, a, b)
			}
		}
	}
	if a, b := Inspect("a").Folded, Inspect("\u00e4").Folded; a == b {
		t.Errorf("a and \u00e4 are both folded to %q", a)
	}
}

// TestPathsAreLinear: the detector is linear in long paths.
func TestPathsAreLinear(t *testing.T) {
	detect.Slowly(t, func(s string) { Faults(s) })
}

func FuzzPath(f *testing.F) {
	for _, v := range detect.Read(f, "path.json", 1, 1) {
		f.Add(v.Path)
	}
	f.Add("../\xff\x00/")
	f.Fuzz(checkPath)
}
