package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/durable"
)

// fileID is what the index knows a file by: whatever changes its content changes its ctime,
// which no program can set.
type fileID struct {
	Device, Inode, Mode, Size uint64
	Modified, Changed         int64 // nanoseconds since 1970
}

// known is one entry of an index.
type known struct {
	ID      fileID
	Hash    receipt.Hash
	Entered int64 // when the file was read
}

// Index has the hashes of files that were read before. It is derived: without it, every file is
// read. The nil index has none.
type Index struct {
	files map[[2]uint64]known
	mu    sync.Mutex
	seen  map[[2]uint64]known // by the scan that goes on

	changed bool // since it was read
}

// settled is how much older than an entry the last change of its file must be. Within the
// grain of a file system's clock, a file can change without another time.
const settled = 2 * time.Second

// digest returns the hash of a file if the index has it for certain, and keeps the entry.
func (x *Index) digest(id fileID) (receipt.Hash, bool) {
	if x == nil {
		return receipt.Hash{}, false
	}
	k, ok := x.files[[2]uint64{id.Device, id.Inode}]
	if !ok || k.ID != id || k.Entered-id.Changed < int64(settled) {
		return receipt.Hash{}, false
	}
	x.keep(k)
	return k.Hash, true
}

func (x *Index) add(id fileID, h receipt.Hash, now time.Time) {
	if x != nil {
		x.keep(known{id, h, now.UnixNano()})
	}
}

// keep keeps an entry. Several goroutines read a folder.
func (x *Index) keep(k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen[[2]uint64{k.ID.Device, k.ID.Inode}] = k
}

// An index is a file: indexStart, the hash of all that follows, and entries of indexEntry bytes.
const (
	indexName  = "index"
	indexStart = "fiador-index-1\n"
	indexEntry = 6*8 + 32 + 8
)

// readIndex reads the index of a store. One that is missing, or that is no index, is empty.
func readIndex(root *os.Root) (*Index, error) {
	x := &Index{files: map[[2]uint64]known{}, seen: map[[2]uint64]known{}}
	text, err := root.ReadFile(indexName)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(text, []byte(indexStart))
	if !ok || len(rest) < 32 || (len(rest)-32)%indexEntry != 0 || receipt.Sum(rest[32:]) != receipt.Hash(rest[:32]) {
		return x, nil
	}
	rest = rest[32:]
	x.files = make(map[[2]uint64]known, len(rest)/indexEntry)
	x.seen = make(map[[2]uint64]known, len(rest)/indexEntry)
	for ; len(rest) > 0; rest = rest[indexEntry:] {
		k := decoded(rest)
		x.files[[2]uint64{k.ID.Device, k.ID.Inode}] = k
	}
	return x, nil
}

// appendTo appends the entry as the file has it: numbers of eight bytes, the least first.
func (k known) appendTo(b []byte) []byte {
	n := binary.LittleEndian
	for _, v := range []uint64{k.ID.Device, k.ID.Inode, k.ID.Mode, k.ID.Size, uint64(k.ID.Modified), uint64(k.ID.Changed)} {
		b = n.AppendUint64(b, v)
	}
	return n.AppendUint64(append(b, k.Hash[:]...), uint64(k.Entered))
}

// decoded returns the entry with which a text begins.
func decoded(b []byte) known {
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	id := fileID{n(0), n(8), n(16), n(24), int64(n(32)), int64(n(40))}
	return known{id, receipt.Hash(b[48:80]), int64(n(80))}
}

// next ends a scan. What it has not seen is forgotten.
func (x *Index) next() {
	x.changed = x.changed || !maps.Equal(x.seen, x.files)
	x.files, x.seen = x.seen, x.files
	clear(x.seen)
}

// write writes the entries, if they have changed since the index was read.
func (x *Index) write(root *os.Root) error {
	if x == nil || !x.changed {
		return nil
	}
	body := make([]byte, 0, len(x.files)*indexEntry)
	for _, k := range x.files {
		body = k.appendTo(body)
	}
	sum := receipt.Sum(body)
	return durable.Replace(root, indexName, slices.Concat([]byte(indexStart), sum[:], body), 0o600)
}
