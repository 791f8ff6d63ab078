// Package model asks models over HTTP, keeps what they answer, and gives the same
// answers again.
//
// # Adapters
//
// An adapter is a model behind an endpoint that speaks the OpenAI-compatible form of
// chat completions. A file lists them ([ParseAdapters]):
//
//	{"adapters": [{"id": "local", "base_url": "http://127.0.0.1:8080/v1", "model": "small"}]}
//
// base_url is https, or http on the machine itself; it has no user, query or fragment.
// key_env names the environment variable that holds the key. The file contains no key.
//
// # Asking
//
// A call is one POST of the unchanged prompt to base_url + "/chat/completions". No
// prompt can change the destination: no redirect is followed, no proxy is used, whatever
// the environment says, and no cookie is kept. For a base URL with http, only addresses
// of the machine itself are allowed. An answer is accepted if its status is 2xx, its
// type is JSON, and its body is JSON in UTF-8 of at most 1 000 000 bytes that a
// recording can hold and that does not repeat the key. An answer is not changed. A key
// of fewer than eight characters is not searched for. A key is not found if it is
// escaped once more, in a JSON text within the JSON, or encoded as base64.
//
// # Recording and replaying
//
// A [Recorder] asks and records. A [Player] has a recording and no network: each call
// gets the response of the next unused interaction with its prompt hash. Each of the two
// serves one run.
//
// An error names neither the endpoint nor a key.
package model

import (
	"github.com/fiador/fiador/kernel/canon"
)

// Error says why a model cannot be called, or why a call has no answer.
type Error struct {
	Msg    string
	Prompt canon.ContentHash // of the call, or empty
	Next   string            // advice, or empty
}

// Error returns the message.
func (e *Error) Error() string {
	if e.Prompt == "" {
		return e.Msg
	}
	return e.Msg + " (prompt " + string(e.Prompt) + ")"
}

// Hint returns advice about the error, or "".
func (e *Error) Hint() string { return e.Next }
