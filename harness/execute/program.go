package execute

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// ProgramHash returns the hash of the file that the name of a command leads to, or "" for a name
// without such a file, and for a path. Commands find the same file, because no command can
// write the folders of their search path.
func ProgramHash(name string) canon.ContentHash {
	if strings.Contains(name, "/") {
		return ""
	}
	for dir := range strings.SplitSeq(sandbox.SearchPath, ":") {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return hashOf(file)
		}
	}
	return ""
}

// hashOf returns the hash of a file, or "" if it cannot be read.
func hashOf(file string) canon.ContentHash {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return evidence.Hash([sha256.Size]byte(h.Sum(nil)))
}
