package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel"
)

// Input is one question to the policy. Intent is a decoded canonical document:
// map[string]any, []any, string, json.Number, bool and nil.
type Input struct {
	Mode          string
	ModelMode     string
	KernelVersion string
	IntentSHA256  string
	Intent        any
	Effects       []kernel.Effect
	Findings      []kernel.Finding
}

// inputValue builds the input document. Every member is always present.
func inputValue(in Input) (*ast.Term, error) {
	intent, err := ast.InterfaceToValue(in.Intent)
	if err != nil {
		return nil, &Error{Kind: KindEval, Msg: "the intent is not a decoded document"}
	}
	effects := make([]*ast.Term, len(in.Effects))
	for i := range in.Effects {
		effects[i] = effectTerm(&in.Effects[i])
	}
	findings := make([]*ast.Term, len(in.Findings))
	for i, f := range in.Findings {
		findings[i] = ast.ObjectTerm(
			member("code", f.Code),
			member("path", f.Path),
			member("effect", f.Effect),
			member("value", f.Value),
			member("other", f.Other),
		)
	}
	return ast.ObjectTerm(
		member("contract", ContractVersion),
		member("mode", in.Mode),
		member("model_mode", in.ModelMode),
		member("kernel_version", in.KernelVersion),
		member("intent_sha256", in.IntentSHA256),
		ast.Item(ast.InternedTerm("intent"), ast.NewTerm(intent)),
		ast.Item(ast.InternedTerm("effects"), ast.ArrayTerm(effects...)),
		ast.Item(ast.InternedTerm("findings"), ast.ArrayTerm(findings...)),
	), nil
}

// effectTerm has the members of the effect's kind, all of them and no others.
func effectTerm(e *kernel.Effect) *ast.Term {
	items := [][2]*ast.Term{
		member("id", e.ID),
		member("kind", string(e.Kind)),
		member("pointer", e.Pointer),
	}
	switch e.Kind {
	case kernel.EffectRead, kernel.EffectWrite:
		items = append(items, member("path", e.Path))
	case kernel.EffectRun:
		items = append(items, member("command", e.Command), listMember("argv", e.Argv), listMember("env", e.Env))
	case kernel.EffectCall:
		items = append(items, member("tool_id", e.ToolID), member("adapter_id", e.AdapterID))
	}
	return ast.ObjectTerm(items...)
}

func member(name, value string) [2]*ast.Term {
	return ast.Item(ast.InternedTerm(name), ast.InternedTerm(value))
}

func listMember(name string, values []string) [2]*ast.Term {
	terms := make([]*ast.Term, len(values))
	for i, v := range values {
		terms[i] = ast.InternedTerm(v)
	}
	return ast.Item(ast.InternedTerm(name), ast.ArrayTerm(terms...))
}
