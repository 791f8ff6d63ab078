package kernel

import (
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// TestIsolationAtLeast tests every pair, and an unknown isolation: it is never enough,
// and only full is enough for it.
func TestIsolationAtLeast(t *testing.T) {
	order := []Isolation{IsolationNone, IsolationConfined, IsolationFull}
	for i, have := range order {
		for j, least := range order {
			if got := have.AtLeast(least); got != (i >= j) {
				t.Errorf("%s is at least %s: %v", have, least, got)
			}
		}
		for _, no := range []Isolation{"", "Full", "full "} {
			if no.AtLeast(have) {
				t.Errorf("%q is at least %s", no, have)
			}
			if got := have.AtLeast(no); got != (have == IsolationFull) {
				t.Errorf("%s is at least %q: %v", have, no, got)
			}
			if no.AtLeast(no) {
				t.Errorf("%q is at least itself", no)
			}
		}
	}
}

// TestProfileDocument reads the members that have more than one form.
func TestProfileDocument(t *testing.T) {
	var d canon.Decoder[Profile]
	for _, c := range []struct{ text, want string }{
		{`{"env_allow":"*"}`, `"*"`},
		{`{"env_allow":[]}`, `[]`},
		{`{"env_allow":["A","B"],"shell_metacharacters":"data"}`, `["A","B"]`},
		{`{"env_allow":"A"}`, `/env_allow: neither "*" nor a list of strings`},
		{`{"env_allow":["A",1,"B"]}`, `/env_allow: neither "*" nor a list of strings`},
		{`{"env_allow":null}`, `/env_allow: neither "*" nor a list of strings`},
		{`{"shell_metacharacters":"allow"}`, `/shell_metacharacters: neither "data" nor "deny"`},
		{`{"shell_metacharacters":""}`, `/shell_metacharacters: neither "data" nor "deny"`},
	} {
		doc, err := canon.Parse([]byte(c.text), 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Decode(doc.Value())
		got := ""
		if err != nil {
			got = err.Error()
		} else if b, err := p.EnvAllow.MarshalJSON(); err == nil {
			got = string(b)
		}
		if got != c.want {
			t.Errorf("%s: %s", c.text, got)
		}
	}
}
