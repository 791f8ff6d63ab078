package remote

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// TestBegunWithoutEvidence: a begun record is sent while evidence is, and no run begins before
// the evidence is stored: the set of policies is part of it.
func TestBegunWithoutEvidence(t *testing.T) {
	for name, status := range map[string]int{"storage": http.StatusInternalServerError, "large": http.StatusRequestEntityTooLarge} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			r := recording(t, s.place(t, t.TempDir()))
			r.Wait = 300 * time.Millisecond
			s.mu.Lock()
			s.lie = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut {
					refuse(w, status, name)
				}
				return r.Method == http.MethodPut
			}
			s.mu.Unlock()
			if _, err := r.Put([]byte("evidence")); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Append(t.Context(), begun("one")); err == nil || got.Ack != nil {
				t.Errorf("%+v, %v", got, err)
			}
			s.mu.Lock()
			s.lie = nil
			s.mu.Unlock()
			got, err := r.Append(t.Context(), begun("one"))
			for tries := 0; errors.Is(err, ErrUnreachable) && tries < 5; tries++ { // this process stood still
				got, err = r.Append(t.Context(), begun("one"))
			}
			if err != nil || !got.Again || len(r.uploads) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestRolledBackAtAppend: an ack of a new entry that stands where the log had another one
// already is not believed, and both notes are kept. An old entry is acknowledged again.
func TestRolledBackAtAppend(t *testing.T) {
	s := serve(t)
	s.fill(10)
	p := s.place(t, t.TempDir())
	read(t, p)
	r := recording(t, p)
	old := decision("run-3")
	if got, err := r.Append(t.Context(), old); err != nil || !got.Again || got.Index != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	s.cut(5)
	if got, err := r.Append(t.Context(), decision("one")); !errors.Is(err, ledger.ErrTruncated) || got.Ack != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(p.State, "*", againstFolder, "5-*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// TestForkAtUnknownKey: where an ack has an unknown key, the log is read. What is wrong with
// the log is told then, and not the key.
func TestForkAtUnknownKey(t *testing.T) {
	s := serve(t)
	s.fill(10)
	p := s.place(t, t.TempDir())
	read(t, p)
	r := recording(t, p)
	s.cut(9)
	s.addOther()
	s.twist = func(d *ledger.Recorded) {
		a, _ := signer(t, "example.com/log", 2).Ack(d.Index, ledger.LeafHash([]byte(d.Entry)))
		d.Ack = string(a.Note)
	}
	if got, err := r.Append(t.Context(), decision("one")); !errors.Is(err, ledger.ErrForked) || got.Ack != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWrongLogEndsSending: when it is known that a log is not the one of the key, what is being
// sent to it is given up.
func TestWrongLogEndsSending(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	p.Key = signer(t, "example.com/log", 9).Verifier()
	p.Wait = time.Minute
	begins := make(chan struct{})
	s.lie = func(_ http.ResponseWriter, r *http.Request) bool {
		s.mu.Unlock() // the requests wait for each other
		defer s.mu.Lock()
		if r.Method == http.MethodGet {
			<-begins
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		close(begins)
		<-r.Context().Done()
		return true
	}
	r := opening(t, p)
	failed := make(chan error, 1)
	go func() { _, err := r.Append(t.Context(), begun("one")); failed <- err }()
	select {
	case err := <-failed:
		if !errors.Is(err, ledger.ErrUnknownKey) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a record is sent still")
	}
}
