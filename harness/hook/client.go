// Package hook answers the hooks of coding agents: it makes the event of a client a
// question, and a decision the client's answer. It knows what the tools of each client do,
// and how each client is told no.
package hook

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// Client is a coding agent: the form of its events and answers, and what its tools do.
type Client struct {
	Name    string
	Product string // the name that people know

	event   string   // hook_event_name of the event before a tool runs; empty: the client does not say it
	members members  // names of the members of an event
	project []string // environment variables with the folder of the project, the first that is set counts
	tools   map[string]tool
	server  func(e event) (server, tool string, ok bool) // the MCP tool of an event
	deny    func(words string) any                       // the document that refuses a call
	rewrite func(input map[string]any) any               // the document that allows a call with another input; nil: the client has none
}

// members are the names of the members of an event.
type members struct{ tool, input, session, call string }

// tool says what a tool of a client does, and which members of its input say with what.
type tool struct {
	does   does
	target string // the command, the path or the patch
	text   string // what is written
	dir    string // the folder of a command, relative to that of the event
}

type does int

const (
	runs does = iota
	writes
	patches
	reads
)

var snake = members{"tool_name", "tool_input", "session_id", "tool_use_id"}

// Clients returns the clients by name.
func Clients() []Client {
	return []Client{
		{
			Name: "claude-code", Product: "Claude Code", event: "PreToolUse", members: snake, project: []string{"CLAUDE_PROJECT_DIR"},
			tools: map[string]tool{
				"Bash": {does: runs, target: "command"}, "Write": {writes, "file_path", "content", ""},
				"Edit": {writes, "file_path", "new_string", ""}, "NotebookEdit": {writes, "notebook_path", "new_source", ""},
				"Read": {does: reads, target: "file_path"}, "Grep": {does: reads, target: "path"}, "Glob": {does: reads, target: "path"},
			},
			server: byName, deny: denyPreToolUse, rewrite: rewritePreToolUse,
		},
		{
			Name: "codex", Product: "Codex", event: "PreToolUse", members: snake,
			tools: map[string]tool{
				"Bash": {does: runs, target: "command"}, "apply_patch": {does: patches, target: "command"},
				"view_image": {does: reads, target: "path"},
			},
			server: byName, deny: denyPreToolUse, rewrite: rewritePreToolUse,
		},
		{
			Name: "copilot", Product: "Copilot CLI", members: members{"toolName", "toolArgs", "sessionId", ""}, project: []string{"COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR"},
			tools: map[string]tool{
				"bash": {does: runs, target: "command"}, "create": {writes, "path", "file_text", ""}, "edit": {writes, "path", "new_str", ""},
				"apply_patch": {does: patches}, "view": {does: reads, target: "path"}, "grep": {does: reads, target: "path"},
				"rg": {does: reads, target: "path"}, "glob": {does: reads, target: "path"},
			},
			deny:    func(words string) any { return permission{"deny", words, nil} },
			rewrite: func(input map[string]any) any { return permission{"allow", "", input} },
		},
		{
			Name: "cursor", Product: "Cursor", event: "preToolUse", members: members{"tool_name", "tool_input", "conversation_id", "tool_use_id"},
			project: []string{"CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"},
			tools:   map[string]tool{"Shell": {does: runs, target: "command", dir: "working_directory"}},
			deny: func(words string) any {
				return cursorAnswer{Permission: "deny", UserMessage: words, AgentMessage: words}
			},
			rewrite: func(input map[string]any) any { return cursorAnswer{Permission: "allow", UpdatedInput: input} },
		},
		{
			Name: "gemini", Product: "Gemini CLI", event: "BeforeTool", members: members{"tool_name", "tool_input", "session_id", ""}, project: []string{"GEMINI_PROJECT_DIR"},
			tools: map[string]tool{
				"run_shell_command": {does: runs, target: "command", dir: "dir_path"}, "write_file": {writes, "file_path", "content", ""},
				"replace": {writes, "file_path", "new_string", ""}, "read_file": {does: reads, target: "file_path"},
				"list_directory": {does: reads, target: "dir_path"}, "glob": {does: reads, target: "dir_path"}, "grep_search": {does: reads, target: "dir_path"},
			},
			server: byContext,
			deny:   func(words string) any { return geminiAnswer{Decision: "deny", Reason: words} },
			rewrite: func(input map[string]any) any {
				return geminiAnswer{Specific: &specific{Event: "BeforeTool", ToolInput: input}}
			},
		},
	}
}

// Find returns the client with a name.
func Find(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// byName reads the server and the tool from mcp__SERVER__TOOL. A name that can be divided
// in two ways is that of no server.
func byName(e event) (server, tool string, ok bool) {
	name, ok := strings.CutPrefix(e.tool, "mcp__")
	at := strings.Index(name, "__")
	if !ok || at <= 0 || at != strings.LastIndex(name, "__") {
		return "", "", false
	}
	return name[:at], name[at+2:], name[at+2:] != ""
}

// byContext reads the server and the tool from mcp_context.
func byContext(e event) (server, tool string, ok bool) {
	from, _ := e.doc["mcp_context"].(map[string]any)
	server, _ = from["server_name"].(string)
	tool, _ = from["tool_name"].(string)
	return server, tool, server != "" && tool != ""
}

// Answer is what a client reads from its hook.
type Answer struct {
	Stdout, Stderr []byte
	Status         int
}

// Deny returns the answer that blocks a call and gives the reason. Exit status 2 blocks in
// every client; the reason is on standard error and in a document, because some clients
// show the one and some the other.
func (c Client) Deny(words string) Answer {
	a := Answer{Stderr: []byte(words + "\n"), Status: 2}
	a.Stdout, _, _ = canon.Artifact(c.deny(words))
	return a
}

// permission is an answer of Copilot CLI.
type permission struct {
	Decision string         `json:"permissionDecision"`
	Reason   string         `json:"permissionDecisionReason,omitempty"`
	Modified map[string]any `json:"modifiedArgs,omitempty"`
}

type cursorAnswer struct {
	Permission   string         `json:"permission"`
	UserMessage  string         `json:"user_message,omitempty"`
	AgentMessage string         `json:"agent_message,omitempty"`
	UpdatedInput map[string]any `json:"updated_input,omitempty"`
}

type geminiAnswer struct {
	Decision string    `json:"decision,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Specific *specific `json:"hookSpecificOutput,omitempty"`
}

// specific is hookSpecificOutput of an answer.
type specific struct {
	Event        string         `json:"hookEventName"`
	Decision     string         `json:"permissionDecision,omitempty"`
	Reason       string         `json:"permissionDecisionReason,omitempty"`
	UpdatedInput map[string]any `json:"updatedInput,omitempty"`
	ToolInput    map[string]any `json:"tool_input,omitempty"`
}

func denyPreToolUse(words string) any {
	return geminiAnswer{Specific: &specific{Event: "PreToolUse", Decision: "deny", Reason: words}}
}

func rewritePreToolUse(input map[string]any) any {
	return geminiAnswer{Specific: &specific{Event: "PreToolUse", Decision: "allow", UpdatedInput: input}}
}
