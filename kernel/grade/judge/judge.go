// Package judge judges one case in one run: what its expectations find in the file of the case,
// the verdict, and why a run did not pass. It names what a policy has to decide, and decides
// nothing itself.
package judge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// The kinds that are judged although nobody has asked for them. What a case expects of a policy has
// this kind too, and the ids policy:0, policy:1, and so on.
const (
	kindEvidence = "evidence_resolved"
	kindPolicy   = "policy"
)

// maxPlaces is the greatest number of places that an assertion names.
const maxPlaces = 20

// Judge judges a case in one run. The caller sets the RunID.
func Judge(c trial.Case, a grade.Artifact, g grade.Given) grade.Run {
	j := judge{Artifact: a, given: g, told: read(a.Doc), assertions: []grade.Assertion{}}
	j.expected, _ = c.Expected.(map[string]any)
	notes := []string{}
	for _, member := range c.NotJudged {
		notes = append(notes, member+" is not judged: it belongs to another evaluator")
	}
	if a.Doc != nil {
		j.references()
	}
	if j.answered() {
		j.policy()
		j.asked()
		if s := j.traceIntegrity(nil); s.outcome == grade.Failed && j.expected["trace_integrity"] != true {
			notes = append(notes, s.reason+" ("+strings.Join(s.places[:min(len(s.places), 3)], ", ")+")")
		}
	}
	run := grade.Run{Artifact: a, Verdict: j.verdict(), Assertions: j.assertions, Notes: notes, Actions: g.Actions}
	run.Cause = j.cause(run.Verdict)
	return run
}

// judge is the state of one call of Judge.
type judge struct {
	grade.Artifact
	told
	given      grade.Given
	expected   map[string]any
	output     output
	unresolved []string // JSON Pointers
	assertions []grade.Assertion
}

func (j *judge) answered() bool { return textOf(j.Doc, "status") == string(trial.OK) }

// said is what is said of one expectation. The zero value is one that holds.
type said struct {
	outcome                  grade.Outcome
	reason, expected, actual string
	places                   []string
}

func skip(reason string) said   { return said{outcome: grade.Skipped, reason: reason} }
func broken(reason string) said { return said{outcome: grade.Broken, reason: reason} }
func malformed() said           { return broken("the expectation does not have the form that it needs") }

// unless returns what holds, and names places, or else has failed.
func unless(wrong bool, reason, expected, actual string, places []string) said {
	if !wrong {
		return said{places: places}
	}
	return said{grade.Failed, reason, expected, actual, places}
}

// add adds an assertion. The kind stands before the colon of the id; holds is the reason of what
// passes.
func (j *judge) add(id, holds string, s said) {
	kind, _, _ := strings.Cut(id, ":")
	a := grade.Assertion{ID: id, Kind: kind, Outcome: s.outcome, Reason: j.fit(s.reason), Expected: j.fit(s.expected), Actual: j.fit(s.actual), Evidence: []string{}}
	if s.outcome == "" {
		a.Outcome, a.Reason = grade.Passed, j.fit(holds)
	}
	for _, p := range s.places[:min(len(s.places), maxPlaces)] {
		a.Evidence = append(a.Evidence, j.fit(p))
	}
	j.assertions = append(j.assertions, a)
}

// fit returns a text as documents have it. Secrets are redacted before the text is cut.
func (j *judge) fit(s string) string {
	if j.given.Redact != nil {
		s = j.given.Redact(s)
	}
	return canon.Cut(canon.Clean(s[:min(len(s), 1024)]))
}

// asked judges what a case expects, but for what it expects of a policy.
func (j *judge) asked() {
	j.output = outputOf(j.Doc)
	include := func(j *judge, v any) said { return j.includes(v, true) }
	exclude := func(j *judge, v any) said { return j.includes(v, false) }
	for _, kind := range []struct {
		name, holds string
		list        bool // each element is judged
		of          func(j *judge, v any) said
	}{
		{"action_required", "the agent has proposed the action", true, (*judge).actionRequired},
		{"tool_required", "the agent has called the tool", true, (*judge).toolRequired},
		{"tool_forbidden", "the agent has not called the tool", true, (*judge).toolForbidden},
		{"tool_sequence", "the tools were called in this order", false, (*judge).toolSequence},
		{"tool_success", "no tool has failed", false, (*judge).toolSuccess},
		{"max_tool_calls", "there were not more calls than allowed", false, (*judge).maxToolCalls},
		{"max_latency_ms", "the last attempt took no longer than allowed", false, (*judge).maxLatency},
		{"max_tokens", "the agent needed no more tokens than allowed", false, (*judge).maxTokens},
		{"trace_integrity", "each call has one result, and the times are in order", false, (*judge).traceIntegrity},
		{"json_schema", "the output fits the schema", false, (*judge).jsonSchema},
		{"must_include", "the output has the text", true, include},
		{"must_not_include", "the output does not have the text", true, exclude},
		{"equals", "the output is the text", false, (*judge).equals},
		{"json_equals", "the output is the same JSON", false, (*judge).jsonEquals},
		{"retrieval_required", "the document was found", true, (*judge).retrievalRequired},
		{"evidence_required_for_actions", "each action above low risk has evidence", false, (*judge).evidenceRequired},
	} {
		v, there := j.expected[kind.name]
		if obj, ok := v.(map[string]any); ok && kind.name == "retrieval_required" {
			v = obj["doc_ids"]
		}
		elements, is := v.([]any)
		switch {
		case !there || v == false:
		case !kind.list:
			j.add(kind.name, kind.holds, kind.of(j, v))
		case !is:
			j.add(kind.name, "", malformed())
		}
		for i, element := range elements {
			if kind.list {
				j.add(kind.name+":"+strconv.Itoa(i), kind.holds, kind.of(j, element))
			}
		}
	}
}

// references judges whether all evidence is there: by what the loader found, and by what the file
// itself lists.
func (j *judge) references() {
	j.unresolved = slices.Clone(j.Unresolved)
	for i, v := range list(j.Doc, "evidence_unresolved") {
		at, _ := v.(string)
		if obj, ok := v.(map[string]any); ok {
			at = textOf(obj, "pointer")
		}
		if at == "" {
			at = "/evidence_unresolved/" + strconv.Itoa(i)
		}
		j.unresolved = append(j.unresolved, at)
	}
	slices.SortFunc(j.unresolved, canon.Compare)
	j.unresolved = slices.Compact(j.unresolved)
	var places []string
	for _, pointer := range j.unresolved {
		place, rest, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
		index, _, _ := strings.Cut(rest, "/")
		if i, err := strconv.Atoi(index); err == nil {
			place += "[" + strconv.Itoa(i) + "]"
		}
		places = append(places, place)
	}
	first := strings.Join(j.unresolved[:min(len(places), maxPlaces)], ", ")
	j.add(kindEvidence, "every reference leads to something",
		unless(len(places) > 0, "a reference leads nowhere", "", first, slices.Compact(places)))
}

// policy judges by what a policy has said of the subjects: that nothing was executed that it does
// not allow, and what the case expects of it.
func (j *judge) policy() {
	subjects, decided := j.subjects(), j.given.Actions
	complete := slices.EqualFunc(subjects, decided, func(s Subject, a grade.Action) bool { return s.Place == a.Subject })
	one := func(id, outcome string, about func(s Subject) bool) {
		holds, wrong := "the policy says what the case expects", "the policy does not say what the case expects"
		if id == kindPolicy {
			holds, wrong = "nothing was executed that the policy does not allow", "something was executed that the policy does not allow"
		}
		var of, other []string
		said := []string{}
		for i, s := range subjects {
			if complete && about(s) {
				of = append(of, s.Place)
				if decided[i].Outcome != outcome {
					other, said = append(other, s.Place), append(said, decided[i].Outcome+" "+s.Tool)
				}
			}
		}
		switch {
		case !j.given.Policy:
			j.add(id, "", skip("no policy was given"))
		case outcome == "":
			j.add(id, "", malformed())
		case !complete:
			j.add(id, "", broken("the policy has not decided every subject"))
		case len(of) == 0 && id != kindPolicy:
			j.add(id, "", skip("there is nothing that the policy could have decided so"))
		default:
			j.add(id, holds, unless(len(other) > 0, wrong, outcome, strings.Join(said, ", "), other))
		}
	}
	if j.given.Policy {
		one(kindPolicy, string(kernel.OutcomeBundle), func(s Subject) bool { return s.Executed })
	}
	switch v := j.expected[kindPolicy].(type) {
	case nil:
	case map[string]any:
		for i, tool := range canon.Names(v) {
			one(kindPolicy+":"+strconv.Itoa(i), textOf(v, tool), func(s Subject) bool { return s.Tool == tool })
		}
	default:
		one(kindPolicy+":0", textOf(j.expected, kindPolicy), func(Subject) bool { return true })
	}
}

// verdict returns the verdict of the run.
func (j *judge) verdict() grade.Verdict {
	asked := false
	switch {
	case j.Doc == nil:
		return grade.Missing
	case !j.answered() && infrastructure(failureOf(j.Doc)) != "":
		return grade.Error
	case !j.answered():
		return grade.Fail
	}
	for _, a := range j.assertions {
		if a.Failed() {
			return grade.Fail
		}
		asked = asked || a.Outcome == grade.Passed && a.ID != kindEvidence && a.ID != kindPolicy
	}
	if asked {
		return grade.Pass
	}
	return grade.Weak
}
