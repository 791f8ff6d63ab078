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
// key_env names the environment variable that holds the key. No key stands in the file.
//
// # Asking
//
// A call is one POST of the prompt, as it is, to base_url + "/chat/completions". Nothing
// in a prompt can lead it elsewhere: no redirect is followed, no proxy is used, whatever
// the environment says, no cookie is kept, and for a base URL with http only an address
// of the machine itself is connected to. An answer counts if its status is 2xx, its type
// is JSON, and its body is JSON in UTF-8 of at most 1 000 000 bytes that a recording can
// hold and that does not repeat the key. It is not changed. A key of fewer than eight
// characters is not looked for, and one that is escaped once more, in a JSON text within
// the JSON, or encoded as base64, is not found.
//
// # Recording and replaying
//
// A [Recorder] asks and records. A [Player] has a recording and no network: each call
// gets the response of the next interaction with its prompt hash that no call has had.
// Each of the two serves one run.
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
	Next   string            // what to do, or empty
}

func (e *Error) Error() string {
	if e.Prompt == "" {
		return e.Msg
	}
	return e.Msg + " (prompt " + string(e.Prompt) + ")"
}

// Hint says what to do about it, or is empty.
func (e *Error) Hint() string { return e.Next }
