package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/result"
)

// random returns a text of n printable characters.
func random(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = ' ' + byte(r.IntN('~'-' '+1))
	}
	return string(b)
}

func holding(t *testing.T, secrets ...string) *Vault {
	t.Helper()
	v := New(func(string) string { return "" })
	for _, s := range secrets {
		if !v.Learn(s) {
			t.Fatalf("%q is not learned", s)
		}
	}
	return v
}

// unicode returns \uXXXX for a character, with digits of both cases.
func unicode(r *rand.Rand, c byte) string {
	if r.IntN(2) == 0 {
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\u%04X`, c)
}

func percent(r *rand.Rand, c byte) string {
	if r.IntN(2) == 0 {
		return fmt.Sprintf("%%%02x", c)
	}
	return fmt.Sprintf("%%%02X", c)
}

// disguises returns a secret in every form that is promised, in a random mixture.
func disguises(r *rand.Rand, secret string) map[string]string {
	each := func(form func(c byte) string) string {
		var b strings.Builder
		for i := range len(secret) {
			b.WriteString(form(secret[i]))
		}
		return b.String()
	}
	short := func(c byte) string {
		if strings.IndexByte(`"\/`, c) >= 0 {
			return `\` + string(c)
		}
		return string(c)
	}
	mix := func(forms ...func(byte) string) func(byte) string {
		return func(c byte) string { return forms[r.IntN(len(forms))](c) }
	}
	raw := func(c byte) string { return string(c) }
	code := func(c byte) string { return unicode(r, c) }
	cent := func(c byte) string { return percent(r, c) }
	all := map[string]string{
		"raw": secret, "short": each(short), "unicode": each(code), "json": each(mix(short, code)), "loose json": each(mix(raw, code)),
		"percent": each(cent), "mixed percent": each(mix(raw, cent)), "both": each(mix(raw, code, cent)),
	}
	for offset := range 3 {
		text := random(r, offset+3*r.IntN(9)) + secret + random(r, r.IntN(9))
		for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding, "raw": base64.RawURLEncoding} {
			coded := e.EncodeToString([]byte(text))
			name += strconv.Itoa(offset)
			all[name] = coded
			for i, brk := range []string{"\n", "\r\n", `\n`, `%0A`} {
				all[name+" lines "+strconv.Itoa(i)] = strings.Join(slices.Collect(func(yield func(string) bool) {
					for part := range slices.Chunk([]byte(coded), 5) {
						yield(string(part))
					}
				}), brk)
			}
			all[name+" in json"] = strings.ReplaceAll(coded, "/", `\/`)
			all[name+" in a url"] = strings.NewReplacer("+", "%2B", "/", "%2f").Replace(coded)
		}
	}
	return all
}

// TestDisguises: a secret is found in every form that is promised, wherever it stands, and
// however the text is divided. With one character changed it is not found.
func TestDisguises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		secret := random(r, MinBytes+r.IntN(2+3*n))
		v := holding(t, secret)
		at := 1 + r.IntN(len(secret)-2) // bits of the characters at the ends stand beside in base64
		wrong := secret[:at] + string(rune('!'+(secret[at]-'!'+1)%90)) + secret[at+1:]
		for name, form := range disguises(r, secret) {
			before, after := random(r, r.IntN(200)), random(r, r.IntN(20))
			text := []byte(before + "\x00" + form + "\x00" + after)
			if !v.Repeats(text) {
				t.Errorf("%s: %q is not found in %q", name, secret, text)
			}
			for _, from := range []io.Reader{iotest.OneByteReader(bytes.NewReader(text)), iotest.HalfReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text))} {
				if found, err := v.Scan(from); !found || err != nil {
					t.Errorf("%s: %q is not found in parts of %q (%v)", name, secret, text, err)
				}
			}
		}
		for name, form := range disguises(r, wrong) {
			if v.Repeats([]byte(form)) {
				t.Errorf("%s: %q is found in %q", name, secret, form)
			}
		}
	}
}

var escapes = regexp.MustCompile(`%[0-9a-fA-F]{2}|\\u00[0-9a-fA-F]{2}|\\/`)

// slow says by another way whether a text has a secret: it tries every reading of every
// part, and decodes every run of base64, in which it looks for inner.
func slow(text, secret, inner string) bool {
	var reads func(text, rest string) bool
	reads = func(text, rest string) bool {
		if rest == "" {
			return true
		}
		if text == "" {
			return false
		}
		if text[0] == rest[0] && reads(text[1:], rest[1:]) || text[0] == '+' && rest[0] == ' ' && reads(text[1:], rest[1:]) {
			return true
		}
		for lead, bytes := range map[string]int{`\u`: 6, `%`: 3} {
			if strings.HasPrefix(text, lead) && len(text) >= bytes {
				c, err := strconv.ParseUint(text[len(lead):bytes], 16, 16)
				if err == nil && c == uint64(rest[0]) && reads(text[bytes:], rest[1:]) {
					return true
				}
			}
		}
		return len(text) > 1 && text[0] == '\\' && strings.IndexByte(`"\/`, text[1]) >= 0 && text[1] == rest[0] && reads(text[2:], rest[1:])
	}
	for i := range text {
		if reads(text[i:], secret) {
			return true
		}
	}
	decoded := escapes.ReplaceAllStringFunc(text, func(s string) string { // no character of base64 is that of an escape
		c, err := strconv.ParseUint(strings.TrimLeft(s, `%\u`), 16, 16)
		if err != nil || c > '~' {
			return strings.TrimPrefix(s, `\`)
		}
		return string(rune(c))
	})
	alphabet := strings.NewReplacer("-", "+", "_", "/").Replace(text + "\x00" + decoded)
	for run := range strings.FieldsFuncSeq(alphabet, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '/'
	}) {
		for i := range 4 { // the run may begin within a group of four
			has := func(before string) bool {
				b, _ := base64.RawStdEncoding.DecodeString(before[:i] + run)
				return bytes.Contains(b, []byte(inner))
			}
			if has("AAA") && has("///") {
				return true
			}
		}
	}
	return false
}

// TestAgreesWithAnotherWay compares Repeats with a slow way of its own on texts that are made
// of pieces of secrets and their forms. In base64, Repeats may leave out some bits of the
// first and the last character. The secrets have the characters of escapes.
func TestAgreesWithAnotherWay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 6_000 {
		from := []string{`ab`, `\u0%41`, `%+ /a`, `\\u"/0`, `abcdefgh0123+/`}[r.IntN(5)]
		b := make([]byte, MinBytes+r.IntN(4))
		for i := range b {
			b[i] = from[r.IntN(len(from))]
		}
		secret := string(b)
		var text strings.Builder
		for range 1 + r.IntN(4) {
			forms := disguises(r, secret)
			names := slices.Sorted(func(yield func(string) bool) {
				for name := range forms {
					if !strings.Contains(name, " lines ") && !strings.Contains(name, " in ") && !yield(name) {
						return
					}
				}
			})
			form := forms[names[r.IntN(len(names))]]
			cut := r.IntN(len(form))
			text.WriteString(form[cut/2 : len(form)-cut/3])
			if r.IntN(2) == 0 {
				text.WriteByte(from[r.IntN(len(from))])
			}
		}
		v := New(nil)
		v.marks = marks(secret)
		got, least, most := v.Repeats([]byte(text.String())), slow(text.String(), secret, secret), slow(text.String(), secret, secret[1:len(secret)-1])
		if least && !got || got && !most {
			t.Fatalf("%q in %q: %t, and another way says %t and %t", secret, text.String(), got, least, most)
		}
		if got {
			found++
		}
	}
	if found < 600 || found > 5400 {
		t.Errorf("%d of the texts have the secret: the test shows little", found)
	}
}

// TestRandomTextHasNoSecret: no text of chance is taken for a secret.
func TestRandomTextHasNoSecret(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	v := holding(t, random(r, 8), random(r, 20), random(r, 200))
	for _, alphabet := range []string{"", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"} {
		text := make([]byte, 10_000_000)
		for i := range text {
			if text[i] = byte(r.Uint32()); alphabet != "" {
				text[i] = alphabet[text[i]%64]
			}
		}
		if v.Repeats(text) {
			t.Error("a random text has a secret")
		}
	}
}

// TestCostDoesNotDependOnTheText: a text that begins like the secret everywhere takes not
// much longer than any other, for the longest secret too.
func TestCostDoesNotDependOnTheText(t *testing.T) {
	v := holding(t, strings.Repeat("a", MaxBytes-1)+"b")
	begun := time.Now()
	if v.Repeats(bytes.Repeat([]byte("a"), 1_000_000)) {
		t.Error("found")
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("a megabyte took %v", took)
	}
}

func BenchmarkScan(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	v := New(nil)
	v.Learn(random(r, 40))
	text := []byte(random(r, 1<<20))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		v.Repeats(text)
	}
}

// TestRead: where secrets are read from, and which are refused. No error has a value.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	value := "Zq9-secret value"
	asked := map[string]int{}
	env := map[string]string{
		"GOOD": value, "SHORT": "Zq9-sec", "LINE": value + "\n", "NUL": value + "\x00", "TAB": value + "\tx", "LATIN": value + "é", "LONG": strings.Repeat("Zq9-", MaxBytes/4) + "x",
	}
	server := &adapter.Server{URL: "https://a.example", Auth: &adapter.Auth{SecretEnv: "GOOD"}}
	api := func(method string, auth *adapter.Auth) *adapter.Bound {
		return &adapter.Bound{Adapter: &adapter.Adapter{AdapterID: "A", Interface: adapter.Interface{API: &adapter.APIInterface{AuthMethod: method, Auth: auth}}}}
	}
	cli := func(name string) *adapter.Bound {
		return &adapter.Bound{Adapter: &adapter.Adapter{AdapterID: "A"}, Secrets: map[string]adapter.Secret{"TOKEN": {Env: name}, "B": {Env: "GOOD"}}}
	}
	for name, c := range map[string]struct {
		b   *adapter.Bound
		why string // part of the message; empty: the secret is read
	}{
		"none": {api("none", nil), ""}, "no method": {api("", nil), ""},
		"variable": {api("bearer", &adapter.Auth{SecretEnv: "GOOD"}), ""}, "of a command": {cli("GOOD"), ""},
		"server": {&adapter.Bound{Adapter: &adapter.Adapter{AdapterID: "A", Server: server}}, ""},
		"file":   {api("api_key", &adapter.Auth{SecretFile: file("good", value)}), ""}, "file with a line feed": {api("api_key", &adapter.Auth{SecretFile: file("line", value+"\n")}), ""},
		"no auth": {api("oauth", nil), "has no auth"}, "no variable": {api("bearer", &adapter.Auth{SecretEnv: "MISSING"}), "MISSING"},
		"no variable of a command": {cli("MISSING"), "MISSING"}, "short": {cli("SHORT"), "SHORT"}, "line feed": {cli("LINE"), "LINE"}, "NUL": {cli("NUL"), "NUL"},
		"tab": {cli("TAB"), "TAB"}, "not ASCII": {cli("LATIN"), "LATIN"}, "long": {cli("LONG"), "LONG"},
		"two line feeds": {api("bearer", &adapter.Auth{SecretFile: file("two", value+"\n\n")}), "two"}, "empty file": {api("bearer", &adapter.Auth{SecretFile: file("empty", "")}), "empty"},
		"large file": {api("bearer", &adapter.Auth{SecretFile: file("large", env["LONG"])}), "large"}, "no file": {api("bearer", &adapter.Auth{SecretFile: filepath.Join(dir, "missing")}), "cannot be read"},
		"folder": {api("bearer", &adapter.Auth{SecretFile: dir}), "no regular file"}, "no absolute path": {api("bearer", &adapter.Auth{SecretFile: "good"}), "absolute"},
	} {
		v := New(func(name string) string { asked[name]++; return env[name] })
		err := v.Read("/actions/3", c.b)
		var re *result.RunError
		switch {
		case c.why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.why != "" && (!errors.As(err, &re) || re.Code != result.CodeProfile || re.Hint == "" || re.Details["pointer"] != "/actions/3" || !strings.Contains(re.Message, c.why)):
			t.Errorf("%s: %v", name, err)
		case c.why != "" && strings.Contains(fmt.Sprintf("%v %+v", err, re), "Zq9"):
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
	v := New(func(name string) string { asked[name]++; return env[name] })
	clear(asked)
	auth := &adapter.Auth{SecretEnv: "GOOD"}
	if !v.Empty() || v.Of(auth) != "" {
		t.Error("a new vault has a secret")
	}
	for range 2 {
		if err := errors.Join(v.Read("", cli("GOOD")), v.Read("", api("bearer", auth))); err != nil {
			t.Fatal(err)
		}
	}
	if asked["GOOD"] != 1 || v.Empty() || v.Of(auth) != value || v.Of(nil) != "" {
		t.Errorf("read %d times, %q", asked["GOOD"], v.Of(auth))
	}
	if got := v.Variables(cli("GOOD")); !slices.Equal(got, []string{"B=" + value, "TOKEN=" + value}) {
		t.Errorf("variables %q", got)
	}
	if v.Learn("short") || v.Learn("line\nbreaks") || !v.Learn("a token of a service") || !v.Repeats([]byte("xa token of a servicex")) {
		t.Error("a token is not learned as it should be")
	}
	if _, err := v.Scan(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a fault of the reader: %v", err)
	}
}
