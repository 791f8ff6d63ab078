package ledger

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const testOrigin = "example.com/log"

// newSigner returns the key of a number, always the same one.
func newSigner(t testing.TB, n int) *Signer { return newSignerOf(t, testOrigin, n) }

func newSignerOf(t testing.TB, origin string, n int) *Signer {
	t.Helper()
	seed := sha256.Sum256(fmt.Append(nil, "test key ", n))
	private, _, err := GenerateKey(bytes.NewReader(seed[:]), origin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeys: keys from GenerateKey can be read, and the verifier key follows from the
// private key.
func TestKeys(t *testing.T) {
	for _, origin := range []string{"a", "example.com/log", strings.Repeat("o", 128), "~!#$%&'()*,-./:;<=>?@[]^_`{|}"} {
		for range 20 { // base64 may have plus signs
			private, verifier, err := GenerateKey(rand.Reader, origin)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseSigner(private + "\n")
			if err != nil || s.Origin() != origin || s.Verifier().String() != verifier || s.Verifier().Origin() != origin {
				t.Fatalf("%s: %+v, %v", origin, s, err)
			}
			v, err := ParseVerifier(verifier)
			if err != nil || v.String() != verifier {
				t.Fatal(v, err)
			}
		}
	}
	for _, origin := range []string{"", strings.Repeat("o", 129), "a b", "a+b", `a"b`, `a\b`, "a\n", "\x7f", "ä", "a/seal", "/seal"} {
		if CheckOrigin(origin) == nil {
			t.Errorf("origin %q", origin)
		}
		if _, _, err := GenerateKey(rand.Reader, origin); err == nil {
			t.Errorf("a key of %q", origin)
		}
	}
	for _, text := range []string{"", "PRIVATE+KEY+", "PRIVATE+KEY+a+00000000+AAAA", newSigner(t, 1).Verifier().String()} {
		if _, err := ParseSigner(text); err == nil {
			t.Errorf("private key %q", text)
		}
	}
	// Package note accepts names that are no origins.
	private, verifier, err := note.GenerateKey(rand.Reader, "example.com/log/seal")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSigner(private); err == nil {
		t.Error("a private key of a name of seals")
	} else if strings.Contains(err.Error(), private[len(private)-20:]) {
		t.Error("an error tells the key")
	}
	if _, err := ParseVerifier(verifier); err == nil {
		t.Error("a verifier key of a name of seals")
	}
}

// TestVerifierSpelling: a verifier key has one spelling, because keys are compared as
// texts.
func TestVerifierSpelling(t *testing.T) {
	good := newSigner(t, 1).Verifier().String()
	parts := strings.SplitN(good, "+", 3)
	for name, text := range map[string]string{
		"capitals":   parts[0] + "+" + strings.ToUpper(parts[1]) + "+" + parts[2],
		"line feed":  good + "\n",
		"inside":     good[:len(good)-4] + "\n" + good[len(good)-4:],
		"blank":      good + " ",
		"short hash": parts[0] + "+" + parts[1][1:] + "+" + parts[2],
		"other hash": parts[0] + "+00000000+" + parts[2],
		"no key":     parts[0] + "+" + parts[1] + "+",
		"two parts":  parts[0] + "+" + parts[1],
		"one part":   parts[0],
		"empty":      "",
	} {
		if text == good {
			t.Fatalf("%s is the good one", name)
		}
		if v, err := ParseVerifier(text); err == nil {
			t.Errorf("%s: %q is read as %s", name, text, v)
		}
	}
}

// TestSealIsNoCheckpoint: the signature of a seal is invalid for a checkpoint of the
// same tree, and the other way round.
func TestSealIsNoCheckpoint(t *testing.T) {
	s := newSigner(t, 1)
	root := tlog.RecordHash([]byte("x"))
	seal, err := s.Seal(7, root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Checkpoint(7, root)
	if err != nil {
		t.Fatal(err)
	}
	keys := Keys{{Size: 1, Key: s.Verifier()}}
	text, sigs, _ := strings.Cut(string(c.Note), "\n\n")
	swapped := text + "\n\n\u2014 " + testOrigin + " " + base64.StdEncoding.EncodeToString(seal.Sig[:]) + "\n"
	if _, err := keys.OpenCheckpoint([]byte(swapped)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("a seal as a checkpoint: %v", err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(sigs[strings.LastIndex(sigs, " ")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	copy(seal.Sig[:], raw)
	if err := s.Verifier().CheckSeal(seal); !errors.Is(err, ErrBadSignature) {
		t.Errorf("a checkpoint as a seal: %v", err)
	}
}

// TestCheckSeal: an unknown key and a bad signature give different errors.
func TestCheckSeal(t *testing.T) {
	s, other := newSigner(t, 1), newSigner(t, 2)
	seal, err := s.Seal(3, tlog.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key    Verifier
		change func(*Seal)
		want   error
	}{
		"right":     {s.Verifier(), func(*Seal) {}, nil},
		"other key": {other.Verifier(), func(*Seal) {}, ErrUnknownKey},
		"key id":    {s.Verifier(), func(x *Seal) { x.Sig[0] ^= 1 }, ErrUnknownKey},
		"signature": {s.Verifier(), func(x *Seal) { x.Sig[67] ^= 1 }, ErrBadSignature},
		"size":      {s.Verifier(), func(x *Seal) { x.Size++ }, ErrBadSignature},
		"root":      {s.Verifier(), func(x *Seal) { x.Root[31]++ }, ErrBadSignature},
	} {
		changed := seal
		c.change(&changed)
		if err := c.key.CheckSeal(changed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeysAt: the key for each size, and the keys that follow from a trusted one.
func TestKeysAt(t *testing.T) {
	a, b, c := newSigner(t, 1).Verifier(), newSigner(t, 2).Verifier(), newSigner(t, 3).Verifier()
	keys := Keys{{Size: 1, Key: a}, {Size: 11, Key: b}, {Size: 12, Key: c}}
	for size, want := range map[int64]string{1: a.String(), 10: a.String(), 11: b.String(), 12: c.String(), 1 << 40: c.String()} {
		if got, ok := keys.At(size); !ok || got.String() != want {
			t.Errorf("at %d: %s", size, got)
		}
	}
	if _, ok := keys.At(0); ok {
		t.Error("a key signs an empty tree")
	}
	if _, ok := (Keys)(nil).At(5); ok {
		t.Error("no keys have one")
	}
	for i, key := range []Verifier{a, b, c} {
		if got, err := keys.Trusting(key); err != nil || len(got) != 3-i || got[0].Key.String() != key.String() {
			t.Errorf("trusting %d: %v, %v", i, got, err)
		}
	}
	if _, err := keys.Trusting(newSigner(t, 4).Verifier()); !errors.Is(err, ErrUnknownKey) {
		t.Error(err)
	}
}

// TestMergeCheckpoints: the result has the signatures of two notes of one tree, each
// once. Notes of two trees do not merge.
func TestMergeCheckpoints(t *testing.T) {
	s, witness := newSigner(t, 1), newSigner(t, 2)
	c, err := s.Checkpoint(3, LeafHash([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Checkpoint(3, LeafHash([]byte("y")))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := witness.Checkpoint(3, c.Root)
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := bytes.Cut(seen.Note, []byte("\n\n"))
	cosigned := append(bytes.Clone(c.Note), line...)
	for _, pair := range [][2][]byte{{cosigned, c.Note}, {c.Note, cosigned}, {cosigned, cosigned}} {
		got, err := MergeCheckpoints(pair[0], pair[1])
		if err != nil || !bytes.Equal(got, cosigned) {
			t.Errorf("%q %v", got, err)
		}
	}
	if got, err := MergeCheckpoints(c.Note, c.Note); err != nil || !bytes.Equal(got, c.Note) {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range [][]byte{other.Note, nil, []byte("x")} {
		if _, err := MergeCheckpoints(c.Note, bad); err == nil {
			t.Errorf("merged with %q", bad)
		}
	}
}

// TestSealNote: the note of a seal vouches for its tree as the seal does, and for no other.
func TestSealNote(t *testing.T) {
	s := newSigner(t, 1)
	root := tlog.RecordHash([]byte("entry"))
	seal, err := s.Seal(7, root)
	if err != nil {
		t.Fatal(err)
	}
	n := seal.Note(testOrigin)
	if v := s.Verifier(); !v.Vouches(n, 7, root) || v.Vouches(n, 8, root) || newSigner(t, 2).Verifier().Vouches(n, 7, root) {
		t.Errorf("%s", n)
	}
}
