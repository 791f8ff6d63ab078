package storage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/api/layout"
	tposix "github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"k8s.io/klog/v2"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
	"github.com/fiador/fiador/ledger"
)

const (
	maxOutstanding  = 64 * claims.MaxBatch   // entries that no tile has yet
	batchAge        = 2 * time.Millisecond   // Tessera waits so long for the rest of a batch
	checkpointEvery = 200 * time.Millisecond // a checkpoint is at most twice as old
	lateWait        = 10 * time.Second       // for tiles, when many entries are in none
)

// Times that a machine which stalls exceeds. Tests set them that are not about them.
var (
	LastCheckpoint = 5 * time.Second // at the end, the wait for a checkpoint over all entries
	WatchTime      = 3 * time.Second // the lock is lost if no answer comes
	IdleSession    = 7               // seconds after which the database ends a session of a host that is gone
)

// Tree is the log that Tessera keeps. One process has it open at a time.
type Tree struct {
	Reading
	appendEntry tessera.AddFn
	reader      tessera.LogReader
	shutdown    func(context.Context) error
	stop        context.CancelFunc
	durable     func() (int64, error) // the number of durable entries
	Signed      int64                 // size of the checkpoint that was there
	late        *late                 // nil: tiles have an entry when it is durable
	witnesses   *witness.Quorum
	signer      *guard
}

// late has the leaf hashes of entries that are durable, and perhaps in no tile yet.
type late struct {
	base   int64 // the tiles have the entries before it
	leaves []tlog.Hash
}

// Reading reads the entries of a log and their hashes.
type Reading struct {
	resources
	hashes tile // that leaf read last
}

// resources are the files of a log.
type resources interface {
	ReadTile(ctx context.Context, level, index uint64, p uint8) ([]byte, error)
	ReadEntryBundle(ctx context.Context, index uint64, p uint8) ([]byte, error)
}

// tile has the leaf hashes of up to 256 entries.
type tile struct {
	n     uint64
	width uint8 // 0: it is full
	nodes []byte
}

// Decorator changes how entries are added. Tests put faults there.
type Decorator func(tessera.AddFn) tessera.AddFn

// openTree opens the log in a folder, or makes it.
func openTree(dir string, signer note.Signer, decorate Decorator, w *witness.Quorum) (*Tree, error) {
	checkpoint, err := os.ReadFile(filepath.Join(dir, layout.CheckpointPath))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var signed int64
	if err == nil {
		c, err := ledger.ParseCheckpoint(checkpoint)
		if err != nil {
			return nil, fmt.Errorf("the log's checkpoint: %w", err)
		}
		signed = c.Size
	}
	if err := syncTree(dir); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	driver, err := tposix.New(ctx, tposix.Config{Path: dir, HTTPClient: w.Client(nil)})
	if err != nil {
		stop()
		return nil, err
	}
	guarded := &guard{Signer: signer, size: signed}
	if checkpoint == nil && w != nil {
		// Tessera would make no log whose empty checkpoint nobody cosigns.
		made, done := context.WithCancel(ctx)
		_, err = appendTo(made, driver, guarded, checkpointEvery, nil, nil)
		done()
	}
	if err != nil {
		stop()
		return nil, err
	}
	t, err := appendTo(ctx, driver, guarded, checkpointEvery, decorate, w)
	if err != nil {
		stop()
		return nil, err
	}
	go aging(ctx, filepath.Join(dir, layout.CheckpointPath))
	t.stop, t.Signed = stop, signed
	t.durable = func() (int64, error) {
		if err := syncTree(dir); err != nil {
			return 0, err
		}
		n, err := t.reader.IntegratedSize(context.Background())
		return int64(n), err
	}
	return t, nil
}

// appendTo opens the log of a driver. Checkpoints are signed so often at most.
func appendTo(ctx context.Context, driver tessera.Driver, signer *guard, every time.Duration, decorate Decorator, w *witness.Quorum) (*Tree, error) {
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer).WithBatching(claims.MaxBatch, batchAge).
		WithCheckpointInterval(every).WithCheckpointRepublishInterval(0).WithShutdownTimeout(LastCheckpoint).WithPushback(maxOutstanding)
	if w != nil {
		options.WithWitnesses(w.Group, nil)
	}
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, options)
	if err != nil {
		return nil, err
	}
	t := &Tree{Reading: Reading{resources: reader}, appendEntry: appender.Add, reader: reader, shutdown: shutdown,
		witnesses: w, signer: signer}
	if decorate != nil {
		t.appendEntry = decorate(t.appendEntry)
	}
	return t, nil
}

// syncTree makes the size of the log durable. Tessera renames the file with the size before it
// syncs the folder, and a kill between the two leaves a size that a loss of power undoes.
func syncTree(dir string) error {
	d, err := os.Open(filepath.Join(dir, ".state"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// aging keeps a checkpoint from being of the future. Tessera signs no new one before an old one
// has some age, by the clock, which may have been set back.
func aging(ctx context.Context, checkpoint string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if info, err := os.Stat(checkpoint); err == nil && info.ModTime().After(time.Now()) {
			past := time.Now().Add(-time.Second)
			_ = os.Chtimes(checkpoint, past, past)
		}
	}
}

// close waits until a checkpoint covers all entries, and stops Tessera. It does not wait if
// another server may write, or a witness has stopped the log.
func (t *Tree) close(lost bool) error {
	defer t.stop()
	if lost || t.witnesses.Failed() != nil {
		return nil
	}
	err := t.shutdown(context.Background())
	if errors.Is(err, context.DeadlineExceeded) && t.witnesses != nil {
		return errors.New("no checkpoint covers the last entries, because the witnesses are below the quorum; they are asked again at the next start")
	}
	return err
}

// Size returns the number of durable entries.
func (t *Tree) Size() (int64, error) { return t.durable() }

// Add adds entries in order and returns when all are durable, or when every one of them
// has failed or is durable. The first must get index next, and the others those after it.
func (t *Tree) Add(next int64, items []claims.Item) error {
	made := make([]*tessera.Entry, len(items))
	for i, it := range items {
		made[i] = tessera.NewEntry(it.Entry)
	}
	futures := make([]tessera.IndexFuture, len(made))
	for i, e := range made {
		futures[i] = t.appendEntry(context.Background(), e)
	}
	var failed error
	for i, future := range futures {
		got, err := future()
		if want := next + int64(i); err == nil && int64(got.Index) != want {
			err = fmt.Errorf("the log gave index %d and not %d", got.Index, want)
		}
		if failed == nil {
			failed = err
		}
	}
	if failed != nil || t.late == nil {
		return failed
	}
	return t.addLate(items)
}

// addLate keeps the leaf hashes of entries until the tiles have them. It waits some time if
// they are so many that Tessera would soon take no more.
func (t *Tree) addLate(items []claims.Item) error {
	for _, it := range items {
		t.late.leaves = append(t.late.leaves, ledger.LeafHash(it.Entry))
	}
	if len(t.late.leaves) < maxOutstanding/4 {
		return nil
	}
	for end := time.Now().Add(lateWait); ; time.Sleep(50 * time.Millisecond) {
		n, err := t.reader.IntegratedSize(context.Background())
		if done := int64(n) - t.late.base; err == nil && done > 0 && done <= int64(len(t.late.leaves)) {
			t.late.base, t.late.leaves = int64(n), slices.Clone(t.late.leaves[done:])
		}
		if err != nil || len(t.late.leaves) < maxOutstanding/2 || time.Now().After(end) {
			return err
		}
	}
}

// errBehind says that the bucket takes objects too slowly.
var errBehind = errors.New("the tiles of the log are behind its entries")

// Behind says whether an error means that the bucket is too slow, and that nothing is wrong.
func Behind(err error) bool {
	return errors.Is(err, tessera.ErrPushback) || errors.Is(err, errBehind)
}

// Leaf returns the leaf hash of an entry of the log, which has size entries.
func (t *Tree) Leaf(index, size int64) (tlog.Hash, error) {
	if t.late == nil {
		return t.Reading.Leaf(index, size)
	}
	if at := index - t.late.base; at >= 0 && at < int64(len(t.late.leaves)) {
		return t.late.leaves[at], nil
	}
	return t.Reading.Leaf(index, min(size, t.late.base))
}

// Leaf returns the leaf hash of an entry of the log, which has size entries.
func (t *Reading) Leaf(index, size int64) (h tlog.Hash, err error) {
	n := uint64(index) / layout.TileWidth
	width := layout.PartialTileSize(0, n, uint64(size))
	if len(t.hashes.nodes) == 0 || t.hashes.n != n || t.hashes.width != width {
		nodes, err := t.ReadTile(context.Background(), 0, n, width)
		if err != nil {
			return h, gone(fmt.Sprintf("tile %d", n), err)
		}
		t.hashes = tile{n, width, nodes}
	}
	at := index % layout.TileWidth * tlog.HashSize
	if int64(len(t.hashes.nodes)) < at+tlog.HashSize {
		return h, fmt.Errorf("the log's tile %d is too short for entry %d", n, index)
	}
	return tlog.Hash(t.hashes.nodes[at : at+tlog.HashSize]), nil
}

// gone adds to the error of a file that is not there what to do.
func gone(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s of the log is missing: put the log back from a copy, and a database and its bucket from one time: %w", what, err)
	}
	return err
}

// Holds says whether an entry of the log has the leaf hash that the log has for it.
func (t *Reading) Holds(index, size int64) error {
	leaf, err := t.Leaf(index, size)
	if err != nil {
		return err
	}
	entry, err := t.Entry(index, size)
	if err == nil && ledger.LeafHash(entry) != leaf {
		err = fmt.Errorf("the log is damaged: entry %d has not the hash of its tile; put the log back from a copy", index)
	}
	return err
}

// Entry returns an entry of the log, which has size entries.
func (t *Reading) Entry(index, size int64) (entry []byte, err error) {
	found := errors.New("found")
	err = t.Entries(index, size, func(_ int64, e []byte) error { entry = e; return found })
	if errors.Is(err, found) {
		err = nil
	}
	return entry, err
}

// Entries calls each with the entries from an index to the size of the log.
func (t *Reading) Entries(from, size int64, each func(index int64, entry []byte) error) error {
	for from < size {
		n := uint64(from / layout.EntryBundleWidth)
		raw, err := t.ReadEntryBundle(context.Background(), n, layout.PartialTileSize(0, n, uint64(size)))
		if err != nil {
			return gone(fmt.Sprintf("bundle %d", n), err)
		}
		var bundle api.EntryBundle
		if err := bundle.UnmarshalText(raw); err != nil {
			return err
		}
		first := int64(n) * layout.EntryBundleWidth
		end := min(size, first+layout.EntryBundleWidth)
		if int64(len(bundle.Entries)) < end-first {
			return fmt.Errorf("the log's bundle %d has %d entries and not %d", n, len(bundle.Entries), end-first)
		}
		for ; from < end; from++ {
			if err := each(from, bundle.Entries[from-first]); err != nil {
				return err
			}
		}
	}
	return nil
}

// guard signs no tree that is smaller than one that it signed before, and no second tree
// of one size. A log that was restored from an old copy would ask for that.
type guard struct {
	note.Signer
	fence func(context.Context) error // says whether this server still writes; nil: nobody can take its place
	mu    sync.Mutex
	size  int64
	text  []byte
}

func (g *guard) Sign(text []byte) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	var size int64
	if _, err := fmt.Sscanf(string(rest), "%d\n", &size); err != nil {
		return nil, err
	}
	if size < g.size || size == g.size && g.text != nil && !bytes.Equal(g.text, text) {
		return nil, fmt.Errorf("no checkpoint of %d entries is signed after another one of %d", size, g.size)
	}
	if g.fence != nil {
		ctx, cancel := context.WithTimeout(context.Background(), WatchTime)
		defer cancel()
		if err := g.fence(ctx); err != nil {
			return nil, err
		}
	}
	g.size, g.text = size, bytes.Clone(text)
	return g.Signer.Sign(text)
}

// Quiet makes the warnings of Tessera complaints of ours.
func Quiet(complain func(what string, why any)) { quietOnce.Do(func() { setQuiet(complain) }) }

// quietOnce: klog's settings cannot change while it writes.
var quietOnce sync.Once

func setQuiet(complain func(what string, why any)) {
	_ = mysql.SetLogger(&mysql.NopLogger{})        // a connection that ended; what needed it says so
	slog.SetDefault(slog.New(slog.DiscardHandler)) // temporary files that could not be removed
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, f := range [][2]string{{"logtostderr", "false"}, {"stderrthreshold", "FATAL"}, {"skip_headers", "true"}} {
		_ = flags.Set(f[0], f[1]) // klog has these flags
	}
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("WARNING", warnings(complain))
}

// warnings is where klog writes warnings and errors.
type warnings func(what string, why any)

func (w warnings) Write(line []byte) (int, error) {
	what, why, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
	if witness.Silent(why) {
		return len(line), nil
	}
	if strings.Contains(why, "witness policy was not satisfied") {
		w("there is no new checkpoint: the witnesses are below the quorum. Records go on, and receipts wait", why)
		return len(line), nil
	}
	w("tessera: "+what, why)
	return len(line), nil
}
