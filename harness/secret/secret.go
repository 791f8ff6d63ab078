// Package secret owns the secrets of tools: it reads them from where documents say that they
// are, and finds them in what tools answer.
package secret

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// The bounds of a secret in bytes. A shorter one could not be searched for: it may stand in
// any text.
const (
	MinBytes = 8
	MaxBytes = 8 << 10
)

// Vault holds the secrets of one run. It names their places only, never a value, in an error.
type Vault struct {
	env   func(string) string
	known map[place]string
	learn map[string]bool
	marks []*mark
}

// place is where a secret is found: a variable of the supervisor, or a file.
type place struct{ env, file string }

// New returns a vault without secrets. env returns the value of a variable.
func New(env func(name string) string) *Vault {
	return &Vault{env: env, known: map[place]string{}, learn: map[string]bool{}}
}

// Auth returns where the secret of a service or of a server is found, and whether a call needs
// one. It returns nil where the document does not say it.
func Auth(b *adapter.Bound) (auth *adapter.Auth, needed bool) {
	switch api, server := b.Adapter.Interface.API, b.Adapter.Server; {
	case api != nil && api.AuthMethod != "" && api.AuthMethod != "none":
		return api.Auth, true
	case api == nil && server != nil && server.Auth != nil:
		return server.Auth, true
	}
	return nil, false
}

// Needed says whether a call needs a secret.
func Needed(b *adapter.Bound) bool {
	_, needed := Auth(b)
	return needed || len(b.Secrets) > 0
}

// Read reads every secret that a call needs, each once for the whole run. The error is
// RUN_E004 with the pointer at.
func (v *Vault) Read(at string, b *adapter.Bound) error {
	for _, name := range canon.Names(b.Secrets) {
		if err := v.read(place{env: b.Secrets[name].Env}, ofAdapter(at, b)); err != nil {
			return err
		}
	}
	auth, needed := Auth(b)
	switch {
	case !needed:
		return nil
	case auth == nil:
		return ofAdapter(at, b)("auth_method needs a secret, and the document has no auth", "add auth with secret_env or secret_file")
	}
	return v.read(placeOf(auth), ofAdapter(at, b))
}

// ReadEnv reads the secret in a variable for a command, and returns it as the environment of
// the command has it. The error is RUN_E004 about who, which needs the variable.
func (v *Vault) ReadEnv(who, name string) (string, error) {
	from := place{env: name}
	err := v.read(from, func(msg, hint string) error { return runerr.New(result.CodeProfile, who+": "+msg, hint) })
	return name + "=" + v.known[from], err
}

func placeOf(auth *adapter.Auth) place { return place{auth.SecretEnv, auth.SecretFile} }

// faults makes the errors about one document.
type faults = func(msg, hint string) error

// ofAdapter makes the errors about a call of an adapter.
func ofAdapter(at string, b *adapter.Bound) faults {
	return func(msg, hint string) error {
		return runerr.New(result.CodeProfile, at+": adapter "+canon.Quote(b.Adapter.AdapterID)+": "+msg, hint, runerr.At(at))
	}
}

// read reads one secret.
func (v *Vault) read(from place, fault faults) error {
	if _, done := v.known[from]; done {
		return nil
	}
	what, value := "the variable "+from.env, ""
	if from.file == "" {
		value = v.env(from.env)
	} else {
		var why string
		what = "the file " + canon.Quote(from.file)
		if value, why = readFile(from.file); why != "" {
			return fault(what+", which holds a secret, "+why, "give the absolute path of a file with the secret alone")
		}
	}
	if value == "" {
		return fault(what+" holds no secret", "set it before the run")
	}
	if why := valueFault(value); why != "" {
		return fault("the secret in "+what+" "+why, "use a secret of "+strconv.Itoa(MinBytes)+" to "+strconv.Itoa(MaxBytes)+" printable ASCII characters")
	}
	v.known[from] = value
	v.Learn(value)
	return nil
}

// readFile reads the secret in a file, without one line feed at its end. It returns why that
// is not possible, or "".
func readFile(name string) (value, why string) {
	if !filepath.IsAbs(name) {
		return "", "has no absolute path"
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", "cannot be read"
	case !info.Mode().IsRegular():
		return "", "is no regular file"
	}
	f, err := os.Open(name)
	if err != nil {
		return "", "cannot be read"
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+2))
	if err != nil {
		return "", "cannot be read"
	}
	return strings.TrimSuffix(string(text), "\n"), ""
}

// valueFault says why a secret cannot be used, or "".
func valueFault(value string) string {
	switch {
	case len(value) < MinBytes:
		return "has less than " + strconv.Itoa(MinBytes) + " bytes, and could not be searched for"
	case len(value) > MaxBytes:
		return "has more than " + strconv.Itoa(MaxBytes) + " bytes"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return "has a character that is not printable ASCII"
	}
	return ""
}

// Learn adds a secret that came from somewhere else, such as a token. It returns false for one
// that could not be searched for.
func (v *Vault) Learn(value string) bool {
	if valueFault(value) != "" {
		return false
	}
	for _, form := range []string{value, url.QueryEscape(value)} { // as it stands in the credentials of Basic
		if !v.learn[form] {
			v.learn[form] = true
			v.marks = append(v.marks, marks(form)...)
		}
	}
	return true
}

// Of returns a secret that Read has read, or "".
func (v *Vault) Of(auth *adapter.Auth) string {
	if auth == nil {
		return ""
	}
	return v.known[placeOf(auth)]
}

// Variables returns the secrets of a command as its environment has them, sorted.
func (v *Vault) Variables(b *adapter.Bound) []string {
	var list []string
	for name, s := range b.Secrets {
		list = append(list, name+"="+v.known[place{env: s.Env}])
	}
	slices.Sort(list)
	return list
}

// Empty says whether the vault has no secret, so that nothing has to be searched.
func (v *Vault) Empty() bool { return len(v.marks) == 0 }

// Repeats says whether a text has a secret in it, as Scan finds it.
func (v *Vault) Repeats(text []byte) bool { return newSearch(v.marks).feed(text) }

// Scan says whether what r gives has a secret in it, in one of these forms: as it is, with
// any of its characters escaped as in JSON or percent-encoded, or in base64 at any offset,
// in the standard alphabet or that of URLs, on one line or many. It stops at the first one,
// and keeps little in memory, however much there is.
func (v *Vault) Scan(r io.Reader) (bool, error) {
	s, part := newSearch(v.marks), make([]byte, 64<<10)
	for {
		n, err := r.Read(part)
		if s.feed(part[:n]) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}
