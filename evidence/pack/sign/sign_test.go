package sign

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/packtest"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

func keyOf(s *ledger.Signer) *ledger.Verifier {
	v := s.Verifier()
	return &v
}

func artifactOf(t testing.TB, v any) []byte {
	t.Helper()
	b, _, err := canon.Artifact(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// aRun returns the part of a RunResult that signatures cover.
func aRun(id string) map[string]any {
	return map[string]any{"run_id": id, "kernel_version": "0.1.0", "started_at": "2026-01-02T03:04:05.000Z", "kernel_result_kind": "REFUSE"}
}

// unsigned returns the files of a pack with a run, recorded in a log of key.
func unsigned(t testing.TB, key *ledger.Signer) map[string][]byte {
	t.Helper()
	run := aRun("one")
	lines, receipt := recordedRun(t, key, run)
	return map[string][]byte{
		pack.RunFile: artifactOf(t, run), pack.BundleFile: artifactOf(t, map[string]any{"id": "x"}), pack.PolicyFile: artifactOf(t, map[string]any{"name": "default"}),
		pack.LedgerFile: lines, pack.MetaFile: artifactOf(t, map[string]any{"note": "kept", "receipt": receipt}),
	}
}

// recordedRun records a run in a log that has other entries too: the lines of the run,
// and the receipt of its decision.
func recordedRun(t testing.TB, key *ledger.Signer, run map[string]any) (lines []byte, receipt string) {
	t.Helper()
	sum, err := result.Digest(run)
	if err != nil {
		t.Fatal(err)
	}
	h := canon.Sum([]byte("x"))
	begun := ledger.Record{
		Kind: ledger.KindBegun, Timestamp: "2026-01-02T03:04:05.000Z", RunID: run["run_id"].(string), IntentSHA256: h, ExecutionMode: "execute-sandbox",
		Mode: "none", Policy: "default", PolicySHA256: h, InputSHA256: h, Kernel: "0.1.0",
	}
	decision := begun
	decision.Kind, decision.ResultKind, decision.DecisionSHA256, decision.ResultSHA256 = ledger.KindDecision, "REFUSE", h, h
	decision.CanonicalSHA256, decision.Evidence = sum, ledger.Blob{SHA256: h, Size: 1}
	l := &packtest.Log{T: t, Key: key}
	l.Add(ledger.Record{
		Kind: ledger.KindGenesis, Timestamp: begun.Timestamp, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String(),
	})
	lines = append(l.Add(begun), l.Add(decision)...)
	other := begun
	other.RunID = "other"
	l.Add(other)
	return lines, l.Prove(2)
}

// signed returns a pack with signatures of keys, in order.
func signed(t testing.TB, files map[string][]byte, keys ...*ledger.Signer) *pack.Pack {
	t.Helper()
	p := pack.Of(files)
	for _, k := range keys {
		meta, err := Pack(p, k)
		if err != nil {
			t.Fatal(err)
		}
		p = packtest.With(p, pack.MetaFile, meta)
	}
	return p
}

// metaOf returns meta.json as a value.
func metaOf(t testing.TB, p *pack.Pack) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(p.File(pack.MetaFile), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// withMeta returns the pack with a changed meta.json.
func withMeta(t testing.TB, p *pack.Pack, change func(meta map[string]any)) *pack.Pack {
	meta := metaOf(t, p)
	change(meta)
	return packtest.With(p, pack.MetaFile, artifactOf(t, meta))
}

func dsseOf(meta map[string]any) map[string]any { return meta["dsse"].(map[string]any) }

func told(a Authenticity) string {
	var list []string
	for _, v := range a.Violations {
		list = append(list, v.Rule+" "+v.Path+": "+v.Message)
	}
	return strings.Join(list, "\n")
}

func TestSignAndAuthenticate(t *testing.T) {
	log, ann, bob := packtest.Signer(t, "example.com/log"), packtest.Signer(t, "ann"), packtest.Signer(t, "bob")
	p := signed(t, unsigned(t, log), ann, bob)
	for _, key := range []*ledger.Signer{ann, bob} {
		a := Authenticate(p, keyOf(key), keyOf(log))
		if !a.OK() || !a.Signed || a.Recorded == nil || a.Recorded.Index != 2 || a.Recorded.Checkpoint.Size != 4 {
			t.Errorf("%s: %+v", key.Origin(), a)
		}
	}
	if a := Authenticate(p, nil, nil); !reflect.DeepEqual(a, Authenticity{}) {
		t.Errorf("without a key: %+v", a)
	}
	if a := Authenticate(p, keyOf(bob), nil); !a.Signed || a.Recorded != nil {
		t.Errorf("without a key of a ledger: %+v", a)
	}
	if a := Authenticate(p, nil, keyOf(log)); a.Signed || a.Recorded == nil {
		t.Errorf("with a key of a ledger alone: %+v", a)
	}
	meta := metaOf(t, p)
	if meta["note"] != "kept" || meta["receipt"] == nil {
		t.Errorf("other members of meta.json are gone: %v", meta)
	}
	if again := signed(t, unsigned(t, log), ann, bob, ann, bob); !reflect.DeepEqual(again, p) {
		t.Error("who signs again signs otherwise, or twice")
	}
}

// TestStatement: the signed text is an in-toto statement with exactly these bytes.
func TestStatement(t *testing.T) {
	run := aRun("one")
	p := pack.Of(map[string][]byte{pack.RunFile: artifactOf(t, run), pack.PolicyFile: []byte("{}\n"), pack.MetaFile: []byte("{}\n")})
	got, err := Statement(p)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := result.Digest(run)
	if err != nil {
		t.Fatal(err)
	}
	hex := func(name string) string { return strings.TrimPrefix(string(canon.Sum(p.File(name))), "sha256:") }
	want := `{"_type":"https://in-toto.io/Statement/v1","predicate":{"canonical_sha256":"` + string(digest) +
		`","kernel_version":"0.1.0","pack_schema":"1.0.0","run_id":"one"},"predicateType":"https://github.com/fiador/fiador/pack/v1","subject":[` +
		`{"digest":{"sha256":"` + hex(pack.PolicyFile) + `"},"name":"policy.json"},{"digest":{"sha256":"` + hex(pack.RunFile) + `"},"name":"run.json"}]}`
	if string(got) != want {
		t.Errorf("the statement is %s\nand not %s", got, want)
	}
}

// TestNotAuthentic: each rule, and nothing else.
func TestNotAuthentic(t *testing.T) {
	log, ann, bob := packtest.Signer(t, "example.com/log"), packtest.Signer(t, "ann"), packtest.Signer(t, "bob")
	good := signed(t, unsigned(t, log), ann, bob)
	sigOf := func(meta map[string]any, i int) map[string]any {
		return dsseOf(meta)["signatures"].([]any)[i].(map[string]any)
	}
	changed := func(change func(meta map[string]any)) *pack.Pack { return withMeta(t, good, change) }
	// resigned returns the pack with another statement that ann has signed.
	resigned := func(change func(s map[string]any)) *pack.Pack {
		return changed(func(meta map[string]any) {
			var s map[string]any
			payload, _ := base64.StdEncoding.DecodeString(dsseOf(meta)["payload"].(string))
			if err := json.Unmarshal(payload, &s); err != nil {
				t.Fatal(err)
			}
			change(s)
			payload, err := canon.Canonical(s)
			if err != nil {
				t.Fatal(err)
			}
			sig, err := ann.SignEnvelope(dsse.Encoding(PayloadType, payload))
			if err != nil {
				t.Fatal(err)
			}
			dsseOf(meta)["payload"] = base64.StdEncoding.EncodeToString(payload)
			sigOf(meta, 0)["sig"] = base64.StdEncoding.EncodeToString(sig)
		})
	}
	subject := func(s map[string]any, i int) map[string]any { return s["subject"].([]any)[i].(map[string]any) }
	annID := ann.Verifier().ID()
	other := packtest.Signer(t, "eve")
	for name, c := range map[string]struct {
		pack *pack.Pack
		want string
	}{
		"no meta.json":  {packtest.With(good, pack.MetaFile, nil), "SG3 meta.json: not signed"},
		"not signed":    {changed(func(m map[string]any) { delete(m, "dsse") }), "SG3 meta.json: not signed"},
		"meta no JSON":  {packtest.With(good, pack.MetaFile, []byte("{")), "SG1 meta.json: the text ends"},
		"meta a list":   {packtest.With(good, pack.MetaFile, []byte("[]\n")), "SG1 meta.json: not an object"},
		"meta crowded":  {packtest.With(good, pack.MetaFile, []byte("["+strings.Repeat("0,", pack.MaxValues)+"0]\n")), "SG1 meta.json: more than 500000 values"},
		"meta twice":    {packtest.Twice(good, pack.MetaFile), "SG1 meta.json: stands in the archive more than once"},
		"dsse a text":   {changed(func(m map[string]any) { m["dsse"] = "x" }), "SG1 meta.json#/dsse: not an object"},
		"another type":  {changed(func(m map[string]any) { dsseOf(m)["payloadType"] = "text/plain" }), `SG1 meta.json#/dsse/payloadType: not "application/vnd.in-toto+json"`},
		"no payload":    {changed(func(m map[string]any) { delete(dsseOf(m), "payload") }), "SG1 meta.json#/dsse/payload: not a text in base64"},
		"bad base64":    {changed(func(m map[string]any) { dsseOf(m)["payload"] = "AB" }), "SG1 meta.json#/dsse/payload: not standard base64"},
		"URL base64":    {changed(func(m map[string]any) { dsseOf(m)["payload"] = "-_-_" }), "SG1 meta.json#/dsse/payload: not standard base64"},
		"spare bits":    {changed(func(m map[string]any) { dsseOf(m)["payload"] = "AB==" }), "SG1 meta.json#/dsse/payload: not standard base64"},
		"a line feed":   {changed(func(m map[string]any) { dsseOf(m)["payload"] = "AAAA\n" }), "SG1 meta.json#/dsse/payload: not standard base64"},
		"huge payload":  {changed(func(m map[string]any) { dsseOf(m)["payload"] = strings.Repeat("AAAA", 30000) }), "SG1 meta.json#/dsse/payload: more than 65536 bytes"},
		"no list":       {changed(func(m map[string]any) { dsseOf(m)["signatures"] = map[string]any{} }), "SG1 meta.json#/dsse/signatures: not a list of signatures"},
		"empty list":    {changed(func(m map[string]any) { dsseOf(m)["signatures"] = []any{} }), "SG1 meta.json#/dsse/signatures: not a list of signatures"},
		"many":          {changed(func(m map[string]any) { dsseOf(m)["signatures"] = make([]any, 17) }), "SG1 meta.json#/dsse/signatures: more than 16 signatures"},
		"null":          {changed(func(m map[string]any) { dsseOf(m)["signatures"] = []any{nil} }), "SG1 meta.json#/dsse/signatures/0: not an object"},
		"no key id":     {changed(func(m map[string]any) { sigOf(m, 0)["keyid"] = "" }), "SG1 meta.json#/dsse/signatures/0/keyid: not a text of 1 to 256 bytes"},
		"long key id":   {changed(func(m map[string]any) { sigOf(m, 1)["keyid"] = strings.Repeat("k", 257) }), "SG1 meta.json#/dsse/signatures/1/keyid: not a text of 1 to 256 bytes"},
		"no signature":  {changed(func(m map[string]any) { sigOf(m, 0)["sig"] = 1 }), "SG1 meta.json#/dsse/signatures/0/sig: not a text in base64"},
		"one key twice": {changed(func(m map[string]any) { sigOf(m, 1)["keyid"] = annID }), "SG2 meta.json#/dsse/signatures/1/keyid: " + fmt.Sprintf("%q", annID) + " a second time"},
		"another key":   {signed(t, unsigned(t, log), bob, other), "SG3 meta.json#/dsse/signatures: none is of the key " + fmt.Sprintf("%q", annID)},
		"swapped":       {changed(func(m map[string]any) { sigOf(m, 0)["sig"] = sigOf(m, 1)["sig"] }), "SG4 meta.json#/dsse/signatures/0/sig: not a signature of the payload by " + fmt.Sprintf("%q", annID)},
		"short":         {changed(func(m map[string]any) { sigOf(m, 0)["sig"] = "AAAA" }), "SG4 meta.json#/dsse/signatures/0/sig: not a signature of the payload"},
		"other payload": {changed(func(m map[string]any) { dsseOf(m)["payload"] = "e30=" }), "SG4 meta.json#/dsse/signatures/0/sig: not a signature of the payload"},
		"no statement":  {resigned(func(s map[string]any) { s["_type"] = "https://in-toto.io/Statement/v0.1" }), `SG5 meta.json#/dsse/payload: _type is not "https://in-toto.io/Statement/v1"`},
		"other claim":   {resigned(func(s map[string]any) { s["predicateType"] = "https://slsa.dev/provenance/v1" }), `SG5 meta.json#/dsse/payload: predicateType is not`},
		"no subject":    {resigned(func(s map[string]any) { s["subject"] = []any{} }), "SG5 meta.json#/dsse/payload: subject is not a list"},
		"odd subject":   {resigned(func(s map[string]any) { subject(s, 0)["name"] = "../x" }), "SG5 meta.json#/dsse/payload: subject 0 is not a file that a signature covers"},
		"meta subject":  {resigned(func(s map[string]any) { subject(s, 0)["name"] = "meta.json" }), "SG5 meta.json#/dsse/payload: subject 0 is not a file that a signature covers"},
		"same subject":  {resigned(func(s map[string]any) { subject(s, 1)["name"] = subject(s, 0)["name"] }), "SG5 meta.json#/dsse/payload: subject 1 has the name of another"},
		"no digest":     {resigned(func(s map[string]any) { delete(subject(s, 0), "digest") }), "SG5 meta.json#/dsse/payload: subject 0 has no SHA-256 in lower-case hex"},
		"file added":    {packtest.With(good, pack.PatchFile, []byte("{}\n")), "SG6 patch.json: not there when the pack was signed"},
		"file missing":  {packtest.With(good, pack.BundleFile, nil), "SG6 bundle.json: signed, and not there"},
		"file changed":  {packtest.With(good, pack.PolicyFile, []byte("{}\n")), "SG6 policy.json: not the file that was signed"},
		"file unknown":  {packtest.With(good, "x\n", []byte("{}\n")), "SG6 x\n: is no file of a pack, and no signature covers it"},
		"file twice":    {packtest.Twice(good, pack.PolicyFile), `SG6 policy.json: stands in the archive more than once, and no signature covers it`},
		"a link":        {packtest.Linked(good, pack.PolicyFile), `SG6 policy.json: is no regular file, and no signature covers it`},
		"many names":    {packtest.More(good), "SG6 : more than 256 names"},
		"predicate run": {resigned(func(s map[string]any) { s["predicate"].(map[string]any)["run_id"] = "two" }), `SG7 meta.json#/dsse/payload: run_id of the predicate is not "one"`},
		"no predicate":  {resigned(func(s map[string]any) { delete(s, "predicate") }), "SG7 meta.json#/dsse/payload: canonical_sha256 of the predicate is not"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Authenticate(c.pack, keyOf(ann), nil)
			if a.Signed || !strings.HasPrefix(told(a), c.want) {
				t.Errorf("%+v\nand not %s", told(a), c.want)
			}
			rule, _, _ := strings.Cut(c.want, " ")
			if slices.ContainsFunc(a.Violations, func(v pack.Violation) bool { return v.Rule != rule }) {
				t.Errorf("other rules too: %s", told(a))
			}
		})
	}
}

// TestRunChangedAfterSigning: a signed pack with a changed run breaks two rules.
func TestRunChangedAfterSigning(t *testing.T) {
	log, ann := packtest.Signer(t, "example.com/log"), packtest.Signer(t, "ann")
	p := packtest.With(signed(t, unsigned(t, log), ann), pack.RunFile, artifactOf(t, aRun("two")))
	got := told(Authenticate(p, keyOf(ann), keyOf(log)))
	for _, want := range []string{
		"SG6 run.json: not the file that was signed",
		`SG7 meta.json#/dsse/payload: run_id of the predicate is not "two"`,
		`SG10 ledger.jsonl#/1: of the run "one", and run.json is of "two"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas not %s", got, want)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	log, ann, bob := packtest.Signer(t, "example.com/log"), packtest.Signer(t, "ann"), packtest.Signer(t, "bob")
	files := unsigned(t, log)
	good := signed(t, files, ann)
	full := signed(t, files)
	for i := range dsse.MaxSignatures {
		full = signed(t, packtest.Files(full), newKeyOf(t, "many", byte(i)))
	}
	for name, c := range map[string]struct {
		pack *pack.Pack
		want string
	}{
		"a file of its own":  {packtest.With(good, "x", []byte("x")), `not a whole pack: "x" is no file of a pack`},
		"a link":             {packtest.Linked(good, pack.PolicyFile), `not a whole pack: "policy.json" is no regular file`},
		"many names":         {packtest.More(good), "not a whole pack: it has more than 256 names"},
		"no run":             {packtest.With(good, pack.RunFile, nil), "run.json cannot be read: missing"},
		"meta no JSON":       {packtest.With(good, pack.MetaFile, []byte("{")), "meta.json cannot be read: "},
		"a bad envelope":     {withMeta(t, good, func(m map[string]any) { m["dsse"] = 1 }), "meta.json#/dsse cannot be read: not an object"},
		"signed as it isn't": {packtest.With(good, pack.PolicyFile, []byte("{}\n")), ErrOtherStatement.Error()},
		"too many":           {full, "it has 16 signatures, the most that there can be"},
		"no room":            {packtest.With(good, pack.MetaFile, artifactOf(t, map[string]any{"x": strings.Repeat("x", 4<<20-100)})), "meta.json would have more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := Pack(c.pack, bob); text != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, and not %s", err, c.want)
			}
		})
	}
	// If only one key has signed, this key can sign the changed pack.
	p := packtest.With(good, pack.PolicyFile, []byte("{}\n"))
	if a := Authenticate(signed(t, packtest.Files(p), ann), keyOf(ann), nil); !a.Signed {
		t.Error(told(a))
	}
}

// TestSignKeepsMembers: unknown members of the envelope and of meta.json stay, and the
// layout of meta.json becomes canonical.
func TestSignKeepsMembers(t *testing.T) {
	ann, bob := packtest.Signer(t, "ann"), packtest.Signer(t, "bob")
	p := signed(t, map[string][]byte{pack.RunFile: artifactOf(t, aRun("one")), pack.MetaFile: []byte(" {\"z\": 1.0, \"a\": [2e0]}")}, ann)
	if !bytes.HasPrefix(p.File(pack.MetaFile), []byte(`{"a":[2],"dsse":{"payload":"`)) || !bytes.HasSuffix(p.File(pack.MetaFile), []byte(`,"z":1}`+"\n")) {
		t.Errorf("meta.json is %s", p.File(pack.MetaFile))
	}
	p = signed(t, packtest.Files(withMeta(t, p, func(m map[string]any) { dsseOf(m)["x"] = "y" })), bob)
	if dsseOf(metaOf(t, p))["x"] != "y" || !Authenticate(p, keyOf(ann), nil).Signed || !Authenticate(p, keyOf(bob), nil).Signed {
		t.Errorf("meta.json is %s", p.File(pack.MetaFile))
	}
}

// TestSigningRecords: every rule has a record, and every message has a rule.
func TestSigningRecords(t *testing.T) {
	var ids []string
	for _, r := range Rules() {
		if ids = append(ids, r.ID); r.Title == "" || r.Description == "" || r.Level != WithKeys {
			t.Errorf("%+v", r)
		}
	}
	want := []string{"SG1", "SG2", "SG3", "SG4", "SG5", "SG6", "SG7", "SG8", "SG9", "SG10"}
	if !slices.Equal(ids, want) {
		t.Errorf("the rules are %v, and not %v", ids, want)
	}
}

// TestOpenSSLVerifies: another program verifies a signature, with the public key and the
// pre-authentication encoding that the specification of DSSE describes.
func TestOpenSSLVerifies(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	ann := packtest.Signer(t, "ann")
	e := dsseOf(metaOf(t, signed(t, unsigned(t, packtest.Signer(t, "example.com/log")), ann)))
	payload, err := base64.StdEncoding.DecodeString(e["payload"].(string))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(e["signatures"].([]any)[0].(map[string]any)["sig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(ann.Verifier().PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(PayloadType), PayloadType, len(payload), payload)
	for name, text := range map[string][]byte{
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "sig": sig, "pae": []byte(pae), "other": []byte(pae + " "),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(text string) ([]byte, error) {
		cmd := exec.Command(openssl, "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", text, "-sigfile", "sig")
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	out, err := verify("pae")
	if bytes.Contains(out, []byte("nknown option")) || bytes.Contains(out, []byte("not supported")) {
		t.Skipf("openssl cannot verify Ed25519: %s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := verify("other"); err == nil {
		t.Errorf("openssl takes another text: %s", out)
	}
}

// FuzzAuthenticate: there is an answer for every meta.json and ledger.jsonl. It is yes
// only if the signed bytes are there.
func FuzzAuthenticate(f *testing.F) {
	log, ann, bob := packtest.Signer(f, "example.com/log"), packtest.Signer(f, "ann"), packtest.Signer(f, "bob")
	good := signed(f, unsigned(f, log), ann)
	f.Add(good.File(pack.MetaFile), good.File(pack.LedgerFile))
	promised := served(f, log, func(l *packtest.Log, i int64) string { return l.Ack(i) })
	f.Add(promised.File(pack.MetaFile), promised.File(pack.LedgerFile))
	f.Add([]byte("{}"), []byte("\n"))
	f.Add([]byte(`{"dsse":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"a","sig":"AA=="},{"keyid":"a","sig":""}]},"receipt":"c2sp.org/tlog-proof@v1\nextra \n"}`), []byte("{}\n"))
	statement, err := Statement(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, meta, lines []byte) {
		p := packtest.With(packtest.With(good, pack.MetaFile, bytes.Clone(meta)), pack.LedgerFile, bytes.Clone(lines))
		a := Authenticate(p, keyOf(ann), keyOf(log))
		if a.OK() != (a.Signed && a.Recorded != nil) {
			t.Fatalf("%+v", a)
		}
		if now, err := Statement(p); a.OK() && (err != nil || !bytes.Equal(now, statement)) {
			t.Fatalf("authentic with other files: %s", meta)
		}
		text, err := Pack(p, bob)
		if err != nil {
			return
		}
		p = packtest.With(p, pack.MetaFile, text)
		if a := Authenticate(p, keyOf(bob), nil); !a.Signed {
			t.Fatalf("signed, and not: %s", told(a))
		}
		if again, err := Pack(p, bob); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("signed again: %v", errors.Join(err, fmt.Errorf("%s", again)))
		}
	})
}
