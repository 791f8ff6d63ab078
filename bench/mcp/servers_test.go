package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/rpc"
	"github.com/fiador/fiador/specs"
)

// start returns a link to a new process of a reference server. The process is ended with the
// test.
func start(t *testing.T, command string, args ...string) link {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		t.Skip(command + " is not in PATH; npm installs it from @modelcontextprotocol/" + strings.TrimPrefix(command, "mcp-"))
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.jsonl"))
	out, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return link{
		pins: func() ([]rpc.Tool, error) { return mcp.Pins(soon(t), mcp.Pipes(in, out)) },
		call: func(b *adapter.Bound) adapter.Reply { return mcp.Stdio(soon(t), b, in, out) },
	}
}

// TestReferenceServers: the reference servers have tools, say the same about them twice, and
// answer a call. A tool that is pinned to another digest is not called.
func TestReferenceServers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("what the file says"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command   string
		args      []string
		tool      string
		arguments map[string]any
		want      string // in the answer
		failing   map[string]any
	}{
		{"mcp-server-everything", []string{"stdio"}, "echo", map[string]any{"message": "again"}, "Echo: again", map[string]any{"message": 1}},
		{"mcp-server-filesystem", []string{dir}, "read_text_file", map[string]any{"path": file}, "what the file says", map[string]any{"path": "/etc/hostname"}},
		{"mcp-server-memory", nil, "read_graph", map[string]any{}, `"entities":[]`, nil},
	} {
		t.Run(c.command, func(t *testing.T) {
			tools, err := start(t, c.command, c.args...).pins()
			if err != nil || len(tools) < 5 {
				t.Fatalf("%v, %v", tools, err)
			}
			if c.command == "mcp-server-filesystem" {
				examplePins(t, tools)
			}
			if r := start(t, c.command, c.args...).call(bound(tools, c.tool, c.arguments)); !strings.Contains(string(r.Answer), c.want) {
				t.Errorf("%+v %s", r, r.Answer)
			}
			if c.failing != nil {
				if r := start(t, c.command, c.args...).call(bound(tools, c.tool, c.failing)); r.Failure != adapter.FailTool {
					t.Errorf("a call that fails: %+v %s", r, r.Answer)
				}
			}
			other := bound(tools, c.tool, c.arguments)
			other.Adapter.Server.Tools[c.tool] = tools[0].SHA256
			if tools[0].Name == c.tool {
				other.Adapter.Server.Tools[c.tool] = tools[1].SHA256
			}
			if r := start(t, c.command, c.args...).call(other); r.Failure != adapter.FailRefused {
				t.Errorf("another pin: %+v %s", r, r.Answer)
			}
		})
	}
}

// examplePins: the server of examples/tools is pinned to what the real one says.
func examplePins(t *testing.T, tools []rpc.Tool) {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dispatch.ReadServer(set, "../../examples/tools", "filesystem-server")
	if err != nil || len(p.Server.Tools) != len(tools) {
		t.Fatalf("the example has %v (%v)", p, err)
	}
	for _, tool := range tools {
		if p.Server.Tools[tool.Name] != tool.SHA256 {
			t.Errorf("%s is pinned to %s, and is %s", tool.Name, p.Server.Tools[tool.Name], tool.SHA256)
		}
	}
}
