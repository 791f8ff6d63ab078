package policy

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
)

// answerable returns a record with further members of custom.
func answerable(id string, more ...string) string {
	return record(id) + "#   answerable: true\n" + strings.Join(append(more, ""), "\n")
}

// asking returns the rules of a layer that asks, in the package of its name.
func asking(pkg string) Layer {
	src := "package " + pkg + "\n\nimport future.keywords.not\n\n" +
		answerable("FREE") + `clarify contains {"id": "FREE", "path": "/goal", "question": "what?"}

` + answerable("CHOICE") + `clarify contains {"id": "CHOICE", "path": "/goal", "question": "which?", "options": [o]} if some o in ["a", "b"]

` + answerable("CONSENT", "#   settling: [\"yes\"]") + `clarify contains {"id": "CONSENT", "path": "/goal", "question": "may it?", "options": ["yes", "no"]}

` + record("CLOSED") + `clarify contains {"id": "CLOSED", "path": "/goal", "question": "why?"}

` + answerable("NEXT") + `clarify contains {"id": "NEXT", "path": "/goal", "question": sprintf("%s of what?", [a.answer])} if {
	some a in input.answers
	a.id == "FREE"
}

` + answerable("LAST") + `clarify contains {"id": "LAST", "path": a.path, "question": concat("", ["then? ", a.question_id])} if {
	some a in input.answers
	a.id == "NEXT"
}

` + record("UNASKED") + `clarify contains {"id": "UNASKED", "path": "/goal", "question": "nothing answered?"} if count(input.answers) == 0

` + record("ALONE") + `deny contains {"id": "ALONE", "path": "/goal", "msg": "nothing is answered"} if {
	input.mode == "execute-sandbox"
	not input.answers[0]
}

` + record("WRONG") + `deny contains {"id": "WRONG", "path": "/goal", "msg": a.question} if {
	some a in input.answers
	a.answer == "b"
}

` + record("SEEN") + `note contains {"id": "SEEN", "path": "", "msg": sprintf("%d", [count(input.answers)])}
`
	if pkg == Builtin {
		src += "\npermit contains e.id if some e in input.effects\n"
	}
	return Layer{Package: pkg, Modules: []Module{{Name: pkg + ".rego", Source: []byte(src)}}}
}

// withAnswers returns an input whose intent has answers.
func withAnswers(in Input, answers map[string]any) Input {
	intent := maps.Clone(in.Intent.(map[string]any))
	free, _ := intent["context"].(map[string]any)
	free = maps.Clone(free)
	free["answers"] = answers
	intent["context"] = free
	in.Intent = intent
	return in
}

func ask(layer, rule, path, text string) string {
	return kernel.Result{Module: layer, ID: rule, Path: path, Text: text}.QuestionID()
}

// TestAnswers follows one layer from its questions to its answers.
func TestAnswers(t *testing.T) {
	const pkg = "gate.user.test"
	e := newEngine(t, asking(pkg))
	free, next := ask(pkg, "FREE", "/goal", "what?"), ask(pkg, "NEXT", "/goal", "this of what?")
	last := ask(pkg, "LAST", "/goal", "then? "+next)
	every := map[string]any{
		free: "this", next: "that", last: "so", ask(pkg, "CHOICE", "/goal", "which?"): "a", ask(pkg, "CONSENT", "/goal", "may it?"): "yes",
	}
	for _, tc := range []struct {
		name    string
		answers map[string]any
		open    string // rules of the open questions
		denied  string
		seen    string
	}{
		{"none", nil, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"one", map[string]any{free: "this"}, "CHOICE CHOICE CLOSED CONSENT NEXT UNASKED", "", "1"},
		{"one and the next", map[string]any{free: "this", next: "x"}, "CHOICE CHOICE CLOSED CONSENT LAST UNASKED", "", "2"},
		{"the next alone", map[string]any{next: "x"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"the next of another answer", map[string]any{free: "those", next: "x"}, "CHOICE CHOICE CLOSED CONSENT NEXT UNASKED", "", "1"},
		{"all", every, "CLOSED UNASKED", "", "5"},
		{"an option that denies", map[string]any{ask(pkg, "CHOICE", "/goal", "which?"): "b"}, "CLOSED CONSENT FREE UNASKED", "WRONG", "1"},
		{"no option", map[string]any{ask(pkg, "CHOICE", "/goal", "which?"): "c"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"an option that does not settle", map[string]any{ask(pkg, "CONSENT", "/goal", "may it?"): "no"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"not answerable", map[string]any{ask(pkg, "CLOSED", "/goal", "why?"): "so", ask(pkg, "UNASKED", "/goal", "nothing answered?"): "yes"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"another layer's", map[string]any{ask("gate.user.other", "FREE", "/goal", "what?"): "this"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"another text", map[string]any{ask(pkg, "FREE", "/goal", "what ?"): "this"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"another path", map[string]any{ask(pkg, "FREE", "", "what?"): "this"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
		{"no id", map[string]any{"": "this", "q_0123456789abcdef": "this"}, "CHOICE CHOICE CLOSED CONSENT FREE UNASKED", "", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := withAnswers(testInput(t), tc.answers)
			v, err := e.Eval(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if open, denied := ids(v.Clarify), ids(v.Deny); open != tc.open || denied != tc.denied || v.Note[0].Text != tc.seen {
				t.Errorf("open %s, denied %s, seen %s", open, denied, v.Note[0].Text)
			}
		})
	}
	// A policy of an earlier contract reads no answers, and its input has none.
	old := newEngine(t, user(head0+answerable("FREE")+`clarify contains {"id": "FREE", "path": "/goal", "question": "what?"}`))
	for _, contract := range append(EarlierContracts(), "") {
		in := withAnswers(testInput(t), map[string]any{free: "this"})
		in.Contract = contract
		v, err := old.Eval(context.Background(), in)
		if err != nil || (len(v.Clarify) == 0) != (contract == "") || len(v.Answered) != 1-len(v.Clarify) {
			t.Errorf("contract %q: %+v, error %v", contract, v, err)
		}
		if _, has := in.Document()["answers"]; has != (contract == "") {
			t.Errorf("contract %q: the input has answers %v", contract, has)
		}
	}
	before := withAnswers(testInput(t), every)
	before.Mode = "execute-sandbox"
	if v, err := e.Eval(context.Background(), before); err != nil || ids(v.Deny) != "ALONE" {
		t.Errorf("answers turn a deny: %+v, error %v", v.Deny, err)
	}
}

func ids(list []kernel.Result) string {
	var names []string
	for _, r := range list {
		names = append(names, r.ID)
	}
	return strings.Join(names, " ")
}

// TestAnswersTyped: a layer reads its answers in the form of the schema, sorted.
func TestAnswersTyped(t *testing.T) {
	const pkg = "gate.user.test"
	e := newEngine(t, user(head0+
		answerable("B_RULE")+`clarify contains {"id": "B_RULE", "path": "/goal", "question": q} if some q in ["y", "x"]
`+answerable("A_RULE")+`clarify contains {"id": "A_RULE", "path": "", "question": "z"}
`+record("SEEN")+`note contains {"id": "SEEN", "path": "", "msg": json.marshal(input.answers)} if count(input.answers) > 0
`))
	x, y, z := ask(pkg, "B_RULE", "/goal", "x"), ask(pkg, "B_RULE", "/goal", "y"), ask(pkg, "A_RULE", "", "z")
	v, err := e.Eval(context.Background(), withAnswers(testInput(t), map[string]any{x: "1", y: "2", z: "3"}))
	if err != nil || len(v.Note) != 1 || len(v.Clarify) != 0 || ids(v.Answered) != "A_RULE B_RULE B_RULE" {
		t.Fatalf("%+v, error %v", v, err)
	}
	want := fmt.Sprintf(`[{"answer":"3","id":"A_RULE","path":"","question":"z","question_id":%q},`+
		`{"answer":"1","id":"B_RULE","path":"/goal","question":"x","question_id":%q},{"answer":"2","id":"B_RULE","path":"/goal","question":"y","question_id":%q}]`, z, x, y)
	if v.Note[0].Text != want {
		t.Errorf("the layer reads\n%s\nwant\n%s", v.Note[0].Text, want)
	}
}

// TestAnswersEnd: answers that lead to questions without end give no verdict.
func TestAnswersEnd(t *testing.T) {
	const pkg = "gate.user.test"
	e := newEngine(t, user(head0+answerable("COUNT")+`clarify contains {"id": "COUNT", "path": "", "question": format_int(count(input.answers), 10)}`))
	answers := map[string]any{}
	for n := range maxEvaluations {
		v, err := e.Eval(context.Background(), withAnswers(testInput(t), answers))
		if n < maxEvaluations && (err != nil || len(v.Clarify) != 1 || len(v.Answered) != n) {
			t.Errorf("%d answers: %+v, error %v", n, v, err)
		}
		answers[ask(pkg, "COUNT", "", fmt.Sprint(n))] = "on"
	}
	v, err := e.Eval(context.Background(), withAnswers(testInput(t), answers))
	asError(t, err, KindLimit, "answers still lead to other answers in evaluation 4, the last one")
	if !reflect.DeepEqual(v, kernel.Verdict{}) {
		t.Errorf("a verdict stands beside the error: %+v", v)
	}
}

// TestAnswersMeetLimits: the limit of results counts those of all evaluations together.
func TestAnswersMeetLimits(t *testing.T) {
	const pkg = "gate.user.test"
	e := newEngine(t, user(head0+answerable("FREE")+`clarify contains {"id": "FREE", "path": "", "question": "what?"}
`+record("MANY")+`deny contains {"id": "MANY", "path": "", "msg": sprintf("%d %d", [count(input.answers), i])} if some i in numbers.range(1, 600)
`))
	if _, err := e.Eval(context.Background(), testInput(t)); err != nil {
		t.Fatal(err)
	}
	_, err := e.Eval(context.Background(), withAnswers(testInput(t), map[string]any{ask(pkg, "FREE", "", "what?"): "x"}))
	asError(t, err, KindLimit, "1201 results; the limit is 1000")
}

// TestAnswersTakeTheirQuestionAlone gives layers that ask alike random answers. A verdict
// keeps every denial and every question of the verdict without answers, except the
// questions that are answered themselves, and permits nothing more.
func TestAnswersTakeTheirQuestionAlone(t *testing.T) {
	layers := []string{Builtin, "gate.org.acme", "gate.repo.site", "gate.user.test"}
	var list []Layer
	for _, pkg := range layers {
		list = append(list, asking(pkg))
	}
	e := newEngine(t, list...)
	texts := []string{"a", "b", "yes", "no", "this", "what?", " a", "A"}
	var pool []string
	for _, pkg := range append(slices.Clone(layers), "gate.user.other", "") {
		for _, path := range []string{"/goal", "", "/actions/0"} {
			for _, q := range [][2]string{{"FREE", "what?"}, {"FREE", "what"}, {"CHOICE", "which?"}, {"CONSENT", "may it?"}, {"CLOSED", "why?"}, {"UNASKED", "nothing answered?"}, {"ALONE", "nothing is answered"}} {
				pool = append(pool, ask(pkg, q[0], path, q[1]))
			}
			for _, text := range texts {
				next := ask(pkg, "NEXT", path, text+" of what?")
				pool = append(pool, next, ask(pkg, "LAST", path, "then? "+next))
			}
		}
	}
	r := rand.New(rand.NewPCG(22, 1))
	settled, denied, followed := 0, 0, 0
	for i := range rehearsal.Count(150, 2000) {
		in := testInput(t)
		in.Mode = []string{"plan-only", "execute-sandbox"}[i%2]
		base, err := e.Eval(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		answers := map[string]any{}
		for _, id := range pool {
			if r.IntN(1+i%5) == 0 {
				answers[id] = texts[r.IntN(len(texts))]
			}
		}
		v, err := e.Eval(context.Background(), withAnswers(in, answers))
		if err != nil {
			t.Fatal(err)
		}
		checkAnswered(t, base, v, answers)
		settled, denied = settled+len(v.Answered), denied+len(v.Deny)-len(base.Deny)
		for _, q := range v.Answered {
			if q.ID == "LAST" {
				followed++
			}
		}
		if t.Failed() {
			t.Fatalf("answers %v", answers)
		}
	}
	if settled == 0 || denied == 0 || followed == 0 {
		t.Errorf("%d settled, %d denied, %d followed", settled, denied, followed)
	}
}

// checkAnswered compares a verdict with the one without answers.
func checkAnswered(t *testing.T, base, v kernel.Verdict, answers map[string]any) {
	t.Helper()
	has := func(list []kernel.Result, r kernel.Result) bool {
		return slices.ContainsFunc(list, func(o kernel.Result) bool { return reflect.DeepEqual(o, r) })
	}
	for _, d := range base.Deny {
		if !has(v.Deny, d) {
			t.Errorf("denial %s of %s is gone", d.ID, d.Module)
		}
	}
	for _, q := range base.Clarify {
		answer, given := answers[q.QuestionID()].(string)
		could := given && q.Answerable && (q.ID != "CONSENT" || answer == "yes") && (q.ID != "CHOICE" || answer == "a" || answer == "b")
		if has(v.Clarify, q) == could || has(v.Answered, q) != could {
			t.Errorf("question %s of %s, answer %q: open %v, answered %v", q.ID, q.Module, answer, has(v.Clarify, q), has(v.Answered, q))
		}
	}
	for _, q := range v.Answered {
		if _, given := answers[q.QuestionID()]; !given || !q.Answerable || has(v.Clarify, q) {
			t.Errorf("question %s of %s counts as answered", q.ID, q.Module)
		}
	}
	for _, id := range v.Permits {
		if !slices.Contains(base.Permits, id) {
			t.Errorf("effect %s is permitted by an answer", id)
		}
	}
}

// TestAnswersOfTheSameQuestion: results with one id are one question, with the options of
// both, and one answer settles both.
func TestAnswersOfTheSameQuestion(t *testing.T) {
	one := kernel.Result{Module: "m", ID: "R", Text: "q", Answerable: true, Options: []string{"a"}}
	two := one
	two.Options = []string{"b"}
	id := one.QuestionID()
	for answer, open := range map[string]int{"a": 0, "b": 0, "c": 2} {
		still, answered, accepted := acceptAnswers([]kernel.Result{two, one}, map[string]any{id: answer})
		if len(still) != open || len(answered) != 2-open || len(accepted) != (2-open)/2 {
			t.Errorf("%s: %v %v %v", answer, still, answered, accepted)
		}
	}
	two.Options = nil // a free answer is no answer to the choice
	if still, _, _ := acceptAnswers([]kernel.Result{two, one}, map[string]any{id: "c"}); len(still) != 2 {
		t.Errorf("still open: %v", still)
	}
	if still, _, _ := acceptAnswers([]kernel.Result{two}, map[string]any{id: 1}); len(still) != 1 {
		t.Errorf("a number answers: %v", still)
	}
}

// TestSettlingRecords: a record that promises what its rule does not keep does not load.
func TestSettlingRecords(t *testing.T) {
	note := `note contains {"id": "A_RULE", "path": "", "msg": "m"}`
	clarify := `clarify contains {"id": "A_RULE", "path": "", "question": "q"}`
	for want, src := range map[string]string{
		"answerable belongs to a rule that asks a question":                  answerable("A_RULE") + note,
		"settling belongs to a rule that is answerable":                      record("A_RULE") + "#   settling: [\"a\"]\n" + clarify,
		"needs belongs to a rule that asks a question and is not answerable": answerable("A_RULE", "#   needs: policy") + clarify,
		"needs is neither intent nor policy":                                 record("A_RULE") + "#   needs: luck\n" + clarify,
		"custom.answerable must be true or false":                            record("A_RULE") + "#   answerable: \"true\"\n" + clarify,
		"custom.settling must be a list of options, each a string in quotes": answerable("A_RULE", "#   settling: [1]") + clarify,
		`record "A_RULE": custom.settling must be a list of options`:         answerable("A_RULE", "#   settling: yes") + clarify,
		"custom.needs must be a string":                                      record("A_RULE") + "#   needs: [policy]\n" + clarify,
	} {
		_, err := New(context.Background(), testProfile(), []Layer{user(head0 + src)}, patient())
		asError(t, err, KindModule, want)
	}
	for want, record := range map[string]string{
		"answerable belongs to a rule that asks": `"answerable":true`,
		"settling has what is no option":         `"question":"q","answerable":true,"options":["a"],"settling":["b"]`,
		"needs belongs to a rule that asks":      `"needs":"policy"`,
		"needs is neither intent nor policy":     `"question":"q","needs":"answer"`,
		"settling belongs to a rule":             `"question":"q","options":["a"],"settling":["a"]`,
	} {
		_, err := New(context.Background(), testProfile(), []Layer{recorded(fromRecords, `{"records":{"placeholder":{"id":"OPEN","title":"t","description":"d","severity":"deny","text":"x",`+record+`}}}`)}, patient())
		asError(t, err, KindModule, want)
	}
}

// TestBuiltinAnswers: of the built-in rules those about structure are answerable, and no
// other one.
func TestBuiltinAnswers(t *testing.T) {
	e := newEngine(t, builtinLayer(t))
	rules, err := e.Rules()
	if err != nil {
		t.Fatal(err)
	}
	needs := map[kernel.Need][]string{}
	for _, r := range rules {
		if slices.Contains(r.Kinds, ruleClarify) {
			one := kernel.Result{Answerable: r.Answerable, ByPolicy: r.Needs == "policy"}
			needs[one.Needs()] = append(needs[one.Needs()], r.ID)
		}
	}
	want := map[kernel.Need][]string{
		kernel.NeedAnswer: {"INPUT_WRITTEN", "OUTPUT_UNPRODUCED", "WRITE_TWICE"},
		kernel.NeedIntent: {"CONTRADICTION", "DONE_UNDEFINED", "PLACEHOLDER"},
		kernel.NeedPolicy: {"AGENT_INSTRUCTIONS", "CMD_WRAPPER", "INLINE_CODE", "NETWORK_NEEDED", "RISK_REVIEW", "SHELL_COMMAND", "TOOL_DEPRECATED", "TOOL_EXPERIMENTAL"},
	}
	if !reflect.DeepEqual(needs, want) {
		t.Errorf("%v\nwant %v", needs, want)
	}
}
