package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
)

// Format returns a module in the one layout of Rego. The result parses to the same
// rules. The error is an *Error.
func Format(m Module) ([]byte, error) {
	caps, err := frozenCapabilities()
	if err != nil {
		return nil, err
	}
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	before, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), opts)
	if err != nil {
		return nil, located(parseError(m.Name, err), []Layer{{Modules: []Module{m}}})
	}
	out, err := format.SourceWithOpts(m.Name, m.Source, format.Opts{RegoVersion: ast.RegoV1, ParserOptions: &opts})
	if err != nil {
		return nil, located(parseError(m.Name, err), []Layer{{Modules: []Module{m}}})
	}
	after, err := ast.ParseModuleWithOpts(m.Name, string(out), opts)
	if err != nil || before == nil || !before.Equal(after) {
		e := moduleErrorf(m.Name, 0, "module cannot be laid out without changing it")
		e.File = m.File
		return nil, e
	}
	return out, nil
}
