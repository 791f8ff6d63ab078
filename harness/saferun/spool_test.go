package saferun

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// noise returns n bytes that depend only on the seed.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// TestSpool: the written bytes are read back, on both sides of the limit of memory. The
// file beyond the limit has no name.
func TestSpool(t *testing.T) {
	for _, size := range []int{0, 1, inMemory - 1, inMemory, inMemory + 1, 2*inMemory + 12345} {
		for _, chunk := range []int{1009, 65536, inMemory - 1, inMemory, inMemory + 1, 3 * inMemory} {
			s := spool{folder: t.TempDir()}
			want := noise(uint64(size), size)
			for rest := want; len(rest) > 0; {
				n := min(chunk, len(rest))
				if m, err := s.Write(rest[:n]); m != n || err != nil {
					t.Fatalf("%d of %d bytes written: %v", m, n, err)
				}
				rest = rest[n:]
			}
			if len(s.mem) > inMemory || (s.file != nil) != (size > inMemory) || s.size != int64(size) {
				t.Errorf("%d bytes by %d: %d in memory, size %d, a file: %v", size, chunk, len(s.mem), s.size, s.file != nil)
			}
			readBack(t, &s, want)
			if list, err := os.ReadDir(s.folder); err != nil || len(list) > 0 {
				t.Errorf("the folder has %v (%v)", list, err)
			}
			s.close()
		}
	}
}

// readBack reads a spool as a whole, and from offsets near every border.
func readBack(t *testing.T, s *spool, want []byte) {
	t.Helper()
	if got, err := io.ReadAll(s.section()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d read back: %v", len(got), len(want), err)
	}
	for _, border := range []int{0, inMemory, len(want)} {
		for off := max(0, border-3); off <= min(len(want), border+3); off++ {
			for _, n := range []int{0, 1, 2, 7, len(want) - off, len(want) - off + 1} {
				b := make([]byte, n)
				got, err := s.ReadAt(b, int64(off))
				all := min(n, len(want)-off)
				if got != all || !bytes.Equal(b[:got], want[off:off+all]) {
					t.Errorf("ReadAt(%d bytes, %d) of %d: %d bytes, %v", n, off, len(want), got, err)
				}
				if (err == nil) != (got == n) || err != nil && err != io.EOF {
					t.Errorf("ReadAt(%d bytes, %d) of %d: %d bytes and error %v", n, off, len(want), got, err)
				}
			}
		}
	}
}

// TestSpoolWithoutFolder: bytes that fit into memory need no folder. Further bytes are
// refused, and the kept ones can be read.
func TestSpoolWithoutFolder(t *testing.T) {
	s := spool{folder: filepath.Join(t.TempDir(), "none")}
	want := noise(1, inMemory+1000)
	if n, err := s.Write(want[:inMemory-1]); n != inMemory-1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := s.Write(want[inMemory-1:]); n != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d bytes kept, %v", n, err)
	}
	readBack(t, &s, want[:inMemory])
	if n, err := s.Write(nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	s.close()
}
