package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Ack is the promise of a server that an entry is durable at its index. It proves that the
// server broke the promise if the log has another entry there.
type Ack struct {
	Origin string
	Index  int64
	Leaf   tlog.Hash // the leaf hash of the entry
	Note   []byte    // the whole signed note
}

// MaxAckBytes is the maximum size of an ack.
const MaxAckBytes = 1024

// ErrAck is wrapped by all errors about the form of an ack.
var ErrAck = errors.New("not an ack")

// Ack signs the promise about an entry.
func (s *Signer) Ack(index int64, leaf tlog.Hash) (Ack, error) {
	text, err := note.Sign(&note.Note{Text: string(treeText(s.Origin()+ackSuffix, index, leaf))}, s.signer)
	return Ack{Origin: s.Origin(), Index: index, Leaf: leaf, Note: text}, err
}

// IsAck says whether a text seems to be an ack, and not a proof.
func IsAck(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return bytes.HasSuffix(line, []byte(ackSuffix))
}

// ParseAck reads an ack without checking its signature.
func ParseAck(msg []byte) (Ack, error) {
	bad := func(what string) (Ack, error) { return Ack{}, fmt.Errorf("%w: %s", ErrAck, what) }
	if len(msg) > MaxAckBytes {
		return bad("too long")
	}
	lines, what := noteLines(msg)
	if what != "" {
		return bad(what)
	}
	origin, named := strings.CutSuffix(lines[0], ackSuffix)
	if len(lines) != 3 || !named || CheckOrigin(origin) != nil {
		return bad("its text has three lines: the origin with " + ackSuffix + ", index and leaf hash")
	}
	a, ok := Ack{Origin: origin, Note: bytes.Clone(msg)}, false
	if a.Index, ok = wholeNumber(lines[1]); !ok {
		return bad("its second line is not an index")
	}
	if rest, ok := exactly([]byte(lines[2]), a.Leaf[:]); !ok || len(rest) > 0 {
		return bad("its third line is not a hash in base64")
	}
	return a, nil
}

// OpenAck reads an ack and checks the signature by the log's key for its index, or by a later
// key of the log: a server that is asked again after a rotation has no other.
func (k Keys) OpenAck(msg []byte) (Ack, error) {
	a, err := ParseAck(msg)
	if err != nil {
		return Ack{}, err
	}
	err = k.signed("ack", ErrAck, msg, a.Origin, a.Index+1)
	for _, later := range k {
		if errors.Is(err, ErrUnknownKey) && later.Size > a.Index+1 {
			err = k.signed("ack", ErrAck, msg, a.Origin, later.Size)
		}
	}
	if err != nil {
		return Ack{}, err
	}
	return a, nil
}
