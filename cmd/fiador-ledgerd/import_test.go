package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

const newAddress = "https://log.example.com/team"

// folder is a ledger in a folder.
type folder struct {
	*place
	dir string
	key *ledger.Signer
	log *disk.Log
}

// folder makes a ledger with the key of the place.
func (p *place) folder() *folder {
	p.t.Helper()
	key, err := disk.ReadKey(p.key)
	check(p.t, err)
	f := &folder{place: p, dir: filepath.Join(p.t.TempDir(), "ledger"), key: key}
	_, err = disk.Create(f.dir, key, disk.Options{Now: time.Now})
	check(p.t, err)
	f.open()
	return f
}

func (f *folder) open() {
	f.t.Helper()
	log, err := disk.Open(f.dir, f.key, disk.Options{Now: time.Now})
	check(f.t, err)
	f.log = log
	f.t.Cleanup(func() { _ = log.Close() })
}

// decide appends decisions with evidence.
func (f *folder) decide(runs ...string) {
	f.t.Helper()
	set, err := f.log.Put([]byte("{\"set\":1}\n"))
	check(f.t, err)
	for _, run := range runs {
		evidence := fmt.Appendf(nil, "{\"policy\":{\"sha256\":%q,\"size\":%d},\"run\":%q}\n", set.SHA256, set.Size, run)
		_, err := f.log.Put(evidence)
		check(f.t, err)
		_, err = f.log.Append(f.t.Context(), decision(run, evidence))
		check(f.t, err)
	}
}

// grow appends records until the ledger has so many.
func (f *folder) grow(size int64) {
	f.t.Helper()
	for n := int64(0); n < size; n++ {
		r, err := f.log.Append(f.t.Context(), failedRun(fmt.Sprintf("old-%d", n)))
		check(f.t, err)
		if r.Index+1 >= size {
			return
		}
	}
}

// grown writes a large ledger at once, in the stored form, because an append syncs.
func (f *folder) grown(size int64) {
	f.t.Helper()
	first, err := os.ReadFile(filepath.Join(f.dir, "ledger.jsonl"))
	check(f.t, err)
	line, err := ledger.ParseLine(bytes.TrimSuffix(first, []byte("\n")))
	check(f.t, err)
	genesis, err := ledger.ParseRecord(line.Entry)
	check(f.t, err)
	var tree ledger.Range
	tree.Append(ledger.LeafHash(line.Entry), nil)
	text := bytes.NewBuffer(first)
	for tree.Size < size {
		rec := failedRun(fmt.Sprintf("old-%d", tree.Size))
		rec.Stamp(genesis.Time(), genesis.Timestamp)
		entry, err := rec.Entry()
		check(f.t, err)
		tree.Append(ledger.LeafHash(entry), nil)
		seal, err := f.key.Seal(tree.Size, tree.Root())
		check(f.t, err)
		text.Write(ledger.Line{Seal: seal, Entry: entry}.Append(nil))
	}
	c, err := f.key.Checkpoint(size, tree.Root())
	check(f.t, err)
	check(f.t, os.WriteFile(filepath.Join(f.dir, "ledger.jsonl"), text.Bytes(), 0o644))
	check(f.t, os.WriteFile(filepath.Join(f.dir, "checkpoint"), c.Note, 0o644))
}

func (f *folder) args(more ...string) []string {
	return append(append([]string{"import", f.dir}, f.place.named("--url", newAddress)...), more...)
}

// says runs a command in this process, and fails the test unless it ends so.
func says(t *testing.T, status int, text string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(context.Background(), args, &out, &errs); got != status || !strings.Contains(out.String()+errs.String(), text) {
		t.Fatalf("%q: exit status %d\n%s%s", args, got, &out, &errs)
	}
	return out.String()
}

// checkpoint returns the newest promise of the folder.
func (f *folder) checkpoint() ledger.Checkpoint {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, "checkpoint"))
	check(f.t, err)
	c, err := ledger.ParseCheckpoint(b)
	check(f.t, err)
	return c
}

// receipts writes proofs of entries of the folder.
func (f *folder) receipts(indexes ...int64) string {
	f.t.Helper()
	r, err := disk.Read(f.dir)
	check(f.t, err)
	defer r.Close()
	dir := f.t.TempDir()
	for _, index := range indexes {
		p, err := r.Prove(f.t.Context(), index)
		check(f.t, err)
		check(f.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.tlog-proof", index)), p.Marshal(), 0o644))
	}
	return dir
}

// refuses checks that the folder takes no record and names the address.
func (f *folder) refuses() {
	f.t.Helper()
	_, err := f.log.Append(f.t.Context(), failedRun("late"))
	if moved := (*disk.Moved)(nil); !errors.As(err, &moved) || moved.Address != newAddress {
		f.t.Fatalf("an append to the folder: %v", err)
	}
}

// TestImport: the log of the server has the root that the folder has promised, old receipts fit
// it, and the folder refuses further records.
func TestImport(t *testing.T) {
	sizes := []int64{1, 256, 257}
	if rehearsal.Full() {
		sizes = append(sizes, 70_000)
	}
	for _, size := range sizes {
		for _, storage := range []string{"folder", "database"} {
			t.Run(fmt.Sprintf("%d in a %s", size, storage), func(t *testing.T) {
				t.Parallel()
				importAll(t, newPlaceIn(t, storage), size)
			})
		}
	}
}

func importAll(t *testing.T, p *place, size int64) {
	f := p.folder()
	if size < 1000 {
		if size > 1 {
			f.decide("decided-1", "decided-2")
			f.grow(size)
		}
	} else {
		f.grown(size)
	}
	old := f.checkpoint()
	if old.Size != size {
		t.Fatalf("%d entries", old.Size)
	}
	receipts := f.receipts(0, size/2, size-1)
	says(t, 0, fmt.Sprintf("%d entries, of which %d were added", size, size), f.args()...)
	f.refuses()
	says(t, 0, "of which 0 were added", f.args()...) // once more

	r := p.process("--public-read")
	r.log(size)
	if got, err := r.keys.OpenCheckpoint(r.get("/checkpoint").body); err != nil || got.Size != size || got.Root != old.Root {
		t.Errorf("the checkpoint of the server: %+v, %v", got, err)
	}
	m := r.machine(t, "ci")
	m.says(0, fmt.Sprintf("%d kept, 0 lost", min(size, 3)), "ledger", "check-receipts", receipts, "--key", m.key)
	m.says(0, "CLEAN", "ledger", "verify", "--tiles", "--evidence", "--key", m.key)
	m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "new")
	// A run of the folder cannot be recorded once more.
	if size > 1 && size < 1000 {
		if got := r.post(begun("decided-1")); got.Error != "ended" {
			t.Errorf("a run of the folder: %d %s", got.status, got.body)
		}
	}
	// The folder can be read, and its program names the new address.
	folder := *m
	folder.url = f.dir
	folder.says(0, "CLEAN", "ledger", "verify", "--key", m.key)
	private, err := os.ReadFile(p.key)
	check(t, err)
	folder.key = strings.TrimSpace(string(private))
	folder.says(2, "--ledger "+newAddress, "run", "intent.json")
	check(t, r.stop())
	p.fsck()
	// Even now the import knows that it has ended.
	says(t, 0, "of which 0 were added", f.args()...)
}

// TestImportRotated: the log knows the earlier keys of the folder, whether it ends with the
// rotation or not.
func TestImportRotated(t *testing.T) {
	t.Parallel()
	for i, after := range []int{0, 1, 300, 0} {
		p := newPlaceIn(t, []string{"folder", "database"}[i/3])
		f := p.folder()
		f.grow(3)
		receipts := f.receipts(0, 2)
		next := p.nextKey()
		signer, err := disk.ReadKey(next)
		check(t, err)
		_, err = f.log.Rotate(t.Context(), signer)
		check(t, err)
		for i := range after {
			_, err := f.log.Append(t.Context(), failedRun(fmt.Sprintf("after-%d", i)))
			check(t, err)
		}
		old := f.checkpoint()
		says(t, 2, "the key is not the one", f.args()...)
		if _, err := os.Stat(p.dir); p.dsn == "" && err == nil {
			t.Error("the log was made")
		}
		first := p.keys
		p.key = next
		says(t, 0, "entries", f.args()...)
		f.refuses()
		p.keys = ledger.Keys{first[0], {Size: 5, Key: signer.Verifier()}}
		r := p.process("--public-read")
		records := r.log(old.Size)
		want := 4 + after
		if after == 0 {
			want++ // so that the new key signs
		}
		if len(records) != want {
			t.Errorf("%d records", len(records))
		}
		for _, key := range []string{first[0].Key.String(), signer.Verifier().String()} {
			m := r.machine(t, "ci")
			m.key = key
			m.says(0, "CLEAN", "ledger", "verify", "--key", key)
			m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "new-"+canon.Sum([]byte(key)).Hex()[:8])
		}
		m := r.machine(t, "ci")
		m.says(0, "2 kept, 0 lost", "ledger", "check-receipts", receipts, "--key", m.key)
		check(t, r.stop())
	}
}

// nextKey makes another key of the log.
func (p *place) nextKey() string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "next")
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"key", "--origin", testOrigin, "--key", file}, &out, &errs); status != 0 {
		p.t.Fatal(errs.String())
	}
	return file
}

// TestImportKilled: an import that is killed again and again goes on. Until it has ended, no
// server starts on the log, and the folder has all that it had.
func TestImportKilled(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"folder", "database"} {
		t.Run(storage, func(t *testing.T) { killImports(t, newPlaceIn(t, storage)) })
	}
}

func killImports(t *testing.T, p *place) {
	f := p.folder()
	size := int64(6000)
	if rehearsal.Full() {
		size = 70_000
	}
	f.grown(size)
	root := f.checkpoint().Root
	longest := 400 * time.Millisecond
	killed := 0
	for tries := 0; ; tries++ {
		cmd := exec.Command(os.Args[0], f.args()...)
		cmd.Env = append(os.Environ(), "FIADOR_LEDGERD_TEST=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		check(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		wait := time.Hour
		if tries < 12 {
			wait = rand.N(longest + time.Duration(tries)*100*time.Millisecond)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
		case <-time.After(wait):
			check(t, cmd.Process.Kill())
			<-ended
			killed++
			if _, err := os.Stat(filepath.Join(p.dir, storage.NameImport)); err == nil {
				says(t, 2, "an import into this log has not ended", p.serve()...)
			}
			continue
		}
		break
	}
	t.Logf("killed %d times", killed)
	f.refuses()
	r := p.process()
	r.log(size)
	c, err := r.keys.OpenCheckpoint(r.get("/checkpoint").body)
	if err != nil || c.Size != size || c.Root != root {
		t.Errorf("%+v, %v", c, err)
	}
	check(t, r.stop())
	p.fsck()
}

// TestImportRefused: nothing changes where an import is refused.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	other := newPlace(t)
	for _, c := range []struct {
		what, want string
		with       func(f *folder) []string
	}{
		{"no folder", "there is no ledger", func(f *folder) []string { return append([]string{"import", t.TempDir()}, f.args()[2:]...) }},
		{"no URL", "--url is the https URL", func(f *folder) []string { return f.args("--url", "log.example.com") }},
		{"http", "--url is the https URL", func(f *folder) []string { return f.args("--url", "http://log.example.com") }},
		{"a token in the URL", "--url is the https URL", func(f *folder) []string { return f.args("--url", "https://log.example.com?a") }},
		{"another key", "the key is not the one", func(f *folder) []string { return f.args("--key", other.key) }},
		{"another origin", "--origin is", func(f *folder) []string { return f.args("--origin", "example.com/other") }},
		{"a locked folder", "another process holds the ledger's lock", func(f *folder) []string {
			started, end := make(chan bool), make(chan bool)
			go disk.Move(context.Background(), f.dir, f.key, newAddress, disk.Options{Now: time.Now}, func(bool) error {
				close(started)
				<-end
				return errors.New("not moved")
			})
			<-started
			t.Cleanup(func() { close(end) })
			return f.args()
		}},
		{"a changed entry", "does not verify", func(f *folder) []string {
			f.change("ledger.jsonl", func(b []byte) []byte { return bytes.Replace(b, []byte("RUN_E001"), []byte("RUN_E002"), 1) })
			return f.args()
		}},
		{"a cut folder", "TRUNCATED", func(f *folder) []string {
			f.change("ledger.jsonl", func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] })
			return f.args()
		}},
		{"a torn end", "fiador ledger repair", func(f *folder) []string {
			f.change("ledger.jsonl", func(b []byte) []byte { return append(b, "torn"...) })
			return f.args()
		}},
		{"no checkpoint", "fiador ledger repair", func(f *folder) []string { check(t, os.Remove(filepath.Join(f.dir, "checkpoint"))); return f.args() }},
		{"evidence missing", "the evidence of entry 1 is missing", func(f *folder) []string {
			check(t, os.RemoveAll(filepath.Join(f.dir, "evidence")))
			return f.args()
		}},
		{"evidence changed", "was changed", func(f *folder) []string {
			f.change(f.evidence(), func(b []byte) []byte { return append(b, ' ') })
			return f.args()
		}},
		{"a folder with files", "no origin.json", func(f *folder) []string { return f.args("--posix", filepath.Dir(f.place.key)) }},
		{"another log", "name a new log", func(f *folder) []string {
			r := f.place.start(server.Config{})
			r.accepted(begun("run-1"), r.post(begun("run-1")))
			check(t, r.stop())
			return f.args()
		}},
		{"a failed append", "fiador ledger repair", func(f *folder) []string {
			check(t, os.WriteFile(filepath.Join(f.dir, ".state/poison"), []byte("full\n"), 0o644))
			return f.args()
		}},
		{"moved into another log", "not into this log", func(f *folder) []string {
			check(t, disk.Move(t.Context(), f.dir, f.key, newAddress, disk.Options{Now: time.Now}, func(bool) error { return nil }))
			check(t, os.Mkdir(f.place.dir, 0o700))
			return f.args()
		}},
		{"moved elsewhere", "has moved to https://elsewhere.example", func(f *folder) []string {
			check(t, disk.Move(t.Context(), f.dir, f.key, "https://elsewhere.example", disk.Options{Now: time.Now}, func(bool) error { return nil }))
			return f.args()
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPlace(t)
			f := p.folder()
			f.decide("decided-1")
			f.grow(4)
			args := c.with(f)
			before := snapshot(t, f.dir) + snapshot(t, p.dir)
			says(t, 2, c.want, args...)
			if after := snapshot(t, f.dir) + snapshot(t, p.dir); after != before {
				t.Errorf("changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestImportIntoRunningServer: a log to which a server writes is refused.
func TestImportIntoRunningServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	f := p.folder()
	f.grow(2)
	says(t, 0, "2 entries", f.args()...)
	f.refuses()
	check(t, os.RemoveAll(filepath.Join(f.dir, ".state/poison"))) // the folder of before the import
	f.decide("more")
	p.t = t
	r := p.process()
	says(t, 2, "a server writes to the log", f.args()...)
	check(t, r.stop())
	says(t, 0, "3 entries, of which 1 were added", f.args()...) // the log was a beginning of it
	f.refuses()
	p.process().log(3)
}

func (f *folder) change(name string, how func([]byte) []byte) {
	f.t.Helper()
	name = filepath.Join(f.dir, name)
	b, err := os.ReadFile(name)
	check(f.t, err)
	check(f.t, os.Chmod(name, 0o644))
	check(f.t, os.WriteFile(name, how(b), 0o644))
}

// evidence returns the name of the evidence of the first decision.
func (f *folder) evidence() string {
	f.t.Helper()
	r, err := disk.Read(f.dir)
	check(f.t, err)
	defer r.Close()
	e, err := r.Entry(f.t.Context(), 1)
	check(f.t, err)
	digits := e.Record.Evidence.SHA256.Hex()
	return "evidence/sha256/" + digits[:2] + "/" + digits[2:]
}

// snapshot returns the names and hashes of all files in a folder.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %s\n", path, canon.Sum(text))
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return b.String()
}
