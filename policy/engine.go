package policy

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Engine is a compiled profile. Any number of goroutines may call its methods at once.
type Engine struct {
	lim        Limits
	layers     []*compiledLayer
	sources    []Layer
	store      storage.Store // holds data.profile and data.records; never written again
	provenance result.Provenance

	permitRules func() ([]permitRule, error) // compiled once, when they are first asked for
}

// New compiles every layer alone, under the frozen capabilities, for a profile. Layers
// answer in the given order. The error is an *Error; KindWatchdog means that the
// process must end.
func New(ctx context.Context, p kernel.Profile, layers []Layer, lim Limits) (*Engine, error) {
	return WatchCompile(ctx, lim, layers, "compiling the policy", func() (*Engine, error) {
		return compileAll(p, layers, lim.orDefault())
	})
}

// compileAll is New without the watch. It fails for the first layer that does not compile.
func compileAll(p kernel.Profile, layers []Layer, lim Limits) (*Engine, error) {
	if err := checkLayers(layers); err != nil {
		return nil, err
	}
	e := &Engine{lim: lim, sources: layers}
	e.permitRules = sync.OnceValues(e.compilePermits)
	for _, l := range layers {
		c, err := compileLayer(l, lim)
		if err != nil {
			return nil, err
		}
		e.layers = append(e.layers, c)
	}
	profile, digest, err := canon.Artifact(p)
	if err != nil {
		return nil, &Error{Kind: KindProfile, Msg: "profile " + canon.Quote(p.Name) + " has no canonical form"}
	}
	if e.store, err = newLazyStore(profile, func() (map[string]any, error) { return recordData(layers) }); err != nil {
		return nil, err
	}
	e.provenance = newProvenance(p, digest, layers)
	return e, nil
}

// checkLayers refuses layers whose answers could not be traced to one source.
func checkLayers(layers []Layer) error {
	if len(layers) == 0 {
		return &Error{Kind: KindModule, Msg: "a policy needs at least one layer"}
	}
	packages, modules := map[string]bool{}, map[string]bool{}
	for _, l := range layers {
		if packages[l.Package] {
			return &Error{Kind: KindModule, Msg: "layer " + canon.Quote(l.Package) + " is given twice"}
		}
		packages[l.Package] = true
		for _, m := range l.Modules {
			if modules[m.Name] {
				return moduleErrorf(m.Name, 0, "module is given twice")
			}
			modules[m.Name] = true
		}
	}
	return nil
}

// recordData returns the document of the file of records of the layers, or nil. Compiling
// a layer has checked its records, unless the layer is embedded.
func recordData(layers []Layer) (map[string]any, error) {
	for _, l := range layers {
		if file := l.records(); file != nil {
			doc, err := canon.Parse(file.Source, len(file.Source))
			if err != nil {
				return nil, file.Errorf(0, "%v", err)
			}
			data, _ := doc.Value().(map[string]any)
			return data, nil
		}
	}
	return nil, nil
}

// Eval asks every layer and joins the answers, with each list sorted. The error is an
// *Error, and comes without a verdict. Limits.Deadline bounds all layers together that
// are not embedded. The time of the embedded layers grows with the intent alone, and a
// slow machine gives the same answer. The caller must not change in before Eval
// returns. After KindWatchdog the caller must never change it.
func (e *Engine) Eval(ctx context.Context, in Input) (kernel.Verdict, error) {
	doc := in.Document()
	var v kernel.Verdict
	for _, embedded := range []bool{true, false} {
		var layers []*compiledLayer
		for _, l := range e.layers {
			if l.embedded == embedded {
				layers = append(layers, l)
			}
		}
		if len(layers) == 0 {
			continue
		}
		lim := e.lim
		if embedded {
			lim.Deadline = max(lim.Deadline, lim.Embedded)
		}
		before := v
		after, err := WatchEval(ctx, lim, e.sources, "evaluating the policy", func(cancel topdown.Cancel) (kernel.Verdict, error) {
			return e.eval(ctx, cancel, in, doc, layers, before)
		})
		if err != nil {
			return kernel.Verdict{}, err
		}
		v = after
	}
	sortVerdict(&v)
	return v, nil
}

// eval adds the answers of the layers to v. doc is the document of the input.
func (e *Engine) eval(ctx context.Context, cancel topdown.Cancel, in Input, doc map[string]any, layers []*compiledLayer, v kernel.Verdict) (kernel.Verdict, error) {
	for _, l := range layers {
		own, err := e.settle(ctx, cancel, in, doc, l)
		if err != nil {
			return kernel.Verdict{}, err
		}
		v.Permits = append(v.Permits, own.Permits...)
		v.Deny = append(v.Deny, own.Deny...)
		v.Clarify = append(v.Clarify, own.Clarify...)
		v.Note = append(v.Note, own.Note...)
		v.Answered = append(v.Answered, own.Answered...)
		a := answerReader{layer: l, lim: e.lim, in: in}
		if err := a.offered(v.Clarify); err != nil {
			return kernel.Verdict{}, err
		}
	}
	return v, nil
}

// answers evaluates the layer's query.
func (c *compiledLayer) answers(ctx context.Context, cancel topdown.Cancel, store storage.Store, input *ast.Term) (map[string]ast.Value, error) {
	// An index skips a rule whose operands a function would refuse, and would hide the
	// error.
	rows, err := run(ctx, store, c.query(c.asked, cancel).WithIndexing(c.embedded).WithInput(input))
	if err != nil {
		return nil, evalError(c.pkg, err)
	}
	if len(rows) != 1 {
		return nil, &Error{Kind: KindEval, Module: c.pkg, Msg: "the layer's answer is undefined"}
	}
	values := make(map[string]ast.Value, len(c.rules))
	for _, rule := range c.rules {
		if t := rows[0][ast.Var(rule)]; t != nil {
			values[rule] = t.Value
		}
	}
	return values, nil
}

// Provenance returns the digests of everything that the engine decides by.
func (e *Engine) Provenance() result.Provenance {
	p := e.provenance
	p.Modules = slices.Clone(p.Modules)
	return p
}

// IDs returns the ids of the rules of the layer of a package, sorted.
func (e *Engine) IDs(pkg string) []string {
	return slices.Sorted(maps.Keys(e.kinds(pkg)))
}

// Choices returns the ids of a layer's rules that occur under at least two of deny,
// clarify and note, sorted. A profile's severity can choose among these.
func (e *Engine) Choices(pkg string) []string {
	kinds := e.kinds(pkg)
	maps.DeleteFunc(kinds, func(_ string, n int) bool { return n < 2 })
	return slices.Sorted(maps.Keys(kinds))
}

// kinds returns, by id, the number of kinds under which an id of a layer occurs.
func (e *Engine) kinds(pkg string) map[string]int {
	kinds := map[string]int{}
	for _, l := range e.layers {
		if l.pkg != pkg {
			continue
		}
		records, _ := l.records() // compiling has refused records that cannot be read
		for id, r := range records {
			kinds[id] = len(r.Kinds)
		}
	}
	return kinds
}

// Rules returns the records of all rule ids, by layer and id, from the sources. An error
// is an *Error, and comes from an embedded layer.
func (e *Engine) Rules() ([]Rule, error) {
	var rules []Rule
	for _, l := range e.layers {
		records, err := l.records()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			r.Kinds = slices.Clone(r.Kinds)
			r.File = fileOf(e.sources, r.Module)
			rules = append(rules, r)
		}
	}
	slices.SortFunc(rules, func(a, b Rule) int {
		return cmp.Or(strings.Compare(a.Layer, b.Layer), strings.Compare(a.ID, b.ID))
	})
	return rules, nil
}
