// Package questions says what an intent still has to answer, and puts answers into an
// intent (specs/policy-contract.md, Answers). It changes no file.
package questions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// NeedNothing is the need of a question that an answer in the intent settles.
const NeedNothing kernel.Need = "nothing"

// Question is one question about an intent. Results of one rule that ask alike at one place
// are one question, with the options of all of them.
type Question struct {
	kernel.Result
	ID    string      // by which the intent answers it
	Needs kernel.Need // what settles it
	Given *string     // the answer in the intent, whether it settles the question or not
}

// Asked is the state of an intent.
type Asked struct {
	Profile   string
	Outcome   kernel.Outcome
	Questions []Question // by priority, the highest first; those that are settled last
	Unused    []string   // ids of answers that no question has, sorted
}

// Ask decides an intent as harness.Explain does, and returns its questions. The error is
// always a *result.RunError.
func Ask(ctx context.Context, deps harness.Deps, gate *harness.Gate, req harness.Request) (Asked, error) {
	x, err := harness.Explain(ctx, deps, gate, req)
	if err != nil {
		return Asked{}, err
	}
	asked := Asked{Profile: x.Profile.Name, Outcome: x.Decision.Outcome}
	doc, err := canon.Parse(req.Source, canon.MaxIntentBytes)
	if err != nil {
		return Asked{}, runerr.Internal("an intent that was decided cannot be read", err)
	}
	given, _ := canon.Lookup(doc.Value(), "/context/answers")
	answers, _ := given.(map[string]any)
	var open []kernel.Result
	for _, r := range x.Reasons {
		if r.Rule == "clarify" {
			open = append(open, r.Result)
		}
	}
	asked.add(open, answers, func(r kernel.Result) kernel.Need { return r.Needs() })
	asked.add(x.Answered, answers, func(kernel.Result) kernel.Need { return NeedNothing })
	for _, id := range canon.Names(answers) {
		if _, ok := asked.Question(id); !ok {
			asked.Unused = append(asked.Unused, id)
		}
	}
	return asked, nil
}

// add appends the questions of results, each once.
func (a *Asked) add(list []kernel.Result, answers map[string]any, needs func(kernel.Result) kernel.Need) {
	first := len(a.Questions)
	for _, r := range list {
		id := r.QuestionID()
		at := slices.IndexFunc(a.Questions, func(q Question) bool { return q.ID == id })
		if at >= 0 {
			options := slices.Concat(a.Questions[at].Options, r.Options)
			slices.SortFunc(options, canon.Compare)
			a.Questions[at].Options = slices.Compact(options)
			if n := needs(r); n == kernel.NeedAnswer {
				a.Questions[at].Needs = n
			}
			continue
		}
		q := Question{Result: r, ID: id, Needs: needs(r)}
		if text, ok := answers[id].(string); ok {
			q.Given = &text
		}
		a.Questions = append(a.Questions, q)
	}
	slices.SortStableFunc(a.Questions[first:], func(x, y Question) int { return cmp.Compare(y.Priority, x.Priority) })
}

// Question returns the question with an id.
func (a Asked) Question(id string) (Question, bool) {
	at := slices.IndexFunc(a.Questions, func(q Question) bool { return q.ID == id })
	if at < 0 {
		return Question{}, false
	}
	return a.Questions[at], true
}

// Put returns the text of an intent with an answer more, or with another answer to the
// question. Members keep their order and their spelling. It is laid out in lines, indented by
// two spaces.
func Put(src []byte, id, answer string) ([]byte, error) {
	doc, err := canon.Parse(src, canon.MaxIntentBytes)
	if err != nil {
		return nil, err
	}
	value, err := canon.Canonical(answer)
	if err != nil {
		return nil, err
	}
	// at is the deepest member on the way to the answer that is there.
	at, there, missing := "", doc.Value(), []string{"context", "answers", id}
	for len(missing) > 0 {
		next := canon.Pointer(at, missing[0])
		v, ok := canon.Lookup(doc.Value(), next)
		if !ok {
			break
		}
		at, there, missing = next, v, missing[1:]
	}
	span := canon.Locate(src, []string{at})[0]
	if len(missing) > 0 {
		for _, name := range slices.Backward(missing) {
			key, err := canon.Canonical(name)
			if err != nil {
				return nil, err
			}
			value = slices.Concat([]byte("{"), key, []byte(":"), value, []byte("}"))
		}
		value = value[1 : len(value)-1] // the first missing member, without braces
		if members, _ := there.(map[string]any); len(members) > 0 {
			value = slices.Concat([]byte(","), value)
		}
		span.Start, span.End = span.End-1, span.End-1
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(slices.Concat(src[:span.Start], value, src[span.End:])), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
