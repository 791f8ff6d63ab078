package hook_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/kernel/canon"
)

var update = flag.Bool("update", false, "write testdata/questions.txt again")

// recorded is the project in the recorded events.
const recorded = "/home/dev/project"

// project returns a folder with the files that the recorded events name.
func project(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "src"), 0o777)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "src", "note.txt"), nil, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func find(t *testing.T, name string) hook.Client {
	t.Helper()
	c, ok := hook.Find(name)
	if !ok {
		t.Fatalf("no client %s", name)
	}
	return c
}

func noEnv(string) string { return "" }

// TestRecordedEvents: each event that a real client sent becomes the question of
// testdata/questions.txt. Read with -update, the file shows what every tool is taken for.
func TestRecordedEvents(t *testing.T) {
	root := project(t)
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d events, %v", len(files), err)
	}
	var got strings.Builder
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src = bytes.ReplaceAll(src, []byte(recorded), []byte(root))
		client := find(t, filepath.Base(filepath.Dir(file)))
		call, err := client.Read(src, hook.Options{Tree: root, Reads: true, Env: noEnv})
		got.WriteString(strings.TrimPrefix(filepath.ToSlash(file), "testdata/") + " ")
		if err != nil {
			got.WriteString("error: " + err.Error() + "\n")
			continue
		}
		req, err := call.Question.Request()
		if err != nil {
			t.Fatal(err)
		}
		got.Write(bytes.ReplaceAll(req.Source, []byte(root), []byte(recorded)))
	}
	const name = "testdata/questions.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != got.String() {
		t.Errorf("%s is stale (%v); it would be\n%s", name, err, got.String())
	}
}

// ask returns what a write tool of Claude Code would write, for a path.
func ask(t *testing.T, o hook.Options, cwd, path string) string {
	t.Helper()
	quoted := func(s string) string { b, _ := canon.Canonical(s); return string(b) }
	src := `{"hook_event_name":"PreToolUse","tool_name":"Write","cwd":` + quoted(cwd) + `,"tool_input":{"file_path":` + quoted(path) + `,"content":""}}`
	o.Env = noEnv
	call, err := find(t, "claude-code").Read([]byte(src), o)
	if err != nil {
		t.Fatal(err)
	}
	return call.Question.Actions[0].Path
}

// TestPaths: a path is taken for one beneath the root only where it leads there, through
// every link. Every other path stays in a form that all profiles deny.
func TestPaths(t *testing.T) {
	root := project(t)
	other := project(t)
	for link, to := range map[string]string{"out": other, "in": filepath.Join(root, "src"), "nowhere": "/nowhere/at/all", "loop": "loop", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Skip("this system has no symbolic links: " + err.Error())
		}
	}
	if err := os.Symlink(root, filepath.Join(other, "back")); err != nil {
		t.Fatal(err)
	}
	beneath := map[string]string{
		"a.txt": "a.txt", "src/../a.txt": "a.txt", "./src//note.txt": "src/note.txt", "in/note.txt": "src/note.txt", "in/new/er.txt": "src/new/er.txt",
		root + "/src/note.txt": "src/note.txt", other + "/back/x": "x", "in/../x": "x", "new/folder/x": "new/folder/x", ".git/config": ".git/config",
	}
	for given, want := range beneath {
		if got := ask(t, hook.Options{Tree: root}, root, given); got != want {
			t.Errorf("%s is %q, want %q", given, got, want)
		}
	}
	for _, given := range []string{
		"..", "../x", "src/../../x", "out/x", "out", "out/new/x", "nowhere", "nowhere/x", "loop", "loop/x", "up/x", "new/../../x", "new/../x", "src/note.txt/x",
		"/etc/passwd", other + "/x", root + "x", strings.ToUpper(root) + "/x", "~/x", "~root/x", "~", "/proc/self/cwd/x", "",
	} {
		if got := ask(t, hook.Options{Tree: root}, root, given); filepath.IsLocal(got) && !strings.HasPrefix(got, "~") {
			t.Errorf("%s is taken for %q beneath the root", given, got)
		}
	}
	for _, given := range []string{`C:\x`, `C:/x`, `\\server\x`, `src\..\..\x`, `a\b`} {
		got := ask(t, hook.Options{Tree: root}, root, given)
		if got != filepath.ToSlash(given) && !strings.ContainsAny(got, `\:`) {
			t.Errorf("%s is %q", given, got)
		}
	}
	if got := ask(t, hook.Options{Tree: root}, other, "x"); filepath.IsLocal(got) {
		t.Errorf("a folder elsewhere: %q", got)
	}
	if got := ask(t, hook.Options{Tree: root}, filepath.Join(root, "src"), "x"); got != "src/x" {
		t.Errorf("a folder beneath the root: %q", got)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, hook.Options{}, filepath.Join(root, "src"), "x"); got != "src/x" {
		t.Errorf("the folder with .git: %q", got)
	}
}

// TestPatches: each file that a client could change is written, however the header of a
// patch is indented.
func TestPatches(t *testing.T) {
	root := project(t)
	paths := func(patch string) []string {
		quoted, _ := canon.Canonical(patch)
		src := `{"hook_event_name":"PreToolUse","tool_name":"apply_patch","cwd":"` + filepath.ToSlash(root) + `","tool_input":{"command":` + string(quoted) + `}}`
		call, err := find(t, "codex").Read([]byte(src), hook.Options{Tree: root, Env: noEnv})
		if err != nil {
			return []string{"error"}
		}
		var list []string
		for _, a := range call.Question.Actions {
			list = append(list, strings.Join(append([]string{a.Path, *a.Content}, a.RiskTags...), "|"))
		}
		return list
	}
	for patch, want := range map[string][]string{
		"*** Begin Patch\n*** Add File: a\n+1\n+2\n*** End Patch":                                  {"a|1\n2\n"},
		"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n 1\n-2\n+3\n*** End Patch":       {"a|", "b|3\n"},
		"*** Begin Patch\n*** Delete File: a\n*** End Patch":                                       {"a||destructive"},
		"*** Begin Patch\n*** Add File: a\n+1\n  *** Delete File: b\n*** End Patch":                {"a|1\n", "b||destructive"},
		"*** Begin Patch\r\n*** Update File: a\r\n@@\r\n+1\r\n \t*** Add File: b\r\n*** End Patch": {"a|1\n", "b|"},
		"*** Update File: a\n@@\n+1\n*** Update File: a\n@@\n+2\n":                                 {"a|1\n2\n"},
		"*** Add File: a\n+*** Add File: b\n":                                                      {"a|*** Add File: b\n"},
		"*** Begin Patch\n*** End Patch":                                                           {"error"},
		"*** Begin Patch\n*** Rename File: a\n*** End Patch":                                       {"error"},
		"*** Begin Patch\n*** Add File:a\n*** End Patch":                                           {"error"},
		"": {"error"},
	} {
		if got := paths(patch); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", patch, got, want)
		}
	}
}

// TestEventsThatAreRefused: what no client sends before a tool runs is an error, and so is
// an input that a known tool does not have.
func TestEventsThatAreRefused(t *testing.T) {
	root := project(t)
	event := func(rest string) string {
		return `{"hook_event_name":"PreToolUse","cwd":"` + filepath.ToSlash(root) + `",` + rest + `}`
	}
	for name, src := range map[string]string{
		"empty": "", "no JSON": "Bash", "list": "[]", "two documents": event(`"tool_name":"Bash","tool_input":{"command":"ls"}`) + "{}",
		"a name twice": event(`"tool_name":"Bash","tool_name":"Read","tool_input":{"command":"ls"}`),
		"other event":  strings.Replace(event(`"tool_name":"Bash","tool_input":{"command":"ls"}`), "PreToolUse", "PostToolUse", 1),
		"no event":     `{"cwd":"/","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"no tool":      event(`"tool_input":{"command":"ls"}`), "tool is no text": event(`"tool_name":1,"tool_input":{"command":"ls"}`),
		"no input": event(`"tool_name":"Bash"`), "input is a list": event(`"tool_name":"Bash","tool_input":["ls"]`),
		"no command": event(`"tool_name":"Bash","tool_input":{}`), "command is a list": event(`"tool_name":"Bash","tool_input":{"command":["ls"]}`),
		"no path": event(`"tool_name":"Write","tool_input":{"content":""}`), "no content": event(`"tool_name":"Write","tool_input":{"file_path":"a"}`),
		"path of a read is no text": event(`"tool_name":"Read","tool_input":{"file_path":1}`),
		"relative folder":           `{"hook_event_name":"PreToolUse","cwd":"src","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"no folder":                 `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"large":                     event(`"tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("x", hook.MaxEventBytes) + `"}`),
	} {
		if call, err := find(t, "claude-code").Read([]byte(src), hook.Options{Tree: root, Env: noEnv}); err == nil {
			t.Errorf("%s: %+v", name, call.Question)
		}
	}
}

// TestTools: a name that can be divided in two ways is that of no server, and so is a server
// whose name could pass for another tool.
func TestTools(t *testing.T) {
	root := project(t)
	for tool, want := range map[string]string{
		"mcp__s__t": "mcp:s/t", "mcp__s__t_u": "mcp:s/t_u", "mcp__s_s__t": "mcp:s_s/t", "mcp__s__t/u": "mcp:s/t/u",
		"mcp__s__t__u": "client:codex/mcp__s__t__u", "mcp__s___t": "client:codex/mcp__s___t", "mcp__s__": "client:codex/mcp__s__", "mcp____t": "client:codex/mcp____t",
		"mcp__s/x__t": "client:codex/mcp__s/x__t", "mcp__s#x__t": "client:codex/mcp__s#x__t", "mcp_s_t": "client:codex/mcp_s_t", "bash": "client:codex/bash", "Agent": "client:codex/Agent",
	} {
		src := `{"hook_event_name":"PreToolUse","cwd":"` + filepath.ToSlash(root) + `","tool_name":"` + tool + `","tool_input":{},"new_member":[1e2]}`
		call, err := find(t, "codex").Read([]byte(src), hook.Options{Tree: root, Env: noEnv})
		if err != nil || call.Undecided || call.Question.Actions[0].ToolID != want {
			t.Errorf("%s: %+v, %v", tool, call.Question, err)
		}
	}
}
