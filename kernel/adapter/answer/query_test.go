package answer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
)

// TestComplianceSuite runs the compliance suite of RFC 9535: 703 cases.
func TestComplianceSuite(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(rehearsal.NeedFixture(t, "jsonpath"), "cts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests []struct {
			Name     string `json:"name"`
			Selector string `json:"selector"`
			Document any    `json:"document"`
			Result   []any  `json:"result"`
			Results  [][]any
			Invalid  bool `json:"invalid_selector"`
		} `json:"tests"`
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	if err := dec.Decode(&suite); err != nil {
		t.Fatal(err)
	}
	if len(suite.Tests) != 703 {
		t.Errorf("%d cases", len(suite.Tests))
	}
	for _, c := range suite.Tests {
		q, err := readQuery(c.Selector)
		if c.Invalid || err != nil {
			if !c.Invalid || err == nil {
				t.Errorf("%s: %q: %v", c.Name, c.Selector, err)
			}
			continue
		}
		got, err := q.selectFrom(c.Document)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if c.Results == nil {
			c.Results = [][]any{c.Result}
		}
		ok := false
		for _, want := range c.Results {
			ok = ok || params.Shown(append([]any{}, want...)) == params.Shown(got)
		}
		if !ok {
			t.Errorf("%s: %q gives %s", c.Name, c.Selector, params.Shown(got))
		}
	}
}

// TestQueryOrder: members are visited in the order of their names, whatever Go's maps do.
func TestQueryOrder(t *testing.T) {
	steps := []Step{{Type: "extract", Spec: "$..*"}}
	for range 20 {
		got, err := Output(steps, []byte(`{"b":{"d":1,"c":2},"a":[3,{"f":4,"e":5}]}`))
		if want := `[[3,{"e":5,"f":4}],{"c":2,"d":1},3,{"e":5,"f":4},5,4,2,1]` + "\n"; err != nil || string(got) != want {
			t.Fatalf("got %s%v", got, err)
		}
	}
}

// TestQueryIsBounded: no query takes long on any answer. A query that would is an error.
func TestQueryIsBounded(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	flat := []byte("[" + strings.TrimSuffix(strings.Repeat("1,", 200_000), ",") + "]")
	deep := []byte(strings.Repeat(`[`, 60) + "[" + strings.TrimSuffix(strings.Repeat(`{"a":[1,2]},`, 50_000), ",") + "]" + strings.Repeat(`]`, 60))
	wide := bytes.Trim(deep, "[]")
	wide = append(append([]byte("["), wide...), ']')
	long := []byte(`["` + strings.Repeat("x", 900_000) + `","x{1000}"]`)
	for _, c := range []struct {
		query string
		raw   []byte
	}{
		{"$[?count($..*)>0]", flat}, {"$[?@==$[199999]]", flat}, {"$[?$..[?$..[?@==1]]]", flat}, {"$..*..*..*..*", deep},
		{"$[" + strings.TrimSuffix(strings.Repeat("*,", 500), ",") + "]" + strings.Repeat("[*,*]", 50), flat},
		{"$..[?@..[?@..[?@..[?@==1]]]]", deep},
		{"$[?search(@, 'x{1000}')]", long}, {"$[?search(@, $[1])]", long}, {"$[?search(@, @)]", long},
		{"$" + strings.Repeat("..*", 1000), deep}, {"$" + strings.Repeat("[0,0]", 800), deep},
	} {
		q, err := readQuery(c.query)
		if err != nil {
			t.Errorf("%.40q: %v", c.query, err)
			continue
		}
		root, err := parse("json", c.raw)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := q.selectFrom(root); err == nil {
			t.Errorf("%.40q: %d found", c.query, len(found))
		}
	}
	for query, raw := range map[string][]byte{"$[?@>0]": flat, "$..[?@.a]": wide, "$[?search(@, 'xx+y')]": long} {
		if _, err := Output([]Step{{Type: "extract", Spec: map[string]any{"path": query, "default": ""}}}, raw); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// FuzzOutput: no query and no answer stop Output, and the same ones give the same result.
func FuzzOutput(f *testing.F) {
	for _, query := range []string{"$", "$..*", "$[?@.a && match(@.a, 'x')]", "$[?search(@.a, @.b)]", "$[?count(@..*)>1]", "$[0:3:2]", "$['a','b'][*]", "$[?length(value(@..a))==1]"} {
		f.Add(query, []byte(`[{"a":"x","b":"("},{"a":[1,{"a":null}]},2.5]`))
	}
	f.Fuzz(func(t *testing.T, query string, raw []byte) {
		steps := []Step{{Type: "extract", Spec: query}}
		got, err := Output(steps, raw)
		again, second := Output(steps, raw)
		if string(got) != string(again) || (err == nil) != (second == nil) || len(got) > MaxAnswerBytes {
			t.Fatalf("%q of %q: %q (%v) and %q (%v)", query, raw, got, err, again, second)
		}
		if err == nil {
			if _, err := canon.ParseCanonical(bytes.TrimSuffix(got, []byte("\n")), MaxAnswerBytes); err != nil {
				t.Fatalf("%q of %q: %q: %v", query, raw, got, err)
			}
		}
	})
}

// TestResultIsBounded: a query that gives one value many times gives no large answer.
func TestResultIsBounded(t *testing.T) {
	raw := []byte(`["` + strings.Repeat("x", 900_000) + `"]`)
	for _, query := range []string{"$[0,0,0]", "$[*][*]", "$[0,0][0]", "$..*"} {
		_, err := Output([]Step{{Type: "extract", Spec: query}}, raw)
		if (err == nil) != (query == "$..*") {
			t.Errorf("%s: %v", query, err)
		}
	}
	if _, err := Output(nil, bytes.Repeat([]byte{1}, MaxAnswerBytes/2)); err == nil {
		t.Error("a result of three times the limit is an answer")
	}
}

// TestQueryStops: a filter that the library cannot judge is an error and no panic.
func TestQueryStops(t *testing.T) {
	raw := []byte(`[1,{"a":2},{"a":"x","b":"("},null]`)
	for query, want := range map[string]string{
		"$[?match(@.a, 'x')]":        "",
		"$[?search(@.a, @.b)]":       "",
		"$[?@.a && match(@.a, 'x')]": `[{"a":"x","b":"("}]`,
		"$[?length(@.a)==1]":         `[{"a":"x","b":"("}]`,
	} {
		got, err := Output([]Step{{Type: "extract", Spec: query}}, raw)
		if (err == nil) != (want != "") || err == nil && string(got) != want+"\n" {
			t.Errorf("%s: %s%v", query, got, err)
		}
	}
}
