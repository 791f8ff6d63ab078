package trial

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// events normalizes the events. An event of an unknown type has a type and a ts, and keeps what else
// it has. The results come last, since each looks for its call.
func (n *normalizer) events(root object) {
	var results []object
	for i, o := range root.objects("events") {
		index := strconv.Itoa(i)
		n.known["event"][index], n.known["event"]["events["+index+"]"] = "events["+index+"]", "events["+index+"]"
		get[json.Number](o, "ts", msgNumber, true)
		switch kind, _ := o.text("type", true); kind {
		case "tool_call":
			o.once(n.calls, o.members["ts"])
			o.text("action_id", false)
			o.text("tool", true)
			get[map[string]any](o, "args", msgObject, true)
			o.risk(false)
			o.texts("risk_tags", false)
		case "tool_result":
			results = append(results, o)
		case "retrieval":
			o.text("query", true)
			for _, id := range o.texts("doc_ids", true) {
				n.known["retrieval_doc"][id] = id
			}
			o.texts("snippets_hashes", false)
			o.move("snippets", KindSnippets, "snippets")
		case "final_output":
			o.output()
		}
	}
	for _, o := range results {
		o.result()
	}
}

// once returns the call_id, and adds it to those of the events of this type.
func (o object) once(known set, v any) string {
	id, ok := o.text("call_id", true)
	if _, twin := known[id]; twin && ok {
		o.fault("call_id", msgTwin)
	} else if ok {
		known[id] = v
	}
	return id
}

func (o object) result() {
	id := o.once(o.n.known["tool_result"], o.members["call_id"])
	o.text("action_id", false)
	if o.members["status"] == "timeout" && !o.n.want.Strict {
		o.repair("status", "error", StatusTimeout)
		o.members["error_code"] = "timeout"
	}
	o.text("status", true, "ok", "error")
	if o.absent("latency_ms") {
		ms := between(o.n.calls[id], o.members["ts"])
		o.repair("latency_ms", json.Number(strconv.FormatInt(ms, 10)), LatencyAbsent)
	}
	get[json.Number](o, "latency_ms", msgNumber, true)
	if _, ok := o.members["payload_summary"].(map[string]any); !ok {
		get[string](o, "payload_summary", msgContent, false)
	}
	text := o.move("payload", KindFullPayload, "payload", "payload_summary")
	if _, there := o.members["payload_summary"]; text != nil && !there {
		head := text[:min(len(text), 1024, o.n.inline())]
		o.members["payload_summary"] = strings.ToValidUTF8(string(head), "") // without half a character
	}
}

// between returns the whole milliseconds from one ts to another. It returns 0 if the second is
// earlier, or if one of them is no number of milliseconds.
func between(from, to any) int64 {
	var ms [2]float64
	for i, v := range [...]any{from, to} {
		n, _ := v.(json.Number)
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil || math.Abs(f) > canon.MaxSafeInteger {
			return 0
		}
		ms[i] = math.Floor(f)
	}
	return int64(max(0, ms[1]-ms[0]))
}

// inline is the size of a payload or of snippets that stay in their event.
func (n *normalizer) inline() int { return max(0, n.want.Limits.MaxPayloadInlineBytes) }

// move moves the members that are over the limit into one asset, and returns its text. Members that
// begin with prefix describe it. If there are two, it has the text of an object of both.
func (o object) move(prefix string, kind Kind, names ...string) (text []byte) {
	delete(o.members, prefix+"_asset_type")
	over := make(map[string]any)
	form := "text" // or json: the text is the JSON of a value
	for _, name := range names {
		v, there := o.members[name]
		if !there {
			continue
		}
		if t := o.n.content(o.at+"/"+name, v); len(t) > o.n.inline() {
			delete(o.members, name)
			over[name], text = v, t
			if _, ok := v.(string); !ok {
				form = "json"
			}
		}
	}
	if len(over) == 0 {
		return nil
	}
	if len(over) > 1 {
		text, form = o.n.content(o.at, over), "text"
	}
	a := o.n.keep(kind, text)
	o.members[prefix+"_asset_href"], o.members[prefix+"_asset_sha256"], o.members[prefix+"_asset_type"] = a.Href, a.SHA256, form
	return text
}

// output checks the type and the content of an output.
func (o object) output() {
	kind, _ := o.text("content_type", true, "text", "json")
	v, there := o.members["content"]
	if _, ok := v.(map[string]any); ok {
		return
	}
	if _, ok := v.(string); !ok && there && kind == "json" && !o.n.want.Strict {
		o.repair("content", string(o.n.content(o.at+"/content", v)), ContentJSON)
	}
	get[string](o, "content", msgContent, true)
}

// final normalizes final_output.
func (n *normalizer) final(root object) {
	members, ok := get[map[string]any](root, "final_output", msgObject, true)
	if !ok {
		return
	}
	o := object{n, "/final_output", members}
	o.output()
	o.members["output_hash"] = canon.Sum(n.content("/final_output/content", o.members["content"])).Hex()[:16]
	delete(o.members, "redactions_applied")
	if len(n.want.Redactions) > 0 {
		o.members["redactions_applied"] = canon.List(n.want.Redactions)
	}
}

// actions normalizes the proposed actions, after the events and all assets.
func (n *normalizer) actions(root object) {
	for _, o := range root.objects("proposed_actions") {
		o.text("action_id", true)
		o.text("action_type", true)
		o.text("tool_name", true)
		get[map[string]any](o, "params", msgObject, true)
		if o.absent("risk_level") {
			o.repair("risk_level", "unknown", RiskAbsent)
		}
		o.risk(true)
		o.texts("risk_tags", true)
		for _, ref := range o.objects("evidence_refs") {
			ref.evidence()
		}
	}
}

// Unresolved is a reference to evidence that is not there.
type Unresolved struct {
	Pointer string `json:"pointer"` // into the case
	Kind    string `json:"kind"`
	ID      string `json:"id"` // the identifier of its kind, cut by canon.Cut; empty: it has none
}

// Identifier returns the member that identifies what a reference of a kind leads to.
func Identifier(kind string) string {
	switch kind {
	case "tool_result":
		return "call_id"
	case "retrieval_doc":
		return "doc_id"
	}
	return "id"
}

// evidence checks a reference: it has the identifier of its kind and no other, which names something
// in this answer.
func (o object) evidence() {
	kind, ok := o.text("kind", true, "tool_result", "retrieval_doc", "event", "asset")
	count := 0
	for _, name := range [...]string{"call_id", "doc_id", "id"} {
		if _, there := o.members[name]; there {
			_, text := o.text(name, true)
			ok = ok && text
			count++
		}
	}
	if !ok {
		return
	}
	if id, there := o.members["id"]; there && kind == "retrieval_doc" && o.absent("doc_id") {
		delete(o.members, "id")
		o.repair("doc_id", id, DocID)
	}
	name := Identifier(kind)
	id, there := o.members[name].(string)
	stored, found := o.n.known[kind][id]
	at, msg := o.at+"/"+name, msgNothing
	if count != 1 || !there {
		at, msg, found = o.at, msgNames, false
	}
	switch {
	case found:
		o.members[name] = stored
	case o.n.want.WarnEvidence:
		o.n.Unresolved = append(o.n.Unresolved, Unresolved{o.at, kind, canon.Cut(id)})
	default:
		o.n.fault(at, msg)
	}
}
