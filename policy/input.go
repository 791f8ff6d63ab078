package policy

import (
	"cmp"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
)

// Input is one question to the policy. Intent is a decoded canonical document:
// map[string]any, []any, string, json.Number, bool and nil.
//
// Contract is an earlier version if a replay asks as it was asked then, and otherwise empty.
type Input struct {
	Contract      string
	Mode          string
	ModelMode     string
	KernelVersion string
	IntentSHA256  string
	Intent        any
	Effects       []kernel.Effect
	Findings      []kernel.Finding
}

// Document returns the input document that the rules see
// (specs/policy-input.schema.json), with no answers yet. It consists of JSON values alone,
// and every member is always present.
func (in Input) Document() map[string]any {
	effects := make([]any, len(in.Effects))
	first := in.Contract == ContractFirst
	for i := range in.Effects {
		effect := effectValue(&in.Effects[i])
		if effects[i] = effect; first {
			delete(effect, "listed")
		}
	}
	findings := make([]any, 0, len(in.Findings))
	for _, f := range in.Findings {
		if first && f.Code == finding.EnvUnlisted {
			continue
		}
		findings = append(findings, map[string]any{
			"code":   f.Code,
			"path":   f.Path,
			"effect": f.Effect,
			"value":  f.Value,
			"other":  f.Other,
		})
	}
	doc := map[string]any{
		"contract":       cmp.Or(in.Contract, ContractVersion),
		"mode":           in.Mode,
		"model_mode":     in.ModelMode,
		"kernel_version": in.KernelVersion,
		"intent_sha256":  in.IntentSHA256,
		"intent":         in.Intent,
		"effects":        effects,
		"findings":       findings,
	}
	if in.Contract == "" {
		doc["answers"] = []any{}
	}
	return doc
}

// answers returns the answers in the intent, by the id of the question. An earlier contract
// knows none.
func (in Input) answers() map[string]any {
	if in.Contract != "" {
		return nil
	}
	given, _ := canon.Lookup(in.Intent, "/context/answers")
	answers, _ := given.(map[string]any)
	return answers
}

// inputTerm returns the document as the rules of a layer see it, for one evaluation of
// the layer. Nothing writes to doc.
//
// For an embedded layer, a member becomes a term when a rule reads it, because rules
// never read most of an intent. In such a document a value that JSON does not have is a
// panic, which fails the evaluation. Other layers may replace members by "with". In
// such a document the replacement would be visible outside its expression, so these
// layers get a document of terms.
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

// effectValue returns exactly the members of the effect's kind.
func effectValue(e *kernel.Effect) map[string]any {
	m := map[string]any{
		"id":      e.ID,
		"kind":    string(e.Kind),
		"pointer": e.Pointer,
		"listed":  e.Listed,
	}
	switch e.Kind {
	case kernel.EffectRead, kernel.EffectWrite:
		m["path"] = e.Path
	case kernel.EffectRun:
		m["command"], m["argv"], m["env"] = e.Command, canon.List(e.Argv), canon.List(e.Env)
	case kernel.EffectCall:
		m["tool_id"], m["adapter_id"] = e.ToolID, e.AdapterID
	}
	if e.Tool != nil {
		m["tool"] = toolValue(e.Tool)
	}
	return m
}

// toolValue returns the documents of a registry behind an effect, or what is known of a
// tool that no registry has.
func toolValue(t *kernel.Tool) map[string]any {
	m := map[string]any{"type": t.Type}
	if t.AdapterSHA256 != "" {
		m["version"], m["status"], m["hosts"] = t.Version, t.Status, canon.List(t.Hosts)
		m["adapter_sha256"] = string(t.AdapterSHA256)
	}
	for name, value := range map[string]string{
		"tool_sha256": string(t.ToolSHA256), "server_sha256": string(t.ServerSHA256), "operation": t.Operation, "method": t.Method,
	} {
		if value != "" {
			m[name] = value
		}
	}
	return m
}
