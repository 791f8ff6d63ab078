package kernel

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
)

// Call is what a registry of tools makes of a call action. Without a registry an intent
// has none, and its calls are those of models.
type Call struct {
	// Candidates are the ways to perform the call: the adapter of the call first, then its
	// fallbacks in their order. Without a candidate a finding says why.
	Candidates []Candidate
	Findings   []Finding // about the call and its parameters
}

// Candidate is an adapter that is bound to the parameters of a call. Argv is nil if no
// process is started.
type Candidate struct {
	AdapterID string
	Tool      Tool
	Argv      []string
	Env       map[string]string
	Stdin     *string
}

// Tool says which documents of a registry stand behind an effect, or that another program
// asks to call a tool of its own. Only a binding makes one: an intent cannot.
type Tool struct {
	Type          string            `json:"type"` // cli, api, sdk or mcp; client: a tool of a coding agent
	Version       string            `json:"version,omitempty"`
	Status        string            `json:"status,omitempty"`
	ToolSHA256    canon.ContentHash `json:"tool_sha256,omitempty"`
	AdapterSHA256 canon.ContentHash `json:"adapter_sha256,omitempty"`
	ServerSHA256  canon.ContentHash `json:"server_sha256,omitempty"`
	Operation     string            `json:"operation,omitempty"`
	Method        string            `json:"method,omitempty"`
	Hosts         []string          `json:"hosts"`
}

// requested names the tool of an intent that is made of an execution request: its one action
// runs a command, and context.request has the tool and its adapter.
func (in *Intent) requested() {
	if request, ok := in.context["request"].(map[string]any); ok && len(in.Actions) == 1 && in.Actions[0].Kind == ActionRun {
		in.Actions[0].ToolID, _ = request["tool_id"].(string)
		in.Actions[0].AdapterID, _ = request["adapter_id"].(string)
	}
}

// Beginnings of the names of tools that no registry has: those of an MCP server, named
// mcp:SERVER/TOOL or mcp:SERVER#METHOD, and those of a coding agent, client:CLIENT/TOOL.
const (
	ToolOfServer = "mcp:"
	ToolOfClient = "client:"
)

// foreign says whether a name is that of a tool that no registry has. A slash in it divides
// no adapter from a tool.
func foreign(tool string) bool {
	return strings.HasPrefix(tool, ToolOfServer) || strings.HasPrefix(tool, ToolOfClient)
}

// ForeignCall returns the call of a tool that no registry has: another program asks before
// it performs the call itself. listed is the hash of the tool as its server lists it, or empty.
func ForeignCall(tool string, listed canon.ContentHash) Call {
	kind, _, _ := strings.Cut(tool, ":")
	return Call{Candidates: []Candidate{{Tool: Tool{Type: kind, ToolSHA256: listed}}}}
}

// ForeignCalls returns the calls of the intent whose tools no registry has, by action; nil:
// none. An intent can name any tool, so nothing is allowed by this alone.
func (in Intent) ForeignCalls() map[int]Call {
	var calls map[int]Call
	for i, a := range in.Actions {
		if a.Kind != ActionCall || !foreign(a.ToolID) {
			continue
		}
		if calls == nil {
			calls = map[int]Call{}
		}
		calls[i] = ForeignCall(a.ToolID, "")
	}
	return calls
}

// Bind returns the intent with what a registry makes of its calls, by action.
func (in Intent) Bind(calls map[int]Call) Intent {
	in.calls = calls
	return in
}

// Calls returns what Bind was given.
func (in Intent) Calls() map[int]Call { return in.calls }

// tool returns the documents behind the call itself, or nothing for a call of a model.
func (c Call) tool() (t Tool) {
	if len(c.Candidates) > 0 {
		t = c.Candidates[0].Tool
	}
	return t
}

// effects returns the effects of a bound call: for each candidate a call, and a run if it
// starts a process. Ids of fallbacks end in "@" and the adapter. The command of an execution
// request keeps its own effect.
func (c Call) effects(a Action, i int) []Effect {
	at := place{"/actions/", i, ""}
	var list []Effect
	if len(c.Candidates) == 0 || a.Kind == ActionRun {
		list = append(list, a.effect(at.pointer()))
	}
	for n, to := range c.Candidates {
		tool, suffix := to.Tool, c.suffix(n)
		list = append(list, Effect{
			ID: at.effect(EffectCall) + suffix, Kind: EffectCall, Pointer: at.pointer(),
			ToolID: a.ToolID, AdapterID: to.AdapterID, Tool: &tool,
		})
		if to.Argv != nil {
			run := to.action().effect(at.pointer())
			run.ID, run.Tool = run.ID+suffix, &tool
			list = append(list, run)
		}
	}
	return list
}

// suffix ends the ids of the effects of a candidate.
func (c Call) suffix(n int) string {
	if n == 0 {
		return ""
	}
	return "@" + c.Candidates[n].AdapterID
}

// action returns the process of a candidate as a run action.
func (c Candidate) action() Action {
	return Action{Kind: ActionRun, Argv: c.Argv, Env: c.Env, Stdin: c.Stdin}
}

// findings returns the findings of find about each process of a bound call. They point to
// the call, because the intent does not have the arguments of the process.
func (c Call) findings(i int, find func(Action) []Finding) []Finding {
	at := place{"/actions/", i, ""}
	var list []Finding
	for n, to := range c.Candidates {
		if to.Argv == nil {
			continue
		}
		for _, f := range find(to.action()) {
			if f.Code == finding.PathAbsolute && to.Tool.Type == "sdk" && len(to.Argv) == 2 && (to.Argv[1] == pathname.ShimPython || to.Argv[1] == pathname.ShimNode) {
				continue // a binding names a shim with an input of its own; a run action could give it any
			}
			f.Path, f.Effect = at.pointer(), at.effect(EffectRun)+c.suffix(n)
			list = append(list, f)
		}
	}
	return list
}

// unreachable returns a finding for each host of a bound call that the profile does not let
// it reach.
func (p Profile) unreachable(c Call, i int) []Finding {
	at := place{"/actions/", i, ""}
	var list []Finding
	for n, to := range c.Candidates {
		for _, host := range to.Tool.Hosts {
			if !p.reaches(host) {
				list = append(list, Finding{
					Code: finding.HostNotAllowed, Path: at.pointer(), Effect: at.effect(EffectCall) + c.suffix(n), Value: canon.Cut(host),
				})
			}
		}
	}
	return list
}

// reaches says whether the profile lets commands reach everything that an entry for hosts
// lists.
func (p Profile) reaches(host string) bool {
	lists := p.Hosts()
	within := func(by string) bool { return contract.HostWithin(host, by) }
	return p.AllowNetwork && (lists.All || slices.ContainsFunc(lists.Names, within))
}

// listsTool says whether the profile lists the tool of a call. An entry is a tool, a tool
// and an adapter with a slash between, or the beginning of these with a "*" behind it. "@"
// and a hash behind the first two pin the document that is named last.
func (p Profile) listsTool(e *Effect) bool {
	if p.AllowedTools.All {
		return true
	}
	whole := e.ToolID + "/" + e.AdapterID
	return slices.ContainsFunc(p.AllowedTools.Names, func(entry string) bool {
		if begin, ok := strings.CutSuffix(entry, "*"); ok {
			return strings.HasPrefix(whole, begin)
		}
		name, pin, pinned := strings.Cut(entry, "@")
		of := e.Tool.AdapterSHA256
		if name == e.ToolID {
			of = e.Tool.ToolSHA256
		}
		return (name == e.ToolID || name == whole) && (!pinned || canon.ContentHash(pin) == of)
	})
}

// ToolBelow says whether an entry of allowed_tools lists nothing that the other entry does
// not list.
func ToolBelow(entry, other string) bool {
	name, _, _ := strings.Cut(entry, "@")
	begin, open := strings.CutSuffix(name, "*") // what every listed name begins with
	if !open && (foreign(name) || !strings.Contains(name, "/")) {
		begin += "/"
	}
	if all, ok := strings.CutSuffix(other, "*"); ok {
		return strings.HasPrefix(begin, all)
	}
	ofTool := !foreign(other) && !strings.ContainsAny(other, "/@") && strings.HasPrefix(begin, other+"/")
	return entry == other || name == other || ofTool
}
