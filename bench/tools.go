package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/fiador/fiador/profiles"
)

// toolSizes are the sizes at which tools are timed.
type toolSizes struct {
	rounds   int // of whole processes
	servers  int // of whole processes with an MCP server
	tools    int // of the large folder
	connects int // rounds of a connection through the proxy
	bytes    int // that come through it
	copies   int // rounds of these
}

func fullTools(rounds int) toolSizes {
	return toolSizes{5 * rounds, rounds, 1000, 1001, 1_000_000_000, (rounds + 3) / 4}
}

func quickTools() toolSizes { return toolSizes{3, 1, 20, 5, 10_000_000, 2} }

// The commands that are compared.
const (
	actionWay     = "a run action"
	withToolsWay  = "a run action, with --tools"
	callWay       = "a call of type cli"
	manyWay       = "a call, with the large folder"
	manyActionWay = "a run action, with the large folder"
	serverWay     = "a call of type mcp"
	sdkWay        = "the server alone, a call of the Go SDK"
	allCoresWay   = "the same call of type mcp, with all cores"
	directConn    = "direct"
	proxyConn     = "through the proxy"
)

// called has the measurements of calls of tools.
type called struct {
	sizes    toolSizes
	load     string // of the machine before, as Linux counts it
	indexed  int64  // bytes of the large folder's index
	server   string // version of the MCP server; empty: it is not there
	executed []series
	planned  []series
	servers  []series
	connects []series
	copies   []series
}

// toolScene is a folder with intents, folders of tools, and a gated folder that is empty.
type toolScene struct {
	scene
	tools  tools
	client string
}

// calls fills the report's part about tools.
func (r *report) calls(ctx context.Context, root string, t tools, dir string, z toolSizes, log io.Writer) error {
	dir = filepath.Join(dir, "tools")
	s := &toolScene{scene{dir: dir}, t, filepath.Join(dir, "client")}
	m := &called{sizes: z, load: loadAverage()}
	r.called = m
	if err := s.prepare(ctx, z.tools); err != nil {
		return err
	}
	if err := goTool(ctx, filepath.Join(root, "bench", "mcp"), "", "build", "-trimpath", "-o", s.client, "./client"); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(dir, "many", "tools.json"))
	if err != nil {
		return err
	}
	m.indexed = info.Size()
	return inParts(ctx, []part[*toolScene]{
		{"commands", m.executing}, {"a large folder", m.planning}, {"an MCP server", m.serving}, {"the proxy", m.proxying},
	}, s, "tools", log)
}

// part is one part of what is measured in a scene.
type part[S any] struct {
	what string
	do   func(context.Context, S) error
}

// inParts measures the parts of a section.
func inParts[S any](ctx context.Context, parts []part[S], s S, section string, log io.Writer) error {
	for _, p := range parts {
		fmt.Fprintf(log, "timing %s: %s\n", section, p.what)
		if err := p.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	return nil
}

// loadAverage is the load of the machine in the last minute, or empty.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(b), " ")
	return load
}

// put writes a file of the scene, and the folders on the way to it.
func (s *toolScene) put(name, text string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, filepath.Dir(name)), 0o755); err != nil {
		return err
	}
	return s.write(name, []byte(text))
}

// addTool writes a tool and its adapter, whose members type and interface are given.
func (s *toolScene) addTool(folder, id, kind string) error {
	if err := s.put(folder+"/"+id+"/tool.json", fmt.Sprintf(`{"tool_id":%q,"name":"tool %s","version":"1.0.0","status":"active",`+
		`"params":{"type":"object","properties":{"text":{"type":"string"}}},"adapters":["A"]}`, id, id)); err != nil {
		return err
	}
	return s.put(folder+"/"+id+"/A.json", fmt.Sprintf(`{"adapter_id":"A","name":"of %s","version":"1.0.0","tool_id":%q,%s}`, id, id, kind))
}

func toolName(n int) string { return fmt.Sprintf("TL-%04d", n) }

// prepare writes the folders of tools and the intents. The tool that is called is in the
// middle of the large folder, and alone in the other one.
func (s *toolScene) prepare(ctx context.Context, count int) error {
	const kind = `"type":"cli","interface":{"cli":{"executable":"true","arg_mapping":{"text":"{value}"}}}`
	for n := range count {
		if err := s.addTool("many", toolName(n), kind); err != nil {
			return err
		}
	}
	name := toolName(count / 2)
	if err := s.addTool("one", name, kind); err != nil {
		return err
	}
	for file, action := range map[string]string{
		"run.json": `{"kind":"run","argv":["true","x"]}`, "call.json": `{"kind":"call","tool_id":"` + name + `","params":{"text":"x"}}`,
		"server.json": `{"kind":"call","tool_id":"T","params":{"path":"` + servedFile + `"}}`,
	} {
		if err := s.put(file, `{"goal":"Do it","constraints":["quickly"],"actions":[`+action+`]}`); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "tree"), 0o755); err != nil {
		return err
	}
	for _, folder := range []string{"one", "many"} {
		if err := s.does(ctx, s.tools.fiador, "tool", "index", folder); err != nil {
			return err
		}
	}
	return nil
}

// does runs a command that must succeed.
func (s *toolScene) does(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w: %s", argv, err, out)
	}
	return nil
}

// intent is a run of Fiador.
func (s *toolScene) intent(name, file string, flags ...string) command {
	return command{name, append([]string{s.tools.fiador, "run", file + ".json", "--policy", execProfile, "--tree", "tree"}, flags...), 0}
}

func (s *toolScene) timed(ctx context.Context, list []command, warmUp, rounds int) ([]series, error) {
	var names []string
	for _, c := range list {
		names = append(names, c.name)
	}
	return backAndForth(names, warmUp, rounds, func(i int) (sample, error) { return s.once(ctx, s.tools, list[i]) })
}

// workWay is a command with what is done before and after it, outside of the measured time.
type workWay struct {
	command
	before, after func() error
}

// turns times ways in turn.
func (s *toolScene) turns(ctx context.Context, ways []workWay, warmUp, rounds int) ([]series, error) {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return backAndForth(names, warmUp, rounds, func(i int) (x sample, err error) {
		w := ways[i]
		if w.before != nil {
			err = w.before()
		}
		if err == nil {
			x, err = s.once(ctx, s.tools, w.command)
		}
		if err == nil && w.after != nil {
			err = w.after()
		}
		return x, err
	})
}

func (m *called) executing(ctx context.Context, s *toolScene) (err error) {
	const flag, mode = "--mode", "execute-sandbox"
	m.executed, err = s.timed(ctx, []command{
		s.intent(actionWay, "run", flag, mode), s.intent(callWay, "call", flag, mode, "--tools", "one"), s.intent(withToolsWay, "run", flag, mode, "--tools", "one"),
	}, 3, m.sizes.rounds)
	return err
}

func (m *called) planning(ctx context.Context, s *toolScene) (err error) {
	m.planned, err = s.timed(ctx, []command{
		s.intent(actionWay, "run"), s.intent(manyWay, "call", "--tools", "many"), s.intent(callWay, "call", "--tools", "one"), s.intent(manyActionWay, "run", "--tools", "many"),
	}, 3, m.sizes.rounds)
	return err
}

// The MCP server, and the file that it is asked for.
const (
	mcpServer  = "mcp-server-filesystem"
	mcpPackage = "@modelcontextprotocol/server-filesystem"
	servedFile = "a.txt"
	servedText = "what the file says"
)

// npmFolder has the packages of npm.
const npmFolder = "node_modules"

// served is where the MCP server lies: its script beneath npmFolder, and that in above.
type served struct{ above, script, version string }

// findServer returns the MCP server in PATH. Without one, it has no version.
func findServer() (s served, err error) {
	path, err := exec.LookPath(mcpServer)
	if err != nil {
		return s, nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return s, err
	}
	ok := false
	if s.above, s.script, ok = strings.Cut(path, "/"+npmFolder+"/"); !ok {
		return s, fmt.Errorf("%s leads to %s, which no package of npm has", mcpServer, path)
	}
	var made struct{ Version string }
	about, err := os.ReadFile(filepath.Join(s.above, npmFolder, mcpPackage, "package.json"))
	if err == nil {
		err = json.Unmarshal(about, &made)
	}
	s.version = made.Version
	return s, err
}

// serving times calls of the MCP server, in whose work folder its package is. Without it, nothing is
// measured.
func (m *called) serving(ctx context.Context, s *toolScene) error {
	server, err := findServer()
	if err != nil || server.version == "" {
		return err
	}
	if err := s.put("work/"+servedFile, servedText); err != nil {
		return err
	}
	work := filepath.Join(s.dir, "work")
	if err := os.CopyFS(filepath.Join(work, npmFolder), os.DirFS(filepath.Join(server.above, npmFolder))); err != nil {
		return err
	}
	m.server = server.version
	argv := []string{"node", npmFolder + "/" + server.script, "."}
	if err := s.pinned(ctx, argv); err != nil {
		return err
	}
	alone := append([]string{s.client, "read_text_file", `{"path":"` + servedFile + `"}`}, argv...)
	seen := exec.CommandContext(ctx, alone[0], alone[1:]...)
	seen.Dir, seen.Env = work, s.environment()
	if out, err := seen.Output(); err != nil || string(out) != servedText+"\n" {
		return fmt.Errorf("the server says %q (%v)", out, err)
	}
	if err := s.addProfile("cores"); err != nil {
		return err
	}
	flags := []string{"--mode", "execute-sandbox", "--tools", "server", "--work", "work"}
	list := []command{
		s.intent(serverWay, "server", flags...),
		{sdkWay, alone, 0},
		{allCoresWay, append([]string{s.tools.fiador, "run", "server.json", "--policy", "./cores", "--tree", "tree"}, flags...), 0},
	}
	m.servers, err = backAndForth([]string{serverWay, sdkWay, allCoresWay}, 1, m.sizes.servers, func(i int) (sample, error) {
		at := s.scene
		if list[i].name == sdkWay {
			at.dir = work
		}
		return at.once(ctx, s.tools, list[i])
	})
	return err
}

// addProfile writes the profile of all commands once more, with all cores of the machine.
func (s *toolScene) addProfile(folder string) error {
	src, err := fs.ReadFile(profiles.FS(), execProfile+"/profile.json")
	if err != nil {
		return err
	}
	var p map[string]any
	if err := json.Unmarshal(src, &p); err != nil {
		return err
	}
	p["name"], p["cpu_cores"] = folder, runtime.NumCPU()
	if src, err = json.Marshal(p); err != nil {
		return err
	}
	return s.put(folder+"/profile.json", string(src))
}

// pinned writes the folder of tools with the server, pinned to what it says.
func (s *toolScene) pinned(ctx context.Context, argv []string) error {
	command, err := json.Marshal(argv)
	if err != nil {
		return err
	}
	if err := s.put("server/servers/fs.json", `{"command":`+string(command)+`,"tools":{}}`); err != nil {
		return err
	}
	if err := s.put("server/T/tool.json", `{"tool_id":"T","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`); err != nil {
		return err
	}
	if err := s.put("server/T/A.json", `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"mcp",`+
		`"interface":{"mcp":{"server":"fs","transport":"stdio","tool_mapping":{"read":"read_text_file"}}}}`); err != nil {
		return err
	}
	if err := s.does(ctx, s.tools.fiador, "tool", "pin", "fs", "--tools", "server", "--policy", execProfile, "--tree", "tree", "--work", "work"); err != nil {
		return err
	}
	return s.does(ctx, s.tools.fiador, "tool", "index", "server")
}

// proxying times connections inside this process.
func (m *called) proxying(context.Context, *toolScene) error {
	far, err := newFarSide()
	if err != nil {
		return err
	}
	defer far.Close()
	ways := []func(n int) (connected, copied time.Duration, err error){far.direct, far.proxied}
	timed := func(warmUp, rounds, bytes int, of func(connected, copied time.Duration) time.Duration) ([]series, error) {
		return backAndForth([]string{directConn, proxyConn}, warmUp, rounds, func(i int) (sample, error) {
			connected, copied, err := ways[i](bytes)
			return sample{Wall: of(connected, copied)}, err
		})
	}
	if m.connects, err = timed(20, m.sizes.connects, 0, func(c, _ time.Duration) time.Duration { return c }); err != nil {
		return err
	}
	m.copies, err = timed(1, m.sizes.copies, m.sizes.bytes, func(_, c time.Duration) time.Duration { return c })
	return err
}
