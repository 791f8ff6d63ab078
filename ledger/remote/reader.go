package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Reader reads a log up to the checkpoint that the server had when the reader was opened.
type Reader struct {
	*client
	ctx     context.Context // of requests for evidence
	all     ledger.Keys     // of origin.json
	log     ledger.Keys     // from the trusted key on, as far as the log vouches for them
	promise ledger.Checkpoint
	state   *state
	pending int // remembered acks that the checkpoint does not cover

	mu       sync.Mutex
	seen     map[tlog.Tile][]byte
	cached   map[string]bool // files of the state folder
	distrust bool            // the state folder is not read
}

var _ ledger.Source = (*Reader)(nil)

// Read opens a log for reading. It checks the signature of the checkpoint, and that the log
// keeps what the state folder remembers of it.
func Read(ctx context.Context, p Place) (*Reader, error) {
	c, err := newClient(p)
	if err != nil {
		return nil, err
	}
	r := &Reader{client: c, ctx: ctx, seen: map[tlog.Tile][]byte{}, cached: map[string]bool{}}
	if r.state, err = openState(p.State, p.Key); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Reader) open(ctx context.Context) error {
	b, err := r.get(ctx, ledger.NameOrigin, ledger.MaxOriginBytes)
	if err == nil {
		r.all, r.log, err = r.parseKeys(b)
	}
	if err != nil {
		return notALog(err)
	}
	// What is remembered is read before the checkpoint, so that no other process can know of
	// a newer one.
	old, err := r.remembered()
	if err != nil {
		return err
	}
	acks, err := r.state.numbered(acksFolder)
	if err != nil {
		return err
	}
	wanted := int64(0)
	if len(acks) > 0 && !r.Copy {
		wanted = acks[len(acks)-1] + 1
	}
	if err := r.await(ctx, wanted); err != nil {
		return notALog(err)
	}
	if err := r.vouched(ctx); err != nil || r.Copy {
		return err
	}
	if err := r.extends(ctx, old); err != nil {
		return err
	}
	return r.settle(ctx, acks)
}

// notALog says that a URL without a log has none.
func notALog(err error) error {
	if errors.Is(err, errMissing) {
		return fmt.Errorf("%w: no log stands there", ledger.ErrAnswer)
	}
	return err
}

// parseKeys reads the keys of the log, and those from the trusted key on.
func (c *client) parseKeys(b []byte) (all, trusted ledger.Keys, err error) {
	if all, err = ledger.ParseKeys(b); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ledger.ErrAnswer, err)
	}
	trusted, err = all.Trusting(c.Key)
	return all, trusted, err
}

// await reads the checkpoint until it covers a size, at most for the time of Cover. An older
// checkpoint is then accepted here: settle says what it lacks.
func (r *Reader) await(ctx context.Context, size int64) error {
	cover := DefaultCover
	if r.Cover > 0 {
		cover = r.Cover
	}
	for end := time.Now().Add(cover); ; {
		note, err := r.get(ctx, "checkpoint", ledger.MaxCheckpointBytes)
		if err == nil {
			if r.promise, err = r.log.OpenCheckpoint(note); err != nil {
				return err
			}
			if r.promise.Size >= size {
				return nil
			}
		}
		if time.Now().After(end) || err != nil && !errors.Is(err, errPassing) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// remembered returns the newest remembered checkpoint; its size is 0 if there is none. Its
// signature was checked when it was remembered.
func (r *Reader) remembered() (ledger.Checkpoint, error) {
	for {
		sizes, err := r.state.numbered(seenFolder)
		if err != nil || len(sizes) == 0 {
			return ledger.Checkpoint{}, err
		}
		size := sizes[len(sizes)-1]
		name := numberedName(seenFolder, size)
		note, err := r.state.read(name, ledger.MaxCheckpointBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process remembers a newer one
		}
		if err != nil {
			return ledger.Checkpoint{}, err
		}
		old, err := ledger.ParseCheckpoint(note)
		if err == nil && old.Size != size {
			err = ledger.ErrCheckpoint
		}
		if err != nil {
			err = fmt.Errorf("%s in the state folder is not what was written: %w", name, err)
		}
		return old, err
	}
}

// extends compares the checkpoint with the remembered one, and remembers it.
func (r *Reader) extends(ctx context.Context, old ledger.Checkpoint) error {
	if old.Size > 0 {
		if err := r.keeps(ctx, old); err != nil {
			return r.state.contradiction(err, numberedName(seenFolder, old.Size), r.promise.Size, r.promise.Note)
		}
	}
	if r.promise.Size <= old.Size {
		return nil
	}
	name := numberedName(seenFolder, r.promise.Size)
	err := r.state.keep(name, r.promise.Note)
	if errors.Is(err, errDiffers) {
		// A note of the same tree can have other signatures of witnesses.
		has, readErr := r.state.read(name, ledger.MaxCheckpointBytes)
		other, parseErr := ledger.ParseCheckpoint(has)
		switch {
		case errors.Is(readErr, fs.ErrNotExist): // another process has just remembered a newer one
			return r.isBefore(ctx)
		case errors.Join(readErr, parseErr) != nil:
			return errors.Join(readErr, parseErr)
		case other.Root != r.promise.Root:
			err = fmt.Errorf("%w: it has two trees of %d entries", ledger.ErrForked, r.promise.Size)
			return r.state.contradiction(err, name, r.promise.Size, r.promise.Note)
		}
		err = nil
	}
	if err == nil {
		r.state.forget(seenFolder, r.promise.Size)
	}
	return err
}

// isBefore says whether the newest remembered tree begins with the tree of the checkpoint.
func (r *Reader) isBefore(ctx context.Context) error {
	newer, err := r.remembered()
	if err != nil || newer.Size <= r.promise.Size {
		return err
	}
	var root tlog.Hash
	err = r.proven(func() (err error) {
		root, err = tlog.TreeHash(r.promise.Size, tlog.TileHashReader(tlog.Tree{N: newer.Size, Hash: newer.Root}, tiles{r, ctx}))
		return err
	})
	if err == nil && root != r.promise.Root {
		err = fmt.Errorf("%w: its tree of %d entries had another one of %d", ledger.ErrForked, newer.Size, r.promise.Size)
	}
	return r.state.contradiction(err, numberedName(seenFolder, newer.Size), r.promise.Size, r.promise.Note)
}

// keeps says whether the tree of the checkpoint begins with the tree of an older one.
func (r *Reader) keeps(ctx context.Context, old ledger.Checkpoint) error {
	if old.Size > r.promise.Size {
		return fmt.Errorf("%w: it had %d entries, and has %d", ledger.ErrTruncated, old.Size, r.promise.Size)
	}
	root, err := r.rootAt(ctx, old.Size)
	if err != nil {
		return err
	}
	if root != old.Root {
		return fmt.Errorf("%w: it had another tree when it had %d entries", ledger.ErrForked, old.Size)
	}
	return nil
}

// rootAt returns the root that the tree of the checkpoint had at an earlier size.
func (r *Reader) rootAt(ctx context.Context, size int64) (tlog.Hash, error) {
	switch size {
	case 0:
		return (&ledger.Range{}).Root(), nil
	case r.promise.Size:
		return r.promise.Root, nil
	}
	var root tlog.Hash
	err := r.proven(func() (err error) {
		root, err = tlog.TreeHash(size, r.hashReader(ctx))
		return err
	})
	return root, err
}

// proven calls do, which reads tiles. If they do not lead to the root of the checkpoint, they
// are fetched again, because a tile of the state folder may be damaged.
func (r *Reader) proven(do func() error) error {
	err := do()
	if err == nil || lasting(err) {
		return err
	}
	r.mu.Lock()
	r.distrust = true
	clear(r.seen)
	clear(r.cached)
	r.mu.Unlock()
	if err = do(); err == nil || lasting(err) || errors.Is(err, ledger.ErrTampered) {
		return err
	}
	return fmt.Errorf("%w: its tiles do not lead to the root of the checkpoint", ledger.ErrTampered)
}

// lasting says whether an error is not about the content of tiles.
func lasting(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ledger.ErrAnswer) || errors.Is(err, ErrToken) || errors.Is(err, ErrForbidden) ||
		errors.Is(err, ErrRefused) || errors.Is(err, context.Canceled)
}

// settle holds the remembered acks against the tree. Those that the log keeps are forgotten,
// and those that no checkpoint covers yet are counted.
func (r *Reader) settle(ctx context.Context, acks []int64) error {
	for _, index := range acks {
		if index >= r.promise.Size {
			r.pending++ // a checkpoint may come late; one that is smaller than a remembered one was refused before
			continue
		}
		name := numberedName(acksFolder, index)
		note, err := r.state.read(name, ledger.MaxAckBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has settled it
		}
		if err != nil {
			return err
		}
		ack, err := r.all.OpenAck(note)
		if err == nil && ack.Index != index {
			err = ledger.ErrAck
		}
		if err != nil {
			return fmt.Errorf("%s in the state folder: %w", name, err)
		}
		leaves, err := r.leaves(ctx, index, index+1)
		if err != nil {
			return err
		}
		if leaves[0] != ack.Leaf {
			err := fmt.Errorf("%w: entry %d is not the one that it acknowledged", ledger.ErrForked, index)
			return r.state.contradiction(err, name, r.promise.Size, r.promise.Note)
		}
		_ = r.state.root.Remove(name)
	}
	return nil
}

// vouched follows the keys from the first one on. A key is vouched for by a note over the
// record that names it, which the key before has signed.
func (r *Reader) vouched(ctx context.Context) error {
	for i, k := range r.log[1:] {
		index := k.Size - 2
		if index >= r.promise.Size {
			r.log = r.log[:i+1] // the key has not yet signed anything
			return nil
		}
		e, err := r.Entry(ctx, index)
		if err != nil {
			return err
		}
		root, err := r.rootAt(ctx, index+1)
		if err != nil {
			return err
		}
		if e.Record.Kind != ledger.KindKeyRotation || e.Record.Key != k.Key.String() || !r.log[i].Key.Vouches(k.Note, index+1, root) {
			return fmt.Errorf("%w: no record that %s has signed vouches for %s", ledger.ErrTampered, r.log[i].Key, k.Key)
		}
	}
	return nil
}

// Close closes the reader.
func (r *Reader) Close() error {
	r.http.CloseIdleConnections()
	return r.state.close()
}

// Checkpoint returns the checkpoint up to which the reader reads.
func (r *Reader) Checkpoint() ledger.Checkpoint { return r.promise }

// Pending returns the number of remembered acks that the checkpoint does not cover yet.
func (r *Reader) Pending() int { return r.pending }

// Keys returns the keys of the log.
func (r *Reader) Keys() ledger.Keys { return slices.Clone(r.log) }

// Behind returns nothing: a server shows no entry that no checkpoint covers.
func (r *Reader) Behind() ([]ledger.Record, error) { return nil, nil }

// Lines returns the entries from an index on. They have no seals.
func (r *Reader) Lines(ctx context.Context, from int64) iter.Seq2[int64, ledger.Entry] {
	return func(yield func(int64, ledger.Entry) bool) {
		if from < 0 || from > r.promise.Size {
			yield(from, ledger.Entry{Err: fmt.Errorf("there is no entry %d: the ledger has %d", from, r.promise.Size)})
			return
		}
		index := from
		for text, err := range r.texts(ctx, from) {
			e := ledger.Entry{Line: ledger.Line{Entry: text}, Err: err}
			if err == nil {
				if e.Record, err = ledger.ParseRecord(text); err != nil {
					e.Err = fmt.Errorf("entry %d: %w; run: fiador ledger verify", index, err)
				}
			}
			if !yield(index, e) || e.Err != nil {
				return
			}
			index++
		}
	}
}

// Entry reads one entry.
func (r *Reader) Entry(ctx context.Context, index int64) (ledger.Entry, error) {
	if index < 0 || index >= r.promise.Size {
		return ledger.Entry{}, fmt.Errorf("there is no entry %d: the ledger has %d", index, r.promise.Size)
	}
	b := r.bundleAt(ctx, index/ledger.TileWidth)
	if b.err != nil {
		return ledger.Entry{}, b.err
	}
	e := ledger.Entry{Line: ledger.Line{Entry: b.entries[index-b.first]}}
	var err error
	if e.Record, err = ledger.ParseRecord(e.Line.Entry); err != nil {
		err = fmt.Errorf("entry %d: %w; run: fiador ledger verify", index, err)
	}
	return e, err
}

// Find returns the indexes of the entries of a run. With all, or without a token, every entry
// is read. Otherwise the server says where they are, and could leave some out. With all, the end
// of the run is not called missing while the log may have it behind the checkpoint.
func (r *Reader) Find(ctx context.Context, runID string, all bool) ([]int64, error) {
	var found []int64
	if !all && r.Token != "" {
		indexes, err := r.hint(ctx, runID)
		if err != nil {
			return nil, err
		}
		for _, index := range indexes {
			e, err := r.Entry(ctx, index)
			if err != nil {
				return nil, err
			}
			if e.Record.RunID == runID {
				found = append(found, index)
			}
		}
		return found, nil
	}
	ended := false
	for index, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return nil, e.Err
		}
		if e.Record.RunID == runID {
			found = append(found, index)
			ended = ended || e.Record.Kind.Ends()
		}
	}
	switch {
	case ended || !all:
		return found, nil
	case r.pending > 0:
		return nil, fmt.Errorf("an entry was acknowledged here, and %w", ErrPending)
	case r.Token == "":
		return nil, ErrNoToken
	}
	_, err := r.hint(ctx, runID)
	return found, err
}

// hint asks the server for the indexes of a run. A run has at most two entries, and a
// repeated one.
func (r *Reader) hint(ctx context.Context, runID string) ([]int64, error) {
	b, err := r.get(ctx, "v1/runs/"+url.PathEscape(runID), maxRunsBytes)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Indexes []int64 `json:"indexes"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%w: no list of indexes", ledger.ErrAnswer)
	}
	slices.Sort(doc.Indexes)
	doc.Indexes = slices.Compact(doc.Indexes)
	if n := len(doc.Indexes); n > 4 || n > 0 && doc.Indexes[0] < 0 {
		return nil, fmt.Errorf("%w: no list of the indexes of one run", ledger.ErrAnswer)
	}
	for _, index := range doc.Indexes {
		if index >= r.promise.Size {
			return nil, fmt.Errorf("entry %d of the run: %w", index, ErrPending)
		}
	}
	return doc.Indexes, nil
}

// maxRunsBytes is the maximum size of the answer with the indexes of a run.
const maxRunsBytes = 4096

// Blob reads evidence and checks that its content fits its name.
func (r *Reader) Blob(b ledger.Blob) ([]byte, error) { return r.blob(r.ctx, b) }

func (c *client) blob(ctx context.Context, b ledger.Blob) ([]byte, error) {
	if b.Size > ledger.MaxBlobBytes || !b.SHA256.Valid() {
		return nil, ledger.ErrBadBlob
	}
	content, err := c.get(ctx, evidencePath(b), ledger.MaxBlobBytes)
	switch {
	case errors.Is(err, errMissing):
		return nil, ledger.ErrNoBlob
	case err != nil:
		return nil, err
	case int64(len(content)) != b.Size || canon.Sum(content) != b.SHA256:
		return nil, fmt.Errorf("%w: %s", ledger.ErrBadBlob, b.SHA256)
	}
	return content, nil
}

// Prove proves that an entry is in the log.
func (r *Reader) Prove(ctx context.Context, index int64) (ledger.Proof, error) {
	e, err := r.Entry(ctx, index)
	if err != nil {
		return ledger.Proof{}, err
	}
	p := ledger.Proof{Index: index, Entry: e.Line.Entry, Note: r.promise.Note}
	return p, r.proven(func() (err error) {
		p.Path, err = tlog.ProveRecord(r.promise.Size, index, r.hashReader(ctx))
		return err
	})
}

// Consistency proves that the log still has every entry of an older tree.
func (r *Reader) Consistency(ctx context.Context, size int64) (ledger.Consistency, error) {
	c := ledger.Consistency{From: size}
	if size == 0 || size == r.promise.Size {
		return c, nil
	}
	err := r.proven(func() (err error) {
		c.Path, err = tlog.ProveTree(r.promise.Size, size, r.hashReader(ctx))
		return err
	})
	return c, err
}

// Pins returns the pinned checkpoints of the log, which the state folder has.
func (r *Reader) Pins() (map[int64][]byte, error) {
	sizes, err := r.state.numbered(ledger.PinFolder)
	if err != nil {
		return nil, err
	}
	pins := map[int64][]byte{}
	for _, size := range sizes {
		if pins[size], err = r.state.read(numberedName(ledger.PinFolder, size), ledger.MaxCheckpointBytes); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// Pin keeps a checkpoint of the log in the state folder, with its signatures.
func (r *Reader) Pin(c ledger.Checkpoint) (string, error) {
	name := numberedName(ledger.PinFolder, c.Size)
	note := c.Note
	has, err := r.state.read(name, ledger.MaxCheckpointBytes)
	if err == nil {
		note, err = ledger.MergeCheckpoints(has, c.Note)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if err = nil; !bytes.Equal(note, has) {
		err = r.state.replace(name, note)
	}
	return name, err
}
