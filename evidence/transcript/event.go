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

// event is an event line. Its text is valid until the next one is read.
type event struct {
	off    int64 // where the line begins in the log
	seq    int64
	stream Stream
	place  place
	text   []byte
}

// place is where an event stands among the others. The order of the values is that of
// the log.
type place uint8

const (
	nowhere place = iota
	start         // META, the first
	output
	note // META
	exit // META, the last
)

// scan reads the events, each a correct line in its correct place, and the end of the
// log.
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

// parse takes a line apart, without its LF, and says what is wrong with it. It is to
// begin with head, and after is the place of the event before it.
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

// cut takes a prefix away.
func cut(b *[]byte, prefix string) (ok bool) {
	*b, ok = bytes.CutPrefix(*b, []byte(prefix))
	return ok
}

// notNext says why a line is not the event that is due.
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

// notStream says why an event is of no stream.
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

// command is the command that a start names.
func command(text string) (string, bool) {
	text, begins := strings.CutPrefix(text, startText)
	text, ends := strings.CutSuffix(text, `"`)
	return text, begins && ends
}

// exitCode is the code that an exit names.
func exitCode(text string) (int, bool) {
	text, ok := strings.CutPrefix(text, exitText)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && int64(n) <= maxCode && strconv.Itoa(n) == text
}

// follow says what is wrong with the place of an event after that of the one before it.
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

// next is the next line with its LF, or what the log ends with instead. It is valid
// until the next call.
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
