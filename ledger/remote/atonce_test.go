package remote

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
)

// TestReadersAtOnce: readers with one state folder read a log that grows. None is disturbed, and
// the newest checkpoint is remembered.
func TestReadersAtOnce(t *testing.T) {
	s := serve(t)
	p := s.place(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 12 {
				s.fill(1 + 8*n + i)
				r, err := Read(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r := read(t, p)
	if old, err := r.remembered(); err != nil || old.Size != r.Checkpoint().Size || old.Size != 96 {
		t.Errorf("%d entries are remembered: %v", old.Size, err)
	}
}

// TestLateReader: a reader that remembers its checkpoint after another one has remembered a
// newer one takes nothing back.
func TestLateReader(t *testing.T) {
	s := serve(t)
	s.fill(5)
	late := read(t, s.place(t, t.TempDir()))
	s.fill(7)
	p := s.place(t, t.TempDir())
	early := read(t, p)
	late.state = early.state
	if err := late.extends(t.Context(), ledger.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	s.cut(6)
	if _, err := Read(t.Context(), p); !errors.Is(err, ledger.ErrTruncated) {
		t.Errorf("a log of 6 entries that had 7: %v", err)
	}
}

// TestReadersOfTwoTrees: two readers that begin at once are shown two trees of one size. The
// one that remembers its checkpoint last notices, and both notes are kept.
func TestReadersOfTwoTrees(t *testing.T) {
	s := serve(t)
	s.fill(5)
	p := s.place(t, t.TempDir())
	first := read(t, p)
	s.cut(4)
	s.addOther()
	second := read(t, s.place(t, t.TempDir()))
	second.state = first.state
	err := second.extends(t.Context(), ledger.Checkpoint{})
	if !errors.Is(err, ledger.ErrForked) || !strings.Contains(err.Error(), "both signed notes are kept") {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(p.State, "*", againstFolder, "*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// TestReaderOfAnEarlierTree: a reader whose checkpoint was remembered and forgotten meanwhile
// is held against the newer one.
func TestReaderOfAnEarlierTree(t *testing.T) {
	s := serve(t)
	s.fill(5)
	honest := read(t, s.place(t, t.TempDir()))
	s.cut(4)
	s.addOther()
	forked := read(t, s.place(t, t.TempDir()))
	s.cut(4)
	s.fill(7)
	newer := read(t, s.place(t, t.TempDir()))
	honest.state, forked.state = newer.state, newer.state
	if err := honest.isBefore(t.Context()); err != nil {
		t.Error(err)
	}
	if err := forked.isBefore(t.Context()); !errors.Is(err, ledger.ErrForked) || !strings.Contains(err.Error(), "both signed notes are kept") {
		t.Error(err)
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTimeOfARequest: one request may last as long as an append waits for the server, and at
// least requestTime. So a large blob on a slow line is not cut off before.
func TestTimeOfARequest(t *testing.T) {
	s := serve(t)
	for wait, most := range map[time.Duration]time.Duration{0: requestTime, time.Second: requestTime, 10 * requestTime: 10 * requestTime} {
		p := s.place(t, t.TempDir())
		p.Wait = wait
		c, err := newClient(p)
		if err != nil {
			t.Fatal(err)
		}
		var left time.Duration
		c.http = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			end, _ := r.Context().Deadline()
			left = time.Until(end)
			return http.DefaultTransport.RoundTrip(r)
		})}
		if _, err := c.get(t.Context(), "checkpoint", ledger.MaxCheckpointBytes); err != nil {
			t.Fatal(err)
		}
		if left > most || left < most/2 {
			t.Errorf("with a wait of %s a request has %s", wait, left)
		}
	}
}
