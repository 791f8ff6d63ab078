package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fiador/fiador/ledger"
)

// Append records. The receipt is a promise: the record is on the disk. After an error
// there is no promise. If a failed append could not be undone, nothing more is appended.
func (l *Log) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	if err := l.enter(ctx); err != nil {
		return ledger.Receipt{}, err
	}
	defer l.leave()
	return l.append(ctx, rec, func(s *state, r *ledger.Receipt) error {
		again, err := s.again(rec)
		if again != nil {
			*r = *again
		}
		return err
	})
}

// append appends a record, unless before finds a receipt for it. The caller has the
// turn.
func (l *Log) append(ctx context.Context, rec ledger.Record, before func(*state, *ledger.Receipt) error) (r ledger.Receipt, err error) {
	// A record with a fault is refused before the lock is taken.
	draft := rec
	draft.Stamp(l.options.Now(), "")
	if _, err := draft.Entry(); err != nil {
		return ledger.Receipt{}, err
	}
	truth, err := l.lock(ctx)
	if err != nil {
		return ledger.Receipt{}, err
	}
	var s *state
	var warned []string
	defer func() {
		left := errors.Join(s.close(), truth.Unlock(), truth.Close())
		switch {
		case err != nil:
			r, err = ledger.Receipt{}, errors.Join(err, left)
		case left != nil: // the record is safe nevertheless
			r.Warnings = append(r.Warnings, left.Error())
		}
	}()
	if err := l.poisoned(); err != nil {
		return r, err
	}
	if s, err = l.load(ctx, truth); err != nil {
		return r, err
	}
	if s.tail.closed {
		// The line without its line feed is then among the recorded lines, even if its
		// derived files could not be written.
		mended, err := s.record(ledger.Record{})
		if err != nil {
			return r, err
		}
		warned = mended.Warnings
		if err = s.close(); err != nil {
			return r, err
		}
		if s, err = l.load(ctx, truth); err != nil {
			return r, err
		}
	}
	if err = before(s, &r); err == nil && !r.Again {
		r, err = s.record(rec)
	}
	r.Warnings = append(append(warned, s.warn...), r.Warnings...)
	return r, err
}

// again looks up the run id of a record. A run has one begun and one end.
func (s *state) again(rec ledger.Record) (*ledger.Receipt, error) {
	if rec.RunID == "" {
		return nil, nil
	}
	indexes, err := s.derived.runs.find(rec.RunID)
	if derivedFault(err) {
		if err = s.rebuild(context.Background()); err == nil {
			indexes, err = s.derived.runs.find(rec.RunID)
		}
	}
	if err != nil {
		return nil, err
	}
	var first *ledger.Receipt
	for _, index := range indexes {
		if index >= s.tail.tree.Size {
			continue
		}
		l, err := s.line(index)
		if err != nil {
			return nil, err
		}
		old, err := ledger.ParseRecord(l.Entry)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ledger.ErrTampered, index, err)
		}
		if old.RunID != rec.RunID {
			continue
		}
		same, err := rec.After(old, index)
		if err != nil {
			return nil, err
		}
		if same {
			first = &ledger.Receipt{Index: index, Record: old, Again: true}
		}
	}
	if first == nil {
		return nil, nil
	}
	return first, s.repromise(first)
}

// repromise gives a receipt a checkpoint that covers it: the existing one, or a new one
// after a sync if an append was killed before its checkpoint.
func (s *state) repromise(r *ledger.Receipt) error {
	if r.Checkpoint = s.promise; s.promise.Size > r.Index {
		return nil
	}
	if s.needsRecord(); len(s.repairs) > 0 {
		mended, err := s.record(ledger.Record{})
		r.Checkpoint, r.Warnings = mended.Checkpoint, mended.Warnings
		return err
	}
	if err := inTurn(s.unsynced, s.truth.Datasync); err != nil {
		return err
	}
	r.Checkpoint, r.Warnings = s.sign()
	if r.Checkpoint.Size == 0 {
		return errors.New("the checkpoint could not be signed")
	}
	return nil
}

// needsRecord makes sure that a checkpoint can be signed. Only the earlier key may sign
// a tree that ends with a rotation, so a record after the rotation is needed.
func (s *state) needsRecord() {
	key, _ := s.origin.At(s.tail.tree.Size)
	if len(s.repairs) == 0 && key.String() != s.key.Verifier().String() {
		s.repairs = append(s.repairs, ledger.Repair{What: ledger.RepairCheckpoint})
	}
}

// record writes a record. Before it, record writes a record of the repairs, if there are
// any.
func (s *state) record(rec ledger.Record) (ledger.Receipt, error) {
	if err := s.unsynced(); err != nil {
		return ledger.Receipt{}, err
	}
	b := batch{at: s.tail.offset}
	if s.tail.torn > 0 {
		if err := s.torn(&b); err != nil {
			return ledger.Receipt{}, err
		}
	}
	var records []ledger.Record
	if len(s.repairs) > 0 {
		records = append(records, ledger.Record{Kind: ledger.KindRepair, Repairs: s.repairs})
	}
	if rec.Kind != "" {
		records = append(records, rec)
	}
	for i := range records {
		line, e, err := s.seal(&records[i])
		if err != nil {
			return ledger.Receipt{}, err
		}
		b.text, b.added = append(b.text, line...), append(b.added, e)
	}
	if err := s.write(b); err != nil {
		return ledger.Receipt{}, err
	}
	s.repairs, s.tail.torn, s.tail.closed = nil, 0, false
	r := ledger.Receipt{Index: s.tail.tree.Size - 1, Record: records[len(records)-1]}
	r.Checkpoint, r.Warnings = s.sign()
	if r.Checkpoint.Size == 0 {
		return ledger.Receipt{}, errors.New("the checkpoint could not be signed: " + r.Warnings[0])
	}
	var err error
	if rec.Kind == ledger.KindKeyRotation {
		err = s.turnKey(r.Index, rec.Key)
	}
	if err == nil {
		err = s.derive(b.added)
	}
	if err != nil {
		r.Warnings = append(r.Warnings, "what is derived from the ledger could not be written, and is made again later: "+err.Error())
	}
	return r, nil
}

// turnKey enters the key that signs after a rotation into origin.json. The head is
// written later, so it has the rotation only if origin.json has it.
func (s *state) turnKey(index int64, key string) error {
	v, err := ledger.ParseVerifier(key)
	if err != nil {
		return err
	}
	o := append(s.origin[:len(s.origin):len(s.origin)], ledger.KeyFrom{Size: ledger.FirstSize(index), Key: v})
	return s.writeOrigin(o)
}

// unsynced writes the lines that perhaps no sync covers once more, unchanged. Their
// writer was killed, or its sync failed. The kernel reports a page that could not be
// written once, and treats it as written afterwards.
func (s *state) unsynced() error {
	if s.synced >= s.tail.tree.Size {
		return nil
	}
	if _, err := s.line(s.synced); err != nil { // this makes its offset right
		return err
	}
	from, err := s.derived.offset(s.synced)
	if err != nil {
		return err
	}
	for b := make([]byte, min(s.tail.offset-from, 1<<20)); from < s.tail.offset; from += int64(len(b)) {
		b = b[:min(int64(len(b)), s.tail.offset-from)]
		if _, err := s.truth.ReadAt(b, from); err != nil {
			return err
		}
		if _, err := s.truth.WriteAt(b, from); err != nil {
			return err
		}
	}
	return nil
}

// batch holds the lines of one write.
type batch struct {
	at    int64 // offset in the file
	text  []byte
	added []entered
}

// torn handles bytes after the last whole line. A line without its line feed gets one;
// other bytes go to quarantine.
func (s *state) torn(b *batch) error {
	if !s.tail.closed {
		repair, err := s.quarantine()
		s.repairs = append(s.repairs, repair)
		return err
	}
	l, err := s.unfed()
	if err != nil {
		return err
	}
	whole := l.Append(nil)
	e, err := s.tail.next(whole[:len(whole)-1])
	if err != nil {
		return err
	}
	b.at += s.tail.torn
	b.text, b.added = append(b.text, '\n'), append(b.added, e)
	s.tail.offset += int64(len(whole))
	s.repairs = append(s.repairs, ledger.Repair{What: ledger.RepairNewline, Offset: b.at, Bytes: 1})
	return nil
}

// seal makes the line of a record, and adds it to the tree.
func (s *state) seal(rec *ledger.Record) ([]byte, entered, error) {
	rec.Stamp(s.options.Now(), s.tail.last)
	entry, err := rec.Entry()
	if err != nil {
		return nil, entered{}, err
	}
	e := entered{index: s.tail.tree.Size, offset: s.tail.offset, runID: rec.RunID}
	s.tail.tree.Append(ledger.LeafHash(entry), nodes(&e.nodes))
	seal, err := s.key.Seal(s.tail.tree.Size, s.tail.tree.Root())
	if err != nil {
		return nil, entered{}, err
	}
	line := ledger.Line{Seal: seal, Entry: entry}.Append(nil)
	s.tail.offset, s.tail.last, s.tail.seal = s.tail.offset+int64(len(line)), rec.Timestamp, seal
	return line, e, nil
}

// write makes lines durable, or undoes them. A torn end is removed with them.
func (s *state) write(b batch) error {
	n, err := s.truth.WriteAt(b.text, b.at)
	if err == nil && n < len(b.text) {
		err = io.ErrShortWrite
	}
	if err == nil && s.tail.torn > 0 {
		err = s.truth.Truncate(b.at + int64(len(b.text)))
	}
	if err == nil {
		err = s.truth.Datasync()
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the entry could not be written: %w", err)
	undo := s.truth.Truncate(b.at)
	if undo == nil {
		undo = s.truth.Datasync()
	}
	if undo == nil {
		return err
	}
	err = errors.Join(err, fmt.Errorf("and could not be undone: %w", undo))
	if mark := s.poison(err); mark != nil {
		s.stopped = err
		return errors.Join(err, fmt.Errorf("and could not be marked: %w", mark))
	}
	return err
}

// poison stops every later append.
func (s *state) poison(why error) error {
	f, err := s.files.Open(namePoison, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(why.Error() + "\n"))
	return errors.Join(err, f.Sync(), f.Close(), s.files.SyncDir(nameState))
}

// sign signs the checkpoint of the synced lines and puts it in its place. If its file
// cannot be written, sign returns a warning: the promise is made, and kept.
func (s *state) sign() (ledger.Checkpoint, []string) {
	c, err := s.key.Checkpoint(s.tail.tree.Size, s.tail.tree.Root())
	if err != nil {
		return ledger.Checkpoint{}, []string{err.Error()}
	}
	if err := replaceFile(s.files, nameCheckpoint, c.Note, false); err != nil {
		return c, []string{"the checkpoint could not be written, and is made again later: " + err.Error()}
	}
	return c, nil
}

// derive writes the derived files for new entries, and the head last.
func (s *state) derive(added []entered) error {
	for _, e := range added {
		if err := s.derived.add(e); err != nil {
			return err
		}
	}
	return s.writeHead()
}

// writeHead writes the current head of the ledger.
func (s *state) writeHead() error {
	h := head{
		Boot: s.options.boot, Inode: s.inode, Size: s.tail.tree.Size, Offset: s.tail.offset, Last: s.tail.last,
		Roots: s.tail.tree.Roots, Runs: s.derived.runs.count,
	}
	b, err := h.marshal()
	if err != nil {
		return err
	}
	f, err := s.files.Open(nameHead, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

// lineAt reads the line that begins at an offset. The line must have the given index.
func lineAt(f file, offset, index int64) (ledger.Line, error) {
	b := make([]byte, ledger.MaxLineBytes)
	n, err := f.ReadAt(b, offset)
	if err = ignoreEOF(err); err != nil {
		return ledger.Line{}, err
	}
	end := bytes.IndexByte(b[:n], '\n')
	if end < 0 {
		return ledger.Line{}, fmt.Errorf("%w: entry %d is not where it was", ledger.ErrTampered, index)
	}
	l, err := ledger.ParseLine(b[:end])
	if err != nil || l.Seal.Size != index+1 {
		return ledger.Line{}, errors.Join(fmt.Errorf("%w: entry %d is not where it was", ledger.ErrTampered, index), err)
	}
	return l, nil
}
