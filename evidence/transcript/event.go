package transcript

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// event is an event line. Its text is valid until the next line is read.
type event struct {
	off    int64 // where the line begins in the log
	seq    int64
	stream Stream
	place  place
	text   []byte
}

// place is the place of an event in the log. The values are in the order of the log.
type place uint8

const (
	nowhere place = iota
	start         // META, the first
	output
	note // META
	exit // META, the last
)

// scan reads the events and the end of the log. It checks that each event is a correct
// line in its correct place.
func (l *Log) scan() iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		in := lines{off: l.events, size: l.size}
		in.r = bufio.NewReaderSize(io.NewSectionReader(l.r, l.events, l.size-l.events), l.piece)
		var last event
		var head []byte
		for {
			off := in.off
			line, err := in.next()
			if err != nil {
				yield(event{}, err)
				return
			}
			if string(line) == endMarker {
				if last.place != exit {
					yield(event{}, &FormatError{off, 0, `the events end without "` + exitPrefix + `"`})
				} else if in.off < l.size {
					yield(event{}, &FormatError{in.off, 0, `the log goes on behind "--- END EVENTS ---"`})
				}
				return
			}
			text, whole := bytes.CutSuffix(line, []byte("\n"))
			if !whole {
				yield(event{}, &FormatError{l.size, 0, `there is no "--- END EVENTS ---": the log is cut off`})
				return
			}
			e := event{off: off, seq: last.seq + 1}
			head = append(strconv.AppendInt(append(head[:0], "[SEQ="...), e.seq, 10), "]["...)
			if msg := e.parse(text, head, last.place); msg != "" {
				yield(event{}, &FormatError{e.off, e.seq, msg})
				return
			}
			if !yield(e, nil) {
				return
			}
			last = e
		}
	}
}

// parse parses a line without its LF, and says what is wrong with it. The line must
// begin with head. after is the place of the event before.
func (e *event) parse(line, head []byte, after place) string {
	rest, ok := bytes.CutPrefix(line, head)
	if !ok {
		return notNext(line, e.seq)
	}
	switch {
	case cut(&rest, "STDOUT] "):
		e.stream, e.place = Stdout, output
	case cut(&rest, "STDERR] "):
		e.stream, e.place = Stderr, output
	case cut(&rest, "META] "):
		e.stream, e.place = Meta, note
	default:
		return notStream(rest)
	}
	if e.text = rest; !utf8.Valid(rest) {
		return "the text is not valid UTF-8"
	}
	if e.stream == Meta {
		if msg := e.meta(string(rest)); msg != "" {
			return msg
		}
	}
	return e.follow(after)
}

// cut removes a prefix.
func cut(b *[]byte, prefix string) (ok bool) {
	*b, ok = bytes.CutPrefix(*b, []byte(prefix))
	return ok
}

// notNext says why a line is not the expected event.
func notNext(line []byte, due int64) string {
	rest, ok := bytes.CutPrefix(line, []byte("[SEQ="))
	digits, _, closed := bytes.Cut(rest, []byte("]["))
	if !ok || !closed {
		return brief(line) + " is not an event"
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(digits) {
		return "the number " + brief(digits) + " is not a canonical decimal one"
	}
	return "number " + strconv.FormatInt(n, 10) + " where " + strconv.FormatInt(due, 10) + " is due"
}

// notStream says why an event belongs to no stream.
func notStream(rest []byte) string {
	name, after, closed := bytes.Cut(rest, []byte("]"))
	switch s := string(name); {
	case !closed || s != "META" && s != "STDOUT" && s != "STDERR":
		return brief(name) + " is not a stream"
	case len(after) > 0:
		return "no blank before the text " + brief(after)
	}
	return "no blank after the stream: blanks at the ends of lines have been taken away"
}

// brief quotes the beginning of a text.
func brief(text []byte) string {
	const most = 40
	if len(text) <= most {
		return strconv.Quote(string(text))
	}
	return strconv.Quote(string(text[:most])) + "..."
}

// meta finds the place of a META event.
func (e *event) meta(text string) string {
	switch {
	case textLen(text) < len(text):
		return "a META line with a control character"
	case strings.HasPrefix(text, startPrefix):
		e.place = start
		if _, ok := command(text); !ok {
			return "the start is not " + startText + `..."`
		}
	case strings.HasPrefix(text, exitPrefix):
		e.place = exit
		if _, ok := exitCode(text); !ok {
			return "the exit is not " + exitText + "N with N from 0 to 4294967295"
		}
	}
	return ""
}

// command returns the command in a start.
func command(text string) (string, bool) {
	text, begins := strings.CutPrefix(text, startText)
	text, ends := strings.CutSuffix(text, `"`)
	return text, begins && ends
}

// exitCode returns the code in an exit.
func exitCode(text string) (int, bool) {
	text, ok := strings.CutPrefix(text, exitText)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && int64(n) <= maxCode && strconv.Itoa(n) == text
}

// follow says why an event cannot follow the event before it.
func (e *event) follow(last place) string {
	switch {
	case last == nowhere && e.place != start:
		return `the first event is not "` + startPrefix + `"`
	case last != nowhere && e.place == start:
		return "a second start"
	case last == exit:
		return "an event after the exit"
	case e.place < last:
		return "output after a META line"
	}
	return ""
}

// lines reads lines of any length.
type lines struct {
	r    *bufio.Reader
	off  int64 // of the next line
	size int64 // of the log
	long []byte
}

// next returns the next line with its LF, or the rest of the log if that has no LF. The
// result is valid until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = l.long[:0]
		for err == bufio.ErrBufferFull {
			l.long = append(l.long, line...)
			line, err = l.r.ReadSlice('\n')
		}
		l.long = append(l.long, line...)
		line = l.long
	}
	l.off += int64(len(line))
	if err == io.EOF {
		if err = nil; l.off < l.size {
			err = readError("the log", l.off, io.EOF)
		}
	} else if err != nil {
		err = readError("the log", l.off, err)
	}
	return line, err
}
