// Package level owns how much of a document of a tool is shown.
package level

import "github.com/fiador/fiador/kernel/adapter"

// Level is how much of a document is shown (code execution contract, "Progressive
// Disclosure Integration").
type Level int

// The levels. Each holds the one before it.
const (
	L0 Level = iota // what it is called
	L1              // its operations and parameters
	L2              // what is needed to perform it
	L3              // the whole document, with its examples and fixtures
)

// Adapter is an adapter at a level. A member that the level does not have is absent.
type Adapter struct {
	AdapterID string       `json:"adapter_id"`
	Name      string       `json:"name"`
	ToolID    string       `json:"tool_id"`
	Type      adapter.Type `json:"type"`

	Operations []string `json:"operations,omitzero"`
	Parameters []string `json:"parameters,omitzero"` // the names that a caller gives

	Version       string `json:"version,omitempty"`
	Deterministic any    `json:"deterministic,omitempty"`
	Interface     any    `json:"interface,omitempty"`
	Transforms    any    `json:"transforms,omitempty"`
	Errors        any    `json:"errors,omitempty"`
	Override      any    `json:"sandbox_override,omitempty"`

	Metadata any      `json:"metadata,omitempty"`
	Examples []string `json:"examples,omitzero"` // names of files, set by the one who has read the folder
	Fixtures []string `json:"fixtures,omitzero"` // likewise
}

// OfAdapter returns an adapter at a level.
func OfAdapter(a *adapter.Adapter, l Level) Adapter {
	v := Adapter{AdapterID: a.AdapterID, Name: a.Name, ToolID: a.ToolID, Type: a.Type}
	doc, _ := a.Doc.(map[string]any)
	if l >= L1 {
		v.Operations, v.Parameters = a.Operations(), a.Parameters()
	}
	if l >= L2 {
		v.Version, v.Deterministic = a.Version, doc["deterministic"]
		v.Interface, v.Transforms, v.Errors, v.Override = doc["interface"], doc["transforms"], doc["errors"], doc["sandbox_override"]
	}
	if l >= L3 {
		v.Metadata = doc["metadata"]
	}
	return v
}

// Tool is a tool at a level.
type Tool struct {
	ToolID string `json:"tool_id"`
	Name   string `json:"name"`

	Adapters   []string `json:"adapters,omitzero"`
	Parameters []string `json:"parameters,omitzero"` // those that params describes

	Version string         `json:"version,omitempty"`
	Status  string         `json:"status,omitempty"`
	Params  map[string]any `json:"params,omitempty"`

	Description string `json:"description,omitempty"`
}

// OfTool returns a tool at a level.
func OfTool(t *adapter.Tool, l Level) Tool {
	v := Tool{ToolID: t.ToolID, Name: t.Name}
	if l >= L1 {
		v.Adapters, v.Parameters = t.Adapters, t.Parameters()
	}
	if l >= L2 {
		v.Version, v.Status, v.Params = t.Version, t.Status, t.Params
	}
	if l >= L3 {
		v.Description = t.Description
	}
	return v
}
