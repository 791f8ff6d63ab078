package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

func BenchmarkNewBuiltin(b *testing.B) {
	for _, embedded := range []bool{false, true} {
		b.Run(fmt.Sprintf("embedded=%v", embedded), func(b *testing.B) {
			l := builtinLayer(b)
			l.Embedded = embedded
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(context.Background(), testProfile(), []Layer{l}, patient()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCapabilities(b *testing.B) {
	for b.Loop() {
		frozenCapabilities.Get()
	}
}

// BenchmarkParseBuiltin has a case with the METADATA and a case without it.
func BenchmarkParseBuiltin(b *testing.B) {
	l := builtinLayer(b)
	caps := frozenCapabilities.Get()
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	for _, annotated := range []bool{false, true} {
		b.Run(fmt.Sprintf("annotations=%v", annotated), func(b *testing.B) {
			opts.ProcessAnnotation = annotated
			for b.Loop() {
				for _, m := range l.Modules {
					if _, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), opts); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkCheckBuiltin(b *testing.B) {
	l := builtinLayer(b)
	caps := frozenCapabilities.Get()
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	var mods []*ast.Module
	for _, m := range l.Modules {
		p, err := parseModule(m, l, opts)
		if err != nil {
			b.Fatal(err)
		}
		mods = append(mods, p.mod)
	}
	for b.Loop() {
		for _, m := range mods {
			if err := checkReferences("m", m); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCompileBuiltin(b *testing.B) {
	l := builtinLayer(b)
	caps := frozenCapabilities.Get()
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	mods := map[string]*ast.Module{}
	var heads []head
	for _, m := range l.Modules {
		p, err := parseModule(m, l, opts)
		if err != nil {
			b.Fatal(err)
		}
		mods[m.Name] = p.mod
		heads = append(heads, p.heads...)
	}
	for b.Loop() {
		c := newCompiledLayer(l.Package, caps)
		if err := c.addHeads(heads, l); err != nil {
			b.Fatal(err)
		}
		if err := c.compile(mods); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvalBuiltin(b *testing.B) {
	l := builtinLayer(b)
	l.Embedded = true
	e := newEngine(b, l)
	in := testInput(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Eval(context.Background(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvalBuiltinParallel(b *testing.B) {
	e := newEngine(b, builtinLayer(b))
	in := testInput(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := e.Eval(context.Background(), in); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkEvalRules evaluates a user layer of n rules, one of which fires.
func BenchmarkEvalRules(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := newEngine(b, syntheticLayer(n))
			in := testInput(b)
			for b.Loop() {
				if _, err := e.Eval(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewRules(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := []Layer{syntheticLayer(n)}
			for b.Loop() {
				if _, err := New(context.Background(), testProfile(), l, patient()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// syntheticLayer returns a user layer with n deny rules, each about another command.
func syntheticLayer(n int) Layer {
	var s strings.Builder
	s.WriteString("package gate.user.test\n\nimport future.keywords.not\n")
	for i := range n {
		command := fmt.Sprintf("tool-%d", i)
		if i == n/2 {
			command = "node"
		}
		fmt.Fprintf(&s, `
# METADATA
# title: Rule %d
# description: Command %d is not for this tree
# custom:
#   id: RULE_%d
deny contains {"id": "RULE_%d", "path": e.pointer, "msg": sprintf("%%q is not allowed", [e.command])} if {
	some e in input.effects
	e.kind == "run"
	e.command == %q
}
`, i, i, i, i, command)
	}
	return user(s.String())
}

// BenchmarkOpenBuiltin opens the built-in layer from its stored form and from its
// sources.
func BenchmarkOpenBuiltin(b *testing.B) {
	for _, stored := range []bool{true, false} {
		b.Run(fmt.Sprintf("stored=%v", stored), func(b *testing.B) {
			l := storedLayer(b)
			if !stored {
				l.Stored = nil
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(context.Background(), testProfile(), []Layer{l}, patient()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
