// Package remote reads and appends to a ledger that a server keeps (specs/ledger-server.md).
// It owns the requests and the checks of the answers. It believes no answer: an entry is in
// the tree of a checkpoint that the log's key has signed, or there is an ack that the key has
// signed. The state folder remembers what the log has promised.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Place names a log on a server.
type Place struct {
	URL   string
	Key   ledger.Verifier // the log's key, or an earlier one of the log
	Token string          // empty: the log is read by everybody
	State string          // the folder that remembers the promises of logs
	// Wait is the time that an append waits for the server, and Cover the time that a
	// reader waits for a checkpoint that covers what was acknowledged; 0: the defaults.
	Wait, Cover time.Duration
	// Copy says that the log is read to compare it with another one. It is not held against
	// what the state folder remembers.
	Copy bool
}

// The defaults of Place.
const (
	DefaultWait  = 30 * time.Second
	DefaultCover = 5 * time.Second
)

// Named says whether the name of a ledger is a URL, and not a folder.
func Named(name string) bool { return strings.Contains(name, "://") }

// Errors of a server.
var (
	ErrUnreachable = errors.New("the server of the ledger does not answer")
	ErrToken       = errors.New("the server does not accept the token")
	ErrForbidden   = errors.New("the server does not allow this with that token")
	ErrRefused     = errors.New("the server refused the request")
)

// errPassing is an ErrUnreachable of a server that says that it cannot answer now.
var errPassing error = passing{}

type passing struct{}

func (passing) Error() string { return ErrUnreachable.Error() }
func (passing) Unwrap() error { return ErrUnreachable }

// ErrURL is wrapped by errors about the URL of a log.
var ErrURL = errors.New("not the URL of a ledger")

// ErrPending says that an entry was acknowledged, and that no checkpoint covers it yet.
var ErrPending = errors.New("no checkpoint covers it yet")

// ErrNoToken says that what no checkpoint covers yet cannot be known: it is told to clients alone.
var ErrNoToken = errors.New("no checkpoint covers an end of the run, and without a token the server does not say whether there is one")

// errMissing says that the server does not have what a path names.
var errMissing = errors.New("the server does not have it")

// client sends requests to one server.
type client struct {
	Place
	base string // of all paths, without a slash at its end
	http *http.Client
}

// ParseURL reads the URL of a log. Its errors do not show the URL.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w: it is no https URL with a host", ErrURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, fmt.Errorf("%w: it has a user, a query or a fragment", ErrURL)
	case u.Scheme == "http" && !outbound.OfThisMachine(u.Hostname()):
		return nil, fmt.Errorf("%w: http is for this machine alone", ErrURL)
	}
	return u, nil
}

func newClient(p Place) (*client, error) {
	u, err := ParseURL(p.URL)
	if err != nil {
		return nil, err
	}
	return &client{Place: p, base: strings.TrimRight(u.String(), "/"), http: outbound.Origin(u.Scheme)}, nil
}

// answer is an answer of the server, read to its end.
type answer struct {
	status int
	body   []byte
	again  time.Duration // Retry-After
}

// send sends one request. An answer with a longer body than most is an error.
func (c *client) send(ctx context.Context, method, path string, body []byte, most int64) (answer, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, max(requestTime, c.Wait))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/"+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %s", ErrURL, "no request can be made for it")
	}
	req.Header.Set("User-Agent", "fiador")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, unreachable(caller, ctx, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		a.again = time.Duration(min(n, 60)) * time.Second
	}
	success := a.status == http.StatusOK || a.status == http.StatusNoContent
	if !success {
		most = maxErrorBytes
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	// A server that notices first that the request was given up may end its answer early.
	if ctx.Err() != nil || err != nil {
		return answer{}, unreachable(caller, ctx, errors.Join(err, ctx.Err()))
	}
	if success && int64(len(a.body)) > most { // of a longer page of a proxy the status counts
		return answer{}, fmt.Errorf("%w: more than %d bytes for %s", ledger.ErrAnswer, most, path)
	}
	return a, nil
}

// requestTime is the longest time of one request, with its answer, unless Wait is longer.
// maxErrorBytes is how much is read of an answer that is no success.
const (
	requestTime   = 30 * time.Second
	maxErrorBytes = 4096
)

// unreachable returns the error of a request without an answer. An interrupt of the caller is
// its own error, and always a context.Canceled: the cause of a signal is none in each Go.
func unreachable(caller, ctx context.Context, err error) error {
	if errors.Is(caller.Err(), context.Canceled) {
		return caller.Err()
	}
	return fmt.Errorf("%w: %s", ErrUnreachable, outbound.Why(ctx, err))
}

// get returns the body of a path. A missing one is an errMissing.
func (c *client) get(ctx context.Context, path string, most int64) ([]byte, error) {
	a, err := c.send(ctx, http.MethodGet, path, nil, most)
	switch {
	case err != nil:
		return nil, err
	case a.status == http.StatusOK:
		return a.body, nil
	case a.status == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, errMissing)
	}
	return nil, a.refusal()
}

// refusal returns the error of an answer that is no success.
func (a answer) refusal() error {
	var doc struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	said := strconv.Itoa(a.status)
	if json.Unmarshal(a.body, &doc) == nil && doc.Error != "" {
		said = canon.Clean(doc.Error + ": " + doc.Message)
	}
	switch {
	case a.status == http.StatusUnauthorized:
		return ErrToken
	case a.status == http.StatusForbidden:
		return ErrForbidden
	case a.status == http.StatusConflict && doc.Error == "conflict":
		return repeated(ledger.ErrConflict, doc.Message)
	case a.status == http.StatusConflict && doc.Error == "ended":
		return repeated(ledger.ErrEnded, doc.Message)
	case a.status >= 300 && a.status < 400:
		return fmt.Errorf("%w: a redirect (%d), which is not followed", ledger.ErrAnswer, a.status)
	case a.passing():
		return fmt.Errorf("%w: it says %s", errPassing, said)
	}
	return fmt.Errorf("%w: %s", ErrRefused, said)
}

// repeated returns an error that a server has found and told.
func repeated(err error, told string) error {
	return fmt.Errorf("%w: %s", err, strings.TrimPrefix(canon.Clean(told), err.Error()+": "))
}

// passing says whether the same request can have another answer soon.
func (a answer) passing() bool {
	return a.status == http.StatusTooManyRequests || a.status >= 500
}
