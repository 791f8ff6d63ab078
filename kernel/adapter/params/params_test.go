package params_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
)

func decoded(t *testing.T, text string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(text), canon.MaxIntentBytes)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return doc.Value()
}

// second returns the verdict of another library.
func second(t *testing.T, schema, value any) bool {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("fiador:params", schema); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fiador:params")
	if err != nil {
		t.Fatalf("%v: %s", err, params.Shown(schema))
	}
	return s.Validate(value) == nil
}

var (
	keywords = []string{
		`"type":"string"`, `"type":"integer"`, `"type":["number","null"]`, `"type":"object"`, `"type":["array","boolean"]`, `"enum":["a",1,null,[1],{"a":1}]`, `"const":{"a":1}`, `"const":null`,
		`"required":["a"]`, `"properties":{"a":S}`, `"properties":{"a":S,"b":S}`, `"additionalProperties":false`, `"additionalProperties":true`, `"additionalProperties":S`, `"items":S`,
		`"minimum":1`, `"maximum":1.5`, `"minItems":1`, `"maxItems":1`, `"minLength":1`, `"maxLength":1`, `"pattern":"^a"`, `"pattern":"b"`, `"description":"d"`,
	}
	values = []string{`"a"`, `"b"`, `"ab"`, `""`, `"\u00e9"`, `0`, `1`, `1.0`, `1.5`, `-3`, `1e30`, `true`, `false`, `null`, `[]`, `[V]`, `[V,V]`, `{}`, `{"a":V}`, `{"b":V}`, `{"a":V,"c":V}`}
)

// TestSecondOpinion: another library decides alike about random schemas and values.
func TestSecondOpinion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var schema, value func(depth int) string
	schema = func(depth int) string {
		var parts []string
		seen := map[string]bool{}
		for range r.IntN(4) {
			k := keywords[r.IntN(len(keywords))]
			if name, _, _ := strings.Cut(k, ":"); !seen[name] && (depth > 0 || !strings.Contains(k, "S")) {
				seen[name] = true
				for strings.Contains(k, "S") {
					k = strings.Replace(k, "S", schema(depth-1), 1)
				}
				parts = append(parts, k)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	value = func(depth int) string {
		v := values[r.IntN(len(values))]
		if depth == 0 && strings.Contains(v, "V") {
			return "1"
		}
		for strings.Contains(v, "V") {
			v = strings.Replace(v, "V", value(depth-1), 1)
		}
		return v
	}
	valid := 0
	for range 10_000 {
		s, v := decoded(t, schema(2)), decoded(t, value(2))
		own, err := params.New("", s)
		if err != nil {
			t.Fatalf("%v: %s", err, params.Shown(s))
		}
		faults := 0
		own.Check("", v, func(at, _, why string) {
			faults++
			if _, there := canon.Lookup(v, at); !there || why == "" {
				t.Errorf("%s: nothing at %q", params.Shown(v), at)
			}
		})
		if want := second(t, s, v); want != (faults == 0) {
			t.Errorf("%s of %s: %d faults, the other library says %v", params.Shown(v), params.Shown(s), faults, want)
		}
		if faults == 0 {
			valid++
		}
	}
	if valid < 2000 || valid > 8000 {
		t.Errorf("%d of 10000 are valid", valid)
	}
}

// TestLongNames: long names make no long pointers, and no slow check.
func TestLongNames(t *testing.T) {
	members := map[string]any{}
	for i := range 50_000 {
		members[strings.Repeat("x", i%10)+string(rune(0x4e00+i%20_000))+string(rune('a'+i%26))] = json.Number("1")
	}
	var v any = members
	for range 20 {
		v = map[string]any{strings.Repeat("n", 400_000): v}
	}
	schema := "S"
	for range 21 {
		schema = strings.Replace(schema, "S", `{"additionalProperties":S}`, 1)
	}
	s, err := params.New("", decoded(t, strings.Replace(schema, "S", `{"type":"string"}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	faults := 0
	s.Check("", v, func(at, _, _ string) {
		if faults++; len(at) > 2000 {
			t.Fatalf("a pointer of %d bytes", len(at))
		}
	})
	if faults != len(members) {
		t.Errorf("%d faults of %d", faults, len(members))
	}
}

// TestPatternBombs: a pattern whose repetitions make a large program is a fault. Every other
// one answers in a time that grows with the length of the value alone.
func TestPatternBombs(t *testing.T) {
	for pattern, want := range map[string]bool{
		"(a{1000}){1000}": false, "((a{100}){100}){100}": false, "(a?){1000}a{1000}": false, strings.Repeat(`\pL{1000}`, 100): false, strings.Repeat("a", 1001): false, "(": false,
		"^(a|aa)+$": true, "(a+a+)+b": true, "(.*)*(.*)*$b": true, "^.{1,1000}$": true, "[ab]*a[ab]{900}c": true, strings.Repeat("a", 1000): true,
	} {
		s, err := params.New("", map[string]any{"pattern": pattern})
		if f, _ := err.(*params.Fault); (err == nil) != want || !want && f.Pointer != "/pattern" {
			t.Errorf("%.40s: %v", pattern, err)
		}
		if err != nil {
			continue
		}
		matches := true
		s.Check("", strings.Repeat("a", 20_000), func(string, string, string) { matches = false })
		if matches != (pattern == "^(a|aa)+$" || pattern == strings.Repeat("a", 1000)) {
			t.Errorf("%.40s: matches %v", pattern, matches)
		}
	}
}
