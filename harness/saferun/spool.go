package saferun

import (
	"io"
	"os"
)

// spool holds the bytes that are written to it. The first bytes stay in memory, and the
// rest goes to a file without a name. The system removes such a file however this process
// ends.
type spool struct {
	folder string
	mem    []byte
	file   *os.File // nil: everything is in memory
	size   int64
}

const inMemory = 256 << 10

// Write keeps all of b, or returns how many bytes it has kept and an error.
func (s *spool) Write(b []byte) (n int, err error) {
	if room := inMemory - len(s.mem); room > 0 && s.file == nil {
		n = min(room, len(b))
		s.mem = append(s.mem, b[:n]...)
		s.size += int64(n)
	}
	if n == len(b) {
		return n, nil
	}
	if s.file == nil {
		if s.file, err = nameless(s.folder); err != nil {
			return n, err
		}
	}
	m, err := s.file.Write(b[n:])
	s.size += int64(m)
	return n + m, err
}

// nameless opens a new file without a name. Where the file system cannot do that, it opens
// a file and removes its name.
func nameless(folder string) (*os.File, error) {
	if f, err := openNameless(folder); err == nil {
		return f, nil
	}
	f, err := os.CreateTemp(folder, "safe-run-*.spool")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadAt reads from memory and from the file.
func (s *spool) ReadAt(b []byte, off int64) (n int, err error) {
	if off < int64(len(s.mem)) {
		n = copy(b, s.mem[off:])
		off += int64(n)
	}
	switch {
	case n == len(b):
		return n, nil
	case s.file == nil:
		return n, io.EOF
	}
	m, err := s.file.ReadAt(b[n:], off-int64(len(s.mem)))
	return n + m, err
}

func (s *spool) section() *io.SectionReader { return io.NewSectionReader(s, 0, s.size) }

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}
