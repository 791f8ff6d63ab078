package pack

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// ToolVersion is the version of the format of tool_io.json.
const ToolVersion = "1.0.0"

// ToolIO is tool_io.json: the attempts of the calls of tools that no process of the
// sandbox answered, in their order, and what they gave.
type ToolIO struct {
	Version      string            `json:"tool_io_schema_version"`
	Mode         string            `json:"mode"` // ModeRecord or ModeReplay
	Interactions []ToolInteraction `json:"interactions"`
}

// ToolInteraction is one attempt of a call, and what it gave, byte for byte. An attempt
// that failed has a response without bytes.
type ToolInteraction struct {
	I               int               `json:"i"`      // its position, from 0
	Action          int               `json:"action"` // position of the call in the intent, from 0
	AdapterID       string            `json:"adapter_id"`
	AdapterSHA256   canon.ContentHash `json:"adapter_sha256"`
	RequestHash     canon.ContentHash `json:"request_hash"`
	Attempt         int               `json:"attempt"`           // of this adapter for this action, from 1
	Code            int               `json:"code"`              // an HTTP status, or the code of a JSON-RPC error; 0: none, or success
	Failure         string            `json:"failure,omitempty"` // how it failed, as package adapter names it
	RetryAfterMS    int               `json:"retry_after_ms,omitempty"`
	Unsent          bool              `json:"unsent,omitempty"` // the request may not have arrived
	ResponseHash    canon.ContentHash `json:"response_hash"`
	ResponseContent string            `json:"response_content"`
	LatencyMS       int64             `json:"latency_ms"` // of the recorded attempt
}

// ServiceFailures are the failures that an attempt without a process can have.
var ServiceFailures = []string{
	adapter.FailTimeout, adapter.FailUnavailable, adapter.FailClient, adapter.FailServer, adapter.FailTool, adapter.FailOutput, adapter.FailRefused,
}

// Bytes returns the recording in its stored form: canonical JSON and one LF.
func (t ToolIO) Bytes() ([]byte, error) {
	t.Interactions = append([]ToolInteraction{}, t.Interactions...)
	b, _, err := toolPlan.Artifact(&t)
	return b, err
}

var toolPlan canon.Plan[ToolIO]

// ParseToolIO reads a recording strictly: canonical JSON and one LF, every rule from TI1
// to TI11, and version [ToolVersion] (ST13). It refuses other members, and a text that is
// written with other bytes (ST1). The error is like that of [ParseModelIO].
func ParseToolIO(b []byte) (t ToolIO, err error) {
	if err := toolForm.read(b, &t, func() ([]byte, error) { return t.Bytes() }); err != nil {
		return ToolIO{}, err
	}
	return t, nil
}

// toolForm is the form of tool_io.json.
var toolForm = recordingForm{
	file: ToolFile, version: "tool_io_schema_version", is: ToolVersion, family: "TI", shape: "ST13",
	hashes: []string{"adapter_sha256", "request_hash", "response_hash"}, counts: []string{"retry_after_ms", "latency_ms"},
	each: (*recordingFaults).attempt,
}

// attempt checks TI2, TI8 and TI10.
func (f *recordingFaults) attempt(at string, one map[string]any) {
	action, _ := one["action"].(json.Number)
	n, err := strconv.Atoi(action.String())
	f.must(err == nil && n >= 0 && n < contract.MaxActions, "2", at+"/action", "missing, or not a position in an intent")
	id, _ := one["adapter_id"].(string)
	f.must(id != "", "2", at+"/adapter_id", "missing or empty")

	key := action.String() + " " + id
	f.seen[key]++
	attempt, _ := one["attempt"].(json.Number)
	f.must(attempt.String() == strconv.Itoa(f.seen[key]), "8", at+"/attempt", "not "+strconv.Itoa(f.seen[key])+", which is next for the action and the adapter")

	f.must(isWhole(one["code"], -canon.MaxSafeInteger), "10", at+"/code", "missing or not a whole number")
	unsent, has := one["unsent"]
	f.must(!has || unsent == any(true), "10", at+"/unsent", "not true")
	failure, failed := one["failure"]
	if failed {
		word, _ := failure.(string)
		f.must(slices.Contains(ServiceFailures, word), "10", at+"/failure", "no failure of a service")
		f.must(one["response_content"] == any(""), "10", at+"/response_content", "a response of an attempt that failed")
		return
	}
	_, waits := one["retry_after_ms"]
	f.must(one["code"] == any(json.Number("0")) && !has && !waits, "10", at, "the traits of a failure, and no failure")
}

// ToolIOFaults checks a decoded tool_io.json as [ModelIOFaults] checks a model_io.json.
//
//	TI1   tool_io_schema_version is three numbers
//	TI2   action is a position in an intent, and adapter_id is not empty
//	TI3   mode is record or replay
//	TI4   interactions is a list of at most 10 000 objects
//	TI5   i is the position
//	TI6   the three hashes are "sha256:" and 64 lower-case digits
//	TI7   response_hash is the SHA-256 of response_content
//	TI8   attempt counts the interactions of an action and an adapter, from 1
//	TI9   i ascends
//	TI10  code is a whole number. unsent, where it is there, is true. failure, where it is there, is one of a service, and
//	      response_content is empty then. Without it code is 0, and neither unsent nor
//	      retry_after_ms are there
//	TI11  at most 1 000 000 bytes in a response, 100 000 000 together; latency_ms and
//	      retry_after_ms, where they are there, are whole numbers from 0 on
func ToolIOFaults(doc any) []Violation { return toolForm.faults(doc) }
