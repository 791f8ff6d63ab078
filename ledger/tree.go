package ledger

import (
	"math/bits"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// TileHeight is the height of a tile: 256 hashes (C2SP tlog-tiles).
const TileHeight = 8

// TileWidth is how many hashes a full tile has.
const TileWidth = 1 << TileHeight

// Range is what must be known of a tree to append to it: the roots of its full
// subtrees, from the largest on, one for each bit of its size.
type Range struct {
	Size  int64
	Roots []tlog.Hash
}

// Append adds a leaf. visit is told every node that the leaf completes, itself
// included, with its level and its place there.
func (r *Range) Append(leaf tlog.Hash, visit func(level int, n int64, h tlog.Hash)) {
	n, level := r.Size, 0
	for {
		if visit != nil {
			visit(level, n, leaf)
		}
		if n&1 == 0 {
			break
		}
		last := len(r.Roots) - 1
		leaf = tlog.NodeHash(r.Roots[last], leaf)
		r.Roots = r.Roots[:last]
		n, level = n>>1, level+1
	}
	r.Roots = append(r.Roots, leaf)
	r.Size++
}

// Root is the root of the tree (RFC 6962, 2.1), for no leaf that of an empty tree.
func (r Range) Root() tlog.Hash {
	if r.Size == 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	root := r.Roots[len(r.Roots)-1]
	for i := len(r.Roots) - 2; i >= 0; i-- {
		root = tlog.NodeHash(r.Roots[i], root)
	}
	return root
}

// Valid says whether the number of roots is that of the size.
func (r Range) Valid() bool { return r.Size >= 0 && len(r.Roots) == bits.OnesCount64(uint64(r.Size)) }

// TilePath is where a tile lies (C2SP tlog-tiles): tile/L/N, tile/entries/N for level
// -1, with .p/W where it is not full.
func TilePath(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), "tile/8/")
	return "tile/" + strings.Replace(path, "data/", "entries/", 1)
}

// Edges are the hashes of the tiles that are not full, by level: the right edge of a tree.
type Edges [][]byte

// Add adds the n-th hash of a level of tiles: level 0 has the leaves, level 1 the roots of
// 256 leaves each, and so on. full is given the tile that the hash fills, whose content it
// must not keep.
func (e *Edges) Add(level int, n int64, h tlog.Hash, full func(t tlog.Tile, content []byte) error) error {
	for len(*e) <= level {
		*e = append(*e, nil)
	}
	content := append((*e)[level], h[:]...)
	if (*e)[level] = content; n%TileWidth != TileWidth-1 {
		return nil
	}
	(*e)[level] = content[:0]
	return full(tlog.Tile{H: TileHeight, L: level, N: n / TileWidth, W: TileWidth}, content)
}
