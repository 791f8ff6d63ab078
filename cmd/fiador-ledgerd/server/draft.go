package server

import (
	"context"
	"sync"

	"github.com/fiador/fiador/ledger"
)

// draft is a record that a client sent, and waits for its outcome.
type draft struct {
	record   ledger.Record
	evidence bool // the server has the blob that the record names
	done     chan outcome
	of       *underway
}

// outcome answers a draft: with the entry, or with a failure.
type outcome struct {
	again bool
	index int64
	entry []byte
	ack   []byte
	*failure
}

// submit gives a draft to the writer and waits for its outcome.
func (w *Writer) submit(ctx context.Context, d *draft) outcome {
	if f := w.refusal(); f != nil {
		return outcome{failure: f}
	}
	d.done, d.of = make(chan outcome, 1), &w.underway
	d.of.add(d.record.RunID, 1)
	select {
	case w.drafts <- d:
	default:
		d.of.add(d.record.RunID, -1)
		return outcome{failure: busy("too many records wait")}
	}
	select {
	case out := <-d.done:
		return out
	case <-w.ended:
		return outcome{failure: busy("the server ends")}
	case <-ctx.Done():
		return outcome{failure: busy("the record waited too long; it may still be recorded")}
	}
}

// underway counts the drafts of each run that have no outcome yet. While there is one, nobody
// can say that the log has no entry of that run.
type underway struct {
	mu   sync.Mutex
	runs map[string]int
}

// add adds n drafts of a run. A nil underway counts nothing.
func (u *underway) add(runID string, n int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.runs == nil {
		u.runs = map[string]int{}
	}
	if u.runs[runID] += n; u.runs[runID] == 0 {
		delete(u.runs, runID)
	}
}

func (u *underway) has(runID string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.runs[runID] > 0
}

// end gives a draft its outcome.
func (d *draft) end(o outcome) {
	d.of.add(d.record.RunID, -1)
	d.done <- o
}
