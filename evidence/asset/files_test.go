package asset_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/harness/rehearsal"
)

// opened returns an opened folder and its path.
func opened(t testing.TB) (f *asset.Files, dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := asset.Open(dir)
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f, dir
}

// TestFixture: a directory that another runner has written is read as it is.
func TestFixture(t *testing.T) {
	f, err := asset.Open(rehearsal.NeedFixture(t, "agent-qa-toolkit", "minimal-v1", "new", "r1"))
	ok(t, err)
	defer f.Close()
	names, faults, err := f.Names()
	want := []string{"agent_down.json", "assets/agent_down.attempt1.body.txt", "assets/agent_down.attempt1.meta.json", "assets/manifest.json", "run.json", "ticket_ok.json"}
	if err != nil || len(faults) > 0 || !reflect.DeepEqual(names, want) {
		t.Errorf("%q, %v, %v", names, faults, err)
	}
	sha, size, err := f.Hash("assets/agent_down.attempt1.body.txt", 39)
	if err != nil || size != 39 || sha != "651428af31da67b6eecf465972f8fbeb2450568b5d548a8699f7ffbbdc899acd" {
		t.Errorf("%s, %d, %v", sha, size, err)
	}
}

func TestRead(t *testing.T) {
	f, dir := opened(t)
	ok(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755), os.WriteFile(filepath.Join(dir, "a", "b", "c"), []byte("12345"), 0o600), os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	for _, c := range []struct {
		name string
		most int64
		text string
		err  error
	}{
		{"a/b/c", 5, "12345", nil}, {"a/b/c", 4, "", asset.ErrTooLarge}, {"empty", 0, "", nil},
		{"a", 9, "", asset.ErrNotRegular}, {"none", 9, "", fs.ErrNotExist}, {"a/none/c", 9, "", fs.ErrNotExist},
		{"a/b/../b/c", 9, "", errAny}, {"/a/b/c", 9, "", errAny}, {"", 9, "", errAny}, {".", 9, "", errAny}, {"empty/x", 9, "", errAny}, {"a/b/c/", 9, "", errAny},
	} {
		text, err := f.Read(c.name, c.most)
		sha, size, hashErr := f.Hash(c.name, c.most)
		for _, err := range []error{err, hashErr} {
			if c.err == errAny && err == nil || c.err != errAny && !errors.Is(err, c.err) || err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("%q: %v", c.name, err)
			}
		}
		if string(text) != c.text || hashErr == nil && (sha != sum(text) || size != int64(len(text))) {
			t.Errorf("%q: %q, %s, %d", c.name, text, sha, size)
		}
	}
}

var errAny = errors.New("any error")

// TestManyEntries: a directory with more than the limit is refused, whatever the entries are.
func TestManyEntries(t *testing.T) {
	if !rehearsal.Full() {
		t.Skip("makes 100 000 files: in the full form alone")
	}
	f, dir := opened(t)
	ok(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for i := range asset.MaxEntries - 1 {
		ok(t, os.WriteFile(filepath.Join(dir, "d", fmt.Sprint(i)), nil, 0o600))
	}
	if names, _, err := f.Names(); err != nil || len(names) != asset.MaxEntries-1 {
		t.Errorf("%d names, %v", len(names), err)
	}
	ok(t, os.Mkdir(filepath.Join(dir, "one more"), 0o755))
	if _, _, err := f.Names(); !errors.Is(err, asset.ErrTooMany) {
		t.Error(err)
	}
}
