package agents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSandbox: with --sandbox, an allowed command of each client runs in the sandbox. What
// reads the machine's secrets, opens a socket or writes outside the project fails there, and
// what builds passes. Outside the sandbox each of them succeeds.
func TestSandbox(t *testing.T) {
	full(t)
	each(t, testSandbox)
}

func testSandbox(t *testing.T, c Client) {
	p := place(t, c)
	bin := hook(t)
	write(t, p.Dir+"/secret", "a secret of the machine\n")
	m := NewModel(t)
	lines := map[string]string{
		"secret": "cat " + p.Dir + "/secret && echo made > secret.txt",
		"socket": "bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + m.URL[strings.LastIndexByte(m.URL, ':')+1:] + "' && echo made > socket.txt",
		"write":  "echo made > " + p.Dir + "/write.txt && echo made > write.txt",
		"build":  "mkdir -p out && echo made > out/built && cp out/built build.txt",
	}
	order := []string{"secret", "socket", "write", "build"}
	if f, err := os.Open("/etc/shadow"); err == nil { // an ordinary user cannot read it outside either
		f.Close()
		lines["shadow"] = "cat /etc/shadow && echo made > shadow.txt"
		order = append(order, "shadow")
	}
	elsewhere := t.TempDir()
	var calls []Call
	for _, name := range order {
		cmd := exec.Command("sh", "-c", lines[name])
		if cmd.Dir = elsewhere; cmd.Run() != nil {
			t.Fatalf("%s fails outside the sandbox too", name)
		}
		calls = append(calls, shell(c.Name, lines[name]))
	}
	m.calls = calls
	p.URL, p.Hook = m.URL, fmt.Sprintf(hookLine, bin, c.Name, profile(t, p, c.Name), p.Project())+" --sandbox"+Guard
	said := c.Run(t, p)
	for _, name := range order {
		if got := ran(p, name+".txt"); got != (name == "build") {
			t.Errorf("%s: that the command succeeds is %v", name, got)
		}
	}
	if strings.Contains(longest(m), "a secret of the machine") {
		t.Error("the model gets the secret")
	}
	if t.Failed() {
		t.Logf("the client says\n%s\n%s", said, longest(m))
	}
}

// TestGate: each client makes one call that the policy allows and one that it refuses, to a
// server behind the gate, without a hook. The server sees the first one alone, and the model
// gets the reason.
func TestGate(t *testing.T) {
	full(t)
	each(t, testGate)
}

func testGate(t *testing.T, c Client) {
	p := place(t, c)
	p.Server = append([]string{hook(t), "mcp", "gate", "--server", "probe", "--policy", profile(t, p, c.Name), "--"}, p.Server...)
	m := NewModel(t, gateCalls(c.Name)...)
	p.URL = m.URL
	said := c.Run(t, p)
	for name, want := range map[string]bool{"mcp.txt": true, "unknown.txt": false} {
		if got := ran(p, name); got != want {
			t.Errorf("%s: that the server is called is %v", filepath.Base(name), got)
		}
	}
	if !strings.Contains(longest(m), "mcp:probe/two__parts") || !strings.Contains(longest(m), "TOOL_NOT_ALLOWED") {
		t.Error("the model does not get the reason")
	}
	if t.Failed() {
		t.Logf("the client says\n%s\n%s", said, longest(m))
	}
}

// gateCalls returns a call of the server that the policy allows, and one that it does not.
func gateCalls(client string) []Call {
	var calls []Call
	for _, tool := range tools {
		if tool.name != "mcp" && tool.name != "unknown" || tool.name == "unknown" && client == "gemini" {
			continue
		}
		for _, call := range tool.calls[client] {
			call.Input = strings.ReplaceAll(call.Input, "FILE", tool.name+".txt")
			calls = append(calls, call)
		}
	}
	if client == "gemini" {
		calls = append(calls, Call{Tool: "mcp_probe_two__parts", Input: `{"path":"unknown.txt"}`})
	}
	return calls
}
