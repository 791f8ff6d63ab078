// Package mcp owns the client's side of a conversation with an MCP server: over the pipes of
// a process (Pipes), or over streamable HTTP (Web).
//
// A conversation is initialize, notifications/initialized, tools/list by pages, and for a call
// one tools/call. The tool is called only if the server shows it with the digest that it is
// pinned to. Requests of the server are answered with an error, except for ping; its
// notifications are ignored. What the server sends is bounded: the bytes of one message and of
// all, messages, pages and tools.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
	"github.com/fiador/fiador/lazy"
)

// The limits of one conversation. rpc.MaxMessageBytes is the limit of one message.
const (
	MaxBytes    = 32 << 20 // that a server may send
	MaxMessages = 10_000   // that a server may send
	MaxPages    = 100      // of tools/list
	MaxTools    = 1000     // as many as the document of a server may pin
)

// ending is how long a conversation that has its answer waits for the server to end it.
const ending = 2 * time.Second

// Failure says why a conversation did not give what was asked for.
type Failure struct {
	adapter.Reply
	Why string // for users; it names no address, and quotes the server only by canon.Quote
}

// Error returns the reason.
func (f *Failure) Error() string { return f.Why }

func fail(kind, why string) *Failure { return &Failure{adapter.Reply{Failure: kind}, why} }

// Link carries the messages of one conversation. Its errors are of type *Failure.
type Link interface {
	// ask sends a request. The messages up to its answer follow by next.
	ask(ctx context.Context, request []byte) error
	// tell sends a message that has no answer.
	tell(ctx context.Context, message []byte) error
	// next returns the next message of the server.
	next(ctx context.Context) ([]byte, error)
	// agree says which version of the protocol both sides speak from now on.
	agree(version string)
	// finish says that nothing more is asked. next then gives what the server still
	// sends, up to io.EOF.
	finish(ctx context.Context)
	// close ends the conversation. Every conversation is closed, once.
	close(ctx context.Context)
}

// Stdio makes one call by the pipes of a server's process: in is its standard output, out its
// standard input. Stdio returns when ctx is done, and its goroutines end when the caller closes
// the pipes. If out is an io.Closer, Stdio closes it when the answer is there.
func Stdio(ctx context.Context, b *adapter.Bound, in io.Reader, out io.Writer) adapter.Reply {
	return call(ctx, Pipes(in, out), b)
}

// HTTP makes one call over streamable HTTP. Every request goes through do and carries header.
// do follows redirects or refuses them; a redirect that it returns is no answer.
func HTTP(ctx context.Context, b *adapter.Bound, do func(*http.Request) (*http.Response, error), header http.Header) adapter.Reply {
	return call(ctx, Web(b.Adapter.Server.URL, do, header), b)
}

// Pins returns the tools that a server shows, sorted by name, with the digest of each. The
// error is a *Failure.
func Pins(ctx context.Context, l Link) ([]rpc.Tool, error) {
	c := &conversation{ctx: ctx, link: l}
	var all []rpc.Tool
	err := c.open()
	if err == nil {
		err = c.pages(func(t rpc.Tool) (bool, error) {
			if slices.ContainsFunc(all, func(other rpc.Tool) bool { return other.Name == t.Name }) {
				return false, fail(adapter.FailOutput, "the server shows the tool "+canon.Quote(t.Name)+" twice")
			}
			all = append(all, t)
			return true, nil
		})
	}
	if err = c.end(err); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b rpc.Tool) int { return canon.Compare(a.Name, b.Name) })
	return all, nil
}

// call makes the call b over a link.
func call(ctx context.Context, l Link, b *adapter.Bound) adapter.Reply {
	c := &conversation{ctx: ctx, link: l}
	answer, err := c.call(b)
	if err = c.end(err); err == nil {
		return adapter.Reply{Answer: answer}
	}
	f, _ := errors.AsType[*Failure](err)
	return f.Reply
}

// conversation is one conversation. last is the id of the last request.
type conversation struct {
	ctx  context.Context
	link Link
	last int64
	read int // messages of the server
}

// open agrees on a version of the protocol.
func (c *conversation) open() error {
	result, err := c.request(rpc.MethodInitialize, rpc.InitializeParams{
		ProtocolVersion: rpc.Versions[0], ClientInfo: rpc.Peer{Name: "fiador", Version: "1"},
	})
	if err != nil {
		return err
	}
	version, err := rpc.ReadInitialize(result)
	switch {
	case err != nil:
		return unreadable(err)
	case !slices.Contains(rpc.Versions, version):
		return fail(adapter.FailOutput, "the server speaks the version "+canon.Quote(version)+" of the protocol")
	}
	c.link.agree(version)
	text, err := rpc.EncodeNotification(rpc.MethodInitialized, nil)
	if err != nil {
		return unreadable(err)
	}
	return c.link.tell(c.ctx, text)
}

// pages hands every tool that the server shows to visit, page by page, as long as visit asks
// for more. The page with the last tool is read to its end.
func (c *conversation) pages(visit func(rpc.Tool) (more bool, err error)) error {
	var params rpc.ListParams
	seen := map[string]bool{}
	tools := 0
	for range MaxPages {
		result, err := c.request(rpc.MethodToolsList, params)
		if err != nil {
			return err
		}
		list, next, err := rpc.ReadTools(result)
		if err != nil {
			return unreadable(err)
		}
		if tools += len(list); tools > MaxTools {
			return fail(adapter.FailOutput, "the server shows more than "+strconv.Itoa(MaxTools)+" tools")
		}
		more := true
		for _, t := range list {
			again, err := visit(t)
			if err != nil {
				return err
			}
			more = more && again
		}
		switch {
		case next == nil || !more:
			return nil
		case seen[*next]:
			return fail(adapter.FailOutput, "the server gives the cursor "+canon.Quote(*next)+" twice")
		}
		seen[*next], params.Cursor = true, next
	}
	return fail(adapter.FailOutput, "the server has more than "+strconv.Itoa(MaxPages)+" pages of tools")
}

// call finds the tool, compares it with its pin, and calls it.
func (c *conversation) call(b *adapter.Bound) ([]byte, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	shown := false
	err := c.pages(func(t rpc.Tool) (bool, error) {
		if t.Name != b.MCPTool {
			return !shown, nil
		}
		shown = true
		if t.SHA256 != b.Adapter.Server.Tools[b.MCPTool] {
			return false, fail(adapter.FailRefused, "the server says another thing about the tool than it is pinned to")
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if !shown {
		return nil, fail(adapter.FailRefused, "the server does not show the tool")
	}
	result, err := c.request(rpc.MethodToolsCall, rpc.CallParams{Name: b.MCPTool, Arguments: b.Arguments})
	if err != nil && !is(err, adapter.FailTool) {
		return nil, err
	}
	if second := c.drain(); second != nil || err != nil {
		return nil, cmp.Or(second, err)
	}
	answer, failed, err := rpc.ReadCall(result)
	switch {
	case err != nil:
		return nil, unreadable(err)
	case failed:
		return nil, fail(adapter.FailTool, "the tool reports an error")
	}
	return answer, nil
}

// request sends a request, and returns the result. It answers what the server asks for in
// between.
func (c *conversation) request(method string, params any) (map[string]any, error) {
	c.last++
	text, err := rpc.EncodeRequest(c.last, method, params)
	if err != nil {
		return nil, unreadable(err)
	}
	if err := c.link.ask(c.ctx, text); err != nil {
		return nil, err
	}
	for {
		m, err := c.next(c.ctx)
		if err != nil {
			return nil, ended(err)
		}
		switch m.Kind {
		case rpc.Request:
			err = c.answer(m)
		case rpc.Response:
			return m.Result, c.known(m)
		case rpc.Failure:
			if err = c.known(m); err == nil {
				err = &Failure{adapter.Reply{Failure: adapter.FailTool, Code: m.Error.Code}, "the server answers with the error " + canon.Quote(m.Error.Message)}
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// next reads the next message of the server. The error is io.EOF behind the last one.
func (c *conversation) next(ctx context.Context) (*rpc.Message, error) {
	text, err := c.link.next(ctx)
	if err != nil {
		return nil, err
	}
	if c.read++; c.read > MaxMessages {
		return nil, tooMany()
	}
	m, err := rpc.Read(text)
	if err != nil {
		return nil, unreadable(err)
	}
	return m, nil
}

// known refuses an answer that is not the one to the last request.
func (c *conversation) known(m *rpc.Message) error {
	if m.ID != rpc.ID(c.last) {
		return fail(adapter.FailOutput, "the server answers a request that nobody has made, or one that has its answer")
	}
	return nil
}

// answer answers a request of the server.
func (c *conversation) answer(m *rpc.Message) error {
	text, err := rpc.EncodeError(m.ID, rpc.Error{Code: rpc.CodeNoMethod, Message: "this client does not have the method"})
	if m.Method == rpc.MethodPing {
		text, err = rpc.EncodeResult(m.ID, struct{}{})
	}
	if err != nil {
		return unreadable(err)
	}
	return c.link.tell(c.ctx, text)
}

// drain reads what the server still sends after the answer, until it ends the conversation,
// or until it has had the time for that. A second answer is an error, and so is what is no
// message. Requests have no answer any more.
func (c *conversation) drain() error {
	ctx, cancel := context.WithTimeout(c.ctx, ending)
	defer cancel()
	c.link.finish(ctx)
	for {
		m, err := c.next(ctx)
		switch {
		case err == io.EOF || ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case m.Kind == rpc.Response || m.Kind == rpc.Failure:
			return fail(adapter.FailOutput, "the server answers twice")
		}
	}
}

// end closes the link, and makes a *Failure of the error. Where the time was over, it is the
// reason why nothing came.
func (c *conversation) end(err error) error {
	over := c.ctx.Err() != nil
	ctx, cancel := context.WithTimeout(c.ctx, ending)
	defer cancel()
	c.link.close(ctx)
	if _, known := errors.AsType[*Failure](err); err != nil && over && (!known || is(err, adapter.FailUnavailable)) {
		return fail(adapter.FailTimeout, "no answer in the time that was left")
	}
	return err
}

// is says whether an error is a *Failure of a kind.
func is(err error, kind string) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Failure == kind
}

// ended makes a Failure of the end of what the server sends.
func ended(err error) error {
	if err == io.EOF {
		return fail(adapter.FailUnavailable, "the server ended before its answer")
	}
	return err
}

func unreadable(err error) error { return fail(adapter.FailOutput, err.Error()) }

func tooMany() error {
	return fail(adapter.FailOutput, "the server sends more than "+strconv.Itoa(MaxMessages)+" messages")
}

// meter reads from a server. read counts the bytes of all its readers.
type meter struct {
	from io.Reader
	read *int
}

var errTooMuch = lazy.Value[error]{Make: func() error {
	return fmt.Errorf("the server sends more than %d bytes, or too many in one message", MaxBytes)
}}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (n int, err error) {
	if *m.read > MaxBytes {
		return 0, errTooMuch.Get()
	}
	n, err = m.from.Read(p)
	*m.read += n
	return n, err
}
