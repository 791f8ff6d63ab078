package specs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
)

// judged are the kinds that Validate finds right without a compiled schema.
func judged() []Kind {
	return []Kind{KindAdapter, KindIntent, KindProfile, KindRunResult, KindServer, KindTool, KindToolIndex, KindSuiteCases, KindSuiteRun, KindSuiteCase, KindSuiteFailureMeta, KindSuiteManifest}
}

// agree fails unless Walk and gojsonschema find the same of a value: valid, or not. Skim must
// not accept the text of a value that is not valid.
func agree(t *testing.T, s *Set, k Kind, v any) (valid bool) {
	t.Helper()
	c, err := s.schemas[k]()
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.validate(v)
	if err != nil {
		t.Fatal(err)
	}
	_, faults := Walk(k, v, 0)
	if (faults == 0) != (len(list) == 0) {
		text, _ := canon.Canonical(v)
		t.Errorf("%s: Walk finds %d faults, gojsonschema %q in\n%s", k, faults, found(list), text)
	}
	if text, err := canon.Canonical(v); err == nil && faults > 0 && Skim(k, string(text), func(string, []string) {}) {
		t.Errorf("%s: Walk finds %d faults, Skim none in\n%s", k, faults, text)
	}
	return faults == 0
}

// TestWalkAgrees: Walk and gojsonschema decide alike, on every document with every place
// spoilt in many ways, and on every vector of a run.
func TestWalkAgrees(t *testing.T) {
	s := newSet(t)
	spoilt := []string{``, `null`, `true`, `0`, `1`, `-1`, `1.5`, `1e30`, `600001`, `""`, `"*"`, `"a b/../c"`, `"é"`, `"kind"`, `[]`, `[""]`, `["a"]`, `["*"]`, `{}`, `{"a":"b"}`, `{"é":1}`, `{"kind":"run"}`, `{"kind":"write"}`, `{"kind":"no"}`, `{"kind":["run"]}`}
	element := regexp.MustCompile(`/[0-9]+$`)
	valid, invalid := 0, 0
	count := func(ok bool) {
		if ok {
			valid++
		} else {
			invalid++
		}
	}
	for _, k := range judged() {
		doc := documents()[k]
		for _, pointer := range pointers(value(t, doc)) {
			for _, to := range spoilt {
				if to != "" || pointer != "" && !element.MatchString(pointer) {
					count(agree(t, s, k, spoil(t, value(t, doc), pointer, to)))
				}
			}
		}
	}
	files, err := fs.Glob(RunVectors(), "*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, name := range files {
		src, err := fs.ReadFile(RunVectors(), name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Vectors []struct {
				Intent json.RawMessage `json:"intent"`
				Text   *string         `json:"intent_text"`
			} `json:"vectors"`
		}
		if err := json.Unmarshal(src, &file); err != nil {
			t.Fatal(err)
		}
		for _, v := range file.Vectors {
			text := []byte(v.Intent)
			if v.Text != nil {
				text = []byte(*v.Text)
			}
			doc, err := canon.Parse(text, canon.MaxIntentBytes)
			if err != nil {
				continue
			}
			for _, k := range judged() {
				count(agree(t, s, k, doc.Value()))
			}
		}
	}
	if valid < 500 || invalid < 2000 {
		t.Errorf("%d valid and %d invalid values", valid, invalid)
	}
}

// TestWalkAgreesOnSuite: Walk and gojsonschema decide alike about each value of the JSON
// test suite, as a document, in an intent's context and in its goal.
func TestWalkAgreesOnSuite(t *testing.T) {
	s := newSet(t)
	files, err := filepath.Glob(filepath.Join(rehearsal.NeedFixture(t, "json-test-suite", "test_parsing"), "*.json"))
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	read := 0
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := canon.Parse(src, canon.MaxIntentBytes)
		if err != nil {
			continue
		}
		read++
		v := doc.Value()
		agree(t, s, KindIntent, v)
		agree(t, s, KindIntent, map[string]any{"goal": v})
		if _, object := v.(map[string]any); agree(t, s, KindIntent, map[string]any{"goal": "g", "context": v}) != object {
			t.Errorf("%s: as a context it is valid: %t", filepath.Base(name), !object)
		}
	}
	if read < 80 {
		t.Errorf("only %d values are read", read)
	}
}

// TestNoSchemaForValid: a valid document needs no compiled schema.
func TestNoSchemaForValid(t *testing.T) {
	for _, k := range judged() {
		s := &Set{schemas: map[Kind]func() (*schema, error){k: func() (*schema, error) {
			t.Errorf("the schema %s is compiled", k)
			return nil, &Error{Kind: k}
		}}}
		if list, err := s.Validate(k, value(t, documents()[k])); err != nil || len(list) > 0 {
			t.Errorf("%s: %q, error %v", k, found(list), err)
		}
	}
}

// FuzzWalkAgrees looks for a document about which Walk and gojsonschema differ.
func FuzzWalkAgrees(f *testing.F) {
	for _, k := range judged() {
		f.Add([]byte(documents()[k]))
	}
	f.Add([]byte(`{"goal":"g","actions":[{"kind":"run","argv":["a"],"env":{"A":"","é":1}},{"kind":"write","path":"a","content":"","content_base64":""},{"kind":"call"}]}`))
	f.Add([]byte(`{"name":"n","allowed_commands":"*","model_adapters":[],"severity":{"AB":"note"},"memory_mb":64.0}`))
	s := newSet(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := canon.Parse(src, 1<<16)
		if err != nil {
			return
		}
		for _, k := range judged() {
			agree(t, s, k, doc.Value())
		}
	})
}
