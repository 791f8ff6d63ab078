package main

import (
	"testing"
)

// TestDatabaseStory: a log in MySQL and S3.
func TestDatabaseStory(t *testing.T) {
	p := newPlaceIn(t, "database")
	r := p.start(config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	if got := r.post(begun("run-1")); got.status != 200 || !got.Again || got.Index != 1 {
		t.Errorf("again: %d %s\n%s", got.status, got.body, r.stderr)
	}
	if got := r.put([]byte("blob")); got.status != 204 {
		t.Errorf("blob: %d %s\n%s", got.status, got.body, r.stderr)
	}
	r.log(2)
	check(t, r.stop())
	p.fsck()
	r = p.start(config{})
	if got := r.post(begun("run-1")); got.status != 200 || !got.Again || got.Index != 1 {
		t.Errorf("again: %d %s\n%s", got.status, got.body, r.stderr)
	}
}
