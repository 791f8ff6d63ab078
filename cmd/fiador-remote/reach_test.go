package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// refuses expects that hello fails and ends the program.
func refuses(t *testing.T, hello map[string]any, want kind, message string) {
	t.Helper()
	h := startInside(t)
	h.send(hello)
	a := h.want("failed")
	if a.ID != "" || a.Kind != want || !strings.Contains(a.Message, message) || a.MayHaveRun {
		t.Errorf("got %+v, want %s with %q", a, want, message)
	}
	if status := <-h.status; status != 2 {
		t.Errorf("status %d", status)
	}
}

func TestCapabilities(t *testing.T) {
	other := []repb.DigestFunction_Value{repb.DigestFunction_BLAKE3}
	for _, c := range []struct {
		name, message string
		change        func(*repb.ServerCapabilities)
	}{
		{"no SHA-256 for blobs", "SHA-256", func(s *repb.ServerCapabilities) { s.CacheCapabilities.DigestFunctions = other }},
		{"no SHA-256 for actions", "SHA-256", func(s *repb.ServerCapabilities) { s.ExecutionCapabilities.DigestFunctions = other }},
		{"no cache", "SHA-256", func(s *repb.ServerCapabilities) { s.CacheCapabilities = nil }},
		{"execution off", "executes nothing", func(s *repb.ServerCapabilities) { s.ExecutionCapabilities.ExecEnabled = false }},
		{"no execution", "executes nothing", func(s *repb.ServerCapabilities) { s.ExecutionCapabilities = nil }},
		{"old", "up to 1.9; 2.0 is needed", func(s *repb.ServerCapabilities) {
			s.LowApiVersion.Major, s.HighApiVersion.Major, s.HighApiVersion.Minor = 1, 1, 9
		}},
		{"new", "from 3.0 on", func(s *repb.ServerCapabilities) { s.LowApiVersion.Major, s.HighApiVersion.Major = 3, 3 }},
		{"no version", "up to 0.0", func(s *repb.ServerCapabilities) { s.LowApiVersion, s.HighApiVersion = nil, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar()
			c.change(l.capabilities)
			refuses(t, helloTo(l.serve(t).address), kindConfig, c.message)
		})
	}
	t.Run("both functions", func(t *testing.T) {
		l := newLiar()
		l.capabilities.ExecutionCapabilities.DigestFunctions = []repb.DigestFunction_Value{repb.DigestFunction_BLAKE3, repb.DigestFunction_SHA256}
		a := startInside(t).greet(helloTo(l.serve(t).address))
		if s := a.Server; a.Version != 1 || s.LowAPI != "2.0" || s.HighAPI != "2.3" || !s.Execution || fmt.Sprint(s.DigestFunctions) != "[SHA256]" || s.MaxBatchBytes != 0 {
			t.Errorf("got %+v", a)
		}
	})
}

func TestHelloRefused(t *testing.T) {
	for _, c := range []struct {
		name, message string
		with          map[string]any
	}{
		{"version", "version 2", map[string]any{"version": 2}},
		{"no port", "not of the form", map[string]any{"execution": "grpcs://host"}},
		{"path", "not of the form", map[string]any{"execution": "grpcs://host:1/path"}},
		{"user", "not of the form", map[string]any{"execution": "grpcs:///host:1"}},
		{"scheme", "not of the form", map[string]any{"execution": "https://host:1"}},
		{"clear text", "is not encrypted", map[string]any{"execution": "grpc://192.0.2.1:1"}},
		{"clear text to a name", "is not encrypted", map[string]any{"execution": "grpc://localhost.example:1"}},
		{"clear text to the CAS", `cas "grpc://[2001:db8::1]:1" is not encrypted`, map[string]any{"cas": "grpc://[2001:db8::1]:1"}},
		{"header", `header "grpc-timeout"`, map[string]any{"headers": map[string]string{"grpc-timeout": "1S"}}},
		{"header name", `header "a b"`, map[string]any{"headers": map[string]string{"a b": "x"}}},
		{"header that is metadata", "cannot be set", map[string]any{"headers": map[string]string{"build.bazel.remote.execution.v2.requestmetadata-bin": "x"}}},
		{"header value", `value of header "a"`, map[string]any{"headers": map[string]string{"a": "x\r\ny: z"}}},
		{"parallel", "parallel", map[string]any{"parallel": 0}},
		{"wait", "wait_ms", map[string]any{"wait_ms": -1}},
		{"run id", "run_id", map[string]any{"run_id": ""}},
		{"no file", "tls:", map[string]any{"execution": "grpcs://host:1", "tls": map[string]string{"ca": "/nonexistent"}}},
		{"no certificate", "no certificate", map[string]any{"execution": "grpcs://host:1", "tls": map[string]string{"ca": "/dev/null"}}},
		{"half a pair", "both or not at all", map[string]any{"execution": "grpcs://host:1", "tls": map[string]string{"cert": "/dev/null"}}},
		{"unknown member", "unknown field", map[string]any{"proxy": "http://host"}},
	} {
		t.Run(c.name, func(t *testing.T) { refuses(t, helloTo("grpc://127.0.0.1:1", c.with), kindConfig, c.message) })
	}
}

// TestNoServer: nobody listens, something else listens, and a server that never answers.
func TestNoServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	silent := "grpc://" + listener.Addr().String() // accepts and says nothing
	refuses(t, helloTo(silent, map[string]any{"wait_ms": 300}), kindLost, "no answer within 300ms")
	must(t, listener.Close())
	refuses(t, helloTo(silent), kindLost, "connection refused")
	hangs := newLiar()
	hangs.inspect = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	refuses(t, helloTo(hangs.serve(t).address, map[string]any{"wait_ms": 300}), kindLost, "no answer within 300ms")
	denies := newLiar()
	denies.inspect = func(context.Context, string) error { return status.Error(codes.Unauthenticated, "who are you") }
	refuses(t, helloTo(denies.serve(t).address), kindConfig, "who are you")
}

// TestRedirect: an answer of HTTP that leads elsewhere is not followed.
func TestRedirect(t *testing.T) {
	var elsewhere, here atomic.Int32
	serve := func(f http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(f)
		s.Config.Protocols = &http.Protocols{}
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	target := serve(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for _, code := range []int{301, 302, 307, 308, 401, 404} {
		from := serve(func(w http.ResponseWriter, r *http.Request) {
			here.Add(1)
			w.Header().Set("Location", target.URL+r.URL.Path)
			w.WriteHeader(code)
		})
		want := map[int]kind{401: kindConfig, 404: kindConfig}[code]
		if want == "" {
			want = kindLost
		}
		refuses(t, helloTo("grpc://"+from.Listener.Addr().String(), map[string]any{"headers": map[string]string{"authorization": "Bearer token"}}), want, fmt.Sprint(code))
	}
	if elsewhere.Load() != 0 || here.Load() == 0 {
		t.Errorf("%d calls elsewhere, %d here", elsewhere.Load(), here.Load())
	}
}

// TestHeaders: they are sent on every call, to both endpoints, and what a server makes of
// them never comes out.
func TestHeaders(t *testing.T) {
	const token = "s3cr3t-T0ken&<1>"
	for _, fails := range []bool{false, true} {
		var calls atomic.Int32
		l := newLiar()
		l.inspect = func(ctx context.Context, method string) error {
			md, _ := metadata.FromIncomingContext(ctx)
			if strings.Join(md["authorization"], "") != "Bearer "+token || strings.Join(md["x-key"], "") != token[:6] {
				t.Errorf("%s has %v", method, md)
			}
			calls.Add(1)
			if fails && method == "Execute" {
				return status.Errorf(codes.PermissionDenied, "no: %v %s", md, strings.Repeat("x", maxText-8)+token)
			}
			return nil
		}
		l.result = func(r *repb.ActionResult) {
			r.StderrRaw = []byte("Bearer " + token + strings.Repeat("x", maxText-10) + token)
			r.ExecutionMetadata = &repb.ExecutedActionMetadata{Worker: "at " + token}
		}
		l.serve(t)
		h := startInside(t)
		h.greet(helloTo(l.address, map[string]any{"headers": map[string]string{"Authorization": "Bearer " + token, "x-key": token[:6]}}))
		h.send(newTask(t, "is not run by a liar").ready())
		h.want("accepted")
		if a := h.next(); a.Type == "done" {
			if !strings.HasPrefix(a.Stderr, "[header]xxx") || len(a.Stderr) != maxText || a.Ephemeral.Worker != "at [header]" {
				t.Errorf("got %+v", a)
			}
		} else if a.Kind != kindConfig || !strings.Contains(a.Message, "[header]") || len(a.Message) > maxText {
			t.Errorf("got %+v", a)
		}
		h.mu.Lock()
		if said := h.said.String(); strings.Contains(said, token[:6]) || calls.Load() < 4 {
			t.Errorf("%d calls, printed: %s", calls.Load(), said)
		}
		h.mu.Unlock()
	}
}

// TestTwoEndpoints: blobs go to the CAS, actions to the other server.
func TestTwoEndpoints(t *testing.T) {
	cas, execution := newLiar(), newLiar()
	cas.capabilities.ExecutionCapabilities = nil
	cas.capabilities.CacheCapabilities.MaxBatchTotalSizeBytes = 1 << 20
	execution.capabilities.CacheCapabilities = nil
	execution.blobs = cas.blobs // as a cluster shares its storage; the calls follow one another
	cas.serve(t)
	execution.serve(t)
	h := startInside(t)
	a := h.greet(helloTo(execution.address, map[string]any{"cas": cas.address, "instance": "a/b"}))
	if a.Server.MaxBatchBytes != 1<<20 {
		t.Errorf("got %+v", a)
	}
	k := newTask(t, "is not run by a liar").file("in/a", make([]byte, 2<<20), false)
	h.send(k.ready())
	h.want("accepted")
	if got := k.made(h.want("done")); string(got) != made {
		t.Errorf("got %q", got)
	}
	for method, n := range map[string]int{"GetCapabilities": 1, "Execute": 0, "FindMissingBlobs": 1, "BatchUpdateBlobs": 1, "Write": 1, "BatchReadBlobs": 1} {
		if got := cas.count(method); got != n {
			t.Errorf("%d calls of %s at the CAS, want %d", got, method, n)
		}
	}
	if got := len(execution.calls); got != 2 {
		t.Errorf("calls at the other server: %v", execution.calls)
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue writes a certificate for loopback and its key and returns their files. The first
// one is the authority's own.
func (a *authority) issue(name string) (cert, key string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	if a.cert == nil {
		a.cert, a.key = template, k
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	must(a.t, err)
	if template == a.cert {
		a.cert, err = x509.ParseCertificate(der)
		must(a.t, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	must(a.t, err)
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	must(a.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(a.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

func TestTLS(t *testing.T) {
	a := &authority{t: t, dir: t.TempDir()}
	ca, _ := a.issue("ca")
	serverCert, serverKey := a.issue("server")
	cert, key := a.issue("client")
	other := &authority{t: t, dir: t.TempDir()}
	otherCA, _ := other.issue("ca")
	otherCert, otherKey := other.issue("client")

	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	must(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	config.ClientCAs.AddCert(a.cert)
	l := newLiar().serve(t, grpc.Creds(credentials.NewTLS(config)))
	address := strings.Replace(l.address, "grpc://", "grpcs://", 1)
	with := func(ca, cert, key string) map[string]any {
		return helloTo(address, map[string]any{"tls": map[string]string{"ca": ca, "cert": cert, "key": key}})
	}

	h := startInside(t)
	h.greet(with(ca, cert, key))
	h.send(newTask(t, "is not run by a liar").ready())
	h.want("accepted")
	h.want("done")
	refuses(t, with(otherCA, cert, key), kindConfig, "failed to verify certificate")
	refuses(t, helloTo(address), kindConfig, "failed to verify certificate") // the system's roots
	refuses(t, helloTo(strings.Replace(address, "127.0.0.1", "localhost", 1), map[string]any{"tls": map[string]string{"ca": ca}}), kindConfig, "failed to verify certificate")
	refuses(t, with(ca, "", ""), kindLost, "Unavailable")
	refuses(t, with(ca, otherCert, otherKey), kindLost, "Unavailable")
	old := newLiar().serve(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})))
	refuses(t, helloTo(strings.Replace(old.address, "grpc://", "grpcs://", 1), map[string]any{"tls": map[string]string{"ca": ca}}), kindLost, "protocol version")
}
