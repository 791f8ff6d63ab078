//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// toolProfile is a profile under which every tool may be called. hosts is a list of hosts in
// JSON, or empty.
func toolProfile(hosts string) string {
	network := `"allow_network":false`
	if hosts != "" {
		network = `"allow_network":true,"network_hosts":` + hosts
	}
	return `{"name":"tools",` + network + `,"timeout_ms":300000,"max_output_files":10,"max_total_output_bytes":1048576,
		"allowed_commands":"*","allowed_write_roots":"*","env_allow":"*","allowed_tools":"*","execution_modes":["plan-only","execute-sandbox"],"model_modes":["none","record","replay"],
		"severity":{"SHELL_COMMAND":"note","INLINE_CODE":"note","NETWORK_NEEDED":"note"},"memory_mb":512,"max_children":10,"cpu_cores":1,"isolation":"confined"}`
}

// slowCall is a call of a tool that does not end by itself.
type slowCall struct {
	bench
	kind      string
	isolation sandbox.Isolation
	mark      string       // is in the command line of each process of the call
	open      atomic.Int64 // connections of the call
	asked     atomic.Int64 // requests that the server does not answer
}

// slowKinds are the kinds of slow calls: the type of the adapter, and what comes after it.
var slowKinds = []string{"cli", "sdk", "mcp over pipes", "mcp over HTTP", "api"}

// newSlowCall makes the tool T of one kind, and a profile under which it may be called.
func newSlowCall(t *testing.T, kind string, isolation sandbox.Isolation) *slowCall {
	t.Helper()
	c := &slowCall{bench: newBench(t), kind: kind, isolation: isolation, mark: seconds()}
	script := "trap '' TERM; echo x >f; setsid sleep " + c.mark + " & sleep " + c.mark + "; sleep " + c.mark
	quoted, err := canon.Canonical(script)
	if err != nil {
		t.Fatal(err)
	}
	hosts, network := "", ""
	var how string
	switch kind {
	case "cli":
		how = `{"executable":"sh","base_args":["-c",` + string(quoted) + `]}`
	case "sdk":
		if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
			t.Skip("python3 is not installed here")
		}
		how = `{"language":"python","import_path":"subprocess","function_mapping":{"go":"run"}}`
	case "mcp over pipes":
		how = `{"server":"s","transport":"stdio","tool_mapping":{"go":"go"}}`
		ready, err := canon.Canonical(`read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'; read l; ` + script)
		if err != nil {
			t.Fatal(err)
		}
		c.server(t, `"command":["sh","-c",`+string(ready)+`]`)
	case "mcp over HTTP", "api":
		host := "localhost:" + c.serve(t)
		how = `{"base_url":"http://` + host + `","auth_method":"none","endpoint_mapping":{"go":"GET /"}}`
		if kind != "api" {
			how = `{"server":"s","transport":"http","tool_mapping":{"go":"go"}}`
			c.server(t, `"url":"http://`+host+`/"`)
		}
		hosts = `["private:` + host + `"]`
		network = `,"sandbox_override":{"network":{"enabled":true,"allow":` + hosts + `}}`
	}
	adapterType, _, _ := strings.Cut(kind, " ")
	if err := os.MkdirAll(filepath.Join(c.dir, "tools/T"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, c.dir, "tools/T/tool.json", `{"tool_id":"T","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`)
	put(t, c.dir, "tools/T/A.json", `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"`+adapterType+`","interface":{"`+adapterType+`":`+how+`}`+network+`}`)
	if err := os.Mkdir(filepath.Join(c.dir, "policy"), 0o755); err != nil {
		t.Fatal(err)
	}
	if hosts != "" && isolation == sandbox.Confined { // it cannot list hosts; the adapter lists its own
		hosts = `"*"`
	}
	put(t, c.dir, "policy/profile.json", toolProfile(hosts))
	if _, stderr, code := c.run(t, "tool", "index", filepath.Join(c.dir, "tools")); code != 0 {
		t.Fatal(stderr)
	}
	return c
}

// server writes the server s of the registry.
func (c *slowCall) server(t *testing.T, how string) {
	t.Helper()
	doc, err := canon.Parse([]byte(slowTool), len(slowTool))
	if err != nil {
		t.Fatal(err)
	}
	_, pin, err := canon.Artifact(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "tools/servers"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, c.dir, "tools/servers/s.json", `{`+how+`,"tools":{"go":"`+string(pin)+`"}}`)
}

// slowTool is what an MCP server says about its tool.
const slowTool = `{"name":"go","inputSchema":{"type":"object"}}`

// serve starts a server that does not answer the call, and returns its port. It answers what
// an MCP client asks before the call.
func (c *slowCall) serve(t *testing.T) (port string) {
	t.Helper()
	before := map[string]string{
		"initialize":                `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`,
		"notifications/initialized": "",
		"tools/list":                `{"tools":[` + slowTool + `]}`,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body) // a server notices the end of a connection only after the body
		_ = json.Unmarshal(body, &m)
		switch answer, ok := before[m.Method]; {
		case !ok:
			c.asked.Add(1)
			<-r.Context().Done()
			c.asked.Add(-1)
		case answer == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.open.Add(1)
		case http.StateClosed:
			c.open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = strings.Cut(server.Listener.Addr().String(), ":")
	return port
}

// program returns the command for the program where it has the isolation of the call.
func (c *slowCall) program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stdout, stderr = c.command(t, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if c.isolation == sandbox.Confined {
		restrict(cmd)
	}
	return cmd, stdout, stderr
}

// start starts the call in a process group of its own.
func (c *slowCall) start(t *testing.T) (cmd *exec.Cmd, said func() string) {
	t.Helper()
	args := []string{"tool", "call", "T", "--tools", filepath.Join(c.dir, "tools"), "--policy", filepath.Join(c.dir, "policy"), "--work", c.work}
	if c.kind == "sdk" {
		args = append(args, "--param", `args=["sleep","`+c.mark+`"]`)
	}
	cmd, stdout, stderr := c.program(t, args...)
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() string { return stdout.String() + stderr.String() }
}

// begun waits until the call is under way, and returns how long that took.
func (c *slowCall) begun(t *testing.T, said func() string) time.Duration {
	t.Helper()
	since := time.Now()
	for c.asked.Load() == 0 && len(runningWith(t, c.mark)) == 0 {
		if time.Sleep(time.Millisecond); time.Since(since) > time.Minute {
			t.Fatalf("the call does not begin: %s", said())
		}
	}
	return time.Since(since)
}

// clean checks that a call that was ended has left nothing.
func (c *slowCall) clean(t *testing.T, when string, pid int) {
	t.Helper()
	gone(t, c.mark)
	ended(t, pid, c.temp)
	awaits(t, when+": no connection is open", func() bool { return c.open.Load() == 0 })
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), c.temp) {
		t.Errorf("%s: mounted: %s (%v)", when, mounts, err)
	}
	for _, dir := range []string{c.temp, c.work} {
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("%s: left behind: %v (%v)", when, list, err)
		}
	}
	if list := cgroupsOf(pid); len(list) > 0 {
		t.Errorf("%s: cgroups are left: %v", when, list)
	}
}

// next checks that the next command works and says nothing.
func (c *slowCall) next(t *testing.T, when string) {
	t.Helper()
	args := sh("echo next; pwd")
	if c.isolation == sandbox.Confined {
		args = slices.Insert(args, 1, "--isolation", "confined")
	}
	cmd, stdout, stderr := c.program(t, args...)
	code := status(t, cmd.Run())
	if code == 99 {
		t.Skipf("the limit of user namespaces cannot be set here: %s", stderr)
	}
	if said, full := stdout.String(), stdout.String() == "next\n/work\n"; !strings.HasPrefix(said, "next\n/") || full != (c.isolation == sandbox.Full) || stderr.Len() > 0 || code != 0 {
		t.Errorf("%s: the next command: exit status %d, stdout %q, stderr %q", when, code, said, stderr)
	}
}

// TestToolKilled kills the program at 100 random moments, of calls of each kind and in each
// isolation: in its start, and while the call is under way. Its processes and connections
// end, nothing is applied, and the next command removes the rest. An interrupt leaves
// nothing to remove.
func TestToolKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	for _, isolation := range []sandbox.Isolation{sandbox.Full, sandbox.Confined} {
		for _, kind := range slowKinds {
			t.Run(string(isolation)+"/"+kind, func(t *testing.T) {
				c := newSlowCall(t, kind, isolation)
				c.next(t, "before all")
				c.killed(t, rehearsal.Count(10, 50)/len(slowKinds))
			})
		}
	}
}

// killed interrupts one call, and then kills as many as rounds says.
func (c *slowCall) killed(t *testing.T, rounds int) {
	t.Helper()
	cmd, said := c.start(t)
	start := c.begun(t, said)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd.Wait()); got != cli.ExitError || !strings.HasPrefix(said(), `{"code":"RUN_E005","details":{"hint":"run it again"},"message":"interrupted`) {
		t.Errorf("interrupted: exit status %d, %s", got, said())
	}
	c.clean(t, "interrupted", cmd.Process.Pid)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range rounds {
		cmd, said := c.start(t)
		from, span := "start", start
		if i%2 == 0 {
			c.begun(t, said)
			from, span = "the begin of the call", 20*time.Millisecond
		}
		delay := time.Duration(random.Int64N(int64(span)))
		time.Sleep(delay)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		when := fmt.Sprintf("killed %s after %s (seed %d)", delay, from, seed)
		gone(t, c.mark)
		c.next(t, when)
		// The kernel removes no cgroup while a process in it ends. The command after does.
		for end := time.Now().Add(time.Minute); len(cgroupsOf(cmd.Process.Pid)) > 0 && time.Now().Before(end); {
			c.next(t, when)
		}
		c.clean(t, when, cmd.Process.Pid)
	}
}
