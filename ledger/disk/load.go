package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// state is a ledger whose lock is held, ready for the next append.
type state struct {
	*Log
	truth   file
	inode   uint64
	tail    tail
	derived *derived
	repairs []ledger.Repair
	promise ledger.Checkpoint // the newest checkpoint; zero if it was lost
	synced  int64             // number of entries that a sync covers for sure
	rebuilt bool              // the derived files were made again
	warn    []string
}

// load finds the end of the ledger. It brings the derived files up to date, and makes
// them again if they do not fit. It does not change ledger.jsonl.
func (l *Log) load(ctx context.Context, truth file) (*state, error) {
	info, err := truth.Stat()
	if err != nil {
		return nil, err
	}
	s, err := l.locked(truth)
	if err != nil {
		return nil, err
	}
	h, err := s.head(info.Size())
	if err == nil {
		err = s.catchUp(ctx, h)
	}
	if derivedFault(err) {
		err = s.rebuild(ctx)
	}
	if err == nil {
		err = inTurn(s.hold, s.checkKey)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// locked reads the first facts about a ledger whose lock was taken. Another process may
// have rotated its key after it was opened.
func (l *Log) locked(truth file) (*state, error) {
	s := &state{Log: l, truth: truth}
	var err error
	if l.origin, err = readOrigin(l.files); err != nil {
		return nil, err
	}
	if s.inode, err = inode(truth); err != nil {
		return nil, err
	}
	return s, s.readPromise()
}

func (s *state) close() error {
	if s == nil || s.derived == nil {
		return nil
	}
	err := s.derived.Close()
	s.derived = nil
	return err
}

// derivedFault says whether an error is about derived files, which can be made again.
func derivedFault(err error) bool {
	return errors.Is(err, errHead) || errors.Is(err, errTable) || errors.Is(err, errEdge)
}

// head reads the head, if it belongs to this ledger and this start of the system.
func (s *state) head(size int64) (head, error) {
	f, err := s.files.Open(nameHead, os.O_RDONLY)
	if isNotExist(err) {
		return head{}, errHead
	}
	if err != nil {
		return head{}, err
	}
	var b [headBytes + 1]byte
	n, err := f.ReadAt(b[:], 0)
	if err = errors.Join(ignoreEOF(err), f.Close()); err != nil {
		return head{}, err
	}
	h, err := parseHead(b[:n])
	if err != nil {
		return head{}, err
	}
	if h.Boot != s.options.boot {
		s.warn = append(s.warn, "the system was started anew, or another one has used this ledger: what is derived from it was made again")
	}
	if h.Boot != s.options.boot || h.Boot == "" || h.Inode != s.inode {
		return head{}, errHead
	}
	if h.Offset > size {
		return head{}, fmt.Errorf("%w: it had %d bytes, and has %d", ledger.ErrTruncated, h.Offset, size)
	}
	return h, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// catchUp reads the lines that the head does not cover.
func (s *state) catchUp(ctx context.Context, h head) error {
	d, err := openDerived(s.files, h)
	if isNotExist(err) {
		return errTable
	}
	if err != nil {
		return err
	}
	s.derived = d
	from := tail{tree: h.tree(), offset: h.Offset, last: h.Last}
	var seals []ledger.Seal
	s.tail, err = scan(ctx, s.truth, from, []int64{s.promise.Size}, func(e entered) error {
		seals = append(seals, e.seal)
		return d.add(e)
	})
	if err != nil {
		return err
	}
	s.synced = max(h.Size, s.promise.Size)
	// A signature must confirm the head: the checkpoint's, or else the last line's.
	if s.tail.added == 0 && s.promise.Size != h.Size {
		l, err := s.line(h.Size - 1)
		if err != nil {
			return err
		}
		if l.Seal.Root != s.tail.tree.Root() {
			return errHead
		}
		seals = append(seals, l.Seal)
	}
	return s.checkSeals(seals)
}

// checkSeals checks the signatures of lines. It also checks a line without its line
// feed, because without a valid signature that is no line.
func (s *state) checkSeals(seals []ledger.Seal) error {
	if err := s.followKeys(s.tail.keys); err != nil {
		return err
	}
	for _, seal := range seals {
		if err := s.origin.CheckSeal(seal); err != nil {
			return fmt.Errorf("%w: seal of entry %d: %w", ledger.ErrTampered, seal.Size-1, err)
		}
	}
	if !s.tail.closed {
		return nil
	}
	whole := s.tail.whole
	if err := s.origin.CheckSeal(whole.seal); err != nil {
		s.tail.closed, s.tail.whole = false, nil
		return nil
	}
	return s.followKeys(whole.keys)
}

// followKeys compares the keys of the records with origin.json. If an interrupted
// rotation left the file behind, followKeys writes it again. The earlier key must have
// signed the rotation.
func (s *state) followKeys(keys []rotation) error {
	o, added := s.origin, false
	for _, k := range keys {
		known, ok := o.At(k.Size)
		if ok && known.String() == k.Key.String() {
			continue
		}
		if k.Size <= o[len(o)-1].Size {
			return fmt.Errorf("%w: %s and the records disagree about the key from size %d on", ledger.ErrTampered, ledger.NameOrigin, k.Size)
		}
		if err := o.CheckSeal(k.seal); err != nil {
			return fmt.Errorf("%w: seal of entry %d: %w", ledger.ErrTampered, k.seal.Size-1, err)
		}
		o, added = append(o[:len(o):len(o)], k.KeyFrom), true
	}
	if !added {
		return nil
	}
	return s.writeOrigin(o)
}

func (l *Log) writeOrigin(o ledger.Keys) error {
	b, err := o.Marshal()
	if err != nil {
		return err
	}
	if err := replaceFile(l.files, ledger.NameOrigin, b, true); err != nil {
		return err
	}
	l.origin = o
	return l.files.SyncDir(".")
}

// readPromise reads the checkpoint. A missing or unreadable checkpoint was lost when the
// power failed, because its rename is not synced; it is made again. A checkpoint with a
// signature of somebody else stops everything.
func (s *state) readPromise() error {
	b, err := readFile(s.files, nameCheckpoint, ledger.MaxCheckpointBytes)
	if err != nil && !isNotExist(err) && !errors.Is(err, errTooLong) {
		return err
	}
	if err == nil {
		if s.promise, err = s.ours(b); err != nil {
			s.promise, err = s.origin.OpenCheckpoint(b)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrUnknownKey), errors.Is(err, ledger.ErrBadSignature):
		return fmt.Errorf("%w: %w", ledger.ErrTampered, err)
	}
	s.promise = ledger.Checkpoint{}
	s.repairs = append(s.repairs, ledger.Repair{What: ledger.RepairCheckpoint})
	return nil
}

// ours reads a checkpoint if it has exactly the signature of the ledger's own key. A new
// signature costs a fraction of a check, and Ed25519 always makes the same one.
func (s *state) ours(note []byte) (ledger.Checkpoint, error) {
	c, err := ledger.ParseCheckpoint(note)
	if err != nil {
		return c, err
	}
	key, ok := s.origin.At(c.Size)
	if !ok || c.Origin != s.key.Origin() || key.String() != s.key.Verifier().String() {
		return c, ledger.ErrUnknownKey
	}
	same, err := s.key.Checkpoint(c.Size, c.Root)
	if err == nil && !bytes.Equal(same.Note, note) {
		err = ledger.ErrBadSignature
	}
	return c, err
}

// hold compares the ledger with its promises.
func (s *state) hold() error {
	size := s.tail.tree.Size
	if s.tail.closed {
		size++ // the line feed will be added
	}
	if s.promise.Size > size {
		return fmt.Errorf("%w: the checkpoint has %d entries, and it has %d", ledger.ErrTruncated, s.promise.Size, size)
	}
	if s.promise.Size > 0 {
		root, err := s.rootAt(s.promise.Size)
		if err != nil {
			return err
		}
		if root != s.promise.Root {
			return fmt.Errorf("%w: the tree of the checkpoint's size %d has another root", ledger.ErrForked, s.promise.Size)
		}
	}
	if keys := s.origin; keys[len(keys)-1].Size > size+1 {
		return fmt.Errorf("%w: %s has a key from size %d on, and it has %d entries", ledger.ErrTruncated, ledger.NameOrigin, keys[len(keys)-1].Size, size)
	}
	return s.holdPins(size)
}

// holdPins compares the ledger with the pinned checkpoints. Audit checks their
// signatures.
func (s *state) holdPins(size int64) error {
	pins, err := readPins(s.files)
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(pins)) {
		if n > size {
			return fmt.Errorf("%w: a pinned checkpoint has %d entries, and it has %d", ledger.ErrTruncated, n, size)
		}
		pin, err := ledger.ParseCheckpoint(pins[n])
		if err != nil {
			return fmt.Errorf("%w: the pin %s/%d: %w", ledger.ErrTampered, ledger.PinFolder, n, err)
		}
		root, err := s.rootAt(n)
		if err != nil {
			return err
		}
		if root != pin.Root || pin.Size != n {
			return fmt.Errorf("%w: the tree of the pinned checkpoint's size %d has another root", ledger.ErrForked, n)
		}
	}
	return nil
}

// rootAt returns the root of the tree at a size that was reached.
func (s *state) rootAt(size int64) (tlog.Hash, error) {
	if size == s.tail.tree.Size {
		return s.tail.tree.Root(), nil
	}
	if root, ok := s.tail.at[size]; ok {
		return root, nil
	}
	if s.tail.closed && size == s.tail.tree.Size+1 {
		l, err := s.unfed()
		return l.Seal.Root, err
	}
	l, err := s.line(size - 1)
	return l.Seal.Root, err
}

// line reads a line by its index. If the offsets lead to another place, they are made
// again. This shows whether the offsets or the ledger are wrong.
func (s *state) line(index int64) (ledger.Line, error) {
	var l ledger.Line
	offset, err := s.derived.offset(index)
	if err == nil {
		l, err = lineAt(s.truth, offset, index)
	}
	if err == nil || s.rebuilt {
		return l, err
	}
	if err := s.rebuild(context.Background()); err != nil {
		return ledger.Line{}, err
	}
	return s.line(index)
}

// unfed returns the last line, which lacks its line feed.
func (s *state) unfed() (ledger.Line, error) {
	b := make([]byte, s.tail.torn)
	if _, err := s.truth.ReadAt(b, s.tail.offset); err != nil {
		return ledger.Line{}, err
	}
	return ledger.ParseLine(b)
}

// quarantine saves the torn end of the ledger for the auditor. It is on the disk before
// anything takes its place.
func (s *state) quarantine() (ledger.Repair, error) {
	repair := ledger.Repair{What: ledger.RepairTornTail, Offset: s.tail.offset, Bytes: s.tail.torn}
	if err := s.files.Mkdir(nameQuarantine); err == nil {
		err = s.files.SyncDir(nameState)
		if err != nil {
			return repair, err
		}
	} else if !isExist(err) {
		return repair, err
	}
	const next = nameQuarantine + "/next"
	f, err := s.files.Open(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return repair, err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), io.NewSectionReader(s.truth, s.tail.offset, s.tail.torn))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return repair, err
	}
	digits := hex.EncodeToString(sum.Sum(nil))
	repair.SHA256 = canon.ContentHash("sha256:" + digits)
	name := fmt.Sprintf("%s/%d-%s", nameQuarantine, s.tail.offset, digits[:16])
	return repair, errors.Join(s.files.Rename(next, name), s.files.SyncDir(nameQuarantine))
}
