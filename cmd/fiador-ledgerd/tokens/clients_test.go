package tokens

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// TestBadFiles: a clients file says where it is wrong.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	sum := func(token string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token))) }
	one := `{"name":"ci","token_sha256":"` + sum("a") + `","may":"append"}`
	for _, c := range []struct{ text, want string }{
		{``, "JSON"},
		{`[]`, "not an object"},
		{`{}`, "/clients"},
		{`{"clients":[],"more":1}`, "/more"},
		{`{"clients":[{"name":"ci","token_sha256":"` + sum("a") + `","may":"append","more":1}]}`, "/clients/0/more"},
		{`{"clients":[{"name":"ci","name":"ci"}]}`, "name"},
		{`{"clients":[` + one + `,` + strings.Replace(one, sum("a"), sum("b"), 1) + `]}`, "/clients/1/name"},
		{`{"clients":[` + one + `,` + strings.Replace(one, "ci", "cj", 1) + `]}`, "/clients/1/token_sha256"},
		{strings.Replace(`{"clients":[`+one+`]}`, `"ci"`, `"c i"`, 1), "/clients/0/name"},
		{strings.Replace(`{"clients":[`+one+`]}`, `"ci"`, `""`, 1), "/clients/0/name"},
		{strings.Replace(`{"clients":[`+one+`]}`, `"ci"`, `"`+strings.Repeat("c", 65)+`"`, 1), "/clients/0/name"},
		{strings.Replace(`{"clients":[`+one+`]}`, `"ci"`, `1`, 1), "/clients/0/name"},
		{strings.Replace(`{"clients":[`+one+`]}`, "append", "write", 1), "/clients/0/may"},
		{strings.Replace(`{"clients":[`+one+`]}`, "sha256:", "SHA256:", 1), "/clients/0/token_sha256"},
		{strings.Replace(`{"clients":[`+one+`]}`, "sha256:", "", 1), "/clients/0/token_sha256"},
	} {
		if _, err := parseClients([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if c, err := parseClients([]byte(`{"clients":[]}`)); err != nil || len(c) != 0 {
		t.Errorf("no clients: %v", err)
	}
}
