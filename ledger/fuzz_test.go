package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
)

// FuzzParseRecord: every record that is read is written with the same bytes, and is
// canonical.
func FuzzParseRecord(f *testing.F) {
	for _, r := range ofEachKind() {
		if strings.HasPrefix(r.Key, "=") {
			r.Origin, r.Key = testOrigin, newSigner(f, 1).Verifier().String()
		}
		if r.Kind != KindGenesis {
			r.Origin = ""
		}
		entry, err := r.Entry()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(entry)
	}
	f.Add([]byte(`{"kind":"repair","repairs":[],"timestamp":"2026-03-01T10:00:00.000Z"}`))
	f.Fuzz(func(t *testing.T, entry []byte) {
		r, err := ParseRecord(entry)
		if err != nil {
			if !errors.Is(err, ErrRecord) || r.Kind != "" {
				t.Fatalf("%+v, %v", r, err)
			}
			return
		}
		again, err := r.Entry()
		if err != nil || !bytes.Equal(again, entry) {
			t.Fatalf("%q is written as %q (%v)", entry, again, err)
		}
		if doc, err := canon.Parse(entry, MaxEntryBytes); err != nil || !bytes.Equal(doc.Bytes(), entry) {
			t.Fatalf("%q is not canonical (%v)", entry, err)
		}
	})
}

// FuzzSkim: the reader of our own layout agrees with ParseRecord.
func FuzzSkim(f *testing.F) {
	for _, entry := range decisions() {
		f.Add(entry)
	}
	for _, r := range ofEachKind() {
		entry, err := r.text()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry []byte) { agree(t, entry) })
}

// FuzzParseLine: every line that is read is written with the same bytes.
func FuzzParseLine(f *testing.F) {
	s := newSigner(f, 1)
	b := newBook(f, s)
	b.decide(s, "1")
	for _, line := range b.lines {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"_seal":{"root":"","sig":"","size":1},"a":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLine(text)
		if err != nil {
			if !errors.Is(err, ErrLine) {
				t.Fatal(err)
			}
			return
		}
		if again := l.Append(nil); !bytes.Equal(again[:len(again)-1], text) {
			t.Fatalf("%q is written as %q", text, again)
		}
	})
}

// FuzzParseCheckpoint: a checkpoint that is read has the text of its members, and
// opening it fails only in known ways.
func FuzzParseCheckpoint(f *testing.F) {
	s := newSigner(f, 1)
	f.Add(checkpointOf(f, s, 7).Note)
	f.Add(checkpointOf(f, s, 1<<40).Note)
	f.Add([]byte("a\n0\n" + strings.Repeat("A", 43) + "=\n\n\u2014 a AAAAAAA=\n"))
	keys := Keys{{Size: 1, Key: s.Verifier()}}
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, err := ParseCheckpoint(msg)
		if err != nil {
			if !errors.Is(err, ErrCheckpoint) {
				t.Fatal(err)
			}
			return
		}
		text := c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n\n"
		if !bytes.Equal(c.Note, msg) || !strings.HasPrefix(string(msg), text) || CheckOrigin(c.Origin) != nil {
			t.Fatalf("%q is read as %+v", msg, c)
		}
		if opened, err := keys.OpenCheckpoint(msg); err == nil && opened.Root != c.Root ||
			err != nil && !errors.Is(err, ErrCheckpoint) && !errors.Is(err, ErrUnknownKey) && !errors.Is(err, ErrBadSignature) {
			t.Fatalf("%+v, %v", opened, err)
		}
	})
}

// FuzzParseProof: every proof that is read is written with the same bytes.
func FuzzParseProof(f *testing.F) {
	s := newSigner(f, 1)
	note := checkpointOf(f, s, 3).Note
	f.Add(Proof{Index: 2, Entry: []byte(`{"a":1}`), Path: tlog.RecordProof{{1}, {2}}, Note: note}.Marshal())
	f.Add(Proof{Note: note}.Marshal())
	f.Add([]byte(proofHeader + "extra QUJD\r\nindex 0\n\n" + string(note)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProof(text)
		if err != nil {
			if !errors.Is(err, ErrProof) && !errors.Is(err, ErrCheckpoint) {
				t.Fatal(err)
			}
			return
		}
		if again := p.Marshal(); !bytes.Equal(again, text) {
			t.Fatalf("%q is written as %q", text, again)
		}
	})
}
