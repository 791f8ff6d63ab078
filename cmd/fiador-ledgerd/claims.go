package main

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

// claims say which entry the log has, or is about to get, for every run id. They are
// durable before their entries are added to the log.
type claims interface {
	// load reads the claims and returns those without index. It stops at the first claim
	// whose leaf hash is not the one of the log. settle writes again what follows.
	load(size int64, log leaves) (open []item, err error)
	// doubt says that a claim is not what the log has. The next load looks at all.
	doubt()
	// count is the number of claims that have an index.
	count() int64
	// last is the highest timestamp of the entries of the log.
	last() string
	// of returns the entries of runs, ascending.
	of(runIDs []string) (map[string][]entry, error)
	// indexes returns the indexes of the entries of a run. Others than the writer may call it.
	indexes(runID string) ([]int64, error)
	// write makes claims durable. An error that wraps errTakenBack says that none is there.
	write(items []item) error
	// settled says that the log has the entries of the claims that were written last.
	settled(items []item) error
	close() error
}

// fileClaims are the claims of a log in a folder: the file claims.jsonl. A line is an entry
// (a claim), or {"indexes":[N,…]} with the indexes of the claims above it that have none yet,
// in their order. Indexes are not synced, because settle finds them again.
type fileClaims struct {
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

// claimsIn returns the claims of a file: those that were followed, if it is the same file. It
// closes the file that was followed.
func claimsIn(file *os.File, followed *fileClaims) *fileClaims {
	if followed == nil {
		return &fileClaims{file: file}
	}
	defer followed.file.Close()
	var infos [2]fs.FileInfo
	for i, f := range []*os.File{followed.file, file} {
		var err error
		if infos[i], err = f.Stat(); err != nil {
			return &fileClaims{file: file}
		}
	}
	if !os.SameFile(infos[0], infos[1]) {
		return &fileClaims{file: file}
	}
	return &fileClaims{file: file, size: followed.size, offsets: followed.offsets, runs: followed.runs, latest: followed.latest}
}

// story has the indexes of the entries of a run. 0 means none: entry 0 is the genesis.
type story struct{ begun, end int64 }

// item is a record with its entry.
type item struct {
	record ledger.Record
	entry  []byte
}

// entry is an item at its index.
type entry struct {
	index int64
	item
}

// newItem makes the entry of a record.
func newItem(r ledger.Record) (item, error) {
	entry, err := r.Entry()
	return item{r, entry}, err
}

// parseItem reads an entry.
func parseItem(entry []byte) (item, error) {
	r, err := ledger.ParseRecord(entry)
	return item{r, bytes.Clone(entry)}, err
}

// nameClaims is the name of the file with the claims of a log in a folder.
const nameClaims = "claims.jsonl"

// maxBatch is how many entries are claimed and added together at most.
const maxBatch = 256

const (
	indexesPrefix = `{"indexes":[`
	maxClaimLine  = 64 << 10 // a claim has at most 16 KiB, and the indexes of a batch have less
)

// leaves is a log, as far as claims are held against it.
type leaves interface {
	leaf(index, size int64) (tlog.Hash, error)
	// holds says whether the entry at an index has the leaf hash that the log has for it.
	holds(index, size int64) error
}

// load removes what follows the last indexes: it was perhaps never synced.
func (c *fileClaims) load(size int64, log leaves) (open []item, err error) {
	open, err = c.read(size, log)
	if err == nil {
		err = c.file.Truncate(c.size)
	}
	return open, err
}

// read goes on reading the file after the last indexes that it knows, and returns the claims
// without index, which are the last lines. It stops at a line that was torn, and at claims
// whose leaf hashes are not those of the log.
func (c *fileClaims) read(size int64, log leaves) (open []item, err error) {
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
					return nil, fmt.Errorf("the log has %d entries, and %s knows more: an old copy of the log was put back; put back the newest one", size, nameClaims)
				}
				if h, err := log.leaf(index, size); err != nil || h != ledger.LeafHash(it.entry) {
					return nil, errors.Join(err, log.holds(index, size)) // nil: the log has the right entries
				}
			}
			c.place(open)
			c.size, open = at, nil
			continue
		}
		it, err := parseItem(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return open, nil
		}
		open = append(open, it)
	}
}

// intact says whether the file has the last claim where it was read, and the log its entry. A
// file that was written again has it elsewhere.
func (c *fileClaims) intact(size int64, log leaves) bool {
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
	h, err := log.leaf(last, size)
	return err == nil && h == ledger.LeafHash(it.entry)
}

// fit returns how many leading entries of a log have a claim that fits, in so many bytes of the
// file.
func (c *fileClaims) fit(most, size int64, log leaves) (fit int64, err error) {
	c.most = most
	open, err := c.read(size, log)
	if err != nil {
		return 0, err
	}
	for fit = c.count(); fit-c.count() < int64(len(open)) && fit < size; fit++ {
		if h, err := log.leaf(fit, size); err != nil || h != ledger.LeafHash(open[fit-c.count()].entry) {
			return fit, err
		}
	}
	return fit, nil
}

// place gives the claims behind the last indexes the next indexes.
func (c *fileClaims) place(items []item) {
	offset := c.size
	for _, it := range items {
		index := int64(len(c.offsets))
		c.offsets, c.latest = append(c.offsets, offset), max(c.latest, it.record.Timestamp)
		offset += int64(len(it.entry)) + 1
		if !it.record.Kind.OfRun() {
			continue
		}
		key := keyOf(it.record.RunID)
		of := c.runs[key]
		if it.record.Kind.Ends() {
			of.end = index
		} else {
			of.begun = index
		}
		c.runs[key] = of
	}
}

// indexLine returns the line that gives the next indexes to a number of claims.
func (c *fileClaims) indexLine(claims int) []byte {
	list := make([]int, claims)
	for i := range list {
		list[i] = len(c.offsets) + i
	}
	text, _ := json.Marshal(list) // numbers have a text
	return fmt.Appendf(nil, "%s%s}\n", indexesPrefix[:len(indexesPrefix)-1], text)
}

func (c *fileClaims) count() int64 { return int64(len(c.offsets)) }

func (c *fileClaims) last() string { return c.latest }

func (c *fileClaims) doubt() { c.doubted = true }

func (c *fileClaims) close() error { return c.file.Close() }

func (c *fileClaims) of(runIDs []string) (map[string][]entry, error) {
	found := map[string][]entry{}
	for _, run := range runIDs {
		list, _ := c.indexes(run) // they are in memory
		for _, index := range list {
			it, err := c.entry(index)
			if err != nil {
				c.doubt()
				return nil, err
			}
			found[run] = append(found[run], entry{index, it})
		}
	}
	return found, nil
}

func (c *fileClaims) indexes(runID string) ([]int64, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	of := c.runs[keyOf(runID)]
	list := slices.DeleteFunc([]int64{of.begun, of.end}, func(n int64) bool { return n == 0 })
	slices.Sort(list)
	return list, nil
}

// entry returns the entry of an index.
func (c *fileClaims) entry(index int64) (item, error) {
	b := make([]byte, ledger.MaxEntryBytes+1)
	n, err := c.file.ReadAt(b, c.offsets[index])
	if err != nil && err != io.EOF {
		return item{}, err
	}
	entry, _, _ := bytes.Cut(b[:n], []byte("\n"))
	it, err := parseItem(entry)
	if err != nil {
		return item{}, fmt.Errorf("%s was changed at entry %d: %w", nameClaims, index, err)
	}
	return it, nil
}

// write appends claims and syncs them. If that fails, it takes them back.
func (c *fileClaims) write(items []item) error {
	var b []byte
	for _, it := range items {
		b = append(append(b, it.entry...), '\n')
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
	return fmt.Errorf("%w: %w", errTakenBack, err)
}

// errTakenBack says that a write failed and left nothing.
var errTakenBack = errors.New("no claim was written")

func (c *fileClaims) settled(items []item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, at := c.indexLine(len(items)), c.size
	for _, it := range items {
		at += int64(len(it.entry)) + 1
	}
	if _, err := c.file.WriteAt(line, at); err != nil {
		return err
	}
	c.place(items)
	c.size = at + int64(len(line))
	return nil
}
