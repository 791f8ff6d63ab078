package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ContentHash is "sha256:" and 64 lower-case hexadecimal digits.
type ContentHash string

const (
	hashPrefix = "sha256:"
	idDigits   = 16
)

// Sum returns the hash of exactly the bytes b.
func Sum(b []byte) ContentHash {
	sum := sha256.Sum256(b)
	var text [len(hashPrefix) + 2*sha256.Size]byte
	hex.Encode(text[copy(text[:], hashPrefix):], sum[:])
	return ContentHash(text[:])
}

// Valid says whether h has the form of a content hash.
func (h ContentHash) Valid() bool {
	digits, ok := strings.CutPrefix(string(h), hashPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	for i := range len(digits) {
		if lowerHex[digits[i]] == ' ' {
			return false
		}
	}
	return true
}

// lowerHex has a blank at every byte that is no lower-case hexadecimal digit. A
// table is fast: the check of a ledger looks at ten million digits.
const lowerHex = "" +
	"                                                0123456789      " +
	"                                 abcdef                         " +
	"                                                                " +
	"                                                                "

// Hex returns the 64 digits of a valid hash, and "" for anything else.
func (h ContentHash) Hex() string {
	if !h.Valid() {
		return ""
	}
	return string(h[len(hashPrefix):])
}

// Artifact returns the stored bytes of v and their hash. The stored bytes are the
// canonical form and one LF.
func Artifact(v any) ([]byte, ContentHash, error) { return artifact(Canonical(v)) }

func artifact(text []byte, err error) ([]byte, ContentHash, error) {
	if err != nil {
		return nil, "", err
	}
	text = append(text, '\n')
	return text, Sum(text), nil
}

// ID returns prefix and the first 16 digits of the hash that Artifact returns for v.
func ID(prefix string, v any) (string, error) {
	_, sum, err := Artifact(v)
	return id(prefix, sum, err)
}

func id(prefix string, sum ContentHash, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return prefix + sum.Hex()[:idDigits], nil
}
