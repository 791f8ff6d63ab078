package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"sync"
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

// ModelIOError says which rule a recording breaks.
type ModelIOError struct {
	Violation
	More int // number of further violations
}

// Error returns the message.
func (e *ModelIOError) Error() string {
	msg := e.Rule + " " + e.Path + ": " + e.Message
	if e.More > 0 {
		msg += " (and " + strconv.Itoa(e.More) + " more)"
	}
	return msg
}

// ParseModelIO reads a recording strictly: canonical JSON and one LF, every rule from
// MI1 to MI9 and MI11, version [ModelVersion], and ids that a pack can have (ST10). It
// refuses other members, and a text that is written with other bytes (ST1). A text with
// more values than a file of a pack can have is not examined. The error is a
// *canon.Error, a *ModelIOError, or says what is wrong with the form.
func ParseModelIO(b []byte) (ModelIO, error) {
	if int64(len(b)) <= MaxBytes(ModelFile) && canon.Crowded(b, MaxValues) {
		return ModelIO{}, ErrCrowded
	}
	doc, err := canon.Parse(b, int(MaxBytes(ModelFile)))
	if err != nil {
		return ModelIO{}, err
	}
	if list := SortViolations(ModelIOFaults(doc.Value())); len(list) > 0 {
		return ModelIO{}, &ModelIOError{list[0], len(list) - 1}
	}
	if v := doc.Value().(map[string]any)["model_io_schema_version"]; v != any(ModelVersion) {
		return ModelIO{}, &ModelIOError{Violation: Violation{"ST10", At(ModelFile, "model_io_schema_version"), fmt.Sprintf("version %s is not read here, but %s", v, ModelVersion)}}
	}
	var m ModelIO
	if err := json.Unmarshal(doc.Bytes(), &m); err != nil {
		return ModelIO{}, errors.New("a member has a value that a recording does not have")
	}
	for _, id := range []struct{ member, text string }{{"adapter_id", m.AdapterID}, {"model_id", m.ModelID}} {
		if utf8.RuneCountInString(id.text) > maxModelName {
			return ModelIO{}, &ModelIOError{Violation: Violation{"ST10", At(ModelFile, id.member), fmt.Sprintf("longer than %d characters", maxModelName)}}
		}
	}
	again, err := m.Bytes()
	if err != nil {
		return ModelIO{}, err
	}
	if !bytes.Equal(again, b) {
		return ModelIO{}, &ModelIOError{Violation: Violation{"ST1", ModelFile, "not what is written again: canonical JSON, one LF, and no other members"}}
	}
	return m, nil
}

// modelVersion is a semantic version without a suffix.
var modelVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)
})

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
func ModelIOFaults(doc any) []Violation {
	f := &modelFaults{}
	m, ok := doc.(map[string]any)
	if !ok {
		f.add("MI1", "", "not an object")
		return f.list
	}
	version, _ := m["model_io_schema_version"].(string)
	f.must(modelVersion().MatchString(version), "MI1", "/model_io_schema_version", "not a version such as "+ModelVersion)
	for _, name := range []string{"adapter_id", "model_id"} {
		id, _ := m[name].(string)
		f.must(id != "", "MI2", "/"+name, "missing or empty")
	}
	f.must(m["mode"] == ModeRecord || m["mode"] == ModeReplay, "MI3", "/mode", "neither record nor replay")
	list, ok := m["interactions"].([]any)
	switch {
	case !ok:
		f.add("MI4", "/interactions", "missing or not a list")
	case len(list) > MaxInteractions:
		f.add("MI4", "/interactions", "more than "+strconv.Itoa(MaxInteractions)+" interactions")
	default:
		f.interactions(list)
	}
	return f.list
}

type modelFaults struct {
	list  []Violation
	total int
	last  int64
	seen  map[string]bool
}

func (f *modelFaults) add(rule, pointer, msg string) {
	p := ModelFile
	if pointer != "" {
		p += "#" + pointer
	}
	f.list = append(f.list, Violation{rule, p, msg})
}

// must adds a violation unless a condition holds.
func (f *modelFaults) must(holds bool, rule, pointer, msg string) {
	if !holds {
		f.add(rule, pointer, msg)
	}
}

func (f *modelFaults) interactions(list []any) {
	f.last, f.seen = -1, map[string]bool{}
	for i, v := range list {
		at := "/interactions/" + strconv.Itoa(i)
		one, ok := v.(map[string]any)
		if !ok {
			f.add("MI4", at, "not an object")
			continue
		}
		f.position(at, i, one)
		f.response(at, one)
		for _, name := range []string{"tokens_input", "tokens_output", "latency_ms"} {
			n, there := one[name]
			f.must(!there || isCount(n), "MI11", at+"/"+name, "not a number from 0 to 9007199254740991")
		}
	}
	few := f.total <= MaxTotalResponseBytes
	f.must(few, "MI11", "/interactions", "the responses have more than "+strconv.Itoa(MaxTotalResponseBytes)+" bytes together")
}

// position checks MI5, MI8 and MI9. A position that is no number breaks only MI5.
func (f *modelFaults) position(at string, i int, one map[string]any) {
	n, _ := one["i"].(json.Number)
	given, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		f.add("MI5", at+"/i", "missing or not a number")
		return
	}
	if given != int64(i) {
		f.add("MI5", at+"/i", fmt.Sprintf("%d is not the position %d", given, i))
	}
	prompt, _ := one["prompt_hash"].(string)
	key := n.String() + " " + prompt
	f.must(!f.seen[key], "MI8", at, "an earlier interaction has the same prompt_hash and i")
	f.seen[key] = true
	f.must(given >= f.last, "MI9", at+"/i", "less than that of an earlier interaction")
	f.last = max(f.last, given)
}

// response checks MI6, MI7 and MI11.
func (f *modelFaults) response(at string, one map[string]any) {
	for _, name := range []string{"prompt_hash", "response_hash"} {
		h, _ := one[name].(string)
		f.must(canon.ContentHash(h).Valid(), "MI6", at+"/"+name, `missing, or not "sha256:" and 64 lower-case hexadecimal digits`)
	}
	content, ok := one["response_content"].(string)
	if !ok {
		f.add("MI7", at+"/response_content", "missing or not a text")
		return
	}
	if h, _ := one["response_hash"].(string); canon.ContentHash(h).Valid() && canon.Sum([]byte(content)) != canon.ContentHash(h) {
		f.add("MI7", at+"/response_hash", "not the SHA-256 of response_content")
	}
	f.total += len(content)
	f.must(len(content) <= MaxResponseBytes, "MI11", at+"/response_content", "more than "+strconv.Itoa(MaxResponseBytes)+" bytes")
}

func isCount(v any) bool {
	n, _ := v.(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return err == nil && i >= 0 && i <= canon.MaxSafeInteger
}
