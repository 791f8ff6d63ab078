package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
)

const (
	maxWaiting = 1024        // drafts that wait for the writer; more are refused as busy
	TryAgain   = time.Second // a server that waits tries so often to take the lead
)

// Writer takes drafts and makes them entries of the log, one batch after another. Its
// goroutine alone has the fields below lead.
type Writer struct {
	store    storage.Storage
	signer   *ledger.Signer
	now      func() time.Time
	log      Log
	decorate storage.Decorator

	drafts   chan *draft
	underway underway
	ended    chan struct{} // closed when run returns
	state    atomic.Int32
	claims   atomic.Pointer[claims.Store] // of the lead, for reading

	Lead *storage.Lead // nil while another server writes
	held []*draft      // for the next batch
}

// Log takes what a server says to people.
type Log interface {
	// Printf says a line.
	Printf(format string, args ...any)
	// Complain says what goes wrong, and why. It may leave out what it has just said.
	Complain(what string, why any)
}

// The states of a writer.
const (
	stateStarting int32 = iota
	stateStandby        // another server writes
	stateWriting
	stateFailed
	stateBehind // the tiles have not all entries yet
	stateEnding
)

// NewWriter returns a writer that has not the lead yet.
func NewWriter(store storage.Storage, signer *ledger.Signer, now func() time.Time, log Log, decorate storage.Decorator) *Writer {
	return &Writer{store: store, signer: signer, now: now, log: log, decorate: decorate,
		drafts: make(chan *draft, maxWaiting), ended: make(chan struct{})}
}

// become changes the state, unless the server ends.
func (w *Writer) become(state int32) {
	for {
		now := w.state.Load()
		if now == stateEnding || w.state.CompareAndSwap(now, state) {
			return
		}
	}
}

// refusal says why the writer takes nothing now, or returns nil.
func (w *Writer) refusal() *failure {
	switch w.state.Load() {
	case stateWriting:
		return nil
	case stateFailed:
		return storageFailed()
	case stateBehind:
		return tilesBehind()
	case stateEnding:
		return busy("the server ends")
	case stateStarting:
		return busy("the server starts, and reads the log")
	default:
		return busy("another server writes to this log")
	}
}

// begin takes the lead if no other server has it. An error means that the log cannot be
// written to.
func (w *Writer) begin() error {
	err := w.TakeLead()
	if errors.Is(err, storage.ErrBusy) {
		w.become(stateStandby)
		w.log.Printf("another server writes to this log; this one waits")
		return nil
	}
	if err != nil {
		return errors.Join(err, w.GiveUp())
	}
	w.log.Printf("%s", nowWriting)
	return nil
}

const nowWriting = "this server writes to the log now"

// TakeLead takes the right to write, and settles what an earlier writer has left. After an error the
// caller calls GiveUp.
func (w *Writer) TakeLead() (err error) {
	if w.Lead, err = w.store.Lead(w.decorate); err != nil {
		return err
	}
	return w.settle()
}

// GiveUp gives the right to write back, if the writer has it.
func (w *Writer) GiveUp() error {
	l := w.Lead
	if l == nil {
		return nil
	}
	w.Lead = nil
	return l.Close()
}

// run writes batches until ctx ends. It waits for the lead if begin did not get it.
func (w *Writer) run(ctx context.Context) {
	defer close(w.ended)
	failures := 0 // one after another, to take the lead
	for ctx.Err() == nil {
		if w.state.Load() == stateWriting {
			w.batches(ctx)
			continue
		}
		if w.pause(ctx, TryAgain*time.Duration(1+min(failures, 4))); ctx.Err() != nil {
			break
		}
		if w.Lead != nil && w.Lead.IsLost() {
			w.log.Printf("this server lost the right to write")
			if err := w.GiveUp(); err != nil {
				w.log.Complain("the log was not closed well", err)
			}
		}
		again, taking := w.TakeLead, w.Lead == nil
		if !taking {
			again = w.settle
		}
		err := again()
		lost := w.Lead != nil && w.Lead.IsLost()
		if failures++; err == nil || !taking || errors.Is(err, storage.ErrBusy) {
			failures = 0
		}
		if err != nil && taking && w.Lead != nil { // Tessera would sign what settle refuses
			err = errors.Join(err, w.GiveUp())
		}
		switch {
		case err == nil:
			w.log.Printf("%s", nowWriting)
		case errors.Is(err, storage.ErrBusy), errors.Is(err, storage.ErrLost), err != nil && lost:
			w.become(stateStandby)
		case w.store.Who().Cosign.Failed() != nil: // the server ends
			w.become(stateFailed)
		case errors.As(err, new(*storage.OtherKey)): // this server leads never again, and reads go on
			w.log.Complain("this server cannot write", err)
			w.become(stateStandby)
		default:
			w.log.Complain("the log cannot be written to", err)
			w.become(stateAfter(err))
		}
	}
	if err := w.GiveUp(); err != nil {
		w.log.Printf("the log was not closed well: %v", err)
	}
}

// pause waits, and refuses drafts meanwhile.
func (w *Writer) pause(ctx context.Context, wait time.Duration) {
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		select {
		case d := <-w.drafts:
			d.end(outcome{failure: w.refusal()})
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// batches writes batches until ctx ends or one fails.
func (w *Writer) batches(ctx context.Context) {
	for {
		batch := w.held
		w.held = nil
		if len(batch) == 0 {
			select {
			case d := <-w.drafts:
				batch = append(batch, d)
			case <-w.Lead.Lost:
				w.become(stateStandby)
				return
			case <-ctx.Done():
				return
			}
		}
		for len(batch) < claims.MaxBatch && len(w.drafts) > 0 {
			batch = append(batch, <-w.drafts)
		}
		if err := w.write(batch); err != nil {
			w.log.Complain("records were not written", err)
			if w.Lead.IsLost() {
				w.become(stateStandby)
				return
			}
			if !errors.Is(err, claims.ErrTakenBack) {
				w.become(stateAfter(err))
				return
			}
		}
	}
}

// stateAfter returns the state of a writer after an error.
func stateAfter(err error) int32 {
	if storage.Behind(err) {
		return stateBehind
	}
	return stateFailed
}

func tilesBehind() *failure { return busy("the tiles of the log are behind its entries") }

// batch is what becomes entries of the log together.
type batch struct {
	items  []claims.Item
	first  int64      // the index that the first gets
	drafts [][]*draft // those that each item answers
	byRun  map[string]int

	recorded map[string][]claims.Entry // by run id, what the log has already
}

// write makes one batch of drafts entries of the log, and answers them.
func (w *Writer) write(drafts []*draft) error {
	if err := w.store.Who().Cosign.Failed(); err != nil {
		fail(err, drafts)
		return err
	}
	b := &batch{first: w.Lead.Claims.Count(), byRun: map[string]int{}}
	now := w.now()
	runs := make([]string, len(drafts))
	for i, d := range drafts {
		runs[i] = d.record.RunID
	}
	var err error
	if b.recorded, err = w.Lead.Claims.Of(runs); err != nil {
		fail(err, drafts)
		return err
	}
	for i, d := range drafts {
		if err := w.decide(b, d, now); err != nil {
			fail(err, drafts[i:])
			fail(err, b.drafts...)
			return err
		}
	}
	if err := w.Record(b.items); err != nil {
		fail(err, b.drafts...)
		return err
	}
	for i, it := range b.items {
		for n, d := range b.drafts[i] {
			w.answer(d, claims.Entry{Index: b.first + int64(i), Item: it}, n > 0)
		}
	}
	return nil
}

// fail answers drafts without a promise: they may be recorded later, or never.
func fail(err error, lists ...[]*draft) {
	f := storageFailed()
	if storage.Behind(err) {
		f = tilesBehind()
	}
	for _, list := range lists {
		for _, d := range list {
			d.end(outcome{failure: f})
		}
	}
}

// decide answers a draft that is recorded already or cannot follow its run, and puts
// another one into the batch.
func (w *Writer) decide(b *batch, d *draft, now time.Time) error {
	rec := d.record
	if i, ok := b.byRun[rec.RunID]; ok {
		if same, err := rec.After(b.items[i].Record, b.first+int64(i)); same && err == nil {
			b.drafts[i] = append(b.drafts[i], d)
		} else {
			w.held = append(w.held, d) // Tessera may take the entries of one batch in another order
		}
		return nil
	}
	first, again, err := w.recorded(rec, b.recorded[rec.RunID])
	switch {
	case errors.Is(err, ledger.ErrConflict), errors.Is(err, ledger.ErrEnded):
		d.end(outcome{failure: unfit(err)})
		return nil
	case err != nil:
		return err
	case again:
		w.answer(d, first, true)
		return nil
	case !d.evidence:
		d.end(outcome{failure: &failure{409, "evidence", "the server does not have the blob " + string(rec.Evidence.SHA256) + " of this size: put it first"}})
		return nil
	}
	rec.Stamp(now, w.Lead.Claims.Last())
	it, err := claims.NewItem(rec)
	if err != nil {
		d.end(outcome{failure: notRecord(err)})
		return nil
	}
	b.byRun[rec.RunID] = len(b.items)
	b.items, b.drafts = append(b.items, it), append(b.drafts, []*draft{d})
	return nil
}

// recorded says whether the log has a record already, and at which of the entries of its
// run. It returns ErrConflict or ErrEnded if the record cannot follow them.
func (w *Writer) recorded(rec ledger.Record, of []claims.Entry) (first claims.Entry, again bool, err error) {
	for _, old := range of {
		h, err := w.Lead.Tree.Leaf(old.Index, w.Lead.Claims.Count())
		if err != nil {
			return claims.Entry{}, false, fmt.Errorf("the log's hash of entry %d cannot be read: %w", old.Index, err)
		}
		if h != ledger.LeafHash(old.Entry) {
			w.Lead.Claims.Doubt()
			return claims.Entry{}, false, fmt.Errorf("the claim of entry %d was changed", old.Index)
		}
		same, err := rec.After(old.Record, old.Index)
		if err != nil {
			return claims.Entry{}, false, err
		}
		if same && !again {
			first, again = old, true
		}
	}
	return first, again, nil
}

// answer gives a draft the ack of a durable entry.
func (w *Writer) answer(d *draft, e claims.Entry, again bool) {
	ack, err := w.signer.Ack(e.Index, ledger.LeafHash(e.Entry))
	if err != nil {
		w.log.Printf("an ack was not signed: %v", err)
		d.end(outcome{failure: storageFailed()})
		return
	}
	d.end(outcome{again: again, index: e.Index, entry: e.Entry, ack: ack.Note})
}

// Record claims entries, adds them to the log and marks the claims with their indexes.
func (w *Writer) Record(items []claims.Item) error {
	if len(items) == 0 {
		return nil
	}
	if err := w.Lead.Claims.Write(items); err != nil {
		return err
	}
	if err := w.Lead.Tree.Add(w.Lead.Claims.Count(), items); err != nil {
		return err
	}
	return w.Lead.Claims.Settled(items)
}

// settle brings claims and log together, and makes the writer ready. Whatever the log has
// beyond the indexes of the claims gets its index; claims that the log does not have are
// added to it. A new log gets its genesis.
func (w *Writer) settle() error {
	kept, tree := w.Lead.Claims, w.Lead.Tree
	size, err := tree.Size()
	if err != nil {
		return err
	}
	if size < tree.Signed {
		return fmt.Errorf("the log has %d entries, and its checkpoint %d: an old copy of the log was put back; put back the newest one", size, tree.Signed)
	}
	open, err := kept.Load(size, tree)
	if err != nil {
		return err
	}
	if open, err = w.adopt(open, size); err != nil {
		return err
	}
	if w.store.Who().Importing {
		return nil // the import adds the entries
	}
	if size == 0 && len(open) == 0 {
		if !w.Lead.Fresh {
			return errors.New("the log has no entries, and origin.json says that it had: put them back")
		}
		genesis := ledger.Record{Kind: ledger.KindGenesis, Format: ledger.Format, Origin: w.signer.Origin(), Key: w.signer.Verifier().String()}
		genesis.Stamp(w.now(), "")
		it, err := claims.NewItem(genesis)
		if err != nil {
			return err
		}
		open = []claims.Item{it}
	}
	if err := w.begunByKey(open, size); err != nil {
		return err
	}
	if err := w.Record(open); err != nil {
		return err
	}
	if w.Lead.Fresh && kept.Count() > 1 {
		return errors.New("origin.json is gone, and the log is not new: put it back")
	}
	if err := tree.Witnessed(w.log.Complain); err != nil {
		return err
	}
	if err := w.Lead.Finish(); err != nil {
		return err
	}
	w.Lead.Fresh = false
	if err := w.Signable(); err != nil {
		return err
	}
	w.claims.Store(&kept)
	w.become(stateWriting)
	return nil
}

// begunByKey refuses a new log whose genesis names another key: a server with that key was
// killed before it wrote origin.json.
func (w *Writer) begunByKey(open []claims.Item, size int64) error {
	if !w.Lead.Fresh {
		return nil
	}
	var genesis claims.Item
	if size == 0 {
		genesis = open[0]
	} else {
		entry, err := w.Lead.Tree.Entry(0, size)
		if err != nil {
			return err
		}
		if genesis, err = claims.ParseItem(entry); err != nil {
			return err
		}
	}
	if key := genesis.Record.Key; key != w.signer.Verifier().String() {
		return &storage.OtherKey{Origin: w.signer.Origin(), Now: key}
	}
	return nil
}

// Signable adds a record if the log ends with the rotation to the key, which cannot sign that
// tree. So the key signs a checkpoint over all entries.
func (w *Writer) Signable() error {
	keys, count := w.store.Who().Keys, w.Lead.Claims.Count()
	switch since := keys[len(keys)-1].Size; {
	case since <= count:
		return nil
	case since > count+1:
		return fmt.Errorf("the log has %d entries, and origin.json a key from %d on: an old copy of the log was put back; put back the newest one", count, since)
	}
	repair := ledger.Record{Kind: ledger.KindRepair, Repairs: []ledger.Repair{{What: ledger.RepairCheckpoint}}}
	repair.Stamp(w.now(), w.Lead.Claims.Last())
	it, err := claims.NewItem(repair)
	if err != nil {
		return err
	}
	return w.Record([]claims.Item{it})
}

// adopt claims the entries of the log that have no claim with an index, and returns the
// open claims that are not among them. It drops those that cannot follow any more, and those
// of a rotation.
func (w *Writer) adopt(open []claims.Item, size int64) ([]claims.Item, error) {
	kept, tree := w.Lead.Claims, w.Lead.Tree
	var found []claims.Item
	flush := func() error {
		if len(found) == 0 {
			return nil
		}
		if err := kept.Write(found); err != nil {
			return err
		}
		err := kept.Settled(found)
		found = nil
		return err
	}
	err := tree.Entries(kept.Count(), size, func(index int64, entry []byte) error {
		it, err := claims.ParseItem(entry)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if h, err := tree.Leaf(index, size); err != nil || h != ledger.LeafHash(entry) {
			return errors.Join(fmt.Errorf("entry %d of the log is not the one of its tree", index), err)
		}
		if i := slices.IndexFunc(open, func(o claims.Item) bool { return bytes.Equal(o.Entry, entry) }); i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
		if found = append(found, it); len(found) < claims.MaxBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, err
	}
	runs := make([]string, len(open))
	for i, o := range open {
		runs[i] = o.Record.RunID
	}
	of, err := kept.Of(runs)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(open, func(o claims.Item) bool {
		waits := o.Record.Kind == ledger.KindGenesis || o.Record.Kind.OfRun() || o.Record.Kind == ledger.KindRepair
		if !waits || o.Record.Timestamp < kept.Last() {
			return true
		}
		if o.Record.Kind == ledger.KindRepair {
			return false // it may still come from the writer before, and is then a repeat
		}
		_, same, failed := w.recorded(o.Record, of[o.Record.RunID])
		unfit := errors.Is(failed, ledger.ErrConflict) || errors.Is(failed, ledger.ErrEnded)
		if failed != nil && !unfit {
			err = failed
		}
		return same || unfit
	}), err
}
