package agents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// hookLine is the installed command line: binary, client, folder with the profile, project.
// More flags and what is behind them follow.
const hookLine = `'%s' hook %s --policy '%s' --tree '%s'`

// binary builds fiador once, in a folder that ends with the tests.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "fiador")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/fiador")
	cmd.Dir = "../.."
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return path, nil
})

// hook returns the binary.
func hook(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if help, _ := exec.Command(path, "hook", "--help").Output(); !strings.Contains(string(help), "fiador hook") { // the general help
		t.Skip("this tree's fiador has no command hook yet")
	}
	return path
}

// profile writes a profile that allows what it can, refuses an action that says "refuse", and
// asks about one that says "clarify".
func profile(t testing.TB, p Place, client string) string {
	t.Helper()
	dir := filepath.Join(p.Dir, "profile")
	write(t, dir+"/profile.json", `{"name":"agents","extends":"dev","allowed_tools":["mcp:probe/make_file",`+quote("client:"+client+"/"+other[client])+
		`,"client:copilot/probe-make_file"]}`)
	write(t, dir+"/rules.rego", `package gate.user.agents

# METADATA
# title: The action says refuse
# description: For a test
# custom: {id: SAYS_REFUSE}
deny contains {"id": "SAYS_REFUSE", "path": sprintf("/actions/%d", [i]), "msg": "refused"} if {
	some i, a in input.intent.actions
	contains(json.marshal(a), "refuse")
}

# METADATA
# title: The action says clarify
# description: For a test
# custom: {id: SAYS_CLARIFY}
clarify contains {"id": "SAYS_CLARIFY", "path": sprintf("/actions/%d", [i]), "question": "Is SAYS_CLARIFY meant?"} if {
	some i, a in input.intent.actions
	contains(json.marshal(a), "clarify")
}
`)
	return dir
}

// other is a tool of each client that Fiador does not know, and that has an effect. A name that
// splits in two ways is one. Gemini CLI asks its model for a search.
var other = map[string]string{"claude-code": "mcp__probe__two__parts", "codex": "mcp__probe__two__parts", "gemini": "google_web_search", "copilot": "probe-two__parts"}

// tools are the tools of the matrix, each with the calls that make (or change) FILE in @.
var tools = []struct {
	name  string
	calls map[string][]Call
}{
	{"shell", map[string][]Call{
		"claude-code": {{Tool: "Bash", Input: `{"command":"echo made > FILE","description":"Make a file"}`}},
		"codex":       {{Tool: "exec_command", Input: `{"cmd":"echo made > FILE"}`}},
		"gemini":      {{Tool: "run_shell_command", Input: `{"command":"echo made > FILE"}`}},
		"copilot":     {{Tool: "bash", Input: `{"command":"echo made > FILE","description":"Make a file"}`}},
	}},
	{"write", map[string][]Call{
		"claude-code": {{Tool: "Write", Input: `{"file_path":"@/FILE","content":"made\n"}`}},
		"codex":       {{Tool: "apply_patch", Text: true, Input: "*** Begin Patch\n*** Add File: FILE\n+made\n*** End Patch"}},
		"gemini":      {{Tool: "write_file", Input: `{"file_path":"@/FILE","content":"made\n"}`}},
		"copilot":     {{Tool: "create", Input: `{"path":"@/FILE","file_text":"made\n"}`}},
	}},
	{"edit", map[string][]Call{
		"claude-code": {{Tool: "Read", Input: `{"file_path":"@/FILE"}`}, {Tool: "Edit", Input: `{"file_path":"@/FILE","old_string":"old","new_string":"made"}`}},
		"codex":       {{Tool: "apply_patch", Text: true, Input: "*** Begin Patch\n*** Update File: FILE\n@@\n-old\n+made\n*** End Patch"}},
		"gemini":      {{Tool: "replace", Input: `{"file_path":"@/FILE","old_string":"old","new_string":"made","instruction":"Change a word"}`}},
		"copilot":     {{Tool: "edit", Input: `{"path":"@/FILE","old_str":"old","new_str":"made"}`}},
	}},
	{"mcp", map[string][]Call{
		"claude-code": {{Tool: "mcp__probe__make_file", Input: `{"path":"FILE"}`}},
		"codex":       {{Tool: "make_file", Space: "mcp__probe", Input: `{"path":"FILE"}`}},
		"gemini":      {{Tool: "mcp_probe_make_file", Input: `{"path":"FILE"}`}},
		"copilot":     {{Tool: "probe-make_file", Input: `{"path":"FILE"}`}},
	}},
	{"unknown", map[string][]Call{
		"claude-code": {{Tool: "mcp__probe__two__parts", Input: `{"path":"FILE"}`}},
		"codex":       {{Tool: "two__parts", Space: "mcp__probe", Input: `{"path":"FILE"}`}},
		"gemini":      {{Tool: "google_web_search", Input: `{"query":"FILE"}`}},
		"copilot":     {{Tool: "probe-two__parts", Input: `{"path":"FILE"}`}},
	}},
}

// TestHook: four clients, five tools, three outcomes. A tool has its effect after BUNDLE and
// never otherwise, and the model gets the reason. Each client is started once.
func TestHook(t *testing.T) {
	each(t, testHook)
}

func testHook(t *testing.T, c Client) {
	p := place(t, c)
	bin := hook(t)
	outcomes := []string{"refuse", "clarify", "bundle"}
	var calls []Call
	for _, tool := range tools {
		for _, outcome := range outcomes {
			file := tool.name + "-" + outcome + ".txt"
			if tool.name == "edit" {
				write(t, p.Project()+"/"+file, "old\n")
			}
			for _, call := range tool.calls[c.Name] {
				call.Input = strings.NewReplacer("FILE", file, "@/", p.Project()+"/").Replace(call.Input)
				calls = append(calls, call)
			}
		}
	}
	m := NewModel(t, calls...)
	p.URL, p.Hook = m.URL, fmt.Sprintf(hookLine, bin, c.Name, profile(t, p, c.Name), p.Project())+Guard
	said := c.Run(t, p)
	for _, tool := range tools {
		for _, outcome := range outcomes {
			file := tool.name + "-" + outcome + ".txt"
			text, _ := os.ReadFile(filepath.Join(p.Project(), file)) // no file: no effect
			got := strings.Contains(string(text), "made")
			if c.Name == "gemini" && tool.name == "unknown" {
				got = strings.Contains(m.Log(), `:generateContent {"contents":[{"parts":[{"text":"`+file)
			}
			if want := outcome == "bundle"; got != want {
				t.Errorf("%s: the tool has its effect: %v", file, got)
			}
		}
	}
	last := longest(m)
	for _, rule := range []string{"SAYS_REFUSE", "SAYS_CLARIFY"} {
		if n := strings.Count(last, rule); n < len(tools) {
			t.Errorf("the model gets %s %d times, for %d calls", rule, n, len(tools))
		}
	}
	if t.Failed() {
		t.Logf("the client says\n%s", said)
	}
}

// longest returns the model's longest request, which has all of a session's results.
func longest(m *Model) string {
	last := ""
	for one := range strings.SplitSeq(m.Log(), "\n") {
		if len(one) > len(last) {
			last = one
		}
	}
	return last
}

// failures are what can go wrong with a hook. LINE is the hook's line without a failure, BIN the
// binary in it, and the event stands in $event. Where a failure does not touch the decision
// itself, the call is one that the policy refuses.
var failures = []struct{ name, line string }{
	{"none", `LINE GUARD`},
	{"policy-that-does-not-compile", `LINE --org-policy 'DIR/broken' GUARD`},
	{"ledger-that-cannot-be-written", `LINE --ledger 'DIR/file/ledger' --ledger-key 'DIR/key' GUARD`},
	{"disk-full", `(ulimit -f 0; LINE --ledger 'DIR/ledger' --ledger-key 'DIR/key') GUARD`},
	{"binary-missing", `'DIR/nowhere' hook GUARD`},
	{"not-executable", `'DIR/file' hook GUARD`},
	{"killed", `(cat; sleep 3) | timeout -s KILL 0.5 LINE GUARD`},
	{"panic", `(cat; sleep 3) | timeout -s ABRT 0.5 LINE GUARD`},
	{"stdin-closed", `LINE <&- GUARD`},
	{"deadline-missed", `(head -c 40; sleep 3) | LINE GUARD`},
	{"stdout-closed-refuse", `LINE >&- GUARD`},
	{"stdout-full-refuse", `LINE >/dev/full GUARD`},
}

// TestHookFailures: whatever goes wrong with the hook, the shell tool does not run.
func TestHookFailures(t *testing.T) {
	full(t)
	each(t, testHookFailures)
}

func testHookFailures(t *testing.T, c Client) {
	p := place(t, c)
	bin := hook(t)
	write(t, p.Dir+"/file", "not a folder, not a program\n")
	write(t, p.Dir+"/broken/a.rego", "package gate.org.acme\n\ndeny contains {")
	if said, err := exec.Command(bin, "ledger", "init", p.Dir+"/ledger", "--key", p.Dir+"/key", "--origin", "example.org/agents").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	line := fmt.Sprintf(hookLine, bin, c.Name, profile(t, p, c.Name), p.Project())
	script, calls := "cat > \"$0.event\"\ncase $(cat \"$0.event\") in\n", []Call(nil)
	for _, f := range failures {
		does := strings.NewReplacer("LINE", line, "GUARD", Guard, "DIR", p.Dir).Replace(f.line)
		script += "*'made > " + f.name + ".txt'*) exec < \"$0.event\"; " + does + " ;;\n"
		calls = append(calls, shell(c.Name, "echo made > "+f.name+".txt"))
	}
	write(t, p.Dir+"/hook.sh", script+"*) echo >&2 another; exit 2 ;;\nesac\n")
	m := NewModel(t, calls...)
	p.URL, p.Hook = m.URL, "sh '"+p.Dir+"/hook.sh'"
	said := c.Run(t, p)
	for _, f := range failures {
		if got := ran(p, f.name+".txt"); got != (f.name == "none") {
			t.Errorf("%s: that the tool runs is %v", f.name, got)
		}
	}
	if t.Failed() {
		t.Logf("the client says\n%s", said)
	}
}
