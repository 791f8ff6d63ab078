package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// book is a ledger that was written for the benchmark.
type book struct {
	dir, key   string // folder, and file of the private key
	size       int64  // now
	written    int64  // entries that it was written with, of which the rest tells
	entryBytes int64
	allBytes   int64       // of the folder, without evidence
	run        string      // in the middle
	evidence   ledger.Blob // of every decision; zero: each names one of its own, which is not there
}

const bookOrigin = "example.com/bench"

// newBook writes a ledger of so many entries, the genesis among them, and its key beside it.
// The lines are written at once, with the seals that appends would have given them; what
// is derived of them is made by a repair. If blobs are given, the ledger has them, and every
// decision names the last one as its evidence.
func newBook(ctx context.Context, dir string, size int, blobs ...[]byte) (*book, error) {
	private, _, err := ledger.GenerateKey(rand.Reader, bookOrigin)
	if err != nil {
		return nil, err
	}
	b := &book{dir: dir, key: dir + ".key", size: int64(size), written: int64(size)}
	if err := os.WriteFile(b.key, []byte(private+"\n"), 0o600); err != nil {
		return nil, err
	}
	key, err := ledger.ParseSigner(private)
	if err != nil {
		return nil, err
	}
	// A decision a second, up to now.
	first := time.Now().Add(-time.Duration(size) * time.Second).Truncate(time.Second)
	if _, err := disk.Create(dir, key, disk.Options{Now: func() time.Time { return first }}); err != nil {
		return nil, err
	}
	if err := b.put(key, blobs); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, key, first); err != nil {
		return nil, err
	}
	if _, err := disk.Repair(ctx, dir, key, disk.Options{Now: time.Now}); err != nil {
		return nil, err
	}
	b.allBytes, err = bytesBelow(dir)
	return b, err
}

// put stores blobs in the ledger.
func (b *book) put(key *ledger.Signer, blobs [][]byte) error {
	if len(blobs) == 0 {
		return nil
	}
	log, err := disk.Open(b.dir, key, disk.Options{Now: time.Now})
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		if b.evidence, err = log.Put(blob); err != nil {
			break
		}
	}
	return errors.Join(err, log.Close())
}

// fill appends entries behind the genesis, and signs the checkpoint of all.
func (b *book) fill(ctx context.Context, key *ledger.Signer, first time.Time) error {
	name := filepath.Join(b.dir, "ledger.jsonl")
	begin, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	genesis, err := ledger.ParseLine(begin[:len(begin)-1])
	if err != nil {
		return err
	}
	var tree ledger.Range
	tree.Append(ledger.LeafHash(genesis.Entry), nil)
	b.entryBytes = int64(len(genesis.Entry))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	err = b.lines(ctx, key, &tree, first, func(line []byte) error {
		_, err := out.Write(line)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	c, err := key.Checkpoint(tree.Size, tree.Root())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "checkpoint"), c.Note, 0o644)
}

// lines makes the lines behind the genesis, many at a time.
func (b *book) lines(ctx context.Context, key *ledger.Signer, tree *ledger.Range, first time.Time, write func([]byte) error) error {
	const most = 8192
	count := int(b.size) - 1
	type made struct {
		entry []byte
		leaf  tlog.Hash
		root  tlog.Hash
		line  []byte
		err   error
	}
	for done := 0; done < count; done += most {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lot := make([]made, min(most, count-done))
		inParallel(len(lot), func(i int) {
			m := &lot[i]
			rec := nthRecord(done+i, count)
			if b.evidence.Size > 0 && rec.Kind == ledger.KindDecision {
				rec.Evidence = b.evidence
			}
			rec.Stamp(first.Add(time.Duration(done+i)*time.Second), "")
			if m.entry, m.err = rec.Entry(); m.err == nil {
				m.leaf = ledger.LeafHash(m.entry)
			}
		})
		size := tree.Size
		for i := range lot {
			if lot[i].err != nil {
				return lot[i].err
			}
			tree.Append(lot[i].leaf, nil)
			lot[i].root = tree.Root()
			b.entryBytes += int64(len(lot[i].entry))
		}
		inParallel(len(lot), func(i int) {
			m := &lot[i]
			var seal ledger.Seal
			if seal, m.err = key.Seal(size+int64(i)+1, m.root); m.err == nil {
				m.line = ledger.Line{Seal: seal, Entry: m.entry}.Append(nil)
			}
		})
		for i := range lot {
			if lot[i].err != nil {
				return lot[i].err
			}
			if err := write(lot[i].line); err != nil {
				return err
			}
		}
	}
	b.run = nthRun(count / 2)
	return nil
}

// inParallel does something for 0 to n-1 on all cores.
func inParallel(n int, do func(int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				do(i)
			}
		})
	}
	all.Wait()
}

// nthRun is the run of the n-th record. One of ten runs executes something, and has a
// record of its beginning before that of its end.
func nthRun(n int) string {
	if n%11 == 10 {
		n--
	}
	return fmt.Sprintf("run_20260101T000000Z_%016x", mixed(uint64(n)))
}

// nthRecord is the n-th record of count, which are the same in every run. Each intent
// comes four times or so, most are allowed, and in the middle the policy becomes
// another, which some intents feel.
func nthRecord(n, count int) ledger.Record {
	begins, ends := n%11 == 9, n%11 == 10
	run := n
	if ends {
		run--
	}
	intent, revision := mixed(uint64(run))%uint64(count/4+1), n/(count/2+1)
	rec := ledger.Record{
		Kind: ledger.KindDecision, RunID: nthRun(n), IntentSHA256: hashOf("intent", intent),
		ExecutionMode: "plan-only", Mode: "none", Policy: "default", PolicySHA256: hashOf("policy", revision),
		InputSHA256: hashOf("input", intent), BundleSHA256: hashOf("bundle", intent), Kernel: "1.0.0",
	}
	if begins || ends {
		rec.ExecutionMode = "execute-sandbox"
	}
	if begins {
		rec.Kind = ledger.KindBegun
		return rec
	}
	rec.ResultKind, rec.Accepted = "BUNDLE", true
	switch fate := mixed(intent) % 100; {
	case ends: // what began was allowed
	case fate < 12, fate == 50 && revision > 0:
		rec.ResultKind, rec.Accepted, rec.BundleSHA256 = "REFUSE", false, ""
		rec.Reasons = []string{"COMMAND_NOT_ALLOWED", "PATH_OUTSIDE_ROOTS"}[:1+fate%2]
	case fate < 16:
		rec.ResultKind, rec.Accepted, rec.Reasons = "CLARIFY", false, []string{"PLACEHOLDER"}
	}
	rec.DecisionSHA256 = hashOf("decision", intent, revision, rec.ExecutionMode)
	rec.CanonicalSHA256 = hashOf("canonical", intent, revision, rec.ExecutionMode)
	rec.ResultSHA256 = hashOf("result", n)
	rec.Evidence = ledger.Blob{SHA256: hashOf("evidence", n), Size: 6000}
	return rec
}

func hashOf(parts ...any) canon.ContentHash { return canon.Sum(fmt.Append(nil, parts...)) }

// mixed scatters numbers, no two to the same place (splitmix64).
func mixed(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// bytesBelow returns the bytes of all files of a ledger, except for its evidence.
func bytesBelow(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "evidence":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// fileSystem is the kind of file system that a folder lies on, or unknown.
func fileSystem(dir string) string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	kind, longest := "unknown", -1
	for line := range strings.Lines(string(b)) {
		parts := strings.Fields(line)
		if len(parts) < 3 {
			continue
		}
		at := strings.TrimSuffix(parts[1], "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= longest {
			kind, longest = parts[2], len(at)
		}
	}
	return kind
}
