package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// read opens a reader, which is closed with the test.
func read(t *testing.T, p Place) *Reader {
	t.Helper()
	r, err := Read(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// recording opens a recorder, which is closed with the test.
func recording(t *testing.T, p Place) *Recorder {
	t.Helper()
	r := opening(t, p)
	if err := r.Opened(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// opening is recording, and does not wait for the keys of the log.
func opening(t *testing.T, p Place) *Recorder {
	t.Helper()
	r, err := Record(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestRecordAndRead: what was recorded is read, proved and audited.
func TestRecordAndRead(t *testing.T) {
	s := serve(t)
	s.fill(254)
	p := s.place(t, t.TempDir())
	rec := recording(t, p)
	if b, err := rec.Put([]byte("evidence")); err != nil || b != decision("").Evidence {
		t.Fatal(b, err)
	}
	for i := 254; i < 600; i += 50 {
		run := fmt.Sprintf("mine-%d", i)
		got, err := rec.Append(t.Context(), decision(run))
		if err != nil || got.Again || got.Index != int64(i) || got.Record.RunID != run || got.Record.Submitter != "ci" || got.Ack == nil {
			t.Fatalf("%+v, %v", got, err)
		}
		again, err := rec.Append(t.Context(), decision(run))
		if err != nil || !again.Again || again.Index != got.Index {
			t.Fatalf("%+v, %v", again, err)
		}
		s.fill(i + 50)
	}
	r := read(t, p)
	size := r.Checkpoint().Size
	if size != int64(len(s.entries)) || r.Pending() != 0 {
		t.Fatalf("%d entries, %d pending", size, r.Pending())
	}
	for _, from := range []int64{0, 1, 255, 256, 257, size - 1, size} {
		next := from
		for index, e := range r.Lines(t.Context(), from) {
			if e.Err != nil || index != next || !bytes.Equal(e.Line.Entry, s.entries[index]) {
				t.Fatalf("from %d: entry %d, %v", from, index, e.Err)
			}
			next++
		}
		if next != size {
			t.Errorf("from %d: up to %d of %d", from, next, size)
		}
	}
	for _, index := range []int64{0, 254, 255, 256, size - 1} {
		proof, err := r.Prove(t.Context(), index)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Keys().CheckProof(proof); err != nil || !bytes.Equal(proof.Entry, s.entries[index]) {
			t.Errorf("entry %d: %v", index, err)
		}
	}
	for _, size := range []int64{0, 1, 255, 256, 300, size} {
		c, err := r.Consistency(t.Context(), size)
		if err != nil || c.From != size {
			t.Errorf("from %d: %v", size, err)
		}
	}
	for _, name := range []string{secretToken, ""} {
		p.Token = name
		if found, err := read(t, p).Find(t.Context(), "mine-304", false); err != nil || len(found) != 1 || found[0] != 304 {
			t.Errorf("token %t: found %v, %v", name != "", found, err)
		}
	}
	if b, err := r.Blob(decision("").Evidence); err != nil || string(b) != "evidence" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := r.Blob(ledger.Blob{SHA256: hashOf(99), Size: 1}); !errors.Is(err, ledger.ErrNoBlob) {
		t.Error(err)
	}
	for _, index := range []int64{-1, size} {
		if _, err := r.Entry(t.Context(), index); err == nil {
			t.Errorf("there is an entry %d", index)
		}
	}
}

// TestAuditFetchesNewTilesOnly: a second audit asks for no tile again that is full, and finds
// what the first one found.
func TestAuditFetchesNewTilesOnly(t *testing.T) {
	s := serve(t)
	s.fill(1000)
	p := s.place(t, t.TempDir())
	s.evidence[decision("").Evidence.SHA256.Hex()] = []byte("evidence")
	audit := func() ledger.Audited {
		t.Helper()
		a, err := Audit(t.Context(), p, ledger.AuditOptions{Tiles: true})
		if err != nil || !a.Sound() || a.Size != int64(len(s.entries)) || a.Tiles != len(s.entries)/ledger.TileWidth {
			t.Fatalf("%+v, %v", a, err)
		}
		return a
	}
	audit()
	clear(s.asked)
	s.fill(1100)
	audit()
	for path, n := range s.asked {
		if strings.Contains(path, "tile/") && !strings.Contains(path, ".p/") && !strings.HasSuffix(path, "/003") || n > 2 {
			t.Errorf("asked %d times: %s", n, path)
		}
	}
	// The policy set of the evidence is missing.
	if a, err := Audit(t.Context(), p, ledger.AuditOptions{Evidence: true}); err != nil || a.Sound() {
		t.Errorf("%v, %v", a.Sound(), err)
	}
	if a, err := Audit(t.Context(), p, ledger.AuditOptions{Quick: true}); err != nil || !a.Sound() || a.Size != 1100 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestStoryOfAServer: an audit holds the records of a server against each other.
func TestStoryOfAServer(t *testing.T) {
	s := serve(t)
	s.fill(3)
	twice := decision("run-2")
	twice.Stamp(start.Add(time.Hour), "")
	s.add(twice)
	s.fill(8)
	var fault *ledger.Fault
	if _, err := Audit(t.Context(), s.place(t, t.TempDir()), ledger.AuditOptions{}); !errors.As(err, &fault) || fault.Index != 3 {
		t.Error(err)
	}
}

// TestAnswersToARecord: a client believes no answer that is not the one to its record.
func TestAnswersToARecord(t *testing.T) {
	for name, tc := range map[string]struct {
		twist func(*server, *ledger.Recorded)
		want  error
	}{
		"another record": {func(s *server, d *ledger.Recorded) {
			d.Entry = strings.Replace(d.Entry, `"accepted":true`, `"accepted":false`, 1)
			d.Ack = s.ack(d.Index, d.Entry)
		}, ledger.ErrAnswer},
		"no record": {func(s *server, d *ledger.Recorded) {
			d.Entry = d.Entry[:len(d.Entry)-1]
			d.Ack = s.ack(d.Index, d.Entry)
		}, ledger.ErrAnswer},
		"another index":  {func(_ *server, d *ledger.Recorded) { d.Index++ }, ledger.ErrAnswer},
		"ack of another": {func(s *server, d *ledger.Recorded) { d.Ack = s.ack(d.Index, string(s.entries[0])) }, ledger.ErrAnswer},
		"ack elsewhere":  {func(s *server, d *ledger.Recorded) { d.Ack = s.ack(d.Index+1, d.Entry) }, ledger.ErrAnswer},
		"no ack":         {func(_ *server, d *ledger.Recorded) { d.Ack = "" }, ledger.ErrAnswer},
		"changed ack": {func(_ *server, d *ledger.Recorded) {
			d.Ack = strings.Replace(d.Ack, "/ack\n1\n", "/ack\n2\n", 1)
			d.Index = 2
		}, ledger.ErrAnswer},
		"checkpoint": {func(s *server, d *ledger.Recorded) {
			c, _ := s.key.Checkpoint(1, ledger.LeafHash([]byte(d.Entry)))
			d.Ack = string(c.Note)
		}, ledger.ErrAnswer},
		"again of another": {func(s *server, d *ledger.Recorded) {
			d.Again, d.Index, d.Entry = true, 0, string(s.entries[0])
			d.Ack = s.ack(0, d.Entry)
		}, ledger.ErrAnswer},
		"unknown key": {func(_ *server, d *ledger.Recorded) {
			a, _ := signer(t, "example.com/log", 2).Ack(d.Index, ledger.LeafHash([]byte(d.Entry)))
			d.Ack = string(a.Note)
		}, ledger.ErrUnknownKey},
		"another log": {func(_ *server, d *ledger.Recorded) {
			a, _ := signer(t, "example.com/other", 1).Ack(d.Index, ledger.LeafHash([]byte(d.Entry)))
			d.Ack = string(a.Note)
		}, ledger.ErrUnknownKey},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.twist = func(d *ledger.Recorded) { tc.twist(s, d) }
			state := t.TempDir()
			got, err := recording(t, s.place(t, state)).Append(t.Context(), decision("one"))
			if !errors.Is(err, tc.want) || got.Ack != nil {
				t.Errorf("%+v, %v", got, err)
			}
			if acks, _ := filepath.Glob(filepath.Join(state, "*", acksFolder, "*")); len(acks) > 0 {
				t.Errorf("remembered %v", acks)
			}
		})
	}
}

// TestRefusals: each refusal of a server is an error with its kind, at once or after the wait,
// and never with the token.
func TestRefusals(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	status := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) }
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   error
		waits  bool
	}{
		"401": {status(401, "token"), ErrToken, false}, "403": {status(403, "forbidden"), ErrForbidden, false},
		"conflict": {status(409, "conflict"), ledger.ErrConflict, false}, "ended": {status(409, "ended"), ledger.ErrEnded, false},
		"evidence": {status(409, "evidence"), ErrRefused, false}, "422": {status(422, "record"), ErrRefused, false},
		"503": {status(503, "busy"), ErrUnreachable, true}, "500": {status(500, "storage"), ErrUnreachable, true}, "429": {status(429, ""), ErrUnreachable, true},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, ledger.ErrAnswer, false},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, ledger.ErrAnswer, false},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, ledger.ErrAnswer, false},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte("x"), 1<<20)) }, ledger.ErrAnswer, false},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			fmt.Fprint(w, "{")
		}, ErrUnreachable, true},
		"hang up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ErrUnreachable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			p := s.place(t, t.TempDir())
			r := recording(t, p)
			s.mu.Lock()
			s.lie = func(w http.ResponseWriter, r *http.Request) bool { tc.answer(w, r); return true }
			s.mu.Unlock()
			if tc.waits {
				r.Wait = 600 * time.Millisecond
			}
			_, err := r.Append(t.Context(), decision("one"))
			for tries := 0; tc.waits && s.times("POST v1/records") < 2 && tries < 5; tries++ { // this process stood still
				s.mu.Lock()
				delete(s.asked, "POST v1/records")
				s.mu.Unlock()
				r.Wait *= 2
				_, err = r.Append(t.Context(), decision("one"))
			}
			if !errors.Is(err, tc.want) || strings.Contains(err.Error(), secretToken) {
				t.Errorf("%v", err)
			}
			if n := s.times("POST v1/records"); (n > 1) != tc.waits {
				t.Errorf("asked %d times", n)
			}
			p.Wait = 600 * time.Millisecond
			if _, err := Read(t.Context(), p); err == nil || strings.Contains(err.Error(), secretToken) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// TestNoAnswer: without a server there is one clear error, and an interrupt ends the wait.
func TestNoAnswer(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	r := recording(t, p)
	s.Close()
	r.Wait, p.Wait = 2*time.Second, 2*time.Second
	if _, err := r.Append(t.Context(), decision("one")); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if err := opening(t, p).Opened(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Append(ctx, decision("one")); err == nil {
		t.Error("recorded after an interrupt")
	}
}

// TestSentAgain: a record whose answer is lost is sent again, and gets the first answer. A
// server that is busy for a while is waited for.
func TestSentAgain(t *testing.T) {
	s := serve(t)
	r := recording(t, s.place(t, t.TempDir()))
	lost := 2
	s.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		if lost--; lost == 1 {
			refuse(w, http.StatusServiceUnavailable, "busy")
			return true
		}
		if lost == 0 {
			s.record(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		return false
	}
	got, err := r.Append(t.Context(), decision("one"))
	if err != nil || got.Index != 1 || !got.Again || len(s.entries) != 2 {
		t.Errorf("%+v, %v; %d entries", got, err, len(s.entries))
	}
}

// TestEvidenceIsThereFirst: a record is not sent before its evidence is stored.
func TestEvidenceIsThereFirst(t *testing.T) {
	s := serve(t)
	r := recording(t, s.place(t, t.TempDir()))
	r.Wait = 300 * time.Millisecond
	s.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			refuse(w, http.StatusInternalServerError, "storage")
		}
		return r.Method == http.MethodPut
	}
	if _, err := r.Put([]byte("evidence")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append(t.Context(), decision("one")); !errors.Is(err, ErrUnreachable) || s.times("POST v1/records") > 0 {
		t.Errorf("%v, and %d records were sent", err, s.times("POST v1/records"))
	}
}

// TestTokenStaysHere: the token goes to the server alone, with every request.
func TestTokenStaysHere(t *testing.T) {
	s := serve(t)
	r := read(t, s.place(t, t.TempDir()))
	if _, err := r.Find(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	for _, h := range s.heads {
		if h.Get("Authorization") != "Bearer "+secretToken {
			t.Errorf("a request without the token: %v", h)
		}
	}
	files := 0
	err := filepath.WalkDir(r.State, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte(secretToken)) {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestURLs: a URL that would show the token, or that is none of a log, is refused.
func TestURLs(t *testing.T) {
	key := signer(t, "example.com/log", 1).Verifier()
	for url, ok := range map[string]bool{
		"https://log.example.com": true, "https://log.example.com/team/": true, "http://127.0.0.1:1": true, "http://localhost:1/x": true, "http://[::1]:1": true,
		"http://log.example.com": false, "http://10.0.0.1": false, "https://": false, "https://user@log.example.com": false, "https://log.example.com/?a": false,
		"https://log.example.com/#a": false, "https:log.example.com": false, "https://log.example.com:x": false, "ftp://log.example.com": false,
	} {
		_, err := newClient(Place{URL: url, Key: key})
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrURL) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestBrokenPromises: a log that does not keep what it promised is exposed by the next reader,
// and the signed notes are kept.
func TestBrokenPromises(t *testing.T) {
	for name, tc := range map[string]struct {
		then  func(s *server)
		want  error
		notes int // kept against the log
	}{
		"rolled back":                      {func(s *server) { s.cut(200) }, ledger.ErrTruncated, 1},
		"forked":                           {func(s *server) { s.cut(200); s.fill(210); s.addOther(); s.fill(400) }, ledger.ErrForked, 1},
		"forked at the same size":          {func(s *server) { s.cut(299); s.addOther() }, ledger.ErrForked, 1},
		"an acknowledged entry is another": {func(s *server) { s.cut(300); s.addOther(); s.fill(400) }, ledger.ErrForked, 1},
		"other entries":                    {func(s *server) { s.entries[299] = s.entries[298] }, ledger.ErrTampered, 0},
		"other tiles":                      {func(s *server) { s.stored[len(s.stored)-1][0] ^= 1 }, ledger.ErrForked, 1},
		"bad signature": {func(s *server) {
			s.lie = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/checkpoint" {
					return false
				}
				c, _ := s.key.Checkpoint(1, ledger.LeafHash(s.entries[0]))
				w.Write(bytes.Replace(c.Note, []byte("\n1\n"), []byte("\n2\n"), 1))
				return true
			}
		}, ledger.ErrBadSignature, 0},
		"another key": {func(s *server) { s.key = signer(t, "example.com/log", 2) }, ledger.ErrUnknownKey, 0},
		"another log": {func(s *server) {
			s.key = signer(t, "example.com/other", 1)
			s.keys = ledger.Keys{{Size: 1, Key: s.key.Verifier()}}
		}, ledger.ErrUnknownKey, 0},
		"nothing": {func(*server) {}, nil, 0},
		"more":    {func(s *server) { s.hidden = 0; s.fill(700) }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.fill(300)
			state := t.TempDir()
			p := s.place(t, state)
			if read(t, p).Checkpoint().Size != 300 {
				t.Fatal("not the whole log")
			}
			s.hidden = 1
			got, err := recording(t, p).Append(t.Context(), decision("acknowledged"))
			if err != nil || got.Index != 300 {
				t.Fatal(got, err)
			}
			if late := read(t, p); late.Pending() != 1 || late.Checkpoint().Size != 300 {
				t.Fatalf("%d pending", late.Pending())
			}
			tc.then(s)
			if name != "nothing" {
				s.hidden = 0
			}
			_, err = Audit(t.Context(), p, ledger.AuditOptions{})
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%v", err)
			}
			kept, _ := filepath.Glob(filepath.Join(state, "*", againstFolder, "*"))
			if len(kept) != tc.notes {
				t.Errorf("kept %v", kept)
			}
			if seen, _ := filepath.Glob(filepath.Join(state, "*", seenFolder, "*")); len(seen) != 1 {
				t.Errorf("remembered %v", seen)
			}
		})
	}
}

// addOther adds an entry that no other log of the tests has.
func (s *server) addOther() {
	rec := decision("other")
	rec.Stamp(start.Add(time.Duration(len(s.entries))*time.Second), "")
	s.add(rec)
}

// TestReceipts: an ack of a rolled back or forked log is lost, and one that the log keeps is
// kept.
func TestReceipts(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	got, err := recording(t, p).Append(t.Context(), decision("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		then func()
		says string
	}{
		{func() {}, ""}, {func() { s.cut(1) }, "TRUNCATED"}, {func() { s.addOther() }, "another one"},
	} {
		want.then()
		p.State = t.TempDir()
		list := []ledger.Kept{{Ack: got.Ack.Note}}
		if err := ledger.Keeps(t.Context(), read(t, p), list); err != nil || (list[0].Fault == "") != (want.says == "") || !strings.Contains(list[0].Fault, want.says) {
			t.Errorf("%q, %v; wanted %q", list[0].Fault, err, want.says)
		}
	}
}

// TestRotatedKeys: a later key counts if a note of the key before vouches for it.
func TestRotatedKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		note func(s *server, old *ledger.Signer) []byte
		want error
	}{
		"checkpoint": {func(s *server, old *ledger.Signer) []byte { return s.noteOf(old, 4) }, nil},
		"none":       {func(*server, *ledger.Signer) []byte { return nil }, ledger.ErrTampered},
		"other size": {func(s *server, old *ledger.Signer) []byte { return s.noteOf(old, 3) }, ledger.ErrTampered},
		"own key":    {func(s *server, _ *ledger.Signer) []byte { return s.noteOf(s.key, 4) }, ledger.ErrTampered},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.fill(3)
			old, next := s.key, signer(t, "example.com/log", 2)
			rotation := ledger.Record{Kind: ledger.KindKeyRotation, Key: next.Verifier().String()}
			rotation.Stamp(start.Add(3*time.Second), "")
			s.add(rotation)
			s.fill(9)
			s.key = next
			s.keys = append(s.keys, ledger.KeyFrom{Size: 5, Key: next.Verifier(), Note: tc.note(s, old)})
			p := s.place(t, t.TempDir())
			if a, err := Audit(t.Context(), p, ledger.AuditOptions{}); !errors.Is(err, tc.want) || err == nil && (a.Size != 9 || len(a.Keys) != 2) {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// noteOf returns a checkpoint of an earlier size, signed by a key.
func (s *server) noteOf(key *ledger.Signer, size int64) []byte {
	var tree ledger.Range
	for _, e := range s.entries[:size] {
		tree.Append(ledger.LeafHash(e), nil)
	}
	c, err := key.Checkpoint(size, tree.Root())
	if err != nil {
		s.t.Error(err)
	}
	return c.Note
}

// TestPins: a pin is kept in the state folder, and the log has to keep it.
func TestPins(t *testing.T) {
	s := serve(t)
	s.fill(20)
	p := s.place(t, t.TempDir())
	r := read(t, p)
	for range 2 {
		if _, err := r.Pin(r.Checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	if pins, err := r.Pins(); err != nil || len(pins) != 1 || !bytes.Equal(pins[20], r.Checkpoint().Note) {
		t.Errorf("%v, %v", pins, err)
	}
	s.fill(30)
	if a, err := Audit(t.Context(), p, ledger.AuditOptions{}); err != nil || a.Pins != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	// A pin whose name is another size was changed.
	if err := r.state.keep(numberedName(ledger.PinFolder, 25), r.Checkpoint().Note); err != nil {
		t.Fatal(err)
	}
	if _, err := Audit(t.Context(), p, ledger.AuditOptions{}); !errors.Is(err, ledger.ErrTampered) {
		t.Error(err)
	}
}

// TestManyAtOnce: many goroutines record with one recorder, and each gets its own entry.
func TestManyAtOnce(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	r := recording(t, p)
	var all sync.WaitGroup
	indexes := make([]int64, 40)
	for i := range indexes {
		all.Go(func() {
			got, err := r.Append(t.Context(), decision(fmt.Sprintf("run-%d", i)))
			if err != nil || got.Record.RunID != fmt.Sprintf("run-%d", i) {
				t.Errorf("%+v, %v", got, err)
			}
			indexes[i] = got.Index
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, i := range indexes {
		seen[i] = true
	}
	if len(seen) != len(indexes) {
		t.Errorf("%d indexes for %d records", len(seen), len(indexes))
	}
	if got := read(t, p); got.Checkpoint().Size != int64(len(indexes)+1) || got.Pending() != 0 {
		t.Errorf("%d entries", got.Checkpoint().Size)
	}
}
