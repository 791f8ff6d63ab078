package suitecmd

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// agents opens agents by their names on the command line.
type agents struct {
	*cli.App
	policies.GateFlags
	header http.Header
	remote remotes.Flags
	host   *sandbox.Host // of agents that are commands; nil: there is none
	deps   harness.Deps
	gate   *harness.Gate
	open   []func() error // closes what was opened

	secrets []string // values of variables that commands get
}

// close closes what the agents have opened.
func (g *agents) close(ctx context.Context) {
	for _, end := range g.open {
		_ = end()
	}
	if g.host != nil {
		sandboxes.Close(ctx, g.App, g.host)
	}
}

// agent opens the agent that a flag names.
func (g *agents) agent(ctx context.Context, flag, given string) (suite.Agent, error) {
	if file, ok := strings.CutPrefix(given, "exec:"); ok {
		return g.command(ctx, file)
	}
	if dir, ok := strings.CutPrefix(given, "replay:"); ok {
		r, err := open(dir)
		if err != nil {
			return nil, err
		}
		g.open = append(g.open, r.Close)
		return r, nil
	}
	u, err := url.Parse(given)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || strings.ContainsAny(given, "?#") {
		return nil, cli.Usage("give http://HOST:PORT or https://HOST, without a user, a query or a fragment, or exec:FILE, or replay:DIR",
			"--%s %q is no agent", flag, canon.Cut(canon.Clean(given)))
	}
	return suite.HTTP{Base: strings.TrimRight(given, "/"), Header: g.header}, nil
}

var agentForm = document.Form{
	Name: "an agent", Schema: specs.KindSuiteAgent, MaxBytes: 1 << 20, Invalid: result.CodeProfile, TooLarge: "say less",
}

// commandFile is the document of an agent that is a command.
type commandFile struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Work string   `json:"work"`
	Read []string `json:"read"`
}

var commandDecoder canon.Decoder[commandFile]

// intent is the document that the policy decides: one run of the agent's command.
type intent struct {
	Goal    string   `json:"goal"`
	Actions []action `json:"actions"`
}

type action struct {
	Kind kernel.ActionKind `json:"kind"`
	Argv []string          `json:"argv"`
}

// command opens an agent that is a command: the policy decides once whether it may run.
func (g *agents) command(ctx context.Context, file string) (suite.Agent, error) {
	src, err := g.ReadUpTo(ctx, file, agentForm.MaxBytes, agentForm.TooLarge)
	if err != nil {
		return nil, err
	}
	text, err := document.Read(g.Specs, src.Path, src.Bytes, agentForm)
	if err != nil {
		return nil, err
	}
	doc, err := commandDecoder.Decode(text.Doc.Value())
	if err != nil {
		return nil, text.Invalid("", err.Error(), "correct the document")
	}
	if err := g.openHost(ctx); err != nil {
		return nil, err
	}
	source, _, err := canon.Artifact(intent{"answer the cases of a suite", []action{{kernel.ActionRun, doc.Argv}}})
	if err != nil {
		return nil, text.Invalid("/argv", err.Error(), "correct the command")
	}
	req := harness.Request{Source: source, Path: filepath.Base(file), Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone}
	if doc.Work != "" && !filepath.IsLocal(doc.Work) {
		return nil, text.Invalid("/work", "the folder is not beneath that of the document", "name a folder beside the document")
	}
	if doc.Work != "" {
		if req.Folders.Work, err = cli.RealPath(filepath.Join(filepath.Dir(file), doc.Work)); err != nil {
			return nil, runerr.Unreadable(screen.Folder(doc.Work), runerr.Reason(err), "name a folder beside the document")
		}
	}
	for i, p := range doc.Read {
		if !filepath.IsAbs(p) {
			doc.Read[i] = filepath.Join(filepath.Dir(file), p)
		}
	}
	if req.Folders.Read, err = sandboxes.ReadPaths("read of "+strconv.Quote(screen.Path(file)), doc.Read); err != nil {
		return nil, err
	}
	d, task, perform, err := g.gate.Prepare(ctx, g.deps, req)
	if err != nil {
		return nil, err
	}
	if d.Outcome != kernel.OutcomeBundle {
		return nil, cli.Unfit("name a profile that allows it with --policy", "the policy does not allow the command of %q: %s %s", screen.Path(file), d.Outcome, strings.Join(kernel.Conclude(d, nil).Reasons, ", "))
	}
	if len(doc.Env) > 0 {
		task.Secrets = secret.New(g.Env)
	}
	for _, name := range doc.Env {
		if faults := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList(g.gate.Profile.EnvAllow)); len(faults) > 0 {
			return nil, runerr.New(result.CodeProfile, screen.Path(file)+": "+faults[0].Msg, faults[0].Hint)
		}
		value, err := task.Secrets.ReadEnv(screen.Path(file), name)
		if err != nil {
			return nil, err
		}
		task.Env = append(task.Env, value)
		g.secrets = append(g.secrets, strings.TrimPrefix(value, name+"="))
	}
	x := &suite.Exec{Name: filepath.Base(file), Task: task, Perform: perform, Where: g.deps.Where()}
	return x, sandboxes.Named(ctx, g.App, x.Probe(ctx))
}

// openHost opens the policy and the host of sandboxes, once.
func (g *agents) openHost(ctx context.Context) error {
	if g.host != nil {
		return nil
	}
	sources, err := policies.Gating(g.App, g.GateFlags)
	if err != nil {
		return err
	}
	if g.gate, err = policies.OpenGateAhead(ctx, g.App, sources)(); err != nil {
		return err
	}
	g.host = sandboxes.Open(g.App)
	g.deps = harness.Deps{Now: g.Now, Rand: g.Rand, Specs: g.Specs, Runner: g.host}
	leave, err := g.remote.Use(ctx, g.App, &g.deps)
	g.open = append(g.open, func() error { leave(); return nil })
	return err
}
