package judge

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

func (j *judge) actionRequired(v any) said {
	return named(v, byText(j.actions, "action_type"), "the agent has not proposed the action", true)
}

func (j *judge) toolRequired(v any) said {
	return named(v, byText(j.calls, "tool"), "the agent has not called the tool", true)
}

func (j *judge) toolForbidden(v any) said {
	return named(v, byText(j.calls, "tool"), "the agent has called the tool", false)
}

func (j *judge) retrievalRequired(v any) said {
	of := map[string][]event{}
	for _, e := range byText(j.events, "type")["retrieval"] {
		ids, _ := texts(e.obj["doc_ids"])
		for _, id := range ids {
			of[id] = append(of[id], e)
		}
	}
	return named(v, of, "the document was not found", true)
}

// byText returns events by a member of theirs that is a text.
func byText(events []event, member string) map[string][]event {
	of := map[string][]event{}
	for _, e := range events {
		if s, ok := e.obj[member].(string); ok {
			of[s] = append(of[s], e)
		}
	}
	return of
}

// named judges a name that events must have, or must not have.
func named(v any, of map[string][]event, reason string, wanted bool) said {
	name, ok := v.(string)
	if !ok {
		return malformed()
	}
	var places []string
	for _, e := range of[name] {
		places = append(places, e.place)
	}
	if (len(places) > 0) == wanted {
		return said{places: places}
	}
	expected := name
	if !wanted {
		expected = "not " + name
	}
	return said{grade.Failed, reason, expected, literal(canon.List(canon.Names(of))), places}
}

// texts returns the texts of a list, and whether it is a list of texts that are not empty.
func texts(v any) (of []string, ok bool) {
	elements, ok := v.([]any)
	for _, element := range elements {
		text, _ := element.(string)
		of, ok = append(of, text), ok && text != ""
	}
	return of, ok
}

// toolSequence judges the order of the calls. Without a mode, other calls may stand between.
func (j *judge) toolSequence(v any) said {
	mode := "subsequence"
	if obj, ok := v.(map[string]any); ok {
		mode, v = textOf(obj, "mode"), obj["tools"]
	}
	want, ok := texts(v)
	switch {
	case !ok || !slices.Contains([]string{"subsequence", "exact", "prefix"}, mode):
		return malformed()
	case len(want) == 0 && mode != "exact":
		return skip("the case names no tool")
	}
	n := 0 // tools found, in their order; without a gap if nothing is odd
	var tools, places, odd []string
	for i, call := range j.calls {
		tools = append(tools, textOf(call.obj, "tool"))
		switch {
		case n < len(want) && tools[i] == want[n]:
			n++
			places = append(places, call.place)
		case mode == "exact" || mode == "prefix" && i < len(want):
			odd = append(odd, call.place)
		}
	}
	if n == len(want) && len(odd) == 0 {
		return said{places: places}
	}
	return said{grade.Failed, "the tools were not called in this order", mode + " " + literal(canon.List(want)), literal(canon.List(tools)), odd[:min(len(odd), 1)]}
}

// toolSuccess judges the results: one that is not ok is an error, unless each call with its call_id
// is one of a tool whose errors are allowed.
func (j *judge) toolSuccess(v any) said {
	obj, is := v.(map[string]any)
	allowed, ok := texts(obj["allow_errors"])
	switch {
	case v != true && !(is && ok):
		return malformed()
	case len(j.results) == 0:
		return skip("no tool has given a result")
	}
	calls := byText(j.calls, "call_id")
	strict := func(call event) bool { return !slices.Contains(allowed, textOf(call.obj, "tool")) }
	var places []string
	for _, result := range j.results {
		of := calls[textOf(result.obj, "call_id")]
		if result.obj["status"] != "ok" && (len(of) == 0 || slices.ContainsFunc(of, strict)) {
			places = append(places, result.place)
		}
	}
	return unless(len(places) > 0, "a tool has failed", "ok", "error", places)
}

func (j *judge) maxToolCalls(v any) said {
	var over []string
	if limit, ok := canon.Whole(v); ok && limit >= 0 && int64(len(j.calls)) > limit {
		over = []string{j.calls[limit].place}
	}
	return atMost(v, float64(len(j.calls)), true, "there were more calls than allowed", over)
}

func (j *judge) maxLatency(v any) said {
	attempts := eventsOf(j.Doc, "attempts")
	if len(attempts) == 0 {
		return atMost(v, 0, false, "", nil)
	}
	ms, known := number(attempts[len(attempts)-1].obj["latency_ms"])
	return atMost(v, ms, known, "the last attempt took longer than allowed", nil)
}

// maxTokens judges the greatest number that the usage shows: a total, or the sum of what went in and
// what came out, under the names that providers of models use. One part alone is a lower bound.
func (j *judge) maxTokens(v any) said {
	usage, _ := j.Doc["token_usage"].(map[string]any)
	most, known := 0.0, false
	for _, members := range [][]string{{"total_tokens"}, {"total"}, {"input_tokens", "output_tokens"}, {"prompt_tokens", "completion_tokens"}} {
		sum, all := 0.0, true
		for _, name := range members {
			n, ok := number(usage[name])
			if all = all && ok; ok {
				sum += n
			}
		}
		most, known = max(most, sum), known || all
	}
	return atMost(v, most, known, "the agent needed more tokens than allowed", nil)
}

// number returns a measure: a finite number that is not negative.
func number(v any) (float64, bool) {
	n, _ := v.(json.Number)
	f, err := strconv.ParseFloat(string(n), 64)
	return f, err == nil && f >= 0
}

func atMost(v any, measure float64, known bool, reason string, places []string) said {
	limit, ok := canon.Whole(v)
	switch {
	case !ok:
		return malformed()
	case !known:
		return said{outcome: grade.Broken, reason: "the file of the case does not have the measure", expected: "at most " + literal(v)}
	}
	return unless(measure > float64(limit), reason, "at most "+literal(v), strconv.FormatFloat(measure, 'f', -1, 64), places)
}

// traceIntegrity judges the trace: each call_id stands in one call and one result, and no event is
// more than a second older than one before it.
func (j *judge) traceIntegrity(any) said {
	if len(j.events) == 0 {
		return skip("there is no event")
	}
	var reason string
	var places []string
	wrong := func(e event, what string) {
		if places = append(places, e.place); reason == "" {
			reason = what
		}
	}
	calls, results := byText(j.calls, "call_id"), byText(j.results, "call_id")
	latest := math.Inf(-1)
	for _, e := range j.events {
		kind, id := textOf(e.obj, "type"), textOf(e.obj, "call_id")
		ts, _ := e.obj["ts"].(json.Number)
		at, err := strconv.ParseFloat(string(ts), 64)
		switch {
		case (kind == "tool_call" || kind == "tool_result") && (len(calls[id]) != 1 || len(results[id]) != 1):
			wrong(e, "a call does not have exactly one result, or a result one call")
		case err != nil:
			wrong(e, "an event has no time")
		case at < latest-1000:
			wrong(e, "an event is more than a second older than one before it")
		}
		if err == nil {
			latest = max(latest, at)
		}
	}
	return unless(len(places) > 0, reason, "", "", places)
}

// evidenceRequired judges whether each action above low risk has a reference that leads to
// something. The list of the assets is no evidence: every run can have it.
func (j *judge) evidenceRequired(any) said {
	lost := map[string]bool{}
	for _, pointer := range j.unresolved {
		if parts := strings.Split(pointer, "/"); len(parts) > 4 {
			lost[strings.Join(parts[:5], "/")] = true // also if the pointer leads to a member of the reference
		}
	}
	var places []string
	above := 0
	for i, action := range j.actions {
		if textOf(action.obj, "risk_level") == "low" {
			continue
		}
		above++
		at := "/proposed_actions/" + strconv.Itoa(i) + "/evidence_refs/"
		leads := func(ref event) bool {
			return !lost[at+strconv.Itoa(ref.at)] && (ref.obj["kind"] != "asset" || ref.obj["id"] != trial.ManifestFile)
		}
		if !slices.ContainsFunc(eventsOf(action.obj, "evidence_refs"), leads) {
			places = append(places, action.place)
		}
	}
	if above == 0 {
		return skip("no action has more than a low risk")
	}
	return unless(len(places) > 0, "an action above low risk has no evidence", "", "", places)
}
