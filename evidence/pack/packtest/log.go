// Package packtest has what the tests of packs share: changed packs, keys, and a log in memory. Tests
// alone import it.
package packtest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/fiador/fiador/ledger"
)

// Signer returns the same key in every run of the tests.
func Signer(t testing.TB, name string) *ledger.Signer {
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

// Log is a log in memory.
type Log struct {
	T       testing.TB
	Key     *ledger.Signer
	entries [][]byte
}

// Add appends a record, and returns its line.
func (l *Log) Add(r ledger.Record) []byte {
	l.T.Helper()
	entry, err := r.Entry()
	if err != nil {
		l.T.Fatal(err)
	}
	l.entries = append(l.entries, entry)
	tree := treeOf(l.entries)
	seal, err := l.Key.Seal(tree.Size, tree.Root())
	if err != nil {
		l.T.Fatal(err)
	}
	return ledger.Line{Seal: seal, Entry: entry}.Append(nil)
}

// Prove returns the receipt of an entry.
func (l *Log) Prove(index int64) string {
	l.T.Helper()
	tree := treeOf(l.entries)
	c, err := l.Key.Checkpoint(tree.Size, tree.Root())
	if err != nil {
		l.T.Fatal(err)
	}
	p := ledger.Proof{Index: index, Entry: l.entries[index], Note: c.Note}
	addPath(&p, index, l.entries)
	return string(p.Marshal())
}

// Ack returns the promise of a server that keeps the log.
func (l *Log) Ack(index int64) string {
	l.T.Helper()
	a, err := l.Key.Ack(index, ledger.LeafHash(l.entries[index]))
	if err != nil {
		l.T.Fatal(err)
	}
	return string(a.Note)
}

// Unsealed returns the lines as a server has them, which are the entries.
func Unsealed(t testing.TB, lines []byte) (out []byte) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		l, err := ledger.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, l.Entry...), '\n')
	}
	return out
}

// treeOf returns the tree over entries.
func treeOf(entries [][]byte) ledger.Range {
	var tree ledger.Range
	for _, e := range entries {
		tree.Append(ledger.LeafHash(e), nil)
	}
	return tree
}

// addPath adds the audit path of an entry to a proof (RFC 6962, 2.1.1).
func addPath(p *ledger.Proof, index int64, entries [][]byte) {
	if len(entries) == 1 {
		return
	}
	left := int64(1)
	for 2*left < int64(len(entries)) {
		left *= 2
	}
	if index < left {
		addPath(p, index, entries[:left])
		p.Path = append(p.Path, treeOf(entries[left:]).Root())
	} else {
		addPath(p, index-left, entries[left:])
		p.Path = append(p.Path, treeOf(entries[:left]).Root())
	}
}
