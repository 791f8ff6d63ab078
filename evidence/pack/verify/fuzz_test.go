package verify

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// FuzzVerify: whatever one file of a pack contains, both levels end and give the same
// result twice. The result is sorted, within bounds, and text that can be written.
func FuzzVerify(f *testing.F) {
	r := vectorRun{base: basePacks(f), options: builtin(f)}
	names := slices.Sorted(maps.Keys(r.base))
	packs := map[string]map[string][]byte{}
	for i, name := range names {
		files := r.apply(f, &packVector{Base: name}).files(f)
		packs[name] = files
		for j, file := range pack.Names() {
			f.Add(byte(i), byte(j), files[file])
		}
	}
	for _, text := range []string{
		"", "{}", "[]\n", "null", "\xff", `{"a":1,"a":2}`, `"\ud800"`, "1e999", strings.Repeat("[", 20_000), "{}\n{}\n",
		`{"operations":[{"op":"create","path":"a","content":"\udc00"},{}]}`, `{"outputs":[{"path":"\ud800"}],"root_node":{"constraints":[0]}}`,
	} {
		for j := range pack.Names() {
			f.Add(byte(0), byte(j), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, base, file byte, text []byte) {
		files := maps.Clone(packs[names[int(base)%len(names)]])
		files[pack.Names()[int(file)%len(pack.Names())]] = text
		checkVerdicts(t, pack.Of(files), r.options)
	})
}

// checkVerdicts verifies a pack at both levels. The strict level finds all violations of
// the structural level.
func checkVerdicts(t *testing.T, p *pack.Pack, options Options) {
	t.Helper()
	known := map[string]bool{}
	for _, r := range Rules() {
		known[r.ID] = true
	}
	var structural []pack.Violation
	for _, level := range []pack.Level{pack.Structural, pack.Strict} {
		o := options.at(level)
		found := Pack(p, o)
		if again := Pack(p, o); !slices.Equal(found.Violations, again.Violations) || found.More != again.More {
			t.Errorf("%s: another time it is something else", level)
		}
		if sorted := pack.SortViolations(slices.Clone(found.Violations)); !slices.Equal(sorted, found.Violations) {
			t.Errorf("%s: not sorted, or twice", level)
		}
		if len(found.Violations) > MaxViolations || found.More > 0 && len(found.Violations) < MaxViolations {
			t.Errorf("%s: %d violations and %d more", level, len(found.Violations), found.More)
		}
		for _, v := range found.Violations {
			if !known[v.Rule] || v.Message == "" || len(v.Message) > 4096 || !utf8.ValidString(v.Path+v.Message) {
				t.Errorf("%s: %+v", level, v)
			}
		}
		if level == pack.Structural {
			structural = found.Violations
		} else if found.More == 0 && slices.ContainsFunc(structural, func(v pack.Violation) bool { return !slices.Contains(found.Violations, v) }) {
			t.Error("the strict level misses what the structural one finds")
		}
	}
}

// TestVerifyAnyValue: no value of any type does harm, at any place of a pack.
func TestVerifyAnyValue(t *testing.T) {
	r := vectorRun{base: basePacks(t), options: builtin(t)}
	other := []string{`null`, `""`, `"~"`, `[]`, `{}`, `[null,{},"",0]`, `-1`, `true`, `1e300`}
	n := 0
	for _, name := range []string{"clarify", "executed", "recorded", "served", "promised", "model"} {
		var base map[string]json.RawMessage
		if err := json.Unmarshal(r.base[name], &base); err != nil {
			t.Fatal(err)
		}
		files := r.apply(t, &packVector{Base: name}).files(t)
		for _, file := range slices.Sorted(maps.Keys(base)) {
			for _, pointer := range pointersIn(t, base[file]) {
				d := &draft{values: map[string]any{file: decoded(t, base[file])}}
				place, value := file+"#"+pointer, decoded(t, []byte(other[n%len(other)]))
				err := d.set(place, value)
				if n++; n%3 == 0 {
					err = d.remove(place)
				}
				if err != nil {
					t.Fatal(err)
				}
				changed := maps.Clone(files)
				changed[file] = d.mustText(t, file)
				checkVerdicts(t, pack.Of(changed), r.options)
				if t.Failed() {
					t.Fatalf("%s: %s", name, place)
				}
			}
		}
	}
	if n < 500 {
		t.Errorf("%d places", n)
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := decodeValue(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// pointersIn returns the places in a value.
func pointersIn(t *testing.T, text []byte) []string {
	t.Helper()
	var list []string
	var walk func(pointer string, v any)
	walk = func(pointer string, v any) {
		if pointer != "" {
			list = append(list, pointer)
		}
		switch v := v.(type) {
		case map[string]any:
			for _, member := range slices.Sorted(maps.Keys(v)) {
				walk(canon.Pointer(pointer, member), v[member])
			}
		case []any:
			for i, one := range v {
				walk(pointer+"/"+strconv.Itoa(i), one)
			}
		}
	}
	walk("", decoded(t, text))
	return list
}

// files returns the files in written form.
func (d *draft) files(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range d.names() {
		files[name] = d.mustText(t, name)
	}
	return files
}

// TestVerifyIsBounded: files that are made to be slow or large give a verdict.
func TestVerifyIsBounded(t *testing.T) {
	r := vectorRun{base: basePacks(t), options: builtin(t)}
	whole := r.apply(t, &packVector{Base: "model"}).files(t)
	whole[pack.LedgerFile] = r.apply(t, &packVector{Base: "recorded"}).files(t)[pack.LedgerFile]
	for _, file := range pack.Names() {
		for _, text := range []struct{ name, before, unit, after string }{
			{"nested", "", `[`, ""},
			{"nested objects", "", `{"a":`, ""},
			{"empty lines", "", "\n", ""},
			{"members", "{", `"a":0,`, `"b":0}`},
			{"elements", `{"operations":[`, `{},`, `{}],"outputs":[]}`},
			{"numbers", `{"operations":[`, `0,`, `0],"interactions":[1]}`},
			{"escapes", `"`, `\ud800`, `"`},
			{"white space", "{}", " ", "\n"},
		} {
			files := maps.Clone(whole)
			files[file] = []byte(text.before + strings.Repeat(text.unit, 1<<18/len(text.unit)) + text.after)
			found := Pack(pack.Of(files), r.options)
			if len(found.Violations) == 0 || len(found.Violations) > MaxViolations {
				t.Errorf("%s, %s: %d violations", file, text.name, len(found.Violations))
			}
		}
	}
}

// TestSameJSON: two values are the same if their canonical forms are.
func TestSameJSON(t *testing.T) {
	texts := []string{`null`, `true`, `false`, `0`, `-0`, `1`, `1.0`, `1e0`, `"1"`, `[]`, `{}`, `[1]`, `[1.0]`, `[1,2]`, `{"a":1}`, `{"a":1e0}`, `{"b":1}`, `{"a":null}`}
	for _, a := range texts {
		for _, b := range texts {
			var x, y any
			if decodeValue([]byte(a), &x) != nil || decodeValue([]byte(b), &y) != nil {
				t.Fatal(a, b)
			}
			p, err := canon.Canonical(x)
			if err != nil {
				t.Fatal(err)
			}
			q, err := canon.Canonical(y)
			if err != nil {
				t.Fatal(err)
			}
			if got := sameJSON(x, y); got != bytes.Equal(p, q) {
				t.Errorf("%s and %s: %v", a, b, got)
			}
		}
	}
	if sameJSON(json.Number("1e999"), json.Number("1e999")) {
		t.Error("what no double holds is the same as nothing")
	}
}
