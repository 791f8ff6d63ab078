package ask

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

const key = `Zq9+"secret/\value`

// service is a server with TLS under the name a.example.com.
type service struct {
	*httptest.Server
	port int
	seen chan *http.Request // with its body as a header
}

func serve(t *testing.T, h http.HandlerFunc) *service {
	t.Helper()
	s := &service{seen: make(chan *http.Request, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Header.Set("Test-Body", string(b))
		s.seen <- r
		h(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.port = s.Listener.Addr().(*net.TCPAddr).Port
	return s
}

func (s *service) base() string { return fmt.Sprintf("https://a.example.com:%d", s.port) }

// asker returns an Asker that reaches the services, with a vault.
func asker(services ...*service) (*Asker, *secret.Vault) {
	v := secret.New(func(name string) string { return map[string]string{"KEY": key}[name] })
	a := New(v)
	a.dialer.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	a.roots = x509.NewCertPool()
	for _, s := range services {
		a.roots.AddCert(s.Certificate())
	}
	return a, v
}

func parse(t *testing.T, text string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(text), 1<<20)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return doc.Value()
}

// bound binds a call of an adapter with members of its interface, and of its document.
func bound(t *testing.T, base, api, more, params string, hosts ...string) *adapter.Bound {
	t.Helper()
	tool, err := adapter.ParseTool(parse(t, `{"tool_id":"T","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(base); err == nil && hosts == nil {
		hosts = []string{"private:" + u.Host}
	}
	list, err := canon.Canonical(map[string]any{"enabled": true, "allow": toAny(hosts)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := adapter.ParseAdapter(parse(t, `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"api","interface":{"api":{"base_url":"`+base+`",
		"endpoint_mapping":{"get":"GET /get/{id}","head":"HEAD /get","post":"POST /post","put":"PUT /put","delete":"DELETE /get"}`+api+`}},"sandbox_override":{"network":`+string(list)+`}`+more+`}`))
	if err != nil {
		t.Fatal(err)
	}
	b, found := adapter.Bind(tool, a, parse(t, params).(map[string]any))
	if len(found) > 0 {
		t.Fatal(found)
	}
	return b
}

func toAny(list []string) (all []any) {
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

const get, post = `{"operation":"get","id":"1"}`, `{"operation":"post","n":1}`

func try(t *testing.T, a *Asker, b *adapter.Bound) adapter.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := a.Ask(ctx, 0, 1, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRequests: what a service is sent.
func TestRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) })
	a, _ := asker(s)
	for name, c := range map[string]struct {
		api, params string
		uri, body   string
		header      map[string]string
	}{
		"path and query": {"", `{"operation":"get","id":"a/b ü%","q":"x&y","l":[1,true],"n":null}`, "/v1/get/a%2Fb%20%C3%BC%25?l=1&l=true&q=x%26y", "", map[string]string{
			"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "fiador", "Content-Type": "", "Authorization": "", "X-Api-Key": "", "Cookie": "", "Connection": "close",
		}},
		"body":       {"", `{"operation":"post","b":[1,{"x":null}],"a":"é"}`, "/v1/post", `{"a":"é","b":[1,{"x":null}]}`, map[string]string{"Content-Type": "application/json"}},
		"empty body": {"", `{"operation":"put"}`, "/v1/put", "{}", map[string]string{"Content-Type": "application/json"}},
		"delete":     {"", `{"operation":"delete","x":1}`, "/v1/get?x=1", "", map[string]string{"Content-Length": ""}},
		"head":       {"", `{"operation":"head"}`, "/v1/get", "", nil},
		"headers": {`,"headers":{"accept":"text/csv","content-type":"application/merge-patch+json","user-agent":"x","X-A":"b","accept-encoding":"gzip"}`, post, "/v1/post", `{"n":1}`, map[string]string{
			"Accept": "text/csv", "Content-Type": "application/merge-patch+json", "User-Agent": "x", "X-A": "b", "Accept-Encoding": "identity",
		}},
		"bearer":             {`,"auth_method":"bearer","auth":{"secret_env":"KEY"}`, get, "/v1/get/1", "", map[string]string{"Authorization": "Bearer " + key}},
		"bearer in a header": {`,"auth_method":"bearer","auth":{"secret_env":"KEY","header":"X-Auth"}`, get, "/v1/get/1", "", map[string]string{"X-Auth": "Bearer " + key, "Authorization": ""}},
		"key":                {`,"auth_method":"api_key","auth":{"secret_env":"KEY"}`, get, "/v1/get/1", "", map[string]string{"X-API-Key": key, "Authorization": ""}},
		"key in a header":    {`,"headers":{"x-token":"no"},"auth_method":"api_key","auth":{"secret_env":"KEY","header":"X-Token"}`, get, "/v1/get/1", "", map[string]string{"X-Token": key, "X-Api-Key": ""}},
		"no method":          {`,"auth_method":"none"`, get, "/v1/get/1", "", map[string]string{"Authorization": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bound(t, s.base()+"/v1/", c.api, "", c.params, fmt.Sprintf("private:a.example.com:%d", s.port))
			got := try(t, a, b)
			want := b.Method
			if want == http.MethodHead {
				want = ""
			}
			if got.Failure != "" || string(got.Answer) != want || got.Answer == nil {
				t.Fatalf("%+v", got)
			}
			r := <-s.seen
			if r.Method != b.Method || r.RequestURI != c.uri || r.Header.Get("Test-Body") != c.body {
				t.Errorf("%s %s %q", r.Method, r.RequestURI, r.Header.Get("Test-Body"))
			}
			for name, value := range c.header {
				if r.Header.Get(name) != value {
					t.Errorf("%s is %q", name, r.Header.Get(name))
				}
			}
			if bytes.Contains(b.Request, []byte("Zq9")) {
				t.Error("the request has the secret")
			}
		})
	}
}

// TestAnswers: which answers count, and what the others are.
func TestAnswers(t *testing.T) {
	says := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 50<<20))
		_ = z.Close()
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for part := bytes.Repeat([]byte("x"), 32<<10); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
	slow := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
	output := adapter.Reply{Failure: adapter.FailOutput}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want adapter.Reply
	}{
		"json": {says(`{"a":1}`), adapter.Reply{Answer: []byte(`{"a":1}`)}}, "text": {says("plain ü"), adapter.Reply{Answer: []byte("plain ü")}},
		"the most": {says(strings.Repeat("x", pack.MaxResponseBytes)), adapter.Reply{Answer: bytes.Repeat([]byte("x"), pack.MaxResponseBytes)}},
		"created":  {status(201), adapter.Reply{Answer: []byte{}}}, "no content": {status(204), adapter.Reply{Answer: []byte{}}},
		"identity": {status(200, "Content-Encoding", "identity"), adapter.Reply{Answer: []byte{}}},
		"too much": {says(strings.Repeat("x", pack.MaxResponseBytes+1)), output}, "endless": {endless, output}, "bomb": {bomb, output},
		"coded": {status(200, "Content-Encoding", "br"), output}, "latin": {says("caf\xe9"), output}, "NUL": {says("a\x00b"), output}, "no character": {says("\ufffe"), output},
		"client": {status(404), adapter.Reply{Failure: adapter.FailClient, Code: 404}}, "server": {status(503), adapter.Reply{Failure: adapter.FailServer, Code: 503}},
		"unchanged": {status(304), adapter.Reply{Failure: adapter.FailOutput, Code: 304}}, "nowhere": {status(302), adapter.Reply{Failure: adapter.FailOutput, Code: 302}},
		"strange":       {status(999), adapter.Reply{Failure: adapter.FailOutput, Code: 999}},
		"seconds":       {status(429, "Retry-After", "7"), adapter.Reply{Failure: adapter.FailClient, Code: 429, RetryAfterMS: 7000}},
		"many seconds":  {status(503, "Retry-After", "99999999999999999999999"), adapter.Reply{Failure: adapter.FailServer, Code: 503, RetryAfterMS: int(maxWait.Milliseconds())}},
		"past":          {status(503, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), adapter.Reply{Failure: adapter.FailServer, Code: 503}},
		"nonsense":      {status(503, "Retry-After", "-3"), adapter.Reply{Failure: adapter.FailServer, Code: 503}},
		"another place": {status(302, "Location", "https://b.example.com/"), adapter.Reply{Failure: adapter.FailRefused}},
		"hang up":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.h)
			a, _ := asker(s)
			got := try(t, a, bound(t, s.base(), "", "", get))
			if !bytes.Equal(got.Answer, c.want.Answer) || (got.Answer == nil) != (c.want.Answer == nil) {
				t.Errorf("answer %.60q", got.Answer)
			}
			if got.Failure != c.want.Failure || got.Code != c.want.Code || got.RetryAfterMS != c.want.RetryAfterMS || got.Unsent != c.want.Unsent {
				t.Errorf("%s %d, again after %d, unsent %t", got.Failure, got.Code, got.RetryAfterMS, got.Unsent)
			}
		})
	}
	s := serve(t, slow)
	a, _ := asker(s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := a.Ask(ctx, 0, 1, bound(t, s.base(), "", "", get)); err != nil || got.Failure != adapter.FailTimeout || got.Unsent {
		t.Errorf("slow: %+v %v", got, err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := retryAfter("Fri, 02 Jan 2026 03:04:15 GMT", now); got != 10_000 {
		t.Errorf("a date asks for %d ms", got)
	}
}

// TestRefusedHosts: no request goes to a host that is not listed, or to an address that may
// not be reached. A host that does not answer is unavailable.
func TestRefusedHosts(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	a, _ := asker(s)
	for host, want := range map[string]adapter.Reply{
		"private:b.example.com:443": {Failure: adapter.FailRefused}, fmt.Sprintf("a.example.com:%d", s.port): {Failure: adapter.FailRefused},
	} {
		if got := try(t, a, bound(t, s.base(), "", "", get, host)); got.Failure != want.Failure || got.Unsent {
			t.Errorf("%s: %+v", host, got)
		}
	}
	s.Close()
	if got := try(t, a, bound(t, s.base(), "", "", get)); got.Failure != adapter.FailUnavailable || !got.Unsent {
		t.Errorf("nobody there: %+v", got)
	}
	if len(s.seen) > 0 {
		t.Error("a request was sent")
	}
	missing := bound(t, s.base(), `,"auth_method":"bearer","auth":{"secret_env":"MISSING"}`, "", get)
	if _, err := a.Ask(t.Context(), 0, 1, missing); err == nil || !strings.Contains(err.Error(), "MISSING") {
		t.Errorf("a missing secret: %v", err)
	}
	if _, err := a.Ask(t.Context(), 0, 1, bound(t, s.base(), `,"auth_method":"bearer"`, "", get)); err == nil {
		t.Error("no place for a secret, and no error")
	}
	if b, err := a.Recording(); b != nil || err != nil {
		t.Errorf("recording %q %v", b, err)
	}
}

// TestAnswerRepeatsSecret: an answer that has the secret in any form that is promised is
// thrown away, even in the middle of others.
func TestAnswerRepeatsSecret(t *testing.T) {
	var unicode, percent strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&unicode, `\u%04X`, c)
		fmt.Fprintf(&percent, "%%%02x", c)
	}
	forms := map[string]string{
		"raw": key, "json": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(key, `\`, `\\`), `"`, `\"`), "/", `\/`),
		"unicode": unicode.String(), "percent": percent.String(), "query": url.QueryEscape(key),
	}
	for i := range 3 {
		text := []byte("abc"[:i] + key + "d")
		forms[fmt.Sprint("base64 ", i)] = base64.StdEncoding.EncodeToString(text)
		forms[fmt.Sprint("base64 for URLs ", i)] = base64.RawURLEncoding.EncodeToString(text)
	}
	body := ""
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	a, _ := asker(s)
	b := bound(t, s.base(), `,"auth_method":"bearer","auth":{"secret_env":"KEY"}`, "", get)
	for name, form := range forms {
		body = `{"you said":"` + form + `"}`
		if got := try(t, a, b); got.Failure != adapter.FailOutput || got.Answer != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	body = key[1:]
	if got := try(t, a, b); got.Failure != "" {
		t.Errorf("a part of it: %+v", got)
	}
}

// TestOAuth: a token is asked for with the credentials of the client, used as bearer, and a
// secret itself.
func TestOAuth(t *testing.T) {
	body, token := "fine", "a-token-of-the-service"
	api := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	answer, code := "", 200
	tokens := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, api.base()+"/t", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	})
	a, _ := asker(api, tokens)
	at := func(path string, hosts ...string) *adapter.Bound {
		return bound(t, api.base(), fmt.Sprintf(`,"auth_method":"oauth","auth":{"secret_env":"KEY","token_url":"https://t.example.com:%d%s","client_id":"me:too","scope":"read write"}`, tokens.port, path), "", get, hosts...)
	}
	hosts := []string{fmt.Sprintf("private:a.example.com:%d", api.port), fmt.Sprintf("private:t.example.com:%d", tokens.port)}
	answer = `{"access_token":"` + token + `","token_type":"Bearer","expires_in":60}`
	if got := try(t, a, at("/t", hosts...)); string(got.Answer) != "fine" {
		t.Fatalf("%+v", got)
	}
	asked, used := <-tokens.seen, <-api.seen
	id, pass, _ := asked.BasicAuth()
	if id, _ = url.QueryUnescape(id); id != "me:too" || asked.Method != "POST" || asked.Header.Get("Test-Body") != "grant_type=client_credentials&scope=read+write" {
		t.Errorf("asked as %q: %s %q", id, asked.Method, asked.Header.Get("Test-Body"))
	}
	if pass, _ = url.QueryUnescape(pass); pass != key || asked.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("the secret is %q", pass)
	}
	if got := used.Header.Get("Authorization"); got != "Bearer "+token {
		t.Errorf("used %q", got)
	}
	body = "your token is " + token
	if got := try(t, a, at("/t", hosts...)); got.Failure != adapter.FailOutput {
		t.Errorf("an answer with the token: %+v", got)
	}
	<-tokens.seen
	<-api.seen
	body = "fine"
	if got := try(t, a, at("/moved", hosts...)); got.Failure != adapter.FailOutput {
		t.Errorf("a moved endpoint: %+v", got)
	}
	<-tokens.seen
	if moved := <-api.seen; moved.Header.Get("Authorization") != "" || strings.Contains(moved.Header.Get("Test-Body"), "Zq9") {
		t.Errorf("the next host got %v", moved.Header)
	}
	for text, want := range map[string]string{
		`{"access_token":"short","token_type":"bearer"}`: adapter.FailOutput, `{"access_token":"a-token-of-the-service"}`: adapter.FailOutput,
		`{"access_token":"a-token-of-the-service","token_type":"mac"}`: adapter.FailOutput, `{"access_token":"a token with spaces","token_type":"bearer"}`: adapter.FailOutput,
		`{"access_token":"a-token\nand more","token_type":"bearer"}`: adapter.FailOutput, `not json`: adapter.FailOutput, `[]`: adapter.FailOutput, "": adapter.FailOutput,
		`{"access_token":"` + base64.StdEncoding.EncodeToString([]byte("x"+key)) + `","token_type":"bearer"}`: adapter.FailOutput,
	} {
		answer = text
		if got := try(t, a, at("/t", hosts...)); got.Failure != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	code = 401
	if got := try(t, a, at("/t", hosts...)); got.Failure != adapter.FailClient || got.Code != 401 {
		t.Errorf("401: %+v", got)
	}
	if got := try(t, a, at("/t", hosts[:1]...)); got.Failure != adapter.FailRefused {
		t.Errorf("a host that is not listed: %+v", got)
	}
	if len(api.seen) > 0 {
		t.Error("the service was asked without a token")
	}
}

// TestSecretsStayWithTheirHost: after a redirect to another listed host, neither the secret
// nor its header is there.
func TestSecretsStayWithTheirHost(t *testing.T) {
	second := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "second") })
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("https://b.example.com:%d/", second.port), http.StatusPermanentRedirect)
	})
	a, _ := asker(first, second)
	hosts := []string{fmt.Sprintf("private:a.example.com:%d", first.port), fmt.Sprintf("private:b.example.com:%d", second.port)}
	for _, auth := range []string{`"auth_method":"bearer","auth":{"secret_env":"KEY"}`, `"auth_method":"api_key","auth":{"secret_env":"KEY"}`, `"auth_method":"api_key","auth":{"secret_env":"KEY","header":"X-Mine"}`} {
		got := try(t, a, bound(t, first.base(), `,"headers":{"X-A":"b"},`+auth, "", post, hosts...))
		r, to := <-first.seen, <-second.seen
		if string(got.Answer) != "second" || !strings.Contains(fmt.Sprint(r.Header), "Zq9") || strings.Contains(fmt.Sprint(to.Header), "Zq9") {
			t.Errorf("%s: %+v, second host got %v", auth, got, to.Header)
		}
		if to.Header.Get("X-A") != "b" || to.Header.Get("Test-Body") != `{"n":1}` || to.Header.Get("Referer") != "" {
			t.Errorf("%s: second host got %v", auth, to.Header)
		}
	}
}

// TestRetryOfReplies: what the schedule of attempts makes of the replies of services.
func TestRetryOfReplies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	const retry = `,"errors":{"retry":{"max_attempts":3,"backoff_ms":100,"retryable_codes":[503]}}`
	for name, c := range map[string]struct {
		params, more string
		closed       bool
		n, wait      int
		again        bool
	}{
		"asked to wait": {get, retry, false, 1, 2000, true}, "post too": {post, retry, false, 1, 2000, true},
		"the last attempt": {get, retry, false, 3, 0, false}, "another code": {get, strings.Replace(retry, "503", "500", 1), false, 1, 2000, false},
		"not sent": {get, retry, true, 2, 200, true}, "post not sent": {post, retry, true, 1, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := asker(s)
			if c.closed {
				a.dialer = outbound.Dialer{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
					return nil, &net.DNSError{Err: "no such host", Name: name}
				}}
			}
			b := bound(t, s.base(), "", c.more, c.params)
			wait, again := b.Next(c.n, try(t, a, b))
			if again != c.again || again && wait != c.wait {
				t.Errorf("again %t after %d ms", again, wait)
			}
		})
	}
}
