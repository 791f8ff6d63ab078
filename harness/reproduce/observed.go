package reproduce

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// observed is the part of evidence.json and patch.json that does not follow from the
// result and the bundle, as the strict level computes them. It has no content and no
// hash of contents.
type observed struct {
	operations []pack.Operation // by order, then path; without contents and encodings
	results    []pack.ActionResult
	evidence   *pack.Evidence // without results, times and executor; nil: no execution
}

// observedOf reads the observations of a pack. It drops the contents of the patch.
func observedOf(p *pack.Pack) (observed, error) {
	e, err := p.Evidence()
	if err != nil {
		return observed{}, noOriginal(pack.EvidenceFile, err)
	}
	patch, err := p.Patch()
	if err != nil {
		return observed{}, noOriginal(pack.PatchFile, err)
	}
	if e == nil {
		return observed{}, nil
	}
	if patch == nil {
		patch = &pack.Patch{}
	}
	return observation(*e, patch.Operations), nil
}

// observation separates the parts that are compared in different ways.
func observation(e pack.Evidence, list []pack.Operation) observed {
	o := observed{results: e.ActionResults, evidence: &e}
	for _, op := range list {
		op.Content, op.Encoding = nil, ""
		o.operations = append(o.operations, op)
	}
	e.ActionResults = nil
	e.StartedAt, e.CompletedAt, e.TotalDurationMS, e.ExecutorID = "", "", 0, ""
	return o
}

// compareObserved compares the observations of an execution with the pack: first the
// files of the patch, then the evidence.
func (o *Original) compareObserved(rep harness.Report) (Divergence, bool) {
	if rep.Execution == nil {
		return Divergence{}, false
	}
	then, now := o.observed, observation(rep.Packing().Observation())
	d, differs := firstChange(then.operations, now.operations)
	if differs {
		return d, true
	}
	d, differs = firstOf(then.operations, now.operations, func(o pack.Operation) string { return o.Path })
	if differs {
		return d.in(pack.PatchFile, "/operations"), true
	}
	if d, differs = firstOf(then.results, now.results, func(r pack.ActionResult) string { return r.Path }); differs {
		return d.in(pack.EvidenceFile, "/action_results"), true
	}
	if d, differs = differenceOf(then.evidence, now.evidence); differs {
		d.About = actionAt(d.Pointer, then.evidence, now.evidence)
		return d.in(pack.EvidenceFile, ""), true
	}
	return Divergence{}, false
}

// firstChange returns the first path that only one of two patches deletes or makes
// executable. It returns the path as an output, because every reader understands an
// output. A path that existed already before one of the runs does not count.
func firstChange(then, now []pack.Operation) (Divergence, bool) {
	before, after := changesOf(then), changesOf(now)
	for _, p := range canon.Names(before, after) {
		a, b := before[p], after[p]
		unchanged := a == changeNone && b != changeDeleted || b == changeNone && a != changeDeleted
		if a != b && !unchanged {
			return Divergence{Output: p, Recorded: a.text(), Now: b.text()}, true
		}
	}
	return Divergence{}, false
}

// fate says how a patch changes a path.
type fate string

const (
	changeNone          fate = ""
	changeDeleted       fate = "deleted"
	changeExecutable    fate = "executable"
	changeNotExecutable fate = "not executable"
)

func (c fate) text() string { return cmp.Or(string(c), "not deleted") }

func changesOf(list []pack.Operation) map[string]fate {
	changes := make(map[string]fate, len(list))
	for _, o := range list {
		switch {
		case o.Op == pack.OpDelete:
			changes[o.Path] = changeDeleted
		case o.Executable:
			changes[o.Path] = changeExecutable
		default:
			changes[o.Path] = changeNotExecutable
		}
	}
	return changes
}

// in moves a divergence: its pointer then begins at a place of a file of the pack.
func (d Divergence) in(file, at string) Divergence {
	d.File, d.Pointer = file, at+d.Pointer
	return d
}

// firstOf returns the first element that differs between two lists. If there is none, it
// returns the first extra element now, with the pointer of the list. Elements with the
// same key belong together.
func firstOf[T comparable](then, now []T, key func(T) string) (Divergence, bool) {
	if slices.Equal(then, now) {
		return Divergence{}, false
	}
	extra := make(map[string]T, len(now))
	for _, b := range now {
		extra[key(b)] = b
	}
	for i, a := range then {
		at := "/" + strconv.Itoa(i)
		b, both := extra[key(a)]
		delete(extra, key(a))
		if !both {
			return Divergence{Pointer: at, About: key(a), Recorded: result.ValueText(a, false), Now: result.ValueText(nil, true)}, true
		}
		if d, differs := differenceOf(a, b); differs {
			d.Pointer, d.About = at+d.Pointer, key(a)
			return d, true
		}
	}
	for _, b := range now {
		if _, there := extra[key(b)]; there {
			return Divergence{About: key(b), Recorded: result.ValueText(nil, true), Now: result.ValueText(b, false)}, true
		}
	}
	return Divergence{Recorded: "the same", Now: "in another order"}, true
}

// differenceOf returns the first place at which the JSON of two values differs.
func differenceOf(then, now any) (Divergence, bool) {
	a, errA := canon.Canonical(then)
	b, errB := canon.Canonical(now)
	if errA == nil && errB == nil && bytes.Equal(a, b) {
		return Divergence{}, false
	}
	docA, errA := canon.Parse(a, len(a))
	docB, errB := canon.Parse(b, len(b))
	if errA != nil || errB != nil {
		return Divergence{Recorded: result.ValueText(then, false), Now: result.ValueText(now, false)}, true
	}
	d, differs := result.Compare(docA.Value(), docB.Value())
	return Divergence{Pointer: d.Pointer, Recorded: result.ValueText(d.A, d.AbsentInA), Now: result.ValueText(d.B, d.AbsentInB)}, differs
}

// actionAt names the action at a place in evidence.json, if the place is about one.
func actionAt(pointer string, then, now *pack.Evidence) string {
	tokens := strings.Split(pointer, "/")
	if len(tokens) < 3 {
		return ""
	}
	i, err := strconv.Atoi(tokens[2])
	if err != nil {
		return ""
	}
	for _, e := range []*pack.Evidence{then, now} {
		switch {
		case e == nil:
		case tokens[1] == "runs" && i < len(e.Runs):
			return "action " + strconv.Itoa(e.Runs[i].Action)
		case tokens[1] == "calls" && i < len(e.Calls):
			return "action " + strconv.Itoa(e.Calls[i].Action)
		}
	}
	return ""
}
