package disk

import (
	"bytes"
	"context"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// mendTiles writes the full tiles again that are not what the entries give. The
// entries are known to lead to a root that was signed.
func (s *state) mendTiles() ([]string, error) {
	var did []string
	err := eachTile(context.Background(), s.truth, s.tail.tree.Size, func(t tlog.Tile, content []byte) error {
		path := ledger.TilePath(t)
		has, err := readFile(s.files, path, int64(len(content)))
		if err == nil && bytes.Equal(has, content) {
			return nil
		}
		if err := makeFolders(s.files, path); err != nil {
			return err
		}
		did = append(did, "wrote "+path+" again")
		return replaceFile(s.files, path, content, true)
	})
	return did, err
}

// errEnough ends a scan that has seen what it was for.
var errEnough = errors.New("enough")

// eachTile computes the full tiles of a tree of some size from its entries.
func eachTile(ctx context.Context, truth file, size int64, tile func(tlog.Tile, []byte) error) error {
	edges := map[int][]byte{}
	_, err := scan(ctx, truth, tail{}, nil, func(e entered) error {
		if e.index >= size {
			return errEnough
		}
		for _, n := range e.nodes {
			edges[n.level] = append(edges[n.level], n.hash[:]...)
			if len(edges[n.level]) < ledger.TileWidth*tlog.HashSize {
				continue
			}
			t := tlog.Tile{H: ledger.TileHeight, L: n.level, N: n.n / ledger.TileWidth, W: ledger.TileWidth}
			if err := tile(t, edges[n.level]); err != nil {
				return err
			}
			edges[n.level] = edges[n.level][:0]
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
