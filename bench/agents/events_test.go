package agents

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write the events of the clients as test data of harness/hook")

// sent is a tool call of a session, and the name of the file with the event that the client
// sends for it. Without a name, the client sends none.
type sent struct {
	event string
	call  Call
}

// session is a series of tool calls in one session of a client. In inputs, @ is the project.
type session struct {
	client string
	args   string // more arguments of the client
	env    string
	calls  []sent
	unseen string // a file that a tool makes although no hook sees its call
}

// fn and text are a call of a function and of a tool that takes plain text.
func fn(event, tool, input string) sent { return sent{event, Call{Tool: tool, Input: input}} }
func text(event, tool, input string) sent {
	return sent{event, Call{Tool: tool, Input: input, Text: true}}
}

// typed is a text that goes to a running command of Codex.
func typed(chars string) sent {
	return sent{"", Call{Tool: "write_stdin", Input: `{"session_id":$1,"chars":` + quote(chars) + `,"yield_time_ms":500}`, From: `session ID (\d+)`}}
}

const (
	addPatch  = "*** Begin Patch\n*** Add File: src/note.txt\n+first line\n+second line\n*** End Patch"
	editPatch = "*** Begin Patch\n*** Update File: src/note.txt\n@@\n first line\n-second line\n+2nd line\n*** End Patch"
	movePatch = "*** Begin Patch\n*** Update File: src/note.txt\n*** Move to: src/moved.txt\n@@\n first line\n-2nd line\n+third line\n*** End Patch"
	dropPatch = "*** Begin Patch\n*** Delete File: src/moved.txt\n*** End Patch"
	manyPatch = "*** Begin Patch\n*** Add File: one.txt\n+one\n*** Add File: @/two.txt\n+two\n*** End Patch"
)

var sessions = []session{
	{client: "claude-code", calls: []sent{
		fn("bash", "Bash", `{"command":"echo made > made.txt","description":"Make a file"}`),
		fn("bash-background", "Bash", `{"command":"sleep 1","description":"Wait","run_in_background":true,"timeout":5000}`),
		fn("write", "Write", `{"file_path":"@/src/note.txt","content":"first line\nsecond line\n"}`),
		fn("edit", "Edit", `{"file_path":"@/src/note.txt","old_string":"second","new_string":"2nd"}`),
		fn("edit-all", "Edit", `{"file_path":"@/src/note.txt","old_string":"line","new_string":"row","replace_all":true}`),
		fn("read", "Read", `{"file_path":"@/src/note.txt","offset":1,"limit":5}`),
		fn("read-notebook", "Read", `{"file_path":"@/a.ipynb"}`),
		fn("notebookedit", "NotebookEdit", `{"notebook_path":"@/a.ipynb","cell_id":"c1","new_source":"print(2)","cell_type":"code","edit_mode":"replace"}`),
		fn("mcp", "mcp__probe__make_file", `{"path":"mcp.txt"}`),
		fn("mcp-two-parts", "mcp__probe__two__parts", `{"path":"mcp2.txt"}`),
		fn("webfetch", "WebFetch", `{"url":"http://127.0.0.1:9/page","prompt":"What does it say?"}`),
		fn("websearch", "WebSearch", `{"query":"weather today"}`),
		fn("taskcreate", "TaskCreate", `{"subject":"One","description":"Do one thing","activeForm":"Doing"}`),
		fn("skill", "Skill", `{"skill":"update-config","args":"x"}`),
		fn("croncreate", "CronCreate", `{"cron":"0 9 * * *","prompt":"Say hello","recurring":true}`),
		fn("sendmessage", "SendMessage", `{"to":"x","message":"Hello","summary":"Greet"}`),
		fn("enterworktree", "EnterWorktree", `{"name":"w"}`),
		fn("", "NoSuchTool", `{"path":"x.txt"}`),
		fn("", "mcp__probe__nothing", `{"path":"x.txt"}`),
		fn("", "Write", `{"path":"x.txt"}`),
		fn("bash-cd", "Bash", `{"command":"cd src && ls","description":"Change the folder"}`),
		fn("write-after-cd", "Write", `{"file_path":"relative.txt","content":"x\n"}`),
		fn("agent", "Agent", `{"description":"A helper","prompt":"Say hello","subagent_type":"general-purpose"}`),
		fn("bash-in-agent", "Bash", `{"command":"echo made > sub.txt","description":"Make a file"}`),
	}},
	{client: "codex", unseen: "typed.txt", calls: []sent{
		fn("exec_command", "exec_command", `{"cmd":"echo made > made.txt"}`),
		fn("exec_command-workdir", "exec_command", `{"cmd":"pwd","workdir":"src"}`),
		fn("exec_command-shell", "exec_command", `{"cmd":"echo $0","shell":"/bin/dash","login":false}`),
		text("apply_patch-add", "apply_patch", addPatch),
		text("apply_patch-update", "apply_patch", editPatch),
		text("apply_patch-move", "apply_patch", movePatch),
		text("apply_patch-delete", "apply_patch", dropPatch),
		text("apply_patch-many", "apply_patch", manyPatch),
		fn("exec_command-patch", "exec_command", `{"cmd":"apply_patch <<'EOT'\n*** Begin Patch\n*** Add File: shell.txt\n+made\n*** End Patch\nEOT\n"}`),
		{"mcp", Call{Space: "mcp__probe", Tool: "make_file", Input: `{"path":"mcp.txt"}`}},
		{"mcp-two-parts", Call{Space: "mcp__probe", Tool: "two__parts", Input: `{"path":"mcp2.txt"}`}},
		fn("exec_command-tty", "exec_command", `{"cmd":"sh","tty":true,"yield_time_ms":500}`),
		typed("echo made > typed.txt; exit\n"),
		fn("view_image", "view_image", `{"path":"a.png"}`),
		fn("request_user_input", "request_user_input", `{"questions":[{"id":"q","header":"h","question":"Which?","options":[{"label":"a","description":"b"},{"label":"c","description":"d"}]}]}`),
		fn("list_mcp_resources", "list_mcp_resources", `{}`),
		fn("read_mcp_resource", "read_mcp_resource", `{"server":"probe","uri":"x://y"}`),
		fn("create_goal", "create_goal", `{"objective":"Make one file"}`),
		fn("", "update_plan", `{"plan":[{"step":"One","status":"pending"}]}`),
		fn("", "no_such_tool", `{"path":"x.txt"}`),
	}},
	{client: "codex", args: "-c model=gpt-6-sol", calls: []sent{
		{"code-exec_command", Call{Space: "functions", Tool: "exec", Text: true, Input: `text(await tools.exec_command({cmd: "echo made > code.txt"}))`}},
		{"code-apply_patch", Call{Space: "functions", Tool: "exec", Text: true, Input: `text(await tools.apply_patch("*** Begin Patch\n*** Add File: patched.txt\n+made\n*** End Patch"))`}},
		{"code-mcp", Call{Space: "functions", Tool: "exec", Text: true, Input: `text(await tools.mcp__probe__make_file({path: "mcp3.txt"}))`}},
	}},
	{client: "codex", args: "-c model=gpt-5-codex", calls: []sent{
		{"spawn_agent", Call{Space: "multi_agent_v1", Tool: "spawn_agent", Input: `{"message":"Say hello"}`}},
		fn("exec_command-in-agent", "exec_command", `{"cmd":"echo made > sub.txt"}`),
	}},
	{client: "gemini", calls: []sent{
		fn("run_shell_command", "run_shell_command", `{"command":"echo made > made.txt","description":"Make a file"}`),
		fn("run_shell_command-dir", "run_shell_command", `{"command":"pwd","dir_path":"src"}`),
		fn("run_shell_command-background", "run_shell_command", `{"command":"sleep 1","is_background":true}`),
		fn("write_file", "write_file", `{"file_path":"src/note.txt","content":"first line\nsecond line\n"}`),
		fn("replace", "replace", `{"file_path":"@/src/note.txt","old_string":"second","new_string":"2nd","instruction":"Shorten a word"}`),
		fn("replace-multiple", "replace", `{"file_path":"@/src/note.txt","old_string":"line","new_string":"row","instruction":"Change a word","allow_multiple":true}`),
		fn("read_file", "read_file", `{"file_path":"src/note.txt"}`),
		fn("glob", "glob", `{"pattern":"*.txt"}`),
		fn("grep_search", "grep_search", `{"pattern":"row"}`),
		fn("list_directory", "list_directory", `{"dir_path":"."}`),
		fn("mcp", "mcp_probe_make_file", `{"path":"mcp.txt"}`),
		fn("mcp-two-parts", "mcp_probe_two__parts", `{"path":"mcp2.txt"}`),
		fn("web_fetch", "web_fetch", `{"prompt":"Read http://127.0.0.1:9/page"}`),
		fn("google_web_search", "google_web_search", `{"query":"weather today"}`),
		fn("activate_skill", "activate_skill", `{"name":"skill-creator"}`),
		fn("update_topic", "update_topic", `{"title":"Work","summary":"s","strategic_intent":"Make one file"}`),
		fn("", "no_such_tool", `{"path":"x.txt"}`),
		fn("", "write_file", `{"path":"x.txt"}`),
		fn("invoke_agent", "invoke_agent", `{"agent_name":"generalist","prompt":"Say hello"}`),
		fn("run_shell_command-in-agent", "run_shell_command", `{"command":"echo made > sub.txt"}`),
	}},
	{client: "copilot", calls: []sent{
		fn("bash", "bash", `{"command":"echo made > made.txt","description":"Make a file"}`),
		fn("bash-async", "bash", `{"command":"sleep 1","description":"Wait","mode":"async","shellId":"s1","detach":false}`),
		fn("create", "create", `{"path":"@/note.txt","file_text":"first line\nsecond line\n"}`),
		fn("edit", "edit", `{"path":"@/note.txt","old_str":"second","new_str":"2nd"}`),
		fn("view", "view", `{"path":"@/note.txt","view_range":[1,2]}`),
		fn("grep", "grep", `{"pattern":"line"}`),
		fn("glob", "glob", `{"pattern":"*.txt"}`),
		fn("mcp", "probe-make_file", `{"path":"mcp.txt"}`),
		fn("mcp-two-parts", "probe-two__parts", `{"path":"mcp2.txt"}`),
		fn("sql", "sql", `{"query":"SELECT 1","description":"Count","database":"session"}`),
		fn("session_store_sql", "session_store_sql", `{"query":"SELECT 1","description":"Count","source":"local"}`),
		fn("skill", "skill", `{"skill":"nothing"}`),
		fn("read_bash", "read_bash", `{"shellId":"s1","delay":1}`),
		fn("list_bash", "list_bash", `{}`),
		fn("stop_bash", "stop_bash", `{"shellId":"s1"}`),
		fn("unknown", "no_such_tool", `{"path":"x.txt"}`),
		fn("task", "task", `{"agent_type":"general-purpose","name":"helper","description":"A helper","prompt":"Say hello","mode":"sync"}`),
		fn("bash-in-agent", "bash", `{"command":"echo made > sub.txt","description":"Make a file"}`),
	}},
	{client: "copilot", env: "COPILOT_MODEL=gpt-5.3-codex", calls: []sent{
		text("apply_patch-add", "apply_patch", addPatch),
		text("apply_patch-update", "apply_patch", editPatch),
		text("apply_patch-move", "apply_patch", movePatch),
		text("apply_patch-delete", "apply_patch", dropPatch),
		fn("rg", "rg", `{"pattern":"line"}`),
	}},
}

// volatile are the parts of an event that differ from run to run, and what stands for them.
var volatile = []struct{ is, becomes string }{
	{`[0-9a-f]{8}-[0-9a-f]{4}-[1-9][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, "01a2149a-0000-7000-8000-000000000001"},
	{`"timestamp":\d+`, `"timestamp":1795642057943`},
	{`"timestamp":"[^"]*"`, `"timestamp":"2026-11-25T12:00:00.000Z"`},
	{`/\d{4}/\d\d/\d\d/rollout-[0-9T-]*T[0-9-]{9}`, "/2026/11/25/rollout-2026-11-25T12-00-00-"},
	{`session-[0-9T-]*-[0-9a-f]{8}\.jsonl`, "session-2026-11-25T12-00-01a2149a.jsonl"},
	{`"agent_id":"[0-9a-f]{17}"`, `"agent_id":"a0000000000000001"`},
	{`"agent_id":"[0-9a-f-]{36}","agent_type":"default",`, ""}, // Codex or its agent calls, whichever asks the model first
}

// neutral returns an event with the paths of one developer's machine and without what differs
// from run to run.
func neutral(event string, p Place) string {
	for from, to := range map[string]string{p.Project(): "/home/dev/project", p.Home(): "/home/dev", p.Server[0]: "/home/dev/bin/probe"} {
		event = strings.ReplaceAll(event, from, to)
	}
	event = strings.ReplaceAll(event, regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(p.Project(), "-"), "-home-dev-project")
	for _, v := range volatile {
		event = regexp.MustCompile(v.is).ReplaceAllString(event, v.becomes)
	}
	return event
}

// TestEvents: the clients send the events that the tests of harness/hook read.
func TestEvents(t *testing.T) {
	full(t)
	for _, s := range sessions {
		t.Run(s.client, func(t *testing.T) {
			t.Parallel()
			testEvents(t, s)
		})
	}
}

func testEvents(t *testing.T, s session) {
	c := client(t, s.client)
	p := place(t, c)
	c.args = append(append(c.args[:len(c.args)-1:len(c.args)-1], strings.Fields(s.args)...), Prompt)
	env := c.env
	c.env = func(p Place) []string { return append(env(p), strings.Fields(s.env)...) }
	write(t, p.Project()+"/src/.keep", "")
	write(t, p.Project()+"/a.ipynb", `{"cells":[{"cell_type":"code","id":"c1","metadata":{},"outputs":[],"execution_count":null,"source":["print(1)"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	write(t, p.Project()+"/a.png", "\x89PNG\r\n\x1a\n")
	var calls []Call
	var want []string
	for _, one := range s.calls {
		one.call.Input = strings.ReplaceAll(one.call.Input, "@/", p.Project()+"/")
		calls = append(calls, one.call)
		if one.event != "" {
			want = append(want, one.event)
		}
	}
	m := NewModel(t, calls...)
	events := filepath.Join(p.Dir, "events")
	p.URL, p.Hook = m.URL, "cat >> "+events+"; echo >> "+events
	said := c.Run(t, p)
	all, err := os.ReadFile(events)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	got := strings.FieldsFunc(string(all), func(r rune) bool { return r == '\n' })
	for i, event := range got {
		event = neutral(event, p) + "\n"
		if i >= len(want) {
			t.Errorf("one event more: %s", event)
			continue
		}
		name := filepath.Join("../../harness/hook/testdata", s.client, want[i]+".json")
		if *record {
			write(t, name, event)
		} else if old, err := os.ReadFile(name); err != nil || string(old) != event {
			t.Errorf("%s (%v): the client sends\n%s", name, err, event)
		}
	}
	if s.unseen != "" && !ran(p, s.unseen) {
		t.Errorf("%s is not there: a tool that went past the hook does so no more, or fails", s.unseen)
	}
	if len(got) < len(want) {
		t.Errorf("no event for %s; the client says\n%s\nand asked\n%s", want[len(got)], said, m.Log())
	}
}
