// Package toolio owns the recording of the calls of tools that no process answers: it keeps
// what services answer, and gives the same answers again without a network.
//
// A [Recorder] passes each attempt to another asker and records what it gave. A [Player]
// answers each attempt from a recording. Each of the two serves one run.
package toolio

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

// Live makes the attempts that a Recorder records.
type Live interface {
	Ask(ctx context.Context, action, n int, b *adapter.Bound) (adapter.Reply, error)
}

// Error says why an attempt has no recorded answer, or cannot be recorded.
type Error struct {
	Msg  string
	Next string // advice, or empty
}

// Error returns the message.
func (e *Error) Error() string { return e.Msg }

// Hint returns advice about the error, or "".
func (e *Error) Hint() string { return e.Next }

// Recorder makes the attempts of calls and records what they gave.
type Recorder struct {
	live Live
	now  func() time.Time

	mu     sync.Mutex
	had    []pack.ToolInteraction
	stored int   // bytes of the responses
	size   int64 // bytes of the interactions, at least
}

// NewRecorder returns a Recorder for one run, which passes attempts to live.
func NewRecorder(live Live, now func() time.Time) *Recorder { return &Recorder{live: live, now: now} }

// Ask makes an attempt and records it. An answer that a recording cannot hold is the failure
// invalid_output. The error is that of the asker, or an *Error.
func (r *Recorder) Ask(ctx context.Context, action, n int, b *adapter.Bound) (adapter.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.had) == pack.MaxInteractions {
		return adapter.Reply{}, &Error{"a recording has at most " + strconv.Itoa(pack.MaxInteractions) + " attempts", "split the intent"}
	}
	begun := r.now()
	reply, err := r.live.Ask(ctx, action, n, b)
	if err != nil {
		return reply, err
	}
	switch {
	case reply.Failure != "":
		reply.Answer = nil
	case pack.ResponseFault(reply.Answer) != "":
		reply = adapter.Reply{Failure: adapter.FailOutput, Code: reply.Code}
	default:
		reply = adapter.Reply{Answer: reply.Answer}
	}
	one := pack.ToolInteraction{
		I: len(r.had), Action: action, AdapterID: b.Adapter.AdapterID, AdapterSHA256: b.Adapter.SHA256, RequestHash: b.RequestHash, Attempt: n,
		Code: reply.Code, Failure: reply.Failure, RetryAfterMS: reply.RetryAfterMS, Unsent: reply.Unsent,
		ResponseHash: canon.Sum(reply.Answer), ResponseContent: string(reply.Answer), LatencyMS: max(r.now().Sub(begun).Milliseconds(), 0),
	}
	if r.stored += len(reply.Answer); r.stored > pack.MaxTotalResponseBytes {
		return adapter.Reply{}, &Error{"the answers of the run have more than " + strconv.Itoa(pack.MaxTotalResponseBytes) + " bytes together", "split the intent"}
	}
	alone, err := stored([]pack.ToolInteraction{one}, pack.ModeRecord)
	if err == nil {
		err = tooLarge(r.size + int64(len(alone)))
	}
	if err != nil {
		return adapter.Reply{}, err
	}
	r.size += int64(len(alone))
	r.had = append(r.had, one)
	return reply, nil
}

// Recording returns the recording so far, in its stored form.
func (r *Recorder) Recording() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return stored(r.had, pack.ModeRecord)
}

// attempt is what names an interaction of a recording.
type attempt struct {
	action, n       int
	adapter         string
	sha256, request canon.ContentHash
}

func attemptOf(action, n int, b *adapter.Bound) attempt {
	return attempt{action, n, b.Adapter.AdapterID, b.Adapter.SHA256, b.RequestHash}
}

// Player answers attempts from a recording.
type Player struct {
	mu   sync.Mutex
	left map[attempt]pack.ToolInteraction // unused interactions
	had  []pack.ToolInteraction
}

// NewPlayer returns a Player for one run.
func NewPlayer(recorded pack.ToolIO) *Player {
	p := &Player{left: map[attempt]pack.ToolInteraction{}}
	for _, one := range recorded.Interactions {
		p.left[attempt{one.Action, one.Attempt, one.AdapterID, one.AdapterSHA256, one.RequestHash}] = one
	}
	return p
}

// Ask returns what the recorded attempt gave. The error, an *Error, says that the recording
// does not have it.
func (p *Player) Ask(_ context.Context, action, n int, b *adapter.Bound) (adapter.Reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := attemptOf(action, n, b)
	one, there := p.left[key]
	if !there {
		return adapter.Reply{}, &Error{"no recorded answer to attempt " + strconv.Itoa(n) + " of request " + string(b.RequestHash), "record the intent again with --model-mode record"}
	}
	delete(p.left, key)
	one.I = len(p.had)
	p.had = append(p.had, one)
	reply := adapter.Reply{Failure: one.Failure, Code: one.Code, RetryAfterMS: one.RetryAfterMS, Unsent: one.Unsent}
	if one.Failure == "" {
		reply.Answer = []byte(one.ResponseContent)
	}
	return reply, nil
}

// Replays says whether the recording has an attempt, which is then made without a wait. The
// run that was recorded may have had no time for another attempt.
func (p *Player) Replays(action, n int, b *adapter.Bound) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.left[attemptOf(action, n, b)]
	return there
}

// Recording returns the replayed interactions so far, in their stored form.
func (p *Player) Recording() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return stored(p.had, pack.ModeReplay)
}

// stored returns the bytes of a recording, which can be read again.
func stored(list []pack.ToolInteraction, mode string) ([]byte, error) {
	b, err := pack.ToolIO{Version: pack.ToolVersion, Mode: mode, Interactions: list}.Bytes()
	if err != nil {
		return nil, &Error{Msg: "an answer cannot be recorded"}
	}
	return b, tooLarge(int64(len(b)))
}

// tooLarge returns the error for a recording that would be too large to read.
func tooLarge(size int64) error {
	if most := pack.MaxBytes(pack.ToolFile); size > most {
		return &Error{"the recording has more than " + strconv.FormatInt(most, 10) + " bytes", "split the intent"}
	}
	return nil
}
