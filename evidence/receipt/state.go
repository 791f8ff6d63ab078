// Package receipt owns what proves the run of a work item. It has the hash of a state so far:
// the content of a folder.
//
// A state is a tree of nodes (specs/work.md). A node is the text
//
//	fiador-tree-1 LF, and for each entry: mode, space, 64 hex digits, space, name, NUL
//
// with the entries in the order of the bytes of their names. The digits are the BLAKE3-256
// digest of a file's bytes, of a link's target, or of a folder's node, so that b3sum of such an
// object prints its name. The hash of a state is that of the node of the folder itself. A
// folder without entries is none.
package receipt

import (
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/blake3"
)

// Hash is a BLAKE3-256 digest.
type Hash [32]byte

const hashPrefix = "blake3:"

// String returns the hash as documents have it: "blake3:" and 64 hex digits.
func (h Hash) String() string { return hashPrefix + h.Hex() }

// Hex returns the 64 hex digits, which are the name of the object.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// ParseHash reads the form of String.
func ParseHash(s string) (h Hash, err error) {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	if n, err := hex.Decode(h[:], []byte(digits[:min(len(digits), 64)])); !ok || len(digits) != 64 || err != nil || n != len(h) || digits != h.Hex() {
		return Hash{}, errors.New(`a hash is "blake3:" and 64 hex digits in lower case`)
	}
	return h, nil
}

// Sum returns the hash of a text.
func Sum(text []byte) Hash { return blake3.Sum256(text) }

// Copy copies bytes, and returns their hash and their number.
func Copy(to io.Writer, from io.Reader) (h Hash, n int64, err error) {
	d := blake3.New()
	n, err = io.Copy(io.MultiWriter(d, to), from)
	d.Sum(h[:0])
	return h, n, err
}

// Mode says what an entry of a node is.
type Mode string

// The modes of entries.
const (
	File       Mode = "100644"
	Executable Mode = "100755" // its owner can execute it
	Link       Mode = "120000"
	Folder     Mode = "040000"
)

// Entry is one entry of a folder.
type Entry struct {
	Mode Mode
	Name string
	Hash Hash
}

const nodeStart = "fiador-tree-1\n"

// Node returns the text of a node. It sorts the entries.
func Node(entries []Entry) []byte {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	text := []byte(nodeStart)
	for _, e := range entries {
		text = append(text, e.Mode...)
		text = append(text, ' ')
		text = hex.AppendEncode(text, e.Hash[:])
		text = append(text, ' ')
		text = append(text, e.Name...)
		text = append(text, 0)
	}
	return text
}

// IsName says whether an entry can have a name. A state never has .git.
func IsName(name string) bool {
	return name != "" && name != "." && name != ".." && name != ".git" && utf8.ValidString(name) && !strings.ContainsAny(name, "/\x00")
}

// ReadNode reads the text of a node. It accepts what Node returns, and nothing else.
func ReadNode(text []byte) ([]Entry, error) {
	bad := errors.New("the text is no node of a folder")
	rest, ok := strings.CutPrefix(string(text), nodeStart)
	if !ok {
		return nil, bad
	}
	var list []Entry
	for rest != "" {
		line, after, ended := strings.Cut(rest, "\x00")
		if rest = after; !ended || len(line) < 73 || line[6] != ' ' || line[71] != ' ' {
			return nil, bad
		}
		hash, err := ParseHash(hashPrefix + line[7:71])
		e := Entry{Mode(line[:6]), line[72:], hash}
		known := slices.Contains([]Mode{File, Executable, Link, Folder}, e.Mode)
		if err != nil || !known || !IsName(e.Name) || len(list) > 0 && e.Name <= list[len(list)-1].Name {
			return nil, bad
		}
		list = append(list, e)
	}
	return list, nil
}
