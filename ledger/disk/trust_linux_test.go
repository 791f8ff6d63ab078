package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/ledger"
)

// TestTrustedKeyVouches: trust in the first key of a ledger covers the later ones, with
// and without derived files. It does not cover a key that no record vouches for.
func TestTrustedKeyVouches(t *testing.T) {
	for _, size := range []int{3, 255, 256, 300} {
		dir := sized(t, size)
		dir = duplicate(t, dir)
		l := opened(t, dir, at(noon))
		_, err := l.Rotate(t.Context(), successor())
		ok(t, err)
		for i := range 5 {
			_, err := l.Append(t.Context(), decision("after-"+string(rune('a'+i))))
			ok(t, err)
		}
		first := signer().Verifier()
		for _, bare := range []bool{false, true} {
			if bare {
				remove(t, dir, nameState)
				ok(t, os.RemoveAll(filepath.Join(dir, "tile")))
			}
			r, err := Read(dir, first)
			ok(t, err)
			if n := len(r.Keys()); n != 2 {
				t.Errorf("%d keys", n)
			}
			ok(t, r.Close())
		}
		// The record of the rotation names another key than origin.json does.
		text := contents(dir, ledger.NameOrigin)
		private, _, err := ledger.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{9}, 64)), first.Origin())
		ok(t, err)
		thief, err := ledger.ParseSigner(private)
		ok(t, err)
		forged := bytes.Replace(text, []byte(successor().Verifier().String()), []byte(thief.Verifier().String()), 1)
		put(t, dir, ledger.NameOrigin, forged)
		c, err := ledger.ParseCheckpoint(contents(dir, nameCheckpoint))
		ok(t, err)
		signed, err := thief.Checkpoint(c.Size, c.Root)
		ok(t, err)
		put(t, dir, nameCheckpoint, signed.Note)
		if _, err := Read(dir, first); !errors.Is(err, ledger.ErrTampered) {
			t.Errorf("size %d: a thief's key is believed: %v", size, err)
		}
		// A record of the rotation with the old seal does not help either.
		put(t, dir, nameLedger, bytes.Replace(contents(dir, nameLedger), []byte(successor().Verifier().String()), []byte(thief.Verifier().String()), 1))
		if _, err := Read(dir, first); !errors.Is(err, ledger.ErrTampered) {
			t.Errorf("size %d: a forged rotation is believed: %v", size, err)
		}
	}
}
