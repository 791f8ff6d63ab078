package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
)

// TestOneVerdict: for each vector of the shell, in two folders, each client's hook and exec
// --line ask the same, and the policy answers the same. The short form has every third.
func TestOneVerdict(t *testing.T) {
	root := project(t)
	src, err := os.ReadFile("../../specs/vectors/shell/lines.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []struct{ Line string } }
	if err := json.Unmarshal(src, &file); err != nil || len(file.Vectors) < 200 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	deps := harnesstest.Runs(t)
	gate := harnesstest.OpenBuiltin(t, deps.Specs, "default")
	verdict := func(q interface {
		Request() (harness.Request, error)
	}) string {
		req, err := q.Request()
		if err != nil {
			t.Fatal(err)
		}
		rep, err := harness.Run(t.Context(), deps, gate, req)
		if err != nil {
			return string(runerr.Of(err).Code)
		}
		return strings.Join(append([]string{string(rep.Decision.Outcome)}, rep.Decision.Reasons...), " ")
	}
	events := map[string]string{
		"claude-code": `{"hook_event_name":"PreToolUse","cwd":"DIR","tool_name":"Bash","tool_input":{"command":LINE}}`,
		"codex":       `{"hook_event_name":"PreToolUse","cwd":"DIR","tool_name":"Bash","tool_input":{"command":LINE}}`,
		"gemini":      `{"hook_event_name":"BeforeTool","cwd":"DIR","tool_name":"run_shell_command","tool_input":{"command":LINE}}`,
		"copilot":     `{"cwd":"DIR","toolName":"bash","toolArgs":{"command":LINE}}`,
		"cursor":      `{"hook_event_name":"preToolUse","cwd":"DIR","tool_name":"Shell","tool_input":{"command":LINE}}`,
	}
	outcomes := map[string]int{}
	for i, v := range file.Vectors {
		if v.Line == "" || i%rehearsal.Stride(3) != 0 {
			continue // exec has no empty line
		}
		quoted, err := canon.Canonical(v.Line)
		if err != nil {
			continue // no event can hold it
		}
		for _, dir := range []string{".", "src"} {
			line, err := hook.Line(v.Line, root, dir)
			if err != nil {
				t.Fatal(err)
			}
			want := verdict(line)
			outcomes[strings.Fields(want)[0]]++
			for client, form := range events {
				event := strings.NewReplacer("DIR", filepath.ToSlash(filepath.Join(root, dir)), "LINE", string(quoted)).Replace(form)
				call, err := find(t, client).Read([]byte(event), hook.Options{Tree: root, Env: noEnv})
				if err != nil {
					t.Fatal(err)
				}
				if got := verdict(call.Question); got != want || !reflect.DeepEqual(call.Question.Actions, line.Actions) {
					t.Errorf("%s: %q is %s, and for exec --line %s", client, v.Line, got, want)
				}
			}
		}
	}
	if len(outcomes) < 2 {
		t.Errorf("every line has one outcome: %v", outcomes)
	}
}

// TestLineFolder: the folder of a leading cd is relative to the root, if it leads beneath the
// root, and stays absolute otherwise.
func TestLineFolder(t *testing.T) {
	root, other := project(t), project(t)
	if err := os.Symlink(other, filepath.Join(root, "out")); err != nil {
		t.Skip("this system has no symbolic links: " + err.Error())
	}
	for dir, want := range map[string]string{
		"src": "src", ".": "", root: "", root + "/": "", root + "/src": "src", root + "/src/new": "src/new",
		"/": "/", "/etc": "/etc", other: other, "out": other, root + "/out": other, root + "x": root + "x",
	} {
		q, err := hook.Line("cd "+filepath.ToSlash(dir)+" && ls", root, ".")
		if err != nil || len(q.Actions) != 1 || len(q.Actions[0].Argv) != 1 || q.Actions[0].Cwd != filepath.ToSlash(want) {
			t.Errorf("%s: %+v, %v, want %q", dir, q.Actions, err, want)
		}
	}
}
