package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// tiles reads the tiles of hashes of a log. tlog checks them against the checkpoint, and says
// with SaveTiles which are right.
type tiles struct {
	*Reader
	ctx context.Context
}

func (tiles) Height() int { return ledger.TileHeight }

func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	out, errs := make([][]byte, len(list)), make([]error, len(list))
	var wait sync.WaitGroup
	for i, want := range list {
		t.mu.Lock()
		out[i] = t.seen[want]
		t.mu.Unlock()
		if out[i] == nil {
			wait.Go(func() { out[i], errs[i] = t.hashes(t.ctx, want) })
		}
	}
	wait.Wait()
	return out, errors.Join(errs...)
}

// SaveTiles remembers tiles that tlog has checked.
func (t tiles) SaveTiles(list []tlog.Tile, content [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) > maxSeen {
		clear(t.seen)
	}
	for i, tile := range list {
		if _, known := t.seen[tile]; known {
			continue
		}
		t.seen[tile] = content[i]
		if name := ledger.TilePath(tile); tile.W == ledger.TileWidth && !t.cached[name] {
			t.state.cache(name, content[i])
		}
	}
}

// maxSeen is the number of tiles in memory: 8 MiB.
const maxSeen = 1024

// hashes reads a tile of hashes, unchecked.
func (t tiles) hashes(ctx context.Context, want tlog.Tile) ([]byte, error) {
	need := want.W * tlog.HashSize
	b, err := t.file(ctx, want, int64(ledger.TileWidth*tlog.HashSize))
	if err != nil {
		return nil, err
	}
	if len(b) < need {
		return nil, fmt.Errorf("%w: a tile of %d bytes", ledger.ErrAnswer, len(b))
	}
	return b[:need:need], nil
}

// file reads a tile from the state folder or from the server. A server may have removed a
// partial tile when the full one was there.
func (r *Reader) file(ctx context.Context, want tlog.Tile, most int64) ([]byte, error) {
	full := want
	full.W = ledger.TileWidth
	name := ledger.TilePath(full)
	r.mu.Lock()
	distrust := r.distrust
	r.mu.Unlock()
	if !distrust {
		if b, err := r.state.read(name, most); err == nil && (want.L < 0 || int64(len(b)) == most) {
			r.mu.Lock()
			r.cached[name] = true
			r.mu.Unlock()
			return b, nil
		}
	}
	b, err := r.get(ctx, ledger.TilePath(want), most)
	if errors.Is(err, errMissing) && want != full {
		b, err = r.get(ctx, name, most)
	}
	if errors.Is(err, errMissing) {
		err = fmt.Errorf("%w: %s is not there, and the checkpoint covers it", ledger.ErrAnswer, ledger.TilePath(want))
	}
	return b, err
}

// leaves returns leaf hashes in the tree of the checkpoint.
func (r *Reader) leaves(ctx context.Context, from, to int64) ([]tlog.Hash, error) {
	indexes := make([]int64, 0, to-from)
	for i := from; i < to; i++ {
		indexes = append(indexes, tlog.StoredHashIndex(0, i))
	}
	var list []tlog.Hash
	err := r.proven(func() (err error) {
		list, err = r.hashReader(ctx).ReadHashes(indexes)
		return err
	})
	return list, err
}

func (r *Reader) hashReader(ctx context.Context) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: r.promise.Size, Hash: r.promise.Root}, tiles{r, ctx})
}

// bundle is the entries of one tile, held against the tree.
type bundle struct {
	first   int64
	entries [][]byte
	err     error
}

// bundleAt reads the entries with the leaves of one tile. A bundle of the state folder may be
// damaged, and is then fetched again.
func (r *Reader) bundleAt(ctx context.Context, n int64) bundle {
	b := bundle{first: n * ledger.TileWidth}
	t := tlog.Tile{H: ledger.TileHeight, L: -1, N: n, W: int(min(ledger.TileWidth, r.promise.Size-b.first))}
	leaves, err := r.leaves(ctx, b.first, b.first+int64(t.W))
	if err != nil {
		b.err = err
		return b
	}
	b.err = r.proven(func() error {
		text, err := r.file(ctx, t, ledger.TileWidth*(ledger.MaxEntryBytes+2))
		if err != nil {
			return err
		}
		rest := text
		b.entries = nil
		for i, leaf := range leaves {
			entry, after, ok := nextEntry(rest)
			if !ok || ledger.LeafHash(entry) != leaf {
				fault := &ledger.Fault{Index: b.first + int64(i), What: "it is not the one in the tree"}
				if len(rest) == 0 {
					fault.What = fmt.Sprintf("it is missing: the checkpoint has %d entries (TRUNCATED)", r.promise.Size)
				}
				return fmt.Errorf("%w: %w", ledger.ErrTampered, fault)
			}
			b.entries, rest = append(b.entries, entry), after
		}
		if t.W == ledger.TileWidth && len(rest) == 0 {
			r.keepBundle(ledger.TilePath(t), text)
		}
		return nil
	})
	return b
}

// keepBundle puts a full bundle that was held against the tree into the state folder.
func (r *Reader) keepBundle(name string, text []byte) {
	r.mu.Lock()
	known := r.cached[name]
	r.cached[name] = true
	r.mu.Unlock()
	if !known {
		r.state.cache(name, text)
	}
}

// nextEntry cuts the first entry from a bundle.
func nextEntry(b []byte) (entry, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n : 2+n], b[2+n:], true
}

// window is the number of bundles that are fetched side by side.
const window = 8

// texts returns the entries from an index on, up to the checkpoint, held against the tree.
func (r *Reader) texts(ctx context.Context, from int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		end := (r.promise.Size + ledger.TileWidth - 1) / ledger.TileWidth
		var coming []chan bundle
		next := from / ledger.TileWidth
		for n := next; n < end; n++ {
			for ; next < end && next < n+window; next++ {
				c, at := make(chan bundle, 1), next
				go func() { c <- r.bundleAt(ctx, at) }()
				coming = append(coming, c)
			}
			b := <-coming[0]
			coming = coming[1:]
			if b.err != nil {
				yield(nil, b.err)
				return
			}
			for i, entry := range b.entries {
				if b.first+int64(i) >= from && !yield(entry, nil) {
					return
				}
			}
		}
	}
}
