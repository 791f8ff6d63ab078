package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: a pipe in the place of a file is refused, where opening it would block.
func TestPipe(t *testing.T) {
	l := newLiar().serve(t)
	k := newTask(t, "is not run").file("in/pipe", []byte("hello\n"), false)
	must(t, replace(k.inputs[0].Source, func() error { return syscall.Mkfifo(k.inputs[0].Source, 0o600) }))
	h := startInside(t)
	h.greet(helloTo(l.address))
	h.send(k.ready())
	if a := h.want("failed"); a.Kind != kindChanged || !strings.Contains(a.Message, "not a regular file") {
		t.Errorf("got %+v", a)
	}
}

// TestKeepAlive: the system asks a silent connection whether the other side is still there.
func TestKeepAlive(t *testing.T) {
	l := newLiar().serve(t)
	conn, err := dialer(true).Dial("tcp", strings.TrimPrefix(l.address, "grpc://"))
	must(t, err)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		for option, want := range map[[2]int]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}: 1, {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE}: 30,
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}: 10, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT}: 3,
		} {
			if got, err := syscall.GetsockoptInt(int(fd), option[0], option[1]); err != nil || got != want {
				t.Errorf("option %v is %d, want %d (%v)", option, got, want, err)
			}
		}
	}))
}
