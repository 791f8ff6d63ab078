package devel

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/fiador/fiador/policy"
)

// Format returns a module in the one layout of Rego. The result parses to the same
// rules. The error is a *policy.Error.
func Format(m policy.Module) ([]byte, error) {
	before, err := parse(m)
	if err != nil {
		return nil, err
	}
	opts := policy.ParserOptions()
	out, err := format.SourceWithOpts(m.Name, m.Source, format.Opts{RegoVersion: ast.RegoV1, ParserOptions: &opts})
	if err != nil {
		return nil, policy.SyntaxErrors(m, err)[0]
	}
	after, err := parse(policy.Module{Name: m.Name, Source: out})
	if err != nil || !before.Equal(after) {
		return nil, m.Errorf(0, "module cannot be laid out without changing it")
	}
	return out, nil
}

// parse parses a module, and makes no check of a layer.
func parse(m policy.Module) (*ast.Module, error) {
	mod, errs := parseAll(m)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return mod, nil
}

// parseAll is parse with all faults.
func parseAll(m policy.Module) (*ast.Module, []*policy.Error) {
	mod, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), policy.ParserOptions())
	if err != nil {
		return nil, policy.SyntaxErrors(m, err)
	}
	return mod, nil
}
