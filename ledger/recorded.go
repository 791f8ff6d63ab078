package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
)

// Recorded is the answer of a server to a draft.
type Recorded struct {
	Ack   string `json:"ack"`
	Again bool   `json:"again"` // the log had the record already
	Entry string `json:"entry"`
	Index int64  `json:"index"`
}

// MaxRecordedBytes is the maximum size of the answer to a draft.
const MaxRecordedBytes = 2*MaxEntryBytes + MaxAckBytes + 256

// ErrAnswer is wrapped by errors about an answer of a server.
var ErrAnswer = errors.New("the server answered what no right server answers")

// CheckRecorded holds the answer to a draft against the record that was sent, and its ack
// against the keys of the log.
func (k Keys) CheckRecorded(rec Record, draft, body []byte) (Receipt, error) {
	wrong := func(what string) (Receipt, error) { return Receipt{}, fmt.Errorf("%w: %s", ErrAnswer, what) }
	var doc Recorded
	err := json.Unmarshal(body, &doc)
	// The answer is canonical, with exactly these members: it is what is written of them.
	if written, _, failed := canon.Artifact(doc); err != nil || failed != nil || !bytes.Equal(written, body) {
		return wrong("to a record, what is no answer to one")
	}
	got, err := ParseRecord([]byte(doc.Entry))
	if err != nil {
		return wrong("an entry that is no record")
	}
	if has, err := got.Draft(); doc.Again {
		if same, err := rec.After(got, doc.Index); err != nil || !same {
			return wrong("the record of another run")
		}
	} else if err != nil || !bytes.Equal(has, draft) || got.Submitter == "" {
		return wrong("an entry that is not the record that was sent")
	}
	ack, err := k.OpenAck([]byte(doc.Ack))
	switch {
	case errors.Is(err, ErrUnknownKey):
		return Receipt{}, fmt.Errorf("the ack: %w", err)
	case err != nil:
		return wrong("an ack that is none: " + err.Error())
	case ack.Index != doc.Index || ack.Leaf != LeafHash([]byte(doc.Entry)):
		return wrong("an ack of another entry")
	}
	return Receipt{Index: doc.Index, Record: got, Again: doc.Again, Ack: &ack}, nil
}
