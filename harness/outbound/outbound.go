// Package outbound makes the connections that this program itself makes: it owns the
// dialler, the checks of addresses, and one HTTP request. Whatever the environment says, no
// proxy is used. A Request follows no redirect, a Client follows few, to listed hosts alone.
package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MaxHeaderBytes is the maximum size of an endpoint's header before the body of its
// answer.
const MaxHeaderBytes = 64 << 10

// Request is one HTTP request, whose answer is JSON.
type Request struct {
	Method string
	URL    string // for http, only addresses of this machine are allowed
	Header http.Header
	Body   []byte
	Most   int64 // bytes of the answer
}

// Fault says why a request has no answer. It names no address.
type Fault struct {
	Msg    string
	Status int  // of an answer whose status is not 2xx; else 0
	Type   bool // the answer is of another type
}

// Send sends the request and returns the body of the answer. It returns Most+1 bytes of a
// body that is longer than Most.
func (r Request) Send(ctx context.Context) ([]byte, *Fault) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, &Fault{Msg: "no request can be made for the base URL"}
	}
	req.Header = r.Header
	client, t := origin(req.URL.Scheme)
	defer t.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, &Fault{Msg: Why(ctx, err)}
	}
	defer resp.Body.Close()
	if code := resp.StatusCode; code < 200 || code > 299 {
		msg := "the endpoint answered " + strconv.Itoa(code)
		if code >= 300 && code <= 399 {
			msg += ", and a redirect is not followed"
		}
		return nil, &Fault{Msg: msg, Status: code}
	}
	if msg := typeFault(resp.Header); msg != "" {
		return nil, &Fault{Msg: msg, Type: true}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.Most+1))
	// A server that notices first that the request was given up may end its answer early.
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, &Fault{Msg: Why(ctx, err)}
	}
	return body, nil
}

// Origin returns a client for one scheme, host and port, which keeps its connections. The client
// follows no redirect. http is for addresses of this machine alone.
func Origin(scheme string) *http.Client {
	client, t := origin(scheme)
	t.DisableKeepAlives, t.MaxIdleConnsPerHost, t.IdleConnTimeout = false, 16, time.Minute
	return client
}

// origin returns a client for one request, and its transport.
func origin(scheme string) (*http.Client, *http.Transport) {
	d := &net.Dialer{}
	if scheme != "https" {
		d.ControlContext = control(isOfThisMachine, errElsewhere)
	}
	t := transport(d.DialContext, nil)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t
}

// errElsewhere says that the name of this machine leads to another machine.
var errElsewhere = errors.New("not an address of this machine")

// transport returns the transport for one request. It uses nothing from the environment,
// but for the certificates of the system when roots is nil.
func transport(dial func(ctx context.Context, network, address string) (net.Conn, error), roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy: nil, DialContext: dial,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableKeepAlives:  true,
		DisableCompression: true, MaxResponseHeaderBytes: MaxHeaderBytes,
	}
}

// OneRequest returns the transport for one request to an address that the operator has named. It
// follows no redirect, keeps no connection, and reads a head of so many bytes.
func OneRequest(maxHead int64) *http.Transport {
	t := transport((&net.Dialer{}).DialContext, nil)
	t.MaxResponseHeaderBytes = maxHead
	return t
}

// Why says why there is no answer, without naming the address.
func Why(ctx context.Context, err error) string {
	var (
		dns   *net.DNSError
		errno syscall.Errno
		cert  *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), ctx.Err() == nil && late(ctx):
		return "no answer in the time that was left"
	case ctx.Err() != nil:
		return "interrupted"
	case errors.Is(err, errElsewhere):
		return "the host of the base URL is not this machine, and http is for this machine alone"
	case errors.As(err, &dns):
		return "the host of the base URL could not be found"
	case errors.As(err, &cert):
		return "the certificate of the endpoint is not accepted"
	case errors.As(err, &errno):
		return "no connection: " + strings.ToLower(errno.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before the answer did"
	}
	return "no answer that can be understood"
}

// typeFault says why a body of that type cannot be accepted.
func typeFault(h http.Header) string {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")):
		return "the answer is not of a JSON type"
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return "the answer is not in UTF-8"
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "the answer is compressed, which nobody asked for"
	}
	return ""
}

// OfThisMachine says whether a host of a URL names the machine itself. The address of
// the name is checked again when a connection is made.
func OfThisMachine(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && isOfThisMachine(ip)
}

// isOfThisMachine says whether an address is one to which http is sent.
func isOfThisMachine(a netip.Addr) bool { return a.Unmap().IsLoopback() }
