package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
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
	for end := time.Now().Add(20 * time.Second); b.saw() < 4; time.Sleep(witnessRests + 200*time.Millisecond) {
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
		if r, err := r.tryStart(config{}, flags...); err == nil || !strings.Contains(err.Error(), "has cosigned a tree of 2 entries") || !strings.Contains(err.Error(), "remove "+nameContradiction) {
			t.Errorf("%v\n%s", err, r.stderr)
		}
	}
	r.finds(t, 2, "BAD ", "has cosigned a tree of 2 entries")
	check(t, os.Remove(filepath.Join(r.dir, nameContradiction)))
	next := r.start(config{})
	next.accepted(begun("after"), next.post(begun("after")))
}

// request returns what Tessera sends to a witness.
func (p *place) request(of *witness, size int64) *http.Request {
	p.t.Helper()
	checkpoint := fmt.Sprintf("old 0\n\n%s\n%d\n%s\n\n— x AAAAAAAA\n", testOrigin, size, tlog.Hash{})
	req, err := http.NewRequest("POST", of.url, strings.NewReader(checkpoint))
	check(p.t, err)
	return req
}

// TestLateRequest: a request for a tree that is not the newest any more accuses nobody. Before
// the log has settled, and after a contradiction, no witness is asked.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlace(t)
	w, err := readWitnesses(p.policy(a.line(), "quorum a.example/w\n")[1], p.keys[0].Key)
	check(t, err)
	now := int64(5)
	w.size = func() (int64, error) { return now, nil }
	w.keep = func(string, []byte) error { return nil }
	of := w.each[a.http.URL+"/add-checkpoint"]
	a.become(answers(409, "text/x.tlog.size", "5\n"))
	fails := func(says string, requests int) {
		t.Helper()
		if _, err := w.RoundTrip(p.request(of, 3)); err == nil || !strings.Contains(err.Error(), says) || a.requests() != requests {
			t.Errorf("%v, after %d requests", err, a.requests())
		}
		of.next = time.Time{}
	}
	fails(notReady, 0)
	w.settle()
	fails("a later tree", 1)
	if w.failed() != nil {
		t.Error(w.failed())
	}
	now = 4
	fails("has cosigned a tree of 5 entries (409), and this log has 3", 2)
	fails("has cosigned a tree of 5 entries (409), and this log has 3", 2)
}

// TestLostWhileAsking: an answer that comes when another server may write is no cosignature.
func TestLostWhileAsking(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlace(t)
	w, err := readWitnesses(p.policy(a.line(), "quorum a.example/w\n")[1], p.keys[0].Key)
	check(t, err)
	w.settle()
	a.become(answers(409, "text/x.tlog.size", "1\n"))
	lost := func(context.Context) error { return errLost }
	if _, err := w.client(lost).Do(p.request(w.each[a.http.URL+"/add-checkpoint"], 3)); !errors.Is(err, errLost) || a.requests() != 1 {
		t.Errorf("%v", err)
	}
}

// TestCheckFails: the check of the start fails when nobody could be asked, because of the log.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlace(t)
	w, err := readWitnesses(p.policy(a.line(), "quorum a.example/w\n")[1], p.keys[0].Key)
	check(t, err)
	damaged := errors.New("a tile is gone")
	if err := w.check(func(context.Context, *witness, []byte, uint64, []byte) error { return damaged }, 3, nil, nothing); !errors.Is(err, damaged) {
		t.Errorf("%v", err)
	}
	select {
	case <-w.settled:
		t.Error("requests go out")
	default:
	}
}
