package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// ModelVersion is the version of the format of model_io.json.
const ModelVersion = "1.0.0"

// maxModelName is the maximum length of the id of an adapter or a model, in characters.
const maxModelName = 256

// The modes of a recording: the source of the answers.
const (
	ModeRecord = "record" // a model
	ModeReplay = "replay" // an earlier recording
)

// The limits of a recording (MI4, MI11).
const (
	MaxInteractions       = 10_000
	MaxResponseBytes      = 1_000_000   // of one response
	MaxTotalResponseBytes = 100_000_000 // of all responses together
)

// ModelIO is model_io.json: the prompts to one model through one adapter, and its
// answers, in the order of the calls.
type ModelIO struct {
	Version      string        `json:"model_io_schema_version"`
	AdapterID    string        `json:"adapter_id"`
	ModelID      string        `json:"model_id"`
	Mode         string        `json:"mode"` // ModeRecord or ModeReplay
	Interactions []Interaction `json:"interactions"`
}

// Interaction is one call and its response, byte for byte.
type Interaction struct {
	I               int               `json:"i"`           // its position, from 0
	PromptHash      canon.ContentHash `json:"prompt_hash"` // of the bytes of Prompt
	ResponseHash    canon.ContentHash `json:"response_hash"`
	ResponseContent string            `json:"response_content"`
	TokensInput     *int64            `json:"tokens_input,omitempty"`  // from the response
	TokensOutput    *int64            `json:"tokens_output,omitempty"` // from the response
	LatencyMS       *int64            `json:"latency_ms,omitempty"`    // of the recorded call
}

// Prompt returns the request that a call with params sends to a model: canonical JSON,
// without LF, of the params with the model's name as the member model. If params has a
// member model already, it must have the same name.
func Prompt(params map[string]any, model string) ([]byte, error) {
	if given, ok := params["model"]; ok && given != any(model) {
		return nil, fmt.Errorf("model is not %q, the model of the adapter", canon.Cut(model))
	}
	whole := maps.Clone(params)
	if whole == nil {
		whole = map[string]any{}
	}
	whole["model"] = model
	return canon.Canonical(whole)
}

// ResponsePath returns the path, in the work folder of an execution, of the response to
// the call at an action. Actions count from 0.
func ResponsePath(action int) string { return fmt.Sprintf("calls/%03d.response.json", action+1) }

// ResponseFault says why bytes cannot be a recorded response, or returns "".
func ResponseFault(b []byte) string {
	switch {
	case len(b) > MaxResponseBytes:
		return "it has more than " + strconv.Itoa(MaxResponseBytes) + " bytes"
	case !utf8.Valid(b):
		return "it is not UTF-8"
	case bytes.IndexByte(b, 0) >= 0:
		return "it has a NUL"
	}
	if _, err := canon.Canonical(string(b)); err != nil {
		return "it has a character that JSON text for interchange does not hold"
	}
	return ""
}

// Bytes returns the recording in its stored form: canonical JSON and one LF.
func (m ModelIO) Bytes() ([]byte, error) {
	b, _, err := modelPlan.Artifact(m.listed())
	return b, err
}

var modelPlan canon.Plan[ModelIO]

// listed returns the recording with an empty list if it has no interactions.
func (m ModelIO) listed() *ModelIO {
	m.Interactions = append([]Interaction{}, m.Interactions...)
	return &m
}

// Hash returns the hash of the recording's canonical JSON, without LF.
func (m ModelIO) Hash() (canon.ContentHash, error) {
	b, err := modelPlan.Canonical(m.listed())
	if err != nil {
		return "", err
	}
	return canon.Sum(b), nil
}

// ParseModelIO reads a recording strictly: canonical JSON and one LF, every rule from
// MI1 to MI9 and MI11, version [ModelVersion], and ids that a pack can have (ST10). It
// refuses other members, and a text that is written with other bytes (ST1). A text with
// more values than a file of a pack can have is not examined. The error is a
// *canon.Error, a *RecordingError, or says what is wrong with the form.
func ParseModelIO(b []byte) (m ModelIO, err error) {
	if err := modelForm.read(b, &m, func() ([]byte, error) { return m.Bytes() }); err != nil {
		return ModelIO{}, err
	}
	for _, id := range []struct{ member, text string }{{"adapter_id", m.AdapterID}, {"model_id", m.ModelID}} {
		if utf8.RuneCountInString(id.text) > maxModelName {
			return ModelIO{}, modelForm.fault(id.member, fmt.Sprintf("longer than %d characters", maxModelName))
		}
	}
	return m, nil
}

// modelForm is the form of model_io.json.
var modelForm = recordingForm{
	file: ModelFile, version: "model_io_schema_version", is: ModelVersion, family: "MI", shape: "ST10",
	hashes: []string{"prompt_hash", "response_hash"}, counts: []string{"tokens_input", "tokens_output", "latency_ms"},
	head: func(f *recordingFaults, m map[string]any) {
		for _, name := range []string{"adapter_id", "model_id"} {
			id, _ := m[name].(string)
			f.must(id != "", "2", "/"+name, "missing or empty")
		}
	},
	each: func(f *recordingFaults, at string, one map[string]any) {
		n, _ := one["i"].(json.Number)
		if _, err := strconv.ParseInt(n.String(), 10, 64); err != nil {
			return
		}
		prompt, _ := one["prompt_hash"].(string)
		key := n.String() + " " + prompt
		f.must(f.seen[key] == 0, "8", at, "an earlier interaction has the same prompt_hash and i")
		f.seen[key]++
	},
}

// ModelIOFaults checks a decoded model_io.json by the rules that any reader of the
// format can check. A member that is missing or has another type breaks the rule about
// it; other members are free.
//
//	MI1   model_io_schema_version is three numbers
//	MI2   adapter_id and model_id are there and not empty
//	MI3   mode is record or replay
//	MI4   interactions is a list of at most 10 000 objects
//	MI5   i is the position
//	MI6   prompt_hash and response_hash are "sha256:" and 64 lower-case digits
//	MI7   response_hash is the SHA-256 of response_content
//	MI8   no two interactions have the same prompt_hash and i
//	MI9   i ascends
//	MI11  at most 1 000 000 bytes in a response, 100 000 000 together; token counts and
//	      latency, where they are there, are whole numbers from 0 on
func ModelIOFaults(doc any) []Violation { return modelForm.faults(doc) }
