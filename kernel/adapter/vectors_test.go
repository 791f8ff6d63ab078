package adapter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// readVectors returns the vectors of a file of specs/vectors/tools, in plain ASCII, each with
// a name of its own.
func readVectors[T any](t testing.TB, file string, name func(T) string) []T {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/tools/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", file, i)
	}
	var f struct {
		About   string
		Vectors []T
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	seen := map[string]bool{}
	for _, v := range f.Vectors {
		if n := name(v); n == "" || seen[n] {
			t.Errorf("%s: %q stands twice, or has no name", file, n)
		}
		seen[name(v)] = true
	}
	return f.Vectors
}

// documentVector describes an adapter of the tool T, in the members that differ.
type documentVector struct {
	Name      string                     `json:"name"`
	Type      string                     `json:"type"`
	Interface json.RawMessage            `json:"interface"`
	Also      map[string]json.RawMessage `json:"also,omitempty"`
	Input     json.RawMessage            `json:"input,omitempty"`
	Output    json.RawMessage            `json:"output,omitempty"`
	Fallback  json.RawMessage            `json:"fallback,omitempty"`
	Network   json.RawMessage            `json:"network,omitempty"`
	Fault     *string                    `json:"fault"`
}

// document returns the whole document of an adapter.
func (v documentVector) document(t testing.TB) any {
	t.Helper()
	in := map[string]json.RawMessage{v.Type: v.Interface}
	maps.Copy(in, v.Also)
	doc := map[string]any{
		"adapter_id": "A", "name": "a", "version": "1.0.0", "tool_id": "T", "type": v.Type, "interface": in,
	}
	transforms := map[string]json.RawMessage{}
	if v.Input != nil {
		transforms["input"] = v.Input
	}
	if v.Output != nil {
		transforms["output"] = v.Output
	}
	doc["transforms"] = transforms
	if v.Fallback != nil {
		doc["errors"] = map[string]any{"fallback": v.Fallback}
	}
	if v.Network != nil {
		doc["sandbox_override"] = map[string]any{"network": v.Network}
	}
	return decoded(t, doc)
}

// decoded returns the decoded canonical form of a value.
func decoded(t testing.TB, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(text, canon.MaxIntentBytes)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return doc.Value()
}

// TestDocumentVectors: the parser finds the fault of each document, which its schema does
// not find.
func TestDocumentVectors(t *testing.T) {
	set := specstest.NewSpecs(t)
	bad := 0
	for _, v := range readVectors(t, "documents.json", func(v documentVector) string { return v.Name }) {
		doc := v.document(t)
		if list, err := set.Validate(specs.KindAdapter, doc); err != nil || len(list) > 0 {
			t.Errorf("%s: %v %v", v.Name, list, err)
		}
		a, err := adapter.ParseAdapter(doc)
		f, isFault := errors.AsType[*adapter.Fault](err)
		switch {
		case v.Fault == nil:
			if err != nil || !a.SHA256.Valid() {
				t.Errorf("%s: %v", v.Name, err)
			}
		case !isFault || f.Pointer != *v.Fault || f.Msg == "":
			t.Errorf("%s: %v, want it at %s", v.Name, err, *v.Fault)
		default:
			bad++
		}
	}
	if bad < 80 {
		t.Errorf("only %d documents have a fault", bad)
	}
}

type bindingVector struct {
	documentVector
	ParamsSchema json.RawMessage `json:"params_schema,omitempty"`
	Params       json.RawMessage `json:"params"`
	Expect       struct {
		Request  map[string]any `json:"request"`
		Findings []string       `json:"findings"`
	} `json:"expect"`
}

// hosted is the network of an adapter that needs hosts.
const hosted = `{"enabled":true,"allow":["a.example"]}`

// parts returns the tool and the adapter of a vector.
func (v bindingVector) parts(t testing.TB) (*adapter.Tool, *adapter.Adapter) {
	t.Helper()
	doc := map[string]any{"tool_id": "T", "name": "t", "version": "1.0.0", "status": "active", "adapters": []string{"A"}}
	if v.ParamsSchema != nil {
		doc["params"] = v.ParamsSchema
	}
	tool, err := adapter.ParseTool(decoded(t, doc))
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	if v.Type == "api" {
		v.Network = json.RawMessage(hosted)
	}
	a, err := adapter.ParseAdapter(v.document(t))
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	if v.Type == "mcp" {
		pin := canon.Sum(nil)
		s, err := adapter.ParseServer(decoded(t, map[string]any{"command": []string{"serve", "."}, "env": map[string]string{"A": "1"}, "tools": map[string]any{"read_file": pin, "write_file": pin}}))
		if err == nil {
			err = a.Attach(s)
		}
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
	}
	return tool, a
}

func bindingVectors(t testing.TB) []bindingVector {
	return readVectors(t, "binding.json", func(v bindingVector) string { return v.Name })
}

// TestBindingVectors: parameters become the request of the vector, or give its findings.
func TestBindingVectors(t *testing.T) {
	bad := 0
	for _, v := range bindingVectors(t) {
		tool, a := v.parts(t)
		params := decoded(t, v.Params).(map[string]any)
		before := text(t, params)
		bound, found := adapter.Bind(tool, a, params)
		if text(t, params) != before {
			t.Errorf("%s: the parameters were changed", v.Name)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Code+" "+f.Pointer)
			if f.Why == "" {
				t.Errorf("%s: a finding without a reason", v.Name)
			}
		}
		if v.Expect.Request == nil {
			bad++
		}
		if !slices.Equal(got, v.Expect.Findings) || (bound == nil) != (v.Expect.Request == nil) {
			t.Errorf("%s: %v, want %v", v.Name, found, v.Expect.Findings)
			continue
		}
		if bound != nil {
			checkBound(t, v, bound)
		}
	}
	if bad < 75 {
		t.Errorf("only %d bindings have findings", bad)
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := canon.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkBound compares a call with the request of its vector, and the parts of the call with
// that request.
func checkBound(t *testing.T, v bindingVector, b *adapter.Bound) {
	t.Helper()
	want := v.Expect.Request
	want["tool_id"], want["adapter_id"], want["type"] = "T", "A", v.Type
	if got := string(b.Request); got != text(t, decoded(t, want))+"\n" {
		t.Errorf("%s: %swant %s", v.Name, got, text(t, decoded(t, want)))
	}
	if b.RequestHash != canon.Sum(b.Request) || b.IsProcess() != (v.Type != "api") {
		t.Errorf("%s: hash %s, process %v", v.Name, b.RequestHash, b.IsProcess())
	}
	if v.Type != "sdk" {
		return
	}
	call := maps.Clone(want["function"].(map[string]any))
	call["reply"] = b.RequestHash
	if b.Stdin == nil || *b.Stdin != text(t, decoded(t, call))+"\n" {
		t.Errorf("%s: standard input is %v", v.Name, b.Stdin)
	}
}

// TestAnswerVectors: a raw answer becomes the answer of the vector, or fails in its step.
func TestAnswerVectors(t *testing.T) {
	type vector struct {
		Name   string        `json:"name"`
		Steps  []answer.Step `json:"steps"`
		Raw    *string       `json:"raw"`
		Base64 *string       `json:"raw_base64"`
		Expect struct {
			Answer json.RawMessage `json:"answer"`
			Step   *int            `json:"step"`
		} `json:"expect"`
	}
	for _, v := range readVectors(t, "answers.json", func(v vector) string { return v.Name }) {
		for i := range v.Steps {
			v.Steps[i].Spec = decoded(t, v.Steps[i].Spec)
		}
		got, err := answer.Output(v.Steps, specstest.Source(t, v.Raw, v.Base64, nil))
		if v.Expect.Step != nil {
			if oe, ok := errors.AsType[*answer.OutputError](err); !ok || oe.Step != *v.Expect.Step || oe.Msg == "" {
				t.Errorf("%s: %s%v, want an error in step %d", v.Name, got, err, *v.Expect.Step)
			}
			continue
		}
		if v.Expect.Answer == nil {
			v.Expect.Answer = json.RawMessage("null")
		}
		if want := text(t, decoded(t, v.Expect.Answer)) + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: %s%v, want %s", v.Name, got, err, want)
		}
	}
}

// TestRetryVectors: the waits between attempts, and the codes that may be tried again.
func TestRetryVectors(t *testing.T) {
	type vector struct {
		Name  string          `json:"name"`
		Retry adapter.Retry   `json:"retry"`
		Waits []int           `json:"waits"`
		Codes map[string]bool `json:"codes"`
	}
	for _, v := range readVectors(t, "retry.json", func(v vector) string { return v.Name }) {
		waits := []int{}
		for n := 1; n < v.Retry.Attempts(); n++ {
			waits = append(waits, v.Retry.Wait(n))
		}
		if !slices.Equal(waits, v.Waits) {
			t.Errorf("%s: %v, want %v", v.Name, waits, v.Waits)
		}
		for code, want := range v.Codes {
			if n, err := strconv.Atoi(code); err != nil || v.Retry.Retryable(n) != want {
				t.Errorf("%s: %s may be tried again: %v", v.Name, code, !want)
			}
		}
	}
}

// FuzzBind: no parameters stop Bind. The same parameters give the same request, an argument
// list has at most 1024 words, and none of them is an option that only a parameter made.
func FuzzBind(f *testing.F) {
	vectors := bindingVectors(f)
	type pair struct {
		tool *adapter.Tool
		a    *adapter.Adapter
	}
	var pairs []pair
	for i, v := range vectors {
		tool, a := v.parts(f)
		pairs = append(pairs, pair{tool, a})
		f.Add(i, []byte(v.Params))
	}
	f.Fuzz(func(t *testing.T, i int, src []byte) {
		doc, err := canon.Parse(src, canon.MaxIntentBytes)
		params, ok := doc.Value().(map[string]any)
		if err != nil || !ok || i < 0 {
			return
		}
		p := pairs[i%len(pairs)]
		bound, found := adapter.Bind(p.tool, p.a, params)
		again, _ := adapter.Bind(p.tool, p.a, params)
		if (bound == nil) != (len(found) > 0) || len(found) > 100 {
			t.Fatalf("%v %v", bound, found)
		}
		if bound == nil {
			return
		}
		if again.RequestHash != bound.RequestHash || len(bound.Argv) > 1024 {
			t.Fatalf("%s%s", bound.Request, again.Request)
		}
		if in := p.a.Interface.CLI; in != nil {
			checkWords(t, in, bound.Argv)
		}
	})
}

// checkWords: a word with a leading hyphen stands behind a literal --, or a template or the
// base arguments begin with a hyphen too.
func checkWords(t *testing.T, in *adapter.CLIInterface, argv []string) {
	t.Helper()
	literal := strings.Join(in.BaseArgs, " ")
	for _, template := range in.ArgMapping {
		for word := range strings.SplitSeq(template, " ") {
			if strings.HasPrefix(word, "-") {
				literal += " " + word
			}
		}
	}
	for _, word := range argv[1:] {
		if strings.HasPrefix(word, "-") && !strings.Contains(literal, "-") {
			t.Fatalf("%q", argv)
		}
	}
}
