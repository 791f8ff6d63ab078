package kernel

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// Rebuilt is a bundle that was made again from the content of another bundle.
type Rebuilt struct {
	Bundle *Bundle
	Bytes  []byte // canonical JSON and one LF

	Actions []Action // actions of the intent, in its order
	Tools   []Tool   // for each action, the hashes of the documents that it was bound to
	At      []int    // for each action, the position of its output in the shown bundle

	// Refused lists the values that no intent can have. The pointers lead into the
	// shown bundle, and the new bundle takes over the values at these pointers.
	Refused []*IntentError
}

// Rebuild makes a bundle again from its own goal, constraints, actions and questions.
// It takes over the values that follow from the intent alone:
//
//   - source_intent_hash, and the number of declared outputs
//   - whether an incomplete bundle has actions
//   - the findings of another kernel version in goal and constraints, and the number of
//     contradicting pairs where the list of pairs was cut
func Rebuild(b *Bundle) (Rebuilt, error) {
	again := &Bundle{KernelVersion: b.KernelVersion, SourceIntentHash: b.SourceIntentHash}
	r := Rebuilt{Bundle: again}
	in, f := r.text(b)
	var err error
	if again.UnresolvedQuestions, err = asked(b.UnresolvedQuestions); err != nil {
		return Rebuilt{}, err
	}
	if len(again.UnresolvedQuestions) == 0 {
		r.actions(b)
	}
	in.Actions = r.Actions
	in.Outputs = make([]string, max(0, b.RootNode.Density.SpecifiedOutputs-in.specifiedOutputs()))
	if len(again.UnresolvedQuestions) > 0 && in.gaps() != b.RootNode.Entropy.SchemaGaps {
		in.Actions = []Action{{}}
	}
	r.Bytes, err = again.make(in, f, nil)
	return r, err
}

// maxPaired is the greatest number of constraints whose contradicting pairs are always
// all listed. With more constraints, the number of pairs can depend on the order of the
// constraints in the intent, which a bundle does not keep.
const maxPaired = 45

// text reads the goal and the constraints again, and counts the findings in them.
func (r *Rebuilt) text(b *Bundle) (Intent, found) {
	n := b.RootNode
	told := found{
		placeholders: n.Entropy.UnresolvedRefs, contradictions: n.Entropy.ContradictionCount,
		open: len(n.Constraints) - n.Density.ConcreteConstraints,
	}
	if b.KernelVersion != Version {
		return Intent{Goal: n.Goal, Constraints: nonNil(n.Constraints)}, told
	}
	in, err := ParseIntent(map[string]any{"goal": n.Goal, "constraints": canon.List(n.Constraints)})
	if err != nil {
		r.refuse("/root_node", err)
		return Intent{Goal: n.Goal, Constraints: nonNil(n.Constraints)}, told
	}
	f := countFound(in.Findings())
	if len(n.Constraints) > maxPaired && f.contradictions > 0 && told.contradictions > 0 {
		f.contradictions = told.contradictions
	}
	return in, f
}

func (r *Rebuilt) refuse(at string, err error) {
	e, ok := errors.AsType[*IntentError](err)
	if !ok {
		e = &IntentError{Msg: err.Error()}
	}
	r.Refused = append(r.Refused, &IntentError{Pointer: at + e.Pointer, Msg: e.Msg})
}

// asked sorts the questions again and makes their ids.
func asked(list []Question) ([]Question, error) {
	results := make([]Result, len(list))
	for i, q := range list {
		options := slices.Clone(q.Options)
		slices.SortFunc(options, canon.Compare)
		results[i] = Result{Text: q.Text, Why: q.WhyNeeded, Priority: q.Priority, Options: slices.Compact(options)}
	}
	return newQuestions(results)
}

// actions reads the actions from the outputs, and makes the outputs again. An output
// that names no action comes last, unless it is an instruction.
func (r *Rebuilt) actions(b *Bundle) {
	for i, o := range b.Outputs {
		if o.Type != "instruction" {
			r.At = append(r.At, i)
		}
	}
	position := func(at int) int {
		if a := b.Outputs[at].Action; a != nil {
			return *a
		}
		return len(b.Outputs)
	}
	slices.SortStableFunc(r.At, func(x, y int) int { return cmp.Compare(position(x), position(y)) })
	for i, at := range r.At {
		shown := b.Outputs[at]
		a, tool, err := shown.action()
		var out Output
		if err == nil {
			out, err = a.output(i, tool, nil)
		}
		if err != nil {
			r.refuse("/outputs/"+strconv.Itoa(at)+"/content", err)
			if out, err = a.outputOf(i, shown.Content, nil); err != nil {
				out = shown
				out.Action, out.SourceConstraints = &i, []string{}
			}
		}
		r.Actions, r.Tools = append(r.Actions, a), append(r.Tools, tool)
		r.Bundle.Outputs = append(r.Bundle.Outputs, out)
	}
}

// action reads an action from its output, and the documents of a bound call.
func (o Output) action() (Action, Tool, error) {
	r := &reader{}
	var a Action
	var t Tool
	switch o.Type {
	case "command":
		a.Kind = ActionRun
		r.run(r.content(o), "", &a)
	case "config":
		a.Kind = ActionCall
		obj := r.content(o)
		t.AdapterSHA256, t.ServerSHA256, t.ToolSHA256 = r.hash(obj, "adapter_sha256"), r.hash(obj, "server_sha256"), r.hash(obj, "tool_sha256")
		r.call(obj, "", &a)
	default:
		a = Action{Kind: ActionWrite, Path: o.Path, Content: o.Content, Base64: o.Encoding == "base64", Executable: o.Executable}
	}
	if r.err != nil {
		return a, t, r.err
	}
	return a, t, nil
}

// hash takes a hash out of an object. It returns "" if the object has no such member.
func (r *reader) hash(obj map[string]any, name string) canon.ContentHash {
	if _, ok := obj[name]; !ok {
		return ""
	}
	h := canon.ContentHash(r.str(obj, "", name, true, maxIDRunes))
	if !h.Valid() {
		r.fail("/"+name, "not a hash")
	}
	delete(obj, name)
	return h
}

// content reads the content of a command or a call, which is canonical JSON.
func (r *reader) content(o Output) map[string]any {
	doc, err := canon.ParseCanonical([]byte(o.Content), len(o.Content))
	if err != nil {
		r.fail("", "not canonical JSON: "+err.Error())
		return nil
	}
	obj, ok := doc.Value().(map[string]any)
	if !ok {
		r.fail("", "not an object")
	}
	return obj
}
