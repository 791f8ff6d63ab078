package ledger

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// storage is a tree in the form of package tlog.
type storage []tlog.Hash

func (s storage) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = s[at]
	}
	return out, nil
}

func (s *storage) add(t testing.TB, n int64, leaf tlog.Hash) {
	t.Helper()
	more, err := tlog.StoredHashesForRecordHash(n, leaf, s)
	if err != nil {
		t.Fatal(err)
	}
	*s = append(*s, more...)
}

func leafOf(n int64) tlog.Hash { return LeafHash(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// TestRange: the root equals the root of package tlog for every size to 1100, and every
// node is visited once, with its hash. A range that is told the hashes is the same.
func TestRange(t *testing.T) {
	var r, told Range
	var s storage
	seen := map[[2]int64]tlog.Hash{}
	for n := int64(0); ; n++ {
		want, err := tlog.TreeHash(n, s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Size != n || r.Root() != want || !r.Valid() {
			t.Fatalf("size %d: root %s, want %s", n, r.Root(), want)
		}
		if n == 1100 {
			break
		}
		s.add(t, n, leafOf(n))
		r.Append(leafOf(n), func(level int, at int64, h tlog.Hash) {
			key := [2]int64{int64(level), at}
			if _, twice := seen[key]; twice {
				t.Fatalf("node %v is visited twice", key)
			}
			seen[key] = h
		})
		if told.appendLast(r.last()); told.Size != r.Size || !slices.Equal(told.Roots, r.Roots) {
			t.Fatalf("size %d: appendLast has the subtrees %v, want %v", r.Size, told.Roots, r.Roots)
		}
	}
	for key, h := range seen {
		if got := s[tlog.StoredHashIndex(int(key[0]), key[1])]; got != h {
			t.Errorf("node %v is %s, want %s", key, h, got)
		}
	}
	if len(seen) != len(s) {
		t.Errorf("%d nodes, want %d", len(seen), len(s))
	}
	if (Range{Size: 3, Roots: make([]tlog.Hash, 1)}).Valid() || (Range{Size: -1}).Valid() {
		t.Error("a range with the wrong number of roots is valid")
	}
}

func TestTilePath(t *testing.T) {
	for want, tile := range map[string]tlog.Tile{
		"tile/0/000":                {H: 8, W: 256},
		"tile/0/001.p/3":            {H: 8, N: 1, W: 3},
		"tile/2/x001/x234/067":      {H: 8, L: 2, N: 1234067, W: 256},
		"tile/entries/000":          {H: 8, L: -1, W: 256},
		"tile/entries/x001/000.p/1": {H: 8, L: -1, N: 1000, W: 1},
	} {
		if got := TilePath(tile); got != want {
			t.Errorf("%+v: %s, want %s", tile, got, want)
		}
	}
}

// TestProofs: a proof of every index of many sizes is right, can be read again, and
// proves nothing else.
func TestProofs(t *testing.T) {
	signer := newSigner(t, 1)
	keys := Keys{{Size: 1, Key: signer.Verifier()}}
	var s storage
	var entries [][]byte
	var tree Range
	for i := range int64(70) {
		entry, err := decided(func(r *Record) { r.RunID = fmt.Sprintf("run_%d", i) }).Entry()
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
		s.add(t, i, LeafHash(entry))
		tree.Append(LeafHash(entry), nil)
		size := i + 1
		if size > 20 && size%7 != 0 && size < 63 {
			continue
		}
		c, err := signer.Checkpoint(size, tree.Root())
		if err != nil {
			t.Fatal(err)
		}
		for index := range size {
			path, err := tlog.ProveRecord(size, index, s)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParseProof(Proof{Index: index, Entry: entries[index], Path: path, Note: c.Note}.Marshal())
			if err != nil {
				t.Fatal(err)
			}
			rec, got, err := keys.CheckProof(p)
			if err != nil || rec.RunID != fmt.Sprintf("run_%d", index) || got.Size != size || got.Root != tree.Root() {
				t.Fatalf("%d of %d: %+v %v", index, size, rec, err)
			}
			if p.Index = (index + 1) % size; size > 1 {
				if _, _, err := keys.CheckProof(p); err == nil {
					t.Fatalf("%d of %d proves %d", index, size, p.Index)
				}
			}
		}
	}
	text := string(Proof{Entry: entries[0], Path: make(tlog.RecordProof, 64), Note: checkpointOf(t, signer, 1).Note}.Marshal())
	if _, err := ParseProof([]byte(text)); err != nil {
		t.Error("64 hashes:", err)
	}
	zero := tlog.Hash{}.String() + "\n"
	if _, err := ParseProof([]byte(strings.Replace(text, zero, zero+zero, 1))); err == nil {
		t.Error("65 hashes are read")
	}
	if _, err := ParseProof([]byte(text + strings.Repeat("x", MaxProofBytes))); err == nil {
		t.Error("a proof of any length is read")
	}
}

func checkpointOf(t testing.TB, s *Signer, size int64) Checkpoint {
	t.Helper()
	c, err := s.Checkpoint(size, tlog.Hash{byte(size)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
