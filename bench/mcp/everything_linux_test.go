package mcp

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/kernel/adapter"
)

// ownNetwork tells a test that it runs in a network of its own.
const ownNetwork = "FIADOR_TEST_OWN_NETWORK"

// TestEverythingOverHTTP: the reference server answers over streamable HTTP. It listens at
// every address, so the test and the server have a network of their own.
func TestEverythingOverHTTP(t *testing.T) {
	server, err := exec.LookPath("mcp-server-everything")
	if err != nil {
		t.Skip("mcp-server-everything is not in PATH; npm installs it from @modelcontextprotocol/server-everything")
	}
	if os.Getenv(ownNetwork) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEverythingOverHTTP$", "-test.v")
		cmd.Env = append(os.Environ(), ownNetwork+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Skipf("this machine gives no network of its own: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestEverythingOverHTTP") {
			t.Errorf("%s (%v)", out, err)
		}
		return
	}
	loopback(t)
	const address = "127.0.0.1:3001"
	cmd := exec.Command(server, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT=3001")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	url := "http://" + address + "/mcp"
	tools, err := mcp.Pins(soon(t), mcp.Web(url, http.DefaultClient.Do, http.Header{}))
	if err != nil || len(tools) < 5 {
		t.Fatalf("%v (%v)", tools, err)
	}
	for _, c := range []struct {
		message any
		failure string
	}{{"again", ""}, {1, adapter.FailTool}} {
		b := bound(tools, "echo", map[string]any{"message": c.message})
		b.Adapter.Server.URL = url
		r := mcp.HTTP(soon(t), b, http.DefaultClient.Do, http.Header{})
		if r.Failure != c.failure || c.failure == "" && !strings.Contains(string(r.Answer), "Echo: "+fmt.Sprint(c.message)) {
			t.Errorf("%v: %+v %s", c.message, r, r.Answer)
		}
	}
}

// loopback brings the loopback interface up.
func loopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}
