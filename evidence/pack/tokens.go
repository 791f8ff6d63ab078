package pack

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// Tokens returns the counts in a response of a model: usage.prompt_tokens and
// usage.completion_tokens. Each is nil if it is not a whole number from 0 on. The name
// of a member must match exactly, and a member that occurs twice is ignored.
func Tokens(response []byte) (input, output *int64) {
	if !json.Valid(response) {
		return nil, nil
	}
	counts := onlyMembers(onlyMembers(response, "usage")["usage"], "prompt_tokens", "completion_tokens")
	return tokenCount(counts["prompt_tokens"]), tokenCount(counts["completion_tokens"])
}

// onlyMembers returns the members of an object with these names that occur once. Valid
// JSON that is no object has none.
func onlyMembers(object json.RawMessage, names ...string) map[string]json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	found, seen := map[string]json.RawMessage{}, map[string]int{}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		wanted, _ := name.(string)
		if !slices.Contains(names, wanted) {
			continue
		}
		if seen[wanted]++; seen[wanted] > 1 {
			value = nil
		}
		found[wanted] = value
	}
	return found
}

// tokenCount returns a number of tokens, or nil if the value is no such number.
func tokenCount(raw json.RawMessage) *int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > canon.MaxSafeInteger {
		return nil
	}
	return &n
}
