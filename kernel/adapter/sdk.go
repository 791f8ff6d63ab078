package adapter

import (
	"bytes"

	"github.com/fiador/fiador/kernel/canon"
)

// Answered returns what the function of a library replied through standard output: the last
// line that begins with the hash of the request and a space. Behind these stands
// {"result": value}, or {"error": {"type", "message"}}. Everything else in the stream is the
// library's. The answer is the canonical JSON of the result.
func (b *Bound) Answered(stdout []byte) Reply {
	begin := []byte("\n" + string(b.RequestHash) + " ")
	at := bytes.LastIndex(append([]byte("\n"), stdout...), begin)
	if at < 0 {
		return Reply{Failure: FailOutput}
	}
	line, _, _ := bytes.Cut(stdout[at+len(begin)-1:], []byte("\n"))
	doc, err := canon.Parse(line, maxBytes)
	said, ok := doc.Value().(map[string]any)
	if err != nil || !ok || len(said) != 1 {
		return Reply{Failure: FailOutput}
	}
	if _, failed := said["error"].(map[string]any); failed {
		return Reply{Failure: FailTool}
	}
	result, ok := said["result"]
	if !ok {
		return Reply{Failure: FailOutput}
	}
	text, err := canon.Canonical(result)
	if err != nil {
		return Reply{Failure: FailOutput}
	}
	return Reply{Answer: text}
}
