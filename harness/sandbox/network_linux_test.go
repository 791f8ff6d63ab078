//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/contract"
)

// site is a TLS server of this machine, whose name is localhost.
type site struct {
	*httptest.Server
	port int
	ca   []byte        // the certificate that a client must trust
	gone chan struct{} // gets a value when the client of /wait is gone
}

// newSite serves a folder, "hello" at /hello, and a page without an end at /wait.
func newSite(t *testing.T, folder string) *site {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), gone: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(folder)))
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		s.gone <- struct{}{}
	})
	s.Server = httptest.NewUnstartedServer(mux)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.port = s.Listener.Addr().(*net.TCPAddr).Port
	return s
}

// entry is the server's entry in a list of hosts.
func (s *site) entry() string { return fmt.Sprintf("private:localhost:%d", s.port) }

func hostList(t *testing.T, entries ...string) contract.Hosts {
	t.Helper()
	allow, _, wrong := contract.ParseHosts(entries)
	if wrong != "" {
		t.Fatal(wrong)
	}
	return contract.Hosts{Allow: allow}
}

// listed starts a sandbox in which the scripts may reach hosts, each those of its action.
func listed(t *testing.T, s *site, actions ...Action) *Sandbox {
	t.Helper()
	h := NewHost(t.TempDir())
	box, err := h.Start(t.Context(), Request{
		Write: Staged, Limits: limits(), Listed: true, Grace: 100 * time.Millisecond,
		Actions: append([]Action{{Path: "ca.pem", Content: s.ca}}, actions...),
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != "" {
		t.Skipf("full isolation cannot be had here: %v", e)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(box.Close(), h.Close()); err != nil {
			t.Error(err)
		}
	})
	if errno, err := box.Write(0); errno != 0 || err != nil {
		t.Fatal(errno, err)
	}
	return box
}

// output performs action i and returns what it printed on both streams.
func output(t *testing.T, box *Sandbox, i int) string {
	t.Helper()
	res, err := command.Run(t.Context(), box.Command(i, actionTime, nil), command.Spec{Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Stdout.Bytes) + string(res.Stderr.Bytes)
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed here; it is a client of the proxy", p)
		}
	}
}

const curl = "curl -sS --cacert ca.pem --max-time 60 "

// TestHostileListedHosts: curl reaches a listed host through the proxy, and nothing else in
// any other way. As root and as an ordinary user (TestHostileAsUser).
func TestHostileListedHosts(t *testing.T) {
	needs(t, "curl", "bash", "getent")
	s := newSite(t, t.TempDir())
	plain := rehearsal.Serve(t)
	six, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Logf("no address of version 6 here: %v", err)
	} else {
		defer six.Close()
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	var packets atomic.Int32
	go func() {
		for {
			if _, _, err := udp.ReadFrom(make([]byte, 10)); err != nil {
				return
			}
			packets.Add(1)
		}
	}()
	sixPort := 1
	if six != nil {
		sixPort = six.Addr().(*net.TCPAddr).Port
	}
	at := fmt.Sprintf(":%d", s.port)
	var actions []Action
	tests := []struct {
		name, script, want, verdict string
	}{
		{"listed", curl + "https://localhost" + at + "/hello", "hello\n", evidence.Passed},
		{"a dot at the end", curl + "https://localhost." + at + "/hello", "hello\n", evidence.Passed},
		{"capitals", curl + "https://LOCALHOST" + at + "/hello", "hello\n", evidence.Passed},
		{"an address", curl + "https://127.0.0.1" + at + "/hello", "response 403", evidence.RefusedName},
		{"an address of version 6", curl + "https://[::1]" + at + "/hello", "response 403", evidence.RefusedName},
		{"another port", fmt.Sprintf("%shttps://localhost:%d/", curl, plain.Port), "response 403", evidence.RefusedUnlisted},
		{"another host", curl + "https://example.org/", "response 403", evidence.RefusedUnlisted},
		{"another server name", curl + "-k --connect-to other.example:443:localhost" + at + " https://other.example/hello", "curl: (", evidence.RefusedServerName},
		{"no TLS", curl + "-p http://localhost" + at + "/hello", "curl: (", evidence.RefusedNotTLS},
		{"plain HTTP", curl + "-w '%{http_code}' http://localhost" + at + "/hello", "405", evidence.RefusedRequest},
		{"no proxy", curl + "--noproxy '*' https://localhost" + at + "/hello", "curl: (7)", ""},
		{"no proxy, plain", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo connected", plain.Port), "refused", ""},
		{"loopback of version 6", fmt.Sprintf("exec 3<>/dev/tcp/::1/%d && echo connected", sixPort), "refused", ""},
		{"UDP", fmt.Sprintf("echo x >/dev/udp/127.0.0.1/%d; echo sent", udp.LocalAddr().(*net.UDPAddr).Port), "sent\n", ""},
		{"a name", "getent hosts example.org || echo none", "none\n", ""},
		{"a route", "exec 3<>/dev/tcp/192.0.2.1/80 && echo connected", "unreachable", ""},
		{"DNS", "exec 3<>/dev/udp/192.0.2.53/53 && echo connected", "unreachable", ""},
		{"the port of the proxy", "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3", "405 Method Not Allowed", evidence.RefusedRequest},
	}
	for _, test := range tests {
		actions = append(actions, Action{Argv: []string{"bash", "-c", test.script}, Hosts: hostList(t, s.entry())})
	}
	box := listed(t, s, append(actions, Action{Argv: []string{"bash", "-c", tests[0].script}, Hosts: hostList(t, "example.org")})...)
	for i, test := range tests {
		before := len(box.Connections())
		if got := output(t, box, i+1); !strings.Contains(got, test.want) || strings.Contains(got, "connected\n") {
			t.Errorf("%s: %q", test.name, got)
		}
		made := box.Connections()[before:]
		if test.verdict == "" && len(made) > 0 || test.verdict != "" && (len(made) != 1 || made[0].Verdict != test.verdict || made[0].Action != i+1) {
			t.Errorf("%s: %+v", test.name, made)
		}
	}
	if got := output(t, box, len(tests)+1); !strings.Contains(got, "response 403") {
		t.Errorf("the list of another action: %q", got)
	}
	if plain.Calls.Load()+packets.Load() > 0 {
		t.Errorf("%d connections and %d packets came to the host", plain.Calls.Load(), packets.Load())
	}
	if !slices.Contains(box.Clauses, evidence.NetworkProxy.Clause()) {
		t.Errorf("clauses %+v", box.Clauses)
	}
}

// TestHostileGitThroughProxy: git clones a repository of a listed host.
func TestHostileGitThroughProxy(t *testing.T) {
	needs(t, "git")
	folder := t.TempDir()
	cmd := exec.Command("sh", "-ec", realGit+`git init -q made; cd made; echo one >a; git add a; git commit -qm first
git clone -q --bare . ../repo.git; cd ../repo.git; git update-server-info`)
	cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := newSite(t, folder)
	box := listed(t, s, Action{
		Argv:  []string{"sh", "-c", fmt.Sprintf("git -c http.sslCAInfo=$PWD/ca.pem clone -q https://localhost:%d/repo.git copy && git -C copy log --format=%%s && cat copy/a", s.port)},
		Hosts: hostList(t, s.entry()),
	})
	if got := output(t, box, 1); got != "first\none\n" {
		t.Errorf("%q", got)
	}
	for _, c := range box.Connections() {
		if c.Verdict != evidence.Passed || c.Sent == 0 || c.Received == 0 {
			t.Errorf("%+v", c)
		}
	}
}

// TestHostileConnectionOutlivesAction: a process that stays behind loses its connection with
// the end of its action, and the port of the proxy is closed until the next one.
func TestHostileConnectionOutlivesAction(t *testing.T) {
	needs(t, "curl", "setsid")
	s := newSite(t, t.TempDir())
	url := fmt.Sprintf("https://localhost:%d", s.port)
	box := listed(t, s,
		Action{Argv: []string{"sh", "-c", "setsid " + curl + "-N -o page -D head " + url + "/wait >/dev/null 2>&1 & while ! grep -q 200.OK head 2>/dev/null; do sleep 0.01; done; echo open"}, Hosts: hostList(t, s.entry())},
		Action{Argv: []string{"sh", "-c", curl + url + "/hello"}, Hosts: hostList(t, s.entry())})
	if got := output(t, box, 1); got != "open\n" {
		t.Fatalf("%q", got)
	}
	<-s.gone
	if c := box.Connections(); len(c) != 1 || c[0].Verdict != evidence.Passed {
		t.Errorf("%+v", c)
	}
	if got := output(t, box, 2); got != "hello\n" {
		t.Errorf("the next action: %q", got)
	}
	if err := box.Finish(); err != nil {
		t.Error(err)
	}
}

// TestListedNeedsFull: no weaker isolation lists hosts, whatever the request allows.
func TestListedNeedsFull(t *testing.T) {
	h := NewHost(t.TempDir())
	defer h.Close()
	for _, r := range []Request{
		{Listed: true, Least: Confined, Most: Confined}, {Listed: true, Least: None, Most: None}, {Listed: true, Least: Confined, Most: None},
		{Listed: true, Network: true},
	} {
		r.Write, r.Limits, r.Actions = Staged, limits(), []Action{{Argv: []string{"true"}}}
		var e *Error
		if s, err := h.Start(t.Context(), r); !errors.As(err, &e) || e.Step != StepHost {
			t.Errorf("%+v: sandbox %v, error %v", r, s, err)
		}
	}
	r := Request{Write: Staged, Limits: limits(), Listed: true, Least: Confined, Actions: []Action{{Argv: []string{"true"}}}}
	h.refused.Store(&Error{Isolation: Full, Step: StepStart, Cause: CauseLimit})
	if s, err := h.Start(t.Context(), r); err == nil {
		t.Errorf("without namespaces the isolation is %s", s.Isolation)
		_ = s.Close()
	}
}
