package policy

import (
	_ "embed"
	"iter"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
)

// capabilitiesJSON lists what a policy may use, as the pinned OPA declares it. The
// digest of these bytes is part of every result's provenance.
//
//go:embed capabilities.json
var capabilitiesJSON []byte

var capabilitiesSum = lazy.Value[canon.ContentHash]{Make: func() canon.ContentHash { return canon.Sum(capabilitiesJSON) }}

//go:embed builtins.txt
var builtinsText string

// frozenCapabilities returns the capabilities that modules compile against; nothing writes
// to them. They are built from the list of names, because decoding capabilities.json costs
// about as much as compiling. TestCapabilitiesAreFrozen proves that both are equal, and
// TestEveryBuiltinIsJudged that the engine has every function of the list.
//
// AllowNet is empty and not nil: nil would allow every host.
var frozenCapabilities = lazy.Value[*ast.Capabilities]{Make: func() *ast.Capabilities {
	c := &ast.Capabilities{
		FutureKeywords: []string{"not"},
		Features:       []string{ast.FeatureRegoV1, ast.FeatureTemplateStrings},
		AllowNet:       []string{},
	}
	for name, verdict := range judgedBuiltins() {
		if verdict == "" {
			c.Builtins = append(c.Builtins, ast.BuiltinMap[name])
		}
	}
	return c
}}

// judgedBuiltins yields every line of builtins.txt: the name, and the reason why the
// function is left out, or "" if a policy may call it.
func judgedBuiltins() iter.Seq2[string, string] {
	return func(yield func(name, reason string) bool) {
		for line := range strings.Lines(builtinsText) {
			verdict, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			name, reason, _ := strings.Cut(rest, ": ")
			if (verdict == "allow" || verdict == "omit") && !yield(name, reason) {
				return
			}
		}
	}
}

// whyOmitted returns the reason why a built-in function is left out, or "".
func whyOmitted(name string) string {
	for n, reason := range judgedBuiltins() {
		if n == name {
			return reason
		}
	}
	return ""
}
