package pack

import (
	"maps"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxTree is how many files a folder can hold whose removal a patch describes by a hash.
const MaxTree = 20_000

// TreeHash is the hash of what a folder held: the SHA-256 of a line for each file, its
// hash in hexadecimal, two blanks, its path beneath the folder, and a line feed, sorted by
// the bytes of the path. It is what sha256sum prints of them, hashed.
func TreeHash(files map[string]canon.ContentHash) canon.ContentHash {
	var lines []byte
	for _, path := range slices.Sorted(maps.Keys(files)) {
		lines = append(lines, strings.TrimPrefix(string(files[path]), "sha256:")+"  "+path+"\n"...)
	}
	return canon.Sum(lines)
}
