//go:build linux && (amd64 || arm64)

package sandbox

import (
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox/initproc"
)

// Listed hosts are reached through a proxy of the supervisor. The network of the sandbox has
// loopback alone, without a route and without a resolver. The init makes the socket that
// commands connect to and passes it on; the supervisor accepts connections there, and makes
// connections to hosts in its own network (package proxy).

// environment is the fixed environment of a command. With listed hosts it names the proxy,
// in the spellings that programs look for.
func (r Request) environment(home string) []string {
	list := environment(home)
	if !r.Listed {
		return list
	}
	at := "=http://127.0.0.1:" + strconv.Itoa(initproc.ProxyPort)
	for _, name := range []string{"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"} {
		list = append(list, name+at)
	}
	return append(list, "NODE_USE_ENV_PROXY=1")
}

// take takes a descriptor that came with the init's report: first the folder that holds the
// written files, then the socket that commands connect to.
func (s *Sandbox) take(fd int) {
	switch {
	case s.staging == stageOverlay && s.upper == nil:
		s.upper = os.NewFile(uintptr(fd), "upper")
	case s.req.Listed && s.port == nil:
		s.port = os.NewFile(uintptr(fd), "proxy")
	default:
		_ = unix.Close(fd)
	}
}

// serve opens the port of the proxy for an action and returns the function that closes it.
// While no action is under way, the port is closed: what an action has left in its queue is
// gone before the next one begins.
func (s *Sandbox) serve(i int) (end func(), err error) {
	if s.port == nil {
		return func() {}, nil
	}
	fd := int(s.port.Fd())
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	l, err := net.FileListener(s.port)
	if err != nil {
		return nil, err
	}
	ended := s.proxy.Serve(l, i, s.req.Actions[i].Hosts)
	return func() {
		ended()
		_ = shutdown(fd) // of a socket that listens, this ends listening
	}, nil
}

// Connections returns the connections that the commands have asked for.
func (s *Sandbox) Connections() []evidence.Connection { return s.proxy.Connections() }
