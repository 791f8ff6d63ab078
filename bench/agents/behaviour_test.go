package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Guard stands behind an installed hook. ` || exit 2` alone is not enough: where nothing stands
// on standard error, Codex and Gemini CLI run the tool in spite of status 2. The guard runs
// after a refusal too, so its text fits both.
const Guard = ` || sh -c 'echo "Fiador did not allow this call." >&2; exit 2'`

// guards are what the tests put behind a hook, and the column of a behaviour that they use.
var guards = []string{"", " || exit 2", Guard}

// behaviour is something that a hook does.
type behaviour struct {
	name, script string
	// ran says for each guard and each client, in the order of Clients, whether the tool
	// runs: o for open, - for shut. A behaviour is not tried with a guard that has no column.
	ran []string
	// told says for each client whether the model gets the word reason-NAME of the hook
	// without a guard: y or n.
	told string
}

// behaviours is the table of the design. A client that changes is noticed here. Gemini CLI
// has no answer "ask": it waits for a person for ever, so there the hook denies instead.
var behaviours = []behaviour{
	{"exit2", `echo reason-exit2 >&2; exit 2`, []string{"----", "----", "----"}, "yyyn"},
	{"mute", `exit 2`, []string{"-oo-", "-oo-", "----"}, "nnnn"},
	{"exit1", `exit 1`, []string{"ooo-", "-oo-", "----"}, "nnnn"},
	{"killed", `kill -KILL $$`, []string{"ooo-", "----", "----"}, "nnnn"},
	{"missing", `exec /nowhere/fiador hook client`, []string{"oo--", "----", "----"}, "nnnn"},
	{"garbage", `echo '{"garbage'`, []string{"oooo"}, "nnnn"},
	{"nothing", `echo '{}'; echo reason-nothing >&2; exit 2`, []string{"--o-"}, "yynn"},
	{"deny", `DENY`, []string{"----"}, "yyyy"},
	{"both", `DENY; echo reason-both >&2; exit 2`, []string{"----"}, "yyyy"},
	{"ask", `ASK`, []string{"-o--"}, "ynyy"},
	{"slow", `exec sleep 60`, []string{"oooo"}, "nnnn"},
	{"silent", `true`, []string{"oooo", "oooo", "oooo"}, "nnnn"},
}

// decided are the documents with which a hook decides, with decision and reason.
var decided = map[string]string{
	"claude-code": `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%s","permissionDecisionReason":"reason-%s"}}`,
	"codex":       `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%s","permissionDecisionReason":"reason-%s"}}`,
	"gemini":      `{"decision":"%s","reason":"reason-%s"}`,
	"copilot":     `{"permissionDecision":"%s","permissionDecisionReason":"reason-%s"}`,
}

// shell returns a call of the client's shell tool with a command line.
func shell(client, line string) Call {
	return map[string]Call{
		"claude-code": {Tool: "Bash", Input: `{"command":` + quote(line) + `,"description":"Make a file"}`},
		"codex":       {Tool: "exec_command", Input: `{"cmd":` + quote(line) + `}`},
		"gemini":      {Tool: "run_shell_command", Input: `{"command":` + quote(line) + `,"description":"Make a file"}`},
		"copilot":     {Tool: "bash", Input: `{"command":` + quote(line) + `,"description":"Make a file"}`},
	}[client]
}

// TestBehaviours: what a hook does decides in each client whether the tool runs.
func TestBehaviours(t *testing.T) {
	full(t)
	for i, c := range Clients {
		for j := range guards {
			t.Run(fmt.Sprintf("%s-%d", c.Name, j), func(t *testing.T) {
				t.Parallel()
				testBehaviours(t, i, j)
			})
		}
	}
}

// testBehaviours has one client make one call for each behaviour, in one session.
func testBehaviours(t *testing.T, i, j int) {
	c := Clients[i]
	p := place(t, c)
	p.Seconds = 10
	ask := "ask"
	if c.Name == "gemini" {
		ask = "deny"
	}
	script, calls := "event=$(cat)\ncase $event in\n", []Call(nil)
	for _, b := range behaviours {
		does := b.script
		for word, decision := range map[string]string{"DENY": "deny", "ASK": ask} {
			does = strings.ReplaceAll(does, word, "echo '"+fmt.Sprintf(decided[c.Name], decision, b.name)+"'")
		}
		script += "*'made > " + b.name + ".txt'*) " + does + " ;;\n"
		if j < len(b.ran) {
			calls = append(calls, shell(c.Name, "echo made > "+b.name+".txt"))
		}
	}
	write(t, p.Dir+"/hook.sh", script+"*) echo >&2 another; exit 2 ;;\nesac\n")
	m := NewModel(t, calls...)
	p.URL, p.Hook = m.URL, "sh '"+p.Dir+"/hook.sh'"+guards[j]
	said := c.Run(t, p)
	for _, b := range behaviours {
		if j >= len(b.ran) {
			continue
		}
		if got, want := ran(p, b.name+".txt"), b.ran[j][i] == 'o'; got != want {
			t.Errorf("the hook does %q: that the tool runs is %v, and %v in the table", b.script, got, want)
		}
		if got, want := strings.Contains(m.Log(), "reason-"+b.name), b.told[i] == 'y'; j == 0 && got != want {
			t.Errorf("the hook does %q: that the model gets the reason is %v, and %v in the table", b.script, got, want)
		}
	}
	if t.Failed() {
		t.Logf("the client says\n%s", said)
	}
}

// rewrite is an answer that changes a call of the shell tool. CHANGED stands for the command.
type rewrite struct {
	name, answer string
	folder       string // where the changed line runs; empty: the model's line runs
}

// rewrites are the answers that each client was seen to take. The calls of Codex and Gemini CLI
// name the folder src: Gemini CLI forgets what the answer leaves out.
var rewrites = map[string][]rewrite{
	"claude-code": {
		{"all", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"CHANGED","description":"Make a file"}}}`, "."},
		{"alone", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"CHANGED"}}}`, "."},
		{"unsaid", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"CHANGED"}}}`, "."},
	},
	"codex": {
		{"all", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"CHANGED"}}}`, "src"},
		{"unsaid", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"CHANGED"}}}`, ""},
	},
	"gemini": {
		{"all", `{"hookSpecificOutput":{"tool_input":{"command":"CHANGED","description":"Make a file","dir_path":"src"}}}`, "src"},
		{"alone", `{"hookSpecificOutput":{"tool_input":{"command":"CHANGED"}}}`, "."},
	},
	"copilot": {
		{"all", `{"permissionDecision":"allow","modifiedArgs":{"command":"CHANGED","description":"Make a file"}}`, "."},
		{"alone", `{"permissionDecision":"allow","modifiedArgs":{"command":"CHANGED"}}`, "."},
		{"unsaid", `{"modifiedArgs":{"command":"CHANGED"}}`, "."},
	},
}

// inFolder is what a call of the shell tool says in order to run in the folder src.
var inFolder = map[string]string{"codex": `,"workdir":"src"}`, "gemini": `,"dir_path":"src"}`}

// TestRewrites: with these answers the clients run another command in place of the model's.
func TestRewrites(t *testing.T) {
	full(t)
	each(t, testRewrites)
}

func testRewrites(t *testing.T, c Client) {
	p := place(t, c)
	write(t, p.Project()+"/src/.keep", "")
	script, calls := "event=$(cat)\ncase $event in\n", []Call(nil)
	for _, r := range rewrites[c.Name] {
		answer := strings.ReplaceAll(r.answer, "CHANGED", "pwd > "+p.Project()+"/"+r.name+"-after.txt")
		script += "*'/" + r.name + "-before.txt'*) echo '" + answer + "' ;;\n"
		call := shell(c.Name, "echo made > "+p.Project()+"/"+r.name+"-before.txt")
		if folder := inFolder[c.Name]; folder != "" {
			call.Input = strings.TrimSuffix(call.Input, "}") + folder
		}
		calls = append(calls, call)
	}
	write(t, p.Dir+"/hook.sh", script+"*) echo >&2 another; exit 2 ;;\nesac\n")
	m := NewModel(t, calls...)
	p.URL, p.Hook = m.URL, "sh '"+p.Dir+"/hook.sh'"
	said := c.Run(t, p)
	for _, r := range rewrites[c.Name] {
		got, _ := os.ReadFile(filepath.Join(p.Project(), r.name+"-after.txt")) // no file: no line
		want := ""
		if r.folder != "" {
			want = filepath.Join(p.Project(), r.folder) + "\n"
		}
		if string(got) != want || ran(p, r.name+"-before.txt") == (want != "") {
			t.Errorf("after %s the changed line ran in %q, and in the table in %q\n%s", r.answer, got, want, said)
		}
	}
}

// ran says whether the tool made its file.
func ran(p Place, file string) bool {
	_, err := os.Lstat(filepath.Join(p.Project(), file))
	return err == nil
}
