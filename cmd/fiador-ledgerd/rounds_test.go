package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rounds stands before a server. It answers no request of a round before all requests of that
// round are there, so a client that waits for one of them before it sends another gets none.
type rounds struct {
	t    *testing.T
	next http.Handler

	mu   sync.Mutex
	list [][]string // the rounds to come, each with the requests that are still missing
	wait chan struct{}
}

func (r *rounds) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/")
	if at := strings.LastIndex(name, "/"); req.Method == http.MethodPut {
		name = name[:at]
	}
	r.mu.Lock()
	at := -1
	if len(r.list) > 0 {
		at = slices.Index(r.list[0], name)
	}
	if at < 0 {
		r.t.Errorf("%s is not in this round: %v", name, r.list)
		r.mu.Unlock()
		http.Error(w, "not now", http.StatusNotFound)
		return
	}
	r.list[0] = slices.Delete(r.list[0], at, at+1)
	wait := r.wait
	if len(r.list[0]) == 0 {
		close(wait)
		r.list, r.wait = r.list[1:], make(chan struct{})
	}
	r.mu.Unlock()
	select {
	case <-wait:
		r.next.ServeHTTP(w, req)
	case <-time.After(30 * time.Second):
		http.Error(w, fmt.Sprintf("%s waits for the others", name), http.StatusNotFound)
	}
}

// TestRoundTrips: a run that only plans waits for a server twice, and one that executes waits
// three times.
func TestRoundTrips(t *testing.T) {
	server := newPlace(t).process()
	to, err := url.Parse(server.url)
	check(t, err)
	const origin, blob, record = "GET origin.json", "PUT v1/evidence", "POST v1/records"
	for name, c := range map[string]struct {
		args []string
		list [][]string
	}{
		"plan":    {nil, [][]string{{origin, blob, blob}, {record}}},
		"execute": {[]string{"--mode", "execute-sandbox"}, [][]string{{origin, blob, record}, {blob}, {record}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := &rounds{t: t, next: httputil.NewSingleHostReverseProxy(to), list: c.list, wait: make(chan struct{})}
			gate := httptest.NewServer(before)
			defer gate.Close()
			m := server.machine(t, "ci")
			m.url = gate.URL
			m.says(0, `"accepted":true`, append([]string{"run", "intent.json", "--run-id", name}, c.args...)...)
			before.mu.Lock()
			defer before.mu.Unlock()
			if len(before.list) > 0 {
				t.Errorf("never came: %v", before.list)
			}
		})
	}
}
