package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
)

// TestLaggard: a witness that is slower than the quorum, and behind, is heard: it comes to the
// size of the log, and stops a log that it contradicts.
func TestLaggard(t *testing.T) {
	t.Parallel()
	a, b := newCosigner(t, "a.example/w"), newCosigner(t, "b.example/w")
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		b.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { late.CloseClientConnections(); late.Close() })
	b.http.Config.Handler = http.NotFoundHandler()
	policy := newPlace(t).policy(a.line(), strings.Replace(b.line(), b.http.URL, late.URL, 1), "group one any a.example/w b.example/w\nquorum one\n")
	r := newPlace(t).process(policy...)
	record := func(run string) { r.accepted(begun(run), r.post(begun(run))) }
	b.become(answers(503, "text/plain", ""))
	record("one")
	record("two")
	r.covered(3)
	b.become(nil)
	size := int64(3)
	for end := time.Now().Add(patience); b.saw() < 4; time.Sleep(witnessRests + 200*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the witness has %d entries, and the log %d: %s", b.saw(), size, r.stderr)
		}
		record(fmt.Sprint("more-", size))
		size++
		r.covered(size)
	}
	b.mu.Lock()
	b.size, b.root = 2, tlog.Hash{1}
	b.mu.Unlock()
	record("last")
	r.ends("the witness b.example/w has cosigned a tree of 2 entries", "(422)", "exit status 2")

	// No server writes to the log until a person has removed the document, with witnesses or without.
	b.become(answers(503, "text/plain", ""))
	for _, flags := range [][]string{nil, policy} {
		if r, err := r.tryStart(server.Config{}, flags...); err == nil || !strings.Contains(err.Error(), "has cosigned a tree of 2 entries") || !strings.Contains(err.Error(), "remove "+witness.Contradiction) {
			t.Errorf("%v\n%s", err, r.stderr)
		}
	}
	r.finds(t, 2, "BAD ", "has cosigned a tree of 2 entries")
	check(t, os.Remove(filepath.Join(r.dir, witness.Contradiction)))
	next := r.start(server.Config{})
	next.accepted(begun("after"), next.post(begun("after")))
}
