package main

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestRootVectors: the digests of input roots are those of the vectors, which were encoded without
// the library that this program encodes with.
func TestRootVectors(t *testing.T) {
	text, err := os.ReadFile("../../specs/vectors/remote/root.json")
	must(t, err)
	var doc struct {
		Vectors []struct {
			Name  string
			Files []input
			Root  struct {
				SHA256 string
				Size   int64
			}
		}
	}
	must(t, json.Unmarshal(text, &doc))
	if len(doc.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range doc.Vectors {
		slices.SortFunc(v.Files, func(a, b input) int { return comparePaths(a.Path, b.Path) })
		if got := (blobs{}).directories(v.Files); got != (digest{v.Root.SHA256, v.Root.Size}) {
			t.Errorf("%s: %v, want %+v", v.Name, got, v.Root)
		}
	}
}
