package canon

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// refusals are texts that Parse must refuse, with the exact place. They need no
// fixture.
var refusals = []struct {
	name, src string
	kind      Kind
	offset    int64
	pointer   string
	msg       string // a part of the message
}{
	{"nothing", "", KindEmpty, 0, "", "empty"},
	{"white space", " \n\t\r", KindEmpty, 0, "", "white space only"},
	{"utf-8 mark", "\xef\xbb\xbf{}", KindEncoding, 0, "", "byte order mark"},
	{"utf-8 mark alone", "\xef\xbb\xbf", KindEncoding, 0, "", "byte order mark"},
	{"utf-16 mark", "\xff\xfe{\x00}\x00", KindEncoding, 0, "", "UTF-16"},
	{"utf-16 big endian mark", "\xfe\xff\x00{\x00}", KindEncoding, 0, "", "UTF-16"},
	{"utf-16 without mark", "[\x00]\x00", KindSyntax, 1, "/0", "a NUL byte"},
	{"nul first", "\x00{}", KindSyntax, 0, "", "a NUL byte"},
	{"nul in string", "{\"a\":\"b\x00\"}", KindSyntax, 7, "/a", `a NUL byte in a string; write it as \u0000`},
	{"line feed in string", "[1,\"b\n\"]", KindSyntax, 5, "/1", `control byte 0x0a in a string; write it as \u000a`},
	{"latin 1", "{\"a\":[\"caf\xe9\"]}", KindEncoding, 10, "/a/0", "byte 0xe9"},
	{"latin 1 in name", "{\"a\":{\"\xe9\":1}}", KindEncoding, 7, "/a", "byte 0xe9"},
	{"latin 1 outside", "[1, \xe9]", KindEncoding, 4, "/1", "byte 0xe9"},
	{"latin 1 after", "[1] \xe9", KindEncoding, 4, "", "byte 0xe9"},
	{"latin 1 after backslash", "[\"\\\xe9\"]", KindEncoding, 3, "/0", "byte 0xe9"},
	{"encoded surrogate", "\"\xed\xa0\x80\"", KindEncoding, 1, "", "byte 0xed"},
	{"overlong", "\"\xc0\xaf\"", KindEncoding, 1, "", "byte 0xc0"},
	{"cut character", "\"\xe2\x82", KindEncoding, 1, "", "byte 0xe2"},

	{"lone high surrogate", `["a\ud800"]`, KindCharacter, 3, "/0", `\ud800 is half of a surrogate pair`},
	{"lone low surrogate", `["\uDC00"]`, KindCharacter, 2, "/0", `\udc00 is half`},
	{"inverted pair", `"\udd1e\ud834"`, KindCharacter, 1, "", `\udd1e is half`},
	{"two high surrogates", `"\ud800\ud800"`, KindCharacter, 1, "", `\ud800 is half`},
	{"lone surrogate in name", `{"x":{"\ud800":1}}`, KindCharacter, 7, "/x", `half`},
	{"noncharacter escaped", `{"a":"x\uFFFF"}`, KindCharacter, 7, "/a", "U+FFFF"},
	{"noncharacter by pair", `["\ud83f\udfff"]`, KindCharacter, 2, "/0", "U+1FFFF"},
	{"noncharacter raw", "[\"ab\ufdd0\"]", KindCharacter, 4, "/0", "U+FDD0"},
	{"last noncharacter of the block", "[\"\ufdef\"]", KindCharacter, 2, "/0", "U+FDEF"},
	{"noncharacter of plane 16", "[\"\U0010fffe\"]", KindCharacter, 2, "/0", "U+10FFFE"},
	{"noncharacter in name", "{\"a\":{\"b\ufffe\":1}}", KindCharacter, 8, "/a", "U+FFFE"},

	{"duplicate", `{"a":1,"a":2}`, KindDuplicate, 7, "/a", `member "a" stands twice`},
	{"duplicate nested", `{"x":[{"k":1,"k":1}]}`, KindDuplicate, 13, "/x/0/k", `member "k"`},
	{"duplicate by escape", `{"a":1, "\u0061":2}`, KindDuplicate, 8, "/a", `member "a"`},
	{"duplicate with slash", `{"a/b~":1,"a\/b~":2}`, KindDuplicate, 10, "/a~1b~0", `member "a/b~"`},
	{"duplicate empty name", `{"":1,"":2}`, KindDuplicate, 6, "/", `member ""`},
	{"duplicate unprintable", `{"\u202e":1,"\u202e":2}`, KindDuplicate, 12, "/\u202e", `member "\u202e"`},

	{"overflow", `{"n":1e400}`, KindNumber, 5, "/n", `number "1e400" is too large`},
	{"negative overflow", `[-1e309]`, KindNumber, 1, "/0", `too large`},
	{"underflow", `[0, 1e-400]`, KindNumber, 4, "/1", `number "1e-400" is too small`},
	{"negative underflow", `-0.0000001e-400`, KindNumber, 0, "", `too small`},
	{"unsafe integer", `{"a":{"b":9007199254740993}}`, KindNumber, 10, "/a/b", `number "9007199254740993" is beyond`},
	{"first unsafe integer", `9007199254740992`, KindNumber, 0, "", `beyond`},
	{"negative unsafe integer", `-9007199254740992`, KindNumber, 0, "", `beyond`},
	{"unsafe when canonical", `[1e16]`, KindNumber, 1, "/0", `beyond`},
	{"unsafe after rounding", `9007199254740991.5`, KindNumber, 0, "", `beyond`},
	{"unsafe in the source only", `1000000000000000000000000`, KindNumber, 0, "", `beyond`},
	{"long number", strings.Repeat("9", 5000), KindNumber, 0, "", `999…" is too large`},

	{"trailing value", `{} {}`, KindTrailing, 3, "", `found "{" after the end`},
	{"trailing word", `[1] x`, KindTrailing, 4, "", `found "x" after`},
	{"trailing comma after value", `1,`, KindTrailing, 1, "", `found ","`},
	{"trailing bracket", `[1]]`, KindTrailing, 3, "", `found "]"`},
	{"trailing nul", "{}\x00", KindTrailing, 2, "", "a NUL byte"},
	{"two numbers", `1 2`, KindTrailing, 2, "", `found "2"`},

	{"leading zero", `{"a":012}`, KindSyntax, 5, "/a", `"012" is not a JSON number`},
	{"leading zero alone", `-01`, KindSyntax, 0, "", `"-01" is not a JSON number`},
	{"hexadecimal", `0x1F`, KindSyntax, 0, "", `"0x1F" is not a JSON number`},
	{"digit separator", `[1_000]`, KindSyntax, 1, "/0", `"1_000" is not a JSON number`},
	{"two points", `[0.1.2]`, KindSyntax, 1, "/0", `"0.1.2" is not`},
	{"plus sign", `[+1]`, KindSyntax, 1, "/0", `"+1" is not a JSON number`},
	{"no fraction", `[1.]`, KindSyntax, 1, "/0", `"1." is not a JSON number`},
	{"no exponent", `1e`, KindSyntax, 0, "", `"1e" is not a JSON number`},
	{"minus", `-`, KindSyntax, 0, "", `"-" is not a JSON number`},
	{"not a number", `[NaN]`, KindSyntax, 1, "/0", `"NaN" is not a JSON value`},
	{"minus infinity", `[-Infinity]`, KindSyntax, 1, "/0", `"-Infinity" is not a JSON number`},
	{"capital literal", `[True]`, KindSyntax, 1, "/0", `"True" is not a JSON value`},
	{"cut literal", `{"a":nul}`, KindSyntax, 5, "/a", `"nul" is not a JSON value`},
	{"literal runs on", `[nullx]`, KindSyntax, 1, "/0", `"nullx" is not a JSON value`},
	{"literal ends", `tru`, KindSyntax, 0, "", `"tru" is not a JSON value`},

	{"open array", `[1, 2`, KindSyntax, 5, "", "the text ends where a comma or ] must stand"},
	{"open array, comma", `{"a":[1, `, KindSyntax, 9, "/a", "the text ends where a value must stand"},
	{"open object", `{`, KindSyntax, 1, "", "the text ends where a member name in double quotes or } must stand"},
	{"open object, name", `{"a"`, KindSyntax, 4, "/a", "the text ends where a colon must stand"},
	{"open object, colon", `{"a":`, KindSyntax, 5, "/a", "the text ends where a value must stand"},
	{"open object, value", `{"a":1`, KindSyntax, 6, "", "the text ends where a comma or } must stand"},
	{"open string", `{"a":"bc`, KindSyntax, 5, "/a", "has no closing quote"},
	{"open string, escape", `["ab\u00`, KindSyntax, 1, "/0", "has no closing quote"},
	{"open name", `{"a":1,"b`, KindSyntax, 7, "", "has no closing quote"},

	{"no comma", `[1 2]`, KindSyntax, 3, "", `found "2" where a comma or ] must stand`},
	{"no comma in object", `{"a":1 "b":2}`, KindSyntax, 7, "", `found a string where a comma or } must stand`},
	{"no colon", `{"a" 1}`, KindSyntax, 5, "/a", `found "1" where a colon must stand`},
	{"comma for colon", `{"a",1}`, KindSyntax, 4, "/a", `found "," where a colon must stand`},
	{"colon for comma", `[1:2]`, KindSyntax, 2, "", `found ":" where a comma or ] must stand`},
	{"comma at end of array", `{"x":[1,2, ]}`, KindSyntax, 9, "/x", "found a comma before ]; remove it"},
	{"comma at end of object", `{"a":1,}`, KindSyntax, 6, "", "found a comma before }; remove it"},
	{"comma first", `[,1]`, KindSyntax, 1, "", `found "," where a value or ] must stand`},
	{"comma only", `[,]`, KindSyntax, 1, "", `found "," where a value or ] must stand`},
	{"two commas", `[1,,2]`, KindSyntax, 3, "/1", `found "," where a value must stand`},
	{"no value", `{"a":}`, KindSyntax, 5, "/a", `found "}" where a value must stand`},
	{"number for name", `{1:2}`, KindSyntax, 1, "", `found "1" where a member name in double quotes or } must stand`},
	{"array for name", `{"a":1,[]:2}`, KindSyntax, 7, "", `found "[" where a member name in double quotes must stand`},
	{"bare name", `{goal:1}`, KindSyntax, 1, "", `found "goal" where a member name`},
	{"wrong bracket", `{"a":[1}`, KindSyntax, 7, "/a", `found "}" where a comma or ] must stand`},
	{"closing only", `]`, KindSyntax, 0, "", `found "]" where a value must stand`},
	{"single quotes", `{'a':1}`, KindSyntax, 1, "", `strings stand in double quotes`},
	{"line comment", "{// x\n}", KindSyntax, 1, "", `JSON has no comments`},
	{"block comment", `[/* x */]`, KindSyntax, 1, "/0", `JSON has no comments`},
	{"unknown escape", `["\x41"]`, KindSyntax, 2, "/0", `found "\x" in a string, which is no JSON escape`},
	{"bad unicode escape", `["\u00g1"]`, KindSyntax, 2, "/0", `found "\u00" in a string`},
	{"escaped tab", "[\"\\\t\"]", KindSyntax, 2, "/0", `found "\\t" in a string`},
	{"form feed", "[\f]", KindSyntax, 1, "/0", "the control byte 0x0c"},
	{"word joiner", "[\u2060]", KindSyntax, 1, "/0", `"\u2060"`},
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			e := refused(t, []byte(tt.src), MaxIntentBytes)
			if e.Kind != tt.kind || e.Offset != tt.offset || e.Pointer != tt.pointer {
				t.Errorf("got %s at %d in %q, want %s at %d in %q (%s)", e.Kind, e.Offset, e.Pointer, tt.kind, tt.offset, tt.pointer, e.Msg)
			}
			if !strings.Contains(e.Msg, tt.msg) {
				t.Errorf("message %q does not have %q", e.Msg, tt.msg)
			}
		})
	}
}

// refused parses a text that must be refused, and checks the properties of every error.
func refused(t *testing.T, src []byte, maxBytes int) *Error {
	t.Helper()
	doc, err := Parse(src, maxBytes)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %s and error %v, want an *Error", doc.Bytes(), err)
	}
	if doc.Bytes() != nil || doc.Value() != nil {
		t.Errorf("a refused text has a document")
	}
	checkError(t, e, len(src))
	return e
}

func checkError(t *testing.T, e *Error, size int) {
	t.Helper()
	if e.Kind == "" || e.Msg == "" {
		t.Errorf("error without kind or message: %+v", e)
	}
	if e.Offset < 0 || e.Offset > int64(size) {
		t.Errorf("offset %d is outside the text of %d bytes", e.Offset, size)
	}
	if len(e.Pointer) > cutBytes+len("…") || !utf8.ValidString(e.Pointer) {
		t.Errorf("pointer of %d bytes: %q", len(e.Pointer), e.Pointer)
	}
	text := e.Error()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		t.Errorf("message %q does not print", text)
	}
	if e.Msg[0] >= 'A' && e.Msg[0] <= 'Z' && e.Msg[:2] != "U+" || strings.HasSuffix(e.Msg, ".") {
		t.Errorf("message %q is not in the house style", e.Msg)
	}
	for _, leak := range []string{"jsontext", "json:", "expecting", "invalid character", "strconv", "EOF", "0xc0000"} {
		if strings.Contains(stripQuoted(e.Msg), leak) {
			t.Errorf("message %q carries text of a library", e.Msg)
		}
	}
	if len(e.Msg) > 8*cutBytes {
		t.Errorf("message of %d bytes", len(e.Msg))
	}
	if e.err != nil {
		t.Errorf("the reader accepted what the canonicaliser refuses: %v", e.err)
	}
}

// stripQuoted leaves out the parts of a message that repeat the input.
func stripQuoted(s string) string {
	if from, to := strings.IndexByte(s, '"'), strings.LastIndexByte(s, '"'); from < to {
		return s[:from] + s[to:]
	}
	return s
}

func TestParseRefusesSize(t *testing.T) {
	src := append(bytes.Repeat([]byte(" "), 50<<20), "{}"...)
	e := refused(t, src, MaxIntentBytes)
	if want := "the text has 52428802 bytes, the limit is 1048576"; e.Kind != KindSize || e.Offset != MaxIntentBytes || e.Msg != want {
		t.Errorf("got %+v, want %q", e, want)
	}
	if _, err := Parse([]byte(`[1]`), 3); err != nil {
		t.Errorf("a text of exactly the limit: %v", err)
	}
	if e := refused(t, []byte(`[1] `), 3); e.Kind != KindSize || e.Offset != 3 {
		t.Errorf("one byte more than the limit: %+v", e)
	}
}

func TestParseDepth(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	if _, err := Parse(nested(MaxDepth), MaxIntentBytes); err != nil {
		t.Errorf("depth %d: %v", MaxDepth, err)
	}
	for _, n := range []int{MaxDepth + 1, 100_000} {
		e := refused(t, nested(n), MaxIntentBytes)
		if e.Kind != KindDepth || e.Offset != MaxDepth || e.Pointer != strings.Repeat("/0", MaxDepth) {
			t.Errorf("depth %d: got %+v", n, e)
		}
	}
	name := strings.Repeat("n", 30)
	e := refused(t, []byte(strings.Repeat(`{"`+name+`":`, MaxDepth+1)), MaxIntentBytes)
	if want := strings.Repeat("/"+name, 9)[:cutBytes] + "…"; e.Kind != KindDepth || e.Pointer != want || e.Offset != int64(MaxDepth*(len(name)+4)) {
		t.Errorf("got %+v, want pointer %q", e, want)
	}
	if e := refused(t, []byte(strings.Repeat("[", 100_000)), MaxIntentBytes); e.Kind != KindDepth {
		t.Errorf("unclosed: %+v", e)
	}
}

// accepted are texts and their canonical form. They need no fixture.
var accepted = []struct{ name, src, want string }{
	{"null", " null\n", `null`},
	{"true", "true", `true`},
	{"string", `"\u0041\/\u00e9\"\\\b\f\n\r\t\u001F\u007f"`, "\"A/é\\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7f\""},
	{"escaped NUL", `"\u0000"`, `"\u0000"`},
	{"escaped NUL in name", `{"\u0000":0}`, `{"\u0000":0}`},
	{"surrogate pair", `"\ud834\udd1e"`, `"𝄞"`},
	{"line separators", `"\u2028\u2029"`, "\"\u2028\u2029\""},
	{"no HTML escapes", `"<&>\u003c"`, `"<&><"`},
	{"near noncharacters", `"\ufdcf\ufdf0\ufffd\uefff"`, "\"\ufdcf\ufdf0\ufffd\uefff\""},
	{"replacement character", "\"\ufffd\"", "\"\ufffd\""},
	{"not normalised", "\"A\u030a\"", "\"A\u030a\""},
	{"empty array", "[ ]", `[]`},
	{"empty object", "{\n}", `{}`},
	{"minus zero", "-0", `0`},
	{"minus zero fraction", "-0.00", `0`},
	{"zero with exponent", "0e-999", `0`},
	{"zero with capital exponent", "0.0E5", `0`},
	{"fraction", "1.50", `1.5`},
	{"integral fraction", "56.0", `56`},
	{"exponent", "2e-3", `0.002`},
	{"small", "0.000000000000000000000000001", `1e-27`},
	{"smallest double", "5e-324", `5e-324`},
	{"large", "1E30", `1e+30`},
	{"largest double", "1.7976931348623157e308", `1.7976931348623157e+308`},
	{"last safe integer", "9007199254740991", `9007199254740991`},
	{"first safe integer", "-9007199254740991", `-9007199254740991`},
	{"safe integer by exponent", "9007199254740991e0", `9007199254740991`},
	{"safe integer by rounding", "9007199254740991.4", `9007199254740991`},
	{"first large with exponent", "1e21", `1e+21`},
	{"members in order", "{\"\u20ac\":1,\"\\r\":2,\"\ufb33\":3,\"1\":4,\"\U0001f600\":5,\"\u0080\":6,\"\u00f6\":7,\"\":8,\"10\":9}",
		"{\"\":8,\"\\r\":2,\"1\":4,\"10\":9,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
	{"nested", `{"b":[1,{"d":null,"c":false}],"a":{}}`, `{"a":{},"b":[1,{"c":false,"d":null}]}`},
}

func TestParseAccepts(t *testing.T) {
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := Parse([]byte(tt.src), MaxIntentBytes)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(doc.Bytes()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			checkStable(t, []byte(tt.src), doc)
		})
	}
}

// checkStable compares an accepted text with jcs, with its own canonical form, and with
// the encoder.
func checkStable(t *testing.T, src []byte, doc Document) {
	t.Helper()
	want, err := jcs.Transform(src)
	if err != nil {
		t.Fatalf("jcs refuses %q: %v", src, err)
	}
	if !bytes.Equal(want, doc.Bytes()) {
		t.Errorf("%q: got %s, jcs has %s", src, doc.Bytes(), want)
	}
	again, err := Parse(doc.Bytes(), max(len(doc.Bytes()), MaxIntentBytes))
	if err != nil {
		t.Fatalf("%q: canonical form %s is refused: %v", src, doc.Bytes(), err)
	}
	if !bytes.Equal(again.Bytes(), doc.Bytes()) {
		t.Errorf("%q: %s becomes %s when read again", src, doc.Bytes(), again.Bytes())
	}
	if !reflect.DeepEqual(again.Value(), doc.Value()) {
		t.Errorf("%q: the canonical form has another value, %#v instead of %#v", src, again.Value(), doc.Value())
	}
	encoded, err := Canonical(doc.Value())
	if err != nil {
		t.Fatalf("%q: value has no canonical form: %v", src, err)
	}
	if !bytes.Equal(encoded, doc.Bytes()) {
		t.Errorf("%q: value encodes as %s, want %s", src, encoded, doc.Bytes())
	}
}

func TestParseLeavesSourceAlone(t *testing.T) {
	src := []byte(`{"b":"x","a":["y","\u0041",1.50]}`)
	before := bytes.Clone(src)
	doc, err := Parse(src, MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(src, before) {
		t.Errorf("source became %s", src)
	}
	for i := range src {
		src[i] = '!'
	}
	if got, want := string(doc.Bytes()), `{"a":["y","A",1.5],"b":"x"}`; got != want {
		t.Errorf("got %s after the source changed, want %s", got, want)
	}
	if got := doc.Value().(map[string]any)["b"]; got != "x" {
		t.Errorf("got %q after the source changed", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range refusals {
		if len(tt.src) < 200 {
			f.Add([]byte(tt.src))
		}
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.src))
	}
	f.Add([]byte(strings.Repeat(`{"~/":[`, 40)))
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Parse(src, 1<<16)
		if err == nil {
			checkStable(t, src, doc)
			return
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("error %v is no *Error", err)
		}
		checkError(t, e, len(src))
	})
}
