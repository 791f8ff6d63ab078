package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// rebuild reads the whole ledger and makes all derived files again. Full tiles are
// final: rebuild writes missing ones, and leaves the others alone. Verify finds wrong
// ones.
func (s *state) rebuild(ctx context.Context) error {
	if err := s.close(); err != nil {
		return err
	}
	if err := s.files.Mkdir(nameState); err != nil && !isExist(err) {
		return err
	}
	b := &builder{files: s.files}
	var err error
	s.tail, err = scan(ctx, s.truth, tail{}, []int64{s.promise.Size}, s.telling(b.add))
	if err != nil {
		return err
	}
	if s.tail.added == 0 {
		return fmt.Errorf("%w: it has no entry", ledger.ErrTruncated)
	}
	if err := s.checkSeals([]ledger.Seal{s.tail.seal}); err != nil {
		return err
	}
	runs, err := b.write()
	if err != nil {
		return err
	}
	if s.derived, err = openDerived(s.files, head{Runs: runs}); err != nil {
		return err
	}
	s.rebuilt = true
	if s.options.Progress != nil {
		s.options.Progress(s.tail.offset, s.tail.offset)
	}
	if s.synced = s.promise.Size; s.synced != s.tail.tree.Size {
		return nil // a head covers only synced lines
	}
	return s.writeHead()
}

// telling calls Progress during the scan of entries.
func (s *state) telling(each func(entered) error) func(entered) error {
	info, err := s.truth.Stat()
	if err != nil || s.options.Progress == nil {
		return each
	}
	size := info.Size()
	return func(e entered) error {
		if e.index%1024 == 0 {
			s.options.Progress(e.offset, size)
		}
		return each(e)
	}
}

// builder collects the derived data of a whole ledger.
type builder struct {
	files   files
	offsets []byte
	keys    []uint64
	indexes []int64
	edges   ledger.Edges
}

func (b *builder) add(e entered) error {
	b.offsets = binary.LittleEndian.AppendUint64(b.offsets, uint64(e.offset))
	if e.runID != "" {
		b.keys, b.indexes = append(b.keys, key(e.runID)), append(b.indexes, e.index)
	}
	return addNodes(&b.edges, e.nodes, b.tile)
}

func (b *builder) tile(t tlog.Tile, content []byte) error {
	path := ledger.TilePath(t)
	if _, err := b.files.Lstat(path); !isNotExist(err) {
		return err
	}
	return placeTile(b.files, path, content)
}

// write writes the files. It returns the number of entries of the table of run ids.
func (b *builder) write() (int64, error) {
	t := tableFor(int64(len(b.keys)))
	for i, k := range b.keys {
		t.add(k, b.indexes[i])
	}
	if err := errors.Join(t.write(b.files), replaceFile(b.files, nameOffsets, b.offsets, false)); err != nil {
		return 0, err
	}
	if err := b.files.Mkdir(nameEdge); err != nil && !isExist(err) {
		return 0, err
	}
	for level, content := range b.edges {
		f, err := b.files.Open(edgeName(level), os.O_WRONLY|os.O_CREATE)
		if err != nil {
			return 0, err
		}
		_, err = f.WriteAt(content, 0)
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
	}
	return int64(len(b.keys)), nil
}
