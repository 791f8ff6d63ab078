package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/sandbox/proxy"
	"github.com/fiador/fiador/kernel/contract"
)

const farName = "far.example"

// farSide is a server on loopback. A client sends it a ClientHello, which it answers with one
// byte, and then a number of bytes, which it sends. There is no cryptography: it would be
// measured instead of the proxy, which reads the ClientHello alone.
type farSide struct {
	net.Listener
	hello []byte
	hosts contract.Hosts
}

func newFarSide() (*farSide, error) {
	hello, err := clientHello()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &farSide{Listener: l, hello: hello}
	allow, _, wrong := contract.ParseHosts([]string{"private:" + f.target()})
	if wrong != "" {
		return nil, errors.Join(fmt.Errorf("%q is no host", wrong), l.Close())
	}
	f.hosts.Allow = allow
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f, nil
}

// clientHello returns the first record that crypto/tls sends.
func clientHello() ([]byte, error) {
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		defer near.Close()
		_ = tls.Client(near, &tls.Config{ServerName: farName}).Handshake() // nobody answers
	}()
	const head = 5
	record := make([]byte, head)
	if _, err := io.ReadFull(far, record); err != nil {
		return nil, err
	}
	record = append(record, make([]byte, binary.BigEndian.Uint16(record[head-2:]))...)
	_, err := io.ReadFull(far, record[head:])
	return record, err
}

func (f *farSide) target() string {
	return fmt.Sprintf("%s:%d", farName, f.Addr().(*net.TCPAddr).Port)
}

// serve serves one connection. A client that goes away ends it.
func (f *farSide) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(f.hello))); err != nil {
		return
	}
	var n uint64
	if _, err := c.Write([]byte{1}); err != nil || binary.Read(c, binary.BigEndian, &n) != nil {
		return
	}
	block := make([]byte, 256<<10)
	for left := int(n); left > 0; left -= len(block) {
		if _, err := c.Write(block[:min(left, len(block))]); err != nil {
			return
		}
	}
}

// direct connects to the server, and has it send n bytes.
func (f *farSide) direct(n int) (connected, copied time.Duration, err error) {
	return f.converse(f.Addr().String(), "", n)
}

// proxied does the same through a proxy.
func (f *farSide) proxied(n int) (connected, copied time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	p := &proxy.Proxy{Dialer: outbound.Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}}}
	end := p.Serve(l, 0, f.hosts)
	connected, copied, err = f.converse(l.Addr().String(), "CONNECT "+f.target()+" HTTP/1.1\r\nHost: "+f.target()+"\r\n\r\n", n)
	end()
	if made := p.Connections(); err == nil && (len(made) != 1 || made[0].Verdict != evidence.Passed || made[0].Received <= int64(n)) {
		err = fmt.Errorf("the proxy has recorded %+v", made)
	}
	return connected, copied, err
}

func (f *farSide) converse(address, request string, n int) (connected, copied time.Duration, err error) {
	begin := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	if request != "" {
		if err := ask(c, in, request); err != nil {
			return 0, 0, err
		}
	}
	if _, err := c.Write(f.hello); err != nil {
		return 0, 0, err
	}
	if _, err := in.ReadByte(); err != nil {
		return 0, 0, err
	}
	connected = time.Since(begin)
	begin = time.Now()
	if err := binary.Write(c, binary.BigEndian, uint64(n)); err != nil {
		return 0, 0, err
	}
	block := make([]byte, 256<<10)
	for got := 0; got < n; {
		k, err := c.Read(block)
		if got += k; err != nil && got < n {
			return 0, 0, fmt.Errorf("%d of %d bytes: %w", got, n, err)
		}
	}
	return connected, time.Since(begin), nil
}

// ask sends a request to the proxy, and reads the head of the answer.
func ask(c net.Conn, in *bufio.Reader, request string) error {
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	for first := ""; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if first == "" {
			first = line
		}
		if strings.TrimSpace(line) != "" {
			continue
		}
		if !strings.HasPrefix(first, "HTTP/1.1 200 ") {
			return fmt.Errorf("the proxy says %q", first)
		}
		return nil
	}
}
