package adapter

import (
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

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

// AdapterView is an adapter at a level. A member that the level does not have is absent.
type AdapterView struct {
	AdapterID string `json:"adapter_id"`
	Name      string `json:"name"`
	ToolID    string `json:"tool_id"`
	Type      Type   `json:"type"`

	Operations []string `json:"operations,omitzero"`
	Parameters []string `json:"parameters,omitzero"` // the names that a caller gives

	Version       string `json:"version,omitempty"`
	Deterministic bool   `json:"deterministic,omitempty"`
	Interface     any    `json:"interface,omitempty"`
	Transforms    any    `json:"transforms,omitempty"`
	Errors        any    `json:"errors,omitempty"`
	Override      any    `json:"sandbox_override,omitempty"`

	Metadata any      `json:"metadata,omitempty"`
	Examples []string `json:"examples,omitzero"` // names of files, set by the one who has read the folder
	Fixtures []string `json:"fixtures,omitzero"` // likewise
}

// View returns the adapter at a level.
func (a *Adapter) View(l Level) AdapterView {
	v := AdapterView{AdapterID: a.AdapterID, Name: a.Name, ToolID: a.ToolID, Type: a.Type}
	doc, _ := a.Doc.(map[string]any)
	if l >= L1 {
		v.Operations, v.Parameters = a.Operations(), a.parameters()
	}
	if l >= L2 {
		v.Version, v.Deterministic = a.Version, a.Deterministic
		v.Interface, v.Transforms, v.Errors, v.Override = doc["interface"], doc["transforms"], doc["errors"], doc["sandbox_override"]
	}
	if l >= L3 {
		v.Metadata = doc["metadata"]
	}
	return v
}

// Operations returns the operations of an adapter, sorted; of type cli there are none.
func (a *Adapter) Operations() []string {
	in := a.Interface
	switch a.Type {
	case API:
		return canon.Names(in.API.EndpointMapping)
	case SDK:
		return canon.Names(in.SDK.FunctionMapping)
	case MCP:
		return canon.Names(in.MCP.ToolMapping)
	}
	return []string{}
}

// parameters returns the names of the parameters that the document names, as a caller gives
// them: before they are renamed.
func (a *Adapter) parameters() []string {
	names := map[string]bool{}
	if in := a.Interface.CLI; in != nil {
		for _, name := range canon.Names(in.ArgMapping) {
			names[name] = true
		}
		for _, name := range canon.Names(in.EnvMapping) {
			names[name] = true
		}
		if in.Stdin != "" {
			names[in.Stdin] = true
		}
	}
	if in := a.Interface.API; in != nil {
		for _, text := range in.EndpointMapping {
			e, _ := readEndpoint("", text)
			for _, s := range e.segments {
				if s.param != "" {
					names[s.param] = true
				}
			}
		}
	}
	for _, step := range slices.Backward(a.input) {
		before := map[string]bool{}
		for _, from := range canon.Names(step.rename) {
			if to := step.rename[from]; names[to] {
				before[from] = true
				delete(names, to)
			}
		}
		for name := range before {
			names[name] = true
		}
	}
	return canon.Names(names)
}

// ToolView is a tool at a level.
type ToolView struct {
	ToolID string `json:"tool_id"`
	Name   string `json:"name"`

	Adapters   []string `json:"adapters,omitzero"`
	Parameters []string `json:"parameters,omitzero"` // those that params describes

	Version string         `json:"version,omitempty"`
	Status  string         `json:"status,omitempty"`
	Params  map[string]any `json:"params,omitempty"`

	Description string `json:"description,omitempty"`
}

// View returns the tool at a level.
func (t *Tool) View(l Level) ToolView {
	v := ToolView{ToolID: t.ToolID, Name: t.Name}
	if l >= L1 {
		v.Adapters, v.Parameters = t.Adapters, []string{}
		if t.params != nil {
			v.Parameters = canon.Names(t.params.Properties)
		}
	}
	if l >= L2 {
		v.Version, v.Status, v.Params = t.Version, t.Status, t.Params
	}
	if l >= L3 {
		v.Description = t.Description
	}
	return v
}
