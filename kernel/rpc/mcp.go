package rpc

import (
	"errors"
	"maps"

	"github.com/fiador/fiador/kernel/canon"
)

// The methods of the protocol that a client sends, and ping, which both sides send.
const (
	MethodInitialize  = "initialize"
	MethodInitialized = "notifications/initialized"
	MethodPing        = "ping"
	MethodToolsList   = "tools/list"
	MethodToolsCall   = "tools/call"
)

// Versions are the versions of the protocol that are accepted, the newest one first. A client
// asks for the newest.
var Versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Peer names a program that speaks the protocol.
type Peer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// InitializeParams are the params of initialize. The client offers no capability.
type InitializeParams struct {
	ProtocolVersion string   `json:"protocolVersion"`
	Capabilities    struct{} `json:"capabilities"`
	ClientInfo      Peer     `json:"clientInfo"`
}

// ListParams are the params of tools/list. The first page has no cursor.
type ListParams struct {
	Cursor *string `json:"cursor,omitempty"`
}

// CallParams are the params of tools/call.
type CallParams struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// ReadInitialize returns the version of the protocol that the result of initialize names. It
// does not say whether the version is one of Versions.
func ReadInitialize(result map[string]any) (version string, err error) {
	if version, err = text(result, "protocolVersion"); err != nil {
		return "", err
	}
	for _, name := range []string{"capabilities", "serverInfo"} {
		if _, err := object(result, name); err != nil {
			return "", err
		}
	}
	return version, nil
}

// Tool is a tool that a server lists.
type Tool struct {
	Name   string
	SHA256 canon.ContentHash // its ToolDigest
}

// ToolDigest returns the digest of what a server says about a tool: the hash of the canonical
// JSON, and one LF, of its members name, description, inputSchema, outputSchema and
// annotations. A member that the server does not say is no member of that JSON.
func ToolDigest(said map[string]any) (canon.ContentHash, error) {
	of := make(map[string]any)
	for _, name := range []string{"name", "description", "inputSchema", "outputSchema", "annotations"} {
		if v, there := said[name]; there {
			of[name] = v
		}
	}
	_, hash, err := canon.Artifact(of)
	return hash, err
}

// ReadTool returns one tool of a result of tools/list.
func ReadTool(v any) (t Tool, err error) {
	said, ok := v.(map[string]any)
	if !ok {
		return t, errors.New("a tool is not an object")
	}
	if t.Name, err = text(said, "name"); err == nil {
		_, err = object(said, "inputSchema")
	}
	if err == nil {
		t.SHA256, err = ToolDigest(said)
	}
	return t, err
}

// ReadTools returns the tools of one result of tools/list, in its order, and the cursor of the
// next page. next is nil on the last page.
func ReadTools(result map[string]any) (tools []Tool, next *string, err error) {
	list, ok := result["tools"].([]any)
	if !ok {
		return nil, nil, errors.New("the member tools is not an array")
	}
	for _, one := range list {
		t, err := ReadTool(one)
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, t)
	}
	switch cursor := result["nextCursor"].(type) {
	case nil:
		return tools, nil, nil
	case string:
		return tools, &cursor, nil
	}
	return nil, nil, errors.New("the member nextCursor is not a string")
}

// ReadCall checks the result of tools/call, and returns its canonical form without _meta.
// failed says that the tool reports an error (isError).
func ReadCall(result map[string]any) (answer []byte, failed bool, err error) {
	list, ok := result["content"].([]any)
	if !ok {
		return nil, false, errors.New("the member content is not an array")
	}
	for _, one := range list {
		block, _ := one.(map[string]any)
		if _, err := text(block, "type"); err != nil {
			return nil, false, errors.New("a block of the content is not an object with a type")
		}
	}
	if v, there := result["structuredContent"]; there && v != nil {
		if _, err := object(result, "structuredContent"); err != nil {
			return nil, false, err
		}
	}
	if v, there := result["isError"]; there && v != nil {
		if failed, ok = v.(bool); !ok {
			return nil, false, errors.New("the member isError is neither true nor false")
		}
	}
	said := maps.Clone(result)
	delete(said, "_meta")
	answer, err = canon.Canonical(said)
	return answer, failed, err
}
