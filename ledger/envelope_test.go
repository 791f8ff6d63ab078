package ledger

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestEnvelopeSignatures: a key signs envelopes, any Ed25519 implementation can check
// them, and the signature of one kind of text is invalid for every other kind.
func TestEnvelopeSignatures(t *testing.T) {
	// Some of 100 keys have a plus sign in their base64.
	for seed := range uint64(100) {
		source := rand.NewChaCha8([32]byte{byte(seed)})
		private, text, err := GenerateKey(source, "example.com/pack")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		v := s.Verifier()
		if want := strings.Join(strings.SplitN(text, "+", 3)[:2], "+"); v.ID() != want {
			t.Fatalf("the id of %q is %q", text, v.ID())
		}
		encoding := []byte("DSSEv1 1 a 2 bc")
		sig, err := s.SignEnvelope(encoding)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.CheckEnvelope(encoding, sig); err != nil {
			t.Error(err)
		}
		if !ed25519.Verify(v.PublicKey(), encoding, sig) {
			t.Error("the signature is none of Ed25519")
		}
		for _, wrong := range [][]byte{nil, sig[1:], append(bytes.Clone(sig), 0), make([]byte, 64)} {
			if err := v.CheckEnvelope(encoding, wrong); !errors.Is(err, ErrBadSignature) {
				t.Errorf("the signature %x gives %v", wrong, err)
			}
		}
		if err := v.CheckEnvelope([]byte("DSSEv1 1 a 2 bd"), sig); !errors.Is(err, ErrBadSignature) {
			t.Errorf("another text gives %v", err)
		}
	}
}

// TestEnvelopesApart: the beginning of a note is not signed as an envelope, and no
// envelope is the beginning of a note.
func TestEnvelopesApart(t *testing.T) {
	s := newSignerOf(t, "DSSEv1", 1)
	v := s.Verifier()
	for _, text := range []string{"", "DSSEv1", "DSSEv1\n1\n", "example.com/log\n", string(treeText("DSSEv1", 1, tlog.Hash{}))} {
		if _, err := s.SignEnvelope([]byte(text)); err == nil {
			t.Errorf("%q was signed", text)
		}
		if err := v.CheckEnvelope([]byte(text), make([]byte, 64)); err == nil || errors.Is(err, ErrBadSignature) {
			t.Errorf("%q gives %v", text, err)
		}
	}
	if err := CheckOrigin("DSSEv1 1"); err == nil {
		t.Error("an origin can begin like an envelope")
	}
	seal, err := s.Seal(1, tlog.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.CheckEnvelope([]byte("DSSEv1 1 a 1 b"), seal.Sig[4:]); !errors.Is(err, ErrBadSignature) {
		t.Errorf("the signature of a seal gives %v", err)
	}
}
