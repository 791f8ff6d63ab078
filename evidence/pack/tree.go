package pack

import (
	"maps"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxTree is the maximum number of files in a folder whose removal a patch describes by
// a hash.
const MaxTree = 20_000

// TreeHash returns the hash of a folder's content: the SHA-256 of one line for each
// file. A line has the file's hash in hexadecimal, two blanks, its path beneath the
// folder, and a line feed. Lines are sorted by the bytes of the path. The lines are the
// output of sha256sum.
func TreeHash(files map[string]canon.ContentHash) canon.ContentHash {
	var lines []byte
	for _, path := range slices.Sorted(maps.Keys(files)) {
		lines = append(lines, strings.TrimPrefix(string(files[path]), "sha256:")+"  "+path+"\n"...)
	}
	return canon.Sum(lines)
}
