package disk

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// head is the summary of all earlier entries that an append needs. It is derived: if it
// does not fit the ledger, it is discarded and made again.
type head struct {
	Format string      `json:"format"`
	Boot   string      `json:"boot"`   // start of the system that wrote it; files of an earlier start may lack the last writes
	Inode  uint64      `json:"inode"`  // of ledger.jsonl
	Size   int64       `json:"size"`   // lines
	Offset int64       `json:"offset"` // bytes
	Last   string      `json:"last"`   // timestamp of the last record
	Roots  []tlog.Hash `json:"roots"`
	Runs   int64       `json:"runs"` // approximate number of entries of the table of run ids
}

// headBytes is the size of the file: one block, so that one write is enough.
const headBytes = 4096

const headFormat = "1"

// marshal returns the stored form of the head: JSON, blanks, and a checksum of both.
func (h head) marshal() ([]byte, error) {
	h.Format = headFormat
	b, err := json.Marshal(h)
	if err != nil || len(b) > headBytes-4 {
		return nil, errors.Join(err, errors.New("the head does not fit"))
	}
	for len(b) < headBytes-4 {
		b = append(b, ' ')
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

var errHead = errors.New("no head that fits")

// parseHead reads a head. Any fault of it gives errHead.
func parseHead(b []byte) (head, error) {
	if len(b) != headBytes || binary.LittleEndian.Uint32(b[headBytes-4:]) != crc32.ChecksumIEEE(b[:headBytes-4]) {
		return head{}, errHead
	}
	var h head
	if err := json.Unmarshal(b[:headBytes-4], &h); err != nil || h.Format != headFormat {
		return head{}, errHead
	}
	if r := (ledger.Range{Size: h.Size, Roots: h.Roots}); !r.Valid() || h.Size < 1 || h.Offset < 1 {
		return head{}, errHead
	}
	return h, nil
}

// tree returns the tree of the head, in memory of its own.
func (h head) tree() ledger.Range {
	return ledger.Range{Size: h.Size, Roots: append(make([]tlog.Hash, 0, 64), h.Roots...)}
}

// Names of the files of a ledger.
const (
	nameLedger     = "ledger.jsonl"
	nameCheckpoint = "checkpoint"
	nameEvidence   = "evidence"
	nameState      = ".state"
	nameHead       = ".state/head"
	nameRuns       = ".state/runs"
	nameOffsets    = ".state/offsets"
	nameEdge       = ".state/edge"
	namePoison     = ".state/poison"
	nameMoved      = ".state/poison/moved" // every version obeys the folder, and none removes it
	nameQuarantine = ".state/quarantine"
)

// derived are the files for fast access: the table of run ids, the offsets of lines, and
// the tiles of the right edge. They are open while entries are added.
type derived struct {
	files   files
	offsets file
	runs    *runTable
	edges   map[int]file
}

func openDerived(fsys files, h head) (*derived, error) {
	d := &derived{files: fsys, edges: map[int]file{}}
	var err error
	if d.offsets, err = fsys.Open(nameOffsets, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	if d.runs, err = openRuns(fsys, os.O_RDWR, h.Runs); err != nil {
		return nil, errors.Join(err, d.offsets.Close())
	}
	return d, nil
}

func (d *derived) Close() error {
	err := errors.Join(d.offsets.Close(), d.runs.close())
	for _, f := range d.edges {
		err = errors.Join(err, f.Close())
	}
	return err
}

// offset returns the place where a line begins.
func (d *derived) offset(index int64) (int64, error) { return readOffset(d.offsets, index) }

func readOffset(f file, index int64) (int64, error) {
	var b [8]byte
	if _, err := f.ReadAt(b[:], index*8); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), nil
}

// add enters the derived data of one entry. It may do this twice.
func (d *derived) add(e entered) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(e.offset))
	if _, err := d.offsets.WriteAt(b[:], e.index*8); err != nil {
		return err
	}
	if e.runID != "" {
		if err := d.runs.insert(e.runID, e.index); err != nil {
			return err
		}
	}
	for i, n := range e.nodes {
		full, err := d.node(n)
		if err == nil && full {
			err = d.tile(n, e.nodes[i+1:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entered is an entry and its data for the derived files.
type entered struct {
	index  int64
	offset int64
	runID  string
	seal   ledger.Seal
	nodes  []node // nodes of the levels of tiles
}

// node is a hash of a level of tiles: level 0 has the leaves, level 1 the roots of
// 256 leaves each, and so on.
type node struct {
	level int
	n     int64
	hash  tlog.Hash
}

// nodes collects the nodes of tiles that an appended leaf completes.
func nodes(list *[]node) func(int, int64, tlog.Hash) {
	return func(level int, n int64, h tlog.Hash) {
		if level%ledger.TileHeight == 0 {
			*list = append(*list, node{level / ledger.TileHeight, n, h})
		}
	}
}

// addNodes adds nodes to the edges of a tree. It calls full for every tile that a node
// fills, and stops at its error.
func addNodes(edges *ledger.Edges, list []node, full func(tlog.Tile, []byte) error) error {
	for _, n := range list {
		if err := edges.Add(n.level, n.n, n.hash, full); err != nil {
			return err
		}
	}
	return nil
}

// node enters a hash into the right edge of its level, and says whether it is the last
// hash of a tile.
func (d *derived) node(n node) (full bool, err error) {
	f, ok := d.edges[n.level]
	if !ok {
		if err := d.files.Mkdir(nameEdge); err != nil && !isExist(err) {
			return false, err
		}
		if f, err = d.files.Open(edgeName(n.level), os.O_RDWR|os.O_CREATE); err != nil {
			return false, err
		}
		d.edges[n.level] = f
	}
	at := n.n % ledger.TileWidth
	_, err = f.WriteAt(n.hash[:], at*tlog.HashSize)
	return at == ledger.TileWidth-1, err
}

func edgeName(level int) string { return fmt.Sprintf("%s/%d", nameEdge, level) }

// errEdge says that a right edge was changed by something else. It is then made again.
var errEdge = errors.New("the right edge of the tree is damaged")

// tile writes the tile whose last hash is now in the right edge, unless the tile exists.
// It gets its name after it is on the disk, and is then final. Its root is the next node
// that the leaf completes.
func (d *derived) tile(last node, above []node) error {
	t := tlog.Tile{H: ledger.TileHeight, L: last.level, N: last.n / ledger.TileWidth, W: ledger.TileWidth}
	path := ledger.TilePath(t)
	if _, err := d.files.Lstat(path); err == nil {
		return nil
	}
	content := make([]byte, ledger.TileWidth*tlog.HashSize)
	if _, err := d.edges[last.level].ReadAt(content, 0); err != nil {
		return err
	}
	if len(above) == 0 || tileRoot(content) != above[0].hash {
		return errEdge
	}
	return placeTile(d.files, path, content)
}

// tileRoot returns the root of the tree over the hashes of a full tile.
func tileRoot(content []byte) tlog.Hash {
	var r ledger.Range
	for h := range slices.Chunk(content, tlog.HashSize) {
		r.Append(tlog.Hash(h), nil)
	}
	return r.Root()
}
