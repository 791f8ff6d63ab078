package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
)

// runTable finds the lines of a run: a hash table of pages. A page has a checksum of
// four bytes, the number of used slots in two, the number of pages (its logarithm) in
// two, the page's own number in eight, and 255 slots. A slot has eight bytes of the hash
// of a run id, and eight bytes of the index. A full page continues in the next page, the
// last in the first.
type runTable struct {
	file  file
	files files
	count int64
	pages int64
}

const (
	pageBytes  = 4096
	slotBytes  = 16
	pageSlots  = pageBytes/slotBytes - 1
	firstPages = 4
)

// errTable says that the table was changed by something else. It is then made again.
var errTable = errors.New("the table of run ids is damaged")

// openRuns opens the table of run ids, which has count entries. A file whose number of pages
// is no power of two gives errTable.
func openRuns(fsys files, flag int, count int64) (*runTable, error) {
	f, err := fsys.Open(nameRuns, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (info.Size()%pageBytes != 0 || bits.OnesCount64(uint64(info.Size())) != 1) {
		err = errTable
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &runTable{file: f, files: fsys, count: count, pages: info.Size() / pageBytes}, nil
}

func (t *runTable) close() error { return t.file.Close() }

// key returns the hash of a run id in the table.
func key(runID string) uint64 {
	sum := sha256.Sum256([]byte(runID))
	return binary.LittleEndian.Uint64(sum[:])
}

type page [pageBytes]byte

func (p *page) count() int { return int(binary.LittleEndian.Uint16(p[4:])) }

func (p *page) slot(i int) (key uint64, index int64) {
	at := slotBytes * (1 + i)
	return binary.LittleEndian.Uint64(p[at:]), int64(binary.LittleEndian.Uint64(p[at+8:]))
}

func (p *page) add(key uint64, index int64) {
	n := p.count()
	at := slotBytes * (1 + n)
	binary.LittleEndian.PutUint64(p[at:], key)
	binary.LittleEndian.PutUint64(p[at+8:], uint64(index))
	binary.LittleEndian.PutUint16(p[4:], uint16(n+1))
}

func (p *page) seal(number, pages int64) {
	binary.LittleEndian.PutUint16(p[6:], uint16(bits.TrailingZeros64(uint64(pages))))
	binary.LittleEndian.PutUint64(p[8:], uint64(number))
	binary.LittleEndian.PutUint32(p[:], crc32.ChecksumIEEE(p[4:]))
}

func (p *page) valid(number, pages int64) bool {
	return binary.LittleEndian.Uint32(p[:]) == crc32.ChecksumIEEE(p[4:]) &&
		int(binary.LittleEndian.Uint16(p[6:])) == bits.TrailingZeros64(uint64(pages)) &&
		int64(binary.LittleEndian.Uint64(p[8:])) == number && p.count() <= pageSlots
}

// read reads a page. A page that was not written as a whole gives errTable.
func (t *runTable) read(number int64, p *page) error {
	if _, err := t.file.ReadAt(p[:], number*pageBytes); err != nil {
		if errors.Is(err, io.EOF) {
			return errTable
		}
		return err
	}
	if !p.valid(number, t.pages) {
		return errTable
	}
	return nil
}

// find returns the indexes that may be lines of the run.
func (t *runTable) find(runID string) ([]int64, error) {
	var found []int64
	k := key(runID)
	err := t.probe(k, func(_ int64, p *page) bool {
		for i := range p.count() {
			if key, index := p.slot(i); key == k {
				found = append(found, index)
			}
		}
		return p.count() < pageSlots
	})
	return found, err
}

// probe visits the pages that may contain a key, until visit returns true.
func (t *runTable) probe(k uint64, visit func(int64, *page) bool) error {
	var p page
	start := int64(k % uint64(t.pages))
	for i := range t.pages {
		number := (start + i) % t.pages
		if err := t.read(number, &p); err != nil {
			return err
		}
		if visit(number, &p) {
			return nil
		}
	}
	return errTable
}

// insert enters a line of a run that the head does not yet count. An entry from a killed
// append that exists already is left alone.
func (t *runTable) insert(runID string, index int64) error {
	if (t.count+1)*4 > t.pages*pageSlots*3 {
		if err := t.grow(); err != nil {
			return err
		}
	}
	k := key(runID)
	var write error
	err := t.probe(k, func(number int64, p *page) bool {
		for i := range p.count() {
			if key, at := p.slot(i); key == k && at == index {
				t.count++
				return true
			}
		}
		if p.count() == pageSlots {
			return false
		}
		p.add(k, index)
		p.seal(number, t.pages)
		if _, write = t.file.WriteAt(p[:], number*pageBytes); write == nil {
			t.count++
		}
		return true
	})
	return errors.Join(err, write)
}

// grow replaces the table by one with twice as many pages.
func (t *runTable) grow() error {
	next := make(table, 2*t.pages)
	var p page
	for number := range t.pages {
		if err := t.read(number, &p); err != nil {
			return err
		}
		for i := range p.count() {
			next.add(p.slot(i))
		}
	}
	if err := next.write(t.files); err != nil {
		return err
	}
	grown, err := openRuns(t.files, os.O_RDWR, t.count)
	if err != nil {
		return err
	}
	err = t.file.Close()
	*t = *grown
	return err
}

// table is a whole table in memory.
type table []page

// tableFor returns an empty table with space for some entries before it must grow.
func tableFor(entries int64) table {
	pages := int64(firstPages)
	for (entries+1)*4 > pages*pageSlots*3 {
		pages *= 2
	}
	return make(table, pages)
}

func (t table) add(k uint64, index int64) {
	for n := k % uint64(len(t)); ; n = (n + 1) % uint64(len(t)) {
		if p := &t[n]; p.count() < pageSlots {
			p.add(k, index)
			return
		}
	}
}

func (t table) write(fsys files) error {
	b := make([]byte, 0, len(t)*pageBytes)
	for number := range t {
		t[number].seal(int64(number), int64(len(t)))
		b = append(b, t[number][:]...)
	}
	return replaceFile(fsys, nameRuns, b, false)
}
