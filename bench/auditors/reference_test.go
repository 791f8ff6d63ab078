package auditors

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	origin     = "fiador.example/ledger"
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// A key signs checkpoints.
type key struct {
	verifier string
	signer   note.Signer
}

func newKey(t *testing.T, name string) key {
	t.Helper()
	secret, verifier, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key{verifier, signer}
}

// sign is the text as a signed note.
func (k key) sign(t *testing.T, text string) []byte {
	t.Helper()
	b, err := note.Sign(&note.Note{Text: text}, k.signer)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkpointText is a checkpoint without its signature.
func checkpointText(origin string, t tlog.Tree) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, t.N, base64.StdEncoding.EncodeToString(t.Hash[:]))
}

// hashStore is the stored hashes of a log, by their index.
type hashStore []tlog.Hash

func (s hashStore) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		hashes[i] = s[x]
	}
	return hashes, nil
}

// entriesOf returns n entries, no two alike and not all of one length. The entries of one
// word are the beginning of every longer list of that word.
func entriesOf(word string, n int) [][]byte {
	entries := make([][]byte, n)
	for i := range entries {
		entries[i] = fmt.Appendf(nil, `{"kind":%q,"n":%d,"square":%d}`, word, i, i*i)
	}
	return entries
}

// store returns the stored hashes of the entries, and their tree.
func store(t *testing.T, entries [][]byte) (hashStore, tlog.Tree) {
	t.Helper()
	var s hashStore
	for i, e := range entries {
		more, err := tlog.StoredHashes(int64(i), e, s)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, more...)
	}
	n := int64(len(entries))
	root, err := tlog.TreeHash(n, s)
	if err != nil {
		t.Fatal(err)
	}
	return s, tlog.Tree{N: n, Hash: root}
}

// writeTree is a second writer of the format, for the tests and for comparison with
// Fiador's writer. It shares no code with Fiador or with the auditors but
// golang.org/x/mod.
func writeTree(t *testing.T, dir string, k key, entries [][]byte) {
	t.Helper()
	s, tree := store(t, entries)
	for _, tile := range tlog.NewTiles(tileHeight, 0, tree.N) {
		data, err := tlog.ReadTileData(tile, s)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, tilePath(fmt.Sprint(tile.L), tile.N, tile.W), data)
	}
	writeBundles(t, dir, entries)
	write(t, dir, "checkpoint", k.sign(t, checkpointText(origin, tree)))
}

// writeBundles writes the entries, and leaves the hashes unchanged.
func writeBundles(t *testing.T, dir string, entries [][]byte) {
	t.Helper()
	for first := 0; first < len(entries); first += tileWidth {
		bundle := entries[first:min(first+tileWidth, len(entries))]
		write(t, dir, bundlePath(first, len(entries)), bundleOf(bundle))
	}
}

// bundleOf returns the entries, each after its length in two bytes.
func bundleOf(entries [][]byte) []byte {
	var b []byte
	for _, e := range entries {
		b = binary.BigEndian.AppendUint16(b, uint16(len(e)))
		b = append(b, e...)
	}
	return b
}

// entriesIn returns the entries of a published tree of n entries, as its bundles have
// them.
func entriesIn(t *testing.T, dir string, n int) [][]byte {
	t.Helper()
	var entries [][]byte
	for first := 0; first < n; first += tileWidth {
		for b := read(t, dir, bundlePath(first, n)); len(b) > 0; {
			if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
				t.Fatalf("%s ends in the middle of an entry", bundlePath(first, n))
			}
			end := 2 + int(binary.BigEndian.Uint16(b))
			entries, b = append(entries, b[2:end]), b[end:]
		}
	}
	return entries
}

// bundlePath returns the place of entry i of n.
func bundlePath(i, n int) string {
	first := i / tileWidth * tileWidth
	return tilePath("entries", int64(i/tileWidth), min(tileWidth, n-first))
}

// tilePath returns the place of the tile or entry bundle with a number and width. The
// number is written in groups of three digits, all but the last after an x.
func tilePath(level string, number int64, width int) string {
	path := fmt.Sprintf("%03d", number%1000)
	for number /= 1000; number > 0; number /= 1000 {
		path = fmt.Sprintf("x%03d/%s", number%1000, path)
	}
	path = "tile/" + level + "/" + path
	if width < tileWidth {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}

// prove returns the proof that entry i is in the tree of the entries.
func prove(t *testing.T, k key, entries [][]byte, i int) []byte {
	t.Helper()
	s, tree := store(t, entries)
	hashes, err := tlog.ProveRecord(tree.N, int64(i), s)
	if err != nil {
		t.Fatal(err)
	}
	b := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %d\n", i)
	for _, h := range hashes {
		b = fmt.Appendln(b, base64.StdEncoding.EncodeToString(h[:]))
	}
	b = append(b, '\n')
	return append(b, k.sign(t, checkpointText(origin, tree))...)
}

func write(t *testing.T, dir, path string, data []byte) {
	t.Helper()
	path = filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
