package dsse

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

const (
	aType = "application/vnd.example+json"
	most  = 100
)

// keyOf returns a key that depends on its name and a number only.
func keyOf(t testing.TB, name string, n byte) *ledger.Signer {
	t.Helper()
	seed := [32]byte{31: n}
	copy(seed[:], name)
	private, _, err := ledger.GenerateKey(rand.NewChaCha8(seed), name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signedBy returns an envelope with signatures of keys, in order.
func signedBy(t testing.TB, payload string, keys ...*ledger.Signer) Envelope {
	t.Helper()
	e := Envelope{PayloadType: aType}
	for _, k := range keys {
		if err := e.Sign([]byte(payload), k); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// valueOf returns the decoded JSON form of an envelope.
func valueOf(t testing.TB, e Envelope) map[string]any {
	t.Helper()
	text, err := canon.Canonical(e.Document())
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestEncoding: the signed bytes are those of the example in the specification of DSSE.
func TestEncoding(t *testing.T) {
	got := string(Encoding("http://example.com/HelloWorld", []byte("hello world")))
	if want := "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(Encoding("", nil)); got != "DSSEv1 0  0 " {
		t.Errorf("an empty payload gives %q", got)
	}
}

func TestSignAndCheck(t *testing.T) {
	ann, bob, eve := keyOf(t, "ann", 0), keyOf(t, "bob", 0), keyOf(t, "eve", 0)
	e, faults := Read(valueOf(t, signedBy(t, "{}", bob, ann)), aType, most)
	if len(faults) > 0 || string(e.Payload) != "{}" || e.PayloadType != aType {
		t.Fatalf("%+v, %v", e, faults)
	}
	if want := []string{bob.Verifier().ID(), ann.Verifier().ID()}; !slices.Equal(e.Signers(), want) {
		t.Errorf("the signers are %q, and not %q", e.Signers(), want)
	}
	for want, key := range []*ledger.Signer{bob, ann} {
		if at, err := e.Check(key.Verifier()); at != want || err != nil {
			t.Errorf("signature %d: %v", at, err)
		}
	}
	if at, err := e.Check(eve.Verifier()); at != -1 || !errors.Is(err, ErrNotSigned) {
		t.Errorf("signature %d: %v", at, err)
	}
	if at, err := e.Check(keyOf(t, "ann", 1).Verifier()); at != -1 || !errors.Is(err, ErrNotSigned) {
		t.Errorf("signature %d of another key of the same name: %v", at, err)
	}
	for name, changed := range map[string]Envelope{
		"payload":      {aType, []byte("{} "), e.Signatures},
		"payload type": {aType + "x", e.Payload, e.Signatures},
		"signature":    {aType, e.Payload, []Signature{{e.Signatures[1].KeyID, e.Signatures[0].Sig}}},
		"no bytes":     {aType, e.Payload, []Signature{{e.Signatures[1].KeyID, nil}}},
	} {
		if _, err := changed.Check(ann.Verifier()); !errors.Is(err, ledger.ErrBadSignature) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// TestSignAgain: a key has one signature, and all keys sign one payload.
func TestSignAgain(t *testing.T) {
	ann, bob := keyOf(t, "ann", 0), keyOf(t, "bob", 0)
	e := signedBy(t, "a", ann, bob)
	if again := signedBy(t, "a", ann, bob, ann, bob); !reflect.DeepEqual(again, e) {
		t.Errorf("signed again: %+v", again)
	}
	before := valueOf(t, e)
	if err := e.Sign([]byte("b"), ann); !errors.Is(err, ErrOtherPayload) {
		t.Errorf("bob has not signed it: %v", err)
	}
	alone := signedBy(t, "a", ann)
	if err := alone.Sign([]byte("b"), bob); !errors.Is(err, ErrOtherPayload) {
		t.Errorf("ann has not signed it: %v", err)
	}
	if err := alone.Sign([]byte("b"), ann); err != nil || string(alone.Payload) != "b" || len(alone.Signatures) != 1 {
		t.Errorf("who alone has signed signs another payload: %v, %+v", err, alone)
	}
	if _, err := alone.Check(ann.Verifier()); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(valueOf(t, e), before) {
		t.Error("an error has changed the envelope")
	}
	full := Envelope{PayloadType: aType}
	for n := range byte(MaxSignatures) {
		if err := full.Sign([]byte("a"), keyOf(t, "many", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := full.Sign([]byte("a"), bob); err == nil || err.Error() != "it has 16 signatures, the most that there can be" {
		t.Error(err)
	}
	if _, faults := Read(valueOf(t, full), aType, most); len(faults) > 0 {
		t.Error(faults)
	}
}

// TestDocument: the JSON form has exactly these members.
func TestDocument(t *testing.T) {
	text, err := canon.Canonical(Envelope{aType, []byte("{}"), []Signature{{"k", []byte{0, 255}}}}.Document())
	if want := `{"payload":"e30=","payloadType":"` + aType + `","signatures":[{"keyid":"k","sig":"AP8="}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReadRefuses(t *testing.T) {
	good := signedBy(t, "{}", keyOf(t, "ann", 0), keyOf(t, "bob", 0))
	changed := func(change func(e map[string]any)) any {
		v := valueOf(t, good)
		change(v)
		return v
	}
	sig := func(e map[string]any, i int) map[string]any { return e["signatures"].([]any)[i].(map[string]any) }
	encoded := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), n)) }
	id := good.Signatures[0].KeyID
	for name, c := range map[string]struct {
		value any
		want  []Fault
	}{
		"nothing":      {nil, []Fault{{Msg: "not an object"}}},
		"a text":       {"x", []Fault{{Msg: "not an object"}}},
		"no members":   {map[string]any{}, []Fault{{"/payloadType", `not "` + aType + `"`, false}, {"/payload", "not a text in base64", false}, {"/signatures", "not a list of signatures", false}}},
		"other type":   {changed(func(e map[string]any) { e["payloadType"] = aType + ";" }), []Fault{{"/payloadType", `not "` + aType + `"`, false}}},
		"no payload":   {changed(func(e map[string]any) { e["payload"] = "" }), []Fault{{"/payload", "not a text in base64", false}}},
		"long payload": {changed(func(e map[string]any) { e["payload"] = encoded(most + 3) }), []Fault{{"/payload", "more than 100 bytes", false}}},
		"line feed":    {changed(func(e map[string]any) { e["payload"] = "e3\n0=" }), []Fault{{"/payload", "not standard base64", false}}},
		"spare bits":   {changed(func(e map[string]any) { e["payload"] = "e31=" }), []Fault{{"/payload", "not standard base64", false}}},
		"no padding":   {changed(func(e map[string]any) { e["payload"] = "e30" }), []Fault{{"/payload", "not standard base64", false}}},
		"no list":      {changed(func(e map[string]any) { e["signatures"] = nil }), []Fault{{"/signatures", "not a list of signatures", false}}},
		"empty list":   {changed(func(e map[string]any) { e["signatures"] = []any{} }), []Fault{{"/signatures", "not a list of signatures", false}}},
		"many":         {changed(func(e map[string]any) { e["signatures"] = make([]any, MaxSignatures+1) }), []Fault{{"/signatures", "more than 16 signatures", false}}},
		"null":         {changed(func(e map[string]any) { e["signatures"].([]any)[1] = nil }), []Fault{{"/signatures/1", "not an object", false}}},
		"no key id":    {changed(func(e map[string]any) { delete(sig(e, 1), "keyid") }), []Fault{{"/signatures/1/keyid", "not a text of 1 to 256 bytes", false}}},
		"long key id":  {changed(func(e map[string]any) { sig(e, 0)["keyid"] = strings.Repeat("k", 257) }), []Fault{{"/signatures/0/keyid", "not a text of 1 to 256 bytes", false}}},
		"no signature": {changed(func(e map[string]any) { sig(e, 0)["sig"] = 1 }), []Fault{{"/signatures/0/sig", "not a text in base64", false}}},
		"long":         {changed(func(e map[string]any) { sig(e, 0)["sig"] = encoded(1030) }), []Fault{{"/signatures/0/sig", "more than 1024 bytes", false}}},
		"twice":        {changed(func(e map[string]any) { sig(e, 1)["keyid"] = id }), []Fault{{"/signatures/1/keyid", `"` + id + `" a second time`, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			e, faults := Read(c.value, aType, most)
			if !slices.Equal(faults, c.want) {
				t.Errorf("%+v\nand not %+v", faults, c.want)
			}
			if !reflect.DeepEqual(e, Envelope{}) || e.Signers() != nil {
				t.Errorf("a refused value has an envelope: %+v", e)
			}
		})
	}
	value := changed(func(e map[string]any) { e["payload"], e["x"] = encoded(most-1), "ignored" })
	if e, faults := Read(value, aType, most); len(faults) > 0 || len(e.Payload) != most-1 {
		t.Errorf("%d bytes, %v", len(e.Payload), faults)
	}
}

// FuzzRead: an envelope that is read is written as a value that is read as the same
// envelope.
func FuzzRead(f *testing.F) {
	ann := keyOf(f, "ann", 0)
	text, err := canon.Canonical(signedBy(f, "{}", ann, keyOf(f, "bob", 0)).Document())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"payload":"e30=","payloadType":"` + aType + `","signatures":[{"keyid":"a","sig":"AA=="},{"keyid":"a","sig":"AA=="}]}`))
	f.Add([]byte(`{"payload":"e30","payloadType":1,"signatures":[1]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := canon.Parse(text, 1<<16)
		if err != nil {
			return
		}
		e, faults := Read(doc.Value(), aType, most)
		if len(faults) > 0 {
			if !reflect.DeepEqual(e, Envelope{}) {
				t.Fatalf("an envelope and %v", faults)
			}
			return
		}
		again, faults := Read(valueOf(t, e), aType, most)
		if len(faults) > 0 || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v, %v\nand not %+v", again, faults, e)
		}
		if _, err := e.Check(ann.Verifier()); err == nil && string(e.Payload) != "{}" {
			t.Fatalf("ann has not signed %q", e.Payload)
		}
	})
}
