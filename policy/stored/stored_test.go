package stored

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// compiled returns the compiled modules of sources.
func compiled(t testing.TB, sources ...string) (list []*ast.Module) {
	t.Helper()
	mods := map[string]*ast.Module{}
	for i, src := range sources {
		name := string(rune('a'+i)) + ".rego"
		m, err := ast.ParseModule(name, src)
		if err != nil {
			t.Fatal(err)
		}
		mods[name] = m
	}
	c := ast.NewCompiler()
	if c.Compile(mods); c.Failed() {
		t.Fatal(c.Errors)
	}
	for i := range sources {
		m := c.Modules[string(rune('a'+i))+".rego"]
		m.Comments, m.Annotations = nil, nil
		for _, r := range m.Rules {
			r.Annotations = nil
		}
		list = append(list, m)
	}
	return list
}

// everything has each kind of node that the form holds.
const everything = `package a.b

import future.keywords.not

default d := false

d if {
	every k, v in input.list { k < 10; v != null }
	not f(input.x)
	not input.y == false
}

f(x) := y if { y := x + 1.5 } else := 2 if x == -1 else := 1e21

s contains {"k": [x, true], "set": {1, "a"}, "empty": {}, x: set()} if some x in [z | z := input.list[_]]

o[k] := v if { v := {a: b | some a, b in input.map}; k := {q | q := v[_]}; data.a.b.d }

n := null
`

// TestWriteRead: what is read is what was written, and is written as the same bytes.
func TestWriteRead(t *testing.T) {
	want := Layer{
		Rules:   []Rule{{"deny", "A_RULE", "a.rego", 3}, {"permit", "", "b.rego", 70000}},
		Modules: compiled(t, everything, "package a.b\n\nm if d\n"),
	}
	key := []string{"a key", ""}
	form, err := Write(key, want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := Read(form, key)
	if !ok || !slices.Equal(got.Rules, want.Rules) || len(got.Modules) != 2 {
		t.Fatalf("read %+v, %t", got, ok)
	}
	for i, m := range got.Modules {
		if m.Compare(want.Modules[i]) != 0 || m.String() != want.Modules[i].String() {
			t.Errorf("read\n%v\nwant\n%v", m, want.Modules[i])
		}
	}
	if again, err := Write(key, got); err != nil || !slices.Equal(again, form) {
		t.Errorf("written again, the form differs (error %v)", err)
	}
	for _, other := range [][]string{nil, {"a key"}, {"a key", "", ""}, {"", "a key"}} {
		if _, ok := Read(form, other); ok {
			t.Errorf("the form is read under the key %q", other)
		}
	}
}

// TestReadNothing: no part of a content and no longer content is read.
func TestReadNothing(t *testing.T) {
	form, err := Write(nil, Layer{Modules: compiled(t, everything)})
	if err != nil {
		t.Fatal(err)
	}
	content, ok := open(form, nil)
	if !ok {
		t.Fatal("the form is not opened")
	}
	for i := range content {
		if _, ok := read(content[:i]); ok {
			t.Errorf("the first %d bytes of %d are read", i, len(content))
		}
	}
	if _, ok := read(append(slices.Clone(content), 0)); ok {
		t.Error("one byte more is read")
	}
}

// TestWriteRefuses: a node that the form cannot hold is an error.
func TestWriteRefuses(t *testing.T) {
	other := compiled(t, "package a\n\nx := 1 if { true }\n")
	other[0].Rules[0].Body[0].Terms = &ast.SomeDecl{}
	call := compiled(t, "package a\n\nx := 1 if { true }\n")
	call[0].Rules[0].Head.Value.Value = ast.Call{ast.VarTerm("f")}
	imports := compiled(t, "package a\n\nx := 1\n")
	imports[0].Imports = []*ast.Import{{Path: ast.VarTerm("input")}}
	before := compiled(t, "package a\n\nx := 1\n")
	before[0].Rules[0].Location.Row = -1
	for want, mods := range map[string][]*ast.Module{
		"number -1":     before,
		"with":          compiled(t, "package a\n\nx if { input.a with input.a as 1 }\n"),
		"*ast.SomeDecl": other,
		"ast.Call":      call,
		"imports":       imports,
	} {
		if _, err := Write(nil, Layer{Modules: mods}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

// FuzzRead reads contents behind the key. Reading never panics, and what is read can be
// written.
func FuzzRead(f *testing.F) {
	small, err := Write(nil, Layer{Rules: []Rule{{"deny", "A_RULE", "a.rego", 3}}, Modules: compiled(f, everything)})
	if err != nil {
		f.Fatal(err)
	}
	content, _ := open(small, nil)
	f.Add(content)
	builtin, err := os.ReadFile("../../profiles/builtin/policy.stored")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(builtin[len(builtin)/8:])
	for i := 0; i < len(content); i += len(content) / 20 {
		changed := slices.Clone(content)
		changed[i] ^= 0x41
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		l, ok := read(content)
		if !ok {
			return
		}
		if _, err := Write(nil, l); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
