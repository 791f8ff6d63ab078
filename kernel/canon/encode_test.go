package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gowebpki/jcs"
)

// numbers is appendix B of RFC 8785: the bits of a double and how it is written.
var numbers = []struct {
	bits uint64
	want string
}{
	{0x0000000000000000, "0"},
	{0x8000000000000000, "0"},
	{0x0000000000000001, "5e-324"},
	{0x8000000000000001, "-5e-324"},
	{0x7fefffffffffffff, "1.7976931348623157e+308"},
	{0xffefffffffffffff, "-1.7976931348623157e+308"},
	{0x4340000000000000, "9007199254740992"},
	{0xc340000000000000, "-9007199254740992"},
	{0x4430000000000000, "295147905179352830000"},
	{0x44b52d02c7e14af5, "9.999999999999997e+22"},
	{0x44b52d02c7e14af6, "1e+23"},
	{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
	{0x444b1ae4d6e2ef4e, "999999999999999700000"},
	{0x444b1ae4d6e2ef4f, "999999999999999900000"},
	{0x444b1ae4d6e2ef50, "1e+21"},
	{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
	{0x3eb0c6f7a0b5ed8d, "0.000001"},
	{0x41b3de4355555553, "333333333.3333332"},
	{0x41b3de4355555554, "333333333.33333325"},
	{0x41b3de4355555555, "333333333.3333333"},
	{0x41b3de4355555556, "333333333.3333334"},
	{0x41b3de4355555557, "333333333.33333343"},
	{0xbecbf647612f3696, "-0.0000033333333333333333"},
	{0x43143ff3c1cb0959, "1424953923781206.2"},
}

func TestCanonicalNumbers(t *testing.T) {
	refusedOnReading := 0
	for _, tt := range numbers {
		f := math.Float64frombits(tt.bits)
		for name, v := range map[string]any{"plain": f, "by encoding/json": struct{ V float64 }{f}, "element": []float64{f}} {
			got, err := Canonical(v)
			if err != nil {
				t.Errorf("%016x %s: %v", tt.bits, name, err)
			}
			if text := strings.Trim(string(got), `{}[]V":`); text != tt.want {
				t.Errorf("%016x %s: got %s, want %s", tt.bits, name, text, tt.want)
			}
		}
		doc, err := Parse([]byte(tt.want), MaxIntentBytes)
		switch beyond := math.Abs(f) > MaxSafeInteger && math.Abs(f) < 1e21; {
		case beyond && err == nil:
			t.Errorf("%s is read, though its digits are beyond ±MaxSafeInteger", tt.want)
		case beyond:
			refusedOnReading++
		case err != nil:
			t.Errorf("%s is refused: %v", tt.want, err)
		case string(doc.Bytes()) != tt.want:
			t.Errorf("%s becomes %s", tt.want, doc.Bytes())
		}
	}
	if refusedOnReading != 5 {
		t.Errorf("%d rows are refused on reading, want 5", refusedOnReading)
	}
}

type sample struct {
	B string          `json:"b"`
	A []int           `json:"a"`
	R json.RawMessage `json:"r,omitempty"`
	M map[string]bool `json:"m,omitempty"`
}

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    any
		want string
	}{
		{"struct", sample{B: "<é>\u2028", A: []int{3, 1}}, "{\"a\":[3,1],\"b\":\"<é>\u2028\"}"},
		{"raw", sample{A: []int{}, R: json.RawMessage(` {"z" : 1.0, "y":"\u00e9"} `)}, `{"a":[],"b":"","r":{"y":"é","z":1}}`},
		{"map of bool", sample{M: map[string]bool{"\U0001f600": true, "\ufb33": false}}, "{\"a\":null,\"b\":\"\",\"m\":{\"😀\":true,\"\ufb33\":false}}"},
		{"replacement character", sample{B: "\ufffd\\ufffd"}, "{\"a\":null,\"b\":\"\ufffd\\\\ufffd\"}"},
		{"nil", nil, `null`},
		{"nil map", map[string]any(nil), `null`},
		{"nil list", []any(nil), `null`},
		{"mixed", map[string]any{"b": []any{sample{}}, "a": int32(-5)}, `{"a":-5,"b":[{"a":null,"b":""}]}`},
		{"integer that keeps its digits", map[string]any{"n": int64(1) << 53}, `{"n":9007199254740992}`},
		{"number", json.Number("1.50e1"), `15`},
		{"minus zero", []any{json.Number("-0"), math.Copysign(0, -1)}, `[0,0]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Canonical(tt.v)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return nil, errBroken }

var errBroken = errors.New("broken")

func TestCanonicalRefuses(t *testing.T) {
	loop := map[string]any{}
	loop["x"] = loop
	type ring struct{ Next *ring }
	cycle := &ring{}
	cycle.Next = cycle
	for _, tt := range []struct {
		name    string
		v       any
		kind    Kind
		pointer string
	}{
		{"NaN", map[string]any{"a": []any{math.NaN()}}, KindNumber, "/a/0"},
		{"infinity", math.Inf(1), KindNumber, ""},
		{"NaN in struct", struct{ F float64 }{math.NaN()}, KindNumber, ""},
		{"infinity in struct", struct{ F float32 }{float32(math.Inf(-1))}, KindNumber, ""},
		{"not UTF-8", map[string]any{"a": "x\xff"}, KindEncoding, "/a"},
		{"not UTF-8 in struct", sample{B: "x\xff"}, KindEncoding, "/b"},
		{"not UTF-8 in name", map[string]any{"a": map[string]any{"\xff": 1}}, KindEncoding, "/a"},
		{"not UTF-8 in name in struct", sample{M: map[string]bool{"\xff": true}}, KindEncoding, "/m"},
		{"not UTF-8 in raw", sample{R: json.RawMessage("\"\xff\"")}, KindEncoding, "/r"},
		{"noncharacter", []any{"\ufdd0"}, KindCharacter, "/0"},
		{"noncharacter in struct", sample{B: "\uffff"}, KindCharacter, "/b"},
		{"replacement escape in raw", sample{R: json.RawMessage(`"\ufffd"`)}, KindEncoding, "/r"},
		{"surrogate in raw", sample{R: json.RawMessage(`"\ud800"`)}, KindCharacter, "/r"},
		{"duplicate in raw", sample{R: json.RawMessage(`{"a":1,"a":1}`)}, KindDuplicate, "/r/a"},
		{"inexact integer", map[string]any{"n": 1<<53 + 1}, KindNumber, "/n"},
		{"digits of a power of two", int64(1) << 60, KindNumber, ""},
		{"inexact int64", int64(-1<<53 - 1), KindNumber, ""},
		{"inexact in struct", sample{A: []int{0, 1<<53 + 1}}, KindNumber, "/a/1"},
		{"inexact number", json.Number("9007199254740993"), KindNumber, ""},
		{"overflow", json.Number("1e400"), KindNumber, ""},
		{"underflow", json.Number("1e-400"), KindNumber, ""},
		{"underflow in struct", struct{ N json.Number }{"1e-400"}, KindNumber, "/N"},
		{"no number", json.Number("0x10"), KindNumber, ""},
		{"empty number", json.Number(""), KindNumber, ""},
		{"number with space", json.Number(" 1"), KindNumber, ""},
		{"number and space", json.Number("1\n"), KindNumber, ""},
		{"leading zero", json.Number("01"), KindNumber, ""},
		{"function", map[string]any{"f": func() {}}, KindValue, ""},
		{"channel", struct{ C chan int }{}, KindValue, ""},
		{"own encoder fails", broken{}, KindValue, ""},
		{"contains itself", loop, KindDepth, ""},
		{"points to itself", cycle, KindDepth, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Canonical(tt.v)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %s and error %v, want an *Error", got, err)
			}
			if got != nil {
				t.Errorf("an error comes with bytes %s", got)
			}
			wrongPlace := e.Pointer != tt.pointer && tt.name != "contains itself"
			if e.Kind != tt.kind || wrongPlace || e.Offset != -1 || e.Msg == "" {
				t.Errorf("got %+v, want %s in %q", e, tt.kind, tt.pointer)
			}
			if len(e.Pointer) > cutBytes+len("…") || strings.Contains(e.Error(), "json:") {
				t.Errorf("message %q with pointer %q", e.Error(), e.Pointer)
			}
		})
	}
	for _, n := range []json.Number{"", " 1", "1 ", "01", "+1", "0x10", "true", `"1"`, "1 2"} {
		if _, err := Canonical(n); err == nil || !strings.HasSuffix(err.Error(), "is not a JSON number") {
			t.Errorf("json.Number %q: %v", n, err)
		}
	}
	if _, err := Canonical(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// TestCanonicalAgrees compares the direct encoder with encoding/json and jcs.
func TestCanonicalAgrees(t *testing.T) {
	rng := rand.New(rand.NewSource(8785))
	for range 3000 {
		v := randomValue(rng, 4)
		got, err := Canonical(v)
		if err != nil {
			t.Fatalf("%#v: %v", v, err)
		}
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform(plain)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%#v:\ngot  %s\nwant %s", v, got, want)
		}
	}
}

var randomRunes = []rune("\x00\x1f\b\t\n\f\r\"\\/ <>&a~\x7f\u0080é€\ud7ff\ue000\uefff\uf000\ufb33\ufffd\U00010000𝄞😀\U0010fffd\u2028")

func randomString(rng *rand.Rand) string {
	runes := make([]rune, rng.Intn(6))
	for i := range runes {
		runes[i] = randomRunes[rng.Intn(len(randomRunes))]
	}
	return string(runes)
}

func randomValue(rng *rand.Rand, depth int) any {
	n := rng.Intn(9)
	if depth == 0 {
		n %= 6
	}
	switch n {
	case 0:
		return nil
	case 1:
		return rng.Intn(2) == 0
	case 2:
		return rng.Intn(2*MaxSafeInteger) - MaxSafeInteger
	case 3:
		for {
			if f := math.Float64frombits(rng.Uint64()); f-f == 0 {
				return f
			}
		}
	case 4:
		return json.Number([]string{"0", "-0", "1.50", "2e-3", "1E30", "9007199254740991", "-0.0e1"}[rng.Intn(7)])
	case 6:
		list := make([]any, rng.Intn(4))
		for i := range list {
			list[i] = randomValue(rng, depth-1)
		}
		return list
	case 7, 8:
		members := map[string]any{}
		for range rng.Intn(5) {
			members[randomString(rng)] = randomValue(rng, depth-1)
		}
		return members
	}
	return randomString(rng)
}

func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewSource(16))
	for range 20000 {
		a, b := randomString(rng), randomString(rng)
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if got := Compare(a, b); got != want {
			t.Fatalf("Compare(%q, %q) = %d, want %d", a, b, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Compare("a\U0001f600", "a\ufb33") }); n != 0 {
		t.Errorf("Compare allocates %v times", n)
	}
}

func TestPointer(t *testing.T) {
	for _, tt := range []struct{ parent, token, want string }{
		{"", "a", "/a"},
		{"", "", "/"},
		{"/a", "0", "/a/0"},
		{"/a", "b/c~d~1", "/a/b~1c~0d~01"},
	} {
		if got := Pointer(tt.parent, tt.token); got != tt.want {
			t.Errorf("Pointer(%q, %q) = %q, want %q", tt.parent, tt.token, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct{ s, want string }{
		{"", ""},
		{strings.Repeat("x", 256), strings.Repeat("x", 256)},
		{strings.Repeat("x", 257), strings.Repeat("x", 256) + "…"},
		{strings.Repeat("x", 255) + "é", strings.Repeat("x", 255) + "…"},
		{strings.Repeat("x", 254) + "éé", strings.Repeat("x", 254) + "é…"},
		{strings.Repeat("x", 253) + "😀", strings.Repeat("x", 253) + "…"},
		{strings.Repeat("\x80", 300), strings.Repeat("\x80", 252) + "…"},
	} {
		if got := Cut(tt.s); got != tt.want {
			t.Errorf("Cut(%q) = %q, want %q", tt.s, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ s, want string }{
		{`a"b\c`, `"a\"b\\c"`},
		{"\n\x1b\u202e\uffff\U000e0001é", `"\n\u001b\u202e\uffff\udb40\udc01é"`},
	} {
		if got := quoteJSON(tt.s); got != tt.want {
			t.Errorf("quoteJSON(%q) = %s, want %s", tt.s, got, tt.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		e    Error
		want string
	}{
		{Error{Offset: 3, Pointer: "/a\x1b", Msg: "m"}, `m (byte 3, in "/a\u001b")`},
		{Error{Offset: 0, Msg: "m"}, `m (byte 0)`},
		{Error{Offset: -1, Pointer: "/a", Msg: "m"}, `m (in "/a")`},
		{Error{Offset: -1, Msg: "m"}, `m`},
	} {
		if got := tt.e.Error(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestHash(t *testing.T) {
	// printf '{"a":1}\n' | sha256sum
	const digits = "e346432021b04179518d9614f3560ccd71354a4ee101ddcb893d6959a9d6301c"
	text, sum, err := Artifact(map[string]int{"a": 1})
	if err != nil || string(text) != "{\"a\":1}\n" {
		t.Fatalf("got %q, %v", text, err)
	}
	if sum != Sum(text) || sum.Hex() != digits || !sum.Valid() {
		t.Errorf("got %s, want %s", sum, digits)
	}
	if id, err := ID("x_", map[string]int{"a": 1}); err != nil || id != "x_"+digits[:16] {
		t.Errorf("got %s, %v", id, err)
	}
	if _, err := ID("x_", math.NaN()); err == nil {
		t.Error("an id of NaN")
	}
	for _, bad := range []ContentHash{"", "sha256:", digits, ContentHash("sha256:" + digits[1:]), "sha256:" + digits + "0", "SHA256:" + digits, ContentHash("sha256:E" + digits[1:]), ContentHash("sha256:g" + digits[1:])} {
		if bad.Valid() || bad.Hex() != "" {
			t.Errorf("%q is valid", bad)
		}
	}
}
