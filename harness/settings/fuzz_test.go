package settings

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// ours is a value that no generated document has.
const ours = "\x01fiador"

// probes are edits of all kinds, at places that the generated documents often have.
func probes() []Edit {
	entry := func(name string, path ...string) Entry {
		return Entry{Path: path, Name: name, Value: []any{ours, map[string]string{"k": "v"}}, Ours: func(v any) bool {
			list, ok := v.([]any)
			return ok && len(list) == 2 && list[0] == ours
		}}
	}
	return []Edit{
		entry("", "a", "b"), entry("", "a"), entry(ours, "a"), entry("", "b", "a", "b"), entry(ours),
		Wrap{Path: []string{"a"}, Command: ours, Args: []string{"x", "--"}, Ours: func(command string, args []string) int {
			if command != ours {
				return -1
			}
			return slices.Index(args, "--") + 1
		}},
	}
}

// FuzzApply: a document that Apply accepts has its value and the entry afterwards, keeps
// its bytes in their order, and is the same after Remove. Without the backup it is the same
// too, unless an object or array around the entry was there and empty.
func FuzzApply(f *testing.F) {
	for i, text := range []string{
		"", " \n", "{}", "{ \n }", "\ufeff{}\r\n", `{"a":{"b":[]}}`, "{\r\n\t\"a\" : {\r\n\t\t\"b\" : [ 1 ]\r\n\t}\r\n}", `{"a":[1 , 2 ],"b":{"a":{}}}`,
		`{"a":{"command":"\/x","args":[]}}`, `{"a":{"args":["y", "z"],"command":"x"}}`, "{\n \"\\\"\": 1,\n\"a\": { }\n}", `{"a":{"command":"x"}}`, `{"a": 1 // b` + "\n}", `{"a":1,"a":2}`,
	} {
		for kind := range probes() {
			f.Add([]byte(text), uint8(kind+i))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, kind uint8) {
		if !bytes.Contains(text, []byte(ours)) && !bytes.Contains(text, []byte(`\u0001`)) {
			there(t, text, probes()[int(kind)%len(probes())])
			there(t, text, probes()...)
		}
	})
}

// there fails the test unless edits go into a text and out again.
func there(t *testing.T, text []byte, edits ...Edit) (applied bool) {
	t.Helper()
	after, err := plan(text, edits)
	if err != nil {
		if _, ok := err.(*Refused); !ok || !bytes.Equal(after, text) {
			t.Fatalf("%q: %v, %q", text, err, after)
		}
		return false
	}
	if again, err := plan(after, edits); err != nil || !bytes.Equal(again, after) {
		t.Fatalf("%q becomes %q, and then %q, %v", text, after, again, err)
	}
	if len(edits) == 1 {
		want := decoded(t, text)
		put(want, edits[0])
		if got := decoded(t, after); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q becomes %q: %v, want %v", text, after, got, want)
		}
	}
	if before, err := unplan(after, text, edits); err != nil || !bytes.Equal(before, text) {
		t.Fatalf("%q becomes %q, and back %q, %v", text, after, before, err)
	}
	before, err := unplan(after, nil, edits)
	if err != nil || bytes.Contains(before, []byte(`\u0001`)) {
		t.Fatalf("%q, without a backup: %q, %v", after, before, err)
	}
	if !bytes.Equal(before, text) && before != nil && !hadEmpty(text) && !bytes.Contains(text, []byte(`\`)) {
		t.Fatalf("%q becomes %q, and back without a backup %q", text, after, before)
	}
	return true
}

// hadEmpty says whether a text has an empty object or array.
func hadEmpty(text []byte) bool {
	packed := strings.Join(strings.Fields(string(text)), "")
	return packed == "" || strings.Contains(packed, "{}") || strings.Contains(packed, "[]") || packed == "\ufeff"
}

// decoded reads a text by another reader than the package does.
func decoded(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v := map[string]any{}
	if text = bytes.TrimPrefix(text, []byte("\ufeff")); len(bytes.TrimSpace(text)) > 0 {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	return v
}

// put puts an edit into a value, by other means than the package does.
func put(at map[string]any, e Edit) {
	sub := func(at map[string]any, name string) map[string]any {
		if at[name] == nil {
			at[name] = map[string]any{}
		}
		return at[name].(map[string]any)
	}
	switch e := e.(type) {
	case Entry:
		value := []any{ours, map[string]any{"k": "v"}}
		path := append(slices.Clone(e.Path), e.Name)
		if e.Name == "" {
			path = e.Path
		}
		for _, name := range path[:len(path)-1] {
			at = sub(at, name)
		}
		name := path[len(path)-1]
		if list, _ := at[name].([]any); e.Name == "" {
			at[name] = append(list, value)
		} else {
			at[name] = value
		}
	case Wrap:
		server := sub(at, "a")
		list, _ := server["args"].([]any)
		server["args"] = append([]any{"x", "--", server["command"]}, list...)
		server["command"] = ours
	}
}

// TestRandomDocuments does what FuzzApply does, with documents of random values and white
// space.
func TestRandomDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	applied := make([]int, len(probes())+1)
	for range rehearsal.Count(500, 5000) {
		w := writer{r, []string{"\n", "\r\n"}[r.IntN(2)], []string{"", "  ", "\t", "    "}[r.IntN(4)], r.IntN(3)}
		text := w.object(0)
		if r.IntN(8) == 0 {
			text = "\ufeff" + text
		}
		text += []string{"", w.newline, " ", w.newline + w.newline}[r.IntN(4)]
		for i, e := range probes() {
			if there(t, []byte(text), e) {
				applied[i]++
			}
		}
		if there(t, []byte(text), probes()[1], probes()[3], probes()[4]) {
			applied[len(applied)-1]++
		}
	}
	if slices.Min(applied) < 20 {
		t.Errorf("%d documents were accepted", applied)
	}
}

// writer writes random JSON: on lines, in one line, or with any white space.
type writer struct {
	*rand.Rand
	newline, unit string
	form          int
}

func (w writer) space(depth int) string {
	switch w.form {
	case 0:
		return w.newline + strings.Repeat(w.unit, depth)
	case 1:
		return []string{"", " "}[len(w.unit)%2]
	}
	return []string{"", " ", "\t", w.newline, w.newline + w.unit, " " + w.newline + w.newline + " "}[w.IntN(6)]
}

func (w writer) odd() string {
	if w.form == 2 {
		return w.space(0)
	}
	return ""
}

func (w writer) join(open, end string, depth int, list []string) string {
	if len(list) == 0 {
		return open + w.odd() + end
	}
	for i := range list {
		list[i] = w.space(depth+1) + list[i] + w.odd()
	}
	return open + strings.Join(list, ",") + w.space(depth) + end
}

func (w writer) object(depth int) string {
	names := []string{"a", "b", "c", `d\"`, `\\`, "é", "command", "args"}
	w.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	list := make([]string, w.IntN(4))
	if depth == 1 && w.IntN(2) == 0 { // a server of MCP
		names, list = []string{"command", "args", "b"}, make([]string, 1+w.IntN(3))
	}
	for i := range list {
		value := w.value(depth + 1)
		switch {
		case names[i] == "command":
			value = []string{`"x"`, `"\/x\u0041"`}[w.IntN(2)]
		case names[i] == "args":
			value = w.join("[", "]", depth+1, slices.Repeat([]string{`"y"`}, w.IntN(4)))
		case depth == 0 && names[i] == "a" && w.IntN(2) == 0:
			value = w.object(1)
		}
		list[i] = `"` + names[i] + `"` + w.odd() + ":" + w.odd() + value
	}
	return w.join("{", "}", depth, list)
}

func (w writer) value(depth int) string {
	switch n := w.IntN(8); {
	case n < 3 && depth < 5:
		return w.object(depth)
	case n < 5 && depth < 5:
		list := make([]string, w.IntN(4))
		for i := range list {
			list[i] = w.value(depth + 1)
		}
		return w.join("[", "]", depth, list)
	}
	return []string{"1.50", "-0", "true", "null", `"]}, :\""`, strconv.Itoa(w.IntN(1000))}[w.IntN(6)]
}
