package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestPipe: a pipe in the place of a file is refused, where opening it would block.
func TestPipe(t *testing.T) {
	l := newLiar().serve(t)
	k := newTask(t, "is not run").file("in/pipe", []byte("hello\n"), false)
	must(t, replace(k.inputs[0].Source, func() error { return syscall.Mkfifo(k.inputs[0].Source, 0o600) }))
	h := startInside(t)
	h.greet(helloTo(l.address))
	h.send(k.ready())
	if a := h.want("failed"); a.Kind != kindBroken || !strings.Contains(a.Message, "not a regular file") {
		t.Errorf("got %+v", a)
	}
}
