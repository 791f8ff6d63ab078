package canon

import (
	"reflect"
	"testing"
)

type decoded struct {
	Text  string         `json:"text"`
	Hash  ContentHash    `json:"hash,omitempty"`
	Count int64          `json:"count"`
	Yes   bool           `json:"yes"`
	List  []*decoded     `json:"list"`
	Free  map[string]any `json:"free"`
	Any   any            `json:"any"`
	Up    *decoded       `json:"up"`
	Own   int            `json:"-"`
}

func TestDecode(t *testing.T) {
	var d Decoder[decoded]
	for _, c := range []struct {
		text, pointer, msg string
		want               *decoded
	}{
		{`{}`, "", "", &decoded{}},
		{`{"text":"a","hash":"b","count":7,"yes":true,"free":{"x":null},"any":[true],"up":null,"list":[]}`, "", "",
			&decoded{Text: "a", Hash: "b", Count: 7, Yes: true, Free: map[string]any{"x": nil}, Any: []any{true}, List: []*decoded{}}},
		{`{"list":[{"text":"a"},{"up":{"count":1e3}}]}`, "", "", &decoded{List: []*decoded{{Text: "a"}, {Up: &decoded{Count: 1000}}}}},
		{`[]`, "", "not an object", nil},
		{`{"list":{}}`, "/list", "not an array", nil},
		{`{"list":[{},{"text":1}]}`, "/list/1/text", "not a string", nil},
		{`{"text":null}`, "/text", "not a string", nil},
		{`{"yes":0}`, "/yes", "neither true nor false", nil},
		{`{"count":1.5}`, "/count", "not a whole number", nil},
		{`{"count":1e300}`, "/count", "not a whole number", nil},
		{`{"free":[]}`, "/free", "not an object", nil},
		{`{"up":{"Text":"a","a/b":1}}`, "/up/Text", `unknown member "Text"`, nil},
		{`{"Own":1}`, "/Own", `unknown member "Own"`, nil},
	} {
		doc, err := Parse([]byte(c.text), 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(doc.Value())
		fault, _ := err.(*DecodeError)
		switch {
		case c.want != nil && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s: %+v %v", c.text, got, err)
		case c.want == nil && (fault == nil || *fault != DecodeError{c.pointer, c.msg}):
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// TestDecodeKnowsItsTypes: a type that no document has is refused.
func TestDecodeKnowsItsTypes(t *testing.T) {
	var d Decoder[struct {
		When chan int `json:"when"`
	}]
	if _, err := d.Decode(map[string]any{"when": true}); err == nil || err.Error() != "/when: no document is read into a chan int" {
		t.Error(err)
	}
}

// TestDecodeInto: a missing member keeps its default, and a map takes the value of each
// name.
func TestDecodeInto(t *testing.T) {
	type order struct {
		Count int               `json:"count"`
		Names []string          `json:"names"`
		Env   map[string]string `json:"env"`
	}
	var d Decoder[order]
	for _, tt := range []struct{ text, want, fault string }{
		{`{}`, `{"count":7,"env":null,"names":["n"]}`, ""},
		{`{"env":{"b":"2","a":"1"},"names":[]}`, `{"count":7,"env":{"a":"1","b":"2"},"names":[]}`, ""},
		{`{"env":{"b":2,"a":"1"}}`, "", "/env/b: not a string"},
		{`{"env":[]}`, "", "/env: not an object"},
	} {
		doc, err := Parse([]byte(tt.text), 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		got := order{Count: 7, Names: []string{"n"}}
		if err := d.Into(&got, doc.Value()); err != nil || tt.fault != "" {
			if err == nil || err.Error() != tt.fault {
				t.Errorf("%s: error %v, want %q", tt.text, err, tt.fault)
			}
			continue
		}
		if text, err := Canonical(got); err != nil || string(text) != tt.want {
			t.Errorf("%s: got %s %v, want %s", tt.text, text, err, tt.want)
		}
	}
}
