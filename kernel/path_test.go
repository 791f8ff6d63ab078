package kernel

import (
	"slices"
	"strings"
	"testing"
)

func pathTexts(p string) []string {
	got := []string{}
	for _, f := range pathFaults(p) {
		text := f.code
		if f.code == FindPathControl {
			text += " " + f.value
		}
		got = append(got, text)
	}
	return got
}

func TestPathVectors(t *testing.T) {
	for _, v := range detectVectors(t, "path.json", 20, 20) {
		checkVector(t, v, pathTexts(v.Path))
		checkPath(t, v.Path)
	}
}

// TestControlPathVariants proves for every published control path that it is
// found at any depth, in any case, and with file names beneath it.
func TestControlPathVariants(t *testing.T) {
	for _, control := range controlPaths {
		title := strings.ToUpper(control)
		for _, p := range []string{control, title, "a/b/" + control, control + "/x/y", "./" + title + "//x", "a\\" + strings.ReplaceAll(control, "/", "\\"),
			strings.ReplaceAll(control, "fi", "\ufb01"), strings.ReplaceAll(control, "s", "\u017f"), strings.ReplaceAll(title, "K", "\u212a"),
			"a/" + control + " ", "a/" + control + "...", "a/\u200d" + control} {
			if got, ok := controlPath(strings.FieldsFunc(p, isSlash)); !ok || got != control {
				t.Errorf("%q: got %q, want %q", p, got, control)
			}
		}
		for _, p := range []string{control + "x", "x" + control} {
			if got, ok := controlPath(strings.FieldsFunc(p, isSlash)); ok && got == control {
				t.Errorf("%q falls into %q", p, got)
			}
		}
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "././.": "", "a": "a", "./a//b": "a/b", "a/./b/": "a/b", "a/../b": "a/../b", "..": "..",
		"/": "/", "/a": "/a", "//a//b": "/a/b", "/.": "/", "a/...": "a/...", `a\.\b`: `a\.\b`, "\xff/./\xff": "\xff/\xff",
	} {
		if got := CleanPath(in); got != want {
			t.Errorf("CleanPath(%q) = %q, want %q", in, got, want)
		}
	}
}

// checkPath checks what holds for every path.
func checkPath(t *testing.T, p string) {
	t.Helper()
	clean := CleanPath(p)
	if again := CleanPath(clean); again != clean {
		t.Errorf("CleanPath(%q) = %q, and of that %q", p, clean, again)
	}
	order := []string{FindPathAbsolute, FindPathTraversal, FindPathBackslash, FindPathCharacter, FindPathForm, FindPathReserved, FindPathControl}
	last := -1
	faults := pathFaults(p)
	for _, f := range faults {
		at := slices.Index(order, f.code)
		if at <= last {
			t.Errorf("%q: %s out of order or twice", p, f.code)
		}
		last = at
	}
	if len(faults) == 0 && (clean == "" || strings.HasPrefix(clean, "/") || slices.Contains(strings.Split(clean, "/"), "..")) {
		t.Errorf("%q has no fault and leaves the tree", p)
	}
}
