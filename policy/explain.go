package policy

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// Place is the place where a rule begins.
type Place struct {
	Module string `json:"module"` // as the provenance of a result names the module
	File   string `json:"file"`   // as the author finds the file, or ""
	Line   int    `json:"line"`
}

// Fired is one answer of a deny, clarify or note, with the rule that gave it.
type Fired struct {
	kernel.Result
	Rule  string // deny, clarify or note
	Fix   string // fix of the answer, else of the rule's record
	Place Place
}

// Permit is one effect and one rule that permits it.
type Permit struct {
	Effect string
	Title  string // title of the rule's METADATA
	Why    string // description of the rule's METADATA
	Place  Place
}

// Explanation is a verdict together with the rules that gave it. Fired has every answer
// of the verdict: first denials, then questions, then notes, each list in the verdict's
// order. Permits are sorted by effect and place.
type Explanation struct {
	Verdict kernel.Verdict
	Fired   []Fired
	Permits []Permit
}

// Explain asks every layer as Eval does, and finds the rules that answered. An id leads
// to one rule of a kind. To find the permits that hold, Explain asks the built-in layer
// once for each permit rule, without the other permit rules. The error is an *Error.
func (e *Engine) Explain(ctx context.Context, in Input) (Explanation, error) {
	v, err := e.Eval(ctx, in)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Verdict: v}
	for _, list := range []struct {
		rule    string
		results []kernel.Result
	}{{ruleDeny, v.Deny}, {ruleClarify, v.Clarify}, {ruleNote, v.Note}} {
		for _, r := range list.results {
			f, err := e.fired(list.rule, r)
			if err != nil {
				return Explanation{}, located(err, e.sources)
			}
			x.Fired = append(x.Fired, f)
		}
	}
	cancel := topdown.NewCancel()
	t := task{what: "explaining the verdict", failed: KindEval, stop: cancel.Cancel}
	lim := e.lim
	lim.Deadline += lim.Compile // the first call compiles each permit rule
	x.Permits, err = watched(ctx, lim, t, func() ([]Permit, error) { return e.permits(ctx, cancel, in) })
	return x, located(err, e.sources)
}

// fired finds the rule of an answer. An answer of a module that no layer has is an error.
func (e *Engine) fired(rule string, r kernel.Result) (Fired, error) {
	for _, l := range e.layers {
		if l.pkg == r.Module {
			h, ok := l.ids[rule+" "+r.ID]
			if !ok {
				records, err := l.records()
				if err != nil {
					return Fired{}, err
				}
				h = head{module: records[r.ID].Module, line: records[r.ID].Line}
			}
			return Fired{Result: r, Rule: rule, Fix: r.Fix, Place: e.place(h)}, nil
		}
	}
	return Fired{}, &Error{Kind: KindEval, Module: r.Module, Rule: r.ID, Msg: "no layer has the rule"}
}

func (e *Engine) place(h head) Place {
	return Place{Module: h.module, File: fileOf(e.sources, h.module), Line: h.line}
}

// permitRule is a permit rule of the built-in layer, compiled without the others.
type permitRule struct {
	head  head
	alone *compiledLayer
}

// compilePermits compiles every permit rule of the built-in layer without the others.
func (e *Engine) compilePermits() ([]permitRule, error) {
	var rules []permitRule
	for _, l := range e.sources {
		if l.Package != Builtin {
			continue
		}
		p, _, err := parseLayer(l)
		if err != nil {
			return nil, err
		}
		for _, h := range p.heads {
			if h.rule != rulePermit {
				continue
			}
			alone := newCompiledLayer(l.Package, frozenCapabilities.Get())
			alone.rules = []string{rulePermit}
			if err := alone.compile(onlyPermit(p.mods, h)); err != nil {
				return nil, err
			}
			rules = append(rules, permitRule{h, alone})
		}
	}
	return rules, nil
}

// permits asks the built-in layer once for each of its permit rules.
func (e *Engine) permits(ctx context.Context, cancel topdown.Cancel, in Input) ([]Permit, error) {
	if len(in.Effects) == 0 {
		return nil, nil
	}
	rules, err := e.permitRules()
	if err != nil {
		return nil, err
	}
	var permits []Permit
	for _, r := range rules {
		input, err := inputTerm(in.Document(), false)
		if err != nil {
			return nil, err
		}
		values, err := r.alone.answers(ctx, cancel, e.store, input)
		if err != nil {
			return nil, err
		}
		set, _ := values[rulePermit].(ast.Set)
		a := answerReader{layer: r.alone, lim: e.lim, in: in}
		effects, err := a.permits(set)
		if err != nil {
			return nil, err
		}
		for _, id := range effects {
			permits = append(permits, Permit{Effect: id, Title: r.head.title, Why: r.head.why, Place: e.place(r.head)})
		}
	}
	slices.SortFunc(permits, func(a, b Permit) int {
		return cmp.Or(canon.Compare(a.Effect, b.Effect), canon.Compare(a.Place.Module, b.Place.Module), cmp.Compare(a.Place.Line, b.Place.Line))
	})
	return permits, nil
}

// onlyPermit returns the layer's modules without any permit rule other than keep.
func onlyPermit(mods map[string]*ast.Module, keep head) map[string]*ast.Module {
	out := make(map[string]*ast.Module, len(mods))
	for name, mod := range mods {
		m := *mod
		m.Rules = slices.DeleteFunc(slices.Clone(mod.Rules), func(r *ast.Rule) bool {
			return r.Head.Ref()[0].Value.Compare(ast.Var(rulePermit)) == 0 && (name != keep.module || r.Location.Row != keep.line)
		})
		out[name] = &m
	}
	return out
}
