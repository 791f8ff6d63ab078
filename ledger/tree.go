package ledger

import (
	"math/bits"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// TileHeight is the height of a tile: 256 hashes (C2SP tlog-tiles).
const TileHeight = 8

// TileWidth is the number of hashes of a full tile.
const TileWidth = 1 << TileHeight

// Range is the part of a tree that an append needs: the roots of its full subtrees, the
// largest first, one for each bit of the size.
type Range struct {
	Size  int64
	Roots []tlog.Hash
}

// Append adds a leaf. It calls visit for every node that the leaf completes, the leaf
// included, with the node's level and place.
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

// last returns the largest full subtree that ends with the last leaf.
func (r Range) last() tlog.Hash { return r.Roots[len(r.Roots)-1] }

// appendLast adds a leaf as Append does, but hashes nothing: last is what last returns
// after the leaf.
func (r *Range) appendLast(last tlog.Hash) {
	completed := bits.TrailingZeros64(^uint64(r.Size))
	r.Roots = append(r.Roots[:len(r.Roots)-completed], last)
	r.Size++
}

// Root returns the root of the tree (RFC 6962, 2.1). Without a leaf it is the root of an
// empty tree.
func (r Range) Root() tlog.Hash {
	if r.Size == 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	root := r.last()
	for i := len(r.Roots) - 2; i >= 0; i-- {
		root = tlog.NodeHash(r.Roots[i], root)
	}
	return root
}

// Valid says whether the number of roots fits the size.
func (r Range) Valid() bool { return r.Size >= 0 && len(r.Roots) == bits.OnesCount64(uint64(r.Size)) }

// TilePath returns the path of a tile (C2SP tlog-tiles): tile/L/N, tile/entries/N for
// level -1, with .p/W if the tile is not full.
func TilePath(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), "tile/8/")
	return "tile/" + strings.Replace(path, "data/", "entries/", 1)
}

// Edges are the hashes of the tiles that are not full, by level: the right edge of a
// tree.
type Edges [][]byte

// Add adds the n-th hash of a level of tiles: level 0 has the leaves, level 1 the roots
// of 256 leaves each, and so on. If the hash fills a tile, Add calls full with it; full
// must not keep the content.
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
