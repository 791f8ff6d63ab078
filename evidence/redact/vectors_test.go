package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/redact"
)

const folder = "../../specs/vectors/redact"

// readVectors reads a file of vectors, which is plain ASCII.
func readVectors[T any](t testing.TB, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   string `json:"about"`
		Vectors []T    `json:"vectors"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if i := bytes.IndexFunc(b, func(c rune) bool { return c > '~' || c < ' ' && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", name, i)
	}
	return file.Vectors
}

type textVector struct {
	Name string   `json:"name"`
	Text []string `json:"text"` // joined: no part alone looks like a secret to a scanner
	Want *string  `json:"want"` // nil: nothing is redacted
}

// ruleVectors are the files about one built-in rule each, by rule.
func ruleVectors(t testing.TB) map[string][]textVector {
	t.Helper()
	names, err := filepath.Glob(folder + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]textVector{}
	for _, name := range names {
		if name = filepath.Base(name); name != "answers.json" && name != "bodies.json" {
			files[strings.TrimSuffix(name, ".json")] = readVectors[textVector](t, name)
		}
	}
	return files
}

func newRules(t testing.TB, c redact.Config, literals ...string) *redact.Rules {
	t.Helper()
	c.SchemaVersion = redact.Version
	r, err := redact.New(c, literals...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVectorsOfRules: each built-in rule has at least 20 texts with a secret and 20 without one. A text with one is
// redacted by this rule alone, and a redacted text stays as it is.
func TestVectorsOfRules(t *testing.T) {
	rules := newRules(t, redact.Config{})
	files := ruleVectors(t)
	if len(files) != 15 {
		t.Errorf("%d rules have vectors, want 15", len(files))
	}
	seen := map[string]bool{}
	for rule, vectors := range files {
		with, without := 0, 0
		for _, v := range vectors {
			if seen[v.Name] {
				t.Errorf("the name %s stands twice", v.Name)
			}
			seen[v.Name] = true
			text := strings.Join(v.Text, "")
			want, applied := text, []string(nil)
			if v.Want == nil {
				without++
			} else {
				want, applied = *v.Want, []string{rule}
				with++
			}
			x := rules.Redactor()
			if got := x.Text(text); got != want {
				t.Errorf("%s: %q\n got %q\nwant %q", v.Name, text, got, want)
			}
			if got := x.Applied(); !slices.Equal(got, applied) {
				t.Errorf("%s: %q were applied", v.Name, got)
			}
			if got := rules.Redactor().Text(want); got != want {
				t.Errorf("%s: again: %q", v.Name, got)
			}
		}
		if with < 20 || without < 20 {
			t.Errorf("%s: %d texts with a secret, %d without", rule, with, without)
		}
	}
}

type config struct {
	Literals []string `json:"literals"`
	Patterns []string `json:"patterns"`
	Names    []string `json:"names"`
	Values   []string `json:"values"`
}

func (c config) rules(t testing.TB) *redact.Rules {
	t.Helper()
	return newRules(t, redact.Config{Literals: c.Literals, Patterns: c.Patterns, Names: c.Names}, c.Values...)
}

// TestVectorsOfAnswers: decoded answers are redacted as the vectors say, by the rules that they name. The given
// value is not changed, and a redacted answer stays as it is.
func TestVectorsOfAnswers(t *testing.T) {
	for _, v := range readVectors[struct {
		Name    string   `json:"name"`
		Config  config   `json:"config"`
		Answer  any      `json:"answer"`
		Want    any      `json:"want"`
		Then    string   `json:"then"` // a later text of the same case
		Later   string   `json:"later"`
		Applied []string `json:"applied"`
	}](t, "answers.json") {
		rules := v.Config.rules(t)
		x := rules.Redactor()
		before, _ := json.Marshal(v.Answer)
		got := x.Value(v.Answer)
		if !reflect.DeepEqual(got, v.Want) {
			t.Errorf("%s:\n got %v\nwant %v", v.Name, got, v.Want)
		}
		if after, _ := json.Marshal(v.Answer); !bytes.Equal(before, after) {
			t.Errorf("%s: the given value has changed", v.Name)
		}
		if got := x.Text(v.Then); got != v.Later {
			t.Errorf("%s: later %q, want %q", v.Name, got, v.Later)
		}
		if got := x.Applied(); !slices.Equal(got, v.Applied) {
			t.Errorf("%s: %q were applied, want %q", v.Name, got, v.Applied)
		}
		if again := rules.Redactor().Value(got); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: again: %v", v.Name, again)
		}
	}
}

// TestVectorsOfBodies: bodies are redacted as the vectors say, and a redacted body stays as it is.
func TestVectorsOfBodies(t *testing.T) {
	for _, v := range readVectors[struct {
		Name    string   `json:"name"`
		Config  config   `json:"config"`
		Body    []string `json:"body"`
		Base64  string   `json:"body_base64"`
		More    bool     `json:"more"`
		Want    string   `json:"want"`
		Want64  string   `json:"want_base64"`
		Applied []string `json:"applied"`
	}](t, "bodies.json") {
		body, err := base64.StdEncoding.DecodeString(v.Base64)
		if v.Base64 == "" {
			body = []byte(strings.Join(v.Body, ""))
		}
		want, err2 := base64.StdEncoding.DecodeString(v.Want64)
		if v.Want64 == "" {
			want = []byte(v.Want)
		}
		if err != nil || err2 != nil {
			t.Fatal(v.Name, err, err2)
		}
		rules := v.Config.rules(t)
		x := rules.Redactor()
		got := x.Bytes(body, v.More)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %q\n got %q\nwant %q", v.Name, body, got, want)
		}
		if got := x.Applied(); !slices.Equal(got, v.Applied) {
			t.Errorf("%s: %q were applied, want %q", v.Name, got, v.Applied)
		}
		if again := rules.Redactor().Bytes(got, v.More); !bytes.Equal(again, got) {
			t.Errorf("%s: again: %q", v.Name, again)
		}
	}
}
