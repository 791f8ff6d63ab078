package witness

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// stub is a witness that gives one answer.
type stub struct {
	name, key, url string
	asked          atomic.Int32
}

func newStub(t *testing.T, name string, status int, kind, body string) *stub {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	typed := append([]byte{4}, public...) // 4: cosignature/v1
	id := sha256.Sum256(append([]byte(name+"\n"), typed...))
	s := &stub{name: name, key: fmt.Sprintf("%s+%x+%s", name, id[:4], base64.StdEncoding.EncodeToString(typed))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.url = server.URL
	return s
}

// line is the line of a policy with the witness.
func (s *stub) line() string { return fmt.Sprintf("witness %s %s %s\n", s.name, s.key, s.url) }

// policyFile writes a policy.
func policyFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "witness.policy")
	check(t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644))
	return file
}

// logKey returns the key of a log.
func logKey(t *testing.T) ledger.Verifier {
	t.Helper()
	_, text, err := ledger.GenerateKey(rand.Reader, testOrigin)
	check(t, err)
	key, err := ledger.ParseVerifier(text)
	check(t, err)
	return key
}

// quorumOf returns the quorum of one witness, and that witness.
func quorumOf(t *testing.T, s *stub) (*Quorum, *witness) {
	t.Helper()
	w, err := ReadPolicy(policyFile(t, s.line(), "quorum "+s.name+"\n"), logKey(t))
	check(t, err)
	return w, w.each[s.url+"/add-checkpoint"]
}

// request returns what Tessera sends to a witness.
func request(t *testing.T, of *witness, size int64) *http.Request {
	t.Helper()
	checkpoint := fmt.Sprintf("old 0\n\n%s\n%d\n%s\n\n— x AAAAAAAA\n", testOrigin, size, tlog.Hash{})
	req, err := http.NewRequest("POST", of.url, strings.NewReader(checkpoint))
	check(t, err)
	return req
}

// TestLateRequest: a request for a tree that is not the newest any more accuses nobody. Before
// the log has settled, and after a contradiction, no witness is asked.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	a := newStub(t, "a.example/w", 409, "text/x.tlog.size", "5\n")
	w, of := quorumOf(t, a)
	now := int64(5)
	w.Size = func() (int64, error) { return now, nil }
	w.Keep = func(string, []byte) error { return nil }
	fails := func(says string, requests int32) {
		t.Helper()
		if _, err := w.RoundTrip(request(t, of, 3)); err == nil || !strings.Contains(err.Error(), says) || a.asked.Load() != requests {
			t.Errorf("%v, after %d requests", err, a.asked.Load())
		}
		of.next = time.Time{}
	}
	fails(notReady, 0)
	w.settle()
	fails("a later tree", 1)
	if w.Failed() != nil {
		t.Error(w.Failed())
	}
	now = 4
	fails("has cosigned a tree of 5 entries (409), and this log has 3", 2)
	fails("has cosigned a tree of 5 entries (409), and this log has 3", 2)
}

// TestLostWhileAsking: an answer that comes when another server may write is no cosignature.
func TestLostWhileAsking(t *testing.T) {
	t.Parallel()
	a := newStub(t, "a.example/w", 409, "text/x.tlog.size", "1\n")
	w, of := quorumOf(t, a)
	w.settle()
	lost := errors.New("lost")
	if _, err := w.Client(func(context.Context) error { return lost }).Do(request(t, of, 3)); !errors.Is(err, lost) || a.asked.Load() != 1 {
		t.Errorf("%v", err)
	}
}

// TestCheckFails: the check of the start fails when nobody could be asked, because of the log.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	w, _ := quorumOf(t, newStub(t, "a.example/w", 200, "", ""))
	damaged := errors.New("a tile is gone")
	alone := func(context.Context, *witness, []byte, uint64, []byte) error { return damaged }
	if err := w.check(alone, 3, nil, func(string, any) {}); !errors.Is(err, damaged) {
		t.Errorf("%v", err)
	}
	select {
	case <-w.settled:
		t.Error("requests go out")
	default:
	}
}

// TestPolicy: a policy whose quorum would be weaker than it reads is refused, and so is a policy
// of another log.
func TestPolicy(t *testing.T) {
	t.Parallel()
	a, b := newStub(t, "a.example/w", 200, "", ""), newStub(t, "b.example/w", 200, "", "")
	log := logKey(t)
	two := a.line() + b.line()
	again := strings.Replace(b.line(), b.key, a.key, 1)
	for name, c := range map[string]struct{ text, says string }{
		"none":            {two + "quorum none\n", "needs no witness"},
		"no quorum":       {two, "must define a quorum"},
		"empty":           {"", "must define a quorum"},
		"group of 0":      {two + "group g 0 a.example/w\nquorum g\n", "does not need one member"},
		"group of none":   {two + "group g all\nquorum g\n", "does not need one member"},
		"member twice":    {two + "group g 2 a.example/w a.example/w\nquorum g\n", "a.example/w is named twice"},
		"in two groups":   {two + "group g any a.example/w\ngroup h any a.example/w b.example/w\ngroup q all g h\nquorum q\n", "named twice"},
		"two quorums":     {two + "quorum a.example/w\nquorum b.example/w\n", "named twice"},
		"one key twice":   {a.line() + again + "group g 2 a.example/w b.example/w\nquorum g\n", "is named twice"},
		"one URL twice":   {a.line() + strings.Replace(b.line(), b.url, a.url+"/", 1) + "group g 2 a.example/w b.example/w\nquorum g\n", "is named twice"},
		"too many needed": {two + "group g 3 a.example/w b.example/w\nquorum g\n", "threshold"},
		"unknown":         {two + "quorum c\n", "not found"},
		"keyword":         {two + "witnesses\n", "unknown keyword"},
		"plain http":      {strings.Replace(a.line(), a.url, "http://witness.example", 1) + "quorum a.example/w\n", "https URL"},
		"password":        {strings.Replace(a.line(), a.url, "https://u:p@witness.example", 1) + "quorum a.example/w\n", "https URL"},
		"no URL":          {strings.Replace(a.line(), a.url, "", 1) + "quorum a.example/w\n", "invalid witness"},
		"other log":       {"log example.com/log+d3bd1b9f+AXhM6f8tGS7baSQXShTkR4/RViCxcuOKJSr/Elxu5bZw\n" + two + "quorum a.example/w\n", "for other logs"},
		"no key":          {"witness x y https://z.example\nquorum x\n", "invalid witness"},
	} {
		file := policyFile(t, c.text)
		if _, err := ReadPolicy(file, log); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := "# ours\nlog " + log.String() + " https://log.example\n" + two + "group g 2 a.example/w b.example/w # both\nquorum g\n"
	if w, err := ReadPolicy(policyFile(t, good), log); err != nil || len(w.each) != 2 {
		t.Errorf("%v", err)
	}
	if _, err := ReadPolicy(filepath.Join(t.TempDir(), "none"), log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
