//go:build linux && (amd64 || arm64)

package harness

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
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/kernel"
)

// endpoint is a model on this machine that answers each prompt with its number.
type endpoint struct {
	*httptest.Server
	asked atomic.Int64
	delay time.Duration
	fails int64 // the call from which on it answers 500; 0: none
	large int   // bytes of an answer, at least
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n := e.asked.Add(1)
		time.Sleep(e.delay)
		if e.fails > 0 && n >= e.fails {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"answer": %d, "prompt_sha256": "%x", "usage": {"prompt_tokens": %d, "completion_tokens": 2}}%s`, n, sha256.Sum256(b), len(b), strings.Repeat(" ", e.large))
	}))
	t.Cleanup(e.Close)
	return e
}

// caller gives an executor who answers its calls.
func (x executor) caller(mode string, c Caller) executor {
	x.deps.Caller, x.model = c, mode
	return x
}

func (e *endpoint) recorder() *model.Recorder {
	return model.NewRecorder([]model.Adapter{{ID: "m", BaseURL: e.URL, Model: "small"}}, func(string) string { return "" }, time.Now)
}

func player(t *testing.T, recording []byte) *model.Player {
	t.Helper()
	m, err := pack.ParseModelIO(recording)
	if err != nil {
		t.Fatalf("%v: %s", err, recording)
	}
	return model.NewPlayer(m)
}

// callers is an executor whose profile has every model mode.
func callers(t *testing.T, runner Runner, change func(*kernel.Profile)) executor {
	t.Helper()
	return newExecutor(t, runner, func(p *kernel.Profile) {
		p.ModelModes = []string{ModelNone, ModelRecord, ModelReplay}
		if change != nil {
			change(p)
		}
	})
}
