package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// readings are all commands that read a log of which entry 2 is the run two.
func readings(dir, key, url string) [][]string {
	list := [][]string{
		{"list"}, {"show", "+2"}, {"stats"}, {"drift"}, {"export"}, {"verify"}, {"prove", "+2"}, {"consistency", "--from", "one.tlog-proof"},
		{"pin"}, {"publish", "public"}, {"check-receipts", dir}, {"replay", "--all"},
	}
	for i := range list {
		list[i] = append(append([]string{"ledger"}, list[i]...), "--key", key)
	}
	return append(list, []string{"work", "verify", "--store", "store", "--ledger-key", key}, []string{"ledger", "compare", url, url, "--key", key}, []string{"ledger", "check-proof", "one.tlog-proof", "--ledger", url})
}

// TestReadersAccuse: every command that reads a log ends with 1 if the log was rolled back
// behind what it has promised, and with 2 if no server answers.
func TestReadersAccuse(t *testing.T) {
	p := newPlace(t)
	r := p.start(server.Config{})
	m := r.machine(t, "ci")
	m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one", "--receipt", "one.tlog-proof")
	check(t, r.stop())
	copied := filepath.Join(t.TempDir(), "log")
	check(t, os.CopyFS(copied, os.DirFS(p.dir)))
	r = p.start(server.Config{})
	m.url = r.url
	m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "two", "--receipt", "two.tlog-proof", "--receipt-wait", "1m")
	check(t, r.stop())
	check(t, os.RemoveAll(p.dir))
	check(t, os.CopyFS(p.dir, os.DirFS(copied)))
	r = p.start(server.Config{})
	m.url = r.url
	for _, args := range readings(m.home, m.key, m.url) {
		stdout, stderr, status := m.run(args...)
		if status != 1 || !strings.Contains(stdout+stderr, "TRUNCATED") || !strings.Contains(stdout+stderr, "both signed notes are kept") {
			t.Errorf("%q: exit status %d\n%s%s", args, status, stdout, stderr)
		}
	}
	check(t, r.stop())
	for _, args := range readings(m.home, m.key, m.url) {
		if stdout, stderr, status := m.run(args...); status != 2 || stdout != "" {
			t.Errorf("%q without a server: exit status %d\n%s%s", args, status, stdout, stderr)
		}
	}
}

// TestChangedTile: every command that needs a full tile of a log ends with 1 if the tile was
// changed.
func TestChangedTile(t *testing.T) {
	p := newPlace(t)
	r := p.start(server.Config{})
	first := r.machine(t, "ci")
	for _, run := range []string{"one", "two"} {
		first.says(0, `"accepted":true`, "run", "intent.json", "--run-id", run)
	}
	for i := range 300 {
		r.accepted(failedRun(fmt.Sprintf("run-%d", i)), r.post(failedRun(fmt.Sprintf("run-%d", i))))
	}
	r.log(303)
	for _, name := range []string{"tile/entries/000", "tile/0/000"} {
		file := filepath.Join(p.dir, "log", name)
		right, err := os.ReadFile(file)
		check(t, err)
		wrong := bytes.Clone(right)
		wrong[700]++
		check(t, os.WriteFile(file, wrong, 0o644))
		for _, args := range [][]string{{"list"}, {"show", "+2"}, {"stats"}, {"drift"}, {"export"}, {"verify"}, {"prove", "+2"}, {"publish", "public"}, {"replay", "--all"}} {
			m := r.machine(t, "ci")
			stdout, stderr, status := m.run(append(append([]string{"ledger"}, args...), "--key", m.key)...)
			if status != 1 || !strings.Contains(stderr, "does not verify") && !strings.Contains(stdout, "TAMPERED") {
				t.Errorf("%s: %q: exit status %d\n%s%s", name, args, status, stdout, stderr)
			}
		}
		check(t, os.WriteFile(file, right, 0o644))
	}
	first.says(0, "CLEAN", "ledger", "verify")
}

// TestCompareHoldsTheServer: a server that is compared with a folder is held against what this
// machine remembers of it.
func TestCompareHoldsTheServer(t *testing.T) {
	p := newPlace(t)
	f := p.folder()
	f.grow(4)
	check(t, f.log.Close())
	says(t, 0, "", f.args()...)
	copied := filepath.Join(t.TempDir(), "log")
	check(t, os.CopyFS(copied, os.DirFS(p.dir)))
	r := p.start(server.Config{})
	m := r.machine(t, "ci")
	r.accepted(failedRun("more"), r.post(failedRun("more")))
	r.log(5)
	m.says(0, "more", "ledger", "list", "--key", m.key)
	m.says(0, "BEHIND", "ledger", "compare", f.dir, m.url, "--key", m.key)
	check(t, r.stop())
	check(t, os.RemoveAll(p.dir))
	check(t, os.CopyFS(p.dir, os.DirFS(copied)))
	m.url = p.start(server.Config{}).url
	m.says(1, "TRUNCATED", "ledger", "compare", f.dir, m.url, "--key", m.key)
	m.says(1, "TRUNCATED", "ledger", "compare", m.url, f.dir, "--key", m.key)
}
