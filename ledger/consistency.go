package ledger

import (
	"encoding/base64"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Consistency proves that a tree begins with the entries of an older tree (RFC 6962,
// 2.1.2). If the older tree is empty or is the tree itself, no hashes are needed.
type Consistency struct {
	From int64 // size of the older tree
	Path tlog.TreeProof
}

// Check checks the proof against two checkpoints. It does not check their signatures.
func (c Consistency) Check(now, old Checkpoint) error {
	bad := fmt.Errorf("%w: the tree of size %d does not begin with that of size %d", ErrProof, now.Size, old.Size)
	switch {
	case c.From != old.Size || old.Size > now.Size:
		return bad
	case old.Size == now.Size && old.Root != now.Root, old.Size == 0 && old.Root != (Range{}).Root():
		return bad
	case old.Size == now.Size || old.Size == 0:
		return nil
	case tlog.CheckTree(c.Path, now.Size, now.Root, old.Size, old.Root) != nil:
		return bad
	}
	return nil
}

// Witness returns the proof in the form for a witness, with the newer checkpoint (C2SP
// tlog-witness, add-checkpoint).
func (c Consistency) Witness(now Checkpoint) []byte {
	b := fmt.Appendf(nil, "old %d\n", c.From)
	for _, h := range c.Path {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), now.Note...)
}
