package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
)

// listen opens the address, for TLS unless it is loopback.
func listen(c Config) (net.Listener, string, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("--listen is HOST:PORT: %w", err)
	}
	ip := net.ParseIP(host)
	if c.TLSCert == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, "", fmt.Errorf("without TLS only a loopback address is allowed, and --listen is %q; add --tls-cert and --tls-key, or listen on 127.0.0.1", c.Listen)
	}
	var certificate tls.Certificate
	if c.TLSCert != "" {
		if certificate, err = tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			return nil, "", err
		}
	}
	open, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, "", err
	}
	listener := limited{open, make(chan struct{}, maxConnections)}
	if c.TLSCert == "" {
		if a, ok := listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
			return nil, "", errors.Join(errors.New("localhost is not a loopback address here"), listener.Close())
		}
		return listener, "http://" + listener.Addr().String(), nil
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}}),
		"https://" + listener.Addr().String(), nil
}

// maxConnections leaves files for Tessera, which ends the process when it cannot open one.
const maxConnections = 500

// limited is a listener with a limited number of connections; more wait.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	release := sync.OnceFunc(func() { <-l.slots })
	if err != nil {
		release()
		return nil, err
	}
	return limitedConn{c, release}, nil
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
