package model

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/outbound"
)

// ask sends a prompt to the endpoint of an adapter and returns the body of the answer.
func ask(ctx context.Context, a Adapter, key string, prompt []byte) ([]byte, *Error) {
	header := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"fiador"},
	}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	url := strings.TrimSuffix(a.BaseURL, "/") + "/chat/completions"
	body, fault := outbound.Request{Method: http.MethodPost, URL: url, Header: header, Body: prompt, Most: pack.MaxResponseBytes}.Send(ctx)
	if fault != nil {
		return nil, &Error{Msg: fault.Msg, Next: advice(fault, a)}
	}
	if msg := bodyFault(body, key); msg != "" {
		return nil, &Error{Msg: msg}
	}
	return body, nil
}

// advice says what to do about a fault, or nothing.
func advice(f *outbound.Fault, a Adapter) string {
	code := f.Status
	switch {
	case code >= 300 && code <= 399:
		return "give the adapter the base URL that the endpoint has"
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && a.KeyEnv == "":
		return "the adapter names no key_env, and the endpoint may want a key"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "look at the key in " + a.KeyEnv
	case f.Type, code == http.StatusNotFound:
		return "the base URL has to lead to an endpoint for chat completions"
	case code == http.StatusTooManyRequests || code >= 500:
		return "run the intent again later"
	}
	return ""
}

// leastSecret is the minimum length of a key that is searched for in answers. A shorter
// key is a placeholder.
const leastSecret = 8

func bodyFault(body []byte, key string) string {
	if why := pack.ResponseFault(body); why != "" {
		return "the answer cannot be recorded: " + why
	}
	if !json.Valid(body) {
		return "the answer is not JSON"
	}
	if len(key) >= leastSecret && repeats(body, key) {
		return "the answer repeats the key, and is thrown away"
	}
	return ""
}

// repeats says whether a JSON text contains a word, escaped or not.
func repeats(body []byte, word string) bool {
	if bytes.Contains(body, []byte(word)) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		t, err := d.Token()
		if err != nil {
			return err != io.EOF
		}
		if s, ok := t.(string); ok && strings.Contains(s, word) {
			return true
		}
	}
}
