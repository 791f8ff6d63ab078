package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// certificate makes the certificate of a server, and the pool of those who sign it.
func (p *place) certificate() (cert, keyFile string, roots *x509.CertPool) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(p.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(p.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(p.t, err)
	cert, keyFile = filepath.Join(p.t.TempDir(), "cert"), filepath.Join(p.t.TempDir(), "key")
	check(p.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	check(p.t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	parsed, err := x509.ParseCertificate(der)
	check(p.t, err)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return cert, keyFile, roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cert, keyFile, roots := p.certificate()
	r := p.start(server.Config{}, "--tls-cert", cert, "--tls-key", keyFile)
	if !strings.Contains(r.stderr.String(), "listening on https://127.0.0.1:") {
		t.Errorf("stderr: %s", r.stderr)
	}
	for _, h2 := range []bool{true, false} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}}
		draft, err := begun("run-1").Draft()
		check(t, err)
		req, err := http.NewRequest("POST", strings.Replace(r.url, "http:", "https:", 1)+"/v1/records", bytes.NewReader(draft))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+r.tokens["ci"])
		resp, err := c.Do(req)
		check(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 || (resp.ProtoMajor == 2) != h2 {
			t.Errorf("%s: %d", resp.Proto, resp.StatusCode)
		}
		c.CloseIdleConnections()
	}
}

// TestManyStreams: the server tells clients of HTTP/2 how many requests it takes at a time on
// one connection.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cert, key, roots := p.certificate()
	r := p.start(server.Config{}, "--tls-cert", cert, "--tls-key", key)
	c, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "http://"), &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	check(t, err)
	defer c.Close()
	_, err = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // with settings that are empty
	check(t, err)
	head := make([]byte, 9)
	_, err = io.ReadFull(c, head)
	check(t, err)
	if head[3] != 4 {
		t.Fatalf("the first frame is no SETTINGS: %x", head)
	}
	settings := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c, settings)
	check(t, err)
	for ; len(settings) > 0; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == 3 {
			if n := binary.BigEndian.Uint32(settings[2:]); n != 64 {
				t.Errorf("%d requests at a time", n)
			}
			return
		}
	}
	t.Error("the server sets no maximum")
}
