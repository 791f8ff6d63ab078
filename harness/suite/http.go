package suite

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/kernel/trial"
)

// Request is what an agent is asked.
type Request struct {
	CaseID string
	Side   trial.Side
	Text   []byte // the document, without a line feed
	Most   int    // bytes of the answer that are read
}

// Agent answers requests. Several goroutines ask it at once.
type Agent interface {
	// Ask makes one attempt. The context has the deadline of the attempt.
	Ask(ctx context.Context, r Request) Observed

	// Place is where the agent is asked, without secrets: base is base_url, and url that of a
	// failure.
	Place() (base, url string)

	// Kind says how the agent is asked.
	Kind() trial.Agent
}

// maxHead is the size of the largest head of an answer.
const maxHead = 256 << 10

// HTTP is an agent at an address. One attempt is one request on a connection of its own.
type HTTP struct {
	Base   string // http or https, without a slash at the end
	Header http.Header
}

// Place returns the address, and that of a case.
func (h HTTP) Place() (base, url string) { return h.Base, h.Base + "/run-case" }

// Kind returns http.
func (h HTTP) Kind() trial.Agent { return trial.Agent{Transport: "http"} }

// Ask sends one request.
func (h HTTP) Ask(ctx context.Context, r Request) (o Observed) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	_, at := h.Place()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(r.Text))
	if err != nil {
		return Observed{Fault: faultDial}
	}
	req.GetBody = nil // nothing sends the request again
	req.Header = h.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	t := outbound.OneRequest(maxHead)
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	o.Sent = connected.Load() // from then on, bytes of the request are on their way
	if err != nil {
		phase := "dial"
		if connected.Load() {
			phase = "head"
		}
		o.failed(ctx, err, phase)
		return o
	}
	defer resp.Body.Close()
	o.head(resp)
	o.read(ctx, resp, r.Most)
	return o
}

// head notes what the head of an answer says.
func (o *Observed) head(resp *http.Response) {
	o.Status, o.RetryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	o.Encoding = resp.Header.Get("Content-Encoding")
	if resp.ContentLength >= 0 && o.Encoding == "" {
		o.Total = &resp.ContentLength
	}
	o.Header = map[string]string{}
	for _, name := range []string{"content-type", "content-length", "retry-after", "server", "traceparent", "x-request-id"} {
		if v := resp.Header.Get(name); v != "" {
			o.Header[name] = v
		}
	}
}

// beyond is how much more of a body is read than is kept, so that a secret at the end is seen
// as a whole.
const beyond = 16 << 10

// read reads the body of an answer.
func (o *Observed) read(ctx context.Context, resp *http.Response, most int) {
	switch strings.ToLower(o.Encoding) {
	case "", "identity", "gzip":
	default: // nobody asked for it, and redaction would not see into the body
		o.Fault = faultCoding
		return
	}
	sent := &sent{Reader: resp.Body}
	var from io.Reader = sent
	var err error
	if strings.EqualFold(o.Encoding, "gzip") {
		from, err = gzip.NewReader(sent)
	}
	if err == nil {
		o.Body, err = readUpTo(from, most+beyond)
	}
	switch {
	case len(o.Body) > most:
		o.TooLarge = true
	case err == nil:
		o.Whole = true
	case sent.err == nil: // every byte came, and they are no gzip
		o.Fault = faultCoding
	default:
		o.failed(ctx, sent.err, "body")
	}
}

// sent is a body as the agent sent it. It remembers why the connection gave no more.
type sent struct {
	io.Reader
	err error
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// readUpTo reads at most so many bytes. Unlike io.ReadAll, it does not hold more than twice of
// what came.
func readUpTo(from io.Reader, most int) ([]byte, error) {
	const first, largest = 4 << 10, 64 << 10
	var chunks [][]byte
	for most > 0 {
		chunk, n := make([]byte, min(first<<min(len(chunks), 4), largest, most)), 0
		var err error
		for n < len(chunk) && err == nil {
			var m int
			m, err = from.Read(chunk[n:])
			n += m
		}
		chunks, most = append(chunks, chunk[:n]), most-n
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return slices.Concat(chunks...), err
		}
	}
	return slices.Concat(chunks...), nil
}

// failed notes why an attempt has ended in a phase: dial, head or body.
func (o *Observed) failed(ctx context.Context, err error, phase string) {
	var (
		timeout net.Error
		dns     *net.DNSError
		none    *net.AddrError // the name has no address
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		host    x509.HostnameError
	)
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		o.Deadline = phase
	case ctx.Err() != nil:
		o.Cancelled = true
	case errors.As(err, &timeout) && timeout.Timeout():
		o.Deadline = phase
	case errors.As(err, &dns), errors.As(err, &none):
		o.Fault = faultDNS
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &host):
		o.Fault = faultTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		o.Fault = faultRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		o.Fault = faultReset
	case phase == "body" && errors.Is(err, io.ErrUnexpectedEOF):
		o.Fault = faultShort
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		o.Fault = faultClosed
	case phase == "dial":
		o.Fault = faultDial
	default:
		o.Fault = faultProtocol
	}
}

// Health asks GET /health, and says why the agent is not ready; "" if it is.
func (h HTTP) Health(ctx context.Context, timeout time.Duration) string {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Base+"/health", nil)
	if err != nil {
		return Phrase("", faultDial)
	}
	req.Header = h.Header.Clone()
	t := outbound.OneRequest(maxHead)
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	var o Observed
	if err != nil {
		o.failed(ctx, err, "head")
	} else {
		o.Status = resp.StatusCode
		_ = resp.Body.Close()
	}
	class, name := Failed(o)
	if class == "" {
		return ""
	}
	return Phrase(class, name)
}
