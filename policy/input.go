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

// Document is the input document that the rules see, of JSON values alone
// (specs/policy-input.schema.json). Every member is always present.
func (in Input) Document() map[string]any {
	effects := make([]any, len(in.Effects))
	for i := range in.Effects {
		effects[i] = effectValue(&in.Effects[i])
	}
	findings := make([]any, len(in.Findings))
	for i, f := range in.Findings {
		findings[i] = map[string]any{
			"code":   f.Code,
			"path":   f.Path,
			"effect": f.Effect,
			"value":  f.Value,
			"other":  f.Other,
		}
	}
	return map[string]any{
		"contract":       ContractVersion,
		"mode":           in.Mode,
		"model_mode":     in.ModelMode,
		"kernel_version": in.KernelVersion,
		"intent_sha256":  in.IntentSHA256,
		"intent":         in.Intent,
		"effects":        effects,
		"findings":       findings,
	}
}

// inputTerm is the document as the rules of a layer see it. It is for one
// evaluation of the layer, and nothing writes to doc.
//
// For an embedded layer members become terms when a rule looks at them: most of an
// intent no rule ever looks at. A value that JSON does not have then is a panic,
// which fails the evaluation. Other layers may replace members by "with", which
// would be seen outside its expression in a document of that kind.
func inputTerm(doc map[string]any, embedded bool) (*ast.Term, error) {
	if embedded {
		return ast.NewTerm(ast.LazyObject(doc)), nil
	}
	v, err := ast.InterfaceToValue(doc)
	if err != nil {
		return nil, &Error{Kind: KindEval, Msg: "the intent is not a decoded document"}
	}
	return ast.NewTerm(v), nil
}

// effectValue has the members of the effect's kind, all of them and no others.
func effectValue(e *kernel.Effect) map[string]any {
	m := map[string]any{
		"id":      e.ID,
		"kind":    string(e.Kind),
		"pointer": e.Pointer,
	}
	switch e.Kind {
	case kernel.EffectRead, kernel.EffectWrite:
		m["path"] = e.Path
	case kernel.EffectRun:
		m["command"], m["argv"], m["env"] = e.Command, textValues(e.Argv), textValues(e.Env)
	case kernel.EffectCall:
		m["tool_id"], m["adapter_id"] = e.ToolID, e.AdapterID
	}
	return m
}

func textValues(texts []string) []any {
	list := make([]any, len(texts))
	for i, s := range texts {
		list[i] = s
	}
	return list
}
