package transcriptcmd

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript/transcripttest"
)

// TestTranscriptPieces: wherever a line is cut, its pieces make up the line. No piece ends
// within a character or a CRLF.
func TestTranscriptPieces(t *testing.T) {
	for seed := range uint64(2000) {
		var all string
		for _, c := range transcripttest.RandomChunks(rand.New(rand.NewPCG(seed, 8))) {
			all += c.Text
		}
		r := bufio.NewReaderSize(strings.NewReader(all), 16)
		for line := range strings.Lines(all) {
			var got, escaped string
			last := 0
			err := each(r, func(p piece) error {
				if p.first != (got == "" && last == 0) || len(p.text) > r.Size() {
					t.Fatalf("piece %+v of %q after %q", p, line, got)
				}
				got += string(p.text)
				escaped += screen.Plain(string(p.text))
				if p.last {
					last++
				}
				return nil
			})
			if err != nil || got != line || last != 1 || escaped != screen.Plain(line) {
				t.Fatalf("%v: %d ends, %q, escaped %q, want %q", err, last, got, escaped, line)
			}
		}
		if err := each(r, func(piece) error { return nil }); err != io.EOF {
			t.Fatalf("after the last line: %v", err)
		}
	}
}

// TestTranscriptShrinks: a log that is cut while it is read is not called bad.
func TestTranscriptShrinks(t *testing.T) {
	var log strings.Builder
	if err := transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out(strings.Repeat("line\n", 1000))}).WriteLedger(&log); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{0, 7, 100, log.Len() / 2, log.Len() - 1} {
		l := &logFile{watched: watched{ctx: t.Context(), r: strings.NewReader(log.String()[:left])}, size: int64(log.Len()), path: "a.log"}
		_, err := l.check()
		if err == nil || err.Error() != "RUN_E001: a.log: it became shorter while it was read" {
			t.Errorf("%d of %d bytes: %v", left, log.Len(), err)
		}
	}
}

// TestTranscriptChanges: a log that somebody writes to after its check is not called bad.
func TestTranscriptChanges(t *testing.T) {
	var log strings.Builder
	if err := transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out("one\n"), transcripttest.Err("two\n")}).WriteLedger(&log); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"[SEQ=2]", "STDOUT] one"} {
		text := []byte(log.String())
		l := &logFile{watched: watched{ctx: t.Context(), r: bytes.NewReader(text)}, size: int64(len(text)), path: "a.log"}
		opened, err := l.check()
		if err != nil {
			t.Fatal(err)
		}
		text[strings.Index(log.String(), change)+1] = '_'
		if _, err := lineCounts(opened); err == nil || l.unread(err).Error() != "RUN_E001: a.log: it changed while it was read" {
			t.Errorf("%q: %v", change, err)
		}
	}
}
