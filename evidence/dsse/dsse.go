// Package dsse reads, signs and checks DSSE envelopes: a payload of one type, with
// signatures of ledger keys. It owns the form of an envelope and its limits, and knows
// nothing about what a payload says.
package dsse

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fiador/fiador/ledger"
)

// ErrOtherPayload says that other keys have signed a different payload.
var ErrOtherPayload = errors.New("others have signed another payload")

// ErrNotSigned says that no signature is of the key.
var ErrNotSigned = errors.New("not signed by the key")

// Envelope is a payload and its signatures. A key has one signature.
type Envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []Signature // in the order in which the keys signed for the first time
}

// Signature is the signature of one key.
type Signature struct {
	KeyID string // as of [ledger.Verifier.ID]
	Sig   []byte
}

// Document is the JSON form of an envelope. Bytes are in standard base64.
type Document struct {
	Payload     string              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []SignatureDocument `json:"signatures"`
}

// SignatureDocument is the JSON form of a signature.
type SignatureDocument struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Encoding returns the signed bytes: the pre-authentication encoding of DSSE v1.
func Encoding(payloadType string, payload []byte) []byte {
	b := []byte("DSSEv1 ")
	b = append(strconv.AppendInt(b, int64(len(payloadType)), 10), ' ')
	b = append(append(b, payloadType...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// Sign gives the envelope a payload and the signature of key. A signature of the same
// key is replaced, and the signatures of other keys stay. Other keys must have signed
// the same payload, else the error is ErrOtherPayload. The same envelope, payload and
// key give the same signature. After an error the envelope is unchanged.
func (e *Envelope) Sign(payload []byte, key *ledger.Signer) error {
	id := key.Verifier().ID()
	if len(id) > maxKeyIDBytes {
		return fmt.Errorf("the id of the key has more than %d bytes", maxKeyIDBytes)
	}
	sig, err := key.SignEnvelope(Encoding(e.PayloadType, payload))
	if err != nil {
		return err
	}
	mine := e.of(id)
	if !bytes.Equal(e.Payload, payload) && (len(e.Signatures) > 1 || len(e.Signatures) == 1 && mine < 0) {
		return ErrOtherPayload
	}
	switch {
	case mine >= 0:
		e.Signatures[mine].Sig = sig
	case len(e.Signatures) == MaxSignatures:
		return fmt.Errorf("it has %d signatures, the most that there can be", MaxSignatures)
	default:
		e.Signatures = append(e.Signatures, Signature{id, sig})
	}
	e.Payload = payload
	return nil
}

// Check checks the signature of a key, and returns its index. The error is ErrNotSigned,
// with index -1, if no signature is of the key. It is [ledger.ErrBadSignature] if the
// signature is not one of this payload and its type.
func (e Envelope) Check(key ledger.Verifier) (index int, err error) {
	i := e.of(key.ID())
	if i < 0 {
		return i, ErrNotSigned
	}
	return i, key.CheckEnvelope(Encoding(e.PayloadType, e.Payload), e.Signatures[i].Sig)
}

// Signers returns the ids of the keys that have a signature, in the order of the
// signatures. Signers checks no signature.
func (e Envelope) Signers() []string {
	var ids []string
	for _, s := range e.Signatures {
		ids = append(ids, s.KeyID)
	}
	return ids
}

// of returns the index of a key's signature, or -1.
func (e Envelope) of(keyID string) int {
	return slices.IndexFunc(e.Signatures, func(s Signature) bool { return s.KeyID == keyID })
}

// Document returns the JSON form of the envelope.
func (e Envelope) Document() Document {
	signatures := make([]SignatureDocument, len(e.Signatures))
	for i, s := range e.Signatures {
		signatures[i] = SignatureDocument{s.KeyID, base64.StdEncoding.EncodeToString(s.Sig)}
	}
	return Document{base64.StdEncoding.EncodeToString(e.Payload), e.PayloadType, signatures}
}
