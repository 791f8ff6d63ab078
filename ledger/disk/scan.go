package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// tail describes the ledger from some line on, and the state after it.
type tail struct {
	tree   ledger.Range
	offset int64 // after the last whole line
	last   string
	seal   ledger.Seal // of the last whole line
	added  int64       // number of lines read
	torn   int64       // bytes after offset that are no line
	closed bool        // those bytes are a whole line without its line feed
	whole  *tail       // the state after that line
	keys   []rotation
	at     map[int64]tlog.Hash // roots at the wanted sizes
}

// rotation is a key and the seal of the record that introduces the key.
type rotation struct {
	ledger.KeyFrom
	seal ledger.Seal
}

// scan reads lines from an offset to the end of the file. Every line must follow from
// the line before it: form, size, root, time. Bytes that are no line stop the scan. At
// the end, bytes without a line feed, or zeroes, are torn; other bytes were not written
// by the ledger, and are an error. scan calls each with every entry.
func scan(ctx context.Context, f file, t tail, sizes []int64, each func(entered) error) (tail, error) {
	info, err := f.Stat()
	if err != nil {
		return tail{}, err
	}
	t.at = map[int64]tlog.Hash{}
	rest := info.Size() - t.offset
	r := bufio.NewReaderSize(io.NewSectionReader(f, t.offset, rest), int(min(rest+1, 1<<20)))
	for {
		if t.added%1024 == 0 && ctx.Err() != nil {
			return tail{}, ctx.Err()
		}
		line, err := readLine(r)
		switch {
		case err == io.EOF && len(line) == 0:
			return t, nil
		case err == io.EOF, errors.Is(err, bufio.ErrTooLong), len(line) > 0 && line[0] == 0:
			return t.end(f, info.Size(), line)
		case err != nil:
			return tail{}, err
		}
		e, err := t.next(line[:len(line)-1])
		if err != nil {
			return tail{}, err
		}
		if t.offset += int64(len(line)); slices.Contains(sizes, t.tree.Size) {
			t.at[t.tree.Size] = t.tree.Root()
		}
		if each != nil {
			if err := each(e); err != nil {
				return tail{}, err
			}
		}
	}
}

// readLine reads a line with its line feed. The result is valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return line, bufio.ErrTooLong
	}
	return line, err
}

// next handles the next line.
func (t *tail) next(b []byte) (entered, error) {
	index := t.tree.Size
	bad := func(err error) (entered, error) {
		return entered{}, fmt.Errorf("%w: entry %d (byte %d): %w", ledger.ErrTampered, index, t.offset, err)
	}
	l, err := ledger.ParseLine(b)
	if err != nil {
		return bad(err)
	}
	rec, err := ledger.ParseRecord(l.Entry)
	if err != nil {
		return bad(err)
	}
	e := entered{index: index, offset: t.offset, runID: rec.RunID, seal: l.Seal}
	t.tree.Append(ledger.LeafHash(l.Entry), nodes(&e.nodes))
	if l.Seal.Size != t.tree.Size || l.Seal.Root != t.tree.Root() {
		return bad(errors.New("its seal is that of another tree"))
	}
	if rec.Timestamp < t.last {
		return bad(errors.New("its time is before the time of the entry before it"))
	}
	switch rec.Kind {
	case ledger.KindGenesis, ledger.KindKeyRotation:
		k, err := ledger.ParseVerifier(rec.Key)
		if err != nil || (rec.Kind == ledger.KindGenesis) != (index == 0) {
			return bad(errors.New("a key in a place where it cannot stand"))
		}
		t.keys = append(t.keys[:len(t.keys):len(t.keys)], rotation{ledger.KeyFrom{Size: ledger.FirstSize(index), Key: k}, l.Seal})
	}
	t.last, t.seal = rec.Timestamp, l.Seal
	t.added++
	return e, nil
}

// end classifies the bytes after the last line.
func (t tail) end(f file, size int64, line []byte) (tail, error) {
	t.torn = size - t.offset
	if t.torn > ledger.MaxTornBytes {
		return t, notTorn(t.offset)
	}
	if len(line) > 0 && line[0] != 0 {
		whole := t
		whole.tree.Roots = append([]tlog.Hash(nil), t.tree.Roots...)
		if _, err := whole.next(line); err == nil {
			t.closed, t.whole = true, &whole
			return t, nil
		}
	}
	b := make([]byte, t.torn)
	if _, err := f.ReadAt(b, t.offset); ignoreEOF(err) != nil {
		return t, err
	}
	if bytes.IndexByte(b, '\n') >= 0 { // an interrupted append leaves no line feed
		return t, notTorn(t.offset)
	}
	return t, nil
}

func notTorn(offset int64) error {
	return fmt.Errorf("%w: what stands at byte %d is no line, and no interrupted append left it", ledger.ErrTampered, offset)
}
