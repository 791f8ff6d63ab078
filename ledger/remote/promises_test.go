package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// rotate gives the log another key, with a note that vouches for it.
func (s *server) rotate() (old *ledger.Signer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.key = s.key, signer(s.t, "example.com/log", byte(len(s.keys)+1))
	rotation := ledger.Record{Kind: ledger.KindKeyRotation, Key: s.key.Verifier().String()}
	rotation.Stamp(start.Add(time.Duration(len(s.entries))*time.Second), "")
	s.add(rotation)
	size := int64(len(s.entries))
	s.keys = append(s.keys, ledger.KeyFrom{Size: size + 1, Key: s.key.Verifier(), Note: s.noteOf(old, size)})
	return old
}

// TestForgedLaterKey: a key that origin.json names, and for which nothing vouches, acknowledges
// nothing.
func TestForgedLaterKey(t *testing.T) {
	s := serve(t)
	s.fill(5)
	forger := signer(t, "example.com/log", 9)
	s.keys = append(s.keys, ledger.KeyFrom{Size: 2, Key: forger.Verifier()})
	if r, err := Record(t.Context(), s.place(t, t.TempDir())); err == nil {
		if _, err = r.Append(t.Context(), decision("one")); err == nil {
			t.Error("recorded with a key that nobody vouches for")
		}
		s.twist = func(d *ledger.Recorded) {
			a, _ := forger.Ack(d.Index, ledger.LeafHash([]byte(d.Entry)))
			d.Ack = string(a.Note)
		}
		if got, err := r.Append(t.Context(), decision("two")); err == nil {
			t.Errorf("believed %+v", got)
		}
	}
}

// TestRotationWhileOpen: a recorder that is open accepts the next key, if the log vouches for
// it. An older reader counts an ack of that key as pending.
func TestRotationWhileOpen(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	r := recording(t, p)
	s.rotate()
	s.fill(4)
	if got, err := r.Append(t.Context(), decision("one")); err != nil || got.Index != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if a, err := Audit(t.Context(), p, ledger.AuditOptions{}); err != nil || a.Pending != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	// With the later key as the trusted one, the log is as sound.
	p.Key, p.State = s.key.Verifier(), t.TempDir()
	if a, err := Audit(t.Context(), p, ledger.AuditOptions{}); err != nil || a.Size != 5 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestAckOfLaterKey: a record that is sent again after a rotation is acknowledged by the later
// key. The same promise with another signature is no contradiction, and one of another leaf is.
func TestAckOfLaterKey(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	r := recording(t, p)
	first, err := r.Append(t.Context(), decision("one"))
	if err != nil {
		t.Fatal(err)
	}
	old := s.rotate()
	s.fill(5)
	again, err := r.Append(t.Context(), decision("one"))
	if err != nil || !again.Again || again.Index != first.Index || bytes.Equal(again.Ack.Note, first.Ack.Note) {
		t.Fatalf("%+v, %v", again, err)
	}
	// Both notes at once: no reader has settled the first one.
	for _, ack := range []*ledger.Ack{first.Ack, again.Ack, first.Ack} {
		if err := r.remember(ack); err != nil {
			t.Error(err)
		}
	}
	other, err := s.key.Ack(first.Index, ledger.LeafHash([]byte("another entry")))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.remember(&other); !errors.Is(err, ledger.ErrForked) {
		t.Errorf("another leaf: %v", err)
	}
	// An earlier key acknowledges nothing that a later one has to sign.
	s.twist = func(d *ledger.Recorded) {
		a, _ := old.Ack(d.Index, ledger.LeafHash([]byte(d.Entry)))
		d.Ack = string(a.Note)
	}
	if got, err := r.Append(t.Context(), decision("two")); err == nil {
		t.Errorf("believed %+v", got)
	}
	s.twist = nil
	if a, err := Audit(t.Context(), s.place(t, t.TempDir()), ledger.AuditOptions{}); err != nil || a.Size != 6 {
		t.Errorf("%+v, %v", a, err)
	}
	// Whoever trusts the later key alone believes its acks of earlier entries.
	p.Key, p.State = s.key.Verifier(), t.TempDir()
	if got, err := recording(t, p).Append(t.Context(), decision("one")); err != nil || got.Index != first.Index {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRetiredKey: a key that a rotation has ended signs no checkpoint any more.
func TestRetiredKey(t *testing.T) {
	s := serve(t)
	old := s.rotate()
	s.fill(6)
	s.key, s.keys = old, s.keys[:1]
	if _, err := Audit(t.Context(), s.place(t, t.TempDir()), ledger.AuditOptions{}); !errors.Is(err, ledger.ErrTampered) {
		t.Error(err)
	}
}

// TestBlobsAtOnce: goroutines that share a recorder store and record at once. A blob whose
// upload failed is sent again before the next record.
func TestBlobsAtOnce(t *testing.T) {
	s := serve(t)
	r := recording(t, s.place(t, t.TempDir()))
	failing := 20
	s.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || failing == 0 {
			return false
		}
		failing--
		refuse(w, http.StatusUnprocessableEntity, "record")
		return true
	}
	var all sync.WaitGroup
	blobs := make([]ledger.Blob, 64)
	for i := range blobs {
		all.Go(func() {
			var err error
			if blobs[i], err = r.Put(fmt.Appendf(nil, "blob %d", i)); err != nil {
				t.Error(err)
			}
			for range 50 {
				if _, err = r.Append(t.Context(), decision(fmt.Sprintf("run-%d", i))); err == nil {
					return
				}
			}
			t.Errorf("run %d: %v", i, err)
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range blobs {
		if string(s.evidence[b.SHA256.Hex()]) != fmt.Sprintf("blob %d", i) {
			t.Errorf("blob %d is not stored", i)
		}
	}
	if failing > 0 || len(r.uploads) > 0 || len(s.entries) != len(blobs)+1 {
		t.Errorf("%d failures left, %d uploads, %d entries", failing, len(r.uploads), len(s.entries))
	}
}

// TestInterruptedRun: the record of a run that was interrupted is sent, with its evidence.
func TestInterruptedRun(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Record(ctx, s.place(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	b, err := r.Put([]byte("evidence"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Append(context.WithoutCancel(ctx), decision("one")); err != nil || got.Index != 1 || s.evidence[b.SHA256.Hex()] == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTwoAcks: a server that acknowledges two entries at one index is caught at the second.
func TestTwoAcks(t *testing.T) {
	s := serve(t)
	state := t.TempDir()
	r := recording(t, s.place(t, state))
	if _, err := r.Append(t.Context(), decision("one")); err != nil {
		t.Fatal(err)
	}
	s.cut(1)
	if got, err := r.Append(t.Context(), decision("two")); !errors.Is(err, ledger.ErrForked) {
		t.Errorf("%+v, %v", got, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(state, "*", againstFolder, "*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// TestFindOfALateEntry: an entry that no checkpoint covers yet is not called missing, and a
// server that leaves one out of its hint does not hide it where all count.
func TestFindOfALateEntry(t *testing.T) {
	s := serve(t)
	s.fill(3)
	p := s.place(t, t.TempDir())
	if _, err := recording(t, p).Append(t.Context(), decision("late")); err != nil {
		t.Fatal(err)
	}
	s.hidden = 1
	r := read(t, p)
	for _, all := range []bool{true, false} {
		if found, err := r.Find(t.Context(), "late", all); !errors.Is(err, ErrPending) {
			t.Errorf("all %t: %v, %v", all, found, err)
		}
	}
	// A machine that has no ack asks the server, which tells a client alone.
	p.State = t.TempDir()
	for token, want := range map[string]error{p.Token: ErrPending, "": ErrNoToken} {
		p.Token = token
		if found, err := read(t, p).Find(t.Context(), "late", true); !errors.Is(err, want) {
			t.Errorf("without an ack: %v, %v", found, err)
		}
		if found, err := read(t, p).Find(t.Context(), "run-2", true); err != nil || len(found) != 1 {
			t.Errorf("a covered one: %v, %v", found, err)
		}
	}
	p.Token = secretToken
	s.hidden = 0
	r = read(t, p)
	for name, answer := range map[string]string{"hidden": `{"indexes":[]}`, "many": `{"indexes":[0,1,2,3,0,1]}`, "below": `{"indexes":[-1]}`, "none": `[]`} {
		s.mu.Lock()
		s.lie = func(w http.ResponseWriter, r *http.Request) bool {
			runs := strings.HasPrefix(r.URL.Path, "/v1/runs/")
			if runs {
				fmt.Fprint(w, answer)
			}
			return runs
		}
		s.mu.Unlock()
		if found, err := r.Find(t.Context(), "late", true); err != nil || len(found) != 1 || found[0] != 3 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if found, err := r.Find(t.Context(), "late", false); name != "many" && (err == nil) != (name == "hidden") || len(found) > 1 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// TestDamagedStateFolder: a tile that was damaged in the state folder is fetched again, and the
// server is not accused.
func TestDamagedStateFolder(t *testing.T) {
	s := serve(t)
	s.fill(600)
	p := s.place(t, t.TempDir())
	if _, err := Audit(t.Context(), p, ledger.AuditOptions{}); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(p.State, "*", "tile", "*", "00*"))
	if len(names) < 4 {
		t.Fatalf("kept %v", names)
	}
	for _, name := range names {
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{{}, append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), append(bytes.Clone(good), 0)} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if a, err := Audit(t.Context(), p, ledger.AuditOptions{}); err != nil || a.Size != 600 {
				t.Errorf("%s: %v", filepath.Base(name), err)
			}
		}
	}
}

// TestBusyIsNoContradiction: a server that cannot answer now is not accused.
func TestBusyIsNoContradiction(t *testing.T) {
	s := serve(t)
	s.fill(300)
	p := s.place(t, t.TempDir())
	read(t, p)
	s.fill(700)
	s.lie = func(w http.ResponseWriter, r *http.Request) bool {
		tile := strings.HasPrefix(r.URL.Path, "/tile/")
		if tile {
			refuse(w, http.StatusServiceUnavailable, "busy")
		}
		return tile
	}
	if _, err := Read(t.Context(), p); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(p.State, "*", againstFolder, "*")); len(kept) != 0 {
		t.Errorf("kept %v", kept)
	}
}

// TestNoStateFolder: without a state folder nothing is decided, because a promise could not be
// remembered.
func TestNoStateFolder(t *testing.T) {
	s := serve(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Record(t.Context(), s.place(t, file)); err == nil || len(s.asked) > 0 {
		t.Errorf("%v, asked %v", err, s.asked)
	}
}

// TestOpeningWaits: a server that starts, or gives way to another one, is waited for when a log
// is opened for appends.
func TestOpeningWaits(t *testing.T) {
	s := serve(t)
	busy := 2
	s.lie = func(w http.ResponseWriter, _ *http.Request) bool {
		if busy--; busy < 0 {
			return false
		}
		refuse(w, http.StatusServiceUnavailable, "busy")
		return true
	}
	recording(t, s.place(t, t.TempDir()))
}

// TestOtherLog: to a log that has not the trusted key, no end of a run is sent, and no ack of it
// is believed.
func TestOtherLog(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	p.Key = signer(t, "example.com/log", 9).Verifier()
	sent := decision("one")
	for _, kind := range []ledger.Kind{ledger.KindDecision, ledger.KindBegun} {
		r := opening(t, p)
		if kind == ledger.KindBegun {
			sent = begun("two")
		} else if _, err := r.Put([]byte("evidence")); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Append(t.Context(), sent); !errors.Is(err, ledger.ErrUnknownKey) || got.Ack != nil {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
		if n := s.times("POST v1/records"); kind.Ends() && n > 0 {
			t.Errorf("%s: %d records were sent", kind, n)
		}
	}
	if acks, _ := filepath.Glob(filepath.Join(p.State, "*", acksFolder, "*")); len(acks) > 0 {
		t.Errorf("remembered %v", acks)
	}
}

// TestManyAcksAreSettled: a client that only records keeps no ack for ever.
func TestManyAcksAreSettled(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	r := recording(t, p)
	for i := range manyAcks {
		if err := r.state.keep(numberedName(acksFolder, int64(i)), []byte(s.ackOf(i))); err != nil {
			t.Fatal(err)
		}
	}
	recording(t, p)
	if acks, err := r.state.numbered(acksFolder); err != nil || len(acks) > 0 {
		t.Errorf("%d acks, %v", len(acks), err)
	}
}

// ackOf returns the ack of an entry, which it adds if it is not there.
func (s *server) ackOf(index int) string {
	s.fill(index + 1)
	return s.ack(int64(index), string(s.entries[index]))
}
