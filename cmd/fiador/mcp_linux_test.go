package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/rpc"
)

const (
	initializeMCP  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	initializedMCP = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// mcpSession is a client of a program that speaks MCP on its streams.
type mcpSession struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // the answers; closed behind the last one
	stderr *bytes.Buffer
}

func newMCPSession(t *testing.T, args ...string) *mcpSession {
	t.Helper()
	return startMCP(t, command(t, args...))
}

// startMCP starts a session with a command that has no streams yet.
func startMCP(t *testing.T, cmd *exec.Cmd) *mcpSession {
	t.Helper()
	s := &mcpSession{cmd: cmd, lines: make(chan string, 1<<16), stderr: &bytes.Buffer{}}
	s.cmd.Stdout, s.cmd.Stderr = nil, s.stderr
	var out io.Reader
	var err error
	if s.in, err = s.cmd.StdinPipe(); err == nil {
		out, err = s.cmd.StdoutPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		defer close(s.lines)
		for in := bufio.NewReaderSize(out, 1<<16); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- line
		}
	}()
	return s
}

// say sends messages.
func (s *mcpSession) say(t *testing.T, messages ...string) {
	t.Helper()
	if _, err := io.WriteString(s.in, strings.Join(messages, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

// next returns the next answer.
func (s *mcpSession) next(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			t.Fatalf("no answer: %s", s.stderr)
		}
		return line
	case <-time.After(time.Minute):
		t.Fatal("no answer comes")
	}
	return ""
}

// end waits for the end of the program, and returns its exit status and what it says last.
func (s *mcpSession) end(t *testing.T) (code int, rest []string) {
	t.Helper()
	stop := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer stop.Stop()
	for line := range s.lines {
		rest = append(rest, line)
	}
	return status(t, s.cmd.Wait()), rest
}

// intentOfN is an intent of one of three outcomes, by n.
func intentOfN(n int) string {
	return []string{
		fmt.Sprintf(`{"actions":[{"content":"%d","kind":"write","path":"out/a"}],"constraints":["short"],"goal":"Write %d"}`, n, n),
		fmt.Sprintf(`{"actions":[{"argv":["curl","example.com/%d"],"kind":"run"}],"constraints":["fast"],"goal":"Fetch %d"}`, n, n),
		fmt.Sprintf(`{"constraints":["%d times"],"goal":"Deploy to <environment>"}`, n),
	}[n%3]
}

func callTool(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// toolAnswer is an answer of a tool of fiador mcp serve, or an error.
type toolAnswer struct {
	ID    any
	Error *struct {
		Code    int
		Message string
	}
	Result struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
		Tools             []struct {
			Name        string
			InputSchema json.RawMessage
		}
		Contents        []struct{ URI, MimeType, Text string }
		ProtocolVersion string
	}
}

func readAnswer(t *testing.T, line string) (a toolAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return a
}

// asked asks one question, and returns the answer to it.
func (s *mcpSession) asked(t *testing.T, message string) toolAnswer {
	t.Helper()
	s.say(t, message)
	return readAnswer(t, s.next(t))
}

// withoutRun returns a RunResult without its run id and its times.
func withoutRun(t *testing.T, text []byte) string {
	t.Helper()
	doc, err := canon.Parse(text, result.MaxBytes)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	r := doc.Value().(map[string]any)
	for _, name := range []string{"run_id", "started_at", "completed_at"} {
		if r[name] == nil {
			t.Errorf("no %s in %s", name, text)
		}
		delete(r, name)
	}
	b, err := canon.Canonical(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestServeDecides: 64 decisions at once are those of the command line, byte for byte but for the
// run id and the times, and each has its record. An explanation names the rule and the line that
// fiador explain names.
func TestServeDecides(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	dir := t.TempDir()
	flags := newLedger(t, dir)
	s := newMCPSession(t, append([]string{"mcp", "serve"}, flags...)...)
	const count = 64
	var calls []string
	for n := range count {
		calls = append(calls, callTool(strconv.Itoa(n), "fiador_decide", `{"intent":`+intentOfN(n)+`}`))
	}
	s.say(t, calls...)
	answers, ids := map[int]toolAnswer{}, map[string]bool{}
	for range count {
		a := readAnswer(t, s.next(t))
		answers[int(a.ID.(float64))] = a
	}
	for n := range count {
		// The file has the name that the server gives the intent.
		cmd := command(t, "run", "intent")
		cmd.Dir = t.TempDir()
		put(t, cmd.Dir, "intent", intentOfN(n)+"\n")
		want, err := cmd.Output()
		if code := status(t, err); code == cli.ExitError {
			t.Fatalf("exit status %d", code)
		}
		a := answers[n]
		if a.Error != nil || a.Result.IsError || len(a.Result.Content) != 1 {
			t.Fatalf("%d: %+v", n, a)
		}
		text := a.Result.Content[0].Text
		if got, want := withoutRun(t, []byte(text)), withoutRun(t, want); got != want {
			t.Errorf("%d:\n got %s\nwant %s", n, got, want)
		}
		if text != string(a.Result.StructuredContent)+"\n" {
			t.Errorf("%d: the structured answer is another: %s, %s", n, text, a.Result.StructuredContent)
		}
		var r struct {
			RunID string `json:"run_id"`
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || ids[r.RunID] {
			t.Errorf("the run id %s, twice or none (%v)", r.RunID, err)
		}
		ids[r.RunID] = true
		if out, err := command(t, "ledger", "show", r.RunID, "--result", "--ledger", filepath.Join(dir, "gate")).Output(); err != nil || string(out) != text {
			t.Errorf("%d: the ledger has %s (%v), and the answer is %s", n, out, err, text)
		}
		if n < 3 {
			s.explains(t, intentOfN(n))
		}
	}
	s.in.Close()
	if code, rest := s.end(t); code != 0 || len(rest) > 0 || s.stderr.Len() > 0 {
		t.Errorf("exit status %d, %q, %s", code, rest, s.stderr)
	}
}

// explains checks that fiador_explain says what fiador explain says.
func (s *mcpSession) explains(t *testing.T, intent string) {
	t.Helper()
	cmd := command(t, "explain", "--intent", put(t, t.TempDir(), "intent", intent), "--format", "json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Outcome  string
		Findings []struct {
			ID, Path, Text, Fix string
			Decides             bool
			Source              struct {
				File string
				Line int
			}
		}
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Outcome string
		Reasons []struct {
			ID, Pointer, Text, Fix, File string
			Decides                      bool
			Line                         int
		}
	}
	a := s.asked(t, callTool(`"explain"`, "fiador_explain", `{"intent":`+intent+`}`))
	if err := json.Unmarshal(a.Result.StructuredContent, &got); err != nil || a.Result.IsError {
		t.Fatalf("%+v (%v)", a, err)
	}
	if got.Outcome != want.Outcome || len(got.Reasons) != len(want.Findings) || (want.Outcome != "BUNDLE") != (len(got.Reasons) > 0) {
		t.Fatalf("%+v, and fiador explain says %s", got, out)
	}
	for i, r := range got.Reasons {
		f := want.Findings[i]
		if r.ID != f.ID || r.Pointer != f.Path || r.Text != f.Text || r.Fix != f.Fix || r.Decides != f.Decides || r.File != f.Source.File || r.Line != f.Source.Line || r.Line == 0 {
			t.Errorf("%+v, and fiador explain says %+v", r, f)
		}
	}
}

// TestServeArguments: nothing that a client says chooses a profile, a ledger, a folder or a mode.
func TestServeArguments(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	dir := t.TempDir()
	s := newMCPSession(t, "mcp", "serve")
	choices := map[string]string{
		"profile": `"dev"`, "policy": `"dev"`, "org_policy": `"` + dir + `"`, "ledger": `"` + dir + `/ledger"`, "ledger_key": `"k"`, "tree": `"/"`, "work": `"/"`,
		"mode": `"execute-sandbox"`, "execution_mode": `"execute-sandbox"`, "promote": `"` + dir + `"`, "run_id": `"mine"`, "model_mode": `"record"`,
	}
	const goal, id = `"goal":"Write","constraints":["short"]`, `1`
	for _, tool := range []string{"fiador_decide", "fiador_explain"} {
		for name, value := range choices {
			if a := s.asked(t, callTool(id, tool, `{"intent":{`+goal+`},"`+name+`":`+value+`}`)); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s, argument %s: %+v", tool, name, a)
			}
			a := s.asked(t, callTool(id, tool, `{"intent":{`+goal+`,"`+name+`":`+value+`}}`))
			if !a.Result.IsError || !strings.Contains(string(a.Result.StructuredContent), `"pointer":"/`+name+`"`) || !strings.HasPrefix(string(a.Result.StructuredContent), `{"code":"RUN_E003"`) {
				t.Errorf("%s, member %s of the intent: %+v", tool, name, a)
			}
			// Beside the arguments, nobody reads it.
			plain := s.asked(t, callTool(id, tool, `{"intent":{`+goal+`}}`))
			a = s.asked(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","`+name+`":`+value+`,"params":{"name":"`+tool+`","`+name+`":`+value+`,"_meta":{"`+name+`":`+value+`},"arguments":{"intent":{`+goal+`}}}}`)
			if got, want := a, plain; got.Error != nil || profileOf(t, got) != profileOf(t, want) {
				t.Errorf("%s, %s beside the arguments: %+v", tool, name, a)
			}
		}
		for _, arguments := range []string{`{}`, `{"intent":null}`, `{"intent":[]}`, `{"intent":"{}"}`, `null`, `[]`, `"x"`, `{"Intent":{` + goal + `}}`} {
			if a := s.asked(t, callTool(id, tool, arguments)); a.Error == nil {
				t.Errorf("%s %s: %+v", tool, arguments, a)
			}
		}
	}
	a := s.asked(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if len(a.Result.Tools) != 2 || a.Result.Tools[0].Name != "fiador_decide" || a.Result.Tools[1].Name != "fiador_explain" {
		t.Errorf("the tools are %+v", a.Result.Tools)
	}
	for _, tool := range a.Result.Tools {
		var schema struct {
			Properties map[string]any
			Additional *bool `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil || len(schema.Properties) != 1 || schema.Properties["intent"] == nil || schema.Additional == nil || *schema.Additional {
			t.Errorf("%s takes %s (%v)", tool.Name, tool.InputSchema, err)
		}
	}
	if a := s.asked(t, callTool(id, "fiador_run", `{"intent":{`+goal+`}}`)); a.Error == nil {
		t.Errorf("fiador_run is there: %+v", a)
	}
}

// profileOf returns what of an answer tells under which profile, and in which mode, it was made.
func profileOf(t *testing.T, a toolAnswer) string {
	t.Helper()
	var r struct {
		Outcome string
		Mode    string          `json:"execution_mode"`
		Made    json.RawMessage `json:"policy_provenance"`
	}
	if err := json.Unmarshal(a.Result.StructuredContent, &r); err != nil || a.Result.IsError {
		t.Fatalf("%+v (%v)", a, err)
	}
	return r.Outcome + r.Mode + string(r.Made)
}

// TestServeMessages: odd messages get an error or nothing, and the session goes on.
func TestServeMessages(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	s := newMCPSession(t, "mcp", "serve")
	s.say(t, initializedMCP)
	for _, version := range []string{"2025-11-25", "2024-11-05", "1999-01-01"} {
		want := version
		if version == "1999-01-01" {
			want = rpc.Versions[0]
		}
		if a := s.asked(t, strings.Replace(initializeMCP, "2025-11-25", version, 1)); a.Result.ProtocolVersion != want {
			t.Errorf("%s: %+v", version, a)
		}
	}
	for _, tc := range []struct {
		message, id string
		code        int
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/run"}`, "1", -32601},
		{`{"jsonrpc":"2.0","id":"1","method":"Tools/list"}`, "1", -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, "1", -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`, "1", -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":{}}}`, "1", -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`, "1", -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, "1", -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":{},"arguments":{}}}`, "1", -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, "1", -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "<nil>", -32600},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "<nil>", -32600},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "<nil>", -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "<nil>", -32600},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "2", -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "1", -32600},
		{`nothing`, "<nil>", -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("a", rpc.MaxMessageBytes) + `"}}`, "<nil>", -32600},
	} {
		a := s.asked(t, tc.message)
		if a.Error == nil || a.Error.Code != tc.code || fmt.Sprint(a.ID) != tc.id {
			t.Errorf("%.200s: %+v", tc.message, a)
		}
	}
	// What has no answer: a notification, an answer, a blank line, and a cancellation of nothing.
	s.say(t, `{"jsonrpc":"2.0","method":"tools/call","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "", "  ")
	for _, id := range []string{`{}`, `[]`, `null`, `1`, `"1"`, `1.5`} {
		s.say(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	}
	s.say(t, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	for _, id := range []string{`1`, `"1"`} {
		a := s.asked(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		if text, err := json.Marshal(a.ID); err != nil || string(text) != id || a.Error != nil {
			t.Errorf("%+v", a)
		}
	}
	// A last line without its end is no message.
	if _, err := io.WriteString(s.in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); err != nil {
		t.Fatal(err)
	}
	s.in.Close()
	if code, rest := s.end(t); code != 0 || len(rest) > 0 || s.stderr.Len() > 0 {
		t.Errorf("exit status %d, %q, %s", code, rest, s.stderr)
	}
}

// TestServeResources: the resources are the profile that fiador policy show prints, and every rule.
func TestServeResources(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	s := newMCPSession(t, "mcp", "serve", "--policy", "dev")
	out, err := command(t, "policy", "show", "dev", "--format", "json").Output()
	var want struct {
		SHA256 canon.ContentHash `json:"profile_sha256"`
	}
	if err == nil {
		err = json.Unmarshal(out, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := s.asked(t, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"fiador://policy"}}`)
	if len(a.Result.Contents) != 1 || canon.ContentHash(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(a.Result.Contents[0].Text)))) != want.SHA256 || a.Result.Contents[0].MimeType != "application/json" {
		t.Errorf("%+v, and fiador policy show says %s", a, want.SHA256)
	}
	a = s.asked(t, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"fiador://rules"}}`)
	if len(a.Result.Contents) != 1 || !strings.Contains(a.Result.Contents[0].Text, "\nCMD_NOT_ALLOWED  Command not in allowed_commands. ") || strings.Count(a.Result.Contents[0].Text, "\n") < 20 {
		t.Errorf("%+v", a)
	}
}

// TestServeEnds: a signal ends the server though the client keeps its stream open, and so does a
// client that reads no answers. A ledger that cannot be written gives no decision.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		s := newMCPSession(t, "mcp", "serve")
		s.asked(t, initializeMCP)
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code, rest := s.end(t); code != 0 || len(rest) > 0 {
			t.Errorf("%s: exit status %d, %q, %s", sig, code, rest, s.stderr)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "mcp", "serve")
	cmd.Stdout = w
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(w.Close(), r.Close())
	}
	if err == nil {
		_, err = io.WriteString(in, initializeMCP+"\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	if code := status(t, cmd.Wait()); code < 0 {
		t.Errorf("nobody reads the answers, and the server goes on")
	}

	dir := t.TempDir()
	s := newMCPSession(t, append([]string{"mcp", "serve"}, newLedger(t, dir)...)...)
	s.asked(t, initializeMCP)
	if err := os.RemoveAll(filepath.Join(dir, "gate")); err != nil {
		t.Fatal(err)
	}
	a := s.asked(t, callTool("1", "fiador_decide", `{"intent":`+intentOfN(0)+`}`))
	if !a.Result.IsError || !strings.HasPrefix(string(a.Result.StructuredContent), `{"code":"RUN_E006"`) {
		t.Errorf("without its ledger: %+v", a)
	}
}

// TestServeRuns: with --allow-run there is fiador_run, which executes in the sandbox. Nothing
// outside the sandbox changes. A cancelled call gets no answer, and its processes end.
func TestServeRuns(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	b := newBench(t)
	put(t, b.work, "kept", "kept")
	before := shot(t, b.work)
	cmd, _, _ := b.command(t, "mcp", "serve", "--allow-run", "--policy", "dev", "--tree", b.work)
	s := startMCP(t, cmd)
	a := s.asked(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if len(a.Result.Tools) != 3 || a.Result.Tools[2].Name != "fiador_run" {
		t.Errorf("the tools are %+v", a.Result.Tools)
	}
	run := func(id, script string) string {
		return callTool(id, "fiador_run", `{"intent":{"goal":"Do it","constraints":["now"],"actions":[{"kind":"write","path":"out/first","content":"x"},{"kind":"run","argv":["sh","-c","`+script+`"]}]}}`)
	}
	var got struct {
		Mode      string `json:"execution_mode"`
		Decision  struct{ Accepted bool }
		Execution struct {
			ExitCode int `json:"exit_code"`
			Outputs  []struct{ Path string }
		}
	}
	a = s.asked(t, run("2", "echo y >out/second; touch "+b.work+"/outside "+b.home+"/outside"))
	if err := json.Unmarshal(a.Result.StructuredContent, &got); err != nil || a.Result.IsError || got.Mode != "execute-sandbox" || len(got.Execution.Outputs) != 2 {
		t.Errorf("%+v: %s (%v)", got, a.Result.StructuredContent, err)
	}
	a = s.asked(t, run("3", "exit 3"))
	if err := json.Unmarshal(a.Result.StructuredContent, &got); err != nil || a.Result.IsError || got.Decision.Accepted || got.Execution.ExitCode != 3 {
		t.Errorf("%+v: %s (%v)", got, a.Result.StructuredContent, err)
	}
	mark := seconds()
	s.say(t, run("4", "sleep "+mark))
	running(t, mark)
	s.say(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	gone(t, mark)
	if a := s.asked(t, `{"jsonrpc":"2.0","id":5,"method":"ping"}`); a.ID != 5.0 {
		t.Errorf("a cancelled call is answered: %+v", a)
	}
	s.say(t, run("6", "sleep "+mark))
	running(t, mark)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, rest := s.end(t); code != 0 || len(rest) > 0 {
		t.Errorf("exit status %d, %q, %s", code, rest, s.stderr)
	}
	gone(t, mark)
	if after := shot(t, b.work); after != before {
		t.Errorf("the folder was\n%s\nand is\n%s", before, after)
	}
	if list, err := os.ReadDir(b.home); err != nil || len(list) > 0 {
		t.Errorf("left in the home: %v (%v)", list, err)
	}
}
