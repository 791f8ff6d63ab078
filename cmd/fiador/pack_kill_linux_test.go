//go:build amd64 || arm64

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness/rehearsal"
)

// TestPackKilled kills run --pack before each system call that changes something. It
// leaves a complete pack or none. The only other remains are a folder that says what it
// is.
func TestPackKilled(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	b := newBench(t)
	intent := put(t, b.dir, "plan.json", `{"goal": "Build the page", "constraints": ["one heading"],
		"actions": [{"kind": "write", "path": "out/index.html", "content": "<h1>1</h1>\n"}]}`)
	place := filepath.Join(b.dir, "place")
	seen := map[bool]bool{}
	for n := 0; ; n++ {
		if err := os.Mkdir(place, 0o755); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(place, "p")
		if n%2 == 0 { // an empty folder is allowed as the place of a pack
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd, _, _ := b.command(t, "run", intent, "--pack", dir)
		calls, code := stepped(t, cmd, n)
		list, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if name := d.Name(); name != "p" && !(strings.HasPrefix(name, ".p.") && strings.HasSuffix(name, ".partial")) {
				t.Errorf("step %d, %q: %s is left", n, calls, name)
			}
		}
		if _, err := os.Lstat(dir); n%2 == 0 && err != nil {
			t.Errorf("step %d, %q: the folder that was there is gone: %v", n, calls, err)
		}
		seen[wholePack(t, dir)] = true
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
		if code >= 0 {
			if n < 12 || !seen[true] || !seen[false] || len(list) != 1 {
				t.Errorf("%d calls that change something: %q, left %v", n, calls, list)
			}
			return
		}
	}
}

// wholePack reports whether a valid pack is at a path. Otherwise the path must be absent
// or an empty folder.
func wholePack(t *testing.T, dir string) bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(list) == 0 {
		return false
	}
	p, err := pack.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if v := verify.Pack(p, verify.Options{Level: pack.Structural}); !v.OK() {
		t.Fatalf("half a pack: %v", v)
	}
	return true
}
