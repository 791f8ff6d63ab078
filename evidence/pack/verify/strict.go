package verify

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// The strict level recomputes. It compares values that a pack contains twice. It
// recomputes values that follow from others in the pack, and compares the results. So no
// value can be changed in one place alone.
//
// A file is first compared with its exact shape (ST2, ST4 and ST7 to ST12): the members
// that this program writes, their types and their bounds, and no others. A reader may
// know more members. A verifier that accepts unknown members would confirm them. The
// meaning of a file is checked only if its shape is right, and the shapes of all files
// that it is compared with. So one fault gives one violation, not many.
//
// Everything here takes time that is linear in the size of the pack, except sorting.

// strict checks the rules that the strict level adds.
func (v *verifier) strict() {
	if v.pack.More {
		return // chance decides which names were read
	}
	s := &strictLevel{verifier: v, counts: map[string]int{}, paths: pathBook{}}
	s.canonical()
	s.readFiles()
	s.invariants()
	s.presence()

	s.checkRun()
	s.checkBundle()
	s.recorded()
	s.checkPolicy()
	s.checkModules()
	s.checkExecution()
	s.checkEvidence()
	s.checkPatch()
	s.checkRunner()
	s.checkModelIO()
	s.checkToolIO()
	s.checkLedger()
	s.checkMeta()
}

// strictLevel is a pack during the verification at the strict level. A document is nil
// if the pack does not have it, or it does not have its shape.
type strictLevel struct {
	*verifier

	run      *result.RunResult
	bundle   *kernel.Bundle
	evidence *pack.Evidence
	patch    *pack.Patch
	runner   *pack.Runner
	model    *pack.ModelIO
	tool     *pack.ToolIO

	plan plan // of the bundle, if there is one

	counts  map[string]int             // violations by rule
	outputs map[string]*kernel.FileRef // of the execution, by path
	paths   pathBook
	buffer  []byte // of the content that is being hashed
}

// maxOfRule is the maximum number of violations of one rule that are listed.
const maxOfRule = 100

// fault notes a violation. After the hundredth violation of a rule, one more says that
// there are others.
func (s *strictLevel) fault(rule, path, format string, args ...any) {
	s.counts[rule]++
	switch n := s.counts[rule]; {
	case n <= maxOfRule:
		s.add(rule, path, format, args...)
	case n == maxOfRule+1:
		s.add(rule, "", "more than %d violations of this rule", maxOfRule)
	default:
		s.unnamed++
	}
}

// must notes a violation unless a condition holds. Its path and values are made in any
// case, so a loop over files uses fault.
func (s *strictLevel) must(holds bool, rule, path, format string, args ...any) {
	if !holds {
		s.fault(rule, path, format, args...)
	}
}

// canonical checks ST1. ST11 checks the lines of ledger.jsonl.
func (s *strictLevel) canonical() {
	for _, name := range pack.Names() {
		if d := s.doc(name); d != nil && !d.exact {
			s.fault("ST1", name, "%s", d.inexact)
		}
	}
}

// invariants checks RS1 to RS8 and RS3a, under their own ids. A text without a canonical
// form breaks ST1, and is not checked further.
func (s *strictLevel) invariants() {
	d := s.doc(pack.RunFile)
	if d == nil || d.value == nil {
		return
	}
	doc := d.strictly
	if !d.exact {
		text, err := canon.Canonical(d.value)
		if err == nil {
			doc, err = canon.Parse(text, len(text))
		}
		if err != nil {
			return
		}
	}
	for _, c := range result.Checks(d.raw, doc, s.profile()) {
		switch c.Status {
		case result.Fail:
			s.fault(c.ID, pack.RunFile, "%s", c.Fault)
		case result.NotChecked:
			s.notChecked = append(s.notChecked, c.ID+": "+c.Fault)
		}
	}
}

// profile returns the policy that the RunResult names, from the verifier, or nil.
func (s *strictLevel) profile() *kernel.PolicyProfile {
	policy, _ := s.object(pack.RunFile)["policy"].(map[string]any)
	name := text(policy, "name")
	if name == "" || s.opts.Profile == nil {
		return nil
	}
	return s.opts.Profile(name)
}

// whole returns the whole profile that the RunResult names, or nil if the verifier does
// not know it for this kernel version.
func (s *strictLevel) whole() *kernel.Profile {
	if s.run == nil || s.opts.Whole == nil || s.run.KernelVersion != kernel.Version {
		return nil
	}
	return s.opts.Whole(s.run.Policy.Name)
}

// presence checks ST3: the files that each outcome has. PK1 checks that bundle.json,
// evidence.json and runner.json are present.
func (s *strictLevel) presence() {
	run := s.object(pack.RunFile)
	if run == nil {
		return
	}
	if run["kernel_result_kind"] == string(kernel.OutcomeRefuse) {
		s.without(pack.BundleFile, "a REFUSE")
	}
	if _, executed := run["execution"].(map[string]any); !executed {
		for _, name := range []string{pack.EvidenceFile, pack.PatchFile, pack.RunnerFile, pack.ModelFile, pack.ToolFile} {
			s.without(name, "a run that executed nothing")
		}
		return
	}
	if s.evidence == nil || s.run == nil {
		return
	}
	switch {
	case !s.run.Decision.Accepted:
		s.without(pack.PatchFile, "an execution that was rejected")
	case len(s.evidence.ActionResults) == 0:
		s.without(pack.PatchFile, "an execution that changed nothing")
	default:
		s.with(pack.PatchFile, "an execution that changed files")
	}
}

// recorded checks ST3 for the recordings. model_io.json exists if the plan has a call of a
// model, even if the execution ended before it. tool_io.json exists if a call of a tool was
// answered by no command. The plan does not have the type of an adapter, so whether a call
// that nobody has answered would have asked a service cannot be proved.
func (s *strictLevel) recorded() {
	if s.run == nil || s.run.Execution == nil {
		return
	}
	switch {
	case s.run.ModelMode == "none":
		s.without(pack.ModelFile, "an execution without a model")
		s.without(pack.ToolFile, "an execution that records nothing")
		return
	case len(s.plan.modelCalls()) > 0 || s.evidence != nil && slices.ContainsFunc(s.evidence.Calls, func(c pack.CallEvidence) bool { return !s.plan.isBound(c.Action) }):
		s.with(pack.ModelFile, "an execution whose plan has a call")
	case s.plan.whole:
		s.without(pack.ModelFile, "an execution whose plan has no call")
	}
	switch {
	case len(s.served()) > 0:
		s.with(pack.ToolFile, "an execution with a call that a service has answered")
	case s.plan.whole && len(s.plan.calls()) == len(s.plan.modelCalls()):
		s.without(pack.ToolFile, "an execution whose plan has no call of a tool")
	}
}

// without notes a violation if a file exists that should not.
func (s *strictLevel) without(name, why string) {
	s.must(s.pack.File(name) == nil, "ST3", name, "%s does not have it", why)
}

// with notes a violation if a file is missing. A file that could not be read breaks
// another rule.
func (s *strictLevel) with(name, why string) {
	_, there := s.pack.Entry(name)
	s.must(there, "ST3", name, "missing; %s has it", why)
}

// setOf returns the set of the elements of a list.
func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, one := range list {
		set[one] = true
	}
	return set
}

// sortedSet says whether a list is in the order of code units, each element once. If it
// is not, it returns the first wrong index.
func sortedSet(list []string) (int, bool) {
	for i := 1; i < len(list); i++ {
		if canon.Compare(list[i-1], list[i]) >= 0 {
			return i, false
		}
	}
	return 0, true
}

// listed returns a list in the form for messages.
func listed[T ~string](list []T) string {
	var words []string
	for _, w := range list {
		words = append(words, string(w))
	}
	return pack.Quoted(strings.Join(words, " "))
}
