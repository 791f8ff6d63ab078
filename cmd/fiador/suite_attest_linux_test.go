//go:build amd64 || arm64

package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// openEnvelope is another program's way to the payload of signature.json: the verification of DSSE
// v1 (Ed25519), with nothing of this project. public is the line of a verifier key: a name, a hash
// and base64 of a byte 1 and the key, joined by "+".
func openEnvelope(signature, public string) (payload []byte, ok bool) {
	var e struct {
		PayloadType, Payload string
		Signatures           []struct{ Sig string }
	}
	last := strings.TrimSpace(public[strings.LastIndex(public[:strings.LastIndex(public, "+")], "+")+1:])
	key, err := base64.StdEncoding.DecodeString(last[strings.Index(last, "+")+1:])
	if json.Unmarshal([]byte(signature), &e) != nil || err != nil || len(e.Signatures) != 1 {
		return nil, false
	}
	payload, err1 := base64.StdEncoding.DecodeString(e.Payload)
	sig, err2 := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(payload), payload)
	return payload, err1 == nil && err2 == nil && e.PayloadType == "application/vnd.in-toto+json" && ed25519.Verify(key[1:], []byte(signed), sig)
}

// shapeFault holds a statement against the shape of an in-toto Statement v1 with a predicate Test
// Result v0.1, and returns what does not fit.
func shapeFault(statement any) string {
	digest := regexp.MustCompile(`^[0-9a-f]{64}$`)
	resources := func(v any) bool {
		list, ok := v.([]any)
		for _, one := range list {
			r, isObject := one.(map[string]any)
			sums, hasSums := r["digest"].(map[string]any)
			sum, isText := sums["sha256"].(string)
			name, isName := r["name"].(string)
			ok = ok && isObject && hasSums && isText && digest.MatchString(sum) && isName && name != "" && len(r) == 2
		}
		return ok && len(list) > 0
	}
	s, _ := statement.(map[string]any)
	p, _ := s["predicate"].(map[string]any)
	result, _ := p["result"].(string)
	switch {
	case s["_type"] != "https://in-toto.io/Statement/v1" || s["predicateType"] != "https://in-toto.io/attestation/test-result/v0.1" || len(s) != 4:
		return "types or members"
	case !resources(s["subject"]):
		return "subject"
	case !slices.Contains([]string{"PASSED", "WARNED", "FAILED"}, result):
		return "result"
	case !resources(p["configuration"]):
		return "configuration"
	}
	for name, value := range p {
		switch name {
		case "result", "configuration":
		case "passedTests", "warnedTests", "failedTests":
			list, ok := value.([]any)
			for _, one := range list {
				_, isText := one.(string)
				ok = ok && isText
			}
			if !ok {
				return name
			}
		default:
			return name
		}
	}
	return ""
}

// attested is what the tests read of a statement.
type attested struct {
	Subject []struct {
		Name   string
		Digest struct{ SHA256 string }
	}
	Predicate struct {
		Result                   string
		Configuration            []struct{ Digest struct{ SHA256 string } }
		PassedTests, FailedTests []string
	}
}

// statement returns the statement of OUT, which has to have its shape and a signature of the key.
func (v versus) statement(t *testing.T, public string) (s attested) {
	t.Helper()
	signature, err1 := os.ReadFile(filepath.Join(v.out, "signature.json"))
	key, err2 := os.ReadFile(public)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	payload, ok := openEnvelope(string(signature), string(key))
	if !ok {
		t.Fatalf("the signature is not valid: %s, %s", signature, key)
	}
	var shape any
	if err := json.Unmarshal(payload, &shape); err != nil {
		t.Fatal(err)
	}
	if fault := shapeFault(shape); fault != "" {
		t.Errorf("the statement is no Test Result: %s: %s", fault, payload)
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Error(err)
	}
	return s
}

// TestCompareAttests: the statement is about every file of the comparison, and says PASSED only over
// a gate that passed. Another program verifies it.
func TestCompareAttests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b      string
		flags  []string
		exit   int
		result string
		passed []string
	}{
		"passed": {"yes", nil, 0, "PASSED", []string{"a", "b"}}, "rejected": {"no", nil, 1, "FAILED", []string{"a"}}, "report only": {"no", []string{"--report-only"}, 0, "FAILED", []string{"a"}},
		"no decision": {"down", nil, 2, "FAILED", []string{"a"}}, "allowed": {"no", []string{"--max-regressions", "1"}, 0, "PASSED", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersus(t)
			v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", c.b})
			key, pub := v.keygen(t, "key")
			v.compare(t, c.exit, append([]string{v.out, "--sign", key, "--report", "json=" + filepath.Join(v.out, "extra", "..", "extra.json"), "--report", "json=" + filepath.Join(v.dir, "outside.json")}, c.flags...)...)
			s := v.statement(t, pub)
			if s.Predicate.Result != c.result || !slices.Equal(s.Predicate.PassedTests, c.passed) || len(s.Predicate.PassedTests)+len(s.Predicate.FailedTests) != 2 ||
				len(s.Predicate.Configuration) != 1 || s.Predicate.Configuration[0].Digest.SHA256 != hashOf([]byte(twoCases)) {
				t.Errorf("%+v", s.Predicate)
			}
			files, names := filesOf(t, v.out), []string{}
			for _, sub := range s.Subject {
				names = append(names, sub.Name)
				if text, there := files[sub.Name]; !there || hashOf([]byte(text)) != sub.Digest.SHA256 {
					t.Errorf("%s is not what was signed (there: %t)", sub.Name, there)
				}
			}
			if fmt.Sprint(names) != "[baseline/r/evaluation.json baseline/r/run.json compare-report.json extra.json new/r/evaluation.json new/r/run.json report.html]" {
				t.Errorf("%q", names)
			}
			if said := v.does(t, "verify", v.out, "--key", pub); !strings.Contains(said, "signed by a given key") {
				t.Error(said)
			}
		})
	}
}

// TestCompareSignedOut: whatever changes in the folder of a signed comparison, suite verify names
// the file; a baseline elsewhere is named and not checked; and no signature survives a comparison
// that was not signed.
func TestCompareSignedOut(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "no"})
	key, pub := v.keygen(t, "key")
	other, otherPub := v.keygen(t, "other")
	sign := func(key string) {
		v.compare(t, cli.ExitRejected, v.out, "--sign", key, "--report", "json="+filepath.Join(v.out, "extra.json"))
	}
	sign(other)
	foreign, err := os.ReadFile(filepath.Join(v.out, "signature.json"))
	if err != nil {
		t.Fatal(err)
	}
	sign(key)
	whole := filesOf(t, v.out)
	verify := func(what, names string, args ...string) {
		t.Helper()
		stdout, stderr, code := suite(t, append([]string{"verify", v.out}, args...)...)
		if code != cli.ExitRejected || !strings.Contains(stdout, names) || stderr != "" {
			t.Errorf("%s: exit status %d, and %q is not in\n%s%s", what, code, names, stdout, stderr)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if name == "signature.json" {
			continue
		}
		for what, text := range map[string]string{"changed": strings.Replace(whole[name], "e", "f", 1), "longer": whole[name] + " ", "empty": ""} {
			put(t, v.out, name, text)
			verify(name+" "+what, filepath.Base(name), "--key", pub) // a seal names files by pointers
			put(t, v.out, name, whole[name])
		}
		if name == "compare-report.json" {
			continue // without which the folder is no comparison
		}
		remove(t, filepath.Join(v.out, name))
		verify(name+" gone", filepath.Base(name), "--key", pub)
		put(t, v.out, name, whole[name])
	}
	verify("another key", "signature.json", "--key", otherPub)
	for what, text := range map[string]string{"foreign": string(foreign), "empty": "", "no JSON": "{", "a run's": `{"payload":"e30=","payloadType":"application/vnd.fiador.suite-run+json","schema_version":"signature.v1","signatures":[]}`} {
		put(t, v.out, "signature.json", text)
		verify(what, "signature.json", "--key", pub)
	}
	put(t, v.out, "signature.json", whole["signature.json"])
	v.does(t, "verify", v.out, "--key", otherPub, "--key", pub)
	v.does(t, "verify", v.out)

	// A link takes the place of a file, or of a side.
	twin := put(t, v.dir, "twin", whole["report.html"])
	remove(t, filepath.Join(v.out, "report.html"))
	if err := os.Symlink(twin, filepath.Join(v.out, "report.html")); err != nil {
		t.Fatal(err)
	}
	verify("a link", "report.html", "--key", pub)
	remove(t, filepath.Join(v.out, "report.html"))
	put(t, v.out, "report.html", whole["report.html"])
	aside := filepath.Join(v.dir, "aside")
	v.moved(t, filepath.Join(v.out, "baseline"), aside)
	if err := os.Symlink(aside, filepath.Join(v.out, "baseline")); err != nil {
		t.Fatal(err)
	}
	if said := v.does(t, "verify", v.out, "--key", pub); strings.Count(said, "not checked: baseline/r/") != 2 {
		t.Error(said)
	}
	remove(t, filepath.Join(v.out, "baseline"))
	v.moved(t, aside, filepath.Join(v.out, "baseline"))

	// What was signed and refused stays; what was compared anew has no old signature.
	v.refuses(t, "RUN_E006", []string{"b"}, "compare", v.out, "--cases", put(t, v.dir, "one.json", `[{"id":"a","input":{"user":"u"}}]`))
	v.does(t, "verify", v.out, "--key", pub)
	v.compare(t, cli.ExitRejected, v.out)
	verify("no signature", "signature.json: missing", "--key", pub)

	place := filepath.Join(v.dir, "elsewhere")
	v.moved(t, v.at("baseline", "r"), place)
	for _, more := range [][2][]string{{nil, nil}, {{"--sign", key}, {"--key", pub}}} {
		v.compare(t, cli.ExitRejected, append([]string{"--baseline", place, "--new", v.at("new", "r"), "--out", v.out}, more[0]...)...)
		said := v.does(t, append([]string{"verify", v.out}, more[1]...)...)
		if !strings.Contains(said, "not checked: baseline/r/run.json\n") || strings.Count(said, "not checked") != 1 {
			t.Error(said)
		}
	}
	v.write(t, sample{side: "new", id: "r", unsealed: true, answers: map[string]string{"a": "yes", "b": "no"}})
	v.refuses(t, "RUN_E006", []string{"no seal", "sign"}, "compare", "--baseline", place, "--new", v.at("new", "r"), "--out", v.out, "--sign", key)
}

// TestVerifyHostileComparison: a document that others wrote leads suite verify nowhere, and a run
// never passes for a comparison.
func TestVerifyHostileComparison(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	v.compare(t, cli.ExitAccepted, v.out)
	report := filepath.Join(v.out, "compare-report.json")
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"run_ids":["r"]`: `"run_ids":["../../r"]`, `"run_sha256":["sha256:`: `"run_sha256":["sha256:0`, `"new":{"run_ids"`: `"new":{"Run_ids"`, `"gate":{`: `"gate": {`, `"sealed":true}`: `"sealed":"yes"}`, `{"baseline"`: ` {"baseline"`,
	} {
		changed := strings.Replace(string(text), from, to, 1)
		if changed == string(text) {
			t.Fatalf("%s is not there", from)
		}
		put(t, v.out, "compare-report.json", changed)
		if stdout, stderr, code := suite(t, "verify", v.out); code == cli.ExitAccepted || strings.Contains(stderr, "RUN_E007") {
			t.Errorf("%s: exit status %d\n%s%s", to, code, stdout, stderr)
		}
	}
	put(t, v.out, "compare-report.json", string(text))
	new := v.at("new", "r")
	rewrite(t, new+"/a.json", swap("yes", "not"))
	put(t, new, "compare-report.json", strings.NewReplacer(`"run_ids":["r"]`, `"run_ids":["x"]`).Replace(string(text)))
	if stdout, _, code := suite(t, "verify", new); code != cli.ExitRejected || !strings.Contains(stdout, "a.json") {
		t.Errorf("exit status %d\n%s", code, stdout)
	}
	for _, side := range []string{"baseline", "new"} {
		name := filepath.Join(v.at(side, "r"), "run.json")
		remove(t, name)
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, stderr, code := suite(t, "verify", v.out); code != cli.ExitError || !strings.Contains(stderr, "baseline/r/run.json") {
			t.Fatalf("exit status %d: the first side that cannot be read is baseline\n%s", code, stderr)
		}
	}
}

// TestCompareSecrets: a secret of the cases, of run.json or of a kept body stands in nothing that a
// comparison writes or prints.
func TestCompareSecrets(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("0123456789", 3) + "abcdef"
	v := newVersus(t)
	doc := fmt.Sprintf(`[{"id":"a","title":"use %[1]s","input":{"user":"use %[1]s"},"expected":{"must_include":["%[1]s"],"equals":"%[1]s","tool_required":["%[1]s"],"json_schema":{"const":"%[1]s"}}}]`, secret)
	answer := proposing(secret, `{"`+secret+`":"`+secret+`"}`, toolCall(secret, secret, `{"password":"`+secret+`"}`, "ok"))
	for _, side := range []string{"baseline", "new"} {
		dir := v.write(t, sample{side: side, id: "r", unsealed: true, cases: doc, extensionsOf: "a", answers: map[string]string{"a": answer}})
		rewrite(t, filepath.Join(dir, "run.json"), swap(`"run_id"`, `"provenance":{"build":"`+side+" "+secret+`"},"run_id"`))
		text := `{"more":"a"}`
		asset(t, dir, text, strings.Repeat("x", len(text)-1)+"\n"+secret)
		remove(t, filepath.Join(dir, "assets", "manifest.json")) // which has the hash of the old text
	}
	cases := put(t, v.dir, "cases.json", doc)
	stdout, stderr, code := suite(t, "compare", v.out, "--cases", cases, "--policy", "default")
	if code != cli.ExitRejected {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	files := filesOf(t, v.out)
	shown := map[string]string{"stdout": stdout, "stderr": stderr}
	for _, name := range []string{"report.html", "compare-report.json", "new/r/evaluation.json", "baseline/r/evaluation.json"} {
		shown[name] = files[name]
		if !strings.Contains(files[name], "[redacted:github_token]") {
			t.Errorf("%s names no rule", name)
		}
	}
	for name, text := range shown {
		if i := strings.Index(text, secret[:20]); i >= 0 {
			t.Errorf("%s has the secret: …%.200q", name, text[max(0, i-100):])
		}
	}
	if !strings.Contains(files["report.html"], "xxxxxxx\n[redacted:github_token]") {
		t.Error("the page does not have the body")
	}
}
