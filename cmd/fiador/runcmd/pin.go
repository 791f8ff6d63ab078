package runcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/ask"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/rpc"
)

// pinFlags are the flags of tool pin.
type pinFlags struct {
	policies.GateFlags
	executingFlags
	tools string
	check bool
}

// ToolPin returns the command that pins the tools of an MCP server.
func ToolPin(a *cli.App) *cobra.Command {
	var f pinFlags
	cmd := &cobra.Command{
		Use:   "pin SERVER",
		Short: "write what an MCP server says about its tools into its document, as digests",
		Long: `Pin asks the server of the document servers/SERVER.yaml for its tools, and writes the
digest of each into the document. It starts the command of the server in a sandbox, or
reaches its url, whose host the profile lists. It prints each change: "+" a new tool,
"-" one that is gone, "~" one of which the server says something else than before. Look
at each change before you trust it: a call is made only while the server says what is
pinned. fiador tool index follows.

The policy decides about the command of the server as about any command.

Exit codes:
  0  the document has the digests of all tools
  1  with --check: the document differs; or the policy refuses the command
  2  the server could not be asked, or the document could not be written`,
		Example: `  fiador tool pin filesystem --tools tools --policy ./profile
  fiador tool pin filesystem --tools tools --policy ./profile --check`,
		Args: cli.ExactArgs("SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error { return pin(a, cmd, args[0], f) },
	}
	cli.RefuseEmpty(cmd, "tools", "work")
	f.GateFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.tools, "tools", "", "folder with the tools")
	flags.StringVar(&f.work, "work", "", "folder that the server sees, which stays unchanged (default: an empty one)")
	flags.StringArrayVar(&f.read, "read", nil, "file or folder that the server may read; may be repeated")
	flags.BoolVar(&f.check, "check", false, "write nothing, and fail if the document differs")
	return cmd
}

func pin(a *cli.App, cmd *cobra.Command, name string, f pinFlags) error {
	if f.tools == "" {
		return cli.Usage("name the folder of the tools", "--tools is missing")
	}
	var p cli.Places
	p.Add(cli.Registry|cli.Needed, "--tools", "tools", f.tools)
	p.Add(cli.Guarded, "--tree", "tree", f.Tree)
	p.Add(cli.Exposed|cli.Worked, "--work", "work", f.work)
	p.Add(cli.Exposed|cli.Worked, "--read", "read", f.read...)
	if err := a.CheckPlaces(p); err != nil {
		return err
	}
	doc, err := dispatch.ReadServer(a.Specs, f.tools, name)
	if err != nil {
		return err
	}
	shown, err := f.ask(cmd.Context(), a, doc)
	if err != nil || a.Status != 0 {
		return err
	}
	pins := map[string]canon.ContentHash{}
	for _, t := range shown {
		pins[t.Name] = t.SHA256
	}
	src, err := doc.With(pins)
	if err != nil {
		return err
	}
	changes := pinChanges(doc.Server.Tools, pins)
	if a.RejectIf(f.check && len(changes) > 0); !f.check && len(changes) > 0 {
		dir, err := filepath.EvalSymlinks(f.tools)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		file := filepath.Join(f.tools, doc.File)
		if err = cmp.Or(err, cli.WriteFile(file, src, []string{dir})); err != nil {
			return err
		}
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, line := range changes {
			t.Line(line)
		}
	})
}

// pinChanges returns what differs between two lists of pins, by the names of the tools.
func pinChanges(old, now map[string]canon.ContentHash) []string {
	var lines []string
	names := append(canon.Names(old), canon.Names(now)...)
	slices.SortFunc(names, canon.Compare)
	for _, name := range slices.Compact(names) {
		sign := "~ "
		switch {
		case old[name] == now[name]:
			continue
		case old[name] == "":
			sign = "+ "
		case now[name] == "":
			sign = "- "
		}
		lines = append(lines, sign+screen.Plain(name))
	}
	return lines
}

// ask asks a server for its tools. If the policy refuses the command, ask prints why and sets
// the status.
func (f pinFlags) ask(ctx context.Context, a *cli.App, doc *dispatch.Pinned) ([]rpc.Tool, error) {
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return nil, err
	}
	gate, err := policies.OpenGateAhead(ctx, a, sources)()
	if err != nil {
		return nil, err
	}
	if doc.Server.URL != "" {
		hosts, _, _ := contract.ParseHosts(gate.Profile.Hosts().Names)
		asking, done := context.WithTimeout(ctx, time.Duration(gate.Profile.TimeoutMS)*time.Millisecond)
		defer done()
		shown, err := ask.New(secret.New(a.Env)).Pins(asking, doc.Server, contract.Hosts{Allow: hosts})
		return shown, pinFault(doc, err, "the host of its url has to be in network_hosts of the profile")
	}
	return f.start(ctx, a, gate, doc)
}

// start starts a server and asks it for its tools, as ask does.
func (f pinFlags) start(ctx context.Context, a *cli.App, gate *harness.Gate, doc *dispatch.Pinned) ([]rpc.Tool, error) {
	e := execution(a)
	defer e.close(ctx, a)
	dirs, err := prepareExecution(ctx, a, f.executingFlags, f.Tree, e)
	if err != nil {
		return nil, err
	}
	x := harness.Exec{Argv: doc.Server.Command, Env: doc.Server.Env, Work: dirs.Work, Write: sandbox.Staged, Read: dirs.Read}
	req := harness.Request{Path: "pin", Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, Folders: dirs, Exec: &x}
	if req.Source, err = x.Intent(); err != nil {
		return nil, err
	}
	serverIn, toServer := io.Pipe()
	fromServer, serverOut := io.Pipe()
	x.Streams = harness.Streams{Stdin: serverIn, Stdout: serverOut}
	run, stop := context.WithCancel(ctx)
	defer stop()
	var shown []rpc.Tool
	var failed error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		shown, failed = mcp.Pins(run, mcp.Pipes(fromServer, toServer))
		_ = toServer.Close()
		go func() { _, _ = io.Copy(io.Discard, fromServer) }()
		time.AfterFunc(pinEnding, stop) // of a server that does not end by itself
	}()
	rep, err := harness.Run(run, harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Runner: e.host}, gate, req)
	_, _ = serverOut.Close(), serverIn.Close()
	<-asked
	_ = fromServer.Close()
	switch {
	case err == nil && rep.Decision.Outcome != kernel.OutcomeBundle:
		return nil, execRefused(a, harness.End{Request: req, Report: rep})
	case err == nil:
		err = rep.Execution.Close()
	case failed == nil && ctx.Err() == nil: // the server was stopped after its answer
		err = nil
	}
	if err == nil {
		err = pinFault(doc, failed, "try its command with fiador exec, and look at what it prints")
	}
	return shown, err
}

// pinFault is the RunError for a server that does not show its tools. Other errors stay.
func pinFault(doc *dispatch.Pinned, err error, hint string) error {
	failed, ok := errors.AsType[*mcp.Failure](err)
	if !ok {
		return err
	}
	return runerr.New(result.CodeSandbox, screen.Plain(doc.File)+": "+failed.Why, hint, runerr.Because(err))
}

// pinEnding is how long a server may take to end after its input has ended.
const pinEnding = 2 * time.Second
