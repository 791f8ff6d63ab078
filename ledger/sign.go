package ledger

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"filippo.io/edwards25519"
	"golang.org/x/mod/sumdb/note"
)

// signingKey is a note.Signer with the same signatures as crypto/ed25519, byte for byte
// (RFC 8032, 5.1.6; TestSignsAlike). The standard library makes a table for its first
// signature. The table is useful for many signatures. A process that signs three times
// and ends spent a third of its time on the table.
type signingKey struct {
	name   string
	id     uint32
	scalar *edwards25519.Scalar
	prefix []byte
	public []byte
}

var errNoSigner = errors.New("not a private key of a ledger: it begins with PRIVATE+KEY+ and is one line")

// algEd25519 is the kind of a key in signed notes: Ed25519.
const algEd25519 = 1

// parseSigningKey reads PRIVATE+KEY+NAME+ID+BASE64. It returns the verifier key too.
func parseSigningKey(private string) (*signingKey, Verifier, error) {
	parts := strings.SplitN(private, "+", 5) // base64 may contain more plus signs
	if len(parts) != 5 || parts[0] != "PRIVATE" || parts[1] != "KEY" {
		return nil, Verifier{}, errNoSigner
	}
	id, err := hex.DecodeString(parts[3])
	if err != nil || len(id) != 4 {
		return nil, Verifier{}, errNoSigner
	}
	seed, err := strict.Get().DecodeString(parts[4])
	if err != nil || len(seed) != 1+32 || seed[0] != algEd25519 {
		return nil, Verifier{}, errNoSigner
	}
	k, err := newSigningKey(seed[1:])
	if err != nil {
		return nil, Verifier{}, errNoSigner
	}
	k.name, k.id = parts[2], binary.BigEndian.Uint32(id)
	v, err := ParseVerifier(k.name + "+" + parts[3] + "+" + base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, k.public...)))
	if err != nil { // for example, the id does not fit the name and the public key
		return nil, Verifier{}, errNoSigner
	}
	return k, v, nil
}

func newSigningKey(seed []byte) (*signingKey, error) {
	h := sha512.Sum512(seed)
	s, err := edwards25519.NewScalar().SetBytesWithClamping(h[:32])
	if err != nil {
		return nil, err
	}
	return &signingKey{scalar: s, prefix: h[32:], public: timesBase(s).Bytes()}, nil
}

// timesBase multiplies the generator in constant time, without the table of
// ScalarBaseMult.
func timesBase(s *edwards25519.Scalar) *edwards25519.Point {
	return new(edwards25519.Point).ScalarMult(s, edwards25519.NewGeneratorPoint())
}

var _ note.Signer = (*signingKey)(nil)

// Name returns the origin of the log.
func (k *signingKey) Name() string { return k.name }

// KeyHash returns the id of the key.
func (k *signingKey) KeyHash() uint32 { return k.id }

// Sign signs a text.
func (k *signingKey) Sign(text []byte) ([]byte, error) {
	r, err := digestScalar(k.prefix, text)
	if err != nil {
		return nil, err
	}
	point := timesBase(r).Bytes()
	c, err := digestScalar(point, k.public, text)
	if err != nil {
		return nil, err
	}
	s := edwards25519.NewScalar().MultiplyAdd(c, k.scalar, r)
	return append(point, s.Bytes()...), nil
}

// digestScalar returns the SHA-512 of some bytes, as a scalar.
func digestScalar(parts ...[]byte) (*edwards25519.Scalar, error) {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	return edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
}
