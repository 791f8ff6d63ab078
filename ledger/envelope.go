package ledger

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
)

// envelopeStart is the beginning of the pre-authentication encoding of DSSE v1.
//
// A key signs three kinds of text, which differ in their first lines. A checkpoint
// begins with the key's origin and a line feed. A seal begins with the origin, /seal and
// a line feed. Both first lines have no blank (CheckOrigin). An envelope has the blank
// of envelopeStart there.
const envelopeStart = "DSSEv1 "

var errNoEnvelope = errors.New("not the pre-authentication encoding of an envelope")

// SignEnvelope signs the pre-authentication encoding of a DSSE envelope, and refuses any
// other text. The signature is the 64 bytes of Ed25519 over exactly these bytes.
func (s *Signer) SignEnvelope(encoding []byte) ([]byte, error) {
	if !bytes.HasPrefix(encoding, []byte(envelopeStart)) {
		return nil, errNoEnvelope
	}
	return s.signer.Sign(encoding)
}

// CheckEnvelope checks the signature of the pre-authentication encoding of a DSSE
// envelope. A bad signature gives ErrBadSignature; a text that is no such encoding gives
// another error.
func (v Verifier) CheckEnvelope(encoding, sig []byte) error {
	if !bytes.HasPrefix(encoding, []byte(envelopeStart)) {
		return errNoEnvelope
	}
	if !v.verifier.Verify(encoding, sig) {
		return ErrBadSignature
	}
	return nil
}

// ID returns the name of the key: NAME+HASH, the first two parts of its text.
func (v Verifier) ID() string {
	parts := v.parts()
	return parts[0] + "+" + parts[1]
}

// PublicKey returns the key without its name.
func (v Verifier) PublicKey() ed25519.PublicKey {
	b, err := strict.Get().DecodeString(v.parts()[2])
	if err != nil {
		return nil // ParseVerifier has checked the text
	}
	return b[1:]
}

// parts returns name, hash and key; the base64 of the key may contain plus signs too.
func (v Verifier) parts() []string { return strings.SplitN(v.text, "+", 3) }
