package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"
)

// TestKilledWorkIsRecovered: a run of a work item was killed while the server had its decision
// and had not answered. The next command knows the server and its key from the store. It
// applies the change, because the decision is in the log.
func TestKilledWorkIsRecovered(t *testing.T) {
	p := newPlace(t)
	goOn := make(chan struct{})
	server := p.start(config{decorate: func(add tessera.AddFn) tessera.AddFn {
		return func(ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
			if strings.Contains(string(e.Data()), `"kind":"decision"`) {
				<-goOn
			}
			return add(ctx, e)
		}
	}}, "--public-read")
	m := server.machine(t, "ci")
	if _, stderr, status := m.run("doctor"); status != 0 {
		t.Skipf("full isolation cannot be had here: %s", stderr)
	}
	check(t, os.Mkdir(filepath.Join(m.home, "tree"), 0o755))
	check(t, os.WriteFile(filepath.Join(m.home, "item.json"), []byte(`{"id": "one", "agent_id": "builder", "description": "Write a", "input_files": [], "output_files": ["out/a"], "constraints": {},
 "actions": [{"kind": "write", "path": "out/a", "content": "a\n"}], "test_command": ["test", "-f", "out/a"]}`), 0o644))
	key := m.key
	m.key = ""
	cmd := m.command("work", "run", "item.json", "--tree", "tree", "--store", "store", "--policy", "dev", "--ledger-key", key)
	check(t, cmd.Start())
	pending := filepath.Join(m.home, "store", "pending")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(pending); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the run did not come to its decision")
		}
	}
	time.Sleep(200 * time.Millisecond) // until the decision is sent
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	close(goOn)
	server.log(3)

	m.url = "" // neither the server nor its key is named
	if _, err := os.Stat(filepath.Join(m.home, "tree/out/a")); err == nil {
		t.Fatal("the change was applied before its decision was recorded")
	}
	m.says(0, "blake3:", "work", "state", "tree", "--store", "store")
	m.says(0, "one", "work", "list", "--tree", "tree", "--store", "store")
	if b, err := os.ReadFile(filepath.Join(m.home, "tree/out/a")); err != nil || string(b) != "a\n" {
		t.Errorf("the change was not applied: %q, %v", b, err)
	}
	if _, err := os.Stat(pending); err == nil {
		t.Error("the run is pending still")
	}
}
