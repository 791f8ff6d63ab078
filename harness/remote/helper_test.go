package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestLate: an action without an answer is cancelled, and the message says so. The helper goes on
// for the others.
func TestLate(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The helper must accept the action in that time, and answer the cancellation in a time that
	// is the product's.
	rehearsal.Again(t, 2, func(scale int) string {
		within := time.Duration(min(scale, 10)) * time.Second
		p := &Place{Config: Config{WaitMS: 30_000, Parallel: 1}, Helper: filepath.Join(t.TempDir(), "fiador-remote")}
		if err := os.Symlink(self, p.Helper); err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(p.Helper), "lie"), []byte("never answers"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 2 {
			err := p.helper.execute(t.Context(), p, order{Transfer: within - ownTime - 120*time.Second})
			late := fmt.Sprintf("no answer came within %v", within)
			if err == nil || !strings.Contains(err.Error(), late) {
				t.Fatalf("not late: %v", err)
			}
			select {
			case <-p.helper.run.over:
				return "the helper has ended"
			default:
			}
			if !strings.Contains(err.Error(), late+"; the commands may have run") {
				return err.Error()
			}
		}
		return ""
	})
}

// TestAnsweredAndEnded: an answer counts, though the helper has ended after it.
func TestAnsweredAndEnded(t *testing.T) {
	c := &conversation{over: make(chan struct{})}
	close(c.over)
	for range 100 {
		a := &awaited{last: make(chan reply, 1)}
		a.last <- reply{Type: done}
		if r, err := c.answer(t.Context(), a); r.Type != done || err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// TestTransferTime: it covers the messages of the folders too.
func TestTransferTime(t *testing.T) {
	var root []input
	for range 6400 {
		root = append(root, input{Path: strings.Repeat("d/", len(root)%640) + "f"})
	}
	if got := transferTime(root, 0); got < 110*time.Second { // 6400 files and 640 folders
		t.Error(got)
	}
}
