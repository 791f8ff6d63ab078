package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/rpc"
)

// web is a link over streamable HTTP: every message of the client is a POST, and the answer to
// a request is a JSON text, or a stream of events with messages.
type web struct {
	url     string
	do      func(*http.Request) (*http.Response, error)
	header  http.Header
	version string
	session string
	sent    bool // a request was answered, whatever the answer was
	read    int  // bytes of all answers

	cancel context.CancelFunc // ends the answer that is being read; nil: there is none
	body   io.Closer
	take   func() ([]byte, error) // reads its next message
}

// Web returns the link to the server at a URL. Every request goes through do and carries header.
func Web(url string, do func(*http.Request) (*http.Response, error), header http.Header) Link {
	return &web{url: url, do: do, header: header}
}

// maxSession is the longest id of a session that is accepted, in bytes.
const maxSession = 1024

// send makes one request. The answer has a status of success.
func (w *web) send(ctx context.Context, method string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, fail(adapter.FailUnavailable, "no request can be made for the URL of the server")
	}
	if w.header != nil {
		req.Header = w.header.Clone()
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	if w.version != "" {
		req.Header.Set("MCP-Protocol-Version", w.version)
	}
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	resp, err := w.do(req)
	if err != nil {
		if f, ok := errors.AsType[*Failure](err); ok {
			return nil, f
		}
		f := fail(adapter.FailUnavailable, "no connection to the server, or it broke before an answer")
		f.Unsent = !w.sent
		return nil, f
	}
	w.sent = true
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return resp, nil
	}
	resp.Body.Close()
	f := fail(adapter.FailOutput, "the server answers "+strconv.Itoa(resp.StatusCode))
	if f.Code = resp.StatusCode; f.Code >= 500 {
		f.Failure = adapter.FailServer
	} else if f.Code >= 400 {
		f.Failure = adapter.FailClient
	}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 20); err == nil {
		f.RetryAfterMS = 1000 * int(seconds)
	}
	return nil, f
}

func (w *web) tell(ctx context.Context, message []byte) error {
	resp, err := w.send(ctx, http.MethodPost, message)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// ask sends a request and opens its answer. It keeps the id of the session that the answer to
// the first request names.
func (w *web) ask(ctx context.Context, message []byte) error {
	w.drop()
	ctx, w.cancel = context.WithCancel(ctx)
	resp, err := w.send(ctx, http.MethodPost, message)
	if err != nil {
		return err
	}
	w.body = resp.Body
	if id := resp.Header.Get("Mcp-Session-Id"); w.version == "" && id != "" {
		if len(id) > maxSession || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
			return fail(adapter.FailOutput, "the server names a session in a way that the protocol does not allow")
		}
		w.session = id
	}
	from := &meter{resp.Body, &w.read}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json":
		w.take = whole(from)
	case "text/event-stream":
		w.take = events(from)
	default:
		return fail(adapter.FailOutput, "the answer of the server is neither JSON nor a stream of events")
	}
	return nil
}

// next reads from the answer to the last request, until ctx is done.
func (w *web) next(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, w.cancel)
	defer stop()
	text, err := w.take()
	switch {
	case err == nil || err == io.EOF:
		return text, err
	case errors.Is(err, errTooMuch.Get()), errors.Is(err, bufio.ErrTooLong):
		return nil, unreadable(errTooMuch.Get())
	}
	return nil, fail(adapter.FailUnavailable, "the connection broke before the answer")
}

// whole reads a body as one message.
func whole(from io.Reader) func() ([]byte, error) {
	done := false
	return func() ([]byte, error) {
		if done {
			return nil, io.EOF
		}
		done = true
		return io.ReadAll(io.LimitReader(from, rpc.MaxMessageBytes+1))
	}
}

// Event is an event of a stream of a server.
type Event struct {
	ID, Kind, Retry string // Kind is message where the event names none
	Data            []byte
}

// Events reads a stream of events. It gives io.EOF behind the last one. An event that the end of
// the stream cuts is none.
func Events(from io.Reader) func() (*Event, error) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, rpc.MaxMessageBytes+1024)
	return func() (*Event, error) {
		e, any := &Event{Kind: "message"}, false
		for s.Scan() {
			text := s.Text()
			name, value, _ := strings.Cut(text, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "":
				if text == "" && any {
					e.Data = bytes.TrimSuffix(e.Data, []byte{'\n'})
					return e, nil
				}
				continue
			case "id":
				e.ID = value
			case "event":
				e.Kind = value
			case "retry":
				e.Retry = value
			case "data":
				if e.Data = append(append(e.Data, value...), '\n'); len(e.Data) > rpc.MaxMessageBytes+1 {
					return nil, bufio.ErrTooLong
				}
			}
			any = true
		}
		if s.Err() != nil {
			return nil, s.Err()
		}
		return nil, io.EOF
	}
}

// events reads the messages of a stream of events. It ignores events of other types and events
// without data.
func events(from io.Reader) func() ([]byte, error) {
	next := Events(from)
	return func() ([]byte, error) {
		for {
			e, err := next()
			if err != nil {
				return nil, err
			}
			if e.Kind == "message" && len(e.Data) > 0 {
				return e.Data, nil
			}
		}
	}
}

func (w *web) agree(version string) { w.version = version }

func (w *web) finish(context.Context) {}

// drop ends the answer that is being read.
func (w *web) drop() {
	if w.cancel != nil {
		w.cancel()
	}
	if w.body != nil {
		w.body.Close()
	}
	w.body = nil
}

// close ends the session. Whether the server wants to know that is no matter.
func (w *web) close(ctx context.Context) {
	w.drop()
	if w.session == "" {
		return
	}
	if resp, err := w.send(ctx, http.MethodDelete, nil); err == nil {
		resp.Body.Close()
	}
}
