package harnesstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// A VectorFile is one file of specs/vectors/run; specs/vectors/README.md says
// what its members mean.
type VectorFile struct {
	Path    string
	About   string    `json:"about"`
	Vectors []*Vector `json:"vectors"`
}

type Vector struct {
	Name   string              `json:"name"`
	Why    string              `json:"why"`
	Intent json.RawMessage     `json:"intent"`
	Text   *string             `json:"intent_text"`
	Base64 *string             `json:"intent_base64"`
	Repeat *specstest.Repeated `json:"intent_repeat"`

	Profile   string      `json:"profile"`
	Mode      string      `json:"mode"`
	ModelMode string      `json:"model_mode"`
	Expect    Expectation `json:"expect"`
}

type Expectation struct {
	Outcome   kernel.Outcome  `json:"outcome,omitempty"`
	Reasons   []string        `json:"reasons,omitzero"`
	Notes     []string        `json:"notes,omitempty"`
	Canonical json.RawMessage `json:"canonical,omitempty"`

	Error   result.Code `json:"error,omitempty"`
	Pointer *string     `json:"pointer,omitempty"`
	Offset  *int64      `json:"offset,omitempty"`
}

// Source returns the bytes of the vector's intent file.
func (v *Vector) Source(t *testing.T) []byte {
	t.Helper()
	if src := specstest.Source(t, v.Text, v.Base64, v.Repeat); src != nil {
		return src
	}
	doc, err := canon.Parse(v.Intent, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(doc.Bytes()), '\n')
}

// LoadVectors reads every file. It checks that the files are plain ASCII without unknown
// members, that each intent has one spelling, and that names are unique.
func LoadVectors(t *testing.T) []*VectorFile {
	t.Helper()
	paths, err := fs.Glob(specs.RunVectors(), "*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	seen := map[string]bool{}
	var files []*VectorFile
	for _, path := range paths {
		src, err := fs.ReadFile(specs.RunVectors(), path)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
			t.Errorf("%s: byte %d is not plain ASCII", path, i)
		}
		f := &VectorFile{Path: path}
		dec := json.NewDecoder(bytes.NewReader(src))
		dec.DisallowUnknownFields()
		if err := dec.Decode(f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range f.Vectors {
			spelt := []bool{v.Intent != nil, v.Text != nil, v.Base64 != nil, v.Repeat != nil}
			if len(slices.DeleteFunc(spelt, func(b bool) bool { return !b })) != 1 {
				t.Fatalf("%s: %q has not exactly one intent", path, v.Name)
			}
			if seen[v.Name] || v.Name == "" || v.Why == "" || (v.Expect.Error == "") == (v.Expect.Outcome == "") {
				t.Fatalf("%s: %q is named twice, says not why, or not what is expected", path, v.Name)
			}
			seen[v.Name] = true
		}
		files = append(files, f)
	}
	return files
}

// Text returns the file as -update writes it. Each part that can change alone has its own
// line.
func (f *VectorFile) Text(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"vectors\": [", specstest.Encode(t, f.About))
	for i, v := range f.Vectors {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  {\"name\": %s,\n   \"why\": %s,\n   ", specstest.Encode(t, v.Name), specstest.Encode(t, v.Why))
		switch {
		case v.Text != nil:
			fmt.Fprintf(&b, "\"intent_text\": %s", specstest.Encode(t, *v.Text))
		case v.Base64 != nil:
			fmt.Fprintf(&b, "\"intent_base64\": %s", specstest.Encode(t, *v.Base64))
		case v.Repeat != nil:
			fmt.Fprintf(&b, "\"intent_repeat\": %s", specstest.Encode(t, v.Repeat))
		default:
			fmt.Fprintf(&b, "\"intent\": %s", specstest.Encode(t, v.Intent))
		}
		fmt.Fprintf(&b, ",\n   \"profile\": %s, \"mode\": %s, \"model_mode\": %s,\n   \"expect\": ",
			specstest.Encode(t, v.Profile), specstest.Encode(t, v.Mode), specstest.Encode(t, v.ModelMode))
		e := v.Expect
		canonical := e.Canonical
		e.Canonical = nil
		head := specstest.Encode(t, e)
		if canonical != nil {
			head = strings.TrimSuffix(head, "}") + ",\n    \"canonical\": " + specstest.Encode(t, canonical) + "}"
		}
		b.WriteString(head + "}")
	}
	b.WriteString("\n ]\n}\n")
	return []byte(b.String())
}

func (v *Vector) Request(t *testing.T) harness.Request {
	t.Helper()
	return harness.Request{Source: v.Source(t), Path: "intent.json", Mode: v.Mode, ModelMode: v.ModelMode, RunID: "vector"}
}
