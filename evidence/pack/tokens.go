package pack

import (
	"encoding/json"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// Tokens are the counts that a response of a model gives: usage.prompt_tokens and
// usage.completion_tokens, each nil where it is not a whole number from 0 on.
func Tokens(response []byte) (input, output *int64) {
	var answer struct {
		Usage struct {
			Prompt     json.RawMessage `json:"prompt_tokens"`
			Completion json.RawMessage `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(response, &answer) != nil {
		return nil, nil
	}
	return tokenCount(answer.Usage.Prompt), tokenCount(answer.Usage.Completion)
}

// tokenCount is a number of tokens, or nil where it is none.
func tokenCount(raw json.RawMessage) *int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > canon.MaxSafeInteger {
		return nil
	}
	return &n
}
