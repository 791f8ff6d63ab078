package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Publish writes the ledger, up to its checkpoint, into a folder as C2SP tlog-tiles
// has it: checkpoint, full and partial tiles, and the entries in bundles. What is
// there and final is left alone, so that publishing again writes only what is new; the
// checkpoint is written last. progress, where it is not nil, is told how many entries
// are done.
func (r *Reader) Publish(ctx context.Context, dir string, progress func(int64)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to, err := openFolder(dir)
	if err != nil {
		return err
	}
	p := &publisher{files: to}
	err = p.publish(ctx, r, progress)
	return errors.Join(err, to.Close())
}

type publisher struct {
	files  files
	tree   ledger.Range
	levels [][]byte // hashes of the tiles that are not full, by level
	counts []int64  // full tiles, by level
	bundle []byte
}

func (p *publisher) publish(ctx context.Context, r *Reader, progress func(int64)) error {
	for index, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return e.Err
		}
		if err := p.add(e.Line.Entry); err != nil {
			return err
		}
		if progress != nil && index%1024 == 0 {
			progress(index)
		}
	}
	if p.tree.Size != r.promise.Size || p.tree.Root() != r.promise.Root {
		return fmt.Errorf("%w: the entries do not lead to the root of the checkpoint; run: fiador ledger verify", ErrTampered)
	}
	if err := p.partial(); err != nil {
		return err
	}
	return replaceFile(p.files, nameCheckpoint, r.promise.Note, true)
}

// add takes in an entry, and writes the tiles that it fills.
func (p *publisher) add(entry []byte) error {
	p.bundle = append(binary.BigEndian.AppendUint16(p.bundle, uint16(len(entry))), entry...)
	n := p.tree.Size
	var full []node
	p.tree.Append(ledger.LeafHash(entry), func(level int, n int64, h tlog.Hash) {
		if level%ledger.TileHeight == 0 {
			full = append(full, node{level / ledger.TileHeight, n, h})
		}
	})
	if n%ledger.TileWidth == ledger.TileWidth-1 {
		if err := p.write(tlog.Tile{H: ledger.TileHeight, L: -1, N: n / ledger.TileWidth, W: ledger.TileWidth}, p.bundle); err != nil {
			return err
		}
		p.bundle = p.bundle[:0]
	}
	for _, h := range full {
		for len(p.levels) <= h.level {
			p.levels, p.counts = append(p.levels, nil), append(p.counts, 0)
		}
		p.levels[h.level] = append(p.levels[h.level], h.hash[:]...)
		if len(p.levels[h.level]) < ledger.TileWidth*tlog.HashSize {
			continue
		}
		if err := p.write(tlog.Tile{H: ledger.TileHeight, L: h.level, N: p.counts[h.level], W: ledger.TileWidth}, p.levels[h.level]); err != nil {
			return err
		}
		p.levels[h.level] = p.levels[h.level][:0]
		p.counts[h.level]++
	}
	return nil
}

// partial writes the tiles of the right edge.
func (p *publisher) partial() error {
	if w := int(p.tree.Size % ledger.TileWidth); w > 0 {
		if err := p.write(tlog.Tile{H: ledger.TileHeight, L: -1, N: p.tree.Size / ledger.TileWidth, W: w}, p.bundle); err != nil {
			return err
		}
	}
	for level, hashes := range p.levels {
		if len(hashes) == 0 {
			continue
		}
		t := tlog.Tile{H: ledger.TileHeight, L: level, N: p.counts[level], W: len(hashes) / tlog.HashSize}
		if err := p.write(t, hashes); err != nil {
			return err
		}
	}
	return nil
}

// write writes a tile, unless it is there with just this content.
func (p *publisher) write(t tlog.Tile, content []byte) error {
	path := ledger.TilePath(t)
	if f, err := p.files.Open(path, os.O_RDONLY); err == nil {
		there := same(f, content)
		if err := f.Close(); err != nil {
			return err
		}
		if there {
			return nil
		}
	}
	if err := makeFolders(p.files, path); err != nil {
		return err
	}
	return replaceFile(p.files, path, content, false)
}

// Pin keeps a checkpoint of the ledger in its folder: nothing is appended to a ledger
// that has become smaller.
func (r *Reader) Pin(c ledger.Checkpoint) (string, error) {
	name := fmt.Sprintf("%s/%d", namePins, c.Size)
	if err := makeFolders(r.files, name); err != nil {
		return "", err
	}
	if has, err := readFile(r.files, name, ledger.MaxCheckpointBytes); err == nil && string(has) == string(c.Note) {
		return name, nil
	}
	if err := replaceFile(r.files, name, c.Note, true); err != nil {
		return "", err
	}
	return name, r.files.SyncDir(namePins)
}
