package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// load sends records from several clients until the server is gone, and keeps what it
// promised.
type load struct {
	mu       sync.Mutex
	promised map[int64]string
	sent     []string // run ids
}

func (l *load) run(r *running, name string, clients int) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for i := range clients {
		all.Go(func() {
			for n := 0; ; n++ {
				run := fmt.Sprintf("%s-%d-%d", name, i, n)
				l.mu.Lock()
				l.sent = append(l.sent, run)
				l.mu.Unlock()
				got := r.post(begun(run))
				if got.status != 200 {
					return
				}
				l.mu.Lock()
				l.promised[got.Index] = got.Entry
				l.mu.Unlock()
			}
		})
	}
	return all
}

// A server is killed under load, five times. Nothing that it promised is lost, and no
// record is there twice, even if its client sends it again.
func TestKilledUnderLoad(t *testing.T) { over(t, testKilledUnderLoad) }

func testKilledUnderLoad(t *testing.T, p *place) {
	l := &load{promised: map[int64]string{}}
	for i := range 5 {
		r := p.process()
		all := l.run(r, fmt.Sprintf("run-%d", i), 8)
		time.Sleep(100*time.Millisecond + rand.N(300*time.Millisecond))
		r.kill()
		all.Wait()
	}
	r := p.process()
	for _, run := range l.sent {
		got := r.retry(begun(run))
		r.accepted(begun(run), got)
		l.promised[got.Index] = got.Entry
	}
	records := r.log(int64(len(l.sent)) + 1)
	if len(records) != len(l.sent)+1 || len(l.promised) != len(l.sent) {
		t.Fatalf("%d records were sent, %d promised, and the log has %d", len(l.sent), len(l.promised), len(records))
	}
	for index, entry := range l.promised {
		if have, err := records[index].Entry(); err != nil || string(have) != entry {
			t.Fatalf("entry %d is not the promised one", index)
		}
	}
	check(t, r.stop())
	p.fsck()
}

// faults is a decorator whose fault can change.
type faults struct {
	mu   sync.Mutex
	next func(add tessera.AddFn) tessera.AddFn
}

func (f *faults) set(next func(tessera.AddFn) tessera.AddFn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

func (f *faults) decorate(add tessera.AddFn) tessera.AddFn {
	return func(ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
		f.mu.Lock()
		with := add
		if f.next != nil {
			with = f.next(add)
		}
		f.mu.Unlock()
		return with(ctx, e)
	}
}

// once lets one Add fail, and the others pass.
func (f *faults) once(fault func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture) {
	f.set(func(add tessera.AddFn) tessera.AddFn {
		f.next = nil
		return func(ctx context.Context, e *tessera.Entry) tessera.IndexFuture { return fault(add, ctx, e) }
	})
}

func failing(err error) tessera.IndexFuture {
	return func() (tessera.Index, error) { return tessera.Index{}, err }
}

// retry sends a record until the server takes it.
func (r *running) retry(rec ledger.Record) reply {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if got := r.post(rec); got.status == 200 || time.Now().After(end) {
			return got
		}
	}
}

func TestFailedAdds(t *testing.T) { over(t, testFailedAdds) }

func testFailedAdds(t *testing.T, p *place) {
	var f faults
	r := p.start(server.Config{Decorate: f.decorate})
	for i, fault := range []func(tessera.AddFn, context.Context, *tessera.Entry) tessera.IndexFuture{
		func(_ tessera.AddFn, _ context.Context, _ *tessera.Entry) tessera.IndexFuture { // not added
			return failing(errors.New("the disk is full"))
		},
		func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture { // added, and the answer is lost
			_, err := add(ctx, e)()
			return failing(errors.Join(errors.New("no answer"), err))
		},
		func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture { // another index
			got, err := add(ctx, e)()
			return func() (tessera.Index, error) { got.Index++; return got, err }
		},
	} {
		rec := begun(fmt.Sprintf("run-%d", i))
		f.once(fault)
		r.refused("a failed Add", r.post(rec), 500, "storage")
		got := r.retry(rec)
		r.accepted(rec, got)
		if !got.Again || got.Index != int64(i+1) {
			t.Errorf("fault %d: %s", i, got.body)
		}
	}
	if n := len(r.log(4)); n != 4 {
		t.Errorf("the log has %d records", n)
	}
	if lines := strings.Count(r.stderr.String(), "records were not written"); lines != 1 { // the same once a minute
		t.Errorf("%d lines on stderr: %s", lines, r.stderr)
	}
}

// Entries that Tessera takes in another order are promised at the index that they have.
func TestOtherOrder(t *testing.T) { over(t, testOtherOrder) }

func testOtherOrder(t *testing.T, p *place) {
	var f faults
	r := p.start(server.Config{Decorate: f.decorate})
	gate, blocked := make(chan struct{}), make(chan struct{})
	f.once(func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
		close(blocked)
		<-gate
		return add(ctx, e)
	})
	var all sync.WaitGroup
	all.Go(func() { r.accepted(begun("run-0"), r.post(begun("run-0"))) })
	<-blocked
	for i := range 3 {
		all.Go(func() {
			rec := begun(fmt.Sprintf("run-%d", i+1))
			r.refused("another order", r.post(rec), 500, "storage")
			r.accepted(rec, r.retry(rec))
		})
	}
	for i := range 3 { // until the three wait
		r.underWay(fmt.Sprintf("run-%d", i+1))
	}
	f.once(func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
		late := make(chan tessera.IndexFuture, 1)
		f.set(func(add tessera.AddFn) tessera.AddFn {
			f.next = nil
			return func(ctx context.Context, second *tessera.Entry) tessera.IndexFuture {
				future := add(ctx, second)
				late <- add(ctx, e)
				return future
			}
		})
		return func() (tessera.Index, error) { return (<-late)() }
	})
	close(gate)
	all.Wait()
	if n := len(r.log(5)); n != 5 {
		t.Errorf("the log has %d records", n)
	}
}

// underWay waits until the writer has a record of a run that is not recorded yet.
func (r *running) underWay(run string) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := r.get("/v1/runs/" + run)
		if got.status == 503 && got.Error == "busy" {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: %d %s", run, got.status, got.body)
		}
	}
}

// A log of which an old copy was put back is refused: the key signs nothing that
// contradicts what it signed before.
func TestOldCopy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	check(t, r.stop())
	logDir, old := filepath.Join(p.dir, "log"), filepath.Join(t.TempDir(), "old")
	check(t, os.CopyFS(old, os.DirFS(logDir)))
	r = p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.log(3)
	check(t, r.stop())
	newest, err := os.ReadFile(filepath.Join(logDir, "checkpoint"))
	check(t, err)

	refused := func(what string) {
		t.Helper()
		r, err := p.tryStart(server.Config{})
		if err == nil || !strings.Contains(err.Error(), "old copy") {
			t.Fatalf("%s: %v\n%s", what, err, r.stderr)
		}
		if now, err := os.ReadFile(filepath.Join(logDir, "checkpoint")); err == nil && !bytes.Equal(now, newest) && len(now) > 0 {
			if c, err := ledger.ParseCheckpoint(now); err != nil || c.Size != 2 {
				t.Fatalf("%s: another checkpoint was signed: %s", what, now)
			}
		}
	}
	check(t, os.RemoveAll(logDir))
	check(t, os.CopyFS(logDir, os.DirFS(old)))
	refused("the folder of the log")
	check(t, os.WriteFile(filepath.Join(logDir, "checkpoint"), newest, 0o644))
	refused("the state of the log")
	check(t, os.Remove(filepath.Join(p.dir, claims.Name)))
	refused("the state of the log, without claims")
}

func TestClockBack(t *testing.T) { over(t, testClockBack) }

func testClockBack(t *testing.T, p *place) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r := p.start(server.Config{Now: clock})
	first := r.accepted(begun("run-1"), r.post(begun("run-1")))
	mu.Lock()
	now = now.Add(-24 * time.Hour)
	mu.Unlock()
	second := r.accepted(begun("run-2"), r.post(begun("run-2")))
	if second.Timestamp != first.Timestamp || second.ClockBehindMS != 24*60*60*1000 {
		t.Errorf("timestamp %s, behind %d ms", second.Timestamp, second.ClockBehindMS)
	}
	check(t, r.stop())
	r = p.start(server.Config{Now: clock})
	if third := r.accepted(begun("run-3"), r.post(begun("run-3"))); third.Timestamp != first.Timestamp || third.ClockBehindMS == 0 {
		t.Errorf("after a new start: %s", third.Timestamp)
	}
	r.log(4)
}

// takesOver is how long a standby may need. One that a machine has stopped needs longer, so a
// slow take-over is logged, and happens once more.
const takesOver = 10 * time.Second

// A second server on the folder answers readers, and takes over when the first one ends.
func TestStandby(t *testing.T) { over(t, testStandby) }

func testStandby(t *testing.T, p *place) {
	first := p.process()
	first.accepted(begun("run-1"), first.post(begun("run-1")))
	blob := []byte("evidence")
	if got := first.put(blob); got.status != 204 {
		t.Fatal(got.status)
	}
	for i, slow := 0, 0; i < 2+slow; i++ {
		second := p.process()
		second.refused("a record", second.post(begun("run-2")), 503, "busy")
		second.refused("a blob", second.put([]byte("more")), 503, "busy")
		second.refused("a run", second.get("/v1/runs/run-1"), 503, "busy")
		if got := second.get("/v1/evidence/" + hash(string(blob)).Hex()); got.status != 200 {
			t.Errorf("evidence: %d", got.status)
		}
		second.log(int64(2 + i))
		if i == slow {
			check(t, first.stop())
		} else {
			first.kill()
		}
		start := time.Now()
		rec := begun(fmt.Sprintf("run-%d", i+2))
		second.accepted(rec, second.retry(rec))
		if took := time.Since(start); took > takesOver {
			t.Logf("the second server took over after %s", took)
			if slow++; slow > 3 {
				t.Fatalf("%d servers were too slow", slow)
			}
		}
		if got := second.post(begun("run-1")); !got.Again || got.Index != 1 {
			t.Errorf("after the take-over: %s", got.body)
		}
		second.log(int64(3 + i))
		second.waitFor("this server writes to the log now")
		first = second
	}
}

// Two servers that start on a new folder at once make one log.
func TestTwoStartAtOnce(t *testing.T) { over(t, testTwoStartAtOnce) }

func testTwoStartAtOnce(t *testing.T, p *place) {
	var both sync.WaitGroup
	servers := make([]*running, 2)
	for i := range servers {
		both.Go(func() { servers[i] = p.process() })
	}
	both.Wait()
	if t.Failed() {
		return // one did not start
	}
	if servers[0].post(begun("run-1")).status != 200 {
		servers[0], servers[1] = servers[1], servers[0]
	}
	servers[0].accepted(begun("run-1"), servers[0].post(begun("run-1")))
	servers[0].kill()
	got := servers[1].retry(begun("run-1"))
	if servers[1].accepted(begun("run-1"), got); !got.Again {
		t.Errorf("%s", got.body)
	}
	servers[1].log(2)
}

// Many clients put one blob at once, and each gets the same answer.
func TestSameBlobAtOnce(t *testing.T) { over(t, testSameBlobAtOnce) }

func testSameBlobAtOnce(t *testing.T, p *place) {
	r := p.start(server.Config{})
	blob := bytes.Repeat([]byte("evidence"), 10_000)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got := r.put(blob); got.status != 204 {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	all.Wait()
	if got := r.get("/v1/evidence/" + canon.Sum(blob).Hex()); got.status != 200 || !bytes.Equal(got.body, blob) {
		t.Errorf("%d", got.status)
	}
	if left, err := os.ReadDir(filepath.Join(r.dir, "evidence/incoming")); p.dsn == "" && (err != nil || len(left) > 0) {
		t.Errorf("left %v, %v", left, err)
	}
}

// More connections than the server takes wait until others end.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	r := newPlace(t).start(server.Config{})
	for try := 1; !r.full(); try++ {
		if try == 5 {
			t.Fatal("a record was taken over one more connection, each time")
		}
	}
}

// full fills a server with connections. It says false if a record did not wait for their end,
// and the server may have ended some of them, because they were idle for long.
func (r *running) full() bool {
	t := r.t
	testClient.CloseIdleConnections() // the record comes over one more connection
	address, began := strings.TrimPrefix(r.url, "http://"), time.Now()
	var idle []net.Conn
	for range 500 {
		c, err := net.Dial("tcp", address)
		check(t, err)
		idle = append(idle, c)
	}
	done := make(chan reply, 1)
	go func() { done <- r.post(begun("run-1")) }()
	waits := true
	select {
	case got := <-done:
		if waits = false; time.Since(began) < 5*time.Second {
			t.Errorf("a record over one more connection: %d %s", got.status, got.body)
			waits = true
		}
		done <- got
	case <-time.After(200 * time.Millisecond):
	}
	for _, c := range idle {
		check(t, c.Close())
	}
	r.accepted(begun("run-1"), <-done)
	return waits
}

// Tessera tries a checkpoint again and again. Its warnings are one line, without a path.
func TestWarnings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	check(t, p.process().stop())
	r := p.process()
	name := filepath.Join(p.dir, "log", "checkpoint")
	check(t, os.Remove(name))
	check(t, os.Mkdir(name, 0o755)) // a checkpoint cannot be put in its place
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.waitFor("tessera: ")
	time.Sleep(3 * betweenCheckpoints)
	if n := strings.Count(r.stderr.String(), "\n"); n > 3 {
		t.Errorf("stderr: %s", r.stderr)
	}
	r.refused("the checkpoint", r.get("/checkpoint"), 500, "storage")
	check(t, os.Remove(name))
	r.log(2)
}

// TestCheckpointOfTheFuture: a checkpoint whose time is in the future, because the clock was set
// back, does not keep new ones away.
func TestCheckpointOfTheFuture(t *testing.T) {
	r := newPlace(t).start(server.Config{})
	r.log(1)
	file := filepath.Join(r.dir, "log", "checkpoint")
	tomorrow := time.Now().Add(24 * time.Hour)
	check(t, os.Chtimes(file, tomorrow, tomorrow))
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	if got := r.log(2); len(got) != 2 {
		t.Errorf("%d records", len(got))
	}
}

// TestDamagedTile: a tile that does not fit its entries stops the server, and no claim is lost. TestOtherTree has
// tiles at the end of the log.
func TestDamagedTile(t *testing.T) {
	p := newPlace(t)
	check(t, p.start(server.Config{}).stop())
	p.grow(300)
	before, err := os.ReadFile(filepath.Join(p.dir, claims.Name))
	check(t, err)
	name := filepath.Join(p.dir, "log", "tile/0/000")
	tile, err := os.ReadFile(name)
	check(t, err)
	tile[40] ^= 1
	check(t, os.WriteFile(name, tile, 0o644))
	if r, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "the log is damaged: entry 1") {
		t.Errorf("started: %v\n%s", err, r.stderr)
	}
	after, err := os.ReadFile(filepath.Join(p.dir, claims.Name))
	check(t, err)
	if !bytes.Equal(before, after) {
		t.Error("claims were changed")
	}
	tile[40] ^= 1
	check(t, os.WriteFile(name, tile, 0o644))
	if got := p.start(server.Config{}).log(300); len(got) != 300 {
		t.Errorf("%d records", len(got))
	}
}
