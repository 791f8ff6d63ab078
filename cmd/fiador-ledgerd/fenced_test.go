package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// posts sends records of several runs at once.
func (r *running) posts(name string, from, to int) {
	r.t.Helper()
	var all sync.WaitGroup
	runs := make(chan string)
	for range 32 {
		all.Go(func() {
			for run := range runs {
				r.accepted(begun(run), r.retry(begun(run)))
			}
		})
	}
	for i := from; i < to; i++ {
		runs <- fmt.Sprintf("%s-%d", name, i)
	}
	close(runs)
	all.Wait()
}

// Tessera removes a part of a tile when the tile is full. A run that was begun in that part
// can still end, and its claim is not doubted.
func TestPartRemoved(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	r := p.start(config{})
	r.posts("old", 1, 301)
	r.log(301)
	check(t, r.stop())
	r = p.start(config{})
	r.posts("new", 1, 256)
	r.log(556)
	part := filepath.Join(p.dir, "tile/0/001.p")
	if _, err := os.Stat(part); err != nil {
		t.Fatal(err)
	}
	check(t, os.RemoveAll(part))
	r.accepted(failedRun("old-1"), r.post(failedRun("old-1"))) // its tile takes the place of the other in memory
	late := r.log(557)[299].RunID
	r.accepted(failedRun(late), r.post(failedRun(late)))
	if said := r.stderr.String(); strings.Contains(said, "was changed") {
		t.Errorf("stderr: %s", said)
	}
}
