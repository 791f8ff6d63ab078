package policy

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
	"github.com/fiador/fiador/profiles"
)

var updateStored = flag.Bool("update-stored", false, "write the stored form of the built-in policy")

const storedFile = "../profiles/builtin/" + StoredFile

// storedLayer returns the built-in layer with its stored form.
func storedLayer(t testing.TB) Layer {
	t.Helper()
	l := builtinLayer(t)
	form, err := os.ReadFile(storedFile)
	if err != nil {
		t.Fatal(err)
	}
	l.Embedded, l.Stored = true, form
	return l
}

// usesStored says whether an engine would be made from the stored form of a layer.
func usesStored(l Layer) bool {
	return openLayer(l) != nil
}

// TestStoredForm: the stored form of the built-in policy is the one that the sources, the
// capabilities and the linked version of OPA give.
func TestStoredForm(t *testing.T) {
	want, err := Store(builtinLayer(t))
	if err != nil {
		t.Fatal(err)
	}
	if *updateStored {
		if err := os.WriteFile(storedFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := storedLayer(t)
	if !bytes.Equal(l.Stored, want) || !usesStored(l) {
		t.Fatalf("%s is not made from the sources that stand beside it: go generate ./profiles", storedFile)
	}
	if again, err := Store(l); err != nil || !bytes.Equal(again, want) {
		t.Errorf("the second form differs from the first, error %v", err)
	}
}

// TestStoredModules: the modules that are read from the stored form are those that the
// compiler made, with the row of every node. The records are those of the sources.
func TestStoredModules(t *testing.T) {
	l := builtinLayer(t)
	l.Embedded = true
	compiled, err := compileLayer(l, patient())
	if err != nil {
		t.Fatal(err)
	}
	read := openLayer(storedLayer(t))
	if read == nil {
		t.Fatal("the stored form is not used")
	}
	for key, h := range compiled.ids {
		h.title, h.why = "", "" // explain reads those of a permit from the Rego
		compiled.ids[key] = h
	}
	if !reflect.DeepEqual(read.ids, compiled.ids) || !slices.Equal(read.rules, compiled.rules) {
		t.Errorf("rules are\n%v\n%v\nwant\n%v\n%v", read.rules, read.ids, compiled.rules, compiled.ids)
	}
	wantRecords, err := compiled.records()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read.records(); err != nil || !reflect.DeepEqual(got, wantRecords) {
		t.Errorf("records are\n%+v (error %v)\nwant\n%+v", got, err, wantRecords)
	}
	for name, want := range compiled.compiler.Modules {
		got := read.compiler.Modules[name]
		if got.Compare(want) != 0 || !slices.Equal(rows(got), rows(want)) {
			t.Errorf("%s is read as\n%v\nwant\n%v", name, got, want)
		}
		for _, r := range got.Rules {
			if r.Module != got {
				t.Errorf("%s: %v belongs to another module", name, r.Head)
			}
		}
	}
	count := func(c *compiledLayer) (indices int) {
		c.compiler.RuleTree.DepthFirst(func(n *ast.TreeNode) bool {
			if n.Index != nil {
				indices++
			}
			return false
		})
		return indices
	}
	if got, want := count(read), count(compiled); got != want || want == 0 {
		t.Errorf("%d rules are indexed, want %d", got, want)
	}
}

// rows returns the type and the place of every node of a module.
func rows(m *ast.Module) (list []string) {
	ast.NewGenericVisitor(func(x any) bool {
		if n, ok := x.(interface{ Loc() *ast.Location }); ok {
			at := ""
			if l := n.Loc(); l != nil {
				at = fmt.Sprint(l.File, ":", l.Row)
			}
			list = append(list, fmt.Sprintf("%T %s", x, at))
		}
		if e, ok := x.(*ast.Expr); ok {
			list = append(list, fmt.Sprint(e.Index, e.Generated, e.Negated))
		}
		return false
	}).Walk(m)
	return list
}

// TestStoredVerdicts: on every vector, under each profile, the stored form and the sources
// give the same verdict. In the short form, each intent is decided under one profile.
func TestStoredVerdicts(t *testing.T) {
	for n, profile := range profiles.Names() {
		p := BuiltinProfile(profile)
		inputs := vectorInputs(t, p)
		l := storedLayer(t)
		stored, err := New(context.Background(), p, []Layer{l}, patient())
		if err != nil {
			t.Fatal(err)
		}
		l.Stored = nil
		compiled, err := New(context.Background(), p, []Layer{l}, patient())
		if err != nil {
			t.Fatal(err)
		}
		for i, in := range inputs {
			if i%rehearsal.Stride(3) != n%rehearsal.Stride(3) {
				continue
			}
			want, wantErr := compiled.Eval(context.Background(), in)
			got, err := stored.Eval(context.Background(), in)
			if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s: the verdict on %v is\n%+v (error %v)\nwant\n%+v (error %v)", profile, in.Intent, got, err, want, wantErr)
			}
		}
	}
}

// TestStoredError: an error of the evaluation has the same text and row with the stored
// form.
func TestStoredError(t *testing.T) {
	l := Layer{Package: Builtin, Embedded: true, Modules: []Module{{Name: "builtin/x.rego", Source: []byte(
		"package gate.builtin\n\nimport rego.v1\n\npermit contains e.id if some e in input.effects\n\n# METADATA\n# title: t\n# description: d\n# custom:\n#   id: A_RULE\ndeny contains {\"id\": \"A_RULE\", \"path\": \"\", \"msg\": \"m\"} if {\n\tinput.mode != \"\"\n\tto_number(input.mode) > 5\n}\n")}}}
	form, err := Store(l)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, l.Stored = range [][]byte{nil, form} {
		if got := usesStored(l); got != (l.Stored != nil) {
			t.Fatalf("the stored form is used: %t", got)
		}
		e, err := New(context.Background(), testProfile(), []Layer{l}, patient())
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Eval(context.Background(), testInput(t))
		asError(t, err, KindEval, "builtin/x.rego:14: function \"to_number\"")
		said = append(said, err.Error())
	}
	if said[0] != said[1] {
		t.Errorf("%q, and with the stored form %q", said[0], said[1])
	}
}

// TestStoredChanged: a form with one changed byte, of other sources or for other
// capabilities is not used. The layer then decides from its sources.
func TestStoredChanged(t *testing.T) {
	l := storedLayer(t)
	in := testInput(t)
	verdict := func(l Layer) string {
		e, err := New(context.Background(), testProfile(), []Layer{l}, patient())
		if err != nil {
			return err.Error()
		}
		v, err := e.Eval(context.Background(), in)
		return fmt.Sprintf("%+v %v", v, err)
	}
	want := verdict(l)
	for i := 0; i < len(l.Stored); i += rehearsal.Stride(97) {
		other := l
		other.Stored = slices.Clone(l.Stored)
		other.Stored[i] ^= 1 << (i % 8)
		if usesStored(other) {
			t.Fatalf("byte %d is changed, and the form is used", i)
		}
		if i%5000 == 0 && verdict(other) != want {
			t.Errorf("byte %d: another verdict", i)
		}
	}
	for name, change := range map[string]func(l *Layer){
		"source":        func(l *Layer) { l.Modules[0].Source = append(slices.Clone(l.Modules[0].Source), '\n') },
		"records":       func(l *Layer) { l.Modules[1].Source = append(slices.Clone(l.Modules[1].Source), '\n') },
		"name":          func(l *Layer) { l.Modules[0].Name = "builtin/other.rego" },
		"order":         func(l *Layer) { l.Modules[0], l.Modules[1] = l.Modules[1], l.Modules[0] },
		"fewer modules": func(l *Layer) { l.Modules = l.Modules[1:] },
		"package":       func(l *Layer) { l.Package = "gate.org.builtin" },
		"shorter":       func(l *Layer) { l.Stored = l.Stored[:len(l.Stored)-1] },
		"longer":        func(l *Layer) { l.Stored = append(slices.Clone(l.Stored), 0) },
		"empty":         func(l *Layer) { l.Stored = []byte{} },
	} {
		other := l
		other.Modules = slices.Clone(l.Modules)
		if change(&other); usesStored(other) {
			t.Errorf("%s: the form is used", name)
		}
	}
	sum := capabilitiesSum.Make
	defer func() { capabilitiesSum = lazy.Value[canon.ContentHash]{Make: sum} }()
	capabilitiesSum = lazy.Value[canon.ContentHash]{Make: func() canon.ContentHash { return canon.Sum(append(slices.Clone(capabilitiesJSON), '\n')) }}
	if usesStored(l) {
		t.Error("capabilities: the form is used")
	}
}

// TestStoredAllocations: opening the built-in layer makes few objects. They are nearly all
// nodes, so that their number is the same on every machine.
func TestStoredAllocations(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	l := storedLayer(t)
	open := func() {
		if _, err := New(context.Background(), testProfile(), []Layer{l}, patient()); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(5, open); n > 3500 {
		t.Errorf("%v allocations, and at most 3500 are expected", n)
	}
}

// TestStoredOnlyEmbedded: a layer that is not embedded is compiled, whatever its form says.
func TestStoredOnlyEmbedded(t *testing.T) {
	l := storedLayer(t)
	l.Embedded = false
	c, err := compileLayer(l, patient())
	if err != nil {
		t.Fatal(err)
	}
	if c.embedded || c.compiler.Graph == nil {
		t.Error("the layer is not compiled")
	}
}
