package ledger

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"
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
func Compare(ctx context.Context, a, b Source, progress func(int64)) (Compared, error) {
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
func pull(ctx context.Context, r Source) (func() (Entry, bool, error), func()) {
	next, stop := iter.Pull2(r.Lines(ctx, 0))
	var tree Range
	return func() (Entry, bool, error) {
		_, e, ok := next()
		if !ok {
			return Entry{}, false, r.Checkpoint().Promises(tree.Size, tree.Root())
		}
		if e.Err == nil {
			tree.Append(LeafHash(e.Line.Entry), nil)
		}
		return e, true, e.Err
	}, stop
}

// Promises says whether a tree is the tree of the checkpoint. If not, the error is
// ErrTampered.
func (c Checkpoint) Promises(size int64, root tlog.Hash) error {
	if size != c.Size || root != c.Root {
		return fmt.Errorf("%w: the entries do not lead to the root of the checkpoint", ErrTampered)
	}
	return nil
}

// Kept says whether a ledger keeps a proof.
type Kept struct {
	Name  string
	Proof Proof
	Ack   []byte // instead of the proof: the ack of a server
	Fault string // empty: the ledger keeps it
}

// claim is what a receipt says of the ledger: which leaf an entry has and, for a proof, the
// checkpoint of a tree.
type claim struct {
	index int64
	leaf  tlog.Hash
	tree  Checkpoint // of a proof
}

// claims reads a receipt that a key of the ledger has signed.
func (k Kept) claims(keys Keys) (claim, error) {
	if k.Ack != nil {
		a, err := keys.OpenAck(k.Ack)
		return claim{index: a.Index, leaf: a.Leaf}, err
	}
	_, c, err := keys.CheckProof(k.Proof)
	return claim{k.Proof.Index, LeafHash(k.Proof.Entry), c}, err
}

// Keeps compares receipts with a ledger. A key of the ledger must have signed each
// receipt, and its entry must be at its index. The tree of its checkpoint must be the
// ledger's tree at that size.
func Keeps(ctx context.Context, r Source, list []Kept) error {
	roots, leaves := map[int64]tlog.Hash{}, map[int64]tlog.Hash{}
	checked := make([]claim, len(list))
	for i := range list {
		k := &list[i]
		if k.Fault != "" {
			continue
		}
		c, err := k.claims(r.Keys())
		if err != nil {
			k.Fault = err.Error()
			continue
		}
		checked[i] = c
		roots[c.tree.Size], leaves[c.index] = tlog.Hash{}, tlog.Hash{}
	}
	var tree Range
	for index, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return e.Err
		}
		leaf := LeafHash(e.Line.Entry)
		tree.Append(leaf, nil)
		if _, ok := leaves[index]; ok {
			leaves[index] = leaf
		}
		if _, ok := roots[tree.Size]; ok {
			roots[tree.Size] = tree.Root()
		}
	}
	has := r.Checkpoint()
	if err := has.Promises(tree.Size, tree.Root()); err != nil {
		return err
	}
	for i := range list {
		k, c := &list[i], checked[i]
		switch {
		case k.Fault != "":
		case c.tree.Size > has.Size:
			k.Fault = fmt.Sprintf("its checkpoint has %d entries, and the ledger has %d: it was rolled back (TRUNCATED)", c.tree.Size, has.Size)
		case c.index >= has.Size:
			k.Fault = fmt.Sprintf("it acknowledges entry %d, and the ledger has %d: it was rolled back (TRUNCATED)", c.index, has.Size)
		case leaves[c.index] != c.leaf:
			k.Fault = fmt.Sprintf("entry %d of the ledger is another one", c.index)
		case k.Ack == nil && roots[c.tree.Size] != c.tree.Root:
			k.Fault = fmt.Sprintf("the ledger had another tree when it had %d entries", c.tree.Size)
		}
	}
	return nil
}
