package redact

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/fiador/fiador/lazy"
)

// rule finds secrets by an expression.
type rule struct {
	name  string
	start []byte // what a match begins with, if this is known
	re    *regexp.Regexp
	group int  // of the secret in a match; 0 is the whole match
	apart bool // a match counts only if no letter or digit stands before it
}

// secretNames are the folded names of members whose values are secrets.
const secretNames = `accesskey accesskeyid accesstoken apikey apisecret apitoken appsecret authkey authorization authtoken awsaccesskeyid awssecretaccesskey
	awssessiontoken bearertoken clientsecret cookie credential credentials dbpassword encryptionkey githubtoken idtoken passphrase passwd password privatekey
	proxyauthorization pwd refreshtoken secret secretaccesskey secretkey sessiontoken setcookie sharedsecret signingkey token userpassword webhooksecret xapikey xauthtoken`

// builtin are the built-in rules. A match begins with one of starts, so that the search is fast. What an expression
// reads in vain has no other start of a match in it, so that the time is linear.
var builtin = lazy.Value[[]rule]{Make: func() (list []rule) {
	for _, r := range []struct {
		name, starts, rest string
		apart              bool
	}{
		{"pem_key", `-----BEGIN`, ` [0-9A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-[^-])*-----END [0-9A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----|` +
			`\s*(?:[A-Za-z-]{4,20}: [^\n]*\s+)*[0-9A-Za-z+/=]{16,}(?:\s+[0-9A-Za-z+/=]{16,})*(?:\s+[0-9A-Za-z+/=]+)?)`, false},
		{"aws_key", `AKIA ASIA ABIA ACCA`, `[0-9A-Z]{16}`, false},
		{"aws_secret", `ecret ECRET`, `(?i)[_ -]?(?:access[_ -]?)?key[^0-9a-z+/]{1,8}([0-9a-z+/]{40})(?:[^0-9a-z+/=]|\z)`, false},
		{"github_token", `ghs_`, `[0-9A-Za-z._-]{36,}`, false},
		{"github_token", `ghp_ gho_ ghu_ ghr_ github_pat_`, `[0-9A-Za-z_]{36,}`, false},
		{"gitlab_token", `glpat-`, `[0-9A-Za-z_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?`, false},
		{"slack_token", `xox`, `(?:e\.xox[bp]|[abeoprs])-[0-9]+-[0-9A-Za-z-]{10,}`, false},
		{"slack_hook", `hooks`, `\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([0-9A-Za-z/_-]{16,})`, false},
		{"google_key", `AIza`, `[0-9A-Za-z_-]{35}`, true},
		{"google_token", `ya29`, `\.(?:[a-z]\.)?[0-9A-Za-z_-]{20,}`, false},
		{"stripe_key", `sk_ rk_`, `(?:live|test)_[0-9A-Za-z]{16,}`, true},
		{"sk_key", `sk-`, `(?:[0-9A-Za-z]{24,}[0-9A-Za-z_-]*|(?:proj|svcacct|admin|or-v1|ant-[a-z]{2,8}[0-9]{2})-[0-9A-Za-z_-]{40,}|lf-[0-9a-f-]{36})`, true},
		{"jwt", `eyJ`, `[0-9A-Za-z_-]{10,}\.(?:eyJ[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?|[0-9A-Za-z_-]*(?:\.[0-9A-Za-z_-]{8,}){3})`, false},
		{"bearer", `bearer Bearer BEARER`, `[ \t]+([A-Za-z._~+/-]{0,24}[0-9][0-9A-Za-z._~+/-]{8,}=*|[0-9A-Za-z._~+/-]{32,}=*)`, true},
		{"basic", `basic Basic BASIC`, `[ \t]+((?:[0-9A-Za-z+/]{4})+(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?)(?:[^0-9A-Za-z+/=]|\z)`, true},
		{"url_password", `://`, `[^\s:/@"'<>\\]*:([^\s/@"'<>\\]+)@`, false},
	} {
		for start := range strings.FieldsSeq(r.starts) {
			re := regexp.MustCompile(start + r.rest)
			list = append(list, rule{r.name, []byte(start), re, re.NumSubexp(), r.apart})
		}
	}
	return list
}}

// marks matches the marks. Nothing is searched in a mark.
var marks = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	names := "cut|learned|literal|pattern"
	for _, r := range builtin.Get() {
		names += "|" + r.name
	}
	return regexp.MustCompile(`\[redacted:(?:` + names + `)\]`)
}}

// find appends the secrets that the rule finds in b.
func (r rule) find(found []span, b []byte) []span {
	if !bytes.Contains(b, r.start) { // several times faster than the expression
		return found
	}
	for _, m := range r.re.FindAllSubmatchIndex(b, -1) {
		s := span{m[2*r.group], m[2*r.group+1], r.name}
		if s.from == s.to || r.apart && m[0] > 0 && alnum(rune(b[m[0]-1])) {
			continue
		}
		if r.name == "basic" { // the word behind Basic can be one of a sentence
			if text, _ := base64.StdEncoding.DecodeString(string(b[s.from:s.to])); !bytes.Contains(text, []byte(":")) {
				continue
			}
		}
		found = append(found, s)
	}
	return found
}

func alnum(c rune) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }
