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

// Sum is the hash of exactly the bytes b.
func Sum(b []byte) ContentHash {
	sum := sha256.Sum256(b)
	return ContentHash(hashPrefix + hex.EncodeToString(sum[:]))
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

// lowerHex has a blank at every byte but the lower-case hexadecimal digits: a ledger
// has ten million of them to look at.
const lowerHex = "" +
	"                                                0123456789      " +
	"                                 abcdef                         " +
	"                                                                " +
	"                                                                "

// Hex is the 64 digits of a valid hash, and "" of anything else.
func (h ContentHash) Hex() string {
	if !h.Valid() {
		return ""
	}
	return string(h[len(hashPrefix):])
}

// Artifact is v in the bytes in which an artifact is stored, its canonical form
// and one LF, and the hash of exactly those bytes.
func Artifact(v any) ([]byte, ContentHash, error) { return artifact(Canonical(v)) }

func artifact(text []byte, err error) ([]byte, ContentHash, error) {
	if err != nil {
		return nil, "", err
	}
	text = append(text, '\n')
	return text, Sum(text), nil
}

// ID is prefix and the first 16 digits of the hash that Artifact gives v.
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
