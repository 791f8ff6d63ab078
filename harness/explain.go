package harness

import (
	"context"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/prose"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// Explanation says which rules led to a decision.
type Explanation struct {
	Profile  kernel.Profile
	Decision kernel.Decision
	Reasons  []Reason // every answer of every rule, the deciding ones first
	Effects  []EffectReason
	Answered []kernel.Result // questions that answers in the intent have settled
}

// Reason is one answer of a rule. Module is "kernel" if no rule permits an effect: the
// kernel gives this answer itself.
type Reason struct {
	policy.Fired
	Decides bool // whether the answer is among those that decided the outcome
	Value   any  // the value at the path, a decoded canonical value
}

// EffectReason is one effect of the intent, with the rules that permit it. An effect
// without rules is refused.
type EffectReason struct {
	kernel.Effect
	Permits []policy.Permit
}

// Explain decides one intent as Run does, and says which rules decided. A call of a tool of
// an MCP server or a client is explained as a hook or a gate asks about it. The error is
// always a *result.RunError.
func Explain(ctx context.Context, deps Deps, gate *Gate, req Request) (x Explanation, err error) {
	defer func() {
		if p := recover(); p != nil {
			x, err = Explanation{}, runerr.Panicked()
		}
	}()
	if _, intent, err := read(deps.Specs, req); err == nil && req.Calls == nil && gate.Tools == nil {
		req.Calls = intent.ForeignCalls()
	}
	in, intent, err := gate.Ask(deps.Specs, req)
	if err != nil {
		return Explanation{}, err
	}
	why, err := gate.Judge.Explain(ctx, in)
	if err != nil {
		return Explanation{}, runerr.Policy(err)
	}
	d, err := kernel.Decide(intent, in.Effects, in.Findings, why.Verdict)
	if err != nil {
		return Explanation{}, runerr.Internal("the decision has no canonical form", err)
	}
	x = Explanation{Profile: gate.Profile, Decision: d, Answered: why.Verdict.Answered}
	for _, f := range append(unpermitted(d), why.Fired...) {
		value, _ := canon.Lookup(in.Intent, f.Path)
		x.Reasons = append(x.Reasons, Reason{Fired: f, Decides: decides(d.Outcome, f.Rule), Value: value})
	}
	for _, e := range in.Effects {
		er := EffectReason{Effect: e}
		for _, p := range why.Permits {
			if p.Effect == e.ID {
				er.Permits = append(er.Permits, p)
			}
		}
		x.Effects = append(x.Effects, er)
	}
	return x, nil
}

// decides says whether answers of a rule cause an outcome.
func decides(o kernel.Outcome, rule string) bool {
	return o == kernel.OutcomeRefuse && rule == "deny" || o == kernel.OutcomeClarify && rule == "clarify"
}

// unpermitted returns the kernel's own denials.
func unpermitted(d kernel.Decision) []policy.Fired {
	var list []policy.Fired
	for _, f := range d.Findings {
		if f.ID == kernel.IDNotPermitted && f.Module == kernel.ModuleKernel {
			list = append(list, policy.Fired{Result: f, Rule: "deny", Fix: notPermittedFix})
		}
	}
	return list
}

const notPermittedFix = "leave the effect out, or use a profile whose rules permit it"

// Records returns the records of every error code, invariant and reason of the program
// itself, of every reason of an execution, of the rules of run packs, and of the words of
// a comparison, in that order. The records of rules belong to the policy (policy.Rule).
func Records() []result.Record {
	records := append(result.Records(), result.Record{
		ID: kernel.IDNotPermitted, Kind: result.RecordRule, Title: kernel.TitleNotPermitted, Since: "0.1.0",
		Why: "Every effect needs a permit of the built-in policy; one that no permit names is refused",
		Fix: notPermittedFix,
	})
	records = slices.Concat(append(records, report.Unannounced()), result.ExecutionRecords(), packRecords())
	for _, m := range grade.Meanings() { // some ids stand for two words, with a record each
		records = append(records, result.Record{ID: m.ID, Kind: result.RecordKind(m.Kind), Title: m.Title, Why: m.Why, Fix: m.Fix, Since: "0.1.0"})
	}
	return records
}

// packRecords returns the records of the rules of run packs, except those about the
// RunResult in a pack.
func packRecords() []result.Record {
	var list []result.Record
	for _, r := range verify.Rules() {
		if strings.HasPrefix(r.ID, "RS") {
			continue
		}
		fix := "do not use the pack: get it again from where it was made, or make another one with fiador run --pack"
		if r.ID == "PK2" {
			fix = "take what does not belong there out of the folder; what is nobody's is no reason to trust the rest less"
		}
		if r.Level == sign.WithKeys {
			fix = "check that the key is the right one; otherwise do not use the pack, or have it signed again by whoever vouches for it"
		}
		list = append(list, result.Record{ID: r.ID, Kind: result.RecordPack, Title: r.Title, Why: r.Description, Fix: fix, Since: "0.1.0"})
	}
	return list
}

// Rules returns the records of every rule of a policy, by layer and id. The error is
// always a *result.RunError.
func Rules(ctx context.Context, s Sources, set *specs.Set, limits policy.Limits) ([]policy.Rule, error) {
	o, err := s.Read(set, limits)
	if err != nil {
		return nil, err
	}
	engine, err := policy.New(ctx, o.Profile, o.Layers, limits)
	if err != nil {
		return nil, runerr.Load(err)
	}
	rules, err := engine.Rules()
	if err != nil {
		return nil, runerr.Load(err)
	}
	for i, r := range rules {
		if r.Layer == policy.Builtin && r.ID == "PLACEHOLDER" {
			rules[i].Description += ". " + prose.WordsMentioned
		}
	}
	return rules, nil
}

// Weights returns the weight that each built-in profile gives to each rule with a free
// weight: by rule id, then by profile. The error is always a *result.RunError.
func Weights(s Sources, set *specs.Set) (map[string]map[string]string, error) {
	weights := map[string]map[string]string{}
	for _, name := range profiles.Names() {
		p, err := profile.Load(s.Builtin, name, set)
		if err != nil {
			return nil, runerr.Load(err)
		}
		for id, w := range p.Severity {
			if weights[id] == nil {
				weights[id] = map[string]string{}
			}
			weights[id][name] = string(w)
		}
	}
	return weights, nil
}
