package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/agent"
	"github.com/fiador/fiador/harness/calltrace"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/gate"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/settings"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// MCP returns the commands for the Model Context Protocol. execute executes an intent in the
// sandbox.
func MCP(a *cli.App, execute Execute) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "mcp",
		Short: "decide the calls of MCP clients, or answer them",
		Long: `MCP stands between clients of the Model Context Protocol and their servers, or is a
server itself.

Exit codes:
  0  the session has ended, or the file is changed
  1  the server has ended first
  2  no session, or the file is not changed`,
		Example: `  fiador mcp gate --server files --policy ./profile -- mcp-server-filesystem .
  fiador mcp wrap .mcp.json --policy ~/agent-profile
  fiador mcp serve --policy ./profile`,
	}, Gate(a), Wrap(a), Unwrap(a), Serve(a, execute))
}

// maxCalls is the greatest limit of calls: as many lines as the trace of a work item may have.
const maxCalls = 100_000

// gateFlags select the policy, the ledger, the server behind the gate, and the trace of calls.
type gateFlags struct {
	policies.GateFlags
	ledgers.RecordFlags
	server, pin, listen, url string
	relay                    bool
	trace                    string
	calls                    int
}

// register adds the flags that mcp wrap writes too.
func (f *gateFlags) register(cmd *cobra.Command) {
	f.GateFlags.Register(cmd)
	f.RecordFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.pin, "pin", "", "document of the server (servers/NAME.yaml) with the digests of its tools: new and changed tools are neither shown nor called")
	flags.BoolVar(&f.relay, "relay-requests", false, "pass on what the server asks the client for: sampling and elicitation")
}

// Gate returns the command that stands between an MCP client and a server.
func Gate(a *cli.App) *cobra.Command {
	var f gateFlags
	cmd := &cobra.Command{
		Use:   "gate [flags] -- COMMAND [ARGUMENT...]",
		Short: "stand between an MCP client and a server",
		Long: `Gate starts an MCP server and relays the messages between it and the client on standard
input and output. With --listen and --url the server is one of streamable HTTP, and
every process of this machine can reach the gate.

A call is decided before the server sees it, as a call of mcp:SERVER/TOOL; other
methods that read or change something, as mcp:SERVER#METHOD. allowed_tools of the
profile lists them. The server gets exactly what was decided. A refused call is
answered with the reason, and with --ledger nothing is passed on before its record is
durable. A tool that changes while the session lasts is not called any more.

With --trace every tools/call, a refused one too, has a line in FILE before the client
sees the answer. The line is canonical JSON of tool, ok (a result without isError),
args_sha256 (of the canonical arguments) and source "gate". If a line cannot be written,
the answer is not passed on, and later calls are refused. With --max-calls further calls
are refused and have their lines. All sessions of one gate have one trace and one number
of calls.

Exit codes:
  0  the client has ended the session
  1  the server has ended first
  2  no session, or the trace could not be written`,
		Example: `  fiador mcp gate --server files --policy ./profile -- mcp-server-filesystem .
  fiador mcp gate --server notes --policy ./profile --listen 127.0.0.1:8808 --url https://notes.example/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("max-calls") {
				f.calls = calltrace.Unlimited
			} else if f.calls < 0 || f.calls > maxCalls {
				return cli.Usage("a number from 0 to 100000", "--max-calls %d is out of range", f.calls)
			}
			return runGate(a, cmd.Context(), f, args)
		},
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.server, "server", "", "name of the server in the policy (default: the name of its command)")
	flags.StringVar(&f.listen, "listen", "", "address of the loopback interface to listen at, as 127.0.0.1:8808")
	flags.StringVar(&f.url, "url", "", "URL of the server, with --listen")
	flags.StringVar(&f.trace, "trace", "", "`FILE` to which a line is appended for every tools/call")
	flags.IntVar(&f.calls, "max-calls", 0, "pass on only the first `N` tools/call, 0 to 100000 (default: no limit)")
	return cmd
}

// check refuses contradictory flags, and names a server that has no name.
func (f *gateFlags) check(args []string) error {
	switch {
	case (f.listen == "") != (f.url == ""):
		return cli.Unfit("give both or none", "--listen and --url belong together")
	case f.url != "" && len(args) > 0:
		return cli.Unfit("the server is at --url", "unexpected argument %q", args[0])
	case f.url == "" && len(args) == 0:
		return cli.Usage("put the server's command after --, as in: fiador mcp gate -- mcp-server-filesystem .", "COMMAND is missing")
	case f.url != "" && f.server == "":
		return cli.Usage("name it with --server", "the server has no name")
	case f.server == "":
		f.server = filepath.Base(args[0])
	}
	if !isServer(f.server) {
		return cli.Usage("use letters, digits, dots, underscores and hyphens", "--server %q is no name of a server", f.server)
	}
	return nil
}

// isServer says whether a policy can name a server so.
func isServer(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// runGate opens the policy, the ledger and the trace, and relays one session, or many.
func runGate(a *cli.App, ctx context.Context, f gateFlags, args []string) (err error) {
	if err := f.check(args); err != nil {
		return err
	}
	o := gate.Options{Server: f.server, RelayRequests: f.relay, Log: a.Stderr}
	if f.pin != "" {
		dir, name := filepath.Split(filepath.Clean(f.pin))
		if filepath.Base(dir) != "servers" {
			return cli.Usage("name servers/NAME.yaml of a folder of tools", "--pin %q is not in a folder servers", screen.Path(f.pin))
		}
		pinned, err := dispatch.ReadServer(a.Specs, filepath.Dir(filepath.Clean(dir)), strings.TrimSuffix(name, filepath.Ext(name)))
		if err != nil {
			return err
		}
		if o.Pins = pinned.Server.Tools; o.Pins == nil {
			return cli.Unfit("fiador tool pin writes them", "--pin %q has no digests of tools", screen.Path(f.pin))
		}
	}
	d, err := openDecider(a, ctx, f.GateFlags, f.RecordFlags)
	if err != nil {
		return err
	}
	defer d.close()
	o.Decide = func(ctx context.Context, c gate.Call) gate.Answer {
		name := kernel.ToolOfServer + c.Server + "/" + c.Tool
		if c.Tool == "" {
			name = kernel.ToolOfServer + c.Server + "#" + c.Method
		}
		allowed, words := agent.Ask(ctx, d.deps, d.gate, agent.Question{
			Asker: c.Server, Actions: []agent.Action{agent.Call(name, c.Params, c.SHA256)}, Context: agent.Context{Server: c.Server},
		})
		return gate.Answer{Allowed: allowed, Text: words}
	}
	if o.Trace, err = calltrace.Open(f.trace, f.calls); err != nil {
		return traceFailure(f.trace, err)
	}
	defer func() {
		if failed := o.Trace.Close(); failed != nil && err == nil {
			err = traceFailure(f.trace, failed)
		}
	}()
	if f.url != "" {
		l, err := net.Listen("tcp", f.listen)
		if err == nil {
			err = gate.HTTP(ctx, o, l, f.url, func() { a.Term.Message("the gate listens at http://" + l.Addr().String()) })
		}
		if err != nil && ctx.Err() == nil {
			return runerr.New(result.CodeUnreadable, "the gate cannot serve: "+runerr.Reason(err), "listen at a free port of 127.0.0.1, and name a URL of https")
		}
		return nil
	}
	exit, err := gate.Stdio(ctx, o, a.Stdin, a.Stdout, args)
	if err != nil {
		why := runerr.Reason(err)
		if errors.Is(err, exec.ErrNotFound) {
			why = "no program of this name is in PATH"
		}
		return runerr.New(result.CodeUnreadable, "the server "+canon.Quote(args[0])+" cannot be started: "+why, "name a command that is there")
	}
	a.Status = exit
	return nil
}

// traceFailure is the error of a trace that cannot be opened, or in which a line is missing.
func traceFailure(name string, err error) error {
	return runerr.New(result.CodeUnreadable, "the trace "+strconv.Quote(screen.Path(name))+" cannot be written: "+runerr.Reason(err), "name a regular file in a folder that you can write, on a disk with room")
}

// decider is an open policy and the ledger that records its decisions.
type decider struct {
	gate  *harness.Gate
	deps  harness.Deps
	close func()
}

func openDecider(a *cli.App, ctx context.Context, f policies.GateFlags, rec ledgers.RecordFlags) (d decider, err error) {
	d.close = func() {}
	log, err := ledgers.OpenLog(ctx, a, rec)
	if err != nil {
		return d, err
	}
	if log != nil {
		d.close = func() { log.Close() }
	}
	d.deps = harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Recorder: ledgers.Recorder(a, log)}
	if d.gate, err = policies.OpenGate(ctx, a, f); err != nil {
		d.close()
	}
	return d, err
}

// Execute opens what the execution of intents needs, and returns a function that decides one,
// executes it if it is allowed, and returns its end. Nothing is promoted.
type Execute func(ctx context.Context, tree string) (func(context.Context, harness.Deps, *harness.Gate, harness.Request) harness.End, error)

// Serve returns the command that is an MCP server.
func Serve(a *cli.App, execute Execute) *cobra.Command {
	var f policies.GateFlags
	var rec ledgers.RecordFlags
	var run bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "be an MCP server that decides and explains intents",
		Long: `Serve answers an MCP client on standard input and output. Its tools are fiador_decide and
fiador_explain, and with --allow-run fiador_run, which executes an allowed intent in the
sandbox and changes nothing outside it. A tool takes an intent; nothing else can be
chosen by the client. The resources fiador://policy and fiador://rules have the profile
and the rules.

A refusal is an answer; without a decision the answer is an error of the tool.

Exit codes:
  0  the client has ended the session
  2  no session`,
		Example: "  fiador mcp serve --policy ./profile --ledger ./ledger",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := openDecider(a, cmd.Context(), f, rec)
			if err != nil {
				return err
			}
			defer d.close()
			tools := []gate.ServedTool{
				d.tool("fiador_decide", "Decides an intent under the policy, and executes nothing. Returns the RunResult.", d.decide),
				d.tool("fiador_explain", "Says which rule decided an intent, where the rule stands, and what would be accepted.", d.explain),
			}
			if run {
				once, err := execute(cmd.Context(), f.Tree)
				if err != nil {
					return err
				}
				tools = append(tools, d.tool("fiador_run", "Executes an intent in the sandbox if the policy allows it. Nothing outside the sandbox changes. Returns the RunResult.",
					func(ctx context.Context, req harness.Request) ([]byte, harness.End) {
						req.Mode = harness.ModeExecuteSandbox
						end := once(ctx, d.deps, d.gate, req)
						return end.Bytes, end
					}))
			}
			version := kernel.Version
			return gate.Serve(cmd.Context(), gate.Service{Name: "fiador", Version: version, Tools: tools, Resources: d.resources(a, f)}, a.Stdin, a.Stdout)
		},
	}
	f.Register(cmd)
	rec.Register(cmd)
	cmd.Flags().BoolVar(&run, "allow-run", false, "offer fiador_run, which executes in the sandbox")
	return cmd
}

// tool returns a tool whose structured answer is a canonical document.
func (d decider) tool(name, description string, answer func(context.Context, harness.Request) ([]byte, harness.End)) gate.ServedTool {
	return gate.ServedTool{Name: name, Description: description, Call: func(ctx context.Context, intent map[string]any) (map[string]any, string, bool) {
		src, _, err := canon.Artifact(intent)
		req := harness.Request{Source: src, Path: "intent", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
		end, text := harness.End{Request: req, Err: err}, []byte(nil)
		if err == nil {
			text, end = answer(ctx, req)
		}
		if end.Err != nil {
			text = runerr.Of(end.Err).Line()
		}
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, "the answer is no object", true
		}
		return doc, string(text), end.Err != nil
	}}
}

func (d decider) decide(ctx context.Context, req harness.Request) ([]byte, harness.End) {
	end := harness.End{Request: req}
	end.Report, end.Err = harness.Run(ctx, d.deps, d.gate, req)
	return end.Bytes, end
}

// explanation is what fiador_explain answers.
type explanation struct {
	Outcome kernel.Outcome `json:"outcome"`
	Reasons []reason       `json:"reasons"`
}

type reason struct {
	ID      string `json:"id"`
	Pointer string `json:"pointer"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"`
	Decides bool   `json:"decides"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
}

func (d decider) explain(ctx context.Context, req harness.Request) ([]byte, harness.End) {
	end := harness.End{Request: req}
	x, err := harness.Explain(ctx, d.deps, d.gate, req)
	if end.Err = err; err != nil {
		return nil, end
	}
	e := explanation{Outcome: x.Decision.Outcome, Reasons: []reason{}}
	for _, r := range x.Reasons {
		e.Reasons = append(e.Reasons, reason{r.ID, r.Path, r.Text, r.Fix, r.Decides, r.Place.File, r.Place.Line})
	}
	text, _, err := canon.Artifact(e)
	end.Err = err
	return text, end
}

// resources returns the profile and the rules of the policy.
func (d decider) resources(a *cli.App, f policies.GateFlags) []gate.Resource {
	document := func(v any) (string, error) {
		text, _, err := canon.Artifact(v)
		return string(text), err
	}
	return []gate.Resource{
		{URI: "fiador://policy", Name: "policy", Description: "The resolved profile.", MIME: "application/json", Read: func(context.Context) (string, error) {
			return document(d.gate.Profile)
		}},
		{URI: "fiador://rules", Name: "rules", Description: "Every rule of the policy: id, title, description and fix.", MIME: "text/plain", Read: func(ctx context.Context) (string, error) {
			s, err := policies.Sources(f)
			if err != nil {
				return "", err
			}
			rules, err := harness.Rules(ctx, s, a.Specs, policy.DefaultLimits())
			var b strings.Builder
			for _, r := range rules {
				b.WriteString(r.ID + "  " + r.Title + ". " + r.Description + "\n")
			}
			return b.String(), err
		}},
	}
}

// Wrap returns the command that puts the gate before the servers of a client.
func Wrap(a *cli.App) *cobra.Command {
	var f gateFlags
	var only []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "wrap FILE",
		Short: "put the gate before the servers in a client's file",
		Long: `Wrap changes the servers of a client's file (the member mcpServers or servers), so that
the client starts the gate, and the gate the server. Every other byte stays, and unwrap
gives the old bytes back. Servers at a URL are left as they are, with a warning.

Exit codes:
  0  wrapped, or wrapped before
  2  the file is not changed`,
		Example: "  fiador mcp wrap .mcp.json --policy ~/agent-profile",
		Args:    cli.ExactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("policy") {
				return cli.Usage("name it with --policy", "the servers need a policy")
			}
			flags := hookFlags{GateFlags: f.GateFlags, RecordFlags: f.RecordFlags}
			if cmd.Flags().Changed("tree") {
				flags.tree = f.Tree
			}
			words, err := flags.words(true)
			if err == nil && f.pin != "" {
				f.pin, err = filepath.Abs(f.pin)
				words = append(words, "--pin", f.pin)
			}
			if err != nil {
				return err
			}
			if f.relay {
				words = append(words, "--relay-requests")
			}
			// Under a policy that does not compile, no server would start any more.
			if _, err := policies.OpenGate(cmd.Context(), a, f.GateFlags); err != nil {
				return err
			}
			return wrap(a, cmd.Context(), args[0], only, words, dry, false)
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&only, "server", nil, "a server of the file; may be repeated (default: all)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the file as it would be, and write nothing")
	return cmd
}

// Unwrap returns the command that takes the gate away again.
func Unwrap(a *cli.App) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:     "unwrap FILE",
		Short:   "take the gate away from the servers in a client's file",
		Long:    "Unwrap undoes what wrap did.\n\nExit codes:\n  0  not wrapped any more\n  2  the file is not changed",
		Example: "  fiador mcp unwrap .mcp.json",
		Args:    cli.ExactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return wrap(a, cmd.Context(), args[0], only, nil, false, true)
		},
	}
	cmd.Flags().StringArrayVar(&only, "server", nil, "a server of the file; may be repeated (default: all)")
	return cmd
}

// ours returns how many of the arguments of a server are the gate's, or -1.
func ours(_ string, args []string) int {
	if len(args) < 2 || args[0] != "mcp" || args[1] != "gate" {
		return -1
	}
	if i := slices.Index(args, "--"); i >= 0 {
		return i + 1
	}
	return -1
}

// wrap wraps or unwraps servers of a file.
func wrap(a *cli.App, ctx context.Context, file string, only, words []string, dry, undo bool) error {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return fileFault(file, err)
	}
	defer root.Close()
	f := settings.File{Root: root, Name: filepath.Base(file), DryRun: dry}
	value, err := f.Value()
	if err != nil {
		return fileFault(file, err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var edits []settings.Edit
	missing := slices.Clone(only)
	doc, _ := value.(map[string]any)
	for _, member := range []string{"mcpServers", "servers"} {
		servers, _ := doc[member].(map[string]any)
		for _, name := range canon.Names(servers) {
			if len(only) > 0 && !slices.Contains(only, name) {
				continue
			}
			missing = slices.DeleteFunc(missing, func(wanted string) bool { return wanted == name })
			entry, _ := servers[name].(map[string]any)
			_, runs := entry["command"].(string)
			switch {
			case !runs && !undo:
				a.Term.Warning("server " + canon.Quote(name) + " is not started by a command: fiador mcp gate --listen stands before a server at a URL")
			case runs && !undo && !isServer(name):
				return cli.Unfit("rename it to letters, digits, dots, underscores and hyphens, or name the others with --server", "no policy can name the server %q", name)
			case runs:
				args := slices.Concat([]string{"mcp", "gate", "--server", name}, words, []string{"--"})
				edits = append(edits, settings.Wrap{Path: []string{member, name}, Command: program, Args: args, Ours: ours})
			}
		}
	}
	if len(missing) > 0 {
		return cli.Unfit("name a server of the file", "%q has no server %q", screen.Path(file), missing[0])
	}
	if _, err := root.Stat(f.Name); len(edits) == 0 && err != nil {
		return fileFault(file, err)
	}
	if len(edits) == 0 {
		return cli.Usage("name a file with mcpServers or servers, and servers with a command in it", "%q has no such server", screen.Path(file))
	}
	change, err := settings.Change{}, error(nil)
	if undo {
		change, err = f.Remove(ctx, edits...)
	} else {
		change, err = f.Apply(ctx, edits...)
	}
	if err != nil {
		return fileFault(file, err)
	}
	if dry {
		return a.Print(change.After)
	}
	what := map[bool]string{false: "the gate stands before the servers", true: "the gate is away from the servers"}[undo]
	a.Term.Message(what + " in " + screen.Path(file))
	return nil
}

// fileFault is the error about a file that is not changed.
func fileFault(file string, err error) error {
	if e := new(settings.Refused); errors.As(err, &e) {
		return runerr.New(result.CodeUnreadable, e.Error(), "mend the file at the place that the message gives", runerr.File(screen.Path(file)))
	}
	return runerr.Unreadable(screen.Path(file), runerr.Reason(err), "name a file that can be written")
}
