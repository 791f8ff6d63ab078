package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// killer stands between a client and a server. The answer to a decision never arrives, and the
// checkpoint stays what it was until it is let go.
type killer struct {
	next http.Handler
	note []byte        // the checkpoint
	sent chan struct{} // closed when the server has the decision
	goOn atomic.Bool
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case r.URL.Path == "/v1/records" && bytes.Contains(body, []byte(`"kind":"decision"`)):
		k.next.ServeHTTP(httptest.NewRecorder(), r)
		close(k.sent)
		<-r.Context().Done()
	case r.URL.Path == "/checkpoint" && !k.goOn.Load():
		_, _ = w.Write(k.note)
	default:
		k.next.ServeHTTP(w, r)
	}
}

// TestKilledWorkIsRecovered: a run of a work item was killed while the server had its decision
// and had not answered. The next command knows the server and its key from the store. It
// drops nothing while the log may have the decision, and applies the change when it has. It
// believes no other key than the user's, and sends the token nowhere else.
func TestKilledWorkIsRecovered(t *testing.T) {
	server := newPlace(t).process("--public-read")
	server.log(1)
	to, err := url.Parse(server.url)
	check(t, err)
	between := &killer{next: httputil.NewSingleHostReverseProxy(to), note: server.get("/checkpoint").body, sent: make(chan struct{})}
	gate := httptest.NewServer(between)
	t.Cleanup(gate.CloseClientConnections)
	m := server.machine(t, "ci")
	m.url = gate.URL
	if _, stderr, status := m.run("doctor"); status != 0 {
		t.Skipf("full isolation cannot be had here: %s", stderr)
	}
	check(t, os.Mkdir(filepath.Join(m.home, "tree"), 0o755))
	check(t, os.WriteFile(filepath.Join(m.home, "item.json"), []byte(`{"id": "one", "agent_id": "builder", "description": "Write a", "input_files": [], "output_files": ["out/a"], "constraints": {},
 "actions": [{"kind": "write", "path": "out/a", "content": "a\n"}], "test_command": ["test", "-f", "out/a"]}`), 0o644))
	key := m.key
	cmd := m.command("work", "run", "item.json", "--tree", "tree", "--store", "store", "--policy", "dev", "--ledger-key", key)
	check(t, cmd.Start())
	pending := filepath.Join(m.home, "store", "pending")
	select {
	case <-between.sent:
	case <-time.After(60 * time.Second):
		t.Fatal("the run did not come to its decision")
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	m.state = t.TempDir() // it has not even the ack of the beginning

	list := []string{"work", "list", "--tree", "tree", "--store", "store"}
	m.says(2, "no checkpoint covers it yet", list...)
	m.url = "" // the server is not named: it gets no token
	m.says(2, "without a token", list...)
	text, err := os.ReadFile(pending)
	check(t, err)
	planted := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if len(r.Header["Authorization"]) > 0 {
			t.Error("the token was sent to a server that the user has not named")
		}
	}))
	defer planted.Close()
	for _, m.url = range []string{"", gate.URL} {
		check(t, os.WriteFile(pending, bytes.Replace(text, []byte(gate.URL), []byte(planted.URL), 1), 0o600))
		m.says(2, "no right server", list...)
	}
	m.key = "example.com/log+d3bd1b9f+AXhM6f8tGS7baSQXShTkR4/RViCxcuOKJSr/Elxu5bZw"
	m.says(2, "another key than FIADOR_LEDGER_KEY", list...)
	check(t, os.WriteFile(pending, text, 0o600))
	server.log(3)
	between.goOn.Store(true)

	m.url, m.key = "", "" // neither the server nor its key is named
	if _, err := os.Stat(filepath.Join(m.home, "tree/out/a")); err == nil {
		t.Fatal("the change was applied before its decision was recorded")
	}
	m.says(0, "blake3:", "work", "state", "tree", "--store", "store")
	m.says(0, "one", list...)
	if b, err := os.ReadFile(filepath.Join(m.home, "tree/out/a")); err != nil || string(b) != "a\n" {
		t.Errorf("the change was not applied: %q, %v", b, err)
	}
	if _, err := os.Stat(pending); err == nil {
		t.Error("the run is pending still")
	}
}
