package outbound

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/contract"
)

// MaxRedirects is the number of redirects that a Client follows.
const MaxRedirects = 3

// The errors of a Client beside ErrAddress and those of connections.
var (
	// ErrRefused says that a host is not listed, that http leads to another machine, or that
	// a redirect may not be followed.
	ErrRefused = errors.New("the request or a redirect leads where it may not go")

	// ErrAnswer says that what came is no answer in HTTP, or has a header of more than
	// MaxHeaderBytes.
	ErrAnswer = errors.New("no answer that can be understood")
)

// Client asks the hosts of a list.
type Client struct {
	Dialer Dialer
	Hosts  contract.Hosts

	// SecretHeader is a header that only the host and port of the request get, as they get
	// Authorization. Once a redirect has led elsewhere, nobody gets these headers again.
	SecretHeader string

	Roots *x509.CertPool // the authorities that are trusted; nil: those of the system
}

// Do sends one request and follows at most MaxRedirects redirects. Every address on the way
// is of a listed host and port (Listed). A redirect leads to https alone. There are no
// cookies and no compression, and nothing is kept of the connection when the body of the
// answer is closed. Failed says what an error means.
func (c Client) Do(req *http.Request) (*http.Response, error) {
	if _, ok := Listed(req.URL, c.Hosts); !ok || req.URL.User != nil {
		return nil, ErrRefused
	}
	var began atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { began.Store(false) },
		GotFirstResponseByte: func() { began.Store(true) },
	}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	client := http.Client{Transport: hops{c}, CheckRedirect: c.redirect}
	resp, err := client.Do(req)
	var broken net.Error
	switch {
	case err == nil:
		return resp, nil
	case began.Load() && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrAddress) && req.Context().Err() == nil &&
		!errors.Is(errors.Unwrap(err), io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(errors.Unwrap(err), &broken):
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil, err
}

// redirect checks a redirect, and takes headers out that only the first host may see. An
// address itself is not told to the next one.
func (c Client) redirect(req *http.Request, via []*http.Request) error {
	_, ok := Listed(req.URL, c.Hosts)
	if len(via) > MaxRedirects || !ok || req.URL.Scheme != "https" || req.URL.User != nil {
		return ErrRefused
	}
	req.Header.Del("Referer")
	first := place(via[0].URL)
	if slices.ContainsFunc(slices.Concat(via, []*http.Request{req}), func(r *http.Request) bool { return place(r.URL) != first }) {
		req.Header.Del("Authorization")
		req.Header.Del(c.SecretHeader)
	}
	return nil
}

// hops sends each request on a connection of its own.
type hops struct{ Client }

func (h hops) RoundTrip(req *http.Request) (*http.Response, error) {
	private, ok := Listed(req.URL, h.Hosts)
	if !ok {
		return nil, ErrRefused
	}
	to := place(req.URL)
	allowed := func(a netip.Addr) bool { return Allowed(a, private) && (to.scheme != "http" || isOfThisMachine(a)) }
	return transport(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return h.Dialer.dial(ctx, to.name, to.port, allowed)
	}, h.Roots).RoundTrip(req)
}

// target is what a URL leads to.
type target struct {
	scheme, name string
	port         int // 0: none that there is
}

// place returns what a URL leads to. The name is empty where it is none of a host.
func place(u *url.URL) target {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	name, _ := contract.HostName(u.Hostname())
	return target{u.Scheme, name, int(n)}
}

// Listed says whether a URL leads to a host and port of a list, and whether these may be at
// an address of this machine or of a private network. For http the host is this machine, and
// its entry says private.
func Listed(u *url.URL, hosts contract.Hosts) (private, ok bool) {
	to := place(u)
	if to.name == "" || to.port == 0 {
		return false, false
	}
	private, ok = hosts.Allows(to.name, to.port)
	return private, ok && (to.scheme == "https" || to.scheme == "http" && private && OfThisMachine(to.name))
}

// Failed returns the reply of a call for an error of Client.Do, or of reading the body of its
// answer. ctx is the context of the request.
func Failed(ctx context.Context, err error) adapter.Reply {
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrAddress):
		return adapter.Reply{Failure: adapter.FailRefused}
	case ctx.Err() != nil, late(ctx):
		return adapter.Reply{Failure: adapter.FailTimeout}
	case errors.Is(err, ErrAnswer):
		return adapter.Reply{Failure: adapter.FailOutput}
	}
	return adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}
}

// late says whether the deadline has passed, of which a dialler may know before its context.
func late(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return has && time.Until(end) <= 0
}
