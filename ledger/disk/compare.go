package disk

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/lazy"
	"github.com/fiador/fiador/ledger"
)

// Compared says how two copies of a ledger relate.
type Compared struct {
	Common int64 // number of first entries that both have
	Forked bool  // the entries at Common differ, though both copies promise them
	A, B   Entry // those entries
}

// Compare compares two copies of a ledger, each up to its checkpoint. Entries after a
// checkpoint are not promised; they may differ without a fork. Compare calls progress,
// unless it is nil, with the number of compared entries.
func Compare(ctx context.Context, a, b *Reader, progress func(int64)) (Compared, error) {
	nextA, stopA := pull(ctx, a)
	defer stopA()
	nextB, stopB := pull(ctx, b)
	defer stopB()
	var out Compared
	for {
		ea, okA, err := nextA()
		if err != nil {
			return out, fmt.Errorf("the first: %w", err)
		}
		eb, okB, err := nextB()
		if err != nil {
			return out, fmt.Errorf("the second: %w", err)
		}
		switch {
		case !okA && !okB:
			return out, nil
		case out.Forked || !okA || !okB:
			continue // read to the end, to check that both trees are the promised ones
		case !bytes.Equal(ea.Line.Entry, eb.Line.Entry):
			out.Forked, out.A, out.B = true, ea, eb
			continue
		}
		if out.Common++; progress != nil && out.Common%1024 == 0 {
			progress(out.Common)
		}
	}
}

// pull returns the entries of a ledger one by one. At the end it returns an error if
// they are not the entries that the checkpoint promises.
func pull(ctx context.Context, r *Reader) (func() (Entry, bool, error), func()) {
	next, stop := iter.Pull2(r.Lines(ctx, 0))
	var tree ledger.Range
	return func() (Entry, bool, error) {
		_, e, ok := next()
		if !ok {
			if tree.Size != r.promise.Size || tree.Root() != r.promise.Root {
				return Entry{}, false, errNotPromised.Get()
			}
			return Entry{}, false, nil
		}
		if e.Err == nil {
			tree.Append(ledger.LeafHash(e.Line.Entry), nil)
		}
		return e, true, e.Err
	}, stop
}

var errNotPromised = lazy.Value[error]{Make: func() error {
	return fmt.Errorf("%w: the entries do not lead to the root of the checkpoint", ErrTampered)
}}

// Kept says whether a ledger keeps a proof.
type Kept struct {
	Name  string
	Proof ledger.Proof
	Fault string // empty: the ledger keeps it
}

// Keeps compares receipts with a ledger. A key of the ledger must have signed each
// receipt, and its entry must be at its index. The tree of its checkpoint must be the
// ledger's tree at that size.
func (r *Reader) Keeps(ctx context.Context, list []Kept) error {
	roots, leaves := map[int64]tlog.Hash{}, map[int64]tlog.Hash{}
	checked := make([]ledger.Checkpoint, len(list))
	for i := range list {
		k := &list[i]
		if k.Fault != "" {
			continue
		}
		_, c, err := r.origin.keys.CheckProof(k.Proof)
		if err != nil {
			k.Fault = err.Error()
			continue
		}
		checked[i] = c
		roots[c.Size], leaves[k.Proof.Index] = tlog.Hash{}, tlog.Hash{}
	}
	var tree ledger.Range
	for index, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return e.Err
		}
		leaf := ledger.LeafHash(e.Line.Entry)
		tree.Append(leaf, nil)
		if _, ok := leaves[index]; ok {
			leaves[index] = leaf
		}
		if _, ok := roots[tree.Size]; ok {
			roots[tree.Size] = tree.Root()
		}
	}
	if tree.Size != r.promise.Size || tree.Root() != r.promise.Root {
		return errNotPromised.Get()
	}
	for i := range list {
		k, c := &list[i], checked[i]
		switch {
		case k.Fault != "":
		case c.Size > r.promise.Size:
			k.Fault = fmt.Sprintf("its checkpoint has %d entries, and the ledger has %d: it was rolled back (TRUNCATED)", c.Size, r.promise.Size)
		case leaves[k.Proof.Index] != ledger.LeafHash(k.Proof.Entry):
			k.Fault = fmt.Sprintf("entry %d of the ledger is another one", k.Proof.Index)
		case roots[c.Size] != c.Root:
			k.Fault = fmt.Sprintf("the ledger had another tree when it had %d entries", c.Size)
		}
	}
	return nil
}
