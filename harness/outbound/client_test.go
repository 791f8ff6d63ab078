package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/contract"
)

// world is a set of servers with TLS, each under any name below example.com.
type world struct {
	roots *x509.CertPool
	mu    sync.Mutex
	seen  []string // what the servers were asked
	at    map[string]netip.Addr
}

func newWorld() *world { return &world{roots: x509.NewCertPool(), at: map[string]netip.Addr{}} }

func (w *world) tell(r *http.Request, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, strings.TrimSpace(fmt.Sprintf("%s %s%s %s%s%s%s %s", r.Method, strings.Split(r.Host, ":")[0], r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Header.Get("Cookie"), r.Header.Get("Referer"), body)))
}

func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.seen
	w.seen = nil
	return list
}

// serve starts a server and returns its port.
func (w *world) serve(t *testing.T, h http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.tell(r, string(b))
		h(rw, r)
	}))
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	w.roots.AddCert(s.Certificate())
	return s.Listener.Addr().(*net.TCPAddr).Port
}

func (w *world) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	if a, ok := w.at[name]; ok {
		return []netip.Addr{a}, nil
	}
	if strings.HasPrefix(name, "missing") {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return addresses("127.0.0.1"), nil
}

func (w *world) client(t *testing.T, entries ...string) Client {
	t.Helper()
	allow, _, wrong := contract.ParseHosts(entries)
	if wrong != "" {
		t.Fatal(wrong)
	}
	return Client{Dialer: Dialer{w.lookup}, Hosts: contract.Hosts{Allow: allow}, SecretHeader: "X-Key", Roots: w.roots}
}

// ask sends a request with secrets and returns the answer, or the error.
func ask(t *testing.T, c Client, method, url, body string) (string, adapter.Reply) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return askIn(ctx, t, c, method, url, body)
}

func askIn(ctx context.Context, t *testing.T, c Client, method, url, body string) (string, adapter.Reply) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "S1")
	req.Header.Set("X-Key", "S2")
	resp, err := c.Do(req)
	if err != nil {
		return "", Failed(ctx, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", Failed(ctx, err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b), adapter.Reply{}
}

var (
	refused     = adapter.Reply{Failure: adapter.FailRefused}
	unavailable = adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}
	unreadable  = adapter.Reply{Failure: adapter.FailOutput}
)

// TestRedirects: which redirects are followed, what goes with them, and that a secret goes to
// the first host and port alone.
func TestRedirects(t *testing.T) {
	w := newWorld()
	var a, b int
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { w.tell(r, "") }))
	t.Cleanup(plain.Close)
	plainPort := plain.Listener.Addr().(*net.TCPAddr).Port
	to := map[string]func() (int, string){
		"/301": func() (int, string) { return 301, "/end" }, "/302": func() (int, string) { return 302, "/end" },
		"/303": func() (int, string) { return 303, "/end" }, "/307": func() (int, string) { return 307, "/end" },
		"/308":    func() (int, string) { return 308, fmt.Sprintf("https://b.example.com:%d/end", b) },
		"/away":   func() (int, string) { return 302, fmt.Sprintf("https://b.example.com:%d/end", b) },
		"/port":   func() (int, string) { return 302, fmt.Sprintf("https://a.example.com:%d/end", b) },
		"/return": func() (int, string) { return 302, fmt.Sprintf("https://b.example.com:%d/back", b) },
		"/back":   func() (int, string) { return 302, fmt.Sprintf("https://a.example.com:%d/end", a) },
		"/1":      func() (int, string) { return 302, "/2" }, "/2": func() (int, string) { return 302, "/3" }, "/3": func() (int, string) { return 302, "/4" },
		"/4":        func() (int, string) { return 302, "/end" },
		"/http":     func() (int, string) { return 302, fmt.Sprintf("http://localhost:%d/end", plainPort) },
		"/other":    func() (int, string) { return 302, fmt.Sprintf("https://c.example.com:%d/end", b) },
		"/address":  func() (int, string) { return 302, fmt.Sprintf("https://127.0.0.1:%d/end", b) },
		"/metadata": func() (int, string) { return 302, "http://169.254.169.254/latest/meta-data/" },
		"/inner":    func() (int, string) { return 302, fmt.Sprintf("https://inner.example.com:%d/end", b) },
		"/user":     func() (int, string) { return 302, fmt.Sprintf("https://u:p@b.example.com:%d/end", b) },
		"/file":     func() (int, string) { return 302, "file:///etc/passwd" },
		"/none":     func() (int, string) { return 302, "" }, "/bad": func() (int, string) { return 302, "https://%zz/" },
	}
	handler := func(rw http.ResponseWriter, r *http.Request) {
		next, ok := to[r.URL.Path]
		if !ok {
			_, _ = io.WriteString(rw, "end")
			return
		}
		code, location := next()
		rw.Header().Set("Set-Cookie", "c=1")
		if location != "" {
			rw.Header().Set("Location", location)
		}
		rw.WriteHeader(code)
	}
	a, b = w.serve(t, handler), w.serve(t, handler)
	w.at["inner.example.com"] = netip.MustParseAddr("169.254.169.254")
	c := w.client(t, fmt.Sprintf("private:a.example.com:%d", a), fmt.Sprintf("private:b.example.com:%d", b), fmt.Sprintf("private:a.example.com:%d", b),
		fmt.Sprintf("private:inner.example.com:%d", b), fmt.Sprintf("private:localhost:%d", plainPort))
	at := func(name string) string { return " " + name + ".example.com" }
	first, end := func(path string) string { return "POST" + at("a") + path + " S1S2 x" }, "200 end"
	for path, want := range map[string]struct {
		answer string
		fault  adapter.Reply
		seen   []string // after the first request
	}{
		"/301": {end, adapter.Reply{}, []string{"GET" + at("a") + "/end S1S2"}}, "/302": {end, adapter.Reply{}, []string{"GET" + at("a") + "/end S1S2"}},
		"/303": {end, adapter.Reply{}, []string{"GET" + at("a") + "/end S1S2"}}, "/307": {end, adapter.Reply{}, []string{"POST" + at("a") + "/end S1S2 x"}},
		"/308":    {end, adapter.Reply{}, []string{"POST" + at("b") + "/end  x"}},
		"/away":   {end, adapter.Reply{}, []string{"GET" + at("b") + "/end"}},
		"/port":   {end, adapter.Reply{}, []string{"GET" + at("a") + "/end"}},
		"/return": {end, adapter.Reply{}, []string{"GET" + at("b") + "/back", "GET" + at("a") + "/end"}},
		"/2":      {end, adapter.Reply{}, []string{"GET" + at("a") + "/3 S1S2", "GET" + at("a") + "/4 S1S2", "GET" + at("a") + "/end S1S2"}},
		"/1":      {"", refused, []string{"GET" + at("a") + "/2 S1S2", "GET" + at("a") + "/3 S1S2", "GET" + at("a") + "/4 S1S2"}},
		"/http":   {"", refused, nil}, "/other": {"", refused, nil}, "/address": {"", refused, nil}, "/metadata": {"", refused, nil},
		"/inner": {"", refused, nil}, "/user": {"", refused, nil}, "/file": {"", refused, nil}, "/none": {"302 ", adapter.Reply{}, nil}, "/bad": {"", unreadable, nil},
	} {
		answer, fault := ask(t, c, http.MethodPost, fmt.Sprintf("https://a.example.com:%d%s", a, path), "x")
		if seen := w.asked(); answer != want.answer || !sameReply(fault, want.fault) || !slices.Equal(seen, append([]string{first(path)}, want.seen...)) {
			t.Errorf("%s: %q %+v, asked %q", path, answer, fault, seen)
		}
	}
}

func sameReply(a, b adapter.Reply) bool { return a.Failure == b.Failure && a.Unsent == b.Unsent }

// TestClientReachesListedHosts: a request goes to a listed host and port at an address that
// may be reached, however the answers about its name change.
func TestClientReachesListedHosts(t *testing.T) {
	w := newWorld()
	ok := func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "ok") }
	port := w.serve(t, ok)
	plain := httptest.NewServer(http.HandlerFunc(ok))
	t.Cleanup(plain.Close)
	plainPort := plain.Listener.Addr().(*net.TCPAddr).Port
	for name, address := range map[string]string{
		"link": "169.254.169.254", "mapped": "::ffff:10.0.0.1", "loop": "::ffff:127.0.0.1", "nat": "64:ff9b::7f00:1", "azure": "168.63.129.16", "zero": "0.0.0.0",
	} {
		w.at[name+".example.com"] = netip.MustParseAddr(address)
		entry := fmt.Sprintf("private:%s.example.com:%d", name, port)
		if answer, fault := ask(t, w.client(t, entry), "GET", fmt.Sprintf("https://%s.example.com:%d", name, port), ""); !sameReply(fault, refused) {
			t.Errorf("%s: %q %+v", address, answer, fault)
		}
	}
	private := fmt.Sprintf("private:a.example.com:%d", port)
	local := fmt.Sprintf("private:localhost:%d", plainPort)
	for _, c := range []struct {
		entry, url string
		want       adapter.Reply
	}{
		{private, fmt.Sprintf("https://a.example.com:%d", port), adapter.Reply{}},
		{private, fmt.Sprintf("https://A.Example.com:%d", port), adapter.Reply{}},
		{private, fmt.Sprintf("https://b.example.com:%d", port), refused},
		{private, fmt.Sprintf("https://u@a.example.com:%d", port), refused},
		{private, fmt.Sprintf("https://127.0.0.1:%d", port), refused},
		{private, "https://a.example.com", refused},
		{private[len("private:"):], fmt.Sprintf("https://a.example.com:%d", port), refused},
		{local, fmt.Sprintf("http://localhost:%d", plainPort), adapter.Reply{}},
		{local[len("private:"):], fmt.Sprintf("http://localhost:%d", plainPort), refused},
		{local, fmt.Sprintf("http://127.0.0.1:%d", plainPort), refused},
		{fmt.Sprintf("private:a.example.com:%d", plainPort), fmt.Sprintf("http://a.example.com:%d", plainPort), refused},
		{local, fmt.Sprintf("ftp://localhost:%d", plainPort), refused},
		{fmt.Sprintf("private:missing.example.com:%d", port), fmt.Sprintf("https://missing.example.com:%d", port), unavailable},
		{local, fmt.Sprintf("https://localhost:%d", plainPort), unavailable}, // no TLS there
	} {
		if answer, fault := ask(t, w.client(t, c.entry), "GET", c.url, ""); !sameReply(fault, c.want) || c.want.Failure == "" && answer != "200 ok" {
			t.Errorf("%s with %s: %q %+v", c.url, c.entry, answer, fault)
		}
	}
	untrusted := w.client(t, private)
	untrusted.Roots = x509.NewCertPool()
	if _, fault := ask(t, untrusted, "GET", fmt.Sprintf("https://a.example.com:%d", port), ""); !sameReply(fault, unavailable) {
		t.Errorf("an unknown authority: %+v", fault)
	}
	w.at["localhost"] = netip.MustParseAddr("10.1.2.3")
	if _, fault := ask(t, w.client(t, local), "GET", fmt.Sprintf("http://localhost:%d", plainPort), ""); !sameReply(fault, refused) {
		t.Errorf("localhost that is another machine: %+v", fault)
	}
	answers := []string{"127.0.0.1", "169.254.169.254", "127.0.0.1", "::ffff:127.0.0.1"}
	i := -1
	c := w.client(t, private)
	c.Dialer.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		i++
		return addresses(answers[i%len(answers)]), nil
	}
	for n := range 2 * len(answers) {
		if _, fault := ask(t, c, "GET", fmt.Sprintf("https://a.example.com:%d", port), ""); (fault.Failure == "") != (n%2 == 0) {
			t.Errorf("%s: %+v", answers[n%len(answers)], fault)
		}
	}
}

// TestBrokenAnswers: what a server does that speaks badly, or stops.
func TestBrokenAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	says := make(chan string)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			text := <-says
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, text)
			if strings.HasSuffix(text, "wait") {
				_, _ = io.Copy(io.Discard, c) // until the client has gone
			}
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	c := newWorld().client(t, fmt.Sprintf("private:localhost:%d", port))
	url := fmt.Sprintf("http://localhost:%d", port)
	for text, want := range map[string]adapter.Reply{
		"": unavailable, "HTTP/1.1 200 OK\r\n": unavailable, "HTTP/1.1 200 OK\r\nContent-Le": unreadable, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort": unavailable,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay": {}, "SSH-2.0-OpenSSH_9.2\r\n\r\n": unreadable,
		"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 2*MaxHeaderBytes) + "\r\n\r\n": unreadable,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":                                  unreadable,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n":           unavailable,
	} {
		go func() { says <- text }()
		if answer, fault := ask(t, c, "GET", url, ""); !sameReply(fault, want) {
			t.Errorf("%.60q: %q %+v", text, answer, fault)
		}
	}
	for _, text := range []string{"wait", "HTTP/1.1 200 OK\r\nwait", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nwait"} {
		go func() { says <- text }()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if answer, fault := askIn(ctx, t, c, "GET", url, ""); !sameReply(fault, adapter.Reply{Failure: adapter.FailTimeout}) {
			t.Errorf("%q until the deadline: %q %+v", text, answer, fault)
		}
		cancel()
	}
	_ = l.Close()
	if _, fault := ask(t, c, "GET", url, ""); !sameReply(fault, unavailable) {
		t.Errorf("nobody listens: %+v", fault)
	}
}

// TestClientIsPlain: no proxy, no cookie, no compression, no old TLS, and no connection that
// stays.
func TestClientIsPlain(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	w := newWorld()
	closed := make(chan bool, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Set-Cookie", "a=b")
		_, _ = fmt.Fprintf(rw, "%q %q %s", r.Header.Get("Accept-Encoding"), r.Header.Get("Cookie"), r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- true
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	w.roots.AddCert(s.Certificate())
	port := s.Listener.Addr().(*net.TCPAddr).Port
	c := w.client(t, fmt.Sprintf("private:a.example.com:%d", port))
	for range 2 {
		if answer, _ := ask(t, c, "GET", fmt.Sprintf("https://a.example.com:%d", port), ""); answer != `200 "" "" HTTP/1.1` {
			t.Errorf("answer %s", answer)
		}
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Error("the connection stays")
		}
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.Config.ErrorLog = quiet
	old.StartTLS()
	t.Cleanup(old.Close)
	w.roots.AddCert(old.Certificate())
	port = old.Listener.Addr().(*net.TCPAddr).Port
	if _, fault := ask(t, w.client(t, fmt.Sprintf("private:a.example.com:%d", port)), "GET", fmt.Sprintf("https://a.example.com:%d", port), ""); !sameReply(fault, unavailable) {
		t.Errorf("TLS 1.1: %+v", fault)
	}
}

// TestErrorsOfClient: a caller can tell the errors apart.
func TestErrorsOfClient(t *testing.T) {
	c := newWorld().client(t, "a.example.com")
	for address, want := range map[string]error{"https://b.example.com": ErrRefused, "https://a.example.com": ErrAddress} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(&http.Request{Method: "GET", URL: u}); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
