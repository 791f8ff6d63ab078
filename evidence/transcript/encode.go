package transcript

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteLedger writes the log with sections and events. Memory does not grow with the
// streams or with the length of a line (TestMemory). After an error the output in w is
// no log.
//
// An error is a [*RunError], or the error of the streams, the order or w.
func (r Run) WriteLedger(w io.Writer) error {
	return r.writeLedger(w, Quote(r.Argv), piece)
}

// writeLedger is WriteLedger for a given text of the command and a given size of pieces.
func (r Run) writeLedger(w io.Writer, command string, piece int) error {
	notes, err := r.notes()
	if err != nil {
		return err
	}
	e := ledger{out: bufio.NewWriterSize(w, piece)}
	in := r.streams(piece)
	if err := e.sections(in); err != nil {
		return err
	}
	e.meta(startText + command + `"`)
	if err := r.lines(in, e.line); err != nil {
		return err
	}
	for _, n := range notes {
		e.meta(n)
	}
	e.meta(exitText + strconv.FormatInt(int64(r.Code), 10))
	e.out.WriteString(endMarker)
	return e.out.Flush()
}

// WriteMerged writes the original lines of both streams in the order of their events,
// and nothing else. Its bounds and errors are those of [Run.WriteLedger].
func (r Run) WriteMerged(w io.Writer) error { return r.writeMerged(w, piece) }

func (r Run) writeMerged(w io.Writer, piece int) error {
	out := bufio.NewWriterSize(w, piece)
	err := r.lines(r.streams(piece), func(c *cursor, end int64, lf bool) error {
		if lf {
			end++
		}
		return c.each(end, func(p []byte) error {
			_, err := out.Write(p)
			return err
		})
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// notes returns the notes in written form, after a check of the other META lines.
func (r Run) notes() ([]string, error) {
	if r.Code < 0 || int64(r.Code) > maxCode {
		return nil, &RunError{"exit code " + strconv.Itoa(r.Code) + " is not one of 0 to 4294967295"}
	}
	list := make([]string, len(r.Notes))
	for i, n := range r.Notes {
		list[i] = escape(n)
		if strings.HasPrefix(list[i], startPrefix) || strings.HasPrefix(list[i], exitPrefix) {
			return nil, &RunError{"note " + strconv.Quote(n) + " would pass for the start or the exit"}
		}
	}
	return list, nil
}

// cursor is a position in the walk through a stream.
type cursor struct {
	stream Stream
	window        // at the position of the walk
	back   window // for lines that began before that
	start  int64  // of the current line
	pos    int64  // end of the part of the line that was seen
}

func (r Run) streams(piece int) *[3]cursor {
	var in [3]cursor
	for i, section := range [...]*io.SectionReader{Stdout: r.Stdout, Stderr: r.Stderr} {
		s := Stream(i)
		w := window{most: piece, name: s.String()}
		if section != nil {
			w.r, w.size = section, section.Size()
		}
		in[i] = cursor{stream: s, window: w, back: w}
	}
	return &in
}

// lines calls line for every line in the order of events. A line goes from c.start to
// end. Its LF is at end, if it has one.
func (r Run) lines(in *[3]cursor, line func(c *cursor, end int64, lf bool) error) error {
	if r.Order != nil {
		for s, err := range r.Order {
			if err != nil {
				return err
			}
			if s.Stream != Stdout && s.Stream != Stderr {
				return &RunError{"span of stream " + s.Stream.String()}
			}
			if err := in[s.Stream].walk(s.N, line); err != nil {
				return err
			}
		}
	}
	for i := range in {
		if c := &in[i]; c.pos != c.size {
			return &RunError{"spans of " + c.stream.String() + " end at byte " + strconv.FormatInt(c.pos, 10) + " of " + strconv.FormatInt(c.size, 10)}
		}
	}
	for i := range in {
		if c := &in[i]; c.start < c.size {
			if err := line(c, c.size, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk handles the next n bytes.
func (c *cursor) walk(n int64, line func(c *cursor, end int64, lf bool) error) error {
	if n < 0 || n > c.size-c.pos {
		return &RunError{"span of " + strconv.FormatInt(n, 10) + " bytes at byte " + strconv.FormatInt(c.pos, 10) +
			" of " + strconv.FormatInt(c.size, 10) + " of " + c.stream.String()}
	}
	for to := c.pos + n; c.pos < to; {
		b, err := c.at(c.pos)
		if err != nil {
			return err
		}
		b = b[:min(int64(len(b)), to-c.pos)]
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			c.pos += int64(len(b))
			continue
		}
		c.pos += int64(i)
		if err := line(c, c.pos, true); err != nil {
			return err
		}
		c.pos++
		c.start = c.pos
	}
	return nil
}

// each calls f for the bytes from c.start to end, in one piece if they are in memory.
func (c *cursor) each(end int64, f func([]byte) error) error {
	if b, ok := c.has(c.start, end); ok {
		return f(b)
	}
	for b, err := range c.back.pieces(c.start, end) {
		if err == nil {
			err = f(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ledger writes a log.
type ledger struct {
	out     *bufio.Writer
	seq     int64
	scratch []byte
}

// sections writes everything before the first event.
func (e *ledger) sections(in *[3]cursor) error {
	for s, header := range [...]string{Stdout: stdoutHeader, Stderr: stderrHeader} {
		e.out.WriteString(header) // empty for Meta
		for b, err := range in[s].pieces(0, in[s].size) {
			if err == nil {
				_, err = e.out.Write(b)
			}
			if err != nil {
				return err
			}
		}
	}
	_, err := e.out.WriteString(beginMarker)
	return err
}

// head begins an event. An error shows in the next call or when the log is flushed.
func (e *ledger) head(s Stream) {
	e.seq++
	b := append(e.scratch[:0], "[SEQ="...)
	b = append(strconv.AppendInt(b, e.seq, 10), "]["...)
	e.scratch = append(append(b, s.String()...), "] "...)
	e.out.Write(e.scratch)
}

func (e *ledger) meta(text string) {
	e.head(Meta)
	e.out.WriteString(text)
	e.out.WriteByte('\n')
}

func (e *ledger) line(c *cursor, end int64, lf bool) error {
	e.head(c.stream)
	if b, ok := c.has(c.start, end); ok {
		e.short(b, lf)
	} else if err := e.long(c, end, lf); err != nil {
		return err
	}
	return e.out.WriteByte('\n')
}

// short writes the text of a line that is completely in memory.
func (e *ledger) short(b []byte, lf bool) {
	if !utf8.Valid(b) || bytes.HasPrefix(b, []byte(label)) {
		e.scratch = base64.StdEncoding.AppendEncode(append(e.scratch[:0], label...), b)
		e.out.Write(e.scratch)
		return
	}
	if n := len(b) - 1; lf && n >= 0 && b[n] == '\r' {
		b = b[:n]
	}
	e.out.Write(b)
}

// long writes the text of a line that is not completely in memory. It reads the line
// twice.
func (e *ledger) long(c *cursor, end int64, lf bool) error {
	var utf checker
	first, last := make([]byte, 0, len(label)), byte(0)
	err := c.each(end, func(p []byte) error {
		utf.add(p)
		first = append(first, p[:min(len(p), cap(first)-len(first))]...)
		last = p[len(p)-1]
		return nil
	})
	if err != nil {
		return err
	}
	if !utf.valid() || string(first) == label {
		e.out.WriteString(label)
		to := base64.NewEncoder(base64.StdEncoding, e.out)
		if err := c.each(end, func(p []byte) error { _, err := to.Write(p); return err }); err != nil {
			return err
		}
		return to.Close()
	}
	if lf && last == '\r' {
		end--
	}
	return c.each(end, func(p []byte) error { _, err := e.out.Write(p); return err })
}
