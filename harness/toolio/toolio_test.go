package toolio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

type script []adapter.Reply

func (s *script) Ask(context.Context, int, int, *adapter.Bound) (adapter.Reply, error) {
	r := (*s)[0]
	*s = (*s)[1:]
	return r, nil
}

func bound(id, request string) *adapter.Bound {
	return &adapter.Bound{Adapter: &adapter.Adapter{AdapterID: id, SHA256: canon.Sum([]byte(id))}, RequestHash: canon.Sum([]byte(request))}
}

// TestRecordAndPlay: a Player gives what was recorded, in its own order of attempts, each once.
func TestRecordAndPlay(t *testing.T) {
	replies := script{
		{Failure: adapter.FailServer, Code: 503, RetryAfterMS: 20, Unsent: true}, {Answer: []byte("é\n"), Code: 200},
		{Answer: []byte("\xff")}, {Answer: []byte{}},
	}
	r := NewRecorder(&replies, time.Now)
	a, b := bound("A", "a"), bound("B", "b")
	steps := []struct {
		action, n int
		b         *adapter.Bound
		failure   string
		code      int
		answer    string
	}{{0, 1, a, adapter.FailServer, 503, ""}, {0, 2, a, "", 0, "é\n"}, {1, 1, b, adapter.FailOutput, 0, ""}, {2, 1, b, "", 0, ""}}
	same := func(asker Live) {
		t.Helper()
		for i, s := range steps {
			got, err := asker.Ask(t.Context(), s.action, s.n, s.b)
			if err != nil || got.Failure != s.failure || got.Code != s.code || string(got.Answer) != s.answer || got.Unsent != (i == 0) || got.RetryAfterMS != map[int]int{0: 20}[i] {
				t.Errorf("step %d: %+v, %v", i, got, err)
			}
		}
	}
	same(r)
	text, err := r.Recording()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := pack.ParseToolIO(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	p := NewPlayer(recorded)
	if p.Replays(0, 3, a) || !p.Replays(0, 2, a) {
		t.Error("which attempts are recorded")
	}
	same(p)
	again, err := p.Recording()
	if want := strings.Replace(string(text), `"mode":"record"`, `"mode":"replay"`, 1); err != nil || string(again) != want {
		t.Errorf("replayed %s (%v)", again, err)
	}
	other := bound("A", "a")
	other.Adapter.SHA256 = canon.Sum(nil)
	for name, ask := range map[string]func() (adapter.Reply, error){
		"twice":           func() (adapter.Reply, error) { return p.Ask(t.Context(), 0, 1, a) },
		"another request": func() (adapter.Reply, error) { return NewPlayer(recorded).Ask(t.Context(), 0, 1, bound("A", "x")) },
		"another action":  func() (adapter.Reply, error) { return NewPlayer(recorded).Ask(t.Context(), 3, 1, a) },
		"another digest":  func() (adapter.Reply, error) { return NewPlayer(recorded).Ask(t.Context(), 0, 1, other) },
	} {
		_, err := ask()
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(e.Msg, "no recorded answer") || !strings.Contains(e.Hint(), "--model-mode record") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecordingIsBounded: what no recording can hold ends the run, and is not recorded.
func TestRecordingIsBounded(t *testing.T) {
	long := []byte(strings.Repeat("a", pack.MaxResponseBytes))
	var replies script
	for range pack.MaxTotalResponseBytes/len(long) + 1 {
		replies = append(replies, adapter.Reply{Answer: long})
	}
	r, most := NewRecorder(&replies, time.Now), len(replies)
	for i := range most {
		_, err := r.Ask(t.Context(), i, 1, bound("A", "a"))
		if _, refused := errors.AsType[*Error](err); refused != (i == most-1) || err != nil && !refused {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
	if len(r.had) != most-1 {
		t.Errorf("%d are recorded", len(r.had))
	}
}
