package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/kernel/canon"
)

// agentSizes are the sizes at which the gate and the hook are timed.
type agentSizes struct {
	rounds    int // of calls
	calls     int // in a round, one after the other
	grown     int // calls of one session whose memory is looked at
	processes int // rounds of whole processes
}

func fullAgents(rounds int) agentSizes { return agentSizes{20, 50, 10_000, 5 * rounds} }
func quickAgents() agentSizes          { return agentSizes{2, 3, 30, 2} }

// The ways that are compared, each in its own table.
const (
	pingDirect  = "ping, direct"
	pingGate    = "ping, passed on by the gate"
	callDirect  = "tools/call, direct"
	callGate    = "tools/call, decided"
	callLedger  = "tools/call, decided and recorded"
	syncedWrite = "a line to a file, and fsync"

	runBash   = "fiador run, a command"
	hookBash  = "fiador hook, Bash"
	runWrite  = "fiador run, a write"
	hookWrite = "fiador hook, Write"
)

// agented has the measurements of the gate and of the hook.
type agented struct {
	sizes  agentSizes
	load   string   // of the machine before, as Linux counts it
	server string   // version of the MCP server; empty: it is not there
	on     string   // file system of the ledger
	calls  []series // call by call
	rounds []series // the mean of the calls of each round
	looks  []look   // two of each gate
	hooks  []series
}

// look is what the process of a gate has after so many calls.
type look struct {
	what        string // what is done with the calls besides the decision
	calls       int
	resident    int64 // KiB
	program     int64 // of them, pages of the program's file
	descriptors int
}

// agentScene is a folder with a profile, a project, and a folder for the server.
type agentScene struct {
	toolScene
	book *book
	kept int64 // decisions that the ledger must have got
}

const (
	gatedServer  = "files"
	gatedProfile = `{"name":"gated","extends":"dev","allowed_tools":["mcp:` + gatedServer + `/read_text_file"]}`
)

// agents fills the report's part about agents.
func (r *report) agents(ctx context.Context, t tools, dir string, z agentSizes, log io.Writer) error {
	s := &agentScene{toolScene: toolScene{scene: scene{dir: filepath.Join(dir, "agents")}, tools: t}}
	m := &agented{sizes: z, load: loadAverage()}
	r.agented = m
	server, err := findServer()
	if err = errors.Join(err, s.put("policy/profile.json", gatedProfile), s.put("work/"+servedFile, servedText), s.put("project/a.txt", "")); err != nil {
		return err
	}
	parts := []part[*agentScene]{{"the hook", m.hooking}}
	if m.server = server.version; m.server != "" {
		parts = append(parts, part[*agentScene]{"calls through the gate", m.calling}, part[*agentScene]{"the memory of the gate", m.growing})
		m.on = fileSystem(s.dir)
		if s.book, err = newBook(ctx, filepath.Join(s.dir, "ledger"), 1000); err != nil {
			return err
		}
	}
	if err := inParts(ctx, parts, s, "agents", log); err != nil || s.book == nil {
		return err
	}
	size, err := sizeOf(s.book.dir)
	if want := s.book.size + s.kept; err == nil && size != want {
		err = fmt.Errorf("the ledger has %d entries instead of %d", size, want)
	}
	return err
}

// gated starts a session with a gate before the server. It decides: a tool that the profile
// does not list is refused.
func (s *agentScene) gated(ctx context.Context, recorded bool) (*session, error) {
	argv := []string{s.tools.fiador, "mcp", "gate", "--server", gatedServer, "--policy", "./policy"}
	if recorded {
		argv = append(argv, "--ledger", s.book.dir, "--ledger-key", s.book.key)
	}
	c, err := s.open(ctx, append(argv, "--", mcpServer, "work")...)
	if err != nil {
		return nil, err
	}
	c.recorded = recorded
	if _, err = s.call(c, "list_directory", `{"path":"`+s.dir+`/work"}`, "TOOL_NOT_ALLOWED"); err != nil {
		c.end(&err)
	}
	return c, err
}

// read calls the tool that reads the small file.
func (s *agentScene) read(c *session) (time.Duration, error) {
	return s.call(c, "read_text_file", `{"path":"`+s.dir+`/work/`+servedFile+`"}`, servedText)
}

// ping sends a message that needs no decision.
func (s *agentScene) ping(c *session) (time.Duration, error) {
	took, _, err := c.ask("ping", "{}")
	return took, err
}

// call calls a tool, whose answer must have a text.
func (s *agentScene) call(c *session, tool, arguments, want string) (time.Duration, error) {
	took, answer, err := c.ask("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
	if c.recorded {
		s.kept++
	}
	if err == nil && !bytes.Contains(answer, []byte(want)) {
		err = fmt.Errorf("tool %s answers %s", tool, answer)
	}
	return took, err
}

// calling times single messages, in sessions that are all open at once.
func (m *agented) calling(ctx context.Context, s *agentScene) (err error) {
	direct, err := s.open(ctx, mcpServer, "work")
	if err != nil {
		return err
	}
	defer direct.end(&err)
	gated, err := s.gated(ctx, false)
	if err != nil {
		return err
	}
	defer gated.end(&err)
	recorded, err := s.gated(ctx, true)
	if err != nil {
		return err
	}
	defer recorded.end(&err)
	file, err := os.Create(filepath.Join(s.dir, "lines"))
	if err != nil {
		return err
	}
	defer file.Close()
	line := append(bytes.Repeat([]byte("x"), int(s.book.entryBytes/s.book.size)), '\n')
	synced := func(*session) (time.Duration, error) {
		begin := time.Now()
		_, err := file.Write(line)
		if err == nil {
			err = file.Sync()
		}
		return time.Since(begin), err
	}
	ways := []struct {
		name string
		do   func(*session) (time.Duration, error)
		in   *session
	}{
		{pingDirect, s.ping, direct}, {pingGate, s.ping, gated},
		{callDirect, s.read, direct}, {callGate, s.read, gated}, {callLedger, s.read, recorded},
		{syncedWrite, synced, nil},
	}
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	const warmUp = 2
	all := make([][]sample, len(ways))
	m.rounds, err = backAndForth(names, warmUp, m.sizes.rounds, func(i int) (sample, error) {
		var sum time.Duration
		for range m.sizes.calls {
			took, err := ways[i].do(ways[i].in)
			if err != nil {
				return sample{}, fmt.Errorf("%s: %w", names[i], err)
			}
			sum += took
			all[i] = append(all[i], sample{Wall: took})
		}
		return sample{Wall: sum / time.Duration(m.sizes.calls)}, nil
	})
	for i, name := range names {
		m.calls = append(m.calls, series{name, all[i][min(len(all[i]), warmUp*m.sizes.calls):]})
	}
	return err
}

// growing looks at the memory of gates that decide many calls, after a tenth of them and
// after all.
func (m *agented) growing(ctx context.Context, s *agentScene) error {
	for _, what := range []string{"", ", recorded"} {
		c, err := s.gated(ctx, what != "")
		if err != nil {
			return err
		}
		for n := 1; n <= m.sizes.grown && err == nil; n++ {
			if _, err = s.read(c); n == m.sizes.grown/10 || n == m.sizes.grown {
				m.looks = append(m.looks, lookAt(c.cmd.Process.Pid, n, what))
			}
		}
		if c.end(&err); err != nil {
			return err
		}
	}
	return nil
}

func lookAt(pid, calls int, what string) look {
	l, of := look{what: what, calls: calls}, fmt.Sprintf("/proc/%d/", pid)
	l.descriptors = entriesOf(of + "fd")
	_, _ = fmt.Sscanf(field(of+"status", "VmRSS"), "%d kB", &l.resident)
	_, _ = fmt.Sscanf(field(of+"status", "RssFile"), "%d kB", &l.program)
	return l
}

// events are what Claude Code tells a hook in the project.
func (s *agentScene) events() map[string]string {
	event := func(tool, input string) string {
		return `{"session_id":"01a2149a-0000-7000-8000-000000000001","cwd":"` + s.dir + `/project","permission_mode":"default",` +
			`"hook_event_name":"PreToolUse","tool_name":"` + tool + `","tool_input":` + input + `,"tool_use_id":"toolu_01"}`
	}
	return map[string]string{
		"bash":  event("Bash", `{"command":"go test ./...","description":"Run the tests"}`),
		"write": event("Write", `{"file_path":"src/note.txt","content":"first line\nsecond line\n"}`),
		"other": event("WebFetch", `{"url":"https://example.com/"}`),
	}
}

// hooking times the line that is installed for Claude Code beside the run of the intent that
// its event becomes.
func (m *agented) hooking(ctx context.Context, s *agentScene) error {
	const name = "claude-code"
	if err := s.does(ctx, s.tools.fiador, "hook", "install", name, "--scope", "project", "--tree", "project", "--policy", "./policy"); err != nil {
		return err
	}
	src, err := os.ReadFile(filepath.Join(s.dir, "project", ".claude", "settings.json"))
	if err != nil {
		return err
	}
	doc, err := canon.Parse(src, hook.MaxEventBytes)
	if err != nil {
		return err
	}
	client, _ := hook.Find(name)
	line := client.Installed(doc.Value())
	if line == "" {
		return errors.New("the hook is not installed")
	}
	for event, text := range s.events() {
		call, err := client.Read([]byte(text), hook.Options{Tree: filepath.Join(s.dir, "project"), Env: os.Getenv})
		if err != nil {
			return err
		}
		req, err := call.Question.Request()
		if err != nil {
			return err
		}
		if err := errors.Join(s.put(event+".event", text), s.put(event+".json", string(req.Source))); err != nil {
			return err
		}
	}
	hooked := func(name, event string, exit int) command {
		return command{name, []string{"sh", "-c", "{ " + line + "; } <" + event + ".event"}, exit}
	}
	run := func(name, event string) command {
		return command{name, []string{"sh", "-c", "'" + s.tools.fiador + "' run " + event + ".json --policy ./policy --tree project"}, 0}
	}
	if _, err := s.once(ctx, s.tools, hooked("a tool that the profile does not list", "other", 2)); err != nil {
		return err
	}
	m.hooks, err = s.timed(ctx, []command{
		run(runBash, "bash"), hooked(hookBash, "bash", 0), run(runWrite, "write"), hooked(hookWrite, "write", 0),
	}, 3, m.sizes.processes)
	return err
}
