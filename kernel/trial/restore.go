package trial

import (
	"maps"
	"math"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// Restore returns the answer that a decoded case with the status ok was made from: the envelope is
// left out, and the texts of assets are put back. Normalize makes the same case of this answer. The
// function read returns the content of an asset. Restore changes nothing that doc has.
func Restore(doc map[string]any, read func(href string) ([]byte, error)) (map[string]any, error) {
	answer := make(map[string]any)
	for _, name := range [...]string{"workflow_id", "proposed_actions", "events", "final_output", "token_usage", "trace_anchor"} {
		if v, there := doc[name]; there {
			answer[name] = v
		}
	}
	v, err := restore(doc, "extensions_href", "json", read)
	if err != nil {
		return nil, err
	}
	extensions, _ := v.(map[string]any)
	maps.Copy(answer, extensions)
	list, _ := doc["events"].([]any)
	events := slices.Clone(list)
	for i, v := range list {
		sent, _ := v.(map[string]any)
		for _, name := range [...]string{"payload", "snippets"} {
			v, err := restore(sent, name+"_asset_href", sent[name+"_asset_type"], read)
			if err != nil {
				return nil, err
			}
			if _, inline := sent[name]; inline {
				name = "payload_summary" // was over the limit, and payload was not
			}
			if v != nil {
				event := maps.Clone(sent)
				event[name] = v
				events[i] = event
			}
		}
	}
	if list != nil {
		answer["events"] = events
	}
	return answer, nil
}

// restore returns the text of the asset that a member names, or the value whose JSON it is. Without
// the member it returns nil.
func restore(of map[string]any, member string, form any, read func(href string) ([]byte, error)) (any, error) {
	href, ok := of[member].(string)
	if !ok {
		return nil, nil
	}
	text, err := read(href)
	if err != nil || form != "json" {
		return string(text), err
	}
	return canon.ParseLiteral(text, len(text), math.MaxInt)
}
