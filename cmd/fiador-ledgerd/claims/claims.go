// Package claims says which entry a log has, or is about to get, for every run id. It owns the
// file of claims of a log in a folder and their rows of a log in a database.
package claims

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Store has the claims of a log. They say which entry the log has, or is about to get, for every
// run id, and are durable before their entries are added to the log.
type Store interface {
	// Load reads the claims and returns those without index. It stops at the first claim
	// whose leaf hash is not the one of the log. The writer writes again what follows.
	Load(size int64, log Log) (open []Item, err error)
	// Doubt says that a claim is not what the log has. The next load looks at all.
	Doubt()
	// Count is the number of claims that have an index.
	Count() int64
	// Last is the highest timestamp of the entries of the log.
	Last() string
	// Of returns the entries of runs, ascending.
	Of(runIDs []string) (map[string][]Entry, error)
	// Indexes returns the indexes of the entries of a run. Others than the writer may call it.
	Indexes(runID string) ([]int64, error)
	// Write makes claims durable. An error that wraps ErrTakenBack says that none is there.
	Write(items []Item) error
	// Settled says that the log has the entries of the claims that were written last.
	Settled(items []Item) error
	// Close ends the use of the claims.
	Close() error
}

// File has the claims of a log in a folder: the file claims.jsonl. A line is an entry
// (a claim), or {"indexes":[N,…]} with the indexes of the claims above it that have none yet,
// in their order. Indexes are not synced, because the writer finds them again.
type File struct {
	file    *os.File
	size    int64 // bytes up to the last indexes
	most    int64 // so many bytes are read at most; 0: all
	doubted bool  // the file may have changed

	mu      sync.RWMutex // for reading indexes beside the writer
	offsets []int64      // of the claim of each entry of the log
	runs    map[runKey]story
	latest  string // timestamp of the last entry
}

// runKey is the beginning of the hash of a run id.
type runKey [16]byte

func keyOf(runID string) runKey {
	sum := sha256.Sum256([]byte(runID))
	return runKey(sum[:16])
}

// InFile returns the claims of a file: those that were followed, if it is the same file. It
// closes the file that was followed.
func InFile(file *os.File, followed *File) *File {
	if followed == nil {
		return &File{file: file}
	}
	defer followed.file.Close()
	var infos [2]fs.FileInfo
	for i, f := range []*os.File{followed.file, file} {
		var err error
		if infos[i], err = f.Stat(); err != nil {
			return &File{file: file}
		}
	}
	if !os.SameFile(infos[0], infos[1]) {
		return &File{file: file}
	}
	return &File{file: file, size: followed.size, offsets: followed.offsets, runs: followed.runs, latest: followed.latest}
}

// story has the indexes of the entries of a run. 0 means none: entry 0 is the genesis.
type story struct{ begun, end int64 }

// Item is a record with its entry.
type Item struct {
	Record ledger.Record // what the entry says
	Entry  []byte        // its text, without the end of the line
}

// Entry is an item at its index.
type Entry struct {
	Index int64 // in the log
	Item
}

// NewItem makes the entry of a record.
func NewItem(r ledger.Record) (Item, error) {
	entry, err := r.Entry()
	return Item{r, entry}, err
}

// ParseItem reads an entry.
func ParseItem(entry []byte) (Item, error) {
	r, err := ledger.ParseRecord(entry)
	return Item{r, bytes.Clone(entry)}, err
}

// Name is the name of the file with the claims of a log in a folder.
const Name = "claims.jsonl"

// MaxBatch is how many entries are claimed and added together at most.
const MaxBatch = 256

const (
	indexesPrefix = `{"indexes":[`
	maxClaimLine  = 64 << 10 // a claim has at most 16 KiB, and the indexes of a batch have less
)

// Log is a log, as far as claims are held against it.
type Log interface {
	// Leaf returns the leaf hash of an entry of the log, which has size entries.
	Leaf(index, size int64) (tlog.Hash, error)
	// Holds says whether the entry at an index has the leaf hash that the log has for it.
	Holds(index, size int64) error
}

// Load removes what follows the last indexes: it was perhaps never synced.
func (c *File) Load(size int64, log Log) (open []Item, err error) {
	open, err = c.Read(size, log)
	if err == nil {
		err = c.file.Truncate(c.size)
	}
	return open, err
}

// Read goes on reading the file after the last indexes that it knows, and returns the claims
// without index, which are the last lines. It stops at a line that was torn, and at claims
// whose leaf hashes are not those of the log.
func (c *File) Read(size int64, log Log) (open []Item, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil || c.doubted || !c.intact(size, log) {
		c.doubted, c.size, c.offsets, c.runs, c.latest = false, 0, nil, map[runKey]story{}, ""
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(c.file, c.size, cmp.Or(c.most, 1<<62)-c.size), maxClaimLine)
	for at := c.size; ; {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF || errors.Is(err, bufio.ErrBufferFull) {
			return open, nil
		}
		if err != nil {
			return nil, err
		}
		at += int64(len(line))
		if bytes.HasPrefix(line, []byte(indexesPrefix)) {
			if !bytes.Equal(line, c.indexLine(len(open))) {
				return open, nil
			}
			for i, it := range open {
				index := int64(len(c.offsets) + i)
				if index >= size {
					return nil, fmt.Errorf("the log has %d entries, and %s knows more: an old copy of the log was put back; put back the newest one", size, Name)
				}
				if h, err := log.Leaf(index, size); err != nil || h != ledger.LeafHash(it.Entry) {
					return nil, errors.Join(err, log.Holds(index, size)) // nil: the log has the right entries
				}
			}
			c.place(open)
			c.size, open = at, nil
			continue
		}
		it, err := ParseItem(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return open, nil
		}
		open = append(open, it)
	}
}

// intact says whether the file has the last claim where it was read, and the log its entry. A
// file that was written again has it elsewhere.
func (c *File) intact(size int64, log Log) bool {
	last := int64(len(c.offsets)) - 1
	if last < 0 {
		return true
	}
	if last >= size {
		return false
	}
	it, err := c.entry(last)
	if err != nil {
		return false
	}
	h, err := log.Leaf(last, size)
	return err == nil && h == ledger.LeafHash(it.Entry)
}

// Fit returns how many leading entries of a log have a claim that fits, in so many bytes of the
// file.
func (c *File) Fit(most, size int64, log Log) (fit int64, err error) {
	c.most = most
	open, err := c.Read(size, log)
	if err != nil {
		return 0, err
	}
	for fit = c.Count(); fit-c.Count() < int64(len(open)) && fit < size; fit++ {
		if h, err := log.Leaf(fit, size); err != nil || h != ledger.LeafHash(open[fit-c.Count()].Entry) {
			return fit, err
		}
	}
	return fit, nil
}

// place gives the claims behind the last indexes the next indexes.
func (c *File) place(items []Item) {
	offset := c.size
	for _, it := range items {
		index := int64(len(c.offsets))
		c.offsets, c.latest = append(c.offsets, offset), max(c.latest, it.Record.Timestamp)
		offset += int64(len(it.Entry)) + 1
		if !it.Record.Kind.OfRun() {
			continue
		}
		key := keyOf(it.Record.RunID)
		of := c.runs[key]
		if it.Record.Kind.Ends() {
			of.end = index
		} else {
			of.begun = index
		}
		c.runs[key] = of
	}
}

// indexLine returns the line that gives the next indexes to a number of claims.
func (c *File) indexLine(claims int) []byte {
	list := make([]int, claims)
	for i := range list {
		list[i] = len(c.offsets) + i
	}
	text, _ := json.Marshal(list) // numbers have a text
	return fmt.Appendf(nil, "%s%s}\n", indexesPrefix[:len(indexesPrefix)-1], text)
}

// Count implements Store.
func (c *File) Count() int64 { return int64(len(c.offsets)) }

// Last implements Store.
func (c *File) Last() string { return c.latest }

// Doubt implements Store.
func (c *File) Doubt() { c.doubted = true }

// Close implements Store.
func (c *File) Close() error { return c.file.Close() }

// Of implements Store.
func (c *File) Of(runIDs []string) (map[string][]Entry, error) {
	found := map[string][]Entry{}
	for _, run := range runIDs {
		list, _ := c.Indexes(run) // they are in memory
		for _, index := range list {
			it, err := c.entry(index)
			if err != nil {
				c.Doubt()
				return nil, err
			}
			found[run] = append(found[run], Entry{index, it})
		}
	}
	return found, nil
}

// Indexes implements Store.
func (c *File) Indexes(runID string) ([]int64, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	of := c.runs[keyOf(runID)]
	list := slices.DeleteFunc([]int64{of.begun, of.end}, func(n int64) bool { return n == 0 })
	slices.Sort(list)
	return list, nil
}

// entry returns the entry of an index.
func (c *File) entry(index int64) (Item, error) {
	b := make([]byte, ledger.MaxEntryBytes+1)
	n, err := c.file.ReadAt(b, c.offsets[index])
	if err != nil && err != io.EOF {
		return Item{}, err
	}
	entry, _, _ := bytes.Cut(b[:n], []byte("\n"))
	it, err := ParseItem(entry)
	if err != nil {
		return Item{}, fmt.Errorf("%s was changed at entry %d: %w", Name, index, err)
	}
	return it, nil
}

// Write appends claims and syncs them. If that fails, it takes them back.
func (c *File) Write(items []Item) error {
	var b []byte
	for _, it := range items {
		b = append(append(b, it.Entry...), '\n')
	}
	_, err := c.file.WriteAt(b, c.size)
	if err == nil {
		err = c.file.Sync()
	}
	if err == nil {
		return nil
	}
	if failed := errors.Join(c.file.Truncate(c.size), c.file.Sync()); failed != nil {
		return fmt.Errorf("%w; %w", err, failed)
	}
	return fmt.Errorf("%w: %w", ErrTakenBack, err)
}

// ErrTakenBack says that a write failed and left nothing.
var ErrTakenBack = errors.New("no claim was written")

// Settled implements Store.
func (c *File) Settled(items []Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, at := c.indexLine(len(items)), c.size
	for _, it := range items {
		at += int64(len(it.Entry)) + 1
	}
	if _, err := c.file.WriteAt(line, at); err != nil {
		return err
	}
	c.place(items)
	c.size = at + int64(len(line))
	return nil
}
