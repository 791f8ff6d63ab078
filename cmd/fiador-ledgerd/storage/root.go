package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// rooted says whether the tree of a log continues the one of its newest checkpoint, before
// Tessera signs it. It reads the tiles at the end of both. A tree that is smaller is refused
// later.
func rooted(store Storage) error {
	text, err := store.Resource(layout.CheckpointPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := ledger.ParseCheckpoint(text)
	if err != nil || c.Size == 0 {
		return err
	}
	tree, err := store.state()
	if err != nil || tree.N < c.Size {
		return err
	}
	root, err := tlog.TreeHash(c.Size, tlog.TileHashReader(tree, tiles{NewView(store)}))
	if err == nil && root != c.Root {
		err = fmt.Errorf("the tree of %d entries is another one", tree.N)
	}
	if err != nil {
		return fmt.Errorf("the tiles of the log do not lead to its checkpoint over %d entries; put the log back from a copy: %w", c.Size, err)
	}
	return nil
}

// tiles reads the tiles of hashes of a log.
type tiles struct{ from resources }

func (tiles) Height() int { return ledger.TileHeight }

func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range list {
		b, err := t.from.ReadTile(context.Background(), uint64(tile.L), uint64(tile.N), uint8(tile.W%ledger.TileWidth))
		if err == nil {
			b, err = Part(tile, b) // a full tile may have taken the place of a part
		}
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// Part returns the part of a wide tile that a narrower one has.
func Part(t tlog.Tile, wide []byte) ([]byte, error) {
	size := t.W * tlog.HashSize
	if t.L < 0 {
		size = 0
		for range t.W {
			if len(wide) < size+2 {
				return nil, errors.New("a bundle is too short")
			}
			size += 2 + int(wide[size])<<8 + int(wide[size+1])
		}
	}
	if len(wide) < size {
		return nil, errors.New("a tile is too short")
	}
	return wide[:size], nil
}

// Witnessed has the witnesses asked about the tree of the log.
func (t *Tree) Witnessed(complain func(what string, why any)) error {
	if t.witnesses == nil {
		return nil
	}
	size, err := t.Size()
	if err != nil {
		return err
	}
	root, err := tlog.TreeHash(size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			tile := tlog.TileForIndex(ledger.TileHeight, index)
			data, err := t.reader.ReadTile(context.Background(), uint64(tile.L), uint64(tile.N), layout.PartialTileSize(uint64(tile.L), uint64(tile.N), uint64(size)))
			if err != nil {
				return nil, err
			}
			tile.W = len(data) / tlog.HashSize
			if hashes[i], err = tlog.HashFromTile(tile, data, index); err != nil {
				return nil, err
			}
		}
		return hashes, nil
	}))
	if err != nil {
		return err
	}
	return t.witnesses.Open(t.signer, t.signer.Signer, t.reader, tlog.Tree{N: size, Hash: root}, complain)
}
