package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Publish writes a ledger, up to its checkpoint, into a folder in the form of C2SP
// tlog-tiles: checkpoint, full and partial tiles, and the entries in bundles. It reads
// the whole ledger first, and writes nothing if the entries do not lead to the root of
// the checkpoint. Right files that exist are left alone. The checkpoint is written last,
// when everything else is on the disk. Publish calls progress, unless it is nil, with
// the number of entries done.
func Publish(ctx context.Context, r ledger.Source, dir string, progress func(int64)) error {
	if err := leads(ctx, r); err != nil {
		return err
	}
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

// leads says whether the entries lead to the root of the checkpoint.
func leads(ctx context.Context, r ledger.Source) error {
	var tree ledger.Range
	for _, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return e.Err
		}
		tree.Append(ledger.LeafHash(e.Line.Entry), nil)
	}
	return leadsElsewhere(r.Checkpoint().Promises(tree.Size, tree.Root()))
}

// leadsElsewhere adds the remedy to an error about the root of the checkpoint.
func leadsElsewhere(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; run: fiador ledger verify", err)
}

type publisher struct {
	files  folder
	tree   ledger.Range
	edges  ledger.Edges
	bundle []byte
}

func (p *publisher) publish(ctx context.Context, r ledger.Source, progress func(int64)) error {
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
	if err := leadsElsewhere(r.Checkpoint().Promises(p.tree.Size, p.tree.Root())); err != nil {
		return err
	}
	return inTurn(p.partial, p.files.SyncAll, func() error { return replaceFile(p.files, nameCheckpoint, r.Checkpoint().Note, true) })
}

// add adds an entry, and writes the tiles that it fills.
func (p *publisher) add(entry []byte) error {
	p.bundle = append(binary.BigEndian.AppendUint16(p.bundle, uint16(len(entry))), entry...)
	n := p.tree.Size
	var done []node
	p.tree.Append(ledger.LeafHash(entry), nodes(&done))
	if n%ledger.TileWidth == ledger.TileWidth-1 {
		if err := p.write(tlog.Tile{H: ledger.TileHeight, L: -1, N: n / ledger.TileWidth, W: ledger.TileWidth}, p.bundle); err != nil {
			return err
		}
		p.bundle = p.bundle[:0]
	}
	return addNodes(&p.edges, done, p.write)
}

// partial writes the tiles of the right edge.
func (p *publisher) partial() error {
	if w := int(p.tree.Size % ledger.TileWidth); w > 0 {
		if err := p.write(tlog.Tile{H: ledger.TileHeight, L: -1, N: p.tree.Size / ledger.TileWidth, W: w}, p.bundle); err != nil {
			return err
		}
	}
	for level, hashes := range p.edges {
		if len(hashes) == 0 {
			continue
		}
		n := p.tree.Size >> (ledger.TileHeight * level) // number of hashes of the level
		t := tlog.Tile{H: ledger.TileHeight, L: level, N: n / ledger.TileWidth, W: len(hashes) / tlog.HashSize}
		if err := p.write(t, hashes); err != nil {
			return err
		}
	}
	return nil
}

// write writes a tile, unless it exists with exactly this content.
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
	return replaceFile(p.files, path, content, !syncsAll)
}

// Pin keeps a checkpoint of the ledger in its folder. Nothing is appended to a ledger
// that is smaller than a pin or contradicts it. A pin keeps its signatures.
func (r *Reader) Pin(c ledger.Checkpoint) (string, error) {
	name := fmt.Sprintf("%s/%d", ledger.PinFolder, c.Size)
	if err := makeFolders(r.files, name); err != nil {
		return "", err
	}
	note := c.Note
	has, err := readFile(r.files, name, ledger.MaxCheckpointBytes)
	if err == nil {
		note, err = ledger.MergeCheckpoints(has, c.Note)
	}
	if err != nil && !isNotExist(err) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(note, has) {
		if err := replaceFile(r.files, name, note, true); err != nil {
			return "", err
		}
	}
	return name, errors.Join(r.files.SyncDir(ledger.PinFolder), r.files.SyncDir("."))
}
