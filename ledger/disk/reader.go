package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Reader reads a ledger up to its checkpoint, without a lock and while others append. It
// works on a read-only copy too, and without the derived files; with them it is only
// faster.
type Reader struct {
	files   files
	truth   file
	origin  ledger.Keys
	trusted []ledger.Verifier
	promise ledger.Checkpoint
	lost    bool // there is no checkpoint
	offsets file // nil: missing
	runs    *runTable
	known   int64 // number of entries that the table covers for sure
}

// Read opens a ledger for reading. It checks the signature of the checkpoint. Without a
// trusted key this proves only that the ledger is consistent.
func Read(dir string, trusted ...ledger.Verifier) (*Reader, error) {
	r, err := read(dir, trusted)
	if err == nil && r.lost {
		err = errors.Join(ledger.ErrNoCheckpoint, r.Close())
	}
	return r, err
}

func read(dir string, trusted []ledger.Verifier) (*Reader, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	r := &Reader{files: f, trusted: trusted}
	if err := r.open(trusted); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Reader) open(trusted []ledger.Verifier) error {
	var err error
	if r.origin, err = readOrigin(r.files); err != nil {
		return err
	}
	for _, key := range trusted {
		if r.origin, err = r.origin.Trusting(key); err != nil {
			return err
		}
	}
	// The checkpoint is read before the ledger, so the ledger has all entries that it
	// covers.
	note, err := readFile(r.files, nameCheckpoint, ledger.MaxCheckpointBytes)
	if err != nil && !isNotExist(err) {
		return err
	}
	if err == nil {
		r.promise, err = r.origin.OpenCheckpoint(note)
	}
	if r.lost = isNotExist(err) || errors.Is(err, ledger.ErrCheckpoint); err != nil && !r.lost {
		return err
	}
	if r.truth, err = r.files.Open(nameLedger, os.O_RDONLY); err != nil {
		return err
	}
	r.known = r.vouchedByHead() // read before the table, so that the table has at least these entries
	if f, err := r.files.Open(nameOffsets, os.O_RDONLY); err == nil {
		r.offsets = f
	}
	if t, err := openRuns(r.files, os.O_RDONLY, 0); err == nil {
		r.runs = t
	}
	if len(trusted) > 0 && !r.lost {
		return r.vouched()
	}
	return nil
}

// vouched follows the keys from the trusted one on. Each later key must be in a record
// that the key before it has sealed.
func (r *Reader) vouched() error {
	for i, k := range r.origin[1:] {
		before, index := r.origin[i].Key, k.Size-2
		if index >= r.promise.Size {
			r.origin = r.origin[:i+1] // the key has not yet signed anything
			return nil
		}
		e, err := r.Entry(context.Background(), index)
		if err != nil {
			return err
		}
		if e.Record.Kind != ledger.KindKeyRotation || e.Record.Key != k.Key.String() || before.CheckSeal(e.Seal) != nil {
			return fmt.Errorf("%w: no record that %s has sealed vouches for %s", ledger.ErrTampered, before, k.Key)
		}
		path, err := prove(context.Background(), r, tlog.Tree{N: e.Seal.Size, Hash: e.Seal.Root}, func(h tlog.HashReader) (tlog.RecordProof, error) {
			return tlog.ProveRecord(e.Seal.Size, index, h)
		})
		if err != nil || tlog.CheckRecord(path, e.Seal.Size, e.Seal.Root, index, ledger.LeafHash(e.Line.Entry)) != nil {
			return errors.Join(fmt.Errorf("%w: the rotation to %s is not in the tree of its seal", ledger.ErrTampered, k.Key), err)
		}
	}
	return nil
}

// Close closes the ledger.
func (r *Reader) Close() error {
	var err error
	if r.truth != nil {
		err = r.truth.Close()
	}
	if r.offsets != nil {
		err = errors.Join(err, r.offsets.Close())
	}
	if r.runs != nil {
		err = errors.Join(err, r.runs.close())
	}
	return errors.Join(err, r.files.Close())
}

// Checkpoint returns the newest promise.
func (r *Reader) Checkpoint() ledger.Checkpoint { return r.promise }

// Keys returns the ledger's keys from origin.json.
func (r *Reader) Keys() ledger.Keys { return slices.Clone(r.origin) }

// text returns ledger.jsonl from beginning to end, with the lines after the checkpoint.
func (r *Reader) text() (io.Reader, error) {
	info, err := r.truth.Stat()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(r.truth, 0, info.Size()), nil
}

// Behind returns the records behind the checkpoint. A line that is none is left out.
func (r *Reader) Behind() ([]ledger.Record, error) {
	text, err := r.text()
	var list []ledger.Record
	for in := bufio.NewReader(text); err == nil; {
		var line []byte
		line, err = in.ReadBytes('\n')
		l, lineErr := ledger.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if lineErr != nil || l.Seal.Size <= r.promise.Size {
			continue
		}
		if rec, recErr := ledger.ParseRecord(l.Entry); recErr == nil {
			list = append(list, rec)
		}
	}
	return list, ignoreEOF(err)
}

// Lines returns the lines from an index on, in order, up to the checkpoint. A part that
// is no line ends them with an error.
func (r *Reader) Lines(ctx context.Context, from int64) iter.Seq2[int64, ledger.Entry] {
	return func(yield func(int64, ledger.Entry) bool) {
		if from == r.promise.Size {
			return
		}
		offset, index, err := r.seek(from)
		if err != nil {
			yield(from, ledger.Entry{Err: err})
			return
		}
		in := bufio.NewReaderSize(io.NewSectionReader(r.truth, offset, 1<<62), 1<<18)
		for ; index < r.promise.Size; index++ {
			e := entryOf(ctx, in, index)
			if e.Err != nil {
				yield(index, e) // this line may be before the wanted one, which then cannot be found
				return
			}
			if index >= from && !yield(index, e) {
				return
			}
		}
	}
}

// entryOf reads the next line, which must be the entry of that index, and checks the form of
// its record.
func entryOf(ctx context.Context, in *bufio.Reader, index int64) (e ledger.Entry) {
	if index%1024 == 0 && ctx.Err() != nil {
		return ledger.Entry{Err: ctx.Err()}
	}
	b, err := readLine(in)
	if err == nil {
		e.Line, err = ledger.ParseLine(b[:len(b)-1])
	}
	if err == nil && e.Seal.Size != index+1 {
		err = errors.New("its seal has another size")
	}
	if err == nil {
		e.Record, err = ledger.ParseRecord(e.Line.Entry)
	}
	if err != nil {
		e.Err = fmt.Errorf("entry %d: %w; run: fiador ledger verify", index, err)
	}
	return e
}

// seek finds a line where reading begins: the wanted line, or the first.
func (r *Reader) seek(index int64) (offset, at int64, err error) {
	if index < 0 || index > r.promise.Size {
		return 0, 0, fmt.Errorf("there is no entry %d: the ledger has %d", index, r.promise.Size)
	}
	if r.offsets == nil || index == r.promise.Size || index == 0 {
		return 0, 0, nil
	}
	offset, err = readOffset(r.offsets, index)
	if err != nil {
		return 0, 0, nil
	}
	if _, err := lineAt(r.truth, offset, index); err != nil {
		return 0, 0, nil
	}
	return offset, index, nil
}

// Entry reads one entry.
func (r *Reader) Entry(ctx context.Context, index int64) (ledger.Entry, error) {
	if index < 0 || index >= r.promise.Size {
		return ledger.Entry{}, fmt.Errorf("there is no entry %d: the ledger has %d", index, r.promise.Size)
	}
	if offset, at, err := r.seek(index); err == nil && at == index && index > 0 {
		if l, err := lineAt(r.truth, offset, index); err == nil {
			if rec, err := ledger.ParseRecord(l.Entry); err == nil {
				return ledger.Entry{Line: l, Record: rec}, nil
			}
		}
	}
	for _, e := range r.Lines(ctx, index) {
		return e, e.Err // the error may be about an earlier entry
	}
	return ledger.Entry{}, fmt.Errorf("there is no entry %d", index)
}

// Find returns the indexes of the entries of a run, in their order.
func (r *Reader) Find(ctx context.Context, runID string, _ bool) ([]int64, error) {
	var found []int64
	known := r.known
	if r.runs == nil {
		known = 0
	}
	if known > 0 {
		var err error
		if found, err = r.found(ctx, runID, known); err != nil {
			known, found = 0, nil
		}
	}
	for index, e := range r.Lines(ctx, known) {
		if e.Err != nil {
			return nil, e.Err
		}
		if e.Record.RunID == runID {
			found = append(found, index)
		}
	}
	return found, nil
}

// vouchedByHead returns the number of entries that the table of run ids covers for sure:
// those of a head from this start of the system.
func (r *Reader) vouchedByHead() int64 {
	b, err := readFile(r.files, nameHead, headBytes)
	if err != nil {
		return 0
	}
	h, err := parseHead(b)
	node, inodeErr := inode(r.truth)
	if err != nil || inodeErr != nil || h.Boot == "" || h.Boot != bootID() || h.Inode != node {
		return 0
	}
	return min(h.Size, r.promise.Size)
}

// found looks up a run in the table, which covers the entries below an index.
func (r *Reader) found(ctx context.Context, runID string, below int64) ([]int64, error) {
	indexes, err := r.runs.find(runID)
	if err != nil {
		return nil, err
	}
	var found []int64
	for _, index := range indexes {
		if index >= below {
			continue
		}
		e, err := r.Entry(ctx, index)
		if err != nil {
			return nil, err
		}
		if e.Record.RunID == runID {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Blob reads evidence and checks that the content fits the name.
func (r *Reader) Blob(b ledger.Blob) ([]byte, error) { return readBlob(r.files, b) }

// Pins returns the pinned checkpoints, by size, in their stored form.
func (r *Reader) Pins() (map[int64][]byte, error) { return readPins(r.files) }

// readPins reads the pinned checkpoints. A file whose name is no size is no pin.
func readPins(fsys files) (map[int64][]byte, error) {
	names, err := fsys.ReadDir(ledger.PinFolder)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pins := map[int64][]byte{}
	for _, name := range names {
		size, ok := pinSize(name)
		if !ok {
			continue
		}
		if pins[size], err = readFile(fsys, ledger.PinFolder+"/"+name, ledger.MaxCheckpointBytes); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// pinSize returns the size in the name of a pin: a number from 1 on in its one spelling.
// Any other name is no pin.
func pinSize(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

// Prove proves that an entry is in the ledger.
func (r *Reader) Prove(ctx context.Context, index int64) (ledger.Proof, error) {
	e, err := r.Entry(ctx, index)
	if err != nil {
		return ledger.Proof{}, err
	}
	path, err := prove(ctx, r, r.tree(), func(h tlog.HashReader) (tlog.RecordProof, error) {
		return tlog.ProveRecord(r.promise.Size, index, h)
	})
	p := ledger.Proof{Index: index, Entry: e.Line.Entry, Path: path, Note: r.promise.Note}
	if err == nil {
		err = tlog.CheckRecord(p.Path, r.promise.Size, r.promise.Root, index, ledger.LeafHash(p.Entry))
	}
	return p, err
}

// Consistency proves that the ledger still has every entry of an older tree.
func (r *Reader) Consistency(ctx context.Context, size int64) (ledger.Consistency, error) {
	c := ledger.Consistency{From: size}
	if size == 0 || size == r.promise.Size {
		return c, nil
	}
	var err error
	c.Path, err = prove(ctx, r, r.tree(), func(h tlog.HashReader) (tlog.TreeProof, error) {
		return tlog.ProveTree(r.promise.Size, size, h)
	})
	return c, err
}

// prove uses the tiles. If they are missing or wrong, it uses the entries.
func prove[P ~[]tlog.Hash](ctx context.Context, r *Reader, tree tlog.Tree, ask func(tlog.HashReader) (P, error)) (P, error) {
	if path, err := ask(tlog.TileHashReader(tree, tiles{r})); err == nil {
		return path, nil
	}
	hashes, err := r.hashes(ctx)
	if err != nil {
		return nil, err
	}
	return ask(hashes)
}

// tree returns the tree of the checkpoint.
func (r *Reader) tree() tlog.Tree { return tlog.Tree{N: r.promise.Size, Hash: r.promise.Root} }

// tiles reads the tiles of a ledger. tlog checks them against the checkpoint.
type tiles struct{ r *Reader }

func (t tiles) Height() int                     { return ledger.TileHeight }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(list))
	for i, want := range list {
		full := want
		full.W = ledger.TileWidth
		names := []string{ledger.TilePath(full), edgeName(want.L)}
		if want.W == ledger.TileWidth {
			names = names[:1]
		}
		need := want.W * tlog.HashSize
		for _, name := range names {
			b, err := readFile(t.r.files, name, ledger.TileWidth*tlog.HashSize)
			if err == nil && len(b) >= need {
				out[i] = bytes.Clone(b[:need])
				break
			}
		}
		if out[i] == nil {
			return nil, fs.ErrNotExist
		}
	}
	return out, nil
}

// hashes computes the hashes of the tree from the entries.
func (r *Reader) hashes(ctx context.Context) (tlog.HashReaderFunc, error) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			if at >= int64(len(stored)) {
				return nil, fs.ErrNotExist
			}
			out[i] = stored[at]
		}
		return out, nil
	})
	for index, e := range r.Lines(ctx, 0) {
		if e.Err != nil {
			return nil, e.Err
		}
		more, err := tlog.StoredHashesForRecordHash(index, ledger.LeafHash(e.Line.Entry), read)
		if err != nil {
			return nil, err
		}
		stored = append(stored, more...)
	}
	root, err := tlog.TreeHash(r.promise.Size, read)
	if err == nil {
		err = leadsElsewhere(r.promise.Promises(r.promise.Size, root))
	}
	return read, err
}
