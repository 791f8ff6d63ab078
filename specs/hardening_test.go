package specs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
)

func TestOrderAndMore(t *testing.T) {
	s := newSet(t)
	obj := map[string]any{"goal": json.Number("1")}
	for i := range 100 {
		obj[fmt.Sprintf("x%02d", i)] = nil
	}
	// U+FF5E is before the supplementary U+1D11E by code point and after it by
	// UTF-16 code unit.
	obj["\uff5e"], obj["\U0001d11e"] = nil, nil
	first, err := s.Validate(KindIntent, obj)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != MaxViolations || first[0].Pointer != "/goal" || first[1].Pointer != "/x00" || first[19].Pointer != "/x18" || first[19].More != 83 {
		t.Errorf("got %+v", first)
	}
	for range 20 {
		again, err := s.Validate(KindIntent, obj)
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("not the same twice: %+v\n%+v, %v", first, again, err)
		}
	}
	two, err := s.Validate(KindIntent, map[string]any{"goal": "g", "\uff5e": nil, "\U0001d11e": nil})
	if err != nil || len(two) != 2 || two[0].Pointer != "/\U0001d11e" {
		t.Errorf("got %+v, %v", two, err)
	}
}

// TestCrowdedDocument proves that a document full of faults is refused with few of them,
// and that shortening hides no fault.
func TestCrowdedDocument(t *testing.T) {
	s := newSet(t)
	unknown := map[string]any{}
	for i := range 100000 {
		unknown[fmt.Sprintf("m%05d", i)] = json.Number("1")
	}
	docs := map[string]any{
		"list items":      value(t, `{"goal":"g","outputs":`+many(400000, "1")+`}`),
		"nested items":    value(t, `{"goal":"g","actions":`+many(256, `{"kind":"run","argv":`+many(1024, "1")+`}`)+`}`),
		"unknown members": unknown,
		"bad names":       map[string]any{"goal": "g", "actions": []any{map[string]any{"kind": "run", "argv": []any{"a"}, "env": unknown}}},
		"missing members": value(t, `{"goal":"g","actions":`+many(100000, "{}")+`}`),
	}
	for name, v := range docs {
		t.Run(name, func(t *testing.T) {
			list, err := s.Validate(KindIntent, v)
			if err != nil || len(list) != MaxViolations || list[MaxViolations-1].More == 0 {
				t.Fatalf("got %d violations, %v", len(list), err)
			}
			allocated := testing.AllocsPerRun(1, func() { _, _ = s.Validate(KindIntent, v) })
			if allocated > 50000 {
				t.Errorf("%.0f allocations", allocated)
			}
		})
	}
	// The last of many valid items has a fault, and nothing before it is cut.
	list := slices.Repeat([]any{"o"}, 10000)
	list[9999] = json.Number("1")
	got, err := s.Validate(KindIntent, map[string]any{"goal": "g", "outputs": list})
	if err != nil || !slices.Equal(found(got), []string{"/outputs/9999 type"}) {
		t.Errorf("got %q, %v", found(got), err)
	}
}

// TestShortenedAndValid proves the safety net of crowd: a shape that counts too many
// faults changes no verdict.
func TestShortenedAndValid(t *testing.T) {
	src, _ := Schema("intent")
	c, err := compile(KindIntent, src)
	if err != nil {
		t.Fatal(err)
	}
	c.shape.member("outputs").items.maxLength = 0
	c.shape.member("outputs").items.minLength = 9
	list := slices.Repeat([]any{"o"}, 1000)
	if got, err := c.validate(map[string]any{"goal": "g", "outputs": list}); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v", found(got), err)
	}
	list[999] = json.Number("1")
	got, err := c.validate(map[string]any{"goal": "g", "outputs": list})
	if err != nil || !slices.Equal(found(got), []string{"/outputs/999 type"}) {
		t.Errorf("got %q, %v", found(got), err)
	}
}

// TestRemoteReference proves that no reference leaves its schema: not to a server that
// would answer, not to an existing file.
func TestRemoteReference(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		_, _ = w.Write([]byte(`{"type":"object"}`))
	}))
	defer server.Close()
	for _, ref := range []string{
		server.URL + "/x", server.URL + "/x#/definitions/a", "file:///etc/hostname", "other.json", "/etc/hostname",
		"http://json-schema.org/draft-07/schema#", "https://raw.githubusercontent.com/fiador/fiador/v0.1.0/specs/other.schema.json",
	} {
		for name, src := range map[string]string{
			"root":   `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"` + ref + `"}`,
			"nested": `{"properties":{"a":{"$ref":"` + ref + `"}}}`,
			"hidden": `{"allOf":[{"not":{"$ref":"` + ref + `"}}]}`,
		} {
			t.Run(name+" "+ref, func(t *testing.T) {
				_, err := compile("test", []byte(src))
				if e, ok := err.(*Error); !ok || e.Msg != "the schema does not compile" {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	if len(asked) != 0 {
		t.Errorf("the server was asked for %s", <-asked)
	}
}

func TestBadSchema(t *testing.T) {
	for name, src := range map[string]string{
		"no JSON":       `{`,
		"no object":     `[]`,
		"loop":          `{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}`,
		"nowhere":       `{"properties":{"a":{"$ref":"#/definitions/b"}}}`,
		"bad type":      `{"type":"text"}`,
		"bad pattern":   `{"pattern":"("}`,
		"unknown draft": `{"$schema":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := compile("test", []byte(src))
			if e, ok := err.(*Error); !ok || c != nil || e.Kind != "test" {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}

// TestValidatorPanic uses numbers that canonical text cannot contain. The library panics
// on them, and its panic becomes an error.
func TestValidatorPanic(t *testing.T) {
	s := newSet(t)
	for name, v := range map[string]any{
		"beyond a double near enum":  map[string]any{"goal": "g", "actions": []any{map[string]any{"kind": json.Number("1e400")}}},
		"beyond a double near const": map[string]any{"code": json.Number("1e400")},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := s.Validate(KindIntent, v)
			if err == nil && len(list) == 0 {
				t.Error("found valid")
			}
		})
	}
	c, err := compile("test", []byte(`{"properties":{"a":{"enum":[1]},"b":{"maximum":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{map[string]any{"a": json.Number("1e400")}, map[string]any{"b": json.Number("x")}} {
		list, err := c.validate(v)
		if e, ok := err.(*Error); !ok || list != nil || e.Msg != "the value stopped the validator" {
			t.Errorf("%v: got %v, %v", v, list, err)
		}
	}
}

// TestForeignValue proves that a Go value that JSON does not decode to is an error. The
// library does not know float64 and would accept it.
func TestForeignValue(t *testing.T) {
	s := newSet(t)
	for _, v := range []any{
		3, 1.5, struct{}{}, []string{"a"},
		map[string]any{"goal": 3},
		map[string]any{"goal": "g", "outputs": []any{7}},
		map[string]any{"goal": "g", "actions": []any{map[string]any{"kind": "run", "argv": []string{"a"}}}},
	} {
		list, err := s.Validate(KindIntent, v)
		if e, ok := err.(*Error); !ok || list != nil || e.Msg != "the value is not decoded JSON" {
			t.Errorf("%v: got %v, %v", v, list, err)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	for _, s := range []*Set{newSet(t), {}} {
		if _, err := s.Validate("nonsense", nil); err == nil || err.Error() != `schema "nonsense": no such schema` {
			t.Errorf("got %v", err)
		}
	}
	if _, ok := Schema("../specs"); ok {
		t.Error("a path is no name")
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newSet(t)
	docs := documents()
	want := map[Kind][]Violation{}
	for k := range docs {
		list, err := newSet(t).Validate(k, value(t, `{"x":1}`))
		if err != nil {
			t.Fatal(err)
		}
		want[k] = list
	}
	var group sync.WaitGroup
	for range 8 {
		for k, doc := range docs {
			good, bad := value(t, doc), value(t, `{"x":1}`)
			group.Go(func() {
				if list, err := s.Validate(k, good); err != nil || len(list) != 0 {
					t.Errorf("%s: %v, %v", k, list, err)
				}
				if list, err := s.Validate(k, bad); err != nil || !reflect.DeepEqual(list, want[k]) {
					t.Errorf("%s: %v, %v", k, list, err)
				}
			})
		}
	}
	group.Wait()
}

func TestInputUnchanged(t *testing.T) {
	s := newSet(t)
	v := value(t, `{"goal":"g","outputs":`+many(20000, "1")+`,"actions":`+many(300, `{"kind":"run","argv":[1],"x":1}`)+`}`)
	before := encode(t, v)
	if _, err := s.Validate(KindIntent, v); err != nil {
		t.Fatal(err)
	}
	if encode(t, v) != before {
		t.Error("Validate changed its argument")
	}
}
