package saferun

import (
	"bytes"
	"fmt"
	"io"
)

// snippet prints the last lines of each stream that has output.
func (r *recording) snippet(w io.Writer, lines int) error {
	if lines == 0 {
		return nil
	}
	for i, name := range []string{"stdout", "stderr"} {
		if s := &r.streams[i]; s.size > 0 {
			if err := r.last(w, s, name, lines); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *recording) last(w io.Writer, s *spool, name string, lines int) error {
	from, found, err := lastLines(s, s.size, lines)
	if err != nil {
		return err
	}
	what := "line"
	if found != 1 {
		what = "lines"
	}
	if r.cut != nil {
		what = "logged " + what
	}
	fmt.Fprintf(w, "safe-run: last %d %s of %s:\n", found, what, name)
	if _, err := io.Copy(w, io.NewSectionReader(s, from, s.size-from)); err != nil {
		return err
	}
	var last [1]byte
	if _, err := s.ReadAt(last[:], s.size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// lastLines returns the offset of the last lines, and their number. The last line may lack
// its LF.
func lastLines(r io.ReaderAt, size int64, lines int) (from int64, found int, err error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		part := buf[:min(int64(len(buf)), end)]
		if _, err := r.ReadAt(part, end-int64(len(part))); err != nil && err != io.EOF {
			return 0, 0, err
		}
		begin := end - int64(len(part))
		for i := len(part); i > 0; {
			i = bytes.LastIndexByte(part[:i], '\n')
			if i < 0 {
				break
			}
			if begin+int64(i) == size-1 {
				continue // this LF ends the last line
			}
			if found++; found == lines {
				return begin + int64(i) + 1, found, nil
			}
		}
		end = begin
	}
	return 0, found + 1, nil
}
