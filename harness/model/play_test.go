package model

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// recording returns a recording of four calls. The first and the last have the same
// prompt.
func recording(t *testing.T) pack.ModelIO {
	t.Helper()
	m := pack.ModelIO{Version: pack.ModelVersion, AdapterID: "m", ModelID: "small", Mode: pack.ModeRecord}
	for i, n := range []int{0, 1, 2, 0} {
		response := fmt.Sprintf("{\"answer\": %d}\n", i)
		m.Interactions = append(m.Interactions, pack.Interaction{
			I: i, PromptHash: canon.Sum(numbered(t, n)), ResponseHash: canon.Sum([]byte(response)), ResponseContent: response,
		})
	}
	return m
}

func numbered(t *testing.T, n int) []byte {
	t.Helper()
	return prompt(t, map[string]any{"n": n})
}

// TestPlay: every prompt gets its responses in order, whatever other prompts come
// between, and then none.
func TestPlay(t *testing.T) {
	p := NewPlayer(recording(t))
	if model, err := p.Model("other"); model != "small" || err != nil {
		t.Errorf("model is %q, error %v", model, err)
	}
	for _, c := range []struct{ n, answer int }{{2, 2}, {0, 0}, {0, 3}, {1, 1}} {
		got, err := p.Call(t.Context(), "m", numbered(t, c.n))
		if want := fmt.Sprintf("{\"answer\": %d}\n", c.answer); string(got) != want || err != nil {
			t.Errorf("%d gets %q, error %v", c.n, got, err)
		}
	}
	for _, n := range []int{0, 1, 2, 3} {
		_, err := p.Call(t.Context(), "m", numbered(t, n))
		e := refused(t, err, "no recorded response for prompt "+string(canon.Sum(numbered(t, n))), "")
		if !strings.Contains(e.Hint(), "--model-mode record") {
			t.Errorf("hint %q", e.Hint())
		}
	}
	b, err := p.Recording()
	if err != nil {
		t.Fatal(err)
	}
	m, err := pack.ParseModelIO(b)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, one := range m.Interactions {
		order = append(order, strings.TrimSpace(one.ResponseContent))
	}
	if m.Mode != pack.ModeReplay || strings.Join(order, " ") != `{"answer": 2} {"answer": 0} {"answer": 3} {"answer": 1}` {
		t.Errorf("recording is %s", b)
	}
}

func TestPlayOfAnotherAdapter(t *testing.T) {
	p := NewPlayer(recording(t))
	_, err := p.Call(t.Context(), "n", numbered(t, 0))
	refused(t, err, "no recorded response for prompt "+string(canon.Sum(numbered(t, 0)))+`: the recording is of adapter "m"`, "")
	if got, err := p.Call(t.Context(), "m", numbered(t, 0)); err != nil || string(got) != "{\"answer\": 0}\n" {
		t.Errorf("got %q, error %v", got, err)
	}
}

// TestPlayIsTheSame: two replays of one recording are the same bytes. A replay of the
// same calls differs from its recording in the mode alone. An expired time does not
// matter, because nothing waits.
func TestPlayIsTheSame(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var first []byte
	for range 2 {
		p := NewPlayer(recording(t))
		for _, n := range []int{0, 1, 2, 0} {
			if _, err := p.Call(over, "m", numbered(t, n)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := p.Recording()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) {
			t.Errorf("recordings are\n%s\n%s", first, b)
		}
	}
	recorded, err := recording(t).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Replace(recorded, []byte(`"mode":"record"`), []byte(`"mode":"replay"`), 1); !bytes.Equal(first, want) {
		t.Errorf("recording is\n%s\nwant\n%s", first, want)
	}
}

// TestTotal: a recording stays within its limit, and the call that would exceed it has
// no answer.
func TestTotal(t *testing.T) {
	s, _ := endpoint(t, says("application/json", answer))
	r := recorder(s.URL)
	r.stored = pack.MaxTotalResponseBytes - len(answer)
	if _, err := r.Call(t.Context(), "m", prompt(t, nil)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "more than 100000000 bytes together", s.URL)
	r = recorder(s.URL)
	r.io.Interactions = make([]pack.Interaction, pack.MaxInteractions)
	_, err = r.Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "at most 10000 calls", s.URL)
}

// TestRecordedSize: the size of a recording is known before it is written. The call that
// would make it too large to be read again has no answer.
func TestRecordedSize(t *testing.T) {
	response := "{\"a\":\n\n\t\"\\u00e9\\\\ \u00e9\"}\n"
	s, asked := endpoint(t, says("application/json", response))
	r := recorder(s.URL)
	for i := range 12 {
		if _, err := r.Call(t.Context(), "m", numbered(t, i)); err != nil {
			t.Fatal(err)
		}
		b, err := r.Recording()
		if err != nil || int64(len(b)) != r.size {
			t.Fatalf("%d calls are %d bytes, and were to be %d (%v)", i+1, len(b), r.size, err)
		}
	}
	before, err := r.Recording()
	if err != nil {
		t.Fatal(err)
	}
	r.size = pack.MaxBytes(pack.ModelFile) - int64(len(response))
	_, err = r.Call(t.Context(), "m", numbered(t, 12))
	if e := refused(t, err, "the recording has more than 134217728 bytes", s.URL); e.Hint() != "split the intent" || e.Prompt != canon.Sum(numbered(t, 12)) {
		t.Errorf("%v, hint %q", e, e.Hint())
	}
	if after, err := r.Recording(); err != nil || !bytes.Equal(before, after) || len(asked()) != 13 {
		t.Errorf("the recording is\n%s\nand was\n%s\n(%v)", after, before, err)
	}
}
