package hook

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/settings"
	"github.com/fiador/fiador/kernel/canon"
)

// clientSeconds is how long an installed entry lets the client wait. The hook itself ends
// much earlier, because a client that runs into its own limit lets the tool run.
const clientSeconds = 30

// survives ends an installed line: the shell blocks the call if the program crashes, is
// killed or is missing. Status 2 without a reason blocks in some clients only, and a reason
// on standard error blocks in all (testdata/README.md).
const survives = ` || sh -c 'echo "Fiador did not allow this call." >&2; exit 2'`

// Scopes are where an entry is installed: for the user, for one project, or for everybody
// on the machine.
var Scopes = []string{"user", "project", "system"}

// file returns the settings file of a scope, relative to the home folder, the project or the
// root of the file system; empty: the client has no such file that this program knows.
func (c Client) file(scope string) string {
	return map[string]string{
		"claude-code user": ".claude/settings.json", "claude-code project": ".claude/settings.json",
		"codex user": ".codex/hooks.json", "codex project": ".codex/hooks.json", "codex system": "etc/codex/requirements.toml",
		"copilot user": ".copilot/hooks/fiador.json",
		"cursor user":  ".cursor/hooks.json", "cursor project": ".cursor/hooks.json",
		"gemini user": ".gemini/settings.json", "gemini project": ".gemini/settings.json",
	}[c.Name+" "+scope]
}

// Entry is where and how the hook of a client is installed.
type Entry struct {
	File  string // relative to the folder of the scope
	Line  string // that the client's shell runs
	Edits []settings.Edit
	// Text is the whole file, where it is not JSON; such a file is only made or removed.
	Text string
	// Note says what the user has to do besides.
	Note string
}

// group is an entry for tools with a name.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []command `json:"hooks"`
}

// command is a command that a client runs.
type command struct {
	Type       string `json:"type,omitempty"`
	Command    string `json:"command,omitempty"`
	Bash       string `json:"bash,omitempty"`
	Timeout    int    `json:"timeout,omitempty"`
	TimeoutSec int    `json:"timeoutSec,omitempty"`
	FailClosed bool   `json:"failClosed,omitempty"`
}

// Entry returns the entry that runs a command line before each tool call.
func (c Client) Entry(scope, line string) (Entry, error) {
	e := Entry{File: c.file(scope), Line: line + survives}
	if e.File == "" {
		return e, fmt.Errorf("%s has no settings for scope %s", c.Product, scope)
	}
	if c.Name == "gemini" && strings.Contains(line, "$") {
		return e, fmt.Errorf("%s replaces $NAME in its settings: use paths without a dollar sign", c.Product)
	}
	if scope == "system" {
		e.Text = requirements(e.Line)
		return e, nil
	}
	run := command{Type: "command", Command: e.Line, Timeout: clientSeconds}
	var value any = group{Matcher: "*", Hooks: []command{run}}
	version := settings.Entry{Name: "version", Value: 1}
	switch c.Name {
	case "codex":
		value = group{Hooks: []command{run}}
		e.Note = "Codex skips this hook without a word until you trust it: start codex and choose to trust it, or install it with --scope system. The hook is not active until then"
	case "gemini":
		run.Timeout *= 1000
		value = group{Matcher: "*", Hooks: []command{run}}
	case "copilot":
		value, e.Edits = command{Type: "command", Bash: e.Line, TimeoutSec: clientSeconds}, append(e.Edits, version)
	case "cursor":
		value, e.Edits = command{Command: e.Line, Timeout: clientSeconds, FailClosed: true}, append(e.Edits, version)
	}
	event := c.event
	if event == "" {
		event = "preToolUse"
	}
	e.Edits = append(e.Edits, settings.Entry{Path: []string{"hooks", event}, Value: value, Ours: func(v any) bool { return c.lineIn(v) != "" }})
	return e, nil
}

// Installed returns the line of the entry in settings, or empty.
func (c Client) Installed(value any) string {
	members, _ := value.(map[string]any)
	hooks, _ := members["hooks"].(map[string]any)
	for _, event := range hooks {
		list, _ := event.([]any)
		for _, v := range list {
			if line := c.lineIn(v); line != "" {
				return line
			}
		}
	}
	return ""
}

// lineIn returns the line of this program in an entry, or empty.
func (c Client) lineIn(entry any) string {
	members, _ := entry.(map[string]any)
	inner, _ := members["hooks"].([]any)
	for _, name := range []string{"command", "bash"} {
		if line, _ := members[name].(string); strings.Contains(line, " hook "+c.Name+" ") && strings.HasSuffix(line, survives) {
			return line
		}
	}
	i := slices.IndexFunc(inner, func(v any) bool { return c.lineIn(v) != "" })
	if i < 0 {
		return ""
	}
	return c.lineIn(inner[i])
}

// requirements returns the managed settings of Codex, which need no trust.
func requirements(line string) string {
	quoted, _ := canon.Canonical(line) // a JSON text is a basic string of TOML
	return "# fiador hook install wrote this file, and fiador hook uninstall removes it.\n" +
		"[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = " + string(quoted) +
		"\ntimeout = " + strconv.Itoa(clientSeconds) + "\n"
}

// RequirementsLine returns the line in managed settings that requirements wrote, or empty for
// any other text.
func RequirementsLine(text string) string {
	_, rest, _ := strings.Cut(text, "\ncommand = ")
	quoted, _, _ := strings.Cut(rest, "\n")
	doc, err := canon.Parse([]byte(quoted), MaxEventBytes)
	if err != nil {
		return ""
	}
	line, _ := doc.Value().(string)
	if text != requirements(line) {
		return ""
	}
	return line
}
