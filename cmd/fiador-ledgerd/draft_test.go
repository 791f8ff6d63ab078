package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/transparency-dev/tessera"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// TestRunUnderWay: nobody learns that a run has no entry while its record is being added.
func TestRunUnderWay(t *testing.T) {
	t.Parallel()
	var holds atomic.Bool
	adding, release := make(chan struct{}), make(chan struct{})
	r := newPlace(t).start(server.Config{Decorate: func(add tessera.AddFn) tessera.AddFn {
		return func(ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
			if holds.CompareAndSwap(true, false) {
				close(adding)
				<-release
			}
			return add(ctx, e)
		}
	}})
	holds.Store(true)
	done := make(chan reply, 1)
	go func() { done <- r.post(begun("run-1")) }()
	<-adding
	r.refused("a run under way", r.get("/v1/runs/run-1"), 503, "busy")
	if got := r.get("/v1/runs/run-2"); got.status != 200 || !strings.Contains(string(got.body), `"indexes":[]`) {
		t.Errorf("another run: %d %s", got.status, got.body)
	}
	close(release)
	r.accepted(begun("run-1"), <-done)
	if got := r.get("/v1/runs/run-1"); got.status != 200 || !strings.Contains(string(got.body), `"indexes":[1]`) {
		t.Errorf("after it: %d %s", got.status, got.body)
	}
}
