//go:build linux && (amd64 || arm64)

package workspace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
)

// many makes a folder with many small ones in two others.
func many(t *testing.T, dir string) {
	t.Helper()
	for _, above := range []string{"a", "b"} {
		for n := range 40 {
			name := fmt.Sprintf("%s/%02d/file", above, n)
			entry{name, "100644", name, ""}.put(t, dir)
		}
	}
}

// TestTogether: several goroutines find the state that one finds.
func TestTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(most))
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		dir, s := t.TempDir(), store(t)
		many(t, dir)
		grow(t, filepath.Join(dir, "b/00"), random, 3)
		want, err := scanWith(t.Context(), dir, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			// The second time, the index knows all; its entries are those of the first.
			if got, err := s.State(t.Context(), dir, later()); err != nil || got != want {
				t.Fatalf("%+v instead of %+v (%v)", got, want, err)
			}
			if len(s.index.files) == 0 || len(s.nodes) == 0 {
				t.Fatal("nothing is known of the folder")
			}
		}
	}
}

// TestFirstError: the error is that of the first path in order, whichever goroutine is faster.
func TestFirstError(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(most))
	large := func(name string) error {
		return errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, MaxBytes+1))
	}
	odd := func(name string) error { return syscall.Mkfifo(name, 0o600) }
	for what, list := range map[string]map[string]func(string) error{
		"two FIFOs":             {"a/39/x": odd, "b/00/x": odd},
		"a FIFO, then a limit":  {"a/39/x": odd, "b/00/x": large},
		"a limit, then a FIFO":  {"a/39/x": large, "b/00/x": odd},
		"a FIFO in each folder": {"a/39/x": odd, "a/20/x": odd, "a/21/x": odd, "b/x": odd},
	} {
		dir := t.TempDir()
		many(t, dir)
		for name, put := range list {
			if err := put(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, want := scanWith(t.Context(), dir, Options{}, nil)
		for range 50 {
			if _, err := Scan(t.Context(), dir, Options{}); want == nil || err == nil || err.Error() != want.Error() {
				t.Fatalf("%s: %v instead of %v", what, err, want)
			}
		}
	}
}

// TestSizes: a file has the hash of its bytes, whether it is read at once or in pieces.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	var want []receipt.Entry
	for _, n := range []int{0, 1, small - 1, small, small + 1, 5 * small} {
		e := entry{fmt.Sprintf("%07d", n), "100644", strings.Repeat("0123456789", n)[:n], ""}
		e.put(t, dir)
		want = append(want, receipt.Entry{Mode: receipt.File, Name: e.Path, Hash: receipt.Sum([]byte(e.Content))})
	}
	got, err := Scan(t.Context(), dir, Options{})
	if err != nil || got.Hash != receipt.Sum(receipt.Node(want)) || got.Files != len(want) || got.Bytes != 1+8*small {
		t.Errorf("%+v, %v", got, err)
	}
}
