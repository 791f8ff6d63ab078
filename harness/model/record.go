package model

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// Recorder asks models and records their answers.
type Recorder struct {
	adapters []Adapter
	key      func(name string) string
	now      func() time.Time

	mu     sync.Mutex
	io     pack.ModelIO
	stored int   // bytes of the responses
	size   int64 // bytes of the recording
}

// NewRecorder returns a Recorder for one run. key reads an environment variable.
func NewRecorder(adapters []Adapter, key func(name string) string, now func() time.Time) *Recorder {
	return &Recorder{adapters: adapters, key: key, now: now}
}

// Model returns the name of the model behind an adapter. The error, an *Error, says that
// the model cannot be called. Model sends nothing.
func (r *Recorder) Model(adapterID string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, _, err := r.open(adapterID)
	if err != nil {
		return "", err
	}
	r.io.AdapterID, r.io.ModelID = a.ID, a.Model
	return a.Model, nil
}

// open returns the adapter of that id and its key.
func (r *Recorder) open(id string) (a Adapter, key string, err error) {
	if r.io.AdapterID != "" && r.io.AdapterID != id {
		return a, "", &Error{Msg: "a recording is of one adapter", Next: "give each adapter an intent of its own"}
	}
	i := slices.IndexFunc(r.adapters, func(a Adapter) bool { return a.ID == id })
	if i < 0 {
		return a, "", &Error{Msg: "no such adapter", Next: "list it in the file that --model-adapters names"}
	}
	if a = r.adapters[i]; a.KeyEnv == "" {
		return a, "", nil
	}
	switch key = r.key(a.KeyEnv); {
	case key == "":
		return a, "", &Error{Msg: "there is no key in " + a.KeyEnv, Next: "set the environment variable to the key of the endpoint"}
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return a, "", &Error{Msg: "what is in " + a.KeyEnv + " is not a key: it has a space, a line end or a character beyond ASCII", Next: "set the environment variable to the key alone"}
	}
	return a, key, nil
}

// Call asks the model behind an adapter. The error is an *Error.
func (r *Recorder) Call(ctx context.Context, adapterID string, prompt []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash := canon.Sum(prompt)
	a, key, err := r.open(adapterID)
	if err != nil {
		return nil, err
	}
	if len(r.io.Interactions) == pack.MaxInteractions {
		return nil, &Error{Msg: "a recording has at most " + strconv.Itoa(pack.MaxInteractions) + " calls", Prompt: hash}
	}
	begun := r.now()
	response, fault := ask(ctx, a, key, prompt)
	if fault != nil {
		fault.Prompt = hash
		return nil, fault
	}
	if r.stored += len(response); r.stored > pack.MaxTotalResponseBytes {
		return nil, &Error{Msg: "the answers of the run have more than " + strconv.Itoa(pack.MaxTotalResponseBytes) + " bytes together", Prompt: hash, Next: "split the intent"}
	}
	latency := max(r.now().Sub(begun).Milliseconds(), 0)
	one := pack.Interaction{
		I: len(r.io.Interactions), PromptHash: hash, ResponseHash: canon.Sum(response), ResponseContent: string(response), LatencyMS: &latency,
	}
	one.TokensInput, one.TokensOutput = pack.Tokens(response)
	r.io.AdapterID, r.io.ModelID = a.ID, a.Model
	if r.size, err = r.with(one); err != nil {
		return nil, &Error{Msg: "the answer cannot be recorded", Prompt: hash}
	}
	if e := tooLarge(r.size); e != nil {
		e.Prompt = hash
		return nil, e
	}
	r.io.Interactions = append(r.io.Interactions, one)
	return response, nil
}

// with returns the size of the recording with one more interaction, in bytes. Line ends
// and quotes take two bytes each.
func (r *Recorder) with(one pack.Interaction) (int64, error) {
	m := r.io
	m.Version, m.Mode, m.Interactions = pack.ModelVersion, pack.ModeRecord, []pack.Interaction{one}
	alone, err := m.Bytes()
	if err != nil || len(r.io.Interactions) == 0 {
		return int64(len(alone)), err
	}
	m.Interactions = nil
	empty, err := m.Bytes()
	return r.size + int64(len(",")+len(alone)-len(empty)), err
}

// tooLarge is the error for a recording that would be too large to read.
func tooLarge(size int64) *Error {
	most := pack.MaxBytes(pack.ModelFile)
	if size <= most {
		return nil
	}
	return &Error{Msg: "the recording has more than " + strconv.FormatInt(most, 10) + " bytes", Next: "split the intent"}
}

// Recording returns the recording so far, in its stored form.
func (r *Recorder) Recording() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return stored(r.io, pack.ModeRecord)
}

// stored returns the bytes of a recording, which can be read again.
func stored(m pack.ModelIO, mode string) ([]byte, error) {
	m.Version, m.Mode = pack.ModelVersion, mode
	b, err := m.Bytes()
	if e := tooLarge(int64(len(b))); e != nil {
		return nil, e
	}
	return b, err
}
