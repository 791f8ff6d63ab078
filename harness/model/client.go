package model

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/fiador/fiador/evidence/pack"
)

// maxHeaderBytes is the maximum size of an endpoint's header before the body of its
// answer.
const maxHeaderBytes = 64 << 10

// ask sends a prompt to the endpoint of an adapter and returns the body of the answer.
func ask(ctx context.Context, a Adapter, key string, prompt []byte) ([]byte, *Error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.BaseURL, "/")+"/chat/completions", bytes.NewReader(prompt))
	if err != nil {
		return nil, &Error{Msg: "no request can be made for the base URL"}
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"fiador"},
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	t := transport(req.URL.Scheme == "http")
	defer t.CloseIdleConnections()
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &Error{Msg: connectFault(ctx, err)}
	}
	defer resp.Body.Close()
	if e := statusFault(resp, a); e != nil {
		return nil, e
	}
	if msg := typeFault(resp.Header); msg != "" {
		return nil, &Error{Msg: msg, Next: "the base URL has to lead to an endpoint for chat completions"}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, pack.MaxResponseBytes+1))
	if err != nil {
		return nil, &Error{Msg: connectFault(ctx, err)}
	}
	if msg := bodyFault(body, key); msg != "" {
		return nil, &Error{Msg: msg}
	}
	return body, nil
}

// errElsewhere says that the name of this machine leads to another machine.
var errElsewhere = errors.New("not an address of this machine")

// transport returns the transport for one request. It uses nothing from the environment.
func transport(local bool) *http.Transport {
	d := &net.Dialer{}
	if local {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !to.Addr().Unmap().IsLoopback() {
				return errElsewhere
			}
			return nil
		}
	}
	return &http.Transport{
		Proxy: nil, DialContext: d.DialContext,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableKeepAlives:  true,
		DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// connectFault says why there is no answer, without naming the address.
func connectFault(ctx context.Context, err error) string {
	var (
		dns   *net.DNSError
		errno syscall.Errno
		cert  *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
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

func statusFault(resp *http.Response, a Adapter) *Error {
	code := resp.StatusCode
	switch {
	case code >= 200 && code <= 299:
		return nil
	case code >= 300 && code <= 399:
		return &Error{Msg: "the endpoint answered " + strconv.Itoa(code) + ", and a redirect is not followed", Next: "give the adapter the base URL that the endpoint has"}
	}
	e := &Error{Msg: "the endpoint answered " + strconv.Itoa(code)}
	switch {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && a.KeyEnv == "":
		e.Next = "the adapter names no key_env, and the endpoint may want a key"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.Next = "look at the key in " + a.KeyEnv
	case code == http.StatusNotFound:
		e.Next = "the base URL has to lead to an endpoint for chat completions"
	case code == http.StatusTooManyRequests || code >= 500:
		e.Next = "run the intent again later"
	}
	return e
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

// leastSecret is the minimum length of a key that is searched for in answers. A shorter
// key is a placeholder.
const leastSecret = 8

func bodyFault(body []byte, key string) string {
	if why := pack.ResponseFault(body); why != "" {
		return "the answer cannot be recorded: " + why
	}
	if !json.Valid(body) {
		return "the answer is not JSON"
	}
	if len(key) >= leastSecret && repeats(body, key) {
		return "the answer repeats the key, and is thrown away"
	}
	return ""
}

// repeats says whether a JSON text contains a word, escaped or not.
func repeats(body []byte, word string) bool {
	if bytes.Contains(body, []byte(word)) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		t, err := d.Token()
		if err != nil {
			return err != io.EOF
		}
		if s, ok := t.(string); ok && strings.Contains(s, word) {
			return true
		}
	}
}
