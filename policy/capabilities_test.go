package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

var update = flag.Bool("update", false, "write capabilities.json from builtins.txt")

// TestCapabilitiesAreFrozen compares the pinned OPA's declarations of the allowed names
// with the checked-in declarations, byte for byte.
func TestCapabilitiesAreFrozen(t *testing.T) {
	caps := frozenCapabilities.Get()
	got := encodeCapabilities(t, caps)
	if *update {
		if err := os.WriteFile("capabilities.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, capabilitiesJSON) {
		t.Errorf("OPA declares the allowed functions otherwise than capabilities.json; judge the difference, then run the test with -update")
	}
}

// encodeCapabilities writes one function per line. It leaves out the descriptions,
// because a new wording is not a new capability.
func encodeCapabilities(t *testing.T, c *ast.Capabilities) []byte {
	t.Helper()
	var b bytes.Buffer
	line := func(v any) string {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(j)
	}
	b.WriteString("{\n  \"allow_net\": " + line(c.AllowNet) + ",\n")
	b.WriteString("  \"features\": " + line(c.Features) + ",\n")
	b.WriteString("  \"future_keywords\": " + line(c.FutureKeywords) + ",\n")
	b.WriteString("  \"builtins\": [\n")
	for i, f := range c.Builtins {
		b.WriteString("    " + line(f.Minimal()))
		if i < len(c.Builtins)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("  ]\n}\n")
	return b.Bytes()
}

// TestCapabilitiesLoad proves that the checked-in file is a capabilities document, and
// that OPA reads it as the same list of functions.
func TestCapabilitiesLoad(t *testing.T) {
	c, err := ast.LoadCapabilitiesJSON(bytes.NewReader(capabilitiesJSON))
	if err != nil {
		t.Fatal(err)
	}
	if c.AllowNet == nil || len(c.AllowNet) > 0 {
		t.Errorf("allow_net is %v, want an empty list", c.AllowNet)
	}
	want := frozenCapabilities.Get()
	if len(c.Builtins) != len(want.Builtins) {
		t.Fatalf("%d functions, want %d", len(c.Builtins), len(want.Builtins))
	}
	for i, b := range c.Builtins {
		if w := want.Builtins[i]; b.Name != w.Name || b.Decl.String() != w.Minimal().Decl.String() {
			t.Errorf("function %d is %s %v, want %s %v", i, b.Name, b.Decl, w.Name, w.Minimal().Decl)
		}
	}
}

// TestEveryBuiltinIsJudged fails when OPA and builtins.txt do not list the same
// functions, or when a reason is missing.
func TestEveryBuiltinIsJudged(t *testing.T) {
	judged := map[string]string{}
	var order []string
	for name, reason := range judgedBuiltins() {
		if _, dup := judged[name]; dup {
			t.Errorf("%q is judged twice", name)
		}
		judged[name] = reason
		order = append(order, name)
	}
	if !slices.IsSorted(order) {
		t.Error("builtins.txt is not sorted by name")
	}
	for _, b := range ast.Builtins {
		reason, ok := judged[b.Name]
		switch {
		case !ok:
			t.Errorf("%q is not judged: add it to builtins.txt", b.Name)
		case reason == "" && (b.IsNondeterministic() || b.IsDeprecated()):
			t.Errorf("%q is allowed, but OPA declares it nondeterministic or deprecated", b.Name)
		}
	}
	for name := range judged {
		if ast.BuiltinMap[name] == nil {
			t.Errorf("%q is judged, but the pinned OPA does not have it", name)
		}
	}
	for line := range strings.Lines(builtinsText) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "omit "); ok {
			if _, reason, ok := strings.Cut(rest, ": "); !ok || len(reason) < 10 {
				t.Errorf("%q has no reason", line)
			}
		} else if line != "" && line[0] != '#' && !strings.HasPrefix(line, "allow ") {
			t.Errorf("line %q is none of allow, omit and comment", line)
		}
	}
}

// TestOmitted lists functions that must be left out.
func TestOmitted(t *testing.T) {
	for name := range strings.FieldsSeq(`http.send net.lookup_ip_addr opa.runtime rand.intn time.now_ns uuid.rfc4122
		io.jwt.decode_verify io.jwt.encode_sign io.jwt.encode_sign_raw json.match_schema json.verify_schema print trace
		time.parse_ns time.format time.date time.clock time.weekday time.add_date time.diff
		crypto.x509.parse_and_verify_certificates crypto.x509.parse_and_verify_certificates_with_options
		graph.reachable_paths bits.lsh json.patch strings.render_template`) {
		if whyOmitted(name) == "" {
			t.Errorf("%q is allowed", name)
		}
	}
}
