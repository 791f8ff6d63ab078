package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fiador/fiador/harness/rehearsal"
)

// checkExact compares ParseCanonical and readExact with Parse: on src, and on the
// canonical form if there is one.
func checkExact(t *testing.T, src []byte, maxBytes int) {
	t.Helper()
	doc, err := Parse(src, maxBytes)
	if err != nil {
		got, gotErr := ParseCanonical(src, maxBytes)
		if !reflect.DeepEqual(gotErr, err) {
			t.Errorf("%.200q: got error %#v, Parse has %#v", src, gotErr, err)
		}
		if got.Bytes() != nil || got.Value() != nil {
			t.Errorf("%.200q: a refused text has a document", src)
		}
		if _, value, ok := readExact(src); ok && len(src) <= maxBytes {
			t.Errorf("%.200q: read as %#v, Parse says %v", src, value, err)
		}
		return
	}
	checkCanonical(t, doc, len(doc.Bytes()))
	if bytes.Equal(src, doc.Bytes()) {
		return
	}
	if _, value, ok := readExact(src); ok {
		t.Errorf("%.200q: read as %#v, though %.200q is canonical", src, value, doc.Bytes())
	}
	e := notExact(t, src, maxBytes)
	at := int(e.Offset)
	if !bytes.HasPrefix(doc.Bytes(), src[:at]) || bytes.HasPrefix(doc.Bytes(), src[:at+1]) {
		t.Errorf("%.200q: offset %d is not that of the first difference from %.200q", src, at, doc.Bytes())
	}
}

// checkCanonical checks that the text of doc is read as doc.
func checkCanonical(t *testing.T, doc Document, maxBytes int) {
	t.Helper()
	src := bytes.Clone(doc.Bytes())
	text, value, ok := readExact(src)
	if !ok || text != string(src) || !reflect.DeepEqual(value, doc.Value()) {
		t.Fatalf("%.200q: read as %.200q and %#v (%v), Parse has %#v", src, text, value, ok, doc.Value())
	}
	got, err := ParseCanonical(src, maxBytes)
	if err != nil {
		t.Fatalf("%.200q: %v", src, err)
	}
	clear(src) // the document keeps no reference to it
	if !bytes.Equal(got.Bytes(), doc.Bytes()) || !reflect.DeepEqual(got.Value(), doc.Value()) {
		t.Errorf("%.200q: got %.200q and %#v", doc.Bytes(), got.Bytes(), got.Value())
	}
}

// notExact reads a text that is well-formed but not canonical. It checks the properties of
// every such error.
func notExact(t *testing.T, src []byte, maxBytes int) *Error {
	t.Helper()
	doc, err := ParseCanonical(src, maxBytes)
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindCanonical {
		t.Fatalf("%.200q: got %.200q and error %v, want one of %q", src, doc.Bytes(), err, KindCanonical)
	}
	if doc.Bytes() != nil || doc.Value() != nil {
		t.Errorf("%.200q: a refused text has a document", src)
	}
	checkError(t, e, len(src)-1)
	return e
}

// differences are texts that Parse accepts and that are not canonical, with the
// first byte that is not as it should be.
var differences = []struct {
	name, src string
	offset    int64
	pointer   string
	msg       string // a part of the message
}{
	{"line feed at the end", "{\"a\":1}\n", 7, "", "white space stands where canonical text has none"},
	{"space before", " 1", 0, "", "white space"},
	{"space after", "1 ", 1, "", "white space"},
	{"space in an empty array", `{"a":[ ]}`, 6, "/a", "white space"},
	{"space in an empty object", `[{},{	}]`, 5, "/1", "white space"},
	{"space before a name", `{"a":{"b":1, "c":2}}`, 12, "/a", "white space"},
	{"space before a colon", `{"a" :1}`, 4, "/a", "white space"},
	{"space before a value", "{\"a\":\r\n1}", 5, "/a", "white space"},
	{"space before a comma", `[1 ,2]`, 2, "/1", "white space"},
	{"space before the end", `{"a":[1,2 ]}`, 9, "/a", "white space"},

	{"members out of order", `{"x":{"b":1,"a":2}}`, 7, "/x", `member "b" stands where canonical text has member "a"`},
	{"members by code points", "{\"\ufb33\":1,\"\U0001f600\":2}", 2, "", "member \"\ufb33\" stands where canonical text has member \"😀\""},
	{"longer member first", `{"ab":1,"a":2}`, 3, "", `member "ab" stands where canonical text has member "a"`},
	{"empty member last", `{"a":1,"":2}`, 2, "", `canonical text has member ""`},
	{"member by an escape", `{"\u0062":1,"a":2}`, 2, "", `member "b" stands where canonical text has member "a"`},
	{"order before spelling", `{"b":1.0,"a":2}`, 2, "", `member "b"`},

	{"escaped letter", `["ab\u0041"]`, 4, "/0", `escape "\u0041" is not that of canonical text`},
	{"escaped slash", `{"a":"\/"}`, 6, "/a", `escape "\/"`},
	{"escaped slash in a name", `{"x":{"a\/b":1}}`, 8, "/x", `escape "\/"`},
	{"escaped quote, long", `"\u0022"`, 2, "", `escape "\u0022"`},
	{"escaped backslash, long", `"\\\u005c"`, 4, "", `escape "\u005c"`},
	{"line feed, long", `"\n\u000a"`, 4, "", `escape "\u000a"`},
	{"backspace, long", `"\u0008"`, 2, "", `escape "\u0008"`},
	{"form feed, long", `"\u000c"`, 2, "", `escape "\u000c"`},
	{"capital digits", `"x\u001F"`, 7, "", `escape "\u001F"`},
	{"capital digit after a pair", `"\\\u000B"`, 8, "", `escape "\u000B"`},
	{"escaped delete", `"\u007f"`, 1, "", `escape "\u007f"`},
	{"escaped vowel", `["\u00e9"]`, 2, "/0", `escape "\u00e9"`},
	{"escaped pair", `"\ud834\udd1e"`, 1, "", `escape "\ud834"`},
	{"escaped line separator", `"\u2028"`, 1, "", `escape "\u2028"`},

	{"minus zero", `{"a":-0}`, 5, "/a", `number "-0" is "0" in canonical text`},
	{"integral fraction", `[1.0]`, 2, "/0", `number "1.0" is "1" in canonical text`},
	{"zero at the end", `1.50`, 3, "", `number "1.50" is "1.5"`},
	{"capital exponent", `1E30`, 1, "", `number "1E30" is "1e+30"`},
	{"exponent without sign", `1e30`, 2, "", `number "1e30" is "1e+30"`},
	{"small exponent", `[1e2]`, 2, "/0", `number "1e2" is "100"`},
	{"exponent with zero", `1e-07`, 3, "", `number "1e-07" is "1e-7"`},
	{"fraction for exponent", `0.0000001`, 0, "", `is "1e-7" in canonical text`},
	{"exponent for fraction", `1e-6`, 0, "", `number "1e-6" is "0.000001"`},
	{"digits beyond a double", `0.10000000000000001`, 3, "", `is "0.1" in canonical text`},
	{"long zero", `0.000`, 1, "", `number "0.000" is "0"`},
	{"safe integer by exponent", `9007199254740991e0`, 16, "", `is "9007199254740991"`},
}

func TestParseCanonicalRefuses(t *testing.T) {
	for _, tt := range differences {
		t.Run(tt.name, func(t *testing.T) {
			e := notExact(t, []byte(tt.src), MaxIntentBytes)
			if e.Offset != tt.offset || e.Pointer != tt.pointer || !strings.Contains(e.Msg, tt.msg) {
				t.Errorf("got %q at %d in %q, want %q at %d in %q", e.Msg, e.Offset, e.Pointer, tt.msg, tt.offset, tt.pointer)
			}
			checkExact(t, []byte(tt.src), MaxIntentBytes)
		})
	}
	for _, tt := range refusals {
		checkExact(t, []byte(tt.src), MaxIntentBytes)
	}
}

func TestParseCanonicalAccepts(t *testing.T) {
	for _, tt := range accepted {
		checkExact(t, []byte(tt.src), MaxIntentBytes)
	}
	for _, tt := range numbers {
		checkExact(t, []byte(tt.want), MaxIntentBytes)
		checkExact(t, []byte("["+tt.want+","+tt.want+"]"), MaxIntentBytes)
	}
	checkExact(t, runResultText(t), MaxIntentBytes)
}

// TestParseCanonicalBytes puts every byte, and every escape of two bytes, at each
// place of a word, and begins a string with every pair of bytes.
func TestParseCanonicalBytes(t *testing.T) {
	for c := range 256 {
		for before := range 9 {
			x := strings.Repeat("x", before)
			checkExact(t, []byte(`"`+x+string([]byte{byte(c)})+`"`), 100)
			checkExact(t, []byte(`["`+x+`\`+string([]byte{byte(c)})+`yyyyyyyyy"]`), 100)
			checkExact(t, []byte(`"\n`+x+string([]byte{byte(c)})+`yyyyyyyyy"`), 100)
		}
		checkExact(t, fmt.Appendf(nil, `["\u%04x"]`, c), 100)
		checkExact(t, fmt.Appendf(nil, `["\u%04X"]`, c), 100)
		for d := range 256 {
			checkExact(t, []byte{'"', byte(c), byte(d), '"'}, 100)
			if c >= utf8.RuneSelf {
				checkExact(t, []byte{'"', byte(c), byte(d), 0x80, '"'}, 100)
				checkExact(t, []byte{'"', byte(c), byte(d), 0xbf, 0xbe, '"'}, 100)
			}
		}
	}
}

// TestParseCanonicalCharacters puts every code point into a string, raw and as
// escapes, and every control byte and surrogate too.
func TestParseCanonicalCharacters(t *testing.T) {
	for c := rune(0); c <= 0x10ffff; c++ {
		if c >= 0x20000 && c&0xffff < 0xff00 && c&0xfff != 0 {
			continue // the planes differ at their ends only
		}
		raw := `"` + string(c) + `"`
		if c >= 0xd800 && c <= 0xdfff {
			raw = string([]byte{'"', byte(0xe0 | c>>12), byte(0x80 | c>>6&0x3f), byte(0x80 | c&0x3f), '"'})
		}
		_, err := Parse([]byte(raw), 100)
		if _, _, ok := readExact([]byte(raw)); ok != (err == nil && c != '"' && c != '\\') {
			t.Errorf("U+%04X: read %v, Parse says %v", c, ok, err)
		}
		escaped := `"` + string(appendEscape(nil, c)) + `"`
		_, _, ok := readExact([]byte(escaped))
		if want := c < ' '; ok != want {
			t.Errorf("%s: read %v, want %v", escaped, ok, want)
		}
	}
}

func TestParseCanonicalSize(t *testing.T) {
	if _, err := ParseCanonical([]byte(`[1]`), 3); err != nil {
		t.Errorf("a text of exactly the limit: %v", err)
	}
	checkExact(t, []byte(`[10]`), 3)
	checkExact(t, []byte(`[1]`), -1)
	checkExact(t, nil, 0)
}

// TestParseLongArrays: arrays around the size at which an array is made in another way, with
// arrays in them.
func TestParseLongArrays(t *testing.T) {
	const longArray = 1024
	for _, n := range []int{0, 1, longArray - 1, longArray, longArray + 1, 3 * longArray} {
		inner := "[" + strings.TrimSuffix(strings.Repeat("7,", n), ",") + "]"
		src := `{"a":` + inner + `,"b":[[1,` + inner + `],` + strings.Repeat(`[0,"x"],10,`, n) + inner + `]}`
		doc, err := ParseCanonical([]byte(src), len(src))
		if err != nil || string(doc.Bytes()) != src {
			t.Fatalf("%d elements: %v", n, err)
		}
		var want any
		d := json.NewDecoder(strings.NewReader(src))
		d.UseNumber()
		if err := d.Decode(&want); err != nil || !reflect.DeepEqual(doc.Value(), want) {
			t.Errorf("%d elements: other values (%v)", n, err)
		}
		checkExact(t, []byte(src), len(src))
	}
}

func TestParseCanonicalDepth(t *testing.T) {
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`[{"a":`, "}]"}, {`[[],`, "]"}} {
		for n := 1; n < MaxDepth+3; n++ {
			checkExact(t, []byte(strings.Repeat(pair[0], n)+"1"+strings.Repeat(pair[1], n)), MaxIntentBytes)
			checkExact(t, []byte(strings.Repeat(pair[0], n)+"[]"+strings.Repeat(pair[1], n)), MaxIntentBytes)
			checkExact(t, []byte(strings.Repeat(pair[0], n)+"{}"+strings.Repeat(pair[1], n)), MaxIntentBytes)
		}
		checkExact(t, []byte(strings.Repeat(pair[0], 100_000)), MaxIntentBytes)
	}
}

// TestParseCanonicalCut cuts a text at every byte, and puts every byte at each
// place of it.
func TestParseCanonicalCut(t *testing.T) {
	src := []byte(`{"":"x\n\"\u001f","a":[1,-20,0.5,1e+21,true,false,null,[],{}],"a b":{"c":"é漢😀 0123456789"},"b":0}`)
	if !bytes.Equal(canonicalOf(t, string(src)), src) {
		t.Fatal("the text is not canonical")
	}
	for i := range src {
		checkExact(t, src[:i], len(src))
		changed := bytes.Clone(src)
		for c := range 256 {
			changed[i] = byte(c)
			checkExact(t, changed, len(src))
		}
	}
}

func TestParseCanonicalHuge(t *testing.T) {
	for name, src := range map[string]string{
		"one string":   `"` + strings.Repeat("x", 10<<20) + `"`,
		"line feeds":   `"` + strings.Repeat(`\n`, 1<<20) + `"`,
		"wide":         `"` + strings.Repeat("é漢😀", 1<<18) + `"`,
		"late quote":   `"` + strings.Repeat("x", 10<<20) + `" "`,
		"no quote":     `"` + strings.Repeat("x", 10<<20),
		"long integer": strings.Repeat("9", 1<<20),
		"long zero":    "0." + strings.Repeat("0", 1<<20),
		"many":         "[" + strings.Repeat(`{},[],"",0,null,true,false,`, 1<<15) + "1]",
		"many members": string(objectsOf(t, 1000, 100, "ab\u20ac\\\"\n\x01")),
	} {
		t.Run(name, func(t *testing.T) { checkExact(t, []byte(src), len(src)) })
	}
}

// TestParseCanonicalShares: a value's strings without escapes are parts of one
// copy of the text, so that a long text costs two copies and no more.
func TestParseCanonicalShares(t *testing.T) {
	src := []byte(`["` + strings.Repeat("x", 1<<20) + `","` + strings.Repeat("y", 1<<20) + `"]`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	doc, err := ParseCanonical(src, len(src))
	runtime.ReadMemStats(&after)
	if err != nil || len(doc.Bytes()) != len(src) {
		t.Fatal(err)
	}
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(2*len(src)+256<<10); got > limit {
		t.Errorf("%d bytes for a text of %d, want at most %d", got, len(src), limit)
	}
}

func TestParseCanonicalReferenceVectors(t *testing.T) {
	dir := rehearsal.NeedFixture(t, "rfc8785")
	for _, name := range []string{"arrays", "french", "structures", "unicode", "values", "weird"} {
		checkExact(t, read(t, dir, "input", name+".json"), MaxIntentBytes)
		checkExact(t, read(t, dir, "output", name+".json"), MaxIntentBytes)
		if _, err := ParseCanonical(read(t, dir, "output", name+".json"), MaxIntentBytes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseCanonicalJSONTestSuite(t *testing.T) {
	dir := filepath.Join(rehearsal.NeedFixture(t, "json-test-suite"), "test_parsing")
	if n := checkFolder(t, os.DirFS(dir), checkExact); n != 318 {
		t.Errorf("%d cases, want 318", n)
	}
}

// TestParseCanonicalVectors reads the project's own documents.
func TestParseCanonicalVectors(t *testing.T) {
	for _, dir := range []string{"specs", "profiles", "examples"} {
		if checkFolder(t, os.DirFS(filepath.Join("..", "..", dir)), checkExact) == 0 {
			t.Errorf("%s has no JSON files", dir)
		}
	}
}

// checkFolder checks every JSON file beneath a folder, and says how many it has.
func checkFolder(t *testing.T, files fs.FS, check func(t *testing.T, src []byte, maxBytes int)) int {
	t.Helper()
	n := 0
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		src, err := fs.ReadFile(files, path)
		check(t, src, len(src))
		n++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func FuzzParseCanonical(f *testing.F) {
	for _, tt := range refusals {
		if len(tt.src) < 200 {
			f.Add([]byte(tt.src))
		}
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.src))
		f.Add([]byte(tt.want))
	}
	for _, tt := range differences {
		f.Add([]byte(tt.src))
	}
	for _, tt := range numbers {
		f.Add([]byte("[" + tt.want + "]"))
	}
	f.Add(runResultText(f))
	f.Fuzz(func(t *testing.T, src []byte) { checkExact(t, src, 1<<16) })
}
