//go:build linux && (amd64 || arm64)

package harnesstest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/kernel"
)

// Endpoint is a model on this machine that answers each prompt with its number.
type Endpoint struct {
	*httptest.Server
	Asked atomic.Int64
	Delay time.Duration
	Fails int64 // the call from which on it answers 500; 0: none
	Large int   // bytes of an answer, at least
}

func NewEndpoint(t *testing.T) *Endpoint {
	t.Helper()
	e := &Endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n := e.Asked.Add(1)
		select {
		case <-time.After(e.Delay):
		case <-r.Context().Done(): // nobody waits for the answer any more
		}
		if e.Fails > 0 && n >= e.Fails {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"answer": %d, "prompt_sha256": "%x", "usage": {"prompt_tokens": %d, "completion_tokens": 2}}%s`, n, sha256.Sum256(b), len(b), strings.Repeat(" ", e.Large))
	}))
	t.Cleanup(e.Close)
	return e
}

// Caller returns the executor with something that answers its calls.
func (x Executor) Caller(mode string, c execute.Caller) Executor {
	x.Deps.Caller, x.model = c, mode
	return x
}

func (e *Endpoint) Recorder() *model.Recorder {
	return model.NewRecorder([]model.Adapter{{ID: "m", BaseURL: e.URL, Model: "small"}}, func(string) string { return "" }, time.Now)
}

func Player(t *testing.T, recording []byte) *model.Player {
	t.Helper()
	m, err := pack.ParseModelIO(recording)
	if err != nil {
		t.Fatalf("%v: %s", err, recording)
	}
	return model.NewPlayer(m)
}

// Callers returns an executor whose profile allows every model mode.
func Callers(t *testing.T, runner execute.Runner, change func(*kernel.Profile)) Executor {
	t.Helper()
	return NewExecutor(t, runner, func(p *kernel.Profile) {
		p.ModelModes = []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}
		if change != nil {
			change(p)
		}
	})
}
