package suitedir

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/ledger"
)

func newKey(t *testing.T, name string) *ledger.Signer {
	t.Helper()
	private, _, err := ledger.GenerateKey(rand.NewChaCha8([32]byte{name[0]}), name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestAttest: a statement says PASSED for a gate that passed, and for no other. It is read only
// if one of the given keys has signed it.
func TestAttest(t *testing.T) {
	key, other := newKey(t, "a.example/x"), newKey(t, "b.example/x")
	subjects := []Subject{NewSubject("report.html", canon.Sum([]byte("page")))}
	for _, status := range []string{grade.GatePass, grade.GateFail, grade.GateInconclusive, ""} {
		var c grade.Comparison
		c.Gate.Status = status
		text, err := Attest(c, canon.Sum(nil), subjects, key)
		if err != nil {
			t.Fatal(err)
		}
		got, passed, err := Attested(text, []ledger.Verifier{other.Verifier(), key.Verifier()})
		if err != nil || passed != (status == grade.GatePass) || !slices.Equal(got, subjects) {
			t.Errorf("%q: passed %t, %v, %v", status, passed, got, err)
		}
		if _, _, err := Attested(text, []ledger.Verifier{other.Verifier()}); err == nil {
			t.Errorf("%q: a key that did not sign is enough", status)
		}
		run, err := Sign([]byte("{}\n"), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Attested(run, []ledger.Verifier{key.Verifier()}); err == nil {
			t.Error("the signature of a run is taken for a statement")
		}
	}
}

type memory map[string][]byte

func (m memory) Read(name string, _ int64) ([]byte, error) { return m[name], nil }
func (m memory) Hash(name string, _ int64) (string, int64, error) {
	return string(canon.Sum(m[name])), int64(len(m[name])), nil
}

// TestSigned: a signature counts for a sealed run.json with the signed bytes alone.
func TestSigned(t *testing.T) {
	key, other := newKey(t, "a.example/x"), newKey(t, "b.example/x")
	run := []byte("{}\n")
	text, err := Sign(run, key)
	if err != nil {
		t.Fatal(err)
	}
	files := memory{trial.RunFile: run, trial.SignatureFile: text}
	changed := memory{trial.RunFile: []byte("{ }\n"), trial.SignatureFile: text}
	forged := memory{trial.RunFile: run, trial.SignatureFile: bytes.Replace(text, []byte(`"sig":"`), []byte(`"sig":"AAAA`), 1)}
	if ids, err := New(files).Signed(true, []ledger.Verifier{other.Verifier(), key.Verifier()}); err != nil || !slices.Equal(ids, []string{key.Verifier().ID()}) {
		t.Errorf("%q, %v", ids, err)
	}
	for name, signed := range map[string]func() ([]string, error){
		"another key":  func() ([]string, error) { return New(files).Signed(true, []ledger.Verifier{other.Verifier()}) },
		"no seal":      func() ([]string, error) { return New(files).Signed(false, []ledger.Verifier{key.Verifier()}) },
		"another run":  func() ([]string, error) { return New(changed).Signed(true, []ledger.Verifier{key.Verifier()}) },
		"forged":       func() ([]string, error) { return New(forged).Signed(true, []ledger.Verifier{key.Verifier()}) },
		"no signature": func() ([]string, error) { return New(memory{trial.RunFile: run}).Signed(true, nil) },
	} {
		if ids, err := signed(); err == nil {
			t.Errorf("%s: signed by %q", name, ids)
		}
	}
}
