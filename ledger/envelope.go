package ledger

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
)

// envelopeStart is what the pre-authentication encoding of DSSE v1 begins with.
//
// A key signs three kinds of text, and none of them can be taken for another: a
// checkpoint begins with the key's origin and a line feed, a seal with the origin, /seal
// and a line feed, and neither has a blank in its first line (CheckOrigin). An envelope
// has the blank of envelopeStart there.
const envelopeStart = "DSSEv1 "

var errNoEnvelope = errors.New("not the pre-authentication encoding of an envelope")

// SignEnvelope signs the pre-authentication encoding of a DSSE envelope, and nothing
// else. The signature is the 64 bytes of Ed25519 over exactly these bytes.
func (s *Signer) SignEnvelope(encoding []byte) ([]byte, error) {
	if !bytes.HasPrefix(encoding, []byte(envelopeStart)) {
		return nil, errNoEnvelope
	}
	return s.signer.Sign(encoding)
}

// CheckEnvelope checks the signature of the pre-authentication encoding of a DSSE
// envelope: it is ErrBadSignature, or another error for what is no such encoding.
func (v Verifier) CheckEnvelope(encoding, sig []byte) error {
	if !bytes.HasPrefix(encoding, []byte(envelopeStart)) {
		return errNoEnvelope
	}
	if !v.verifier.Verify(encoding, sig) {
		return ErrBadSignature
	}
	return nil
}

// ID names the key: NAME+HASH, the first two parts of its text.
func (v Verifier) ID() string {
	parts := v.parts()
	return parts[0] + "+" + parts[1]
}

// PublicKey is the key without its name.
func (v Verifier) PublicKey() ed25519.PublicKey {
	b, err := strict.DecodeString(v.parts()[2])
	if err != nil {
		return nil // ParseVerifier has read it
	}
	return b[1:]
}

// parts are name, hash and key; base64 may have plus signs too.
func (v Verifier) parts() []string { return strings.SplitN(v.text, "+", 3) }
