package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/contract"
)

// site is a TLS server of this machine.
type site struct {
	*httptest.Server
	port  int
	calls atomic.Int32
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Add(1)
		_, _ = io.WriteString(w, "hello\n")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.port = s.Listener.Addr().(*net.TCPAddr).Port
	return s
}

// leads returns a lookup that answers with these addresses, one after the other.
func leads(addresses ...string) outbound.Dialer {
	var n atomic.Int32
	return outbound.Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		i := int(n.Add(1)) - 1
		return []netip.Addr{netip.MustParseAddr(addresses[i%len(addresses)])}, nil
	}}
}

func list(t *testing.T, entries ...string) contract.Hosts {
	t.Helper()
	allow, _, wrong := contract.ParseHosts(entries)
	if wrong != "" {
		t.Fatal(wrong)
	}
	return contract.Hosts{Allow: allow}
}

// serve serves an action until the test ends, and returns the proxy's address.
func serve(t *testing.T, p *Proxy, hosts contract.Hosts) (address string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(p.Serve(l, 3, hosts))
	t.Cleanup(end)
	return l.Addr().String(), end
}

// ask sends a text to the proxy and returns the connection and the first line of the answer.
func ask(t *testing.T, address, text string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(3 * Handshake)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReaderSize(oneByOne{c}, 16).ReadString('\n')
	return c, strings.TrimSpace(line)
}

// oneByOne reads no byte more than is asked for.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(b []byte) (int, error) { return r.Reader.Read(b[:1]) }

// fetch asks for a page through the proxy, with a server name of its own.
func fetch(t *testing.T, address, target, sni string) (page string, err error) {
	t.Helper()
	c, line := ask(t, address, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	if line != "HTTP/1.1 200 Connection established" {
		return "", errors.New(line)
	}
	if _, err := io.ReadFull(c, make([]byte, 2)); err != nil { // the empty line
		return "", err
	}
	s := tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if _, err := io.WriteString(s, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(s)
	return string(b), err
}

// only returns the only recorded connection, after the action's end.
func only(t *testing.T, p *Proxy, end func()) evidence.Connection {
	t.Helper()
	end()
	made := p.Connections()
	if len(made) != 1 || made[0].Action != 3 || !slices.Contains(evidence.Verdicts(), made[0].Verdict) {
		t.Fatalf("connections %+v", made)
	}
	return made[0]
}

// TestPassed: a listed host is reached, however its name is spelled, and the connection is
// recorded with its bytes.
func TestPassed(t *testing.T) {
	s := newSite(t)
	for _, spelled := range []string{"a.example", "a.example.", "A.EXAMPLE"} {
		p := &Proxy{Dialer: leads("127.0.0.1")}
		address, end := serve(t, p, list(t, fmt.Sprintf("private:a.example:%d", s.port)))
		page, err := fetch(t, address, fmt.Sprintf("%s:%d", spelled, s.port), "a.example")
		if err != nil || !strings.HasSuffix(page, "\r\n\r\nhello\n") {
			t.Errorf("%s: %q, error %v", spelled, page, err)
		}
		if c := only(t, p, end); c.Verdict != evidence.Passed || c.Name != "a.example" || c.Port != s.port || c.Sent < 100 || c.Received < 500 {
			t.Errorf("%s: %+v", spelled, c)
		}
	}
}

// TestRefused: no request that fails a check reaches a host, and its verdict says why.
func TestRefused(t *testing.T) {
	s := newSite(t)
	at := fmt.Sprintf(":%d", s.port)
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\n\r\n" }
	plain := func(t *testing.T) contract.Hosts {
		return list(t, "a.example"+at, "*.b.example", "localhost"+at)
	}
	for name, test := range map[string]struct{ text, answer, verdict, lookup string }{
		"plain HTTP":         {"GET http://a.example" + at + "/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "405", evidence.RefusedRequest, ""},
		"a request of ours":  {"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "405", evidence.RefusedRequest, ""},
		"no HTTP":            {"\x05\x01\x00\r\n\r\n", "400", evidence.RefusedRequest, ""},
		"TLS":                {"\x16\x03\x01\x00\x05hello\r\n\r\n", "400", evidence.RefusedRequest, ""},
		"a long request":     {"CONNECT a.example" + at + " HTTP/1.1\r\nX: " + strings.Repeat("a", maxRequest), "400", evidence.RefusedRequest, ""},
		"an address":         {connect("127.0.0.1" + at), "403", evidence.RefusedName, ""},
		"address, version 6": {connect("[::1]" + at), "403", evidence.RefusedName, ""},
		"a number":           {connect("2130706433" + at), "403", evidence.RefusedName, ""},
		"hexadecimal":        {connect("0x7f.1" + at), "403", evidence.RefusedName, ""},
		"not ASCII":          {connect("\u212a.example" + at), "403", evidence.RefusedName, ""},
		"no port":            {connect("a.example"), "403", evidence.RefusedName, ""},
		"port of a service":  {connect("a.example:https"), "400", evidence.RefusedRequest, ""},
		"another name":       {connect("c.example" + at), "403", evidence.RefusedUnlisted, ""},
		"another port":       {connect("a.example:1"), "403", evidence.RefusedUnlisted, ""},
		"two labels":         {connect("x.y.b.example:443"), "403", evidence.RefusedUnlisted, ""},
		"loopback":           {connect("a.example" + at), "403", evidence.RefusedAddress, "127.0.0.1"},
		"loopback, system":   {connect("localhost" + at), "403", evidence.RefusedAddress, ""},
		"metadata":           {connect("a.example" + at), "403", evidence.RefusedAddress, "169.254.169.254"},
		"mapped":             {connect("a.example" + at), "403", evidence.RefusedAddress, "::ffff:10.0.0.1"},
		"NAT64":              {connect("a.example" + at), "403", evidence.RefusedAddress, "64:ff9b::7f00:1"},
		"6to4":               {connect("a.example" + at), "403", evidence.RefusedAddress, "2002:7f00:1::1"},
		"shared range":       {connect("x.b.example:443"), "403", evidence.RefusedAddress, "100.64.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Proxy{}
			if test.lookup != "" {
				p.Dialer = leads(test.lookup)
			}
			address, end := serve(t, p, plain(t))
			if _, line := ask(t, address, test.text); !strings.HasPrefix(line, "HTTP/1.1 "+test.answer+" ") {
				t.Errorf("answer %q", line)
			}
			if c := only(t, p, end); c.Verdict != test.verdict || c.Sent != 0 || c.Received != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d connections came to the host", n)
	}
}

// TestPrivateIsNotLink: an entry with private reaches this machine, and no link and no
// metadata.
func TestPrivateIsNotLink(t *testing.T) {
	for _, address := range []string{"169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0"} {
		p := &Proxy{Dialer: leads(address)}
		at, end := serve(t, p, list(t, "private:a.example:80"))
		if _, line := ask(t, at, "CONNECT a.example:80 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(line, "HTTP/1.1 403 ") {
			t.Errorf("%s: answer %q", address, line)
		}
		if c := only(t, p, end); c.Verdict != evidence.RefusedAddress {
			t.Errorf("%s: %+v", address, c)
		}
	}
}

// TestNameThatChanges: a name that leads to this machine the second time does not reach it.
func TestNameThatChanges(t *testing.T) {
	s := newSite(t)
	p := &Proxy{Dialer: leads("169.254.169.254", "127.0.0.1", "10.0.0.1")}
	address, end := serve(t, p, list(t, fmt.Sprintf("a.example:%d", s.port)))
	for range 6 {
		if page, err := fetch(t, address, fmt.Sprintf("a.example:%d", s.port), "a.example"); err == nil {
			t.Errorf("reached: %s", page)
		}
	}
	end()
	for _, c := range p.Connections() {
		if c.Verdict != evidence.RefusedAddress {
			t.Errorf("%+v", c)
		}
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d connections came to the host", n)
	}
}

// TestFirstRecord: after the request comes TLS for the name of the request, or nothing goes
// to the host.
func TestFirstRecord(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan []byte, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			came <- b
			c.Close()
		}
	}()
	target := fmt.Sprintf("a.example:%d", l.Addr().(*net.TCPAddr).Port)
	for name, test := range map[string]struct{ text, sni, verdict string }{
		"another name":        {"", "b.example", evidence.RefusedServerName},
		"a name below":        {"", "x.a.example", evidence.RefusedServerName},
		"no name":             {"", "127.0.0.1", evidence.RefusedServerName},
		"plain HTTP":          {"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "", evidence.RefusedNotTLS},
		"SSH":                 {"SSH-2.0-OpenSSH_9.9\r\n", "", evidence.RefusedNotTLS},
		"an alert":            {"\x15\x03\x03\x00\x02\x02\x28", "", evidence.RefusedNotTLS},
		"an old ClientHello":  {"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", "", evidence.RefusedNotTLS},
		"a record of nothing": {"\x16\x03\x01\x40\x01" + strings.Repeat("\x00", 0x4001), "", evidence.RefusedNotTLS},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Proxy{Dialer: leads("127.0.0.1")}
			address, end := serve(t, p, list(t, "private:"+target))
			if test.text == "" {
				if page, err := fetch(t, address, target, test.sni); err == nil {
					t.Errorf("reached: %s", page)
				}
			} else {
				c, _ := ask(t, address, "CONNECT "+target+" HTTP/1.1\r\n\r\n"+test.text)
				_, _ = io.Copy(io.Discard, c)
			}
			if c := only(t, p, end); c.Verdict != test.verdict || c.Sent != 0 || c.Received != 0 {
				t.Errorf("%+v", c)
			}
			if b := <-came; len(b) > 0 {
				t.Errorf("%q came to the host", b)
			}
		})
	}
}

// TestPipelined: a ClientHello that comes together with the request is passed on whole.
func TestPipelined(t *testing.T) {
	s := newSite(t)
	target := fmt.Sprintf("a.example:%d", s.port)
	p := &Proxy{Dialer: leads("127.0.0.1")}
	address, end := serve(t, p, list(t, "private:"+target))
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config := &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}
	if err := tls.Client(&together{Conn: c, first: "CONNECT " + target + " HTTP/1.1\r\n\r\n"}, config).Handshake(); err != nil {
		t.Error(err)
	}
	c.Close()
	if c := only(t, p, end); c.Verdict != evidence.Passed {
		t.Errorf("%+v", c)
	}
}

// together sends a text before the first bytes, and reads past the answer to it.
type together struct {
	net.Conn
	first string
	read  bool
}

func (c *together) Write(b []byte) (int, error) {
	_, err := c.Conn.Write(append([]byte(c.first), b...))
	c.first = ""
	return len(b), err
}

func (c *together) Read(b []byte) (int, error) {
	if !c.read {
		c.read = true
		if _, err := io.ReadFull(c.Conn, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

// TestManyConnections: a thousand connections, of which 64 are served at once, are all
// answered and recorded. More than an execution may have are closed and not answered.
func TestManyConnections(t *testing.T) {
	p := &Proxy{Dialer: leads("127.0.0.1")}
	address, end := serve(t, p, list(t, "a.example"))
	const many = 1000
	var clients sync.WaitGroup
	var refused atomic.Int32
	for range many {
		clients.Go(func() {
			c, line := ask(t, address, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
			c.Close()
			if strings.HasPrefix(line, "HTTP/1.1 403") {
				refused.Add(1)
			}
		})
	}
	clients.Wait()
	end()
	if n := len(p.Connections()); n != many || refused.Load() != many {
		t.Errorf("%d are recorded, %d were refused", n, refused.Load())
	}
	p.made = make([]evidence.Connection, evidence.MaxConnections)
	address, end = serve(t, p, list(t, "a.example"))
	if _, line := ask(t, address, "CONNECT a.example:443 HTTP/1.1\r\n\r\n"); line != "" {
		t.Errorf("answer %q", line)
	}
	end()
	if n := len(p.Connections()); n != evidence.MaxConnections {
		t.Errorf("%d are recorded", n)
	}
}

// TestAtOnce: while 64 connections are open, another one waits, and is served after one of
// them has ended. A client that says nothing is closed after the time of a handshake.
func TestAtOnce(t *testing.T) {
	var p *Proxy
	rehearsal.Again(t, 2, func(scale int) string {
		p = &Proxy{Dialer: leads("127.0.0.1"), Within: time.Duration(scale) * time.Second}
		address, end := serve(t, p, list(t, "a.example"))
		defer end()
		var silent []net.Conn
		for range atOnce {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			silent = append(silent, c)
		}
		if _, line := ask(t, address, "CONNECT a.example:443 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(line, "HTTP/1.1 403") {
			return fmt.Sprintf("answer %q", line) // none, if it was not read in time
		}
		for _, c := range silent {
			_, _ = io.Copy(io.Discard, c)
		}
		return ""
	})
	for i, c := range p.Connections() {
		if want := map[bool]string{true: evidence.Unfinished, false: evidence.RefusedAddress}[i < atOnce]; c.Verdict != want {
			t.Errorf("%d: %+v", i, c)
		}
	}
}

// TestSlowHandshake: a client that stops within the request, after it, or within its
// ClientHello, is closed after the time of a handshake.
func TestSlowHandshake(t *testing.T) {
	s := newSite(t)
	target := fmt.Sprintf("a.example:%d", s.port)
	rehearsal.Again(t, 3, func(scale int) string {
		p := &Proxy{Dialer: leads("127.0.0.1"), Within: time.Duration(min(scale, 10)) * time.Second} // ask waits for 30 s
		address, end := serve(t, p, list(t, "private:"+target))
		texts := []string{"CONN", "CONNECT " + target + " HTTP/1.1\r\n\r\n", "CONNECT " + target + " HTTP/1.1\r\n\r\n\x16\x03\x01\x02\x00\x01"}
		faults := make(chan string, len(texts))
		var clients sync.WaitGroup
		for _, text := range texts {
			clients.Go(func() {
				c, _ := ask(t, address, text)
				if _, err := io.Copy(io.Discard, c); err != nil {
					faults <- fmt.Sprintf("%q: %v", text, err)
				}
			})
		}
		clients.Wait()
		end()
		close(faults)
		for _, c := range p.Connections() {
			if c.Verdict != evidence.Unfinished {
				return fmt.Sprintf("%+v", c)
			}
		}
		return <-faults
	})
}

// TestEnd: the end of an action closes connections that are open, and those that wait.
func TestEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target := fmt.Sprintf("a.example:%d", l.Addr().(*net.TCPAddr).Port)
	p := &Proxy{Dialer: leads("127.0.0.1")}
	address, end := serve(t, p, list(t, "private:"+target))
	c, _ := ask(t, address, "CONNECT "+target+" HTTP/1.1\r\n\r\n")
	host, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	end()
	for _, open := range []net.Conn{c, host} {
		if _, err := io.Copy(io.Discard, open); errors.Is(err, context.DeadlineExceeded) {
			t.Error("it is open after the end")
		}
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the proxy still accepts")
	}
}
