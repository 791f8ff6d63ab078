package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/lazy"
)

// MaxLineBytes is more than any line can have, its line feed included.
const MaxLineBytes = MaxEntryBytes + 512

// MaxTornBytes is the maximum number of bytes that an interrupted append leaves after
// the last line: a line without its line feed.
const MaxTornBytes = MaxLineBytes - 1

// Seal proves that a line is complete, and names the tree that the line ends.
type Seal struct {
	Root tlog.Hash // of the tree whose last leaf is the line's entry
	Sig  Signature // over the seal's note
	Size int64     // of that tree
}

// Signature is a note signature: the key id, big-endian, and the 64 bytes of Ed25519.
type Signature [4 + 64]byte

// Line is a line of ledger.jsonl: a seal and an entry.
type Line struct {
	Seal  Seal
	Entry []byte
}

// The parts of a line around what changes. A member that begins with "_" sorts before
// all others of a record, so the line is a canonical object too.
const (
	sealRoot = `{"_seal":{"root":"`
	sealSig  = `","sig":"`
	sealSize = `","size":`
	sealEnd  = `},`
)

// Append appends the line and its line feed to dst.
func (l Line) Append(dst []byte) []byte {
	dst = append(dst, sealRoot...)
	dst = base64.StdEncoding.AppendEncode(dst, l.Seal.Root[:])
	dst = append(dst, sealSig...)
	dst = base64.StdEncoding.AppendEncode(dst, l.Seal.Sig[:])
	dst = append(dst, sealSize...)
	dst = strconv.AppendInt(dst, l.Seal.Size, 10)
	dst = append(dst, sealEnd...)
	dst = append(dst, l.Entry[1:]...)
	return append(dst, '\n')
}

// Every error of ParseLine wraps ErrLine.
var ErrLine = errors.New("not a ledger line")

// ParseLine reads a line without its line feed. It does not read the entry; ParseRecord
// does. The result keeps no reference to b.
func ParseLine(b []byte) (Line, error) {
	seal, at, err := parseSeal(b)
	if err != nil {
		return Line{}, err
	}
	l := Line{Seal: seal, Entry: make([]byte, 0, len(b)-at+1)}
	l.Entry = append(append(l.Entry, '{'), b[at:]...)
	return l, nil
}

// parseSeal reads the seal of a line, and returns where the members of the record begin.
func parseSeal(b []byte) (Seal, int, error) {
	bad := func(what string) (Seal, int, error) { return Seal{}, 0, fmt.Errorf("%w: %s", ErrLine, what) }
	var seal Seal
	rest, ok := bytes.CutPrefix(b, []byte(sealRoot))
	if !ok {
		return bad("it does not begin with a seal")
	}
	if rest, ok = exactly(rest, seal.Root[:]); !ok {
		return bad("the root of its seal is not a hash in base64")
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(sealSig)); !ok {
		return bad("its seal has no signature")
	}
	if rest, ok = exactly(rest, seal.Sig[:]); !ok {
		return bad("the signature of its seal is not one in base64")
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(sealSize)); !ok {
		return bad("its seal has no size")
	}
	s := scanner{text: string(rest[:min(len(rest), maxSize)])}
	if seal.Size, ok = s.number(); !ok || seal.Size == 0 || !s.next(sealEnd) {
		return bad("the size of its seal is not a number from 1 on")
	}
	rest = rest[s.at:]
	if len(rest) < 2 || rest[0] != '"' || rest[len(rest)-1] != '}' {
		return bad("no record follows its seal")
	}
	if len(rest)+1 > MaxEntryBytes {
		return bad("its record is too long")
	}
	return seal, len(b) - len(rest), nil
}

// maxSize is enough space for a size and what ends a seal.
const maxSize = 32

// exactly decodes base64 of exactly as many bytes as to has. It accepts one spelling.
func exactly(b, to []byte) ([]byte, bool) {
	n := base64.StdEncoding.EncodedLen(len(to))
	if len(b) < n {
		return nil, false
	}
	var room [base64Room]byte
	got, err := strict.Get().Decode(room[:], b[:n])
	if err != nil || got != len(to) {
		return nil, false
	}
	copy(to, room[:])
	return b[n:], true
}

// strict refuses padding bits that are not zero.
var strict = lazy.Value[*base64.Encoding]{Make: func() *base64.Encoding { return base64.StdEncoding.Strict() }}

// base64Room is enough space for a decoded signature.
const base64Room = 72

// LeafHash returns the hash of an entry in the tree: SHA-256 of a zero byte and the
// entry (RFC 6962, 2.1).
func LeafHash(entry []byte) tlog.Hash { return tlog.RecordHash(entry) }
