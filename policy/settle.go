package policy

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel"
)

// maxEvaluations is how often a layer is evaluated for one decision. An answer can lead to
// a question, and the answer to this question to another one.
const maxEvaluations = 4

// settle evaluates a layer, and again with the answers to its questions until it accepts no
// further answer. Without answers in the intent that is one evaluation.
//
// An answer takes away its own question and nothing else: the verdict has every denial and
// every question of every evaluation, except the questions that are answered, and the
// permits that every evaluation gives. The notes are those of the last one.
func (e *Engine) settle(ctx context.Context, cancel topdown.Cancel, in Input, doc map[string]any, l *compiledLayer) (kernel.Verdict, error) {
	a := answerReader{layer: l, lim: e.lim, in: in}
	given := in.answers()
	var joined kernel.Verdict
	var known []any // the answers that the layer has seen
	for n := 1; ; n++ {
		if len(known) > 0 {
			doc = maps.Clone(doc)
			doc["answers"] = known
		}
		input, err := inputTerm(doc, l.embedded)
		if err != nil {
			return kernel.Verdict{}, err
		}
		values, err := l.answers(ctx, cancel, e.store, input)
		if err != nil {
			return kernel.Verdict{}, err
		}
		v, err := a.read(values)
		if err != nil {
			return kernel.Verdict{}, err
		}
		if n > 1 {
			v = joinEvaluations(joined, v)
			if err := a.within(len(v.Deny) + len(v.Clarify) + len(v.Note)); err != nil {
				return kernel.Verdict{}, err
			}
		}
		joined = v
		open, answered, accepted := acceptAnswers(joined.Clarify, given)
		if slices.EqualFunc(accepted, known, sameAnswer) {
			joined.Clarify, joined.Answered = open, answered
			return joined, nil
		}
		if known = accepted; n == maxEvaluations {
			return kernel.Verdict{}, &Error{
				Kind: KindLimit, Module: l.pkg,
				Msg: "answers still lead to other answers in evaluation " + strconv.Itoa(n) + ", the last one",
			}
		}
	}
}

// joinEvaluations adds an evaluation of a layer to those before it.
func joinEvaluations(joined, v kernel.Verdict) kernel.Verdict {
	before := make(map[string]bool, len(joined.Permits))
	for _, id := range joined.Permits {
		before[id] = true
	}
	v.Permits = slices.DeleteFunc(v.Permits, func(id string) bool { return !before[id] })
	v.Deny = eitherOf(joined.Deny, v.Deny)
	v.Clarify = eitherOf(joined.Clarify, v.Clarify)
	return v
}

// eitherOf returns the results of two evaluations, each once, sorted.
func eitherOf(a, b []kernel.Result) []kernel.Result {
	list := slices.Concat(a, b)
	slices.SortFunc(list, compareResults)
	return slices.CompactFunc(list, func(a, b kernel.Result) bool { return compareResults(a, b) == 0 })
}

// acceptAnswers splits the questions of a layer into those that are open and those that a
// given answer settles. accepted has the answers as the layer reads them, by rule, path and
// question. Results with one id are one question, with the options of all of them.
func acceptAnswers(questions []kernel.Result, given map[string]any) (open, answered []kernel.Result, accepted []any) {
	if len(given) == 0 {
		return questions, nil, nil
	}
	questions = slices.Clone(questions)
	slices.SortFunc(questions, compareResults)
	for i := 0; i < len(questions); {
		one := questions[i]
		one.Options = slices.Clone(one.Options)
		k := i + 1
		for ; k < len(questions) && sameQuestion(questions[k], one); k++ {
			one.Options = append(one.Options, questions[k].Options...)
		}
		id := one.QuestionID()
		if answer, ok := given[id].(string); ok && one.SettledBy(answer) {
			answered = append(answered, questions[i:k]...)
			accepted = append(accepted, map[string]any{
				"id": one.ID, "path": one.Path, "question": one.Text, "answer": answer, "question_id": id,
			})
		} else {
			open = append(open, questions[i:k]...)
		}
		i = k
	}
	return open, answered, accepted
}

// sameQuestion says whether two questions of a layer have one id.
func sameQuestion(a, b kernel.Result) bool {
	return a.ID == b.ID && a.Path == b.Path && a.Text == b.Text
}

// sameAnswer compares two answers as a layer reads them.
func sameAnswer(a, b any) bool { return maps.Equal(a.(map[string]any), b.(map[string]any)) }
