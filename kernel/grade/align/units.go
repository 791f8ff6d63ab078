package align

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// finalPlace is the place of the member final_output.
const finalPlace = "final_output"

// Units returns the units of the file of a case, in the order of its events. The n-th result with
// a call_id belongs to the n-th call with it, wherever the two stand. A result without a call is a
// call without a tool, whose Place is its Result. The member final_output comes last, and replaces
// the last event of an output if their contents are equal. Units takes every JSON object. It
// returns nothing for a case that failed.
func Units(doc map[string]any) []grade.Unit {
	if doc["status"] == string(trial.RunnerError) {
		return nil
	}
	events, _ := doc["events"].([]any)
	units := make([]grade.Unit, len(events), len(events)+1)
	calls := make(map[string][]*grade.Unit) // without a result, by call_id
	var output *grade.Unit                  // of the last event of an output
	for i, event := range events {
		o, _ := event.(map[string]any)
		u := &units[i]
		fill(u, "events["+strconv.Itoa(i)+"]", event)
		if id, ok := o["call_id"].(string); ok && o["type"] == "tool_call" {
			calls[id] = append(calls[id], u)
		} else if u.Kind == grade.UnitOutput {
			output = u
		}
	}
	for i, event := range events {
		o, _ := event.(map[string]any)
		if id, ok := o["call_id"].(string); ok && o["type"] == "tool_result" && len(calls[id]) > 0 {
			u, r := calls[id][0], &units[i]
			u.Result, u.Status, u.Payload, u.Sum, u.Latency = r.Result, r.Status, r.Payload, r.Sum, r.Latency
			r.Kind, calls[id] = "", calls[id][1:]
		}
	}
	if o, ok := doc[finalPlace].(map[string]any); ok {
		final := grade.Unit{Kind: grade.UnitOutput, Place: finalPlace, Payload: o["content"], Latency: -1}
		if output != nil && jsonOf(output.Payload) == jsonOf(final.Payload) {
			final.TS, output.Kind = output.TS, ""
		}
		units = append(units, final)
	}
	return slices.DeleteFunc(units, func(u grade.Unit) bool { return u.Kind == "" })
}

// fill describes one event.
func fill(u *grade.Unit, place string, event any) {
	o, _ := event.(map[string]any)
	u.Place, u.TS, u.Latency = place, numberOr(o["ts"], 0), -1
	switch o["type"] {
	case "tool_call":
		u.Kind, u.Args = grade.UnitCall, o["args"]
		u.Tool, _ = o["tool"].(string)
	case "tool_result":
		u.Kind, u.Result, u.Latency = grade.UnitCall, place, numberOr(o["latency_ms"], -1)
		u.Status, _ = o["status"].(string)
		u.Payload, u.Sum = o["payload"], assetSum(o, "payload")
		if summary := o["payload_summary"]; u.Payload == nil {
			u.Payload = summary
		} else if summary != nil { // an object of both, as in an asset of both
			both := make(map[string]any)
			both["payload"], both["payload_summary"] = u.Payload, summary
			u.Payload = both
		}
	case "retrieval":
		u.Kind, u.Args, u.Payload, u.Sum = grade.UnitRetrieval, o["query"], o["doc_ids"], assetSum(o, "snippets")
		if o["snippets"] != nil || o["snippets_hashes"] != nil {
			u.Sum = jsonSum([]any{u.Sum, o["snippets"], o["snippets_hashes"]})
		}
	case "final_output":
		u.Kind, u.Payload = grade.UnitOutput, o["content"]
	default:
		u.Kind, u.Payload = grade.UnitOther, event
		if o != nil {
			u.Tool, _ = o["type"].(string)
			o = maps.Clone(o)
			delete(o, "ts")
			u.Payload = o
		}
	}
}

// assetSum returns the hash of a value that is an asset, or its href, or nothing.
func assetSum(o map[string]any, name string) string {
	sum, _ := o[name+"_asset_sha256"].(string)
	href, _ := o[name+"_asset_href"].(string)
	return cmp.Or(sum, href)
}

func numberOr(v any, otherwise float64) float64 {
	n, _ := v.(json.Number)
	if f, err := n.Float64(); err == nil {
		return f
	}
	return otherwise
}

// jsonOf returns the JSON of a decoded value, with numbers as they are spelt. A value that is no
// decoded JSON gets the text that Go has for it.
func jsonOf(v any) string {
	b, err := canon.Literal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v)
	}
	return string(b)
}

func jsonSum(v any) string { return string(canon.Sum([]byte(jsonOf(v)))) }
