package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// testedAgent is an agent over HTTP, in the process of the benchmark. Each of its answers has a
// base of its own.
type testedAgent struct {
	server http.Server
	url    string
	served chan error

	mu    sync.Mutex
	asked int
	seen  map[string]bool // requests, while it is not nil
}

// The bases of the agent's answers.
const (
	baseInstant = "/instant"
	baseSlow    = "/slow"
	baseFailing = "/failing" // status 500, with a body that no other case has
	baseLong    = "/long"    // an answer of many bytes
	baseBroken  = "/broken"  // status 500, with as many
	baseValues  = "/values"  // an answer of many values
	baseTraced  = "/traced"  // as many events as the request says
)

// agentTakes is how long the slow answer takes.
const agentTakes = 100 * time.Millisecond

// agentAnswer is an ordinary answer: a call, an action that refers to its result, and a text.
const agentAnswer = `{"proposed_actions":[{"action_id":"a1","action_type":"refund","tool_name":"refund_order","params":{"order":"17","amount":1250},` +
	`"risk_level":"high","risk_tags":["money"],"evidence_refs":[{"kind":"tool_result","call_id":"c1"}]}],` +
	`"events":[{"type":"tool_call","ts":1767258000000,"call_id":"c1","tool":"order_state","args":{"order":"17"}},` +
	`{"type":"tool_result","ts":1767258000040,"call_id":"c1","status":"ok","latency_ms":40,"payload_summary":{"state":"sent","items":3,"paid":true}}],` +
	`"final_output":{"content_type":"text","content":"Order 17 was sent on Monday. The refund of 12.50 waits until somebody agrees."}}`

// The beginning and the end of an answer with another content.
const (
	answerBegin = `{"proposed_actions":[],"events":[],"final_output":{"content_type":"json","content":`
	answerEnd   = `}}`
)

// serveAgent starts the agent.
func serveAgent(z suiteSizes) (*testedAgent, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &testedAgent{url: "http://" + at.Addr().String(), served: make(chan error, 1)}
	values := answerBegin + "[" + strings.Repeat(`"1234567",`, z.values) + "0]" + answerEnd
	mux := http.NewServeMux()
	for base, answer := range map[string]func(w http.ResponseWriter, body []byte){
		baseInstant: func(w http.ResponseWriter, _ []byte) { say(w, agentAnswer) },
		baseSlow: func(w http.ResponseWriter, _ []byte) {
			time.Sleep(agentTakes)
			say(w, agentAnswer)
		},
		baseFailing: func(w http.ResponseWriter, body []byte) {
			w.WriteHeader(http.StatusInternalServerError)
			say(w, string(body))
			say(w, source(z.failedBytes-len(body)))
		},
		baseLong: func(w http.ResponseWriter, _ []byte) { long(w, z.longBytes) },
		baseBroken: func(w http.ResponseWriter, _ []byte) {
			w.WriteHeader(http.StatusInternalServerError)
			long(w, z.longBytes)
		},
		baseValues: func(w http.ResponseWriter, _ []byte) { say(w, values) },
		baseTraced: traced,
	} {
		mux.HandleFunc("POST "+base+"/run-case", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has left, and says so itself
			}
			a.note(body)
			answer(w, body)
		})
	}
	a.server.Handler = mux
	go func() { a.served <- a.server.Serve(at) }()
	return a, nil
}

// say writes a part of an answer. A client that leaves before the end has what it wants.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// long answers with one string of so many bytes.
func long(w io.Writer, size int) {
	part := bytes.Repeat([]byte("The answer is long. "), 1<<12)
	say(w, answerBegin+`"`)
	for size > 0 {
		n, err := w.Write(part[:min(size, len(part))])
		if size -= n; err != nil {
			return // the client has left
		}
	}
	say(w, `"`+answerEnd)
}

// close ends the agent.
func (a *testedAgent) close() error {
	err := a.server.Shutdown(context.Background())
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (a *testedAgent) note(body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.seen != nil {
		a.seen[string(body)] = true
	}
}

// count returns how many requests have come since the last count.
func (a *testedAgent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.asked
	a.asked = 0
	return n
}

// watched returns the requests that come while do runs, each once.
func (a *testedAgent) watched(do func() error) (map[string]bool, error) {
	a.mu.Lock()
	a.seen = map[string]bool{}
	a.mu.Unlock()
	err := do()
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen, err
}
