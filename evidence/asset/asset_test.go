package asset_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/kernel/trial"
)

// ok fails the test at the first error.
func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// created returns a new version directory and its path.
func created(t testing.TB) (d *asset.Dir, dir string) {
	t.Helper()
	out := t.TempDir()
	d, err := asset.Create(out, "new", "r1")
	ok(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d, filepath.Join(out, "new", "r1")
}

// keep keeps a text and returns its href.
func keep(t testing.TB, d *asset.Dir, kind trial.Kind, id, text string) string {
	t.Helper()
	href, sha, err := d.Keep(kind, id, []byte(text))
	ok(t, err)
	if sha != sum([]byte(text)) {
		t.Fatalf("the hash of %q is %s", text, sha)
	}
	return href
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// tree maps each path beneath a folder to the content of the file, to the target of the link, or
// to "/" for a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(p, dir+string(filepath.Separator)))
		switch {
		case e.IsDir():
			got[name] = "/"
		case e.Type()&fs.ModeSymlink != 0:
			got[name], err = os.Readlink(p)
		case e.Type().IsRegular():
			var b []byte
			b, err = os.ReadFile(p)
			got[name] = string(b)
		default:
			got[name] = e.Type().String()
		}
		return err
	}))
	return got
}

func TestCheckHref(t *testing.T) {
	for href, want := range map[string]bool{
		"run.json": true, "assets/x.txt": true, "a/b/c": true, ".hidden": true, "a..b": true, "assets/...": true,
		"assets/2024-01-01T00:00:00.json": true, "assets/%2e%2e/x": true, "ä/ü": true, "a b": true, "~x": true,
		"": false, ".": false, "..": false, "../x": false, "assets/../x": false, "assets/..": false, "/etc/passwd": false,
		"//host/x": false, "./x": false, "assets/./x": false, "assets//x": false, "assets/": false,
		`assets\x`: false, `..\x`: false, `\\host\x`: false, "C:x": false, "C:/x": false, "c:": false,
		"http://host/x": false, "javascript:alert(1)": false, "data:,x": false, "file:x": false, ":x": false,
		"a\x00b": false, "assets/\x00": false, "\xff": false, "assets/\xc3": false,
	} {
		if got := asset.CheckHref(href); got != want {
			t.Errorf("%q: %v", href, got)
		}
	}
}

// TestNames: names that do not name a file on every system are refused everywhere, and nothing is
// written for them.
func TestNames(t *testing.T) {
	d, dir := created(t)
	before := tree(t, dir)
	long := strings.Repeat("a", 129)
	for _, id := range []string{"../x", "..", ".", ".x", "-x", "_x", "a/b", `a\b`, "a b", "ä", "a\x00", "a:b", "CON", "con", "nul", "COM1", "lpt9", "con.x", "AUX.json", "a.", long, "a\n"} {
		if _, err := asset.Create(filepath.Dir(filepath.Dir(dir)), "new", id); err == nil {
			t.Errorf("Create takes the run %q", id)
		}
		if _, err := asset.Resume(filepath.Dir(filepath.Dir(dir)), "new", id); err == nil {
			t.Errorf("Resume takes the run %q", id)
		}
		if err := d.Write(id+".json", nil); err == nil {
			t.Errorf("Write takes %q", id)
		}
		if _, err := d.Meta(id, 1, nil); err == nil {
			t.Errorf("Meta takes the case %q", id)
		}
		if _, _, err := d.Keep(trial.KindFullBody, id, nil); err == nil {
			t.Errorf("Keep takes the case %q", id)
		}
	}
	for _, name := range []string{"", "x", ".json", "x.txt", "assets/x.json", "run.json/"} {
		if err := d.Write(name, nil); err == nil {
			t.Errorf("Write takes %q", name)
		}
	}
	for _, side := range []string{"", "old", "../new", "NEW"} {
		if _, err := asset.Create(t.TempDir(), side, "r"); err == nil {
			t.Errorf("Create takes the side %q", side)
		}
	}
	if got := tree(t, dir); !reflect.DeepEqual(got, before) {
		t.Errorf("%v, and was %v", got, before)
	}
	for _, id := range []string{"a", "A-1_b.c", "9", "console", "com", "com10", "run", strings.Repeat("a", 128)} {
		ok(t, d.Write(id+".json", []byte("{}\n")))
	}
}

// fill writes a small run.
func fill(t testing.TB, d *asset.Dir) {
	t.Helper()
	keep(t, d, trial.KindFullBody, "b", "same")
	keep(t, d, trial.KindFullBody, "a", "same")
	keep(t, d, trial.KindFullPayload, "a", "same")
	keep(t, d, trial.KindFullBody, "a", "same")
	keep(t, d, trial.KindFullBody, "a", "\xff")
	keep(t, d, trial.KindOther, "", "")
	href, err := d.Meta("a", 2, []byte("{}\n"))
	ok(t, err)
	if href != "assets/a.new.attempt2.meta.json" {
		t.Error(href)
	}
	ok(t, d.Write("run.json", []byte("{1}\n")), d.Write("a.json", []byte("{a}\n")), d.Write("b.json", []byte("{b}\n")))
	ok(t, d.Manifest("2026-01-02T03:04:05Z"))
}

// TestManifest: the manifest has the items in order, and their hashes and sizes are those of the
// files. This test writes the expected text by itself.
func TestManifest(t *testing.T) {
	d, dir := created(t)
	fill(t, d)
	same, bad, none := sum([]byte("same")), sum([]byte("\xff")), sum(nil)
	line := func(href, id, kind, sha string, size int) string {
		owner, quoted := "run", "null"
		if id != "" {
			owner, quoted = id, `"`+id+`"`
		}
		of := sha
		if kind == "failure_meta" {
			of = sum([]byte(href + "\n" + sha)) // two attempts can have one description
		}
		return fmt.Sprintf(`{"asset_id":"%s/%s/%s","case_id":%s,"href":"%s","kind":"%[2]s","sha256":"%[6]s","side":"new","size_bytes":%[7]d}`, owner, kind, of[:16], quoted, href, sha, size)
	}
	lines := []string{
		line("assets/"+bad+".bin", "a", "full_body", bad, 1),
		line("assets/"+none+".txt", "", "other", none, 0),
		line("assets/"+same+".txt", "a", "full_body", same, 4),
		line("assets/"+same+".txt", "a", "full_payload", same, 4),
		line("assets/"+same+".txt", "b", "full_body", same, 4),
		line("assets/a.new.attempt2.meta.json", "a", "failure_meta", sum([]byte("{}\n")), 3),
	}
	href := func(l string) string { return l[strings.Index(l, `"href"`):] }
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(href(a)[:60], href(b)[:60]) })
	want := `{"generated_at":"2026-01-02T03:04:05Z","items":[` + strings.Join(lines, ",") + `],"schema_version":"assets-manifest.v1"}` + "\n"
	if got := tree(t, dir)["assets/manifest.json"]; got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if n := len(tree(t, dir)); n != 9 {
		t.Errorf("%d entries: %v", n, tree(t, dir))
	}
}

// seal computes the seal of a directory by itself.
func seal(t testing.TB, dir string) map[string]string {
	t.Helper()
	want := map[string]string{}
	for name, text := range tree(t, dir) {
		if name == "assets/manifest.json" || !strings.Contains(name, "/") && name != "assets" && name != "run.json" && name != "evaluation.json" && name != "signature.json" {
			want[name] = "sha256:" + sum([]byte(text))
		}
	}
	return want
}

func TestSeal(t *testing.T) {
	d, dir := created(t)
	if _, err := d.Seal(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a manifest: %v", err)
	}
	fill(t, d)
	ok(t, d.Write("evaluation.json", nil), d.Write("signature.json", nil))
	got, err := d.Seal()
	if want := seal(t, dir); err != nil || !reflect.DeepEqual(got, want) || len(want) != 3 {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, name := range []string{".tmp-9", "assets/.tmp-9"} {
		ok(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		if _, err := d.Seal(); err == nil {
			t.Errorf("sealed with %s", name)
		}
		if err := d.Manifest(""); err == nil {
			t.Errorf("a manifest with %s", name)
		}
		ok(t, os.Remove(filepath.Join(dir, name)))
	}
}

// TestExists: what stands at the place of a run stays as it is.
func TestExists(t *testing.T) {
	out := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(out, "new"), 0o755))
	for name, put := range map[string]func(string) error{
		"folder": func(p string) error { return os.Mkdir(p, 0o755) },
		"file":   func(p string) error { return os.WriteFile(p, []byte("old"), 0o600) },
		"link":   func(p string) error { return os.Symlink(t.TempDir(), p) },
		"loose":  func(p string) error { return os.Symlink("nothing", p) },
	} {
		ok(t, put(filepath.Join(out, "new", name)))
		before := tree(t, out)
		if _, err := asset.Create(out, "new", name); !errors.Is(err, asset.ErrExists) || strings.Contains(err.Error(), out) {
			t.Errorf("%s: %v", name, err)
		}
		if got := tree(t, out); !reflect.DeepEqual(got, before) {
			t.Errorf("%s: %v, and was %v", name, got, before)
		}
	}
	for _, name := range []string{"file", "link", "loose", "none"} {
		if _, err := asset.Resume(out, "new", name); err == nil || strings.Contains(err.Error(), out) {
			t.Errorf("resumed %s: %v", name, err)
		}
	}
	if _, err := asset.Resume(out, "new", "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	file := filepath.Join(out, "new", "file")
	if _, err := asset.Create(file, "new", "r"); err == nil {
		t.Error("created in a file")
	}
}

// TestTogether: goroutines that keep the same content leave one file and one item for each case.
func TestTogether(t *testing.T) {
	d, dir := created(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id := fmt.Sprint("c", i%4)
			for j := range 20 {
				_, _, err := d.Keep(trial.KindFullBody, id, fmt.Append(nil, "content ", j))
				if err == nil {
					err = d.Write(id+".json", []byte(id))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	ok(t, d.Manifest(""))
	var m struct{ Items []any }
	got := tree(t, dir)
	ok(t, json.Unmarshal([]byte(got["assets/manifest.json"]), &m))
	if len(m.Items) != 80 || len(got) != 1+20+1+4 {
		t.Errorf("%d items, %d entries", len(m.Items), len(got))
	}
}

// TestResume: a resumed directory has lost its temporary files, and has the manifest and the seal
// of one that nobody stopped. What no case names any more is removed.
func TestResume(t *testing.T) {
	d, dir := created(t)
	out := filepath.Dir(filepath.Dir(dir))
	fill(t, d)
	want := tree(t, dir)
	ok(t, d.Close())
	ok(t, os.WriteFile(filepath.Join(dir, ".tmp-1"), []byte("half"), 0o600), os.WriteFile(filepath.Join(dir, "assets", ".tmp-2"), nil, 0o600))

	d, err := asset.Resume(out, "new", "r1")
	ok(t, err)
	left := sum([]byte("of an attempt that was made again"))
	ok(t, os.WriteFile(filepath.Join(dir, "assets", left+".txt"), []byte("of an attempt that was made again"), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "assets", "a.new.attempt3.meta.json"), []byte("{}"), 0o600))
	same, bad := "assets/"+sum([]byte("same"))+".txt", "assets/"+sum([]byte("\xff"))+".bin"
	ok(t, d.Adopt(trial.KindFullBody, "b", same), d.Adopt(trial.KindFullBody, "a", same), d.Adopt(trial.KindFullPayload, "a", same))
	ok(t, d.Adopt(trial.KindFullBody, "a", bad), d.Adopt(trial.KindFailureMeta, "a", "assets/a.new.attempt2.meta.json"))
	ok(t, d.Adopt(trial.KindOther, "", "assets/"+sum(nil)+".txt"), d.Manifest("2026-01-02T03:04:05Z"))
	if got := tree(t, dir); !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	got, err := d.Seal()
	if err != nil || !reflect.DeepEqual(got, seal(t, dir)) {
		t.Errorf("%v, %v", got, err)
	}
	if text, err := d.Read("a.json", 100); err != nil || string(text) != "{a}\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, href := range []string{"", "run.json", "assets", "assets/", "assets/none", "assets/manifest.json", "assets/.tmp-1", "../r1/" + same, "assets/x/y", "assets/../a.json"} {
		if err := d.Adopt(trial.KindOther, "", href); err == nil {
			t.Errorf("adopted %q", href)
		}
	}
	ok(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(same)), []byte("other"), 0o600))
	if err := d.Adopt(trial.KindFullBody, "a", same); err == nil {
		t.Error("adopted a damaged asset")
	}
	keep(t, d, trial.KindFullBody, "c", "new after the resume")
	ok(t, d.Close())
	if d, err = asset.Resume(out, "new", "r1"); err == nil { // the damaged asset is whole again
		keep(t, d, trial.KindFullBody, "a", "same")
		ok(t, d.Adopt(trial.KindFullBody, "b", same), d.Close())
	}
	ok(t, err)
}
