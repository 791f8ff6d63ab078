// Package proxy connects the commands of a sandbox to the hosts that they may reach. It is an
// HTTP proxy that knows CONNECT alone. It runs outside of the sandbox and asks the system's
// resolver for names.
//
// # Checks
//
// A connection passes these checks in their order, or is closed:
//
//  1. the request is CONNECT ([evidence.RefusedRequest])
//  2. it names a host, not an address ([evidence.RefusedName])
//  3. the list of the action under way has the host and the port ([evidence.RefusedUnlisted])
//  4. the address that is connected to may be reached (outbound.Allowed, [evidence.RefusedAddress])
//  5. the first record is a TLS ClientHello ([evidence.RefusedNotTLS]), and its server name
//     is the name of the request ([evidence.RefusedServerName])
//
// All of them must pass within Handshake, else the connection is closed
// ([evidence.Unfinished]). Nothing is sent to a host before.
package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/kernel/contract"
)

// Handshake is the time in which a connection passes the checks.
const Handshake = 10 * time.Second

// atOnce is the largest number of connections at one time. Further ones wait.
const atOnce = 64

// maxRequest is the largest size of a request in bytes.
const maxRequest = 16 << 10

// Proxy serves one sandbox. The zero value is ready to use.
type Proxy struct {
	Dialer outbound.Dialer
	Within time.Duration // 0: Handshake

	mu   sync.Mutex
	made []evidence.Connection
}

// Serve serves the connections that l accepts while an action is under way. It returns the
// function that ends this: it closes l and every connection, and waits for them.
func (p *Proxy) Serve(l net.Listener, action int, hosts contract.Hosts) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	running.Go(func() {
		for ctx.Err() == nil {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			c, err := l.Accept()
			if err != nil {
				<-free
				if ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond) // this process has too many files
				}
				continue
			}
			running.Go(func() {
				p.serve(ctx, c, action, hosts)
				<-free
			})
		}
	})
	return func() {
		cancel()
		_ = l.Close()
		running.Wait()
	}
}

// Connections returns the connections that were asked for, in the order in which they were
// accepted. No action is under way.
func (p *Proxy) Connections() []evidence.Connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.made)
}

// serve serves one connection and records it. A connection beyond MaxConnections is closed
// at once: every connection that is served is recorded.
func (p *Proxy) serve(ctx context.Context, c net.Conn, action int, hosts contract.Hosts) {
	defer c.Close()
	p.mu.Lock()
	at := len(p.made)
	if at == evidence.MaxConnections {
		p.mu.Unlock()
		return
	}
	p.made = append(p.made, evidence.Connection{})
	p.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	made := evidence.Connection{Action: action}
	end := time.Now().Add(cmp.Or(p.Within, Handshake))
	over := func() bool { return ctx.Err() != nil || !time.Now().Before(end) }
	made.Verdict = tunnel{p, c, &made, end, over}.run(ctx, hosts)
	p.mu.Lock()
	p.made[at] = made
	p.mu.Unlock()
}

// tunnel is one connection.
type tunnel struct {
	*Proxy
	client net.Conn
	made   *evidence.Connection
	end    time.Time   // of the handshake
	over   func() bool // the handshake was not finished in time, or before the action's end
}

// run makes the checks, and passes the connection on if it has passed them.
func (t tunnel) run(ctx context.Context, hosts contract.Hosts) (verdict string) {
	_ = t.client.SetDeadline(t.end)
	within, cancel := context.WithDeadline(ctx, t.end)
	defer cancel()
	limited := &io.LimitedReader{R: t.client, N: maxRequest}
	from := bufio.NewReader(limited)
	private, verdict := t.request(from, hosts)
	if verdict != "" {
		return verdict
	}
	limited.N = math.MaxInt64
	host, err := t.Dialer.Dial(within, t.made.Name, t.made.Port, private)
	switch {
	case errors.Is(err, outbound.ErrAddress):
		return t.refuse(http.StatusForbidden, evidence.RefusedAddress)
	case err != nil:
		return t.refuse(http.StatusBadGateway, evidence.Unreachable)
	}
	defer host.Close()
	defer context.AfterFunc(ctx, func() { _ = host.Close() })()
	if _, err := io.WriteString(t.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return evidence.Unfinished
	}
	first, verdict := clientHello(from, t.made.Name)
	switch {
	case verdict != "" && t.over():
		return evidence.Unfinished
	case verdict != "":
		return verdict
	}
	_ = t.client.SetDeadline(time.Time{})
	t.pass(host, io.MultiReader(bytes.NewReader(first), from))
	return evidence.Passed
}

// request reads the request and returns whether its host may be at a private address, or
// the verdict that refuses it.
func (t tunnel) request(from *bufio.Reader, hosts contract.Hosts) (private bool, verdict string) {
	r, err := http.ReadRequest(from)
	switch {
	case err != nil && t.over():
		return false, evidence.Unfinished
	case err != nil:
		return false, t.refuse(http.StatusBadRequest, evidence.RefusedRequest)
	case r.Method != http.MethodConnect:
		return false, t.refuse(http.StatusMethodNotAllowed, evidence.RefusedRequest)
	}
	text, portText, err := net.SplitHostPort(r.RequestURI)
	name, isName := contract.HostName(text)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil || !isName {
		return false, t.refuse(http.StatusForbidden, evidence.RefusedName)
	}
	t.made.Name, t.made.Port = name, int(port)
	private, ok := hosts.Allows(name, int(port))
	if !ok {
		return false, t.refuse(http.StatusForbidden, evidence.RefusedUnlisted)
	}
	return private, ""
}

// refuse answers a request that is refused, and returns the verdict.
func (t tunnel) refuse(status int, verdict string) string {
	text := "fiador: " + verdict + "\n"
	_, _ = fmt.Fprintf(t.client, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(text), text)
	return verdict
}

// clientHello reads a ClientHello whose server name is name, and returns the bytes that it
// has read, or the verdict that refuses them.
func clientHello(from io.Reader, name string) (read []byte, verdict string) {
	var b bytes.Buffer
	verdict = evidence.RefusedNotTLS
	server := tls.Server(reader{Reader: io.TeeReader(from, &b)}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		verdict = evidence.RefusedServerName
		if asked, ok := contract.HostName(hello.ServerName); ok && asked == name {
			verdict = ""
		}
		return nil, errRead
	}})
	_ = server.Handshake() // ends with errRead at the latest
	return b.Bytes(), verdict
}

// errRead ends the handshake after the ClientHello.
var errRead = errors.New("the ClientHello was read")

// reader is a connection that is read alone.
type reader struct {
	net.Conn
	io.Reader
}

func (r reader) Read(b []byte) (int, error) { return r.Reader.Read(b) }

// Write drops the alert at the end of the handshake.
func (r reader) Write(b []byte) (int, error) { return len(b), nil }

// pass copies both directions until both have ended.
func (t tunnel) pass(host net.Conn, from io.Reader) {
	var both sync.WaitGroup
	both.Go(func() { t.made.Sent = copyTo(host, from) })
	both.Go(func() { t.made.Received = copyTo(t.client, host) })
	both.Wait()
}

// copyTo copies one direction and tells the receiver its end; after a fault it closes the
// receiver. It returns the number of bytes.
func copyTo(to net.Conn, from io.Reader) int64 {
	n, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
	} else {
		_ = to.Close()
	}
	return n
}
