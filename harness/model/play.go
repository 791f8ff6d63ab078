package model

import (
	"context"
	"sync"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// Player answers calls from a recording.
type Player struct {
	recorded pack.ModelIO

	mu   sync.Mutex
	left map[canon.ContentHash][]pack.Interaction // unused interactions, in order
	had  []pack.Interaction
}

// NewPlayer returns a Player for one run.
func NewPlayer(recorded pack.ModelIO) *Player {
	p := &Player{recorded: recorded, left: map[canon.ContentHash][]pack.Interaction{}}
	for _, one := range recorded.Interactions {
		p.left[one.PromptHash] = append(p.left[one.PromptHash], one)
	}
	return p
}

// Model returns the recorded model's name, whatever the adapter is.
func (p *Player) Model(string) (string, error) { return p.recorded.ModelID, nil }

// Call returns the recorded response. The error, an *Error, says that there is none.
func (p *Player) Call(_ context.Context, adapterID string, prompt []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hash := canon.Sum(prompt)
	miss := &Error{Msg: "no recorded response for prompt " + string(hash), Next: "record the intent again with --model-mode record"}
	if adapterID != p.recorded.AdapterID {
		miss.Msg += ": the recording is of adapter " + canon.Quote(p.recorded.AdapterID)
		return nil, miss
	}
	list := p.left[hash]
	if len(list) == 0 {
		return nil, miss
	}
	one := list[0]
	p.left[hash] = list[1:]
	one.I = len(p.had)
	p.had = append(p.had, one)
	return []byte(one.ResponseContent), nil
}

// Recording returns the replayed interactions so far, in their stored form.
func (p *Player) Recording() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.recorded
	m.Interactions = p.had
	return stored(m, pack.ModeReplay)
}
