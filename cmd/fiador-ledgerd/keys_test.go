package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/tokens"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// TestKeyAndToken: key makes a key that nobody else can read, and token adds a client to a
// file. Nothing that stands there is lost.
func TestKeyAndToken(t *testing.T) {
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "clients.json")
	says := func(status int, text string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(context.Background(), args, &out, &errs); got != status || !strings.Contains(errs.String(), text) {
			t.Fatalf("%q: exit status %d\n%s%s", args, got, &out, &errs)
		}
		return strings.TrimSpace(out.String())
	}
	verifier, err := ledger.ParseVerifier(says(0, "", "key", "--origin", testOrigin, "--key", key))
	check(t, err)
	signer, err := disk.ReadKey(key)
	check(t, err)
	if signer.Verifier().String() != verifier.String() {
		t.Error("two keys")
	}
	says(2, "a key is never replaced", "key", "--origin", testOrigin, "--key", key)
	says(2, "an origin", "key", "--origin", "a/ack", "--key", filepath.Join(dir, "other"))
	if again, err := disk.ReadKey(key); err != nil || again.Verifier().String() != verifier.String() {
		t.Errorf("the key is another one: %v", err)
	}

	first := says(0, "", "token", "ci", "--may", "append", "--clients", file)
	second := says(0, "", "token", "auditor", "--may", "read", "--clients", file)
	known, err := tokens.Read(file)
	check(t, err)
	if c, ok := known.Of(first); !ok || c.Name != "ci" || !c.MayAppend {
		t.Errorf("%+v, %t", c, ok)
	}
	if c, ok := known.Of(second); !ok || c.Name != "auditor" || c.MayAppend {
		t.Errorf("%+v, %t", c, ok)
	}
	before, err := os.ReadFile(file)
	check(t, err)
	says(2, "give each client its own", "token", "ci", "--may", "read", "--clients", file)
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed: %v", err)
	}
	if strings.Contains(string(before), first) {
		t.Error("the file has a token")
	}
	check(t, os.WriteFile(file, []byte("{"), 0o644))
	says(2, "clients.json", "token", "b", "--may", "read", "--clients", file)
}

// certificate makes a certificate for an address, which is its own authority, and returns the
// files of it and of its key.
func certificate(t *testing.T, ip net.IP) (cert, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	b, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	cert, private = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	check(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	check(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}), 0o600))
	return cert, private
}
