package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// netVar names the file that TestMachines writes when it ends in its network namespace. The
// program fiador is beside it.
const netVar = "FIADOR_LEDGERD_NET"

// TestNetwork runs TestMachines in network and user namespaces of its own.
func TestNetwork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("no network can be set up here without the program ip (Debian: iproute2): %v", err)
	}
	fiador, err := built()
	check(t, err)
	dir := t.TempDir()
	check(t, os.Symlink(fiador, filepath.Join(dir, "fiador")))
	done := filepath.Join(dir, "done")
	cmd := exec.Command(os.Args[0], "-test.run=^TestMachines$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), netVar+"="+done)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("no user and network namespaces here: %v", err)
	}
	err = cmd.Wait()
	why, doneErr := os.ReadFile(done)
	switch {
	case err != nil || doneErr != nil:
		t.Errorf("%v, %v\n%s", err, doneErr, &out)
	case len(why) > 0:
		t.Skip(string(why))
	}
}

// host is a machine of its own: a network namespace with one cable to the server's machine.
type host struct {
	*machine
	net *os.File // nil: the namespace of the server
	env []string
}

// in calls do on a thread that is in the network namespace, and so are the programs it starts.
func (h *host) in(do func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this goroutine
		if h.net != nil {
			if err := unix.Setns(int(h.net.Fd()), unix.CLONE_NEWNET); err != nil {
				ended <- err
				return
			}
		}
		ended <- do()
	}()
	return <-ended
}

// says fails the test unless fiador, on this machine, ends with a status and says a text.
func (h *host) says(status int, text string, args ...string) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Getenv(netVar)), "fiador"), args...)
	cmd.Dir = h.home
	cmd.Env = append(h.env, "HOME="+h.home, "PATH="+os.Getenv("PATH"), "FIADOR_LEDGER="+h.url, "FIADOR_LEDGER_KEY="+h.key, "FIADOR_LEDGER_TOKEN="+h.token)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := h.in(cmd.Run)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(out.String(), text) {
		h.t.Fatalf("%q: exit status %d\n%s", args, got, &out)
	}
}

// ip runs the program ip in the namespace.
func (h *host) ip(args ...string) error {
	return h.in(func() error {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// connect makes a network namespace and a cable between it and the one of the server, which
// gets the address 10.77.n.1.
func connect(server *host, n int) (*host, error) {
	h := &host{}
	err := h.in(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			h.net, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	cable, far := fmt.Sprint("cable", n), fmt.Sprint("far", n)
	for _, step := range []struct {
		at   *host
		args string
	}{
		{server, "link add " + cable + " type veth peer name " + far},
		{server, fmt.Sprintf("link set %s netns /proc/%d/fd/%d", far, os.Getpid(), h.net.Fd())},
		{server, fmt.Sprintf("addr add 10.77.%d.1/24 dev %s", n, cable)},
		{server, "link set " + cable + " up"},
		{h, "link set lo up"},
		{h, fmt.Sprintf("addr add 10.77.%d.2/24 dev %s", n, far)},
		{h, "link set " + far + " up"},
		{h, fmt.Sprintf("route add default via 10.77.%d.1", n)},
	} {
		if err := step.at.ip(strings.Fields(step.args)...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// TestMachines: two machines record with a server over TLS, and a third one, which has the
// address and the key alone, verifies the log. Each is in a network namespace of its own, and
// reaches nothing but the server. When the disk of the server is rolled back, the next command of
// the third machine says so.
func TestMachines(t *testing.T) {
	done := os.Getenv(netVar)
	if done == "" {
		t.Skip("TestNetwork runs it, in network namespaces")
	}
	ends := func(why string) { check(t, os.WriteFile(done, []byte(why), 0o600)) }
	const address = "10.77.0.1"
	server := &host{}
	err := errors.Join(server.ip("link", "set", "lo", "up"), server.ip("addr", "add", address+"/32", "dev", "lo"))
	hosts := make([]*host, 4)
	for i := range hosts {
		if err == nil {
			hosts[i], err = connect(server, i+1)
		}
	}
	if err != nil {
		ends("no network can be set up here: " + err.Error())
		return
	}
	p := newPlace(t)
	cert, key := certificate(t, net.ParseIP(address))
	flags := []string{"--public-read", "--listen", address + ":8470", "--tls-cert", cert, "--tls-key", key}
	r := p.process(flags...)
	if r.url != "https://"+address+":8470" {
		t.Fatalf("the server is %s", r.url)
	}
	for i, token := range []string{"ci", "ci", "", "ci"} {
		hosts[i].machine, hosts[i].env = r.machine(t, token), []string{"SSL_CERT_FILE=" + cert}
	}
	a, b, auditor, stranger := hosts[0], hosts[1], hosts[2], hosts[3]
	with := func(args ...string) []string { return append(args, "--key", auditor.key) }

	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one", "--receipt", "one.tlog-proof")
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "two", "--receipt", "two.tlog-proof", "--receipt-wait", "1m")
	auditor.says(0, "CLEAN", with("ledger", "verify", "--tiles")...)
	auditor.says(0, `"run_id":"two"`, with("ledger", "show", "2", "--line")...)

	// A machine that does not know the certificate sends nothing, and no machine has the server's
	// own addresses.
	stranger.env = []string{"SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/dev/null"}
	stranger.says(2, "certificate", "run", "intent.json", "--ledger-wait", "10s")
	stranger.env = a.env
	stranger.url = "https://127.0.0.1:8470"
	stranger.says(2, "does not answer", "run", "intent.json", "--ledger-wait", "1s")
	if err := a.ip("link", "set", "far1", "down"); err != nil { // the cable is pulled
		t.Fatal(err)
	}
	a.says(2, "does not answer", "run", "intent.json", "--ledger-wait", "1s")
	if err := errors.Join(a.ip("link", "set", "far1", "up"), a.ip("route", "add", "default", "via", "10.77.1.1")); err != nil {
		t.Fatal(err)
	}

	// Yesterday's disk.
	check(t, r.stop())
	copied := filepath.Join(t.TempDir(), "log")
	check(t, os.CopyFS(copied, os.DirFS(p.dir)))
	r = p.process(flags...)
	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "three", "--receipt", "three.tlog-proof", "--receipt-wait", "1m")
	auditor.says(0, "CLEAN", with("ledger", "verify")...)
	check(t, r.stop())
	check(t, os.RemoveAll(p.dir))
	check(t, os.CopyFS(p.dir, os.DirFS(copied)))
	p.process(flags...)
	auditor.says(1, "TRUNCATED", with("ledger", "verify")...)
	b.says(1, "1 kept, 1 lost", with("ledger", "check-receipts", gathered(t, a.machine))...)
	ends("")
}
