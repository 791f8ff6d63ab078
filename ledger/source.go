package ledger

import (
	"context"
	"iter"
)

// Source is a ledger that is read up to its checkpoint.
type Source interface {
	// Checkpoint returns the newest promise.
	Checkpoint() Checkpoint
	// Keys returns the keys of the ledger.
	Keys() Keys
	// Entry reads one entry.
	Entry(ctx context.Context, index int64) (Entry, error)
	// Lines returns the entries from an index on, in order, up to the checkpoint. A part
	// that is no entry ends them with an error.
	Lines(ctx context.Context, from int64) iter.Seq2[int64, Entry]
	// Behind returns the records behind the checkpoint, which no promise covers yet. An
	// interrupted append can leave them.
	Behind() ([]Record, error)
	// Find returns the indexes of the entries of a run, in their order. Without all, a server
	// may say where they are, and could leave some out.
	Find(ctx context.Context, runID string, all bool) ([]int64, error)
	// Blob reads evidence and checks that the content fits the name.
	Blob(b Blob) ([]byte, error)
	// Prove proves that an entry is in the ledger.
	Prove(ctx context.Context, index int64) (Proof, error)
	// Consistency proves that the ledger still has every entry of an older tree.
	Consistency(ctx context.Context, size int64) (Consistency, error)
	// Pins returns the pinned checkpoints, by size, in their stored form.
	Pins() (map[int64][]byte, error)
	// Pin keeps a checkpoint of the ledger, with its signatures. It returns its name.
	Pin(c Checkpoint) (string, error)
	// Close closes the ledger.
	Close() error
}

// Entry is an entry that was read, and the record in it. The seal is zero where the ledger
// has none: on a server.
type Entry struct {
	Line
	Record Record
	Err    error
}
