package canon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	const doc = " {\"a\" : [ 1, \"two\" ,{\"x/y~z\":null}],\r\n \"\\u0062\\n\": {\"\": -1.50e2 } ,\"😀\":true , \"~1\":false,\"~\":0,\"~2\":1} \n"
	for _, tc := range []struct{ src, pointer, want string }{
		{doc, "", strings.TrimSpace(doc)},
		{doc, "/a", `[ 1, "two" ,{"x/y~z":null}]`},
		{doc, "/a/0", "1"},
		{doc, "/a/1", `"two"`},
		{doc, "/a/2/x~1y~0z", "null"},
		{doc, "/b\n", `{"": -1.50e2 }`},
		{doc, "/b\n/", "-1.50e2"},
		{doc, "/😀", "true"},
		{doc, "/~01", "false"},
		{doc, "/~0", "0"},

		// Absent: the deepest ancestor that exists.
		{doc, "/constraints/0", strings.TrimSpace(doc)},
		{doc, "/a/3", `[ 1, "two" ,{"x/y~z":null}]`},
		{doc, "/a/00", `[ 1, "two" ,{"x/y~z":null}]`},
		{doc, "/a/-", `[ 1, "two" ,{"x/y~z":null}]`},
		{doc, "/a/2/x", `{"x/y~z":null}`},
		{doc, "/a/1/0", `"two"`},
		{doc, "/a/", `[ 1, "two" ,{"x/y~z":null}]`},

		// Not a pointer.
		{doc, "a", strings.TrimSpace(doc)},
		{doc, "/~2", strings.TrimSpace(doc)},
		{doc, "/a/~2", `[ 1, "two" ,{"x/y~z":null}]`},
		{doc, "/~", strings.TrimSpace(doc)},
		{doc, "/~/a", strings.TrimSpace(doc)},

		{"7", "/a", "7"},
		{" \"é\" ", "", `"é"`},

		// Parse does not accept the text: nothing is found.
		{"", "", ""},
		{" \n", "/a", ""},
		{`{"a":1`, "/a", ""},
		{`{"a":1,"a":2}`, "/a", ""},
		{"{\"a\":\"\xff\"}", "/a", ""},
		{`]`, "", ""},
		{strings.Repeat("[", 20000), strings.Repeat("/0", 20000), ""},
	} {
		got := Locate([]byte(tc.src), []string{tc.pointer})[0]
		if text := tc.src[got.Start:got.End]; text != tc.want {
			t.Errorf("%.20q of %.40q: got %q, want %q", tc.pointer, tc.src, text, tc.want)
		}
	}
}

// TestLocateMany: the answers stand in the order of the questions, however often
// one is asked.
func TestLocateMany(t *testing.T) {
	got := Locate([]byte(`{"b":[10,20],"a":1}`), []string{"/a", "/b/1", "", "/b", "/b/1", "/b/9"})
	want := []Span{{17, 18}, {9, 11}, {0, 19}, {5, 12}, {9, 11}, {5, 12}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Locate([]byte(`{}`), nil); len(got) != 0 {
		t.Errorf("no pointers give %v", got)
	}
}

// TestLocateEveryPointer: in random documents, the span of every pointer holds
// the value that the pointer leads to.
func TestLocateEveryPointer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		src := []byte(randomText(r, 4))
		doc, err := Parse(src, MaxIntentBytes)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		pointers := pointersOf("", doc.Value(), nil)
		r.Shuffle(len(pointers), func(i, j int) { pointers[i], pointers[j] = pointers[j], pointers[i] })
		for i, s := range Locate(src, pointers) {
			checkSpan(t, src, doc.Value(), pointers[i], s)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"\u0062~/":"x"}]}`), "/a/1/b~0~1")
	f.Add([]byte(` [ [ ] , 0 ] `), "/0/1")
	f.Add([]byte(`{"a":1,"a":2}`), "/a")
	f.Fuzz(func(t *testing.T, src []byte, pointer string) {
		s := Locate(src, []string{pointer})[0]
		if s.Start < 0 || s.Start > s.End || s.End > len(src) {
			t.Fatalf("%v is no span of %d bytes", s, len(src))
		}
		if doc, err := Parse(src, MaxIntentBytes); err == nil {
			checkSpan(t, src, doc.Value(), pointer, s)
		}
	})
}

// checkSpan reads the span by itself and compares it with the value at the pointer, or at
// its deepest ancestor that exists.
func checkSpan(t *testing.T, src []byte, root any, pointer string, s Span) {
	t.Helper()
	doc, err := Parse(src[s.Start:s.End], MaxIntentBytes)
	if err != nil {
		t.Fatalf("%q of %s: %v", pointer, src, err)
	}
	text := string(src[s.Start:s.End])
	if text != strings.TrimSpace(text) {
		t.Errorf("%q of %s: white space around %q", pointer, src, text)
	}
	if want := walk(root, pointer); !reflect.DeepEqual(doc.Value(), want) {
		t.Errorf("%q of %s: got %v, want %v", pointer, src, doc.Value(), want)
	}
}

func walk(v any, pointer string) any {
	if pointer == "" || pointer[0] != '/' {
		return v
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		name := strings.NewReplacer("~0", "~", "~1", "/").Replace(token)
		if Pointer("", name) != "/"+token {
			return v
		}
		next, ok := any(nil), false
		switch at := v.(type) {
		case map[string]any:
			next, ok = at[name]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && strconv.Itoa(i) == name && i >= 0 && i < len(at); ok {
				next = at[i]
			}
		}
		if !ok {
			return v
		}
		v = next
	}
	return v
}

// pointersOf lists the pointers of a value and of all below it.
func pointersOf(at string, v any, list []string) []string {
	list = append(list, at)
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			list = pointersOf(Pointer(at, name), child, list)
		}
	case []any:
		for i, child := range v {
			list = pointersOf(at+"/"+strconv.Itoa(i), child, list)
		}
	}
	return list
}

// randomText is a JSON text with odd names, escapes and white space.
func randomText(r *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\n", "\r\n\t"}[r.IntN(5)] }
	kind := r.IntN(6)
	if depth == 0 {
		kind = r.IntN(4)
	}
	var text string
	switch kind {
	case 0:
		text = []string{"null", "true", "false"}[r.IntN(3)]
	case 1:
		text = strconv.FormatFloat(r.NormFloat64(), 'e', r.IntN(5), 64)
	case 2, 3:
		text = randomName(r)
	case 4:
		var list []string
		for range r.IntN(4) {
			list = append(list, randomText(r, depth-1))
		}
		text = "[" + space() + strings.Join(list, ",") + "]"
	case 5:
		members := map[string]string{}
		for range r.IntN(4) {
			name := randomName(r)
			var plain string
			if err := json.Unmarshal([]byte(name), &plain); err != nil {
				panic(err)
			}
			members[plain] = space() + name + space() + ":" + randomText(r, depth-1)
		}
		var list []string
		for _, m := range members {
			list = append(list, m)
		}
		slices.Sort(list)
		text = "{" + strings.Join(list, ",") + space() + "}"
	}
	return space() + text + space()
}

// randomName is a JSON string in which any character may be escaped.
func randomName(r *rand.Rand) string {
	var b strings.Builder
	b.WriteByte('"')
	for range r.IntN(4) {
		c := []rune{'a', '/', '~', '0', '1', 'é', '-', '\n', '"', '\\', ' '}[r.IntN(11)]
		if c < ' ' || c == '"' || c == '\\' || r.IntN(4) == 0 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TestPlace: lines and columns count from 1, columns in UTF-16 code units.
func TestPlace(t *testing.T) {
	src := []byte("a\né\U0001F600x\n")
	for offset, want := range map[int][2]int{-1: {1, 1}, 0: {1, 1}, 1: {1, 2}, 2: {2, 1}, 4: {2, 2}, 8: {2, 4}, 9: {2, 5}, 10: {3, 1}, 99: {3, 1}} {
		if line, column := Place(src, offset); line != want[0] || column != want[1] {
			t.Errorf("%d: %d:%d, want %v", offset, line, column, want)
		}
	}
}

// TestPlaces: the position of a value is its first character, counted in lines and
// UTF-16 code units.
func TestPlaces(t *testing.T) {
	src := []byte("{\n \"😀\": 1, \"goal\": \"x\",\r\n\t\"constraints\": [\"a\", \"b\"]}")
	got := Places(src, []string{"/goal", "/constraints/1", "/actions/0", ""})
	for i, want := range []Position{{Line: 2, Column: 19}, {Line: 3, Column: 23}, {Line: 1, Column: 1}, {Line: 1, Column: 1}} {
		if got[i] != want {
			t.Errorf("position %d is %v, want %v", i, got[i], want)
		}
	}
}
