package transcript

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// agree compares the events with the sections and finds the places of the sections.
// Standard error begins where the events of standard output end. agree does not search a
// section for a marker, because a command can write a marker too. end is the beginning
// of the marker before the events.
func (l *Log) agree(end int64) error {
	from := int64(len(stdoutHeader))
	out := tally{window: window{r: l.r, size: end, most: l.piece, name: "the log"}, stream: Stdout, pos: from}
	var last int64 // number of the last event of standard error
	for e, err := range l.scan() {
		if err == nil && e.stream == Stdout {
			err = out.add(e)
		}
		if err != nil {
			return err
		}
		switch e.place {
		case start:
			l.command, _ = command(string(e.text))
		case note:
			l.notes = append(l.notes, string(e.text))
		case exit:
			l.code, _ = exitCode(string(e.text))
		case output:
			if e.stream == Stderr {
				last = e.seq
			}
		}
	}
	if ends, err := out.ends(stderrHeader); err != nil {
		return err
	} else if !ends {
		return out.fault(`by the events STDOUT ends here, and no "=== STDERR ===" follows`)
	}
	l.stdout = extent{from, out.pos - from}
	from = out.pos + int64(len(stderrHeader))
	errs := tally{window: out.window, stream: Stderr, pos: from}
	for e, err := range l.scan() {
		if e.seq > last {
			break
		}
		if err == nil && e.stream == Stderr {
			err = errs.add(e)
		}
		if err != nil {
			return err
		}
	}
	errs.size = l.events
	if ends, err := errs.ends(beginMarker); err != nil {
		return err
	} else if !ends || errs.pos != end {
		return errs.fault("by the events STDERR ends here, and its section goes on")
	}
	l.stderr = extent{from, end - from}
	return inOrder(out, errs)
}

// inOrder checks that a last line without LF comes after the end of both streams, that
// of standard output first.
func inOrder(out, errs tally) error {
	const msg = "a line without LF comes before a line with LF"
	if errs.bare && out.seq > errs.seq {
		return &FormatError{errs.off, errs.seq, msg}
	}
	if out.bare && errs.seq > out.seq && !(errs.bare && errs.seq == out.seq+1) {
		return &FormatError{out.off, out.seq, msg}
	}
	return nil
}

// tally is the walk through a section, along the events of its stream.
type tally struct {
	window
	stream Stream
	pos    int64 // after the text of the last event
	off    int64 // of the last event, in the log
	seq    int64 // its number; 0: no event
	coded  bool  // its text is in base64
	cr     bool  // its text ends in CR and is not in base64
	empty  bool
	bare   bool // its line has no LF
	room   []byte
}

func (t *tally) fault(msg string) error { return &FormatError{t.pos, t.seq, msg} }

// add handles the next event.
func (t *tally) add(e event) error {
	if t.seq > 0 {
		if err := t.newline(); err != nil {
			return err
		}
	}
	t.off, t.seq = e.off, e.seq
	text := e.text
	if text, t.coded = bytes.CutPrefix(text, []byte(label)); t.coded {
		var err error
		t.room, err = decode(t.room[:0], text)
		text = t.room
		switch {
		case err != nil:
			return &FormatError{e.off, e.seq, "the text is not canonical base64"}
		case bytes.IndexByte(text, '\n') >= 0:
			return &FormatError{e.off, e.seq, "base64 of more than one line"}
		case utf8.Valid(text) && !bytes.HasPrefix(text, []byte(label)):
			return &FormatError{e.off, e.seq, "base64 of a line that is to stand as it is"}
		}
	}
	t.cr = !t.coded && bytes.HasSuffix(text, []byte("\r"))
	t.empty = len(text) == 0
	return t.match(text)
}

// match checks that the section continues with a text.
func (t *tally) match(text []byte) error {
	for len(text) > 0 {
		if t.pos >= t.size {
			return t.fault("the " + t.stream.String() + " section ends before the line of the event")
		}
		b, err := t.at(t.pos)
		if err != nil {
			return err
		}
		n := min(len(b), len(text))
		if !bytes.Equal(b[:n], text[:n]) {
			for b[0] == text[0] {
				b, text = b[1:], text[1:]
				t.pos++
			}
			return t.fault("the " + t.stream.String() + " section does not have the text of the event: " +
				brief(text[:min(len(text), 20)]) + " where the section has " + brief(b[:min(len(b), 20)]))
		}
		text = text[n:]
		t.pos += int64(n)
	}
	return nil
}

// newline reads the end of a line that is not the last line of its stream.
func (t *tally) newline() error {
	var end []byte // at most two bytes
	for off := t.pos; off < min(t.pos+2, t.size); off++ {
		b, err := t.at(off)
		if err != nil {
			return err
		}
		if end = append(end, b[0]); b[0] == '\n' {
			break
		}
	}
	return t.ended(string(end))
}

// ended handles a newline, which is LF or CRLF.
func (t *tally) ended(nl string) error {
	switch {
	case nl == "":
		return t.fault("the " + t.stream.String() + " section ends before the LF of the line")
	case nl == "\n" && t.cr:
		return t.fault("the text has the CR of a CRLF")
	case nl != "\n" && (nl != "\r\n" || t.coded):
		return t.fault("the line goes on in the " + t.stream.String() + " section with " + strconv.Quote(nl))
	}
	t.pos += int64(len(nl))
	return nil
}

// ends says whether the section ends with the last event. This is so if the mark
// follows; then ends moves to the mark.
func (t *tally) ends(mark string) (bool, error) {
	b := make([]byte, min(int64(len("\r\n")+len(mark)), max(0, t.size-t.pos)))
	if err := readAt(t.r, b, t.pos, t.name); err != nil {
		return false, err
	}
	switch at := bytes.Index(b, []byte(mark)); {
	case at == 0 && t.empty:
		return false, t.fault("an event of no line: its text is empty and there is no LF")
	case at == 0:
		t.bare = t.seq > 0
		return true, nil
	case t.seq > 0 && (at == 1 && b[0] == '\n' || at == 2 && b[0] == '\r'):
		return true, t.ended(string(b[:at]))
	}
	return false, nil
}
