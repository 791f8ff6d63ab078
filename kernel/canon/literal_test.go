package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// checkLiteral compares ParseLiteral and Literal with Parse, with encoding/json, and with
// themselves.
func checkLiteral(t *testing.T, src []byte, maxBytes int) {
	t.Helper()
	doc, parseErr := Parse(src, maxBytes)
	var refusal *Error
	errors.As(parseErr, &refusal)
	v, err := ParseLiteral(src, maxBytes, len(src))
	if err != nil {
		e := literalError(t, v, err)
		checkError(t, e, len(src))
		switch {
		case refusal == nil || e.Kind == KindNumber:
			t.Fatalf("%.200q: %v, and Parse has %v", src, err, parseErr)
		case refusal.Kind == KindNumber && refusal.Offset > e.Offset, refusal.Kind != KindNumber && !reflect.DeepEqual(e, refusal):
			t.Fatalf("%.200q: got %#v, Parse has %#v", src, e, refusal)
		}
		return
	}
	if refusal != nil && refusal.Kind != KindNumber {
		t.Fatalf("%.200q: read as %#v, Parse says %v", src, v, parseErr)
	}
	var want any
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber() // as spelt
	if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(v, want) {
		t.Fatalf("%.200q: read as %#v, encoding/json has %#v (%v)", src, v, want, err)
	}
	checkCount(t, src, maxBytes, valuesIn(v))
	// With fewer values allowed than bytes, the text is checked before values are made.
	if slow, err := ParseLiteral(src, maxBytes, valuesIn(v)); err != nil || !reflect.DeepEqual(slow, v) {
		t.Fatalf("%.200q: read as %#v, and with a limit of values as %#v (%v)", src, v, slow, err)
	}
	text, err := Literal(v)
	if err != nil {
		t.Fatalf("%.200q: %v", src, err)
	}
	again, err := ParseLiteral(text, len(text), len(text))
	if err != nil || !reflect.DeepEqual(again, v) {
		t.Fatalf("%.200q: the literal form %.200q is read as %#v (%v)", src, text, again, err)
	}
	if refusal != nil {
		return
	}
	if canonical, err := Canonical(v); err != nil || !bytes.Equal(canonical, doc.Bytes()) {
		t.Fatalf("%.200q: canonical is %.200q (%v), Parse has %.200q", src, canonical, err, doc.Bytes())
	}
	// The values differ in the spelling of numbers only.
	if same := reflect.DeepEqual(v, doc.Value()); same != bytes.Equal(text, doc.Bytes()) {
		t.Fatalf("%.200q: literal is %.200q, canonical %.200q, equal values %v", src, text, doc.Bytes(), same)
	}
}

// checkCount checks that src has n values.
func checkCount(t *testing.T, src []byte, maxBytes, n int) {
	t.Helper()
	if _, err := ParseLiteral(src, maxBytes, n); err != nil {
		t.Errorf("%.200q: with %d values: %v", src, n, err)
	}
	v, err := ParseLiteral(src, maxBytes, n-1)
	if e := literalError(t, v, err); e.Kind != KindValues {
		t.Errorf("%.200q: with %d values: %v", src, n-1, err)
	} else {
		checkError(t, e, len(src)-1)
	}
}

// valuesIn counts the values in a decoded value.
func valuesIn(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			n += valuesIn(one)
		}
	case map[string]any:
		for _, one := range v {
			n += valuesIn(one)
		}
	}
	return n
}

// literalError returns the *Error of a refused text.
func literalError(t *testing.T, v any, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || v != nil {
		t.Fatalf("got %#v and error %v, want an *Error", v, err)
	}
	return e
}

// TestLiteralKeepsNumbers: each text has this literal form.
func TestLiteralKeepsNumbers(t *testing.T) {
	for src, want := range map[string]string{
		`-0`:                                   `-0`,
		` 1.50 `:                               `1.50`,
		`1e400`:                                `1e400`,
		`-1E+400`:                              `-1E+400`,
		`1e-400`:                               `1e-400`,
		`12345678901234567890`:                 `12345678901234567890`,
		`9007199254740993`:                     `9007199254740993`,
		`0.0e-0`:                               `0.0e-0`,
		strings.Repeat("9", 5000):              strings.Repeat("9", 5000),
		`{"b": [1.0, 1, 10e-1], "a": "1.0"}`:   `{"a":"1.0","b":[1.0,1,10e-1]}`,
		`{"\u0031.0":1.00,"b":{"x":100e-2}}`:   `{"1.0":1.00,"b":{"x":100e-2}}`,
		"{\"\ufb33\":2e0,\"\U0001f600\":-0.0}": "{\"\U0001f600\":-0.0,\"\ufb33\":2e0}",
		`[null,true,false,"\u000a\/",{},[]]`:   `[null,true,false,"\n/",{},[]]`,
	} {
		v, err := ParseLiteral([]byte(src), MaxIntentBytes, 100)
		if err != nil {
			t.Errorf("%.200q: %v", src, err)
			continue
		}
		if got, err := Literal(v); err != nil || string(got) != want {
			t.Errorf("%.200q: got %.200q (%v), want %.200q", src, got, err, want)
		}
		checkLiteral(t, []byte(src), MaxIntentBytes)
	}
}

func TestParseLiteralRefuses(t *testing.T) {
	for _, tt := range refusals {
		_, err := ParseLiteral([]byte(tt.src), MaxIntentBytes, 1000)
		if (err == nil) != (tt.kind == KindNumber) {
			t.Errorf("%s: %v", tt.name, err)
		}
		checkLiteral(t, []byte(tt.src), MaxIntentBytes)
	}
	for _, src := range []string{`[1e400,01]`, `{"a":1e400,"a":1}`, `[1e400] x`, "[1e400,\"\ufdd0\"]"} {
		if _, err := ParseLiteral([]byte(src), MaxIntentBytes, 1000); err == nil {
			t.Errorf("%q is read", src)
		}
		checkLiteral(t, []byte(src), MaxIntentBytes)
	}
	for _, maxBytes := range []int{2, 0, -1} {
		checkLiteral(t, []byte(`[1]`), maxBytes)
	}
	checkLiteral(t, []byte(`[1]`), 3)
	for n := MaxDepth - 1; n < MaxDepth+3; n++ {
		checkLiteral(t, []byte(strings.Repeat(`[{"a":`, n/2)+strings.Repeat("[", n%2)+strings.Repeat("]", n%2)+strings.Repeat(`}]`, n/2)), MaxIntentBytes)
	}
}

func TestParseLiteralAccepts(t *testing.T) {
	for _, tt := range accepted {
		checkLiteral(t, []byte(tt.src), MaxIntentBytes)
	}
	for _, tt := range numbers {
		checkLiteral(t, []byte("["+tt.want+","+tt.want+"]"), MaxIntentBytes)
	}
	checkLiteral(t, runResultText(t), MaxIntentBytes)
}

// TestParseLiteralCounts: the error is at the first value over the limit.
func TestParseLiteralCounts(t *testing.T) {
	for _, tt := range []struct {
		src     string
		most    int
		offset  int64
		pointer string
	}{
		{` 1`, 0, 1, ""},
		{` []`, -1, 1, ""},
		{`[1,"a",null]`, 3, 7, "/2"},
		{`[1,"a",null]`, 1, 1, "/0"},
		{`{"a":1,"b":[{}]}`, 2, 11, "/b"},
		{`{"a":1,"b":[{}]}`, 3, 12, "/b/0"},
		{`{"a":{"b":"c"},"d":false}`, 3, 19, "/d"},
		{`[[[]],true]`, 3, 6, "/1"},
		{`[1,"` + "\ufdd0" + `"]`, 2, 3, "/1"}, // the value is one too many before its content is bad
	} {
		v, err := ParseLiteral([]byte(tt.src), 100, tt.most)
		e := literalError(t, v, err)
		if e.Kind != KindValues || e.Offset != tt.offset || e.Pointer != tt.pointer || !strings.HasPrefix(e.Msg, "the text has more than ") {
			t.Errorf("%s: %#v, want %d in %q", tt.src, e, tt.offset, tt.pointer)
		}
	}
	for src, n := range map[string]int{
		`1`: 1, `{}`: 1, `[[]]`: 2, `{"a":"b"}`: 2, `{"a":{"b":[1,2]},"c":null}`: 6, `["a","b",{"c":"d"},true]`: 6,
	} {
		checkCount(t, []byte(src), 100, n)
	}
}

// TestParseLiteralMemory: a text of millions of values costs no more than the values that
// are allowed.
func TestParseLiteralMemory(t *testing.T) {
	for name, one := range map[string]string{
		"integers": "1,", "arrays": "[],", "objects": "{},", "texts": `"",`, "members": `{"a":1},`, "nested": `[[[[[{"a":[]}]]]]],`,
	} {
		src := []byte("[" + strings.Repeat(one, 8<<20/len(one)) + "1]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := ParseLiteral(src, len(src), 1000)
		runtime.ReadMemStats(&after)
		if e := literalError(t, v, err); e.Kind != KindValues {
			t.Errorf("%s: %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
			t.Errorf("%s: %d bytes for a text that is refused", name, got)
		}
	}
}

func TestLiteralRefuses(t *testing.T) {
	loop := map[string]any{}
	loop["x"] = loop
	long := strings.Repeat("n", 300)
	for _, tt := range []struct {
		name    string
		v       any
		kind    Kind
		pointer string
		msg     string // a part of the message
	}{
		{"empty number", json.Number(""), KindValue, "", `"" is not a JSON number`},
		{"no number", []any{json.Number("0x10")}, KindValue, "/0", `"0x10" is not`},
		{"leading zero", map[string]any{"a": []any{nil, json.Number("01")}}, KindValue, "/a/1", `"01" is not`},
		{"space before", json.Number(" 1"), KindValue, "", `" 1" is not`},
		{"space after", json.Number("1\n"), KindValue, "", "is not a JSON number"},
		{"another value", json.Number("true"), KindValue, "", "is not a JSON number"},
		{"two numbers", json.Number("1,2"), KindValue, "", "is not a JSON number"},
		{"float", map[string]any{"f": 1.5}, KindValue, "/f", "a float64 is no value of decoded JSON"},
		{"NaN", math.NaN(), KindValue, "", "a float64"},
		{"struct", []any{struct{}{}}, KindValue, "/0", "a struct {}"},
		{"map of another type", map[string]int{}, KindValue, "", "a map[string]int"},
		{"raw", json.RawMessage("1"), KindValue, "", "a json.RawMessage"},
		{"not UTF-8", map[string]any{"a": "x\xff"}, KindEncoding, "/a", "UTF-8"},
		{"not UTF-8 in name", map[string]any{"a": map[string]any{"\xff": nil}}, KindEncoding, "/a", "UTF-8"},
		{"noncharacter", []any{"\ufdd0"}, KindCharacter, "/0", "U+FDD0"},
		{"long pointer", map[string]any{long: 1.5}, KindValue, "/" + long[:cutBytes-1] + "…", "a float64"},
		{"contains itself", loop, KindDepth, strings.Repeat("/x", cutBytes/2) + "…", "nest deeper"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := Literal(tt.v)
			var e *Error
			if !errors.As(err, &e) || text != nil {
				t.Fatalf("got %s and error %v, want an *Error", text, err)
			}
			if e.Kind != tt.kind || e.Pointer != tt.pointer || e.Offset != -1 || !strings.Contains(e.Msg, tt.msg) {
				t.Errorf("got %#v, want %s in %q", e, tt.kind, tt.pointer)
			}
		})
	}
}

// TestLiteralIntegers: Go integers of any size are written in digits.
func TestLiteralIntegers(t *testing.T) {
	got, err := Literal([]any{0, -7, int64(math.MaxInt64), int64(math.MinInt64), map[string]any(nil), []any(nil)})
	if want := `[0,-7,9223372036854775807,-9223372036854775808,null,null]`; err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestLiteralJSONTestSuite(t *testing.T) {
	dir := filepath.Join(rehearsal.NeedFixture(t, "json-test-suite"), "test_parsing")
	if n := checkFolder(t, os.DirFS(dir), checkLiteral); n != 318 {
		t.Errorf("%d cases, want 318", n)
	}
}

func FuzzParseLiteral(f *testing.F) {
	for _, tt := range refusals {
		if len(tt.src) < 200 {
			f.Add([]byte(tt.src))
		}
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.src))
	}
	for _, tt := range numbers {
		f.Add([]byte("[" + tt.want + "]"))
	}
	f.Add([]byte(`{"b":[1.50,-0,1E+400,12345678901234567890],"a":{"\u0061":1.0e-0}}`))
	f.Add(runResultText(f))
	f.Fuzz(func(t *testing.T, src []byte) { checkLiteral(t, src, 1<<16) })
}

// FuzzLiteral: what Literal writes is read as the same value, and what it refuses could
// not be read.
func FuzzLiteral(f *testing.F) {
	for _, n := range []string{"", "0", "-0", "1.50", "1e400", "01", "1 ", "1,2", "-", `"1"`, "1]"} {
		f.Add("name", "text", n)
	}
	f.Add("\xff", "\ufdd0", "1")
	f.Fuzz(func(t *testing.T, name, text, number string) {
		v := map[string]any{name: []any{json.Number(number), text, 1}}
		got, err := Literal(v)
		if err != nil {
			n, _ := ParseLiteral([]byte(number), len(number), 1)
			if Clean(name) == name && Clean(text) == text && n == any(json.Number(number)) {
				t.Fatalf("%q, %q, %q: %v", name, text, number, err)
			}
			return
		}
		again, err := ParseLiteral(got, len(got), 10)
		v[name].([]any)[2] = json.Number("1")
		if err != nil || !reflect.DeepEqual(again, any(v)) {
			t.Fatalf("%s is read as %#v (%v)", got, again, err)
		}
	})
}
