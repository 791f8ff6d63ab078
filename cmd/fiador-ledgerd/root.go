package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// rooted says whether the tiles of a log lead to the root of its newest checkpoint. It reads
// the last tile of each level: a log of another tree has others.
func rooted(store storage) error {
	text, err := store.resource(layout.CheckpointPath)
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
	tree := tlog.Tree{N: c.Size, Hash: c.Root}
	last := []int64{tlog.StoredHashIndex(0, c.Size-1)}
	if _, err := tlog.TileHashReader(tree, tiles{newView(store)}).ReadHashes(last); err != nil {
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
			b, err = start(tile, b) // a full tile may have taken the place of a part
		}
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}
