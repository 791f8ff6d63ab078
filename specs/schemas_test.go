package specs

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/finding"
)

func schemaDoc(t *testing.T, name string) map[string]any {
	t.Helper()
	src, ok := Schema(name)
	if !ok {
		t.Fatalf("no schema %q", name)
	}
	doc, ok := value(t, string(src)).(map[string]any)
	if !ok {
		t.Fatalf("schema %q is no object", name)
	}
	return doc
}

func TestNames(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range entries {
		want = append(want, strings.TrimSuffix(e.Name(), ".schema.json"))
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("Names is %q, the files are %q", got, want)
	}
	if _, ok := Schema("nonsense"); ok {
		t.Error("found a schema that is not there")
	}
}

// TestMetaSchema checks every schema by the draft-07 schema itself.
func TestMetaSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	meta, err := c.Compile("http://json-schema.org/draft-07/schema")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		src, _ := Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		if err := meta.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"maxLength":"3"}`))
	if err != nil {
		t.Fatal(err)
	}
	if meta.Validate(bad) == nil {
		t.Error("the draft-07 schema accepts a bad schema")
	}
}

// keywords is the part of draft-07 that the schemas use.
var keywords = strings.Fields(`$schema $id $ref title description examples definitions type enum const properties required
	additionalProperties propertyNames maxProperties items minItems maxItems minLength maxLength pattern minimum maximum
	if then else anyOf dependencies contentEncoding`)

// openKinds are the documents that others write too: a contract names members of them, and no
// member is refused. They have numbers that the contract does not bound.
var openKinds = []Kind{KindSuiteRun, KindSuiteCase, KindSuiteFailureMeta, KindSuiteManifest}

// freeData are the places of a suite's cases that are free: of objects, and of any value.
var (
	freeObjects = []string{"/context", "/params", "/spec", "/metadata", "/json_schema"}
	freeData    = []string{"/json_equals/properties/value", "/assumption_state", "/semantic", "/tool_telemetry", "/planning_gate", "/repl_policy"}
)

func endsIn(at string, ends []string) bool {
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(at, end) })
}

// structure lists the places of a schema that break the promises of the package comment.
type structure struct {
	root   map[string]any
	open   bool // a document of openKinds
	faults []string
}

func (s *structure) fail(at, msg string) { s.faults = append(s.faults, at+" "+msg) }

// node checks one schema. fragment is set if a schema only adds to another: in if, anyOf
// and dependencies.
func (s *structure) node(at string, v any, fragment bool) {
	m, ok := v.(map[string]any)
	if !ok {
		if v != false || !fragment {
			s.fail(at, "is no object")
		}
		return
	}
	m = union(m) // its types are checked as one list
	for name := range m {
		if !slices.Contains(keywords, name) || name == "examples" && at != "" {
			s.fail(at, "uses "+name)
		}
	}
	if ref, ok := m["$ref"].(string); ok {
		name, local := strings.CutPrefix(ref, "#/definitions/")
		defs, _ := s.root["definitions"].(map[string]any)
		if _, ok := defs[name]; !ok || !local {
			s.fail(at, "refers to "+ref)
		}
	}
	if !fragment {
		s.described(at, m)
		s.bounded(at, m)
	}
	for name, sub := range object(m["properties"]) {
		s.node(at+"/properties/"+name, sub, fragment)
	}
	for name, sub := range object(m["definitions"]) {
		s.node(at+"/definitions/"+name, sub, false)
	}
	for name, sub := range object(m["dependencies"]) {
		s.node(at+"/dependencies/"+name, sub, true)
	}
	list, _ := m["anyOf"].([]any)
	for _, sub := range list {
		s.node(at+"/anyOf", sub, true)
	}
	for name, isFragment := range map[string]bool{"items": false, "propertyNames": true, "if": true, "then": false, "else": true} {
		if sub, ok := m[name]; ok {
			s.node(at+"/"+name, sub, isFragment)
		}
	}
	if sub, ok := m["additionalProperties"].(map[string]any); ok {
		s.node(at+"/additionalProperties", sub, false)
	}
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func (s *structure) described(at string, m map[string]any) {
	text, _ := m["description"].(string)
	if _, isRef := m["$ref"]; !isRef && text == "" {
		s.fail(at, "has no description")
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		s.fail(at, "has a description without an end")
	}
}

func (s *structure) bounded(at string, m map[string]any) {
	if m["$ref"] != nil {
		return
	}
	types := typeNames(m["type"])
	if len(types) == 0 && len(m) == 1 && endsIn(at, freeData) {
		return
	}
	if len(types) == 0 {
		s.fail(at, "has no type")
	}
	for _, want := range types {
		switch want {
		case "string":
			if m["maxLength"] == nil {
				s.fail(at, "has no maxLength")
			}
		case "array":
			if m["maxItems"] == nil || m["items"] == nil {
				s.fail(at, "has no maxItems or no items")
			}
		case "integer":
			if (m["minimum"] == nil || m["maximum"] == nil) && !strings.Contains(at, "details") {
				s.fail(at, "has no minimum or no maximum")
			}
		case "number":
			if (m["minimum"] == nil || m["maximum"] == nil) && !s.open {
				s.fail(at, "is a number without bounds")
			}
		case "object":
			s.closed(at, m)
		}
	}
}

func (s *structure) closed(at string, m map[string]any) {
	_, chosen := m["if"]
	_, described := m["additionalProperties"].(map[string]any)
	switch {
	case s.open:
		if m["additionalProperties"] != nil {
			s.fail(at, "is not open")
		}
	case endsIn(at, freeObjects):
	case chosen:
		s.chain(at, m)
	case m["additionalProperties"] == false:
	case described && m["propertyNames"] != nil && m["maxProperties"] != nil:
	default:
		s.fail(at, "is open")
	}
}

// chain follows if, then and else: every value of the member's enum has a closed object
// of its own. A chain that asks for no value ends with a closed object for every other one.
func (s *structure) chain(at string, m map[string]any) {
	var values []any
	closed := func(link map[string]any) {
		ref, _ := link["$ref"].(string)
		name := strings.TrimPrefix(ref, "#/definitions/")
		if object(object(s.root["definitions"])[name])["additionalProperties"] != false {
			s.fail(at, "has an open branch "+name)
		}
	}
	link := m
	for ; link["if"] != nil; link = object(link["else"]) {
		if object(link["if"])["required"] == nil {
			if kind := object(link["if"])["type"]; kind == nil || kind == "object" {
				s.fail(at, "has a condition that holds for objects")
			}
			continue
		}
		closed(object(link["then"]))
		if value, asked := object(object(object(link["if"])["properties"])["kind"])["const"]; asked {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		closed(link)
	}
	allowed, _ := object(object(m["properties"])["kind"])["enum"].([]any)
	if len(values) != len(allowed) {
		s.fail(at, "has branches for other values than its enum has")
	}
	for _, v := range allowed {
		if !slices.Contains(values, v) {
			s.fail(at, "has no branch for a value of its enum")
		}
	}
}

// loops says whether a reference below node leads back to an open one.
func (s *structure) loops(node any, open []string) bool {
	switch node := node.(type) {
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok {
			if slices.Contains(open, ref) {
				return true
			}
			name := strings.TrimPrefix(ref, "#/definitions/")
			return s.loops(object(s.root["definitions"])[name], append(slices.Clone(open), ref))
		}
		for _, sub := range node {
			if s.loops(sub, open) {
				return true
			}
		}
	case []any:
		for _, sub := range node {
			if s.loops(sub, open) {
				return true
			}
		}
	}
	return false
}

func inspect(root map[string]any, open bool) []string {
	s := &structure{root: root, open: open}
	s.node("", root, false)
	if s.loops(root, nil) {
		s.fail("", "refers to itself")
	}
	slices.Sort(s.faults)
	return s.faults
}

// address is where a release's schemas can be read. The $id of each leads there.
const address = "https://raw.githubusercontent.com/fiador/fiador/v" + kernel.Version + "/specs/"

func TestSchemaStructure(t *testing.T) {
	for _, name := range Names() {
		doc := schemaDoc(t, name)
		for _, fault := range inspect(doc, slices.Contains(openKinds, Kind(name))) {
			t.Errorf("%s: %s", name, fault)
		}
		if doc["$schema"] != "http://json-schema.org/draft-07/schema#" || doc["title"] == nil {
			t.Errorf("%s: no $schema or no title", name)
		}
		if want := address + name + ".schema.json"; doc["$id"] != want {
			t.Errorf("%s: $id is %q, want %q", name, doc["$id"], want)
		}
	}
}

// TestExamples: every schema has examples, which Walk and both validators accept. An example
// of an intent is one for the kernel too.
func TestExamples(t *testing.T) {
	s, o := newSet(t), secondOpinion(t)
	for _, name := range Names() {
		examples, _ := schemaDoc(t, name)["examples"].([]any)
		if len(examples) == 0 {
			t.Errorf("%s: no example", name)
		}
		for i, v := range examples {
			t.Run(name+"/"+strconv.Itoa(i), func(t *testing.T) {
				check(t, s, o, Kind(name), v, []string{})
				if walked(Kind(name)) != nil {
					agree(t, s, Kind(name), v)
				}
				if Kind(name) == KindIntent {
					if _, err := kernel.ParseIntent(v); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestStructureCanFail gives the structure test schemas that break each promise.
func TestStructureCanFail(t *testing.T) {
	for src, want := range map[string]string{
		`{"description":"A.","type":"object"}`: " is open",
		`{"description":"A.","type":"object","additionalProperties":{"description":"A.","type":"null"}}`: " is open",
		`{"description":"A.","type":"object","additionalProperties":false}`:                              " is not open",
		`{"description":"A.","type":"number"}`:                                                           " is a number without bounds",
		`{"description":"A.","type":"string"}`:                                                           " has no maxLength",
		`{"description":"A.","type":"array","items":{"description":"A.","type":"null"}}`:                 " has no maxItems or no items",
		`{"description":"A.","type":"integer","minimum":1}`:                                              " has no minimum or no maximum",
		`{"description":"A."}`: " has no type",
		`{"type":"null"}`:      " has no description",
		`{"description":"A.","type":"null","format":"date"}`:                                                                  " uses format",
		`{"description":"A.","type":"null","oneOf":[]}`:                                                                       " uses oneOf",
		`{"description":"A.","type":"null","patternProperties":{}}`:                                                           " uses patternProperties",
		`{"description":"A.","type":"object","if":{"type":"array"},"else":{"$ref":"#/definitions/a"},"definitions":{"a":{}}}`: " has an open branch a",
		`{"description":"A.","type":"object","if":{"type":"object"}}`:                                                         " has a condition that holds for objects",
		`{"$ref":"http://localhost/x"}`:                                                                                       " refers to http://localhost/x",
		`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}`:                                           " refers to itself",
	} {
		if got := inspect(value(t, src).(map[string]any), strings.Contains(want, "not open")); !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", src, got, want)
		}
	}
}

// TestSharedDefinitions proves that two schemas describe the same thing in the same way.
func TestSharedDefinitions(t *testing.T) {
	defs := func(name string) map[string]any { return object(schemaDoc(t, name)["definitions"]) }
	// A policy checker ignores conditions, so the input lists every member of an action
	// beside its kind. The conditions are the same.
	input := defs("policy-input")
	for _, kind := range []string{"write", "run", "call"} {
		for name, member := range object(object(input[kind])["properties"]) {
			if listed := object(object(input["action"])["properties"])[name]; name != "kind" && !reflect.DeepEqual(listed, member) {
				t.Errorf("action of policy-input does not list %q as %s has it", name, kind)
			}
		}
	}
	for name, def := range defs("intent") {
		if name == "action" {
			continue
		}
		if !reflect.DeepEqual(def, defs("policy-input")[name]) {
			t.Errorf("definition %q of policy-input is not that of intent", name)
		}
	}
	for name, def := range defs("intent") {
		if !reflect.DeepEqual(def, defs("work-plan")[name]) {
			t.Errorf("definition %q of work-plan is not that of intent", name)
		}
	}
	if !reflect.DeepEqual(defs("run-result")["hash"], defs("policy-input")["hash"]) {
		t.Error("two definitions of a hash")
	}
	for name, def := range defs("suite-compare") {
		if other, shared := defs("suite-evaluation")[name]; shared && name != "case" && !reflect.DeepEqual(def, other) {
			t.Errorf("definition %q of suite-compare is not that of suite-evaluation", name)
		}
	}
	if provenance := object(schemaDoc(t, "run-result")["properties"])["policy_provenance"]; !reflect.DeepEqual(defs("suite-evaluation")["policy_provenance"], provenance) {
		t.Error("two definitions of the provenance of a policy")
	}
	policy := object(object(schemaDoc(t, "run-result")["properties"])["policy"])
	if got := len(object(policy["properties"])); got != 7 {
		t.Errorf("policy has %d members, run-result.md has seven", got)
	}
	for name, member := range object(policy["properties"]) {
		if profile := object(schemaDoc(t, "profile")["properties"])[name]; !strings.HasPrefix(name, "allowed_") && !reflect.DeepEqual(member, profile) {
			t.Errorf("%q of the profile is not that of the result", name)
		}
	}
}

// TestKernelAgrees compares the schemas with the kernel's own lists and limits.
func TestKernelAgrees(t *testing.T) {
	findings := object(object(schemaDoc(t, "policy-input")["properties"])["findings"])
	enum, _ := object(object(object(findings["items"])["properties"])["code"])["enum"].([]any)
	known := map[any]bool{}
	for _, code := range finding.Codes() {
		known[code] = true
	}
	for _, code := range enum {
		if !known[code] {
			t.Errorf("the kernel has no code %v", code)
		}
	}
	if len(enum) != len(known) {
		t.Errorf("codes are %v, the kernel has %v", enum, finding.Codes())
	}
	root, err := newShape(schemaDoc(t, "intent"))
	if err != nil {
		t.Fatal(err)
	}
	run := root.member("actions").items.branches[0].then
	for name, pair := range map[string][2]int{
		"goal":        {root.member("goal").maxLength, contract.MaxGoalRunes},
		"constraints": {root.member("constraints").maxItems, contract.MaxConstraints},
		"constraint":  {root.member("constraints").items.maxLength, contract.MaxConstraintRunes},
		"actions":     {root.member("actions").maxItems, contract.MaxActions},
		"inputs":      {root.member("inputs").maxItems, contract.MaxInputs},
		"outputs":     {root.member("outputs").maxItems, contract.MaxOutputs},
		"path":        {root.member("outputs").items.maxLength, contract.MaxPathRunes},
		"argv":        {run.member("argv").maxItems, contract.MaxArgs},
		"argument":    {run.member("argv").items.maxLength, contract.MaxArgRunes},
		"env":         {run.member("env").maxMembers, contract.MaxEnv},
		"risk_tags":   {run.member("risk_tags").maxItems, contract.MaxRiskTags},
		"stdin":       {run.member("stdin").maxLength, canon.MaxIntentBytes},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the schema has %d, the kernel %d", name, pair[0], pair[1])
		}
	}
}

// TestBundleFixtures checks two bundles of the existing format by the schema.
func TestBundleFixtures(t *testing.T) {
	s, o := newSet(t), secondOpinion(t)
	for name, kind := range map[string]Kind{
		"bundle.bundle.json":  KindBundle,
		"clarify.bundle.json": KindBundle,
		"bundle.intent.json":  KindIntent,
		"clarify.intent.json": KindIntent,
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(rehearsal.NeedFixture(t, "bundle", name))
			if err != nil {
				t.Fatal(err)
			}
			check(t, s, o, kind, value(t, string(src)), []string{})
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, name := range Names() {
		src, _ := Schema(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := compile(Kind(name), src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	action := `{"kind":"run","argv":["node","scripts/build.js","--out","dist"],"cwd":"src","timeout_ms":60000},`
	write := `{"kind":"write","path":"out/notes.md","content":` + quoted(200, "x") + `},`
	path := `"` + strings.Repeat("d/", 10) + `file.txt"`
	docs := map[string]string{
		"1KB": `{"goal":"Write the notes and build","constraints":["keep it short","no network"],"actions":[` +
			strings.Repeat(write, 2) + strings.Repeat(action, 3) + strings.TrimSuffix(action, ",") + `],"outputs":["dist/a.js"]}`,
		"10000Outputs": `{"goal":"g","outputs":` + many(10000, path) + `}`,
		"256Actions":   `{"goal":"g","actions":[` + strings.Repeat(action, 255) + strings.TrimSuffix(action, ",") + `]}`,
		"1MiBContent":  `{"goal":"g","actions":[{"kind":"write","path":"a","content":` + quoted(1000000, "x") + `}]}`,
		"Crowded":      `{"goal":"g","actions":` + many(256, `{"kind":"run","argv":`+many(1024, "1")+`}`) + `}`,
		"OneSlip":      `{"gaol":"g"}`,
	}
	s := newSet(b)
	for name, doc := range docs {
		v := value(b, doc)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Validate(KindIntent, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
