package disk

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// children are the tasks of the test binary when a test starts it again. Their arguments
// are in the environment.
var children = map[string]func() int{
	"writer": childWriter,
	"once":   childOnce,
	"holder": childHolder,
}

const (
	envDir  = "FIADOR_LEDGER_TEST_DIR"
	envKey  = "FIADOR_LEDGER_TEST_KEY"
	envName = "FIADOR_LEDGER_TEST_NAME"
)

// child returns the test binary with another task.
func child(what, dir, key, name string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envChild+"="+what, envDir+"="+dir, envKey+"="+key, envName+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

func childLog() (*Log, error) {
	key, err := ReadKey(os.Getenv(envKey))
	if err != nil {
		return nil, err
	}
	return Open(os.Getenv(envDir), key, Options{Now: time.Now})
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

// childWriter records runs until it is killed, and reports each. Every third run has a
// begun record too.
func childWriter() int {
	l, err := childLog()
	if err != nil {
		return failed(err)
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", os.Getenv(envName), i)
		records := []ledger.Record{decision(name)}
		if i%3 == 0 {
			records = []ledger.Record{begun(name), decision(name)}
		}
		for _, rec := range records {
			r, err := l.Append(context.Background(), rec)
			if err != nil {
				return failed(err)
			}
			fmt.Printf("%s %s %d\n", rec.Kind, name, r.Index)
		}
	}
}

// childOnce records one run.
func childOnce() int {
	l, err := childLog()
	if err != nil {
		return failed(err)
	}
	name := os.Getenv(envName)
	rec := decision(name)
	if blob := os.Getenv("FIADOR_LEDGER_TEST_BLOB"); blob != "" {
		if rec.Evidence, err = l.Put([]byte(blob)); err != nil {
			return failed(err)
		}
	}
	r, err := l.Append(context.Background(), rec)
	if err != nil {
		return failed(err)
	}
	if len(r.Warnings) > 0 {
		return failed(fmt.Errorf("warnings: %q", r.Warnings))
	}
	fmt.Println(r.Index)
	return 0
}

// childHolder takes the lock and holds it until its input ends.
func childHolder() int {
	l, err := childLog()
	if err != nil {
		return failed(err)
	}
	if _, err := l.lock(context.Background()); err != nil {
		return failed(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// keyed is a new ledger and a file with its key.
func keyed(t testing.TB) (dir, key string) {
	t.Helper()
	private, _, err := ledger.GenerateKey(nil, testOrigin)
	ok(t, err)
	s, err := ledger.ParseSigner(private)
	ok(t, err)
	at := scratch(t)
	dir, key = filepath.Join(at, "ledger"), filepath.Join(at, "key")
	ok(t, os.WriteFile(key, []byte(private+"\n"), 0o600))
	_, err = Create(dir, s, Options{Now: time.Now})
	ok(t, err)
	return dir, key
}

// TestKillStorm kills one to three writers 500 times. Every reported record has its
// reported index, and everything verifies.
func TestKillStorm(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	kills := rehearsal.Count(60, 500)
	dir, key := keyed(t)
	acknowledged := map[string]int64{}
	begin := time.Now()
	for round, killed := 0, 0; killed < kills; round++ {
		var wait sync.WaitGroup
		var mu sync.Mutex
		for w := range 1 + round%3 {
			killed++
			cmd := child("writer", dir, key, fmt.Sprintf("w%d-%d", round, w))
			out, err := cmd.StdoutPipe()
			ok(t, err)
			ok(t, cmd.Start())
			wait.Go(func() {
				lines := bufio.NewScanner(out)
				alive := make(chan struct{})
				go func() {
					<-alive // recorded something, or died
					time.Sleep(time.Duration(rand.IntN(25_000)) * time.Microsecond)
					_ = cmd.Process.Kill()
				}()
				once := sync.OnceFunc(func() { close(alive) })
				for lines.Scan() {
					once()
					what, index, _ := cutLast(lines.Text())
					n, _ := strconv.ParseInt(index, 10, 64)
					mu.Lock()
					acknowledged[what] = n
					mu.Unlock()
				}
				once()
				if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Errorf("a writer ended by itself: %v", err)
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
	}
	private, err := os.ReadFile(key)
	ok(t, err)
	s, err := ledger.ParseSigner(string(private))
	ok(t, err)
	l, err := Open(dir, s, Options{Now: time.Now})
	ok(t, err)
	defer l.Close()
	add(t, l, decision("afterwards"))
	records := verified(t, dir, 0)
	for what, index := range acknowledged {
		if index >= int64(len(records)) {
			t.Fatalf("%s was acknowledged as entry %d of %d", what, index, len(records))
		}
		if r := records[index]; what != string(r.Kind)+" "+r.RunID {
			t.Errorf("%s was acknowledged as entry %d, which is %s %s", what, index, r.Kind, r.RunID)
		}
	}
	sameDerived(t, dir)
	t.Logf("%d kills, %d entries, %d acknowledged, repairs %d, %s", kills, len(records), len(acknowledged), len(repairs(records)), time.Since(begin).Round(time.Millisecond))
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

// TestOneShots: 64 processes at once record one run each.
func TestOneShots(t *testing.T) {
	const processes = 64
	dir, key := keyed(t)
	var wait sync.WaitGroup
	indexes := make([]string, processes)
	for i := range processes {
		wait.Go(func() {
			out, err := child("once", dir, key, run(i)).Output()
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
			indexes[i] = strings.TrimSpace(string(out))
		})
	}
	wait.Wait()
	records := verified(t, dir, 0)
	if len(records) != processes+1 {
		t.Errorf("%d entries", len(records))
	}
	for i, index := range indexes {
		if n, err := strconv.Atoi(index); err != nil || n >= len(records) || records[n].RunID != run(i) {
			t.Errorf("process %d was told entry %q", i, index)
		}
	}
	slices.Sort(indexes)
	if len(slices.Compact(indexes)) != processes {
		t.Error("an entry was acknowledged twice")
	}
	sameDerived(t, dir)
}

// TestSystemCalls counts with strace. An append writes its line with one call, syncs
// ledger.jsonl once, then renames the checkpoint. A new blob is synced once. There are
// no other syncs.
func TestSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir, key := keyed(t)
	traced := func(name, blob string) []string {
		t.Helper()
		log := filepath.Join(scratch(t), "trace")
		cmd := child("once", dir, key, name)
		cmd.Args = []string{strace, "-f", "-y", "-qq", "-e", "signal=none", "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range,write,pwrite64,writev,rename,renameat,renameat2,ftruncate", "-o", log, "/proc/self/exe"}
		self, err := os.Executable()
		ok(t, err)
		cmd.Path, cmd.Args[len(cmd.Args)-1] = strace, self
		cmd.Env = append(cmd.Env, "FIADOR_LEDGER_TEST_BLOB="+blob)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			if bytes.Contains(stderr.Bytes(), []byte("ptrace")) {
				t.Skipf("strace cannot trace here: %s", stderr.Bytes())
			}
			t.Fatalf("%v: %s", err, stderr.Bytes())
		}
		return calls(rehearsal.Trace(t, log), dir)
	}
	count := func(list []string, want string) (n int) {
		for _, c := range list {
			if c == want {
				n++
			}
		}
		return n
	}
	syncs := func(list []string) (all []string) {
		for _, c := range list {
			if strings.Contains(c, "sync") {
				all = append(all, c)
			}
		}
		return all
	}
	traced("run-0", "") // makes the head
	plain := traced("run-1", "")
	if got := syncs(plain); !slices.Equal(got, []string{"fdatasync ledger.jsonl"}) {
		t.Errorf("an append syncs %q", got)
	}
	if n := count(plain, "pwrite64 ledger.jsonl"); n != 1 || count(plain, "write ledger.jsonl")+count(plain, "ftruncate ledger.jsonl") != 0 {
		t.Errorf("an append writes to ledger.jsonl %d times: %q", n, plain)
	}
	order := func(list []string, calls ...string) {
		t.Helper()
		at := -1
		for _, c := range calls {
			next := slices.Index(list, c)
			if next <= at {
				t.Errorf("%q is not in the order %q", list, calls)
			}
			at = next
		}
	}
	order(plain, "pwrite64 ledger.jsonl", "fdatasync ledger.jsonl", "write checkpoint.next", "rename checkpoint", "pwrite64 .state/head")

	withBlob := traced("run-2", "evidence\n")
	got := syncs(withBlob)
	if len(got) != 2 || !strings.HasPrefix(got[0], "fsync evidence/sha256/") || got[1] != "fdatasync ledger.jsonl" {
		t.Errorf("an append with a blob syncs %q", got)
	}
	again := traced("run-2", "evidence\n")
	if got := syncs(again); len(got) != 0 {
		t.Errorf("a retry syncs %q", got)
	}

	// This append fills a tile.
	private, err := ReadKey(key)
	ok(t, err)
	l, err := Open(dir, private, Options{Now: time.Now})
	ok(t, err)
	for i := 3; i < 254; i++ {
		add(t, l, decision(run(i)))
	}
	ok(t, l.Close())
	if got := syncs(traced("run-254", "")); !slices.Equal(got, []string{"fdatasync ledger.jsonl", "fsync tile/0/000.next"}) {
		t.Errorf("an append that fills a tile syncs %q", got)
	}
	if got := syncs(traced("run-255", "")); !slices.Equal(got, []string{"fdatasync ledger.jsonl"}) {
		t.Errorf("the append after it syncs %q", got)
	}
}

var (
	callOnFile = regexp.MustCompile(`^\d+ +(\w+)\(\d+<([^>]*)>`)
	callOnName = regexp.MustCompile(`^\d+ +rename\w*\(.*"([^"]*)"(, [0-9A-Z_]+)?\)`)
	inFolder   = regexp.MustCompile(`<([^>]*)>, "[^"]*"(, [0-9A-Z_]+)?\)`)
)

// calls returns the calls of a trace about files in a folder, as "call name".
func calls(trace []string, dir string) (list []string) {
	for _, line := range trace {
		if m := callOnName.FindStringSubmatch(line); m != nil {
			name := m[1]
			if f := inFolder.FindStringSubmatch(line); f != nil {
				name = filepath.Join(f[1], name)
			}
			if rel, ok := strings.CutPrefix(name, dir+"/"); ok {
				list = append(list, "rename "+rel)
			}
			continue
		}
		if m := callOnFile.FindStringSubmatch(line); m != nil {
			if rel, ok := strings.CutPrefix(m[2], dir+"/"); ok {
				list = append(list, m[1]+" "+rel)
			}
		} else if strings.Contains(line, " sync(") {
			list = append(list, "sync everything")
		}
	}
	return list
}
