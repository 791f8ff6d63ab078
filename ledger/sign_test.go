package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// TestSignsAlike: a signing key has the public key and the signatures of crypto/ed25519,
// for every seed and text.
func TestSignsAlike(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	check := func(seed, text []byte) {
		t.Helper()
		k, err := newSigningKey(seed)
		if err != nil {
			t.Fatal(err)
		}
		want := ed25519.NewKeyFromSeed(seed)
		if !bytes.Equal(k.public, want[32:]) {
			t.Fatalf("seed %x: public key %x, and not %x", seed, k.public, want[32:])
		}
		got, err := k.Sign(text)
		if err != nil || !bytes.Equal(got, ed25519.Sign(want, text)) {
			t.Fatalf("seed %x, text %x: %x %v", seed, text, got, err)
		}
	}
	for i := range 3000 {
		seed, text := make([]byte, 32), make([]byte, i%300)
		random.Read(seed)
		random.Read(text)
		check(seed, text)
	}
	for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
		check(bytes.Repeat([]byte{b}, 32), bytes.Repeat([]byte{b}, 200))
	}
}

// TestSignsAsPublished: the first vectors of RFC 8032, 7.1.
func TestSignsAsPublished(t *testing.T) {
	for _, v := range [][4]string{
		{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
		{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
	} {
		var b [4][]byte
		for i := range v {
			b[i], _ = hex.DecodeString(v[i])
		}
		k, err := newSigningKey(b[0])
		if err != nil {
			t.Fatal(err)
		}
		sig, err := k.Sign(b[2])
		if err != nil || !bytes.Equal(k.public, b[1]) || !bytes.Equal(sig, b[3]) {
			t.Errorf("%x %x %v", k.public, sig, err)
		}
	}
}

// TestSigningKeysAreRead: parseSigningKey accepts exactly the private keys that package
// note accepts, with the same name and id.
func TestSigningKeysAreRead(t *testing.T) {
	random := rand.NewChaCha8([32]byte{2})
	for range 50 {
		private, verifier, err := GenerateKey(random, "example.com/a")
		if err != nil {
			t.Fatal(err)
		}
		want, err := note.NewSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		k, v, err := parseSigningKey(private)
		if err != nil || k.Name() != want.Name() || k.KeyHash() != want.KeyHash() || v.String() != verifier {
			t.Fatalf("%v %v", v, err)
		}
		for _, bad := range []string{
			"", "PRIVATE", private[1:], private + "A", private[:len(private)-4], strings.Replace(private, "a+", "b+", 1),
			strings.Replace(private, "KEY", "key", 1), verifier, strings.ToUpper(private),
		} {
			if _, err := ParseSigner(bad); err == nil {
				t.Errorf("a key is read of %q", bad)
			}
		}
	}
}
