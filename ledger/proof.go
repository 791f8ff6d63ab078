package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// proofHeader is the first line of a proof (C2SP tlog-proof).
const proofHeader = "c2sp.org/tlog-proof@v1\n"

// Proof proves that an entry is in the log. To check it, the log's verifier key is
// enough. Its form is C2SP tlog-proof, with the entry itself as its extra data.
type Proof struct {
	Index int64
	Entry []byte
	Path  tlog.RecordProof
	Note  []byte // a checkpoint that covers the entry
}

// Marshal returns the proof as a text.
func (p Proof) Marshal() []byte {
	b := append([]byte(proofHeader), "extra "...)
	b = base64.StdEncoding.AppendEncode(b, p.Entry)
	b = append(b, "\nindex "...)
	b = append(strconv.AppendInt(b, p.Index, 10), '\n')
	for _, h := range p.Path {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), p.Note...)
}

// MaxProofBytes is the maximum size of a proof.
const MaxProofBytes = MaxCheckpointBytes + 2*MaxEntryBytes + 64*48

// Every error about a proof's form or its hashes wraps ErrProof.
var ErrProof = errors.New("not a proof")

// ParseProof reads a proof and checks only its form. Marshal writes the result with the
// same bytes.
func ParseProof(text []byte) (Proof, error) {
	bad := func(what string) (Proof, error) { return Proof{}, fmt.Errorf("%w: %s", ErrProof, what) }
	if len(text) > MaxProofBytes {
		return bad("too long")
	}
	rest, ok := bytes.CutPrefix(text, []byte(proofHeader))
	if !ok {
		return bad("its first line is not c2sp.org/tlog-proof@v1")
	}
	var p Proof
	line, rest, _ := bytes.Cut(rest, []byte("\n"))
	extra, ok := bytes.CutPrefix(line, []byte("extra "))
	if !ok {
		return bad("it does not carry the entry (no line extra)")
	}
	var err error
	p.Entry, err = strict.Get().AppendDecode(nil, extra)
	if err != nil || base64.StdEncoding.EncodedLen(len(p.Entry)) != len(extra) { // the decoder skips carriage returns
		return bad("the entry that it carries is not base64")
	}
	line, rest, _ = bytes.Cut(rest, []byte("\n"))
	number, named := bytes.CutPrefix(line, []byte("index "))
	s := scanner{text: string(number)}
	if p.Index, ok = s.number(); !ok || !named || s.at != len(number) {
		return bad("it has no index")
	}
	for {
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		if !ok || len(p.Path) > 64 {
			return bad("its hashes do not end with an empty line")
		}
		if len(line) == 0 {
			break
		}
		var h tlog.Hash
		if tail, ok := exactly(line, h[:]); !ok || len(tail) > 0 {
			return bad("a line among its hashes is no hash")
		}
		p.Path = append(p.Path, h)
	}
	p.Note = bytes.Clone(rest)
	if _, err := ParseCheckpoint(p.Note); err != nil {
		return Proof{}, err
	}
	return p, nil
}

// CheckProof checks a proof completely. It returns the proved record and the checkpoint
// that covers it.
func (k Keys) CheckProof(p Proof) (Record, Checkpoint, error) {
	c, err := k.OpenCheckpoint(p.Note)
	if err != nil {
		return Record{}, Checkpoint{}, err
	}
	if p.Index >= c.Size {
		return Record{}, Checkpoint{}, fmt.Errorf("%w: its index %d is not below the size %d of its checkpoint", ErrProof, p.Index, c.Size)
	}
	if err := tlog.CheckRecord(p.Path, c.Size, c.Root, p.Index, LeafHash(p.Entry)); err != nil {
		return Record{}, Checkpoint{}, fmt.Errorf("%w: its hashes do not lead from the entry to the root of the checkpoint", ErrProof)
	}
	r, err := ParseRecord(p.Entry)
	return r, c, err
}
