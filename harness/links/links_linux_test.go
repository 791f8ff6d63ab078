package links

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// site returns a folder with the folders tree and outside, and links in both:
//
//	tree/in -> sub          tree/out -> ../outside    tree/loop -> loop
//	tree/sub/deep/          tree/gone -> nothing      outside/back -> SITE/tree/sub
func site(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.MkdirAll(dir+"/tree/sub/deep", 0o755), os.Mkdir(dir+"/outside", 0o755),
		os.Symlink("sub", dir+"/tree/in"), os.Symlink("../outside", dir+"/tree/out"), os.Symlink("loop", dir+"/tree/loop"),
		os.Symlink("nothing", dir+"/tree/gone"), os.Symlink(dir+"/tree/sub", dir+"/outside/back"),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFollow: links are replaced anywhere in a path, and the target need not exist.
func TestFollow(t *testing.T) {
	dir := site(t)
	for name, want := range map[string]string{
		"tree/sub": "tree/sub", "tree/./sub/": "tree/sub", "tree/in": "tree/sub", "tree/in/deep": "tree/sub/deep",
		"tree/out/back/deep": "tree/sub/deep", "tree/gone/x": "tree/nothing/x", "absent/x": "absent/x", "tree/loop": "tree/loop",
	} {
		if got := Follow(dir + "/" + name); got != filepath.Join(dir, want) {
			t.Errorf("%s: %q, want %q", name, got, filepath.Join(dir, want))
		}
	}
	t.Chdir(dir)
	if got := Follow("tree/in/deep"); got != "tree/sub/deep" {
		t.Errorf("a relative path: %q", got)
	}
}

// TestFollowEnds: after maxLinks links Follow stops.
func TestFollowEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range maxLinks + 1 {
		if err := os.Symlink(strconv.Itoa(i+1), filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	for from, want := range map[int]int{1: maxLinks + 1, 0: maxLinks} {
		if got := Follow(filepath.Join(dir, strconv.Itoa(from))); got != filepath.Join(dir, strconv.Itoa(want)) {
			t.Errorf("from %d: %q, want %d", from, got, want)
		}
	}
}

// TestPlace: links are followed, except for those beneath a guarded folder.
func TestPlace(t *testing.T) {
	dir := site(t)
	tree := []string{dir + "/tree"}
	for _, tc := range []struct {
		name    string
		within  []string
		want    string
		planted string
	}{
		{"tree/sub/deep", tree, "tree/sub/deep", ""},
		{"tree/new/./file", tree, "tree/new/file", ""},
		{"tree/in/deep", nil, "tree/sub/deep", ""},
		{"tree/in/deep", tree, "", "tree/in"},
		{"tree/gone", nil, "tree/nothing", ""},
		{"tree/gone", tree, "", "tree/gone"},
		{"tree/in/deep", []string{"/"}, "", "tree/in"},
		{"outside/back/deep", tree, "tree/sub/deep", ""},
		{"outside/back/../in", tree, "", "tree/in"},
		{"outside/back/../in", nil, "tree/sub", ""}, // .. leads out of the target of a link
		{"tree/out/x", []string{dir + "/outside"}, "outside/x", ""},
		{"tree/out/back", []string{dir + "/elsewhere", dir + "/outside"}, "", "outside/back"},
		{"tree/sub/../sub", tree, "tree/sub", ""},
		{"trees/x", []string{dir + "/tre"}, "trees/x", ""},
	} {
		got, err := Place(dir+"/"+tc.name, tc.within)
		var planted *PlantedError
		switch {
		case tc.planted != "":
			if !errors.As(err, &planted) || planted.Link != filepath.Join(dir, tc.planted) || got != "" {
				t.Errorf("%s within %q: %q, %v, want the link %q", tc.name, tc.within, got, err, tc.planted)
			}
		case err != nil || got != filepath.Join(dir, tc.want):
			t.Errorf("%s within %q: %q, %v, want %q", tc.name, tc.within, got, err, tc.want)
		}
	}
	var pe *fs.PathError
	if got, err := Place(dir+"/tree/loop", nil); !errors.Is(err, syscall.ELOOP) || !errors.As(err, &pe) || pe.Path != dir+"/tree/loop" {
		t.Errorf("a loop: %q, %v", got, err)
	}
	t.Chdir(dir + "/tree")
	if got, err := Place("../tree/sub", tree); err != nil || got != dir+"/tree/sub" {
		t.Errorf("a relative path: %q, %v", got, err)
	}
}

// TestOpenGuarded: a folder beneath a guarded one is opened name by name, without links.
func TestOpenGuarded(t *testing.T) {
	dir := site(t)
	tree := []string{dir + "/tree"}
	if err := os.WriteFile(dir+"/tree/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		within []string
		same   string
		link   string
	}{
		"tree":          {tree, "tree", ""},
		"tree/sub/deep": {tree, "tree/sub/deep", ""},
		"tree/in":       {tree, "", "tree/in"},
		"tree/in/deep":  {tree, "", "tree/in"},
		"tree/out":      {[]string{dir + "/outside"}, "outside", ""},
		"tree/gone":     {tree, "", "tree/gone"},
		"tree/absent":   {tree, "", ""},
		"tree/file":     {tree, "", ""},
	} {
		root, err := OpenGuarded(dir+"/"+name, tc.within)
		var planted *PlantedError
		if errors.As(err, &planted) != (tc.link != "") || planted != nil && planted.Link != filepath.Join(dir, tc.link) {
			t.Errorf("%s: %v, want the link %q", name, err, tc.link)
		}
		if err != nil {
			if tc.same != "" || root != nil {
				t.Errorf("%s: %v, %v", name, root, err)
			}
			continue
		}
		opened, errA := root.Stat(".")
		want, errB := os.Stat(filepath.Join(dir, tc.same))
		if err := errors.Join(errA, errB, root.Close()); err != nil || tc.same == "" || !os.SameFile(opened, want) {
			t.Errorf("%s is not %q: %v", name, tc.same, err)
		}
	}
}
