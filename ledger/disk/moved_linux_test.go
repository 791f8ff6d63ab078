package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// TestMove: a folder that has moved takes no more records, names the new address, and can be
// read. Repair does not undo it, and neither does the repair of an earlier version, which removes
// the mark of a failed append alone: the mark is a folder that is not empty.
func TestMove(t *testing.T) {
	const address = "https://log.example.com/team"
	dir := duplicate(t, sized(t, 3))
	before := opened(t, dir, at(noon))
	failed := errors.New("the server is full")
	if err := Move(t.Context(), dir, signer(), address, at(noon), func(bool) error { return failed }); !errors.Is(err, failed) {
		t.Fatalf("%v", err)
	}
	_, err := before.Append(t.Context(), decision("still"))
	ok(t, err)

	// A move that is killed before its mark leaves a folder that takes records.
	ok(t, os.Mkdir(filepath.Join(dir, ".state/moving"), 0o755))
	_, err = before.Append(t.Context(), decision("after"))
	ok(t, err)
	held := 0
	for range 2 { // the second move goes on
		ok(t, Move(t.Context(), dir, signer(), address, at(noon), func(again bool) error {
			if again != (held == 1) {
				t.Errorf("again: %t", again)
			}
			held++
			o := at(noon)
			o.Wait = time.Millisecond
			if err := Move(t.Context(), dir, signer(), address, o, func(bool) error { return nil }); !errors.Is(err, ErrBusy) {
				t.Errorf("a second move at once: %v", err)
			}
			return nil
		}))
	}
	if held != 2 {
		t.Errorf("called %d times", held)
	}
	moved := func(what string, err error) {
		t.Helper()
		m := (*Moved)(nil)
		if !errors.As(err, &m) || m.Address != address || !strings.Contains(m.Remedy(), "--ledger "+address) || errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = before.Append(t.Context(), decision("late"))
	moved("an open ledger", err)
	_, err = Open(dir, signer(), at(noon))
	moved("a new process", err)
	_, err = Repair(t.Context(), dir, signer(), at(noon))
	moved("repair", err)
	moved("another address", Move(t.Context(), dir, signer(), address+"2", at(noon), func(bool) error { return nil }))
	if err := os.Remove(filepath.Join(dir, namePoison)); err == nil {
		t.Error("the mark can be removed as one of a failed append")
	}

	verifier := signer().Verifier()
	a, err := Audit(t.Context(), dir, &verifier, ledger.AuditOptions{Seals: true, Tiles: true})
	ok(t, err)
	if a.Size != 5 {
		t.Errorf("%d entries", a.Size)
	}
	ok(t, os.Remove(filepath.Join(dir, nameMoved)))
	if _, err = Open(dir, signer(), at(noon)); err == nil || !strings.Contains(err.Error(), "the URL of its server") {
		t.Errorf("without the address: %v", err)
	}
}
