package disk

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// holder is another process that holds the lock until release.
func holder(t *testing.T, dir, key string) (process *os.Process, release func()) {
	t.Helper()
	cmd := child("holder", dir, key, "")
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	release = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	t.Cleanup(release)
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("the holder says %q: %v", line, err)
	}
	return cmd.Process, release
}

// TestFaultLockHolderStopped: a stopped process holds the lock. A waiting process gives
// up after a while, and never breaks the lock.
func TestFaultLockHolderStopped(t *testing.T) {
	dir, key := keyed(t)
	process, release := holder(t, dir, key)
	ok(t, process.Signal(syscall.SIGSTOP))
	s, err := ReadKey(key)
	ok(t, err)
	l, err := Open(dir, s, Options{Now: time.Now, Wait: 50 * time.Millisecond})
	ok(t, err)
	defer l.Close()
	before := len(contents(dir, nameLedger))
	begin := time.Now()
	_, err = l.Append(t.Context(), decision("waits"))
	wants(t, err, ErrBusy)
	if waited := time.Since(begin); waited < 50*time.Millisecond || waited > 25*time.Second { // the default is 30
		t.Errorf("gave up after %s", waited)
	}
	// A context also ends the waiting, with its own cause.
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	l.options.Wait = time.Minute
	_, err = l.Append(ctx, decision("waits"))
	wants(t, err, why)
	if len(contents(dir, nameLedger)) != before {
		t.Error("something was written without the lock")
	}
	release()
	// Locks that arrive after the waiting has ended are released.
	add(t, l, decision("waits"))
	add(t, l, decision("other"))
}

// TestLateLockIsReleased: a lock that arrives after the waiting has ended is released.
func TestLateLockIsReleased(t *testing.T) {
	dir := sized(t, 2)
	l := opened(t, dir, at(noon))
	for range 20 {
		held, err := l.lock(t.Context())
		ok(t, err)
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				f, err := l.files.Open(nameLedger, os.O_RDWR)
				if err != nil {
					t.Error(err)
					return
				}
				wants(t, f.Lock(ctx), context.DeadlineExceeded)
				_ = f.Close()
			})
		}
		waiting.Wait()
		ok(t, held.Unlock(), held.Close())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		f, err := l.lock(ctx)
		cancel()
		ok(t, err)
		ok(t, f.Unlock(), f.Close())
	}
	for range 6000 { // the goroutines that gave up end
		if openFiles(t, "ledger.jsonl") == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d descriptors of ledger.jsonl are left", openFiles(t, "ledger.jsonl"))
}

// openFiles counts the descriptors of this process, or those of files with that name.
func openFiles(t testing.TB, name string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	for _, fd := range all {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && (name == "" || filepath.Base(to) == name) {
			n++
		}
	}
	return n
}

// TestNoDescriptorIsLeft: 1000 appends, some of them refused, leave no descriptor open.
func TestNoDescriptorIsLeft(t *testing.T) {
	dir := sized(t, 2)
	l := opened(t, dir, at(noon))
	add(t, l, decision("first"))
	before := openFiles(t, "")
	for i := range 1000 {
		switch i % 10 {
		case 0:
			bad := decision("first")
			bad.Accepted = false
			_, err := l.Append(t.Context(), bad)
			wants(t, err, ledger.ErrConflict)
		case 1:
			put(t, dir, nameHead, nil)
			fallthrough
		default:
			add(t, l, decision(run(i)))
		}
	}
	if after := openFiles(t, ""); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestManyLogs: goroutines of one Log and several Logs of one process exclude each
// other.
func TestManyLogs(t *testing.T) {
	dir := sized(t, 2)
	const logs, goroutines, each = 3, 4, 10
	var wait sync.WaitGroup
	for i := range logs {
		l := opened(t, dir, at(noon))
		for j := range goroutines {
			wait.Go(func() {
				for k := range each {
					name := run(1000 + (i*goroutines+j)*each + k)
					if r, err := l.Append(context.Background(), decision(name)); err != nil || r.Record.RunID != name {
						t.Error(r, err)
					}
				}
			})
		}
	}
	wait.Wait()
	if records := verified(t, dir, 0); len(records) != 2+logs*goroutines*each {
		t.Errorf("%d entries", len(records))
	}
	sameDerived(t, dir)
}

// TestSameRunAtOnce: of many that record the same run at once, one succeeds, and the
// others get its receipt.
func TestSameRunAtOnce(t *testing.T) {
	dir := sized(t, 2)
	var wait sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 8 {
		l := opened(t, dir, at(noon))
		wait.Go(func() {
			r, err := l.Append(context.Background(), decision("same"))
			if err != nil || r.Index != 2 {
				t.Error(r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !r.Again {
				fresh++
			}
		})
	}
	wait.Wait()
	if fresh != 1 {
		t.Errorf("recorded %d times", fresh)
	}
	verified(t, dir, 0)
}

// TestReadWhileAppending: at any moment a reader finds a checkpoint and all entries that
// it covers.
func TestReadWhileAppending(t *testing.T) {
	dir := sized(t, 2)
	l := opened(t, dir, at(noon))
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				add(t, l, decision(run(1000+i)))
			}
		}
	})
	last := int64(0)
	for range 2000 {
		r, err := Read(dir, signer().Verifier())
		if err != nil {
			t.Error(err)
			break
		}
		e, err := r.Entry(t.Context(), r.Checkpoint().Size-1)
		if err != nil || r.Checkpoint().Size < last || e.Seal.Root != r.Checkpoint().Root {
			t.Error(r.Checkpoint().Size, last, err)
		}
		last = r.Checkpoint().Size
		_ = r.Close()
	}
	close(stop)
	wait.Wait()
}
