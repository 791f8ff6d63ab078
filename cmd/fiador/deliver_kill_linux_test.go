//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger/disk"
)

// TestDeliverKilled kills a run with every sink before each system call that changes
// something. Each of its files is as before or complete, in the order of harness.Deliver.
func TestDeliverKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newStage(t)
	gate, key := filepath.Join(s.dir, "ledger"), filepath.Join(s.dir, "key")
	if _, stderr, code := s.run(t, "ledger", "init", gate, "--origin", "example.com/gate", "--key", key); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	intent := put(t, s.dir, "deliver.json", `{"goal": "Build the page", "constraints": ["one heading"],
		"actions": [{"kind": "write", "path": "out/index.html", "content": "<h1>1</h1>\n"}]}`)
	place := filepath.Join(s.dir, "place")
	at := func(name string) string { return filepath.Join(place, name) }
	seen, longest, stride := map[string]bool{}, 0, rehearsal.Stride(11)
	for n := 0; ; n += stride {
		if err := errors.Join(os.Mkdir(place, 0o755), os.Mkdir(at("site"), 0o755)); err != nil {
			t.Fatal(err)
		}
		put(t, place, "bundle", "old")
		cmd, _, _ := s.command(t, "run", intent, "--mode", "execute-sandbox", "--ledger", gate, "--ledger-key", key,
			"--bundle", at("bundle"), "--report", "junit="+at("report"), "--receipt", at("receipt"),
			"--evidence", at("evidence"), "--pack", at("pack"), "--promote", at("site"))
		calls, code := stepped(t, cmd, n)
		longest = max(longest, len(calls))
		if _, stderr, code := s.run(t, "apply", "--recover", "--to", at("site")); code != cli.ExitAccepted {
			t.Fatalf("step %d, %q: exit status %d\n%s", n, calls, code, stderr)
		}
		left := delivered(t, place, gate)
		for later, before := range map[string][]string{
			"site": {"receipt", "stdout", "stderr", "runner.json"}, "pack": {"site"}, "bundle": {"pack"}, "report": {"bundle"},
		} {
			seen[later] = seen[later] || left[later] && code < 0
			for _, name := range before {
				if left[later] && !left[name] {
					t.Errorf("step %d, %q: %s is there, and %s is not", n, calls, later, name)
				}
			}
		}
		if code >= 0 && len(left) != 8 {
			t.Errorf("%v is all that is there", left)
		}
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
		if code >= 0 {
			if stride == 1 && (longest < 60 || !seen["site"] || !seen["pack"] || !seen["bundle"]) {
				t.Errorf("%d calls that change something: %q, seen %v", longest, calls, seen)
			}
			return
		}
	}
}

// delivered reports which sinks of a run are complete. Each other sink has written
// nothing.
func delivered(t *testing.T, place, gate string) map[string]bool {
	t.Helper()
	left := map[string]bool{}
	text := func(name string, whole func(text string) bool) {
		b, err := os.ReadFile(filepath.Join(place, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || !whole(string(b)):
			t.Errorf("%s is not whole: %q, %v", name, b, err)
		default:
			left[filepath.Base(name)] = true
		}
	}
	text("bundle", func(text string) bool {
		return text == "old" || json.Valid([]byte(text)) && strings.HasSuffix(text, "\n")
	})
	if b, _ := os.ReadFile(filepath.Join(place, "bundle")); string(b) == "old" {
		delete(left, "bundle")
	}
	text("report", func(text string) bool { return strings.HasSuffix(text, "</testsuites>\n") })
	text("receipt", func(text string) bool { return text == lastReceipt(t, gate) })
	text("evidence/stdout", func(text string) bool { return text == "" })
	text("evidence/stderr", func(text string) bool { return text == "" })
	text("evidence/runner.json", func(text string) bool { return json.Valid([]byte(text)) && strings.HasSuffix(text, "\n") })
	text("site/out/index.html", func(text string) bool { return text == "<h1>1</h1>\n" })
	if left["index.html"] {
		delete(left, "index.html")
		left["site"] = true
	}
	if wholePack(t, filepath.Join(place, "pack")) {
		left["pack"] = true
	}
	for _, dir := range []string{"", "evidence", "site/out"} {
		list, err := os.ReadDir(filepath.Join(place, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, d := range list {
			known := []string{"bundle", "report", "receipt", "evidence", "pack", "site", "stdout", "stderr", "runner.json", "index.html"}
			name := d.Name()
			if !slices.Contains(known, name) && !strings.HasPrefix(name, ".fiador-") && !(strings.HasPrefix(name, ".pack.") && strings.HasSuffix(name, ".partial")) {
				t.Errorf("%s is left in %q", name, dir)
			}
		}
	}
	return left
}

// lastReceipt returns the receipt of the last entry of a ledger.
func lastReceipt(t *testing.T, gate string) string {
	t.Helper()
	r, err := disk.Read(gate)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := r.Prove(t.Context(), r.Checkpoint().Size-1)
	if err != nil {
		t.Fatal(err)
	}
	return string(p.Marshal())
}
