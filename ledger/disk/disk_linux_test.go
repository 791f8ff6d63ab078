package disk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

const testOrigin = "example.com/log"

func TestMain(m *testing.M) {
	if child := os.Getenv(envChild); child != "" {
		os.Exit(children[child]())
	}
	code := rehearsal.Tests{M: m}.Run()
	for _, dir := range made.dirs {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// envChild names the task of the test binary when a test starts it again.
const envChild = "FIADOR_LEDGER_TEST_CHILD"

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func generate() *ledger.Signer {
	private, _, err := ledger.GenerateKey(rand.Reader, testOrigin)
	if err != nil {
		panic(err)
	}
	s, err := ledger.ParseSigner(private)
	if err != nil {
		panic(err)
	}
	return s
}

// signer signs the ledgers of the tests; they are rotated to the key successor.
var (
	signer    = sync.OnceValue(generate)
	successor = sync.OnceValue(generate)
)

// noon is the fixed time of the tests, so two ledgers of the same records have the same
// bytes.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(now time.Time) Options {
	return Options{Now: func() time.Time { return now }, boot: "boot-a"}
}

func hash(text string) canon.ContentHash { return canon.Sum([]byte(text)) }

func decision(run string) ledger.Record {
	h := hash(run)
	return ledger.Record{
		Kind: ledger.KindDecision, RunID: run, IntentSHA256: h, ExecutionMode: "execute-sandbox", Mode: "none",
		Policy: "default", PolicySHA256: h, InputSHA256: h, BundleSHA256: h, Kernel: "0.1.0",
		ResultKind: "BUNDLE", Accepted: true, DecisionSHA256: h, CanonicalSHA256: h, ResultSHA256: h,
		Evidence: ledger.Blob{SHA256: h, Size: 1234},
	}
}

func begun(run string) ledger.Record {
	d := decision(run)
	return ledger.Record{
		Kind: ledger.KindBegun, RunID: run, IntentSHA256: d.IntentSHA256, ExecutionMode: "execute-sandbox", Mode: d.Mode,
		Policy: d.Policy, PolicySHA256: d.PolicySHA256, InputSHA256: d.InputSHA256, BundleSHA256: d.BundleSHA256, Kernel: d.Kernel,
	}
}

// scratch returns an empty folder, in memory if possible.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ledger-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func opened(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, signer(), o)
	ok(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func add(t testing.TB, l *Log, records ...ledger.Record) ledger.Receipt {
	t.Helper()
	var r ledger.Receipt
	for _, rec := range records {
		var err error
		if r, err = l.Append(t.Context(), rec); err != nil {
			t.Fatalf("%s: %v", rec.RunID, err)
		}
		if r.Checkpoint.Size <= r.Index {
			t.Fatalf("%s: the checkpoint of size %d does not cover entry %d", rec.RunID, r.Checkpoint.Size, r.Index)
		}
	}
	return r
}

func run(i int) string { return fmt.Sprintf("run-%d", i) }

// made has ledgers that tests copy, by their number of entries.
var made struct {
	sync.Mutex
	dirs map[int]string
}

// sized makes a ledger of n entries: the genesis, and decisions of run-1, run-2, ….
func sized(t testing.TB, n int) string {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.dirs == nil {
		made.dirs = map[int]string{}
	}
	dir := made.dirs[n]
	if dir == "" {
		parent := "/dev/shm"
		if _, err := os.Stat(parent); err != nil {
			parent = ""
		}
		var err error
		dir, err = os.MkdirTemp(parent, "ledger-test-")
		ok(t, err)
		made.dirs[n] = dir
		dir = filepath.Join(dir, "ledger")
		_, err = Create(dir, signer(), at(noon))
		ok(t, err)
		l, err := Open(dir, signer(), at(noon))
		ok(t, err)
		for i := 1; i < n; i++ {
			if r := add(t, l, decision(run(i))); len(r.Warnings) > 0 {
				t.Fatal(r.Warnings)
			}
		}
		ok(t, l.Close())
	}
	return duplicate(t, filepath.Join(made.dirs[n], "ledger"))
}

// duplicate copies a ledger, with a head that fits the copy.
func duplicate(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(scratch(t), "ledger")
	ok(t, os.CopyFS(to, os.DirFS(from)))
	rehead(t, to, func(*head) {})
	return to
}

// rehead changes the head of a ledger, and enters the inode of ledger.jsonl.
func rehead(t testing.TB, dir string, change func(*head)) {
	t.Helper()
	h, err := parseHead(contents(dir, nameHead))
	if err != nil {
		return
	}
	f, err := os.Open(filepath.Join(dir, nameLedger))
	ok(t, err)
	h.Inode, err = inode(diskFile{f})
	ok(t, err, f.Close())
	change(&h)
	b, err := h.marshal()
	ok(t, err)
	put(t, dir, nameHead, b)
}

// contents returns a file of a ledger, nil if it is missing.
func contents(dir, name string) []byte {
	b, _ := os.ReadFile(filepath.Join(dir, name))
	return b
}

func put(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	ok(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	ok(t, os.RemoveAll(filepath.Join(dir, name)))
}

// verified reads a ledger line by line, without the derived files, and checks all its
// statements. These are form, roots, every signature (from an index on), times, run ids
// and the checkpoint. It returns the records.
func verified(t testing.TB, dir string, signaturesFrom int) []ledger.Record {
	t.Helper()
	text := contents(dir, nameLedger)
	if len(text) == 0 || text[len(text)-1] != '\n' {
		t.Fatalf("the ledger has %d bytes and does not end with a line feed", len(text))
	}
	promise, err := ledger.ParseCheckpoint(contents(dir, nameCheckpoint))
	ok(t, err)
	var (
		records []ledger.Record
		tree    ledger.Range
		keys    ledger.Keys
		last    string
		seen    = map[string]bool{}
		held    bool
	)
	for i, line := range bytes.Split(text[:len(text)-1], []byte("\n")) {
		l, err := ledger.ParseLine(line)
		if err != nil {
			t.Fatalf("entry %d: %v\n%q", i, err, line)
		}
		if again := l.Append(nil); !bytes.Equal(again[:len(again)-1], line) {
			t.Fatalf("entry %d is not canonical: %s", i, line)
		}
		rec, err := ledger.ParseRecord(l.Entry)
		if err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if rec.Kind == ledger.KindGenesis {
			key, err := ledger.ParseVerifier(rec.Key)
			ok(t, err)
			keys = append(keys, ledger.KeyFrom{Size: 1, Key: key})
		}
		tree.Append(ledger.LeafHash(l.Entry), nil)
		if l.Seal.Size != tree.Size || l.Seal.Root != tree.Root() {
			t.Fatalf("entry %d: its seal is that of another tree", i)
		}
		if key, _ := keys.At(tree.Size); i >= signaturesFrom || rec.Kind == ledger.KindKeyRotation {
			if err := key.CheckSeal(l.Seal); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		if rec.Kind == ledger.KindKeyRotation {
			key, err := ledger.ParseVerifier(rec.Key)
			ok(t, err)
			keys = append(keys, ledger.KeyFrom{Size: int64(i) + 2, Key: key})
		}
		if rec.Timestamp < last {
			t.Fatalf("entry %d: its time is before that of the entry before it", i)
		}
		last = rec.Timestamp
		if rec.RunID != "" {
			what := rec.RunID + " begun"
			if rec.Kind.Ends() {
				what = rec.RunID + " ended"
			}
			if seen[what] {
				t.Fatalf("entry %d: %s a second time", i, what)
			}
			seen[what] = true
		}
		if tree.Size == promise.Size {
			held = tree.Root() == promise.Root
		}
		records = append(records, rec)
	}
	if !held {
		t.Fatalf("the checkpoint is of size %d and another root; the ledger has %d entries", promise.Size, len(records))
	}
	if _, err := keys.OpenCheckpoint(promise.Note); err != nil {
		t.Fatal(err)
	}
	return records
}

// holds says whether a record of a run is among others.
func holds(records []ledger.Record, rec ledger.Record) bool {
	return slices.ContainsFunc(records, func(r ledger.Record) bool { return r.Kind == rec.Kind && r.RunID == rec.RunID })
}

func kinds(records []ledger.Record, kind ledger.Kind) []ledger.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r ledger.Record) bool { return r.Kind != kind })
}

// repairs returns the repairs that a ledger has recorded.
func repairs(records []ledger.Record) (what []string) {
	for _, r := range records {
		for _, p := range r.Repairs {
			what = append(what, p.What)
		}
	}
	return what
}

// sameDerived checks that all derived files equal newly made ones, byte for byte, except
// the bytes of the inode.
func sameDerived(t testing.TB, dir string) {
	t.Helper()
	text := contents(dir, nameLedger)
	f, err := os.Open(filepath.Join(dir, nameLedger))
	ok(t, err)
	defer f.Close()
	b := &builder{files: nowhere{}}
	end, err := scan(t.Context(), diskFile{f}, tail{}, nil, b.add)
	ok(t, err)
	if end.torn > 0 {
		t.Fatal("the ledger has a torn end")
	}
	h, err := parseHead(contents(dir, nameHead))
	ok(t, err)
	if h.Size != end.tree.Size || h.Offset != int64(len(text)) || h.Last != end.last || !slices.Equal(h.Roots, end.tree.Roots) {
		t.Errorf("the head is of %d entries in %d bytes, the ledger has %d in %d", h.Size, h.Offset, end.tree.Size, len(text))
	}
	if h.Runs != int64(len(b.keys)) {
		t.Errorf("the head tells of %d runs, and there are %d", h.Runs, len(b.keys))
	}
	if has := contents(dir, nameOffsets); !bytes.HasPrefix(has, b.offsets) {
		t.Errorf("the offsets are not what the ledger gives")
	}
	sameRuns(t, dir, b)
	for level, want := range b.edges {
		if has := contents(dir, edgeName(level)); !bytes.HasPrefix(has, want) {
			t.Errorf("the right edge of level %d is not what the ledger gives", level)
		}
	}
	tiles := map[string][]byte{}
	var edges ledger.Edges
	_, err = scan(t.Context(), diskFile{f}, tail{}, nil, func(e entered) error {
		for _, n := range e.nodes {
			ok(t, edges.Add(n.level, n.n, n.hash, func(tile tlog.Tile, content []byte) error {
				tiles[ledger.TilePath(tile)] = bytes.Clone(content)
				return nil
			}))
		}
		return nil
	})
	ok(t, err)
	for path, want := range tiles {
		if !bytes.Equal(contents(dir, path), want) {
			t.Errorf("%s is not what the ledger gives", path)
		}
	}
	_ = fs.WalkDir(os.DirFS(dir), "tile", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && tiles[path] == nil && !strings.HasSuffix(path, ".next") {
			t.Errorf("%s is no full tile of the ledger", path)
		}
		return err
	})
}

// sameRuns checks that each run is found, and that the table has no other entries.
func sameRuns(t testing.TB, dir string, b *builder) {
	t.Helper()
	f, err := openFolder(dir)
	ok(t, err)
	defer f.Close()
	table, err := openRuns(f, os.O_RDONLY, 0)
	ok(t, err)
	defer table.close()
	want := map[[2]uint64]bool{}
	for i, k := range b.keys {
		want[[2]uint64{k, uint64(b.indexes[i])}] = true
	}
	var p page
	for number := range table.pages {
		ok(t, table.read(number, &p))
		for i := range p.count() {
			k, index := p.slot(i)
			if !want[[2]uint64{k, uint64(index)}] {
				t.Errorf("the table of run ids has an entry for %d that is wrong, or twice", index)
			}
			delete(want, [2]uint64{k, uint64(index)})
		}
	}
	if len(want) > 0 {
		t.Errorf("the table of run ids lacks %d entries", len(want))
	}
}

// nowhere accepts files and drops them.
type nowhere struct{ files }

func (nowhere) Lstat(string) (fs.FileInfo, error) { return nil, nil }

// fixed checks a ledger after a fault: it continues, and ends up as if the fault had not
// happened.
func fixed(t testing.TB, dir string, o Options, key *ledger.Signer) []ledger.Record {
	t.Helper()
	l, err := Open(dir, key, o)
	ok(t, err)
	defer l.Close()
	add(t, l, decision("afterwards"))
	records := verified(t, dir, bytes.Count(contents(dir, nameLedger), []byte("\n"))-8)
	sameDerived(t, dir)
	return records
}

func wants(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, and should be %v", err, want)
	}
}

func TestAppend(t *testing.T) {
	dir := sized(t, 600)
	l := opened(t, dir, at(noon))
	r := add(t, l, decision(run(7)))
	if !r.Again || r.Index != 7 {
		t.Fatalf("%+v", r)
	}
	rd, err := Read(dir, signer().Verifier())
	ok(t, err)
	defer rd.Close()
	for _, i := range []int64{0, 1, 255, 256, 257, 511, 512, 599} {
		p, err := rd.Prove(context.Background(), i)
		ok(t, err)
		q, err := ledger.ParseProof(p.Marshal())
		ok(t, err)
		if _, _, err := rd.Keys().CheckProof(q); err != nil {
			t.Error(err)
		}
	}
	verified(t, dir, 0)
	sameDerived(t, dir)
}
