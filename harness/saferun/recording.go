package saferun

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
)

// recording is the output of a command: the bytes of each stream, and the order in which
// they came. Its memory is bounded. If bytes cannot be kept, the recording ends there and
// counts the missed bytes.
type recording struct {
	streams [2]spool
	// order has the lengths of spans as varints. The spans alternate between standard
	// output and standard error, standard output first. tail has the lengths that are not
	// yet in order. current is the stream of the span that still grows.
	order   spool
	tail    []byte
	current int   // 0 or 1
	span    int64 // length of the current span so far
	cut     error // the error that ended the recording, or nil
	missed  int64 // bytes that came after the cut
	shared  bool  // both streams of the caller lead to one place
	within  bool  // the last line on the caller's standard error has no LF yet
}

const orderBlock = 32 << 10

func newRecording(env []string) *recording {
	dir := spoolFolder(env)
	r := &recording{order: spool{folder: dir}}
	r.streams[0].folder, r.streams[1].folder = dir, dir
	return r
}

// add appends one chunk of a stream. Calls must not overlap.
func (r *recording) add(stream int, _ time.Time, chunk []byte) {
	if (stream == 2 || r.shared) && len(chunk) > 0 {
		r.within = chunk[len(chunk)-1] != '\n'
	}
	if r.cut == nil {
		r.cut = r.turn(stream - 1)
	}
	if r.cut != nil {
		r.missed += int64(len(chunk))
		return
	}
	n, err := r.streams[r.current].Write(chunk)
	r.span += int64(n)
	if err != nil {
		r.cut = err
		r.missed += int64(len(chunk) - n)
	}
}

// turn makes stream the current one.
func (r *recording) turn(stream int) error {
	if stream == r.current {
		return nil
	}
	if len(r.tail) >= orderBlock {
		n, err := r.order.Write(r.tail)
		r.tail = r.tail[:copy(r.tail, r.tail[n:])]
		if err != nil {
			return err
		}
	}
	r.tail = binary.AppendUvarint(r.tail, uint64(r.span))
	r.current, r.span = stream, 0
	return nil
}

// spans returns the spans in order. Each iteration starts at the first span.
func (r *recording) spans() iter.Seq2[transcript.Span, error] {
	return func(yield func(transcript.Span, error) bool) {
		in := bufio.NewReader(io.MultiReader(r.order.section(), bytes.NewReader(r.tail)))
		streams := [2]transcript.Stream{transcript.Stdout, transcript.Stderr}
		for i := 0; ; i = 1 - i {
			n, err := binary.ReadUvarint(in)
			if err == io.EOF {
				break
			}
			if !yield(transcript.Span{Stream: streams[i], N: int64(n)}, err) || err != nil {
				return
			}
		}
		yield(transcript.Span{Stream: streams[r.current], N: r.span}, nil)
	}
}

// run returns the recording and the end of the command, for the log.
func (r *recording) run(argv []string, e end) transcript.Run {
	return transcript.Run{
		Argv:   argv,
		Stdout: r.streams[0].section(), Stderr: r.streams[1].section(),
		Order: r.spans(), Notes: e.notes, Code: e.code,
	}
}

// gaps describes the output that the log lacks.
func (r *recording) gaps() []string {
	if r.cut == nil {
		return nil
	}
	return []string{fmt.Sprintf("the last %d bytes of output could not be logged: %s", r.missed, reason(r.cut))}
}

func (r *recording) close() {
	r.streams[0].close()
	r.streams[1].close()
	r.order.close()
}

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
