package receipt

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// memory has the nodes of states.
type memory map[Hash][]byte

func (m memory) Node(h Hash) ([]byte, error) { return m[h], nil }

func (m memory) Put(h Hash, text []byte) { m[h] = text }

// TestStateVectors: a state that is made from nothing has its hash, on every architecture, and
// becomes nothing again. TestVectors of harness/workspace reads the same folders from a disk.
func TestStateVectors(t *testing.T) {
	src, err := os.ReadFile("../../specs/vectors/state/trees.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, State string
		Entries     []struct{ Path, Mode, Content, Target string }
	}
	if err := json.Unmarshal(src, &vectors); err != nil || len(vectors) < 10 {
		t.Fatal(len(vectors), err)
	}
	nothing := Sum(Node(nil))
	for _, v := range vectors {
		nodes := memory{nothing: Node(nil)}
		var made, gone []Artifact
		for _, e := range v.Entries {
			if strings.Contains("/"+e.Path+"/", "/.git/") || e.Path == ".agent-trace.jsonl" {
				continue
			}
			h := Sum([]byte(e.Content + e.Target)).String()
			made = append(made, Artifact{Path: e.Path, Op: Create, Mode: Mode(e.Mode), After: h})
			gone = append(gone, Artifact{Path: e.Path, Op: Delete, Mode: Mode(e.Mode), Before: h})
		}
		h, err := After(nodes, nothing, made)
		if err != nil || h.String() != v.State {
			t.Errorf("%s: %s, %v, want %s", v.Name, h, err, v.State)
			continue
		}
		if h, err = After(nodes, h, gone); err != nil || h != nothing {
			t.Errorf("%s: nothing is left, and the state is %s, %v", v.Name, h, err)
		}
	}
}
