// Package ask owns the calls of tools that this program itself makes: it asks web services,
// and MCP servers over HTTP, and never lets an answer through that repeats a secret.
package ask

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/rpc"
)

// Asker makes calls of one run, one at a time. It keeps nothing of them.
type Asker struct {
	vault  *secret.Vault
	dialer outbound.Dialer
	roots  *x509.CertPool // nil: those of the system
}

// New returns an Asker with the secrets of a vault.
func New(vault *secret.Vault) *Asker { return &Asker{vault: vault} }

// Recording returns nothing, because an Asker does not record.
func (a *Asker) Recording() ([]byte, error) { return nil, nil }

// Ask makes one attempt of a call, and reads its secrets first if nobody has.
func (a *Asker) Ask(ctx context.Context, action, _ int, b *adapter.Bound) (adapter.Reply, error) {
	at := "/actions/" + strconv.Itoa(action)
	if err := a.vault.Read(at, b); err != nil {
		return adapter.Reply{}, err
	}
	allow, _, wrong := contract.ParseHosts(b.Hosts)
	if wrong != "" {
		return adapter.Reply{Failure: adapter.FailRefused}, nil
	}
	c := outbound.Client{Dialer: a.dialer, Hosts: contract.Hosts{Allow: allow}, Roots: a.roots}
	switch {
	case b.Adapter.Type == adapter.API:
		return a.api(ctx, c, b), nil
	case b.Adapter.Type == adapter.MCP && b.Adapter.Server != nil && b.Adapter.Server.URL != "":
		return a.mcp(ctx, c, b), nil
	}
	return adapter.Reply{}, runerr.New(result.CodeSandbox, at+": a call of type "+string(b.Adapter.Type)+" cannot be made here", "use another adapter", runerr.At(at))
}

// api asks a web service.
func (a *Asker) api(ctx context.Context, c outbound.Client, b *adapter.Bound) adapter.Reply {
	in := b.Adapter.Interface.API
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"fiador"}}
	if b.Body != nil {
		header.Set("Content-Type", "application/json")
	}
	for name, value := range in.Headers {
		header.Set(name, value)
	}
	key := a.vault.Of(in.Auth)
	switch in.AuthMethod {
	case "bearer":
		key = "Bearer " + key
	case "oauth":
		token, failed := a.token(ctx, c, in.Auth)
		if failed.Failure != "" {
			return failed
		}
		key = "Bearer " + token
	}
	if in.Auth != nil {
		c.SecretHeader = in.Auth.Header
		if c.SecretHeader == "" {
			c.SecretHeader = map[string]string{"api_key": "X-Api-Key"}[in.AuthMethod]
		}
		if c.SecretHeader == "" {
			c.SecretHeader = "Authorization"
		}
		header.Set(c.SecretHeader, key)
	}
	var body io.Reader
	if b.Body != nil {
		body = bytes.NewReader(b.Body)
	}
	return send(ctx, c, a.vault, b.Method, b.URL(), header, body)
}

// mcp asks an MCP server.
func (a *Asker) mcp(ctx context.Context, c outbound.Client, b *adapter.Bound) adapter.Reply {
	header, do := a.reach(ctx, c, b.Adapter.Server)
	reply := mcp.HTTP(ctx, b, do, header)
	if a.vault.Repeats(reply.Answer) {
		return adapter.Reply{Failure: adapter.FailOutput}
	}
	return reply
}

// reach returns the header of each request to an MCP server, and what sends it.
func (a *Asker) reach(ctx context.Context, c outbound.Client, s *adapter.Server) (http.Header, func(*http.Request) (*http.Response, error)) {
	header := http.Header{"User-Agent": {"fiador"}, "Accept-Encoding": {"identity"}}
	if auth := s.Auth; auth != nil {
		if c.SecretHeader = auth.Header; c.SecretHeader != "" {
			header.Set(c.SecretHeader, a.vault.Of(auth))
		} else {
			header.Set("Authorization", "Bearer "+a.vault.Of(auth))
		}
	}
	return header, func(req *http.Request) (*http.Response, error) {
		resp, err := c.Do(req)
		if err != nil {
			return nil, &mcp.Failure{Reply: outbound.Failed(ctx, err), Why: "the server cannot be asked: " + err.Error()}
		}
		return resp, nil
	}
}

// Pins asks an MCP server with a URL for its tools. The host of the URL is in hosts. The error
// is a RunError about a secret, or a *mcp.Failure.
func (a *Asker) Pins(ctx context.Context, s *adapter.Server, hosts contract.Hosts) ([]rpc.Tool, error) {
	if err := a.vault.Read("/auth", &adapter.Bound{Adapter: &adapter.Adapter{Type: adapter.MCP, Server: s}}); err != nil {
		return nil, err
	}
	header, do := a.reach(ctx, outbound.Client{Dialer: a.dialer, Hosts: hosts, Roots: a.roots}, s)
	return mcp.Pins(ctx, mcp.Web(s.URL, do, header))
}

// send sends one request and reads the answer. An answer is a body of a status 2xx, which can
// be recorded and repeats no secret of the vault. The body of another status is not read.
func send(ctx context.Context, c outbound.Client, vault *secret.Vault, method, url string, header http.Header, body io.Reader) adapter.Reply {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return adapter.Reply{Failure: adapter.FailRefused}
	}
	header.Set("Accept-Encoding", "identity")
	req.Header = header
	resp, err := c.Do(req)
	if err != nil {
		return outbound.Failed(ctx, err)
	}
	defer resp.Body.Close()
	if code := resp.StatusCode; code < 200 || code > 299 {
		return adapter.Reply{Failure: failure(code), Code: code, RetryAfterMS: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	for _, coding := range resp.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return adapter.Reply{Failure: adapter.FailOutput}
		}
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, pack.MaxResponseBytes+1))
	// A server that notices first that the request was given up may end its answer early.
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return outbound.Failed(ctx, err)
	}
	if pack.ResponseFault(answer) != "" || vault.Repeats(answer) {
		return adapter.Reply{Failure: adapter.FailOutput}
	}
	return adapter.Reply{Answer: answer}
}

// failure returns the failure of a status that is not 2xx. A redirect that was not followed
// has no answer that could be read.
func failure(code int) string {
	switch code / 100 {
	case 4:
		return adapter.FailClient
	case 5:
		return adapter.FailServer
	}
	return adapter.FailOutput
}

// maxWait is the longest wait that is passed on: longer than a call may last.
const maxWait = 24 * time.Hour

// retryAfter returns the wait in milliseconds that a header asks for at a time, as seconds or
// as a date. A header that cannot be read asks for none.
func retryAfter(text string, now time.Time) int {
	wait := time.Duration(0)
	if text != "" && strings.Trim(text, "0123456789") == "" {
		n, err := strconv.Atoi(text)
		if wait = maxWait; err == nil && n < int(maxWait/time.Second) {
			wait = time.Duration(n) * time.Second
		}
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return int(max(0, min(wait, maxWait)).Milliseconds())
}
