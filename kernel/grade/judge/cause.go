package judge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/text"
	"github.com/fiador/fiador/kernel/trial"
)

// The confidences of a root cause.
const (
	high   = "high"
	medium = "medium"
	low    = "low"
)

// Names of errors of the class other that say nothing about the agent: the runner could not ask, or
// a recording does not have the case.
const notTheAgent = text.Words("interrupted internal spawn_failed content_decoding not_recorded recording_unreadable")

// failureOf returns the class and the name of the failure of a case without an answer.
func failureOf(doc map[string]any) (class trial.Class, name string) {
	failure, _ := doc["runner_failure"].(map[string]any)
	return trial.Class(textOf(failure, "class")), textOf(failure, "error_name")
}

// infrastructure returns the root cause of a failure that is no answer; "" if it is one: what came
// back, or how a command ended, is the agent's.
func infrastructure(class trial.Class, name string) string {
	switch {
	case class == trial.Timeout:
		return "infra_timeout"
	case class == trial.NetworkError:
		return "infra_network"
	case class == trial.HTTPError:
		return "infra_http"
	case class == trial.Other && notTheAgent.Has(name):
		return "infra_other"
	}
	return ""
}

// cause returns why a run did not pass: the first that holds.
func (j *judge) cause(v grade.Verdict) *grade.RootCause {
	switch v {
	case grade.Missing:
		return causeOf("missing_case", high, []string{})
	case grade.Pass, grade.Weak:
		return nil
	}
	if textOf(j.Doc, "status") != string(trial.OK) {
		class, name := failureOf(j.Doc)
		cause := infrastructure(class, name)
		switch {
		case cause != "":
		case class != trial.SchemaMismatch:
			cause = "bad_response_format"
		case name == "evidence_unresolved": // the word of a fault, see trial.FaultWords
			cause = "evidence_unresolved"
		default:
			cause = "contract_violation"
		}
		return causeOf(cause, high, []string{"runner_failure"})
	}
	for _, c := range []struct {
		name, confidence string
		kinds            text.Words
	}{
		{"evidence_unresolved", high, kindEvidence},
		{"policy_violation", medium, kindPolicy},
		{"tool_failure", medium, ""},
		{"wrong_tool_choice", medium, "tool_required tool_forbidden tool_sequence tool_success action_required"},
		{"missing_required_data", medium, "retrieval_required evidence_required_for_actions"},
		{"format_violation", medium, "json_schema trace_integrity"},
		{"output_mismatch", medium, "must_include must_not_include equals json_equals"},
		{"unknown", low, "max_tool_calls max_latency_ms max_tokens"},
	} {
		places, found := j.failures(c.kinds)
		if c.name == "tool_failure" {
			places = j.toolFailure()
			found = len(places) > 0
		}
		if found {
			return causeOf(c.name, c.confidence, places)
		}
	}
	return causeOf("unknown", low, []string{})
}

// failures returns the places that failed assertions of some kinds name, each once, and whether
// there is such an assertion.
func (j *judge) failures(kinds text.Words) (places []string, found bool) {
	places = []string{}
	for _, a := range j.assertions {
		if !a.Failed() || !kinds.Has(a.Kind) {
			continue
		}
		found = true
		for _, p := range a.Evidence {
			if len(places) < maxPlaces && !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	return places, found
}

// toolFailure returns the first result that is an error and not later than every event that a failed
// assertion names. If no failed assertion names an event, as those about the output do not, the
// first error counts wherever it is.
func (j *judge) toolFailure() []string {
	first := len(j.events)
	for _, a := range j.assertions {
		for _, p := range a.Evidence {
			index, is := strings.CutPrefix(p, "events[")
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if is && err == nil && a.Failed() {
				first = min(first, i)
			}
		}
	}
	for _, result := range j.results {
		if result.obj["status"] != "ok" && result.at <= first {
			return []string{result.place}
		}
	}
	return nil
}

func causeOf(name, confidence string, places []string) *grade.RootCause {
	return &grade.RootCause{Name: name, Confidence: confidence, Evidence: places}
}
