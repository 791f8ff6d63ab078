package harness

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/result"
)

// Tools is a registry of tools. It is safe for concurrent runs.
type Tools interface {
	// Bind binds the action at a position of an intent, a call or the command of an execution
	// request, to its tool. known is false if
	// the registry does not have the tool. The error is a *result.RunError about the registry:
	// a fault of the call is a finding. Bind reads each document once, so that what is
	// performed is what was decided.
	Bind(position int, a kernel.Action) (call BoundCall, known bool, err error)

	// SHA256 returns the hash of the registry's index, which has the hashes of all its documents.
	SHA256() canon.ContentHash
}

// BoundCall is a call that is bound to a tool. Adapters are its candidates as they are
// performed.
type BoundCall struct {
	kernel.Call
	Adapters execute.ToolCall
}

// registry is the Tools of a folder.
type registry struct {
	mu   sync.Mutex
	from *dispatch.Registry
}

// ToolsOf returns the tools of a registry.
func ToolsOf(r *dispatch.Registry) Tools { return &registry{from: r} }

func (r *registry) SHA256() canon.ContentHash { return r.from.SHA256() }

func (r *registry) Bind(position int, a kernel.Action) (bound BoundCall, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.from.Has(a.ToolID) {
		return bound, false, nil
	}
	var call *dispatch.Call
	var found []adapter.Finding
	if a.Kind == kernel.ActionRun {
		call, found, err = r.from.Command(a.ToolID, a.AdapterID, a.Argv)
	} else {
		call, found, err = r.from.Bind(a.ToolID, a.AdapterID, a.Params)
	}
	if err != nil {
		return bound, true, err
	}
	for _, f := range found {
		bound.Findings = append(bound.Findings, findingOf(position, a, f))
	}
	if call == nil {
		return bound, true, nil
	}
	bound.Adapters = call.Bound
	for _, b := range call.Bound {
		tool := kernel.Tool{
			Type: string(b.Adapter.Type), Version: call.Tool.Version, Status: call.Tool.Status,
			ToolSHA256: call.Tool.SHA256, AdapterSHA256: b.Adapter.SHA256, Operation: b.Operation, Method: b.Method, Hosts: b.Hosts,
		}
		if b.Adapter.Server != nil {
			tool.ServerSHA256 = b.Adapter.Server.SHA256
		}
		c := kernel.Candidate{AdapterID: b.Adapter.AdapterID, Tool: tool, Env: variablesOf(b), Stdin: b.Stdin}
		if b.IsProcess() && a.Kind == kernel.ActionCall {
			c.Argv = b.Argv
		}
		bound.Candidates = append(bound.Candidates, c)
	}
	return bound, true, nil
}

// findingOf returns a finding of a binding as one about the action at a position. The command
// of a request does not name the tool itself, so the whole action is at fault.
func findingOf(position int, a kernel.Action, f adapter.Finding) kernel.Finding {
	at := "/actions/" + strconv.Itoa(position)
	tool, given, kind := at+"/tool_id", at+"/params", kernel.EffectCall
	if a.Kind == kernel.ActionRun {
		tool, given, kind = at, at, kernel.EffectRun
	}
	k := kernel.Finding{Code: f.Code, Path: tool, Effect: string(kind) + ":" + at, Value: canon.Cut(a.ToolID)}
	switch f.Code {
	case finding.AdapterUnknown:
		if k.Value = f.Value; a.Kind == kernel.ActionCall {
			k.Path = at + "/adapter_id"
		}
	case finding.ParamsInvalid:
		k.Path, k.Value = given+f.Pointer, canon.Cut(f.Why)
	case finding.ToolInactive:
		switch f.Value {
		case "deprecated":
			k.Code = finding.ToolDeprecated
		case "experimental":
			k.Code = finding.ToolExperimental
		default:
			k.Other = f.Value
		}
	}
	return k
}

// UseTools gives the gate a registry of tools, before its first run.
func (g *Gate) UseTools(tools Tools) {
	g.Tools, g.Provenance.ToolsSHA256 = tools, tools.SHA256()
}

// bind binds the calls of an intent, or the command of an execution request, to the tools of a
// registry. In model modes record and replay, a call of a tool that the registry does not have
// is that of a model.
func bind(tools Tools, req Request, in kernel.Intent) (kernel.Intent, error) {
	calls := map[int]kernel.Call{}
	for i, a := range in.Actions {
		if a.Kind != kernel.ActionCall && a.ToolID == "" {
			continue
		}
		call, known, err := tools.Bind(i, a)
		switch {
		case err != nil:
			return kernel.Intent{}, err
		case known:
			calls[i] = call.Call
		case req.ModelMode == ModelNone || a.Kind == kernel.ActionRun:
			calls[i] = kernel.Call{Findings: []kernel.Finding{findingOf(i, a, adapter.Finding{Code: finding.ToolUnknown})}}
		}
	}
	return in.Bind(calls), nil
}

// toolCalls returns the bound calls of an intent as they are performed.
func (g *Gate) toolCalls(deps Deps, mode string, in kernel.Intent) (map[int]execute.ToolCall, error) {
	calls := map[int]execute.ToolCall{}
	for _, i := range slices.Sorted(maps.Keys(in.Calls())) {
		call, _, err := g.Tools.Bind(i, in.Actions[i])
		if err != nil {
			return nil, err
		}
		calls[i] = call.Adapters
		for _, b := range call.Adapters {
			at := "/actions/" + strconv.Itoa(i)
			if in.Actions[i].Kind == kernel.ActionRun {
				err = requestable(at, b)
			} else {
				err = g.startable(deps, mode, at, b)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return calls, nil
}

// startable refuses, before any effect, an adapter that cannot be performed as its document
// demands, and reads its secrets. The name of a secret is checked as that of a variable.
func (g *Gate) startable(deps Deps, mode, at string, b *adapter.Bound) error {
	if !b.IsProcess() && deps.Asker == nil {
		return runerr.New(result.CodeProfile, at+": adapter "+strconv.Quote(b.Adapter.AdapterID)+" asks a service, and no recording answers for it",
			"name the recording with --tool-recording; a run without one is recorded with --model-mode record", runerr.At(at))
	}
	if b.IsProcess() && g.Profile.NetLevel() == contract.Open {
		return runerr.New(result.CodeSandbox, at+": adapter "+strconv.Quote(b.Adapter.AdapterID)+": a profile with every host cannot keep a tool to the hosts of its adapter",
			"use a profile with a list of hosts, or --mode plan-only for the decision and the bundle", runerr.At(at))
	}
	if secret.Needed(b) && (b.IsProcess() || mode != ModelReplay) {
		if deps.Secrets == nil {
			return runerr.New(result.CodeSandbox, at+": adapter "+strconv.Quote(b.Adapter.AdapterID)+" needs a secret, and none can be had here", "", runerr.At(at))
		}
		if err := deps.Secrets.Read(at, b); err != nil {
			return err
		}
	}
	if !b.IsProcess() {
		return nil
	}
	return g.allows(at, b.Argv, variablesOf(b))
}

// variablesOf returns the environment of a process, with the names of its secrets.
func variablesOf(b *adapter.Bound) map[string]string {
	if len(b.Secrets) == 0 {
		return b.Env
	}
	env := map[string]string{}
	maps.Copy(env, b.Env)
	for name := range b.Secrets {
		env[name] = ""
	}
	return env
}

// requestable refuses, before any effect, an adapter that makes more of a call than a command
// with the arguments of a request.
func requestable(at string, b *adapter.Bound) error {
	if cli := b.Adapter.Interface.CLI; cli != nil && len(cli.Secrets) == 0 {
		return nil
	}
	return runerr.New(result.CodeSandbox, at+": adapter "+strconv.Quote(b.Adapter.AdapterID)+": a request is executed by an adapter of type cli without secrets alone",
		"fiador tool call performs a call of this tool", runerr.At(at))
}

// narrowTo narrows the task of an execution request to what the adapter of its tool allows.
func narrowTo(t *execute.Task, a *adapter.Adapter) {
	t.Tools, t.Program = nil, a.Interface.CLI.ExecutableSHA256
	box, most := &t.Sandbox, a.Override
	if most.TimeoutMS > 0 {
		t.Budget = min(t.Budget, time.Duration(most.TimeoutMS)*time.Millisecond)
	}
	if most.MemoryMB > 0 {
		box.Limits.MemoryMB = min(box.Limits.MemoryMB, most.MemoryMB)
	}
	own, _, _ := contract.ParseHosts(most.Network.Allow) // the adapter was checked
	hosts := &box.Actions[0].Hosts
	if box.Network {
		*hosts = contract.Hosts{Allow: own}
	} else {
		*hosts = hosts.Within(own)
	}
	box.Listed = (box.Network || box.Listed) && len(hosts.Allow) > 0
	box.Network = false
}
