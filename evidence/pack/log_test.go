package pack

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// signerOf returns the same key in every run of the tests.
func signerOf(t testing.TB, name string) *ledger.Signer {
	t.Helper()
	var seed [32]byte
	copy(seed[:], name)
	private, _, err := ledger.GenerateKey(rand.NewChaCha8(seed), name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testLog is a log in memory.
type testLog struct {
	t       testing.TB
	key     *ledger.Signer
	tree    ledger.Range
	hashes  []tlog.Hash
	entries [][]byte
}

// add appends a record, and returns its line.
func (l *testLog) add(r ledger.Record) []byte {
	l.t.Helper()
	entry, err := r.Entry()
	if err != nil {
		l.t.Fatal(err)
	}
	stored, err := tlog.StoredHashes(l.tree.Size, entry, l)
	if err != nil {
		l.t.Fatal(err)
	}
	l.hashes = append(l.hashes, stored...)
	l.entries = append(l.entries, entry)
	l.tree.Append(ledger.LeafHash(entry), nil)
	seal, err := l.key.Seal(l.tree.Size, l.tree.Root())
	if err != nil {
		l.t.Fatal(err)
	}
	return ledger.Line{Seal: seal, Entry: entry}.Append(nil)
}

func (l *testLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

func (l *testLog) prove(index int64) string {
	l.t.Helper()
	path, err := tlog.ProveRecord(l.tree.Size, index, l)
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := l.key.Checkpoint(l.tree.Size, l.tree.Root())
	if err != nil {
		l.t.Fatal(err)
	}
	return string(ledger.Proof{Index: index, Entry: l.entries[index], Path: path, Note: c.Note}.Marshal())
}
