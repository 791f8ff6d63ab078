package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// FoldersVar is the variable of the environment that names folders with clients, before PATH.
const FoldersVar = "FIADOR_AGENTS"

// Client is a coding agent.
type Client struct {
	Name    string // as `fiador hook` calls it
	Command string
	Package string // of npm, with the version whose behaviour the tests state
	files   func(p Place) map[string]string
	args    []string
	unpacks string   // the folder beneath HOME that the client unpacks itself into
	wrap    []string // an argv that runs the client's argv, which follows
	env     func(p Place) []string
}

// Place is all that a started client sees: a HOME of its own, a project, an endpoint, a hook
// and an MCP server.
type Place struct {
	Dir      string // holds home, project and tmp
	URL      string
	Hook     string   // a command line of the shell; none where it is empty
	Server   []string // the argv of the MCP server "probe"
	Seconds  int      // the hook's timeout as the client keeps it
	Unpacked string   // a folder that clients of several places unpack themselves into
}

// Home is the client's HOME.
func (p Place) Home() string { return filepath.Join(p.Dir, "home") }

// Project is the client's working folder.
func (p Place) Project() string { return filepath.Join(p.Dir, "project") }

// Prompt is what the user asks for.
const Prompt = "Do the one thing that is to be done."

// LastWord is the model's answer to each request that gets no tool call.
const LastWord = "Nothing else is to be done."

// Clients are the coding agents in the order of the design.
var Clients = []Client{
	{
		Name: "claude-code", Command: "claude", Package: "@anthropic-ai/claude-code@2.1.197",
		args: []string{"-p", "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5", Prompt},
		env: func(p Place) []string {
			return []string{"ANTHROPIC_BASE_URL=" + p.URL, "ANTHROPIC_API_KEY=sk-ant-made-up", "IS_SANDBOX=1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_TMPDIR=" + filepath.Join(p.Dir, "tmp")}
		},
		files: func(p Place) map[string]string {
			return map[string]string{
				"home/.claude/settings.json": hooks(p, `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":%s,"timeout":%d}]}]}}`, p.Seconds),
				"home/.claude.json":          fmt.Sprintf(`{"hasCompletedOnboarding":true,"mcpServers":{"probe":{"type":"stdio","command":%s,"args":%s}}}`, quote(p.Server[0]), list(p.Server[1:])),
			}
		},
	},
	{
		Name: "codex", Command: "codex", Package: "@openai/codex@0.169.0",
		args: []string{"exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", Prompt},
		env:  func(p Place) []string { return []string{"LOCAL_KEY=made-up"} },
		files: func(p Place) map[string]string {
			return map[string]string{
				"home/.codex/hooks.json": hooks(p, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":%s,"timeout":%d}]}]}}`, p.Seconds),
				"home/.codex/config.toml": fmt.Sprintf(`model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "%s/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
[mcp_servers.probe]
command = %s
args = %s
`, p.URL, quote(p.Server[0]), list(p.Server[1:])),
			}
		},
	},
	{
		Name: "gemini", Command: "gemini", Package: "@google/gemini-cli@0.61.0",
		args: []string{"--yolo", "-m", "gemini-2.5-pro", "-p", Prompt},
		env: func(p Place) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + p.URL, "GEMINI_API_KEY=made-up", "GEMINI_CLI_NO_RELAUNCH=true"}
		},
		files: func(p Place) map[string]string {
			hook := hooks(p, `"hooks":{"BeforeTool":[{"matcher":"*","hooks":[{"type":"command","command":%s,"timeout":%d}]}]},`, p.Seconds*1000)
			return map[string]string{
				"home/.gemini/settings.json": fmt.Sprintf(`{%s"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},
"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"privacy":{"usageStatisticsEnabled":false},
"mcpServers":{"probe":{"command":%s,"args":%s}}}`, hook, quote(p.Server[0]), list(p.Server[1:])),
			}
		},
	},
	{
		Name: "copilot", Command: "copilot", Package: "@github/copilot@1.0.102",
		unpacks: ".cache/copilot/pkg",
		args:    []string{"--allow-all-tools", "--no-auto-update", "-p", Prompt},
		env: func(p Place) []string {
			return []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + p.URL + "/v1", "COPILOT_PROVIDER_API_KEY=made-up",
				"COPILOT_MODEL=gpt-5", "COPILOT_AUTO_UPDATE=false"}
		},
		files: func(p Place) map[string]string {
			return map[string]string{
				"home/.copilot/hooks/fiador.json": hooks(p, `{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":%s,"timeoutSec":%d}]}}`, p.Seconds),
				"home/.copilot/mcp-config.json":   fmt.Sprintf(`{"mcpServers":{"probe":{"type":"local","command":%s,"args":%s,"tools":["*"]}}}`, quote(p.Server[0]), list(p.Server[1:])),
			}
		},
	},
}

// hooks returns a settings text with the place's hook in it, and nothing without a hook.
func hooks(p Place, format string, timeout int) string {
	if p.Hook == "" {
		return ""
	}
	return fmt.Sprintf(format, quote(p.Hook), timeout)
}

// list returns texts as a JSON list, which TOML reads too.
func list(s []string) string {
	b, _ := json.Marshal(s) // a list of strings always has a JSON form
	return string(b)
}

// quote returns a text as a JSON string.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return string(b)
}

// Find returns the client's command, and skips the test where it is missing.
func (c Client) Find(t testing.TB) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv(FoldersVar)) {
		if path, err := exec.LookPath(filepath.Join(dir, c.Command)); err == nil {
			return path
		}
	}
	path, err := exec.LookPath(c.Command)
	if err != nil {
		t.Skipf("%s is neither in a folder of %s nor in PATH; npm installs it from %s", c.Command, FoldersVar, c.Package)
	}
	return path
}

// Run starts the client in the place and waits for its end. It returns what the client says.
func (c Client) Run(t testing.TB, p Place) string {
	t.Helper()
	path := c.Find(t)
	c.prepare(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	argv := slices.Concat(c.wrap, []string{path}, c.args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.Project(), append(c.env(p), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "HOME="+p.Home(),
		"TMPDIR="+filepath.Join(p.Dir, "tmp"), "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8", "SHELL=/bin/bash", "TMPPREFIX="+filepath.Join(p.Dir, "tmp", "zsh"))
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		said += "\n" + err.Error()
	}
	return said
}

// prepare makes the place's folders and the client's files in them.
func (c Client) prepare(t testing.TB, p Place) {
	t.Helper()
	for _, dir := range []string{p.Project(), filepath.Join(p.Dir, "tmp"), filepath.Dir(filepath.Join(p.Home(), c.unpacks))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range c.files(p) {
		if text != "" {
			write(t, filepath.Join(p.Dir, name), text)
		}
	}
	if c.unpacks != "" && p.Unpacked != "" {
		if err := os.Symlink(p.Unpacked, filepath.Join(p.Home(), c.unpacks)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
}

// write writes a file and makes its folder.
func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
