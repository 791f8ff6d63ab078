package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
)

// traced is a system call of a server. A sync counts when it ends, and any other when it begins.
type traced struct{ call, path, text string }

var (
	beganCall = regexp.MustCompile(`^(\d+) +(\w+)\((?:AT_FDCWD[^,]*, "|\d+<)([^>"]*)[>"](.*)`)
	endedCall = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
)

// calls reads a trace of strace.
func calls(trace string) (list []traced) {
	under := map[string]traced{}
	for line := range strings.Lines(trace) {
		if m := beganCall.FindStringSubmatch(line); m != nil {
			c := traced{m[2], m[3], m[4]}
			if c.call == "fsync" && strings.Contains(c.text, "<unfinished") {
				under[m[1]] = c
				continue
			}
			list = append(list, c)
		} else if m := endedCall.FindStringSubmatch(line); m != nil && m[2] == "fsync" {
			list = append(list, under[m[1]])
		}
	}
	return list
}

// TestSyncs: what an answer promises is synced before it, and so is what an earlier server left
// without a sync, before anything is written.
func TestSyncs(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed, so no system call can be seen")
	}
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %s", out)
	}
	p := newPlace(t)
	check(t, p.process().stop())
	if p.dir, err = filepath.EvalSymlinks(p.dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace")
	p.under = []string{strace, "-D", "-f", "-y", "-qq", "-s", "20", "-e", "signal=none", "-e", "trace=fsync,write,pwrite64,renameat,ftruncate", "-o", file}
	r := p.process()
	blob := []byte("evidence")
	if got := r.put(blob); got.status != 204 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	rec := decision("run-1", blob)
	r.accepted(rec, r.post(rec))
	check(t, r.stop())
	text, err := os.ReadFile(file)
	check(t, err)

	list := calls(string(text))
	state := filepath.Join(p.dir, "log", ".state")
	digits := hash(string(blob)).Hex()
	name := filepath.Join(p.dir, "evidence/sha256", digits[:2], digits[2:])
	at := 0
	for _, want := range []struct{ what, call, path, text string }{
		{"the folder above", "fsync", filepath.Dir(p.dir), ""},
		{"the folder", "fsync", p.dir, ""},
		{"the size that an earlier server left", "fsync", state, ""},
		{"the end of the claims is cut off", "ftruncate", filepath.Join(p.dir, claims.Name), ""},
		{"the content of the blob", "fsync", filepath.Join(p.dir, "evidence/incoming") + "/", ""},
		{"the blob gets its name", "renameat", filepath.Join(p.dir, "evidence/incoming"), ""},
		{"the name of the blob", "fsync", filepath.Dir(name), ""},
		{"the folder of that", "fsync", filepath.Join(p.dir, "evidence/sha256"), ""},
		{"the answer to the blob", "write", "", "HTTP/1.1 204"},
		{"the claim", "pwrite64", filepath.Join(p.dir, claims.Name), ""},
		{"the claim's sync", "fsync", filepath.Join(p.dir, claims.Name), ""},
		{"the bundle", "fsync", filepath.Join(p.dir, "log", "tile/entries"), ""},
		{"the tile", "fsync", filepath.Join(p.dir, "log", "tile/0"), ""},
		{"the size", "fsync", state, ""},
		{"the answer to the record", "write", "", "HTTP/1.1 200"},
	} {
		found := slices.IndexFunc(list[at:], func(c traced) bool {
			path := c.path == want.path || strings.HasPrefix(c.path, want.path) && (want.path == "" || strings.HasSuffix(want.path, "/") || strings.Contains(want.path, "/tile/"))
			return c.call == want.call && path && strings.Contains(c.text, want.text)
		})
		if found < 0 {
			t.Fatalf("%s: no %s of %s %s after call %d of:\n%s", want.what, want.call, want.path, want.text, at, text)
		}
		at += found + 1
	}
	answered := slices.IndexFunc(list, func(c traced) bool { return c.call == "write" && strings.Contains(c.text, "HTTP/1.1 2") })
	written := slices.IndexFunc(list, func(c traced) bool { return c.call == "pwrite64" })
	if first := slices.IndexFunc(list, func(c traced) bool { return c.call == "fsync" && c.path == state }); first > answered || first > written {
		t.Errorf("the size is synced after a write or an answer")
	}
}
