package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endless makes a liar that takes actions and never ends them. The channel has one value for
// each that it took, and whose name the client knows: it waits for it.
func endless(t *testing.T) (*liar, chan bool) {
	l, began := newLiar(), make(chan bool, 10)
	l.execute = func(n int, s stream) error {
		return s.Send(&longrunningpb.Operation{Name: fmt.Sprint("operations/", n)})
	}
	l.wait = func(_ int, s stream) error {
		began <- true
		<-s.Context().Done()
		return nil
	}
	return l.serve(t), began
}

// TestStdinEnds: what runs is cancelled, at the server too, and the status is 0.
func TestStdinEnds(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *helper{"inside": startInside, "process": startProcess} {
		t.Run(name, func(t *testing.T) {
			l, began := endless(t)
			h := start(t)
			h.greet(helloTo(l.address))
			for _, id := range []string{"1", "2"} {
				h.send(newTask(t, "is not run by a liar").set("id", id).ready())
				h.want("accepted")
				<-began
			}
			must(t, h.in.Close())
			ids := map[string]bool{}
			for range 2 {
				a := h.want("failed")
				ids[a.ID] = true
				if a.Kind != kindCancelled || !a.MayHaveRun || !strings.Contains(a.Message, "stdin ended") {
					t.Errorf("got %+v", a)
				}
			}
			if status := <-h.status; status != 0 || len(ids) != 2 || len(l.canceled) != 2 {
				t.Errorf("status %d, %v, cancelled %v", status, ids, l.canceled)
			}
		})
	}
}

// TestStdinEndsInHello: a server that hangs does not keep the program.
func TestStdinEndsInHello(t *testing.T) {
	l, asked := newLiar(), make(chan bool, 1)
	l.inspect = func(ctx context.Context, _ string) error { asked <- true; <-ctx.Done(); return ctx.Err() }
	h := startInside(t)
	h.send(helloTo(l.serve(t).address))
	<-asked
	must(t, h.in.Close())
	if a := h.want("failed"); a.ID != "" || a.Kind != kindCancelled {
		t.Errorf("got %+v", a)
	}
	<-h.status
}

func TestSignal(t *testing.T) {
	l, began := endless(t)
	h := startProcess(t)
	h.greet(helloTo(l.address))
	h.send(newTask(t, "is not run by a liar").ready())
	h.want("accepted")
	<-began
	must(t, h.process.Signal(syscall.SIGTERM))
	if a := h.want("failed"); a.Kind != kindCancelled || !strings.Contains(a.Message, "a signal came") {
		t.Errorf("got %+v", a)
	}
	if status := <-h.status; status != 0 || len(l.canceled) != 1 {
		t.Errorf("status %d, cancelled %v", status, l.canceled)
	}
}

// TestBadLines: each ends the program with status 2, after what runs was cancelled.
func TestBadLines(t *testing.T) {
	for _, c := range []struct{ name, line, message string }{
		{"garbage", "garbage", "not a JSON object"},
		{"empty", "", "not a JSON object"},
		{"array", "[]", "not a JSON object"},
		{"unknown type", `{"type":"status"}`, `"status" is unknown`},
		{"unknown member", `{"type":"cancel","id":"1","now":true}`, "unknown field"},
		{"two values", `{"type":"cancel","id":"2"}{}`, "after top-level value"},
		{"second hello", `{"type":"hello","version":1}`, "hello comes first, and once"},
		{"no id", `{"type":"execute"}`, "no id"},
		{"same id", `{"type":"execute","id":"1"}`, "runs already"},
		{"not UTF-8", "{\"type\":\"cancel\",\"id\":\"\xff\"}", "UTF-8"},
		{"too long", `{"type":"cancel","id":"` + strings.Repeat("x", maxLine) + `"}`, "more than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, began := endless(t)
			h := startInside(t)
			h.greet(helloTo(l.address))
			h.send(newTask(t, "is not run by a liar").ready())
			h.want("accepted")
			<-began
			go h.in.Write([]byte(c.line + "\n")) // of a line that is too long, not all is read
			if a := h.want("failed"); a.ID != "1" || a.Kind != kindCancelled {
				t.Errorf("got %+v", a)
			}
			if a := h.want("failed"); a.ID != "" || a.Kind != kindConfig || !strings.Contains(a.Message, c.message) {
				t.Errorf("got %+v, want %q", a, c.message)
			}
			if status := <-h.status; status != 2 || len(l.canceled) != 1 {
				t.Errorf("status %d, cancelled %v", status, l.canceled)
			}
		})
	}
	h := startInside(t)
	h.send(newTask(t, "is not run").ready())
	if a := h.want("failed"); a.Kind != kindConfig || !strings.Contains(a.Message, "hello comes first") || <-h.status != 2 {
		t.Errorf("got %+v", a)
	}
}

// TestSideBySide: two actions run at once, and an answer belongs to its id. With parallel 1,
// the second waits.
func TestSideBySide(t *testing.T) {
	l := newLiar()
	var both sync.WaitGroup
	both.Add(2)
	l.execute = func(_ int, s stream) error {
		both.Done()
		both.Wait() // for ever, if they ran one after the other
		return l.finish(s)
	}
	l.serve(t)
	h := startInside(t)
	h.greet(helloTo(l.address, map[string]any{"parallel": 2}))
	tasks := map[string]*task{"1": newTask(t, "is not run"), "2": newTask(t, "is not run by a liar")}
	for id, k := range tasks {
		h.send(k.set("id", id).ready())
	}
	seen := map[string]bool{}
	for range 4 {
		if a := h.next(); a.Type == "done" {
			seen[a.ID] = true
			tasks[a.ID].made(a)
		}
	}
	if len(seen) != 2 {
		t.Errorf("done: %v", seen)
	}
}

// TestOneAtATime: with parallel 1, actions wait for each other.
func TestOneAtATime(t *testing.T) {
	l := newLiar()
	var now, most atomic.Int32
	l.execute = func(_ int, s stream) error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(20 * time.Millisecond) // long enough for another one to come
		now.Add(-1)
		return l.finish(s)
	}
	h := startInside(t)
	h.greet(helloTo(l.serve(t).address, map[string]any{"parallel": 1}))
	for id := range 5 {
		h.send(newTask(t, "is not run by a liar").set("id", fmt.Sprint(id)).ready())
	}
	for done := 0; done < 5; {
		if a := h.next(); a.Type == "done" {
			done++
		} else if a.Type != "accepted" {
			t.Fatalf("got %+v", a)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d actions at once", most.Load())
	}
}

// TestCancelWaiting: an action that has no slot yet is cancelled like one that runs.
func TestCancelWaiting(t *testing.T) {
	l, began := endless(t)
	h := startInside(t)
	h.greet(helloTo(l.address, map[string]any{"parallel": 1}))
	h.send(newTask(t, "is not run").ready())
	h.want("accepted")
	<-began
	h.send(newTask(t, "is not run").set("id", "2").ready())
	h.send(map[string]any{"type": "cancel", "id": "3"}) // unknown, as one that has just ended is
	h.send(map[string]any{"type": "cancel", "id": "2"})
	if a := h.want("failed"); a.ID != "2" || a.Kind != kindCancelled || a.MayHaveRun {
		t.Errorf("got %+v", a)
	}
	h.send(newTask(t, "is not run").set("id", "4").ready())
	h.send(map[string]any{"type": "cancel", "id": "1"})
	if a := h.want("failed"); a.ID != "1" || !a.MayHaveRun {
		t.Errorf("got %+v", a)
	}
	if a := h.want("accepted"); a.ID != "4" {
		t.Errorf("got %+v", a)
	}
	if <-began; l.count("Execute") != 2 {
		t.Errorf("%d calls of Execute", l.count("Execute"))
	}
}

// TestStdoutCloses: the program ends when nobody reads its answers any more.
func TestStdoutCloses(t *testing.T) {
	l := newLiar().serve(t)
	h := startProcess(t)
	h.greet(helloTo(l.address))
	must(t, h.out.(*os.File).Close())
	h.send(newTask(t, "is not run by a liar").ready())
	if status := <-h.status; status == 0 {
		t.Error("status 0")
	}
}

// TestSentOnce: a blob that one action sends is not sent by another one, but after the first failed.
func TestSentOnce(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 400_000)
	for _, fails := range []bool{false, true} {
		l, writes, goOn := newLiar(), make(chan bool, 10), make(chan bool)
		l.inspect = func(_ context.Context, method string) error {
			if method == "Write" {
				if writes <- true; l.count("Write") == 1 {
					if <-goOn; fails {
						return status.Error(codes.PermissionDenied, "not you")
					}
				}
			}
			return nil
		}
		h := startInside(t)
		h.greet(helloTo(l.serve(t).address))
		h.send(newTask(t, "is not run by a liar").file("in/large", large, false).ready())
		<-writes
		h.send(newTask(t, "is not run by a liar").file("in/large", large, false).file("in/b", nil, false).set("id", "2").ready())
		for l.count("FindMissingBlobs") < 2 { // the second has found the blob missing, or is about to
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		close(goOn)
		ends := map[string]string{}
		for len(ends) < 2 {
			if a := h.next(); a.Type != "accepted" {
				ends[a.ID] = a.Type
			}
		}
		want, sent := map[string]string{"1": "done", "2": "done"}, 1
		if fails {
			want["1"], sent = "failed", 2
		}
		if got := l.count("Write"); got != sent || !maps.Equal(ends, want) {
			t.Errorf("%d writes, want %d; %v", got, sent, ends)
		}
	}
}

// TestSlots: the time of an upload begins when it may begin.
func TestSlots(t *testing.T) {
	l := newLiar().serve(t)
	h := &hello{Version: 1, Execution: l.address, Parallel: 1, WaitMS: 5000, RunID: "run_test", ToolVersion: "1.2.3"}
	c, err := dial(h)
	must(t, err)
	c.transfers <- struct{}{}
	var free time.Time
	time.AfterFunc(50*time.Millisecond, func() { free = time.Now(); <-c.transfers })
	must(t, c.each(t.Context(), time.Hour, []func(context.Context) error{func(ctx context.Context) error {
		if until, ok := ctx.Deadline(); !ok || until.Before(free.Add(time.Hour)) {
			t.Errorf("until %s, free at %s", until, free)
		}
		return nil
	}}))
}

// TestAcceptedFirst: an action that may run is accepted, though the server has said nothing yet.
func TestAcceptedFirst(t *testing.T) {
	l := newLiar()
	l.execute = func(_ int, s stream) error { <-s.Context().Done(); return nil }
	h := startInside(t)
	h.greet(helloTo(l.serve(t).address))
	h.send(newTask(t, "is not run by a liar").ready())
	h.want("accepted")
}
