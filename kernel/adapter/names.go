package adapter

import (
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

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

// Parameters returns the names of the parameters that the document names, as a caller gives
// them: before they are renamed.
func (a *Adapter) Parameters() []string {
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

// Parameters returns the names of the parameters that the schema of a tool describes, sorted.
func (t *Tool) Parameters() []string {
	if t.params == nil {
		return []string{}
	}
	return canon.Names(t.params.Properties)
}
