package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// The bounds of a request to a served recording.
const (
	requestTime = 30 * time.Second // for the head
	maxHead     = 256 << 10
	maxRequest  = 64 << 20
)

// Serve answers requests as the recorded agent did, until ctx ends. The listener is at an
// address of the loopback interface, and others are refused. Serve calls ready when it begins to
// answer.
func (r *Replay) Serve(ctx context.Context, l net.Listener, ready func() error) error {
	if a, err := netip.ParseAddrPort(l.Addr().String()); err != nil || !a.Addr().Unmap().IsLoopback() {
		return errors.New("a recording is served at an address of the loopback interface alone")
	}
	web := &http.Server{Handler: r, ReadHeaderTimeout: requestTime, MaxHeaderBytes: maxHead, ErrorLog: log.New(io.Discard, "", 0)}
	web.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := ready(); err != nil {
		return err
	}
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers POST /run-case as the recorded agent did, and GET /health with 200. A page in
// a browser, and a request that names another host than this machine, get nothing.
func (r *Replay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	host := q.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	at := q.Method + " " + q.URL.Path
	switch {
	case !outbound.OfThisMachine(host) || q.Header.Get("Origin") != "":
		http.Error(w, "the recording is for programs of its own machine", http.StatusForbidden)
	case at == "GET /health":
	case at != "POST /run-case":
		http.Error(w, "there are POST /run-case and GET /health", http.StatusNotFound)
	default:
		text, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxRequest))
		if err != nil {
			http.Error(w, "the request is not whole, or larger than 64 MiB", http.StatusBadRequest)
			return
		}
		value, err := canon.ParseLiteral(text, len(text), 10*suite.MaxValues)
		doc, _ := value.(object)
		id, ok := doc["case_id"].(string)
		if err != nil || !ok {
			http.Error(w, "the request is no object with a case_id", http.StatusBadRequest)
			return
		}
		play(w, q, r.Ask(q.Context(), suite.Request{CaseID: id}))
	}
}

// play answers a request with what an attempt has shown.
func play(w http.ResponseWriter, q *http.Request, o suite.Observed) {
	was := o.Recorded
	if was == nil {
		was = &trial.Failure{}
		o.Header = map[string]string{"content-type": "application/json"}
	}
	status := http.StatusOK
	switch was.Class {
	case trial.HTTPError:
		status = was.Status
	case trial.InvalidJSON, trial.SchemaMismatch, "":
		o.Whole = true // what was kept is what there is
	case trial.Timeout:
		if len(o.Body) > 0 {
			begin(w, status, o)
		}
		<-q.Context().Done()
		return
	case trial.Other:
		switch was.ErrorName {
		case suite.NotRecorded:
			http.Error(w, suite.Phrase(was.Class, was.ErrorName), http.StatusNotFound)
			return
		case suite.Unreadable:
			http.Error(w, suite.Phrase(was.Class, was.ErrorName), http.StatusInternalServerError)
			return
		case "body_too_large":
			begin(w, status, o)
			fill(w)
			return
		}
		o.Body = nil
		fallthrough
	default: // the network
		if len(o.Body) == 0 {
			hangUp(w, was.ErrorName)
			return
		}
	}
	if status != http.StatusSwitchingProtocols && status < 200 || status > 999 {
		hangUp(w, was.ErrorName)
		return
	}
	if begin(w, status, o); !o.Whole && len(o.Body) > 0 {
		panic(http.ErrAbortHandler) // the connection ends before the body does
	}
}

// begin sends the head of an answer and the body that was kept.
func begin(w http.ResponseWriter, status int, o suite.Observed) {
	h := w.Header()
	h["Date"], h["Content-Type"] = nil, nil // only what the recording has
	for _, name := range []string{"content-type", "retry-after", "server", "traceparent", "x-request-id"} {
		if v := o.Header[name]; v != "" {
			h.Set(name, v)
		}
	}
	n := int64(len(o.Body))
	counted := o.Total != nil && (*o.Total == n || !o.Whole && *o.Total > n)
	if counted {
		h.Set("Content-Length", strconv.FormatInt(*o.Total, 10))
	}
	w.WriteHeader(status)
	if !counted && n > 0 { // as a stream, whose head has no length
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = w.Write(o.Body)
	if !o.Whole {
		_ = http.NewResponseController(w).Flush()
	}
}

// fill sends more than any client reads.
func fill(w http.ResponseWriter) {
	blank := bytes.Repeat([]byte(" "), 16<<10)
	for range suite.MaxBody/len(blank) + 1 {
		if _, err := w.Write(blank); err != nil {
			return
		}
	}
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, name string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok && name == "conn_reset" {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
