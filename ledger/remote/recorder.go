package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Recorder appends to a log. Any number of goroutines may call its methods.
type Recorder struct {
	*client
	ctx    context.Context // of all requests: it ends with Close and for a wrong log, and not with an interrupt of a run
	cancel context.CancelFunc
	state  *state

	opened  chan struct{} // closed when the keys of the log are known, or why they are not
	openErr error

	mu      sync.Mutex
	keys    ledger.Keys
	uploads map[canon.ContentHash]*upload // those that are not known to be stored
}

// upload is a blob that is sent.
type upload struct {
	mu   sync.Mutex // of the goroutine that sends
	blob []byte
	done bool
}

// Record opens a log for appends. It asks the server for the keys of the log, and does not
// wait for the answer: evidence and a begun record are sent meanwhile. Append waits for it
// before it sends the end of a run, and before it believes an ack.
func Record(ctx context.Context, p Place) (*Recorder, error) {
	c, err := newClient(p)
	if err != nil {
		return nil, err
	}
	r := &Recorder{client: c, opened: make(chan struct{}), uploads: map[canon.ContentHash]*upload{}}
	if r.state, err = openState(p.State, p.Key); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		keys, err := r.open(r.ctx)
		r.keys, r.openErr = keys, err
		if close(r.opened); err != nil {
			r.cancel()
		}
	}()
	return r, nil
}

// manyAcks is the number of acks in the state folder from which a Recorder settles them.
const manyAcks = 256

// open finds the keys of the log. A later key than the trusted one counts if the log vouches
// for it, which a Reader finds out.
func (r *Recorder) open(ctx context.Context) (ledger.Keys, error) {
	a, err := r.insist(ctx, http.MethodGet, ledger.NameOrigin, nil, ledger.MaxOriginBytes)
	if errors.Is(err, ErrRefused) {
		err = fmt.Errorf("no ledger stands there: %w", err)
	}
	if err != nil {
		return nil, err
	}
	_, keys, err := r.parseKeys(a.body)
	if err != nil {
		return nil, err
	}
	acks, err := r.state.numbered(acksFolder)
	if err == nil && (len(keys) > 1 || len(acks) >= manyAcks) {
		keys, err = r.vouchedKeys(ctx)
	}
	return keys, err
}

// Opened waits for the keys of the log. It returns why there are none.
func (r *Recorder) Opened(ctx context.Context) error {
	select {
	case <-r.opened:
		return r.openErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// vouchedKeys returns the keys that the log vouches for.
func (r *Recorder) vouchedKeys(ctx context.Context) (ledger.Keys, error) {
	reader, err := Read(ctx, r.Place)
	if err != nil {
		return nil, err
	}
	return reader.log, reader.Close()
}

// known returns why the log is not the one of the key, if that is known by now. From then on
// nothing is sent, and what is being sent is given up.
func (r *Recorder) known() error {
	select {
	case <-r.opened:
		return r.openErr
	default:
		return nil
	}
}

// Close ends the uploads and the connections.
func (r *Recorder) Close() error {
	r.cancel()
	<-r.opened
	r.http.CloseIdleConnections()
	return r.state.close()
}

// Put sends a blob. It is durable when a later Append returns without an error.
func (r *Recorder) Put(blob []byte) (ledger.Blob, error) {
	b := ledger.Blob{SHA256: canon.Sum(blob), Size: int64(len(blob))}
	if len(blob) > ledger.MaxBlobBytes {
		return b, fmt.Errorf("evidence of more than %d bytes", ledger.MaxBlobBytes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uploads[b.SHA256] == nil {
		u := &upload{blob: blob}
		r.uploads[b.SHA256] = u
		go func() { _ = r.upload(r.ctx, b, u) }() // Append sends it again if this fails
	}
	return b, nil
}

// upload sends a blob, unless it is stored.
func (r *Recorder) upload(ctx context.Context, b ledger.Blob, u *upload) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	if err := r.known(); err != nil {
		return err
	}
	if _, err := r.insist(ctx, http.MethodPut, evidencePath(b), u.blob, 0); err != nil {
		return cmp.Or(r.known(), err)
	}
	u.done = true
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.uploads, b.SHA256)
	return nil
}

func evidencePath(b ledger.Blob) string { return "v1/evidence/" + b.SHA256.Hex() }

// uploaded returns when all blobs so far are stored. Some of them are those of other records:
// many records name one set of policies by way of their evidence.
func (r *Recorder) uploaded(ctx context.Context) error {
	r.mu.Lock()
	pending := maps.Clone(r.uploads)
	r.mu.Unlock()
	for hash, u := range pending {
		if err := r.upload(ctx, ledger.Blob{SHA256: hash}, u); err != nil {
			return err
		}
	}
	return nil
}

// Append records. The receipt is a promise of the server: it has an ack, and no checkpoint.
func (r *Recorder) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	if err := r.ready(ctx, rec.Kind); err != nil {
		return ledger.Receipt{}, err
	}
	seen, err := r.state.numbered(seenFolder)
	if err != nil {
		return ledger.Receipt{}, err
	}
	draft, err := rec.Draft()
	if err != nil {
		return ledger.Receipt{}, err
	}
	a, err := r.insist(ctx, http.MethodPost, "v1/records", draft, ledger.MaxRecordedBytes)
	if err != nil {
		return ledger.Receipt{}, cmp.Or(r.known(), err) // what is wrong with the log counts more
	}
	if err := r.Opened(ctx); err != nil {
		return ledger.Receipt{}, err
	}
	r.mu.Lock()
	keys := r.keys
	r.mu.Unlock()
	receipt, err := keys.CheckRecorded(rec, draft, a.body)
	if errors.Is(err, ledger.ErrUnknownKey) { // the log may have got a new key
		if keys, err = r.vouchedKeys(ctx); err != nil {
			return ledger.Receipt{}, err
		}
		r.mu.Lock()
		r.keys = keys
		r.mu.Unlock()
		receipt, err = keys.CheckRecorded(rec, draft, a.body)
	}
	if err != nil {
		return ledger.Receipt{}, err
	}
	if n := len(seen); n > 0 && !receipt.Again && receipt.Index < seen[n-1] {
		err := fmt.Errorf("%w: it had %d entries, and recorded a new one as entry %d", ledger.ErrTruncated, seen[n-1], receipt.Index)
		return ledger.Receipt{}, r.state.contradiction(err, numberedName(seenFolder, seen[n-1]), receipt.Index, receipt.Ack.Note)
	}
	err = r.remember(receipt.Ack)
	if err == nil && !rec.Kind.Ends() {
		err = r.uploaded(ctx) // the record was sent while evidence was
	}
	if err != nil {
		return ledger.Receipt{}, err
	}
	return receipt, nil
}

// ready returns when a record of a kind can be sent. A begun record names no evidence: it is
// sent at once, and Append returns when the evidence is stored too.
func (r *Recorder) ready(ctx context.Context, kind ledger.Kind) error {
	if !kind.Ends() {
		return r.known()
	}
	err := r.uploaded(ctx)
	return cmp.Or(r.Opened(ctx), err) // what is wrong with the log counts more
}

// remember keeps an ack until a reader has seen that the log keeps it.
func (r *Recorder) remember(a *ledger.Ack) error {
	name := numberedName(acksFolder, a.Index)
	err := r.state.keep(name, a.Note)
	if errors.Is(err, errDiffers) {
		if has, readErr := r.state.read(name, ledger.MaxAckBytes); readErr == nil && r.samePromise(has, a) {
			return nil
		}
		return r.state.contradiction(fmt.Errorf("%w: it acknowledged two entries as entry %d", ledger.ErrForked, a.Index), name, a.Index, a.Note)
	}
	if err != nil {
		return fmt.Errorf("it is entry %d, and the ack of the server could not be kept in the state folder: %s", a.Index, err)
	}
	return nil
}

// samePromise says whether a remembered ack promises the same as a new one. After a rotation
// its signature is one of another key.
func (r *Recorder) samePromise(remembered []byte, a *ledger.Ack) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, err := r.keys.OpenAck(remembered)
	return err == nil && old.Index == a.Index && old.Leaf == a.Leaf
}

// Blob reads evidence and checks that the content fits its name.
func (r *Recorder) Blob(b ledger.Blob) ([]byte, error) { return r.blob(r.ctx, b) }

// insist sends a request until it has an answer that lasts, at most for the time of Wait.
// The server answers the same record, and the same blob, again.
func (r *Recorder) insist(ctx context.Context, method, path string, body []byte, most int64) (answer, error) {
	deadline, pause := time.Now().Add(r.wait()), 250*time.Millisecond
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	var last error
	for {
		a, err := r.send(ctx, method, path, body, most)
		switch {
		case err == nil && (a.status == http.StatusOK || a.status == http.StatusNoContent):
			return a, nil
		case err == nil && !a.passing():
			return answer{}, a.refusal()
		case err == nil:
			err = a.refusal()
		case !errors.Is(err, ErrUnreachable):
			return answer{}, err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if time.Until(deadline) > 0 {
				return answer{}, ctx.Err()
			}
			return answer{}, fmt.Errorf("%w, for %s", last, r.wait())
		case <-time.After(max(a.again, pause)):
			pause = min(2*pause, 2*time.Second)
		}
	}
}

func (c *client) wait() time.Duration {
	if c.Wait > 0 {
		return c.Wait
	}
	return DefaultWait
}
