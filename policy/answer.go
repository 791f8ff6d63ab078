package policy

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// answerReader turns the answers of one layer into results, or into an error.
type answerReader struct {
	layer *compiledLayer
	lim   Limits
	in    Input
}

func (a *answerReader) errorf(kind Kind, rule, msg string) *Error {
	return &Error{Kind: kind, Module: a.layer.pkg, Rule: rule, Msg: "rule " + canon.Quote(rule) + ": " + msg}
}

// read checks all answers of a layer and returns them.
func (a *answerReader) read(values map[string]ast.Value) (v kernel.Verdict, err error) {
	sets := make(map[string]ast.Set, len(values))
	total := 0
	for _, rule := range a.layer.rules {
		set, ok := values[rule].(ast.Set)
		if !ok {
			return v, a.errorf(KindEval, rule, "answer is not a set")
		}
		sets[rule] = set
		if rule != rulePermit {
			total += set.Len()
		}
	}
	if err := a.within(total); err != nil {
		return v, err
	}
	for _, rule := range a.layer.rules {
		if rule == rulePermit {
			permits, err := a.permits(sets[rule])
			if err != nil {
				return v, err
			}
			v.Permits = append(v.Permits, permits...)
			continue
		}
		list := map[string]*[]kernel.Result{ruleDeny: &v.Deny, ruleClarify: &v.Clarify, ruleNote: &v.Note}[rule]
		for _, t := range sets[rule].Slice() {
			obj, ok := t.Value.(ast.Object)
			if !ok {
				return v, a.errorf(KindEval, rule, "an answer is not an object")
			}
			r, err := a.result(rule, obj)
			if err != nil {
				return v, err
			}
			*list = append(*list, r)
		}
	}
	return v, nil
}

// within refuses more results of a layer than the limit.
func (a *answerReader) within(results int) error {
	if results > a.lim.Results && a.layer.pkg != Builtin {
		return &Error{Kind: KindLimit, Module: a.layer.pkg, Msg: strconv.Itoa(results) + " results; the limit is " + strconv.Itoa(a.lim.Results)}
	}
	return nil
}

// offered counts the options of the questions so far. Rules that ask the same question
// offer the options of all these rules (kernel.Decide). A question with more options
// than the limit is an error.
func (a *answerReader) offered(clarify []kernel.Result) error {
	type question struct{ text, why string }
	options := map[question]map[string]bool{}
	for _, r := range clarify {
		q := question{r.Text, r.Why}
		if options[q] == nil {
			options[q] = map[string]bool{}
		}
		for _, o := range r.Options {
			options[q][o] = true
		}
	}
	for _, r := range clarify {
		if n := len(options[question{r.Text, r.Why}]); n > a.lim.Results {
			return &Error{
				Kind: KindLimit, Module: a.layer.pkg,
				Msg: "the question " + canon.Quote(r.Text) + " has " + strconv.Itoa(n) + " options; the limit is " + strconv.Itoa(a.lim.Results),
			}
		}
	}
	return nil
}

// permits checks that every permit names an effect.
func (a *answerReader) permits(set ast.Set) ([]string, error) {
	known := make(map[string]bool, len(a.in.Effects))
	for i := range a.in.Effects {
		known[a.in.Effects[i].ID] = true
	}
	permits := make([]string, 0, set.Len())
	for _, t := range set.Slice() {
		id, ok := t.Value.(ast.String)
		if !ok {
			return nil, a.errorf(KindEval, rulePermit, "an answer is not a string")
		}
		if !known[string(id)] {
			return nil, a.errorf(KindEval, rulePermit, canon.Quote(string(id))+" names no effect")
		}
		permits = append(permits, string(id))
	}
	return permits, nil
}

// maxWhy is the greatest number of characters of why in a bundle's question.
const maxWhy = 8192

// result checks one object and joins it with the record of its id.
func (a *answerReader) result(rule string, obj ast.Object) (kernel.Result, error) {
	r := kernel.Result{Module: a.layer.pkg}
	wrapped := a.layer.wrapped[rule+" "] // of the rule without a literal id, of a layer with a file of records
	if id := obj.Get(ast.StringTerm("id")); id != nil && wrapped == nil {
		if s, ok := id.Value.(ast.String); ok {
			wrapped = a.layer.wrapped[rule+" "+string(s)]
		}
	}
	names := make([]string, 0, obj.Len())
	var problem *Error
	obj.Foreach(func(k, v *ast.Term) {
		if problem != nil {
			return
		}
		name, ok := k.Value.(ast.String)
		if !ok {
			problem = a.errorf(KindEval, rule, "a member name is not a string")
			return
		}
		names = append(names, string(name))
		value := v.Value
		if wrapped[string(name)] {
			list, ok := value.(*ast.Array)
			if !ok || list.Len() != 1 {
				problem = a.errorf(KindEval, rule, "member "+canon.Quote(string(name))+" is undefined, or has several values: bind what it takes in the body")
				return
			}
			value = list.Elem(0).Value
		}
		problem = a.member(rule, string(name), value, &r)
	})
	if problem != nil {
		return r, problem
	}
	if msg := checkMembers(rule, names); msg != "" {
		return r, a.errorf(KindEval, rule, msg)
	}
	records, err := a.layer.records()
	if err != nil {
		return r, err
	}
	rec, ok := records[r.ID]
	if !ok || !slices.Contains(rec.Kinds, rule) {
		return r, a.errorf(KindEval, rule, "id "+canon.Quote(r.ID)+" is not the rule's")
	}
	if _, ok := canon.Lookup(a.in.Intent, r.Path); !ok {
		return r, a.errorf(KindEval, rule, "path "+canon.Quote(r.Path)+" of "+r.ID+" is no place in the intent")
	}
	if n := utf8.RuneCountInString(rec.Description); rule == ruleClarify && n > maxWhy {
		return r, a.errorf(KindLimit, rule, "the description of "+r.ID+" has "+strconv.Itoa(n)+" characters; the limit is "+strconv.Itoa(maxWhy))
	}
	if rule == ruleClarify && r.Options == nil {
		r.Options = slices.Clone(rec.options)
	}
	r.Title, r.Why, r.Priority = rec.Title, rec.Description, rec.Priority
	if rule == ruleClarify {
		r.Answerable, r.Settling, r.ByPolicy = rec.Answerable, rec.Settling, kernel.Need(rec.Needs) == kernel.NeedPolicy
	}
	if r.Fix == "" && rec.Fix != "" {
		r.Fix = rec.Fix
		if problem := a.text(rule, "fix", r.Fix); problem != nil {
			return r, problem
		}
	}
	return r, nil
}

// member checks one member of a result and keeps its value. It ignores unknown names,
// because checkMembers checks all names.
func (a *answerReader) member(rule, name string, v ast.Value, r *kernel.Result) *Error {
	if name == "options" {
		return a.options(rule, v, r)
	}
	s, ok := v.(ast.String)
	if !ok {
		return a.errorf(KindEval, rule, "member "+canon.Quote(name)+" is not a string")
	}
	text := string(s)
	switch name {
	case "id":
		r.ID = text
	case "path":
		r.Path = text
	case "msg", "question":
		r.Text = text
		if text == "" {
			return a.errorf(KindEval, rule, "member "+canon.Quote(name)+" is empty")
		}
		return a.text(rule, name, text)
	case "fix":
		r.Fix = text
		return a.text(rule, name, text)
	}
	return nil
}

// text checks a text that people will read.
func (a *answerReader) text(rule, name, s string) *Error {
	switch {
	case len(s) > a.lim.MessageBytes:
		return a.errorf(KindLimit, rule, "member "+canon.Quote(name)+" has "+strconv.Itoa(len(s))+" bytes; the limit is "+strconv.Itoa(a.lim.MessageBytes))
	case !utf8.ValidString(s):
		return a.errorf(KindEval, rule, "member "+canon.Quote(name)+" is not valid UTF-8")
	}
	if _, err := canon.Canonical(s); err != nil {
		return a.errorf(KindEval, rule, "member "+canon.Quote(name)+" has a character that no JSON of ours can hold")
	}
	return nil
}

// options reads the answers that a question offers. A question without options has a
// free answer.
func (a *answerReader) options(rule string, v ast.Value, r *kernel.Result) *Error {
	var terms []*ast.Term
	switch v := v.(type) {
	case *ast.Array:
		v.Foreach(func(t *ast.Term) { terms = append(terms, t) })
	case ast.Set:
		terms = v.Slice()
	default:
		return a.errorf(KindEval, rule, `member "options" is neither an array nor a set`)
	}
	if len(terms) > a.lim.Results {
		return a.errorf(KindLimit, rule, strconv.Itoa(len(terms))+" options; the limit is "+strconv.Itoa(a.lim.Results))
	}
	for _, t := range terms {
		s, ok := t.Value.(ast.String)
		if !ok {
			return a.errorf(KindEval, rule, "an option is not a string")
		}
		if err := a.text(rule, "options", string(s)); err != nil {
			return err
		}
		r.Options = append(r.Options, string(s))
	}
	slices.SortFunc(r.Options, canon.Compare)
	r.Options = slices.Compact(r.Options)
	return nil
}

// sortVerdict sorts every list of a verdict.
func sortVerdict(v *kernel.Verdict) {
	slices.SortFunc(v.Permits, canon.Compare)
	for _, list := range [][]kernel.Result{v.Deny, v.Clarify, v.Note, v.Answered} {
		slices.SortFunc(list, compareResults)
	}
}

// compareResults compares by module, id, path and text, and then by the other members
// of the results.
func compareResults(a, b kernel.Result) int {
	return cmp.Or(
		canon.Compare(a.Module, b.Module),
		canon.Compare(a.ID, b.ID),
		canon.Compare(a.Path, b.Path),
		canon.Compare(a.Text, b.Text),
		canon.Compare(a.Fix, b.Fix),
		slices.CompareFunc(a.Options, b.Options, canon.Compare),
	)
}
