package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
	"github.com/fiador/fiador/specs/specstest/second"
)

var updateVectors = flag.Bool("update", false, "fill in what the vectors expect of the requests that are read")

const requestVectors = "../../specs/vectors/execution/requests.json"

// A requestVector is one request file with its expectation: the hash of the normalised
// request, or a code and a pointer.
type requestVector struct {
	Name   string              `json:"name"`
	Why    string              `json:"why"`
	Text   *string             `json:"request_text"`
	Base64 *string             `json:"request_base64"`
	Repeat *specstest.Repeated `json:"request_repeat"`
	Expect struct {
		SHA256  *canon.ContentHash `json:"sha256,omitempty"`
		Error   result.Code        `json:"error,omitempty"`
		Pointer *string            `json:"pointer,omitempty"`
	} `json:"expect"`
}

func (v *requestVector) source(t testing.TB) []byte {
	t.Helper()
	return specstest.Source(t, v.Text, v.Base64, v.Repeat)
}

type requestFile struct {
	About   string           `json:"about"`
	Vectors []*requestVector `json:"vectors"`
}

func loadRequestVectors(t testing.TB) requestFile {
	t.Helper()
	src, err := os.ReadFile(requestVectors)
	if err != nil {
		t.Fatal(err)
	}
	var f requestFile
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, v := range f.Vectors {
		spelt := []bool{v.Text != nil, v.Base64 != nil, v.Repeat != nil}
		if len(slices.DeleteFunc(spelt, func(b bool) bool { return !b })) != 1 || (v.Expect.SHA256 == nil) == (v.Expect.Error == "") {
			t.Fatalf("%q has not exactly one request and one expectation", v.Name)
		}
		if seen[v.Name] || v.Name == "" || v.Why == "" {
			t.Fatalf("%q is named twice, or says not why", v.Name)
		}
		seen[v.Name] = true
	}
	return f
}

// TestRequestVectors reads every request of specs/vectors/execution.
func TestRequestVectors(t *testing.T) {
	set, f := specstest.NewSpecs(t), loadRequestVectors(t)
	count := map[result.Code]int{}
	for _, v := range f.Vectors {
		count[v.Expect.Error]++
		t.Run(v.Name, func(t *testing.T) {
			src := v.source(t)
			before := bytes.Clone(src)
			req, err := Parse(set, "request", src)
			if !bytes.Equal(src, before) {
				t.Error("the source was changed")
			}
			if err != nil {
				checkRequestError(t, set, v, err)
				return
			}
			_, sum := checkRequest(t, set, req)
			switch {
			case v.Expect.SHA256 == nil:
				t.Errorf("accepted as %s, want %s", sum, v.Expect.Error)
			case *updateVectors:
				v.Expect.SHA256 = &sum
			case *v.Expect.SHA256 != sum:
				t.Errorf("got %s, want %s", sum, *v.Expect.SHA256)
			}
		})
	}
	if count[""] < 30 || count[result.CodeUnreadable] < 3 || count[result.CodeNotJSON] < 50 || count[result.CodeNotIntent] < 40 {
		t.Errorf("vectors by code: %v", count)
	}
	if *updateVectors {
		if err := os.WriteFile(requestVectors, f.text(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src, err := os.ReadFile(requestVectors)
	if err != nil || !bytes.Equal(f.text(t), src) {
		t.Errorf("%s is not laid out as -update writes it (%v)", requestVectors, err)
	}
}

// checkRequestError compares an error with its vector and its schema. An error about a
// request has no words of the library.
func checkRequestError(t *testing.T, set *specs.Set, v *requestVector, err error) {
	t.Helper()
	var re *result.RunError
	if !errors.As(err, &re) {
		t.Fatalf("not a RunError: %v", err)
	}
	var pointer *string
	if p, ok := re.Details["pointer"].(string); ok {
		pointer = &p
	}
	if re.Code != v.Expect.Error || !reflect.DeepEqual(pointer, v.Expect.Pointer) {
		t.Errorf("got %s at %v, want %s at %v (%s)", re.Code, show(pointer), v.Expect.Error, show(v.Expect.Pointer), re.Message)
	}
	line, _ := re.Details["line"].(int)
	if re.Code != result.CodeUnreadable && (line < 1 || !strings.Contains(re.Message, "line "+strconv.Itoa(line))) {
		t.Errorf("line %d in %q", line, re.Message)
	}
	if re.Hint == "" || !strings.HasPrefix(re.Message, "request: ") || strings.Contains(re.Message, "yaml:") || strings.Contains(re.Message, "%!") {
		t.Errorf("message %q, hint %q", re.Message, re.Hint)
	}
	specstest.Valid(t, set, specs.KindRunError, re.Line())
}

func show(p *string) string {
	if p == nil {
		return "no pointer"
	}
	return strconv.Quote(*p)
}

// checkRequest checks the properties of every request: the normalised form is valid. In
// both notations it is read as the same request with the same hash.
func checkRequest(t testing.TB, set *specs.Set, req Request) ([]byte, canon.ContentHash) {
	t.Helper()
	b, sum, err := req.Artifact()
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []struct {
		name string
		of   contract.Limit
		v    int
	}{
		{"timeout_ms", contract.TimeoutMS(), req.Sandbox.TimeoutMS},
		{"memory_mb", contract.MemoryMB(), req.Sandbox.MemoryMB},
		{"cpu_cores", contract.CPUCores(), req.Sandbox.CPUCores},
		{"max_children", contract.MaxChildren(), req.Sandbox.Processes.MaxChildren},
	} {
		if !limit.of.Holds(limit.v) {
			t.Errorf("%s is %d", limit.name, limit.v)
		}
	}
	if len(b) > MaxBytes { // the defaults make it longer than the source
		return b, sum
	}
	again, err := Parse(set, "again", b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if !reflect.DeepEqual(again, req) {
		t.Errorf("read back as\n%+v\nnot\n%+v", again, req)
	}
	return b, sum
}

func (f requestFile) text(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"vectors\": [", specstest.Encode(t, f.About))
	for i, v := range f.Vectors {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  {\"name\": %s, \"why\": %s,\n   ", specstest.Encode(t, v.Name), specstest.Encode(t, v.Why))
		switch {
		case v.Text != nil:
			fmt.Fprintf(&b, "\"request_text\": %s", specstest.Encode(t, *v.Text))
		case v.Base64 != nil:
			fmt.Fprintf(&b, "\"request_base64\": %s", specstest.Encode(t, *v.Base64))
		default:
			fmt.Fprintf(&b, "\"request_repeat\": %s", specstest.Encode(t, v.Repeat))
		}
		fmt.Fprintf(&b, ",\n   \"expect\": %s}", specstest.Encode(t, v.Expect))
	}
	b.WriteString("\n ]\n}\n")
	return []byte(b.String())
}

// TestRequestDefaults checks the value of the smallest request, and the value of the full
// one in either notation.
func TestRequestDefaults(t *testing.T) {
	set := specstest.NewSpecs(t)
	got, err := Parse(set, "r", []byte(`{"execution_id":"e","tool_id":"t","inputs":{"command":"node"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Request{
		ExecutionID: "e", ToolID: "t",
		Inputs: Inputs{
			Command: "node", Arguments: []string{}, Environment: map[string]string{}, WorkingDirectory: ".", InputFiles: []string{},
		},
		Sandbox: Sandbox{
			TimeoutMS: 30000, MemoryMB: 512, CPUCores: 1, Filesystem: Filesystem{Deny: []string{}},
			Network: Network{Allow: []string{}, Deny: []string{}}, Processes: Processes{MaxChildren: 10, AllowFork: true},
		},
		Outputs: Outputs{Stdout: Captured, Stderr: Captured, OutputFiles: []string{}, Artifacts: []ArtifactSpec{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if argv := got.Inputs.Argv(); !slices.Equal(argv, []string{"node"}) {
		t.Errorf("argv is %q", argv)
	}
	sums := map[string]canon.ContentHash{}
	for _, v := range loadRequestVectors(t).Vectors {
		if v.Expect.SHA256 != nil {
			sums[v.Name] = *v.Expect.SHA256
		}
	}
	for _, same := range [][]string{
		{"json_full", "json_space_first", "json_order", "yaml_full", "yaml_crlf", "yaml_flow"},
		{"json_least", "json_defaults_given", "json_empty_parts", "yaml_least", "yaml_document_marks", "yaml_flow_bare", "yaml_comments", "yaml_explicit_key"},
		{"json_numbers", "yaml_number"},
	} {
		for _, name := range same[1:] {
			if sums[name] != sums[same[0]] || sums[name] == "" {
				t.Errorf("%s is %s, %s is %s", name, sums[name], same[0], sums[same[0]])
			}
		}
	}
	if sums["json_write_empty"] == sums["json_least"] || sums["json_read_empty"] == sums["json_least"] || sums["json_exit_code_0"] == sums["json_least"] {
		t.Error("an empty write or read list or an exit code of 0 is taken for none")
	}
}

// TestRequestMessages compares the messages for people: file, line, pointer, fault and
// what to do.
func TestRequestMessages(t *testing.T) {
	set := specstest.NewSpecs(t)
	const head = "execution_id: e1\ntool_id: t\ninputs:\n  command: node\n"
	for _, tc := range []struct{ name, src, msg, hint string }{
		{"a.yaml", head + "sandbox:\n  # long\n  timeout_ms: 5\n",
			"a.yaml: line 7, column 3, /sandbox/timeout_ms: must be at least 1000, not 5", "fiador schema execution-request prints what a request may hold"},
		{"a.yaml", head + "sandbox:\n  timeout_ms: 1_000\n",
			`a.yaml: line 6, column 15, /sandbox/timeout_ms: "1_000" is a number in some versions of YAML; write it as JSON does, or put it in quotes`, ""},
		{"a.yaml", head + "sandbox:\n  processes: {allow_fork: no}\n",
			`a.yaml: line 6, column 27, /sandbox/processes/allow_fork: "no" is no string in some versions of YAML; write true, false or null, or put it in quotes`, ""},
		{"a.yaml", head + "  arguments:\n  - -p\n  - 8080\n",
			"a.yaml: line 7, column 5, /inputs/arguments/1: must be a string, not 8080", "put the value in double quotes"},
		{"a.yaml", head + "sandbox:\n  timout_ms: 5000\n",
			`a.yaml: line 6, column 3, /sandbox/timout_ms: unknown member "timout_ms"; did you mean "timeout_ms"?`, ""},
		{"a.yaml", head + "  command: sh\n",
			`a.yaml: line 5, column 3, /inputs/command: member "command" stands twice in one mapping; keep one of them`, ""},
		{"a.yaml", head + "  stdin: &x y\n",
			"a.yaml: line 5, column 10, /inputs/stdin: found the anchor &x; remove it", ""},
		{"a.yaml", head + "  stdin:\n",
			`a.yaml: line 5, column 9, /inputs/stdin: has no value; write one, "" for the empty string, or remove the member`, ""},
		{"a.yaml", head + "  stdin: *x\n",
			"a.yaml: near line 1: found an alias; write the value out", ""},
		{"a.yaml", "a: 1\n---\nb: 2\n",
			"a.yaml: near line 2: found more after the end of the document; a text holds one document", ""},
		{"a.yaml", "- 1\n- 2\n",
			"a.yaml: line 1, column 1: must be an object, not a list", ""},
		{"a.yaml", "tool_id: t\nexecution_id: 7\ninputs: [\n]\n",
			"a.yaml: line 2, column 1, /execution_id: must be a string, not 7 (and 1 more)", "put the value in double quotes"},
		{"a.json", "{\"execution_id\":\"e1\",\n\"tool_id\":\"t\",\n\"inputs\":{\"command\":\"node\"},\n\"sandbox\":{\"timeout_ms\":\n5}}",
			"a.json: line 5, column 1, /sandbox/timeout_ms: must be at least 1000, not 5", ""},
		{"a.json", "{\"execution_id\":\"e1\",\n'tool_id':\"t\"}",
			`a.json: line 2, column 1: found "'" where a member name in double quotes must stand; strings stand in double quotes`,
			`a file that begins with "{" or "[" is read as JSON; every other one is read as YAML`},
		{"a.json", `{"execution_id":"e1","tool_id":"t","inputs":{"command":"node"},"sandbox":{"network":{"allow":["x.org"]}}}`,
			"a.json: line 1, column 94, /sandbox/network/allow: hosts are allowed, and the network is not enabled",
			"set enabled to true, or leave the list empty"},
		{"a.yaml", head + "sandbox:\n  network:\n    enabled: true\n    deny: [x.org, \"x.org:0\"]\n",
			"a.yaml: line 8, column 19, /sandbox/network/deny/1: the port is not a number from 1 to 65535",
			"write a host as host, host:port, *.host or private:host:port"},
		{"a.json", `{"execution_id":"e1","tool_id":"t","inputs":{"command":"node"},"outputs":{"output_files":["out//a"]}}`,
			`a.json: line 1, column 91, /outputs/output_files/0: path "out//a" is not in its clean form`, `write it as "out/a"`},
	} {
		_, err := Parse(set, tc.name, []byte(tc.src))
		var re *result.RunError
		if !errors.As(err, &re) {
			t.Errorf("%q: %v", tc.src, err)
			continue
		}
		if re.Message != tc.msg || tc.hint != "" && re.Hint != tc.hint {
			t.Errorf("got  %s\nwant %s\nhint %s", re.Message, tc.msg, re.Hint)
		}
	}
}

// TestRequestSchemaSpoilt spoils every place of a request. A second validator must agree
// with the schema's verdict, and Parse must never accept more.
func TestRequestSchemaSpoilt(t *testing.T) {
	set := specstest.NewSpecs(t)
	other := second.Schema(t, specs.KindExecutionRequest)
	full := fullRequest(t)
	refused := 0
	for _, pointer := range specstest.PlacesOf(full, nil) {
		for _, to := range []any{nil, true, json.Number("0"), json.Number("-1"), json.Number("1.5"), json.Number("1000000"), "", "*", "a b/../c\x00", []any{}, []any{""}, map[string]any{}, map[string]any{"x y": json.Number("1")}} {
			v := specstest.Replaced(full, pointer, to)
			list, err := set.Validate(specs.KindExecutionRequest, v)
			if err != nil {
				t.Fatal(err)
			}
			second := other.Validate(v)
			if (second == nil) != (len(list) == 0) {
				t.Errorf("%q set to %v: ours %v, second opinion %v", pointer, to, list, second)
			}
			b, err := canon.Canonical(v)
			if err != nil {
				t.Fatal(err)
			}
			// A document that is no object is not read as JSON, but has the same value.
			if _, err := Parse(set, "r", b); err == nil && len(list) > 0 {
				t.Errorf("%q set to %v is accepted", pointer, to)
			}
			if len(list) > 0 {
				refused++
			}
		}
	}
	if refused < 200 {
		t.Errorf("only %d refused: the test has lost its teeth", refused)
	}
}

func fullRequest(t *testing.T) any {
	t.Helper()
	for _, v := range loadRequestVectors(t).Vectors {
		if v.Name == "json_full" {
			doc, err := canon.Parse(v.source(t), MaxBytes)
			if err != nil {
				t.Fatal(err)
			}
			return doc.Value()
		}
	}
	t.Fatal("no vector json_full")
	return nil
}

// TestRequestSchemaAgrees compares the schema's bounds with the contract's.
func TestRequestSchemaAgrees(t *testing.T) {
	src, _ := specs.Schema(string(specs.KindExecutionRequest))
	var root map[string]any
	if err := json.Unmarshal(src, &root); err != nil {
		t.Fatal(err)
	}
	at := func(way string) map[string]any {
		m := root
		for name := range strings.FieldsSeq(way) {
			m, _ = m["properties"].(map[string]any)[name].(map[string]any)
		}
		return m
	}
	for way, limit := range map[string]contract.Limit{
		"sandbox timeout_ms":             contract.TimeoutMS(),
		"sandbox memory_mb":              contract.MemoryMB(),
		"sandbox cpu_cores":              contract.CPUCores(),
		"sandbox processes max_children": contract.MaxChildren(),
	} {
		if m := at(way); m["minimum"] != float64(limit.Min) || m["maximum"] != float64(limit.Max) || !strings.HasSuffix(m["description"].(string), fmt.Sprintf("Absent means %d.", limit.Default)) {
			t.Errorf("%s: %v, the contract has %+v", way, m, limit)
		}
	}
	for way, n := range map[string]int{
		"inputs arguments maxItems":          contract.MaxArgs - 1,
		"inputs environment maxProperties":   contract.MaxEnv,
		"inputs input_files maxItems":        contract.MaxInputs,
		"inputs working_directory maxLength": contract.MaxPathRunes,
		"inputs stdin maxLength":             MaxBytes,
		"outputs output_files maxItems":      contract.MaxOutputs,
	} {
		i := strings.LastIndexByte(way, ' ')
		if got := at(way[:i])[way[i+1:]]; got != float64(n) {
			t.Errorf("%s is %v, want %d", way, got, n)
		}
	}
	if items := at("inputs arguments")["items"].(map[string]any); items["maxLength"] != float64(contract.MaxArgRunes) {
		t.Errorf("an argument may have %v characters", items["maxLength"])
	}
}
