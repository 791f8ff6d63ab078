package trial

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// events normalizes the events. An event of an unknown type has a type and a ts, and keeps what else
// it has.
func (n *normalizer) events(root object) {
	list := root.objects("events")
	n.count = len(list)
	for _, o := range list {
		id, ok := o.members["call_id"].(string)
		if !ok || o.members["type"] != "tool_call" {
			continue
		}
		if _, known := n.calls[id]; known {
			o.fault("call_id", msgCall)
		} else {
			n.calls[id] = o.members["ts"]
		}
	}
	for _, o := range list {
		get[json.Number](o, "ts", msgNumber, true)
		switch kind, _ := o.text("type", true); kind {
		case "tool_call":
			o.call()
		case "tool_result":
			o.result()
		case "retrieval":
			o.retrieval()
		case "final_output":
			o.output()
		}
	}
}

func (o object) call() {
	o.text("call_id", true)
	o.text("action_id", false)
	o.text("tool", true)
	get[map[string]any](o, "args", msgObject, true)
	o.risk(false)
	o.texts("risk_tags", false)
}

func (o object) result() {
	id, ok := o.text("call_id", true)
	if ok && o.n.results[id] {
		o.fault("call_id", msgResult)
	}
	o.n.results[id] = ok
	o.text("action_id", false)
	if o.members["status"] == "timeout" && !o.n.want.Strict {
		o.repair("status", "error", StatusTimeout)
		o.members["error_code"] = "timeout"
	}
	o.word("status", true, "ok", "error")
	if o.absent("latency_ms") {
		ms := between(o.n.calls[id], o.members["ts"])
		o.repair("latency_ms", json.Number(strconv.FormatInt(ms, 10)), LatencyAbsent)
	}
	get[json.Number](o, "latency_ms", msgNumber, true)
	o.textOrObject("payload_summary", false)
	text := o.move("payload", KindFullPayload, "payload", "payload_summary")
	if _, there := o.members["payload_summary"]; text != nil && !there {
		o.members["payload_summary"] = head(text, min(1024, o.n.inline()))
	}
}

// between returns the whole milliseconds from one ts to another. It returns 0 if the second is
// earlier, or if one of them is no number of milliseconds.
func between(from, to any) int64 {
	if d := millis(to) - millis(from); d > 0 {
		return int64(d)
	}
	return 0
}

// millis returns a number without its fraction, or NaN.
func millis(v any) float64 {
	n, _ := v.(json.Number)
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.Abs(f) > canon.MaxSafeInteger {
		return math.NaN()
	}
	return math.Floor(f)
}

func (o object) retrieval() {
	o.text("query", true)
	for _, id := range o.texts("doc_ids", true) {
		o.n.docs[id] = true
	}
	o.texts("snippets_hashes", false)
	o.move("snippets", KindSnippets, "snippets")
}

// inline is the size of a payload or of snippets that stay in their event.
func (n *normalizer) inline() int { return max(0, n.want.Limits.MaxPayloadInlineBytes) }

// move moves the members that are over the limit into one asset, and returns its text. Members that
// begin with prefix describe it. If there are two, it has the text of an object of both.
func (o object) move(prefix, kind string, names ...string) (text []byte) {
	delete(o.members, prefix+"_asset_type")
	over := make(map[string]any)
	form := "text" // or json: the text is the JSON of a value
	for _, name := range names {
		v, there := o.sent[name]
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
	o.members[prefix+"_asset_href"], o.members[prefix+"_asset_sha256"], o.members[prefix+"_asset_type"] = a.Href, hash(text), form
	return text
}

// head returns the first whole characters of a text, at most so many bytes.
func head(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return string(text[:most])
}

// textOrObject checks a member that is a string or an object.
func (o object) textOrObject(name string, must bool) {
	if _, ok := o.members[name].(string); !ok {
		get[map[string]any](o, name, msgContent, must)
	}
}

// output checks the type and the content of an output.
func (o object) output() {
	kind, _ := o.word("content_type", true, "text", "json")
	v, there := o.members["content"]
	_, ok := v.(map[string]any)
	if _, text := v.(string); !ok && !text && there && kind == "json" && !o.n.want.Strict {
		o.repair("content", string(o.n.content(o.at+"/content", v)), ContentJSON)
	}
	o.textOrObject("content", true)
}

// final normalizes final_output.
func (n *normalizer) final(root object) {
	sent, ok := get[map[string]any](root, "final_output", msgObject, true)
	if !ok {
		return
	}
	o := object{n, "/final_output", without(sent), sent}
	root.members["final_output"] = o.members
	o.output()
	o.members["output_hash"] = hash(n.content("/final_output/content", o.members["content"]))[:16]
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

// evidence checks a reference: it has the identifier of its kind and no other, which names something
// in this answer.
func (o object) evidence() {
	kind, ok := o.word("kind", true, "tool_result", "retrieval_doc", "event", "asset")
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
	if id, there := o.members["id"]; kind == "retrieval_doc" && there && o.absent("doc_id") {
		delete(o.members, "id")
		o.repair("doc_id", id, DocID)
	}
	name, known, msg := "id", o.n.named, msgNoAsset
	switch kind {
	case "tool_result":
		name, known, msg = "call_id", o.n.results, msgNoResult
	case "retrieval_doc":
		name, known, msg = "doc_id", o.n.docs, msgNoDoc
	}
	id, ok := o.members[name].(string)
	at := o.at + "/" + name
	found := known[id]
	if kind == "event" {
		id, found = o.n.index(id)
		msg = msgNoEvent
	}
	switch {
	case count != 1 || !ok:
		at, msg = o.at, msgNames
	case found:
		o.members[name] = id
		return
	}
	if !o.n.want.WarnEvidence {
		o.n.fault(at, msg)
		return
	}
	o.n.unresolved = append(o.n.unresolved, Unresolved{o.at, kind, canon.Cut(id)})
}

// index returns the identifier of an event, which is events[N] or N, as events[N].
func (n *normalizer) index(id string) (string, bool) {
	digits := id
	if inner, ok := strings.CutPrefix(id, "events["); ok {
		if digits, ok = strings.CutSuffix(inner, "]"); !ok {
			return id, false
		}
	}
	i, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(i) != digits || i < 0 || i >= n.count {
		return id, false
	}
	return "events[" + digits + "]", true
}
