package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// TestOtherTree: a log whose files were exchanged for those of another tree of the same size is
// refused, also if its entries and its state fit its tiles.
func TestOtherTree(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a part": 5, "a tile": 256, "two levels": 300, "three parts": 700} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.t = t
			check(t, p.start(server.Config{}).stop())
			p.grow(size)
			r := p.start(server.Config{})
			r.log(int64(size))
			check(t, r.stop())
			file := func(name string) string { return filepath.Join(p.dir, "log", name) }
			signed, err := os.ReadFile(file("checkpoint"))
			check(t, err)
			p.intent = "other"
			p.grow(size)
			other, err := os.ReadFile(file("checkpoint"))
			check(t, err)
			check(t, os.WriteFile(file("checkpoint"), signed, 0o644))
			if r, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "do not lead to its checkpoint") {
				t.Fatalf("started: %v\n%s", err, r.stderr)
			}
			if now, err := os.ReadFile(file("checkpoint")); err != nil || !bytes.Equal(now, signed) {
				t.Errorf("another checkpoint was signed: %s, %v", now, err)
			}
			check(t, os.WriteFile(file("checkpoint"), other, 0o644))
			p.start(server.Config{}).log(int64(size))
		})
	}
}

// TestOtherTreeTaken: a server that waited for the lock signs no tree that the checkpoint does
// not lead to, although that tree is larger.
func TestOtherTreeTaken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	check(t, p.start(server.Config{}).stop())
	p.grow(5)
	first := p.process()
	first.log(5)
	second := p.process()
	file := filepath.Join(p.dir, "log", "checkpoint")
	signed, err := os.ReadFile(file)
	check(t, err)
	check(t, first.signal(syscall.SIGSTOP))
	p.intent = "other"
	p.grow(300)
	check(t, os.WriteFile(file, signed, 0o644))
	first.kill()
	second.waitFor("do not lead to its checkpoint")
	time.Sleep(10 * betweenCheckpoints)
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, signed) {
		t.Errorf("another checkpoint was signed: %s, %v", now, err)
	}
	second.refused("a record", second.post(begun("run-1")), 500, "storage")
}

// TestBegunWithOtherKey: a new log whose genesis names another key gets no origin.json.
func TestBegunWithOtherKey(t *testing.T) { over(t, testBegunWithOtherKey) }

func testBegunWithOtherKey(t *testing.T, p *place) {
	check(t, p.start(server.Config{}).stop())
	if p.dsn != "" {
		query(t, p.dsn, "DELETE FROM FiadorDocuments")
	} else {
		check(t, os.Remove(filepath.Join(p.dir, "origin.json"))) // as a kill before it leaves
	}
	other := *p
	other.key = newPlace(t).key
	if r, err := other.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), p.keys.Now().String()) {
		t.Fatalf("started: %v\n%s", err, r.stderr)
	}
	r := p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
}

// slow keeps a server from opening the log until release is called.
func (p *place) slow() (release func()) {
	p.t.Helper()
	f, err := os.OpenFile(filepath.Join(p.dir, "log", ".state/treeState.lock"), os.O_RDWR, 0)
	check(p.t, err)
	check(p.t, syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}))
	return func() { check(p.t, f.Close()) }
}

// TestStarting: a server that still reads its log answers readers, refuses records, and reads
// its clients again after SIGHUP.
func TestStarting(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.process()
	blob := []byte("evidence")
	if got := r.put(blob); got.status != 204 {
		t.Fatal(got.status)
	}
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	r.log(2)
	check(t, r.stop())
	release := p.slow()
	r = p.launch()
	for what, got := range map[string]reply{"a record": r.post(begun("run-1")), "a blob": r.put([]byte("more")), "a run": r.get("/v1/runs/run-0")} {
		r.refused(what, got, 503, "busy")
		if got.header.Get("Retry-After") != "1" || !strings.Contains(got.Message, "starts") {
			t.Errorf("%s: %v %s", what, got.header, got.body)
		}
	}
	if got := r.get("/v1/evidence/" + hash(string(blob)).Hex()); got.status != 200 {
		t.Errorf("evidence: %d", got.status)
	}
	r.log(2)
	text, err := os.ReadFile(p.file)
	check(t, err)
	check(t, os.WriteFile(p.file+".next", bytes.Replace(text, []byte(`"ci"`), []byte(`"cd"`), 1), 0o644))
	check(t, os.Rename(p.file+".next", p.file))
	r.hangUp()
	r.says("read 2 clients")
	release()
	r.says(saysItWrites)
	if rec := r.accepted(begun("run-1"), r.post(begun("run-1"))); rec.Submitter != "cd" {
		t.Errorf("submitter %q", rec.Submitter)
	}
}

// TestEndedWhileStarting: a signal ends a server that still reads its log.
func TestEndedWhileStarting(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.own = ownEnd // it comes before the log is open
	check(t, p.process().stop())
	release := p.slow()
	defer release()
	r := p.launch()
	if err := r.stop(); err != nil {
		t.Errorf("%v\n%s", err, r.stderr)
	}
	if !strings.Contains(r.stderr.String(), "ended before it could write\n") {
		t.Errorf("stderr: %s", r.stderr)
	}
}
