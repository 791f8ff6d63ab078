package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// silence takes what a writer says.
type silence struct{}

func (silence) Printf(string, ...any) {}
func (silence) Complain(string, any)  {}

// newTestWriter makes a writer of a new log without a server, whose parts a test can change.
func newTestWriter(t *testing.T, decorate storage.Decorator) *Writer {
	t.Helper()
	private, _, err := ledger.GenerateKey(rand.Reader, testOrigin)
	check(t, err)
	signer, err := ledger.ParseSigner(private)
	check(t, err)
	store, err := storage.OpenPosix(filepath.Join(t.TempDir(), "log"), storage.NewIdentity(signer))
	check(t, err)
	w := NewWriter(store, signer, time.Now, silence{}, decorate)
	check(t, w.begin())
	return w
}

// starts runs a writer until the end of the test.
func (w *Writer) starts(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	go w.run(ctx)
	t.Cleanup(func() { cancel(); <-w.ended })
}

// draftOf returns the draft of the beginning of a run.
func draftOf(run string) *draft {
	hash := canon.Sum([]byte("any"))
	return &draft{evidence: true, done: make(chan outcome, 1), record: ledger.Record{Kind: ledger.KindBegun, RunID: run, IntentSHA256: hash, ExecutionMode: "execute-sandbox",
		Mode: "none", Policy: "strict", PolicySHA256: hash, InputSHA256: hash, BundleSHA256: hash, Kernel: "1.0.0"}}
}

// unwritable are claims that cannot be written, and perhaps not be taken back.
type unwritable struct{ claims.Store }

func (unwritable) Write([]claims.Item) error { return errors.New("the file is read-only") }

// TestClaimsCannotBeWritten: nothing is promised or added to the log without its claim.
func TestClaimsCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, nil)
	w.Lead.Claims = unwritable{w.Lead.Claims}
	tree := w.Lead.Tree
	w.starts(t)
	for range 2 {
		if out := w.submit(t.Context(), draftOf("run-1")); out.failure == nil || out.status != 500 || out.ack != nil {
			t.Fatalf("outcome %+v", out)
		}
	}
	if size, err := tree.Size(); err != nil || size != 1 {
		t.Errorf("the log has %d entries: %v", size, err)
	}
}

// TestFailedBatch: after a batch that failed, the writer settles, and writes the same record.
func TestFailedBatch(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, nil)
	good := w.Lead.Claims
	w.Lead.Claims = unwritable{good}
	if err := w.write([]*draft{draftOf("run-1")}); err == nil {
		t.Fatal("claims were written that cannot be")
	}
	w.Lead.Claims = good
	check(t, w.settle())
	d := draftOf("run-1")
	check(t, w.write([]*draft{d}))
	if out := <-d.done; out.failure != nil || out.index != 1 || out.again {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.run(ctx)
}

// TestTooManyWait: more drafts than may wait are refused at once, and the others when they have
// waited too long.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var holds atomic.Bool
	w := newTestWriter(t, func(add tessera.AddFn) tessera.AddFn {
		return func(ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
			if holds.Load() {
				<-gate
			}
			return add(ctx, e)
		}
	})
	holds.Store(true)
	w.starts(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	said := map[string]int{}
	for i := range maxWaiting + 2*claims.MaxBatch {
		all.Go(func() {
			out := w.submit(ctx, draftOf(fmt.Sprintf("run-%d", i)))
			mu.Lock()
			defer mu.Unlock()
			if out.failure == nil || out.status != 503 {
				t.Errorf("outcome %+v", out)
				return
			}
			said[out.message]++
		})
	}
	all.Wait()
	close(gate)
	if said["too many records wait"] == 0 || said["the record waited too long; it may still be recorded"] < maxWaiting {
		t.Errorf("%v", said)
	}
}
