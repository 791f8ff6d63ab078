package adapter

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
)

// Bound is a call that is bound to one adapter: what would be started or asked.
type Bound struct {
	Adapter *Adapter

	// A process: of types cli and sdk, and of mcp by stdio. Its environment is Env, and a
	// variable for each of Secrets.
	Argv    []string
	Env     map[string]string
	Stdin   *string // nil: no input
	Secrets map[string]Secret

	// An operation: of types api, sdk and mcp.
	Operation string
	Method    string // of type api
	Path      string // of type api, percent-encoded; it stands behind base_url
	Query     string // of type api, percent-encoded, without "?"
	Body      []byte // of type api, canonical JSON; nil: no body
	MCPTool   string
	Arguments map[string]any // of type mcp

	Hosts []string // the hosts that the call may reach, as the adapter lists them

	// Request is the canonical form of all that, with a line feed, and RequestHash its
	// hash. It has the names of secrets only.
	Request     []byte
	RequestHash canon.ContentHash
}

// IsProcess says whether the call starts a process.
func (b *Bound) IsProcess() bool { return len(b.Argv) > 0 }

// URL returns the address of a request of type api: base_url without a slash at its end, the
// path and the query.
func (b *Bound) URL() string {
	if b.Adapter.Type != API {
		return ""
	}
	url := strings.TrimSuffix(b.Adapter.Interface.API.BaseURL, "/") + b.Path
	if b.Query != "" {
		url += "?" + b.Query
	}
	return url
}

// request is the document that Bound.Request holds. The input of a library's function has
// the hash of the request, so the request has the function in place of the input.
type request struct {
	ToolID    string            `json:"tool_id"`
	AdapterID string            `json:"adapter_id"`
	Type      Type              `json:"type"`
	Argv      []string          `json:"argv,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     *string           `json:"stdin,omitempty"`
	Secrets   map[string]Secret `json:"secrets,omitempty"`
	Operation string            `json:"operation,omitempty"`
	BaseURL   string            `json:"base_url,omitempty"`
	AuthMode  string            `json:"auth_method,omitempty"`
	Auth      *Auth             `json:"auth,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Method    string            `json:"method,omitempty"`
	Path      string            `json:"path,omitempty"`
	Query     string            `json:"query,omitempty"`
	Body      *string           `json:"body,omitempty"`
	Function  *function         `json:"function,omitempty"`
	Server    string            `json:"server,omitempty"`
	URL       string            `json:"url,omitempty"`
	MCPTool   string            `json:"mcp_tool,omitempty"`
	Arguments map[string]any    `json:"arguments,omitzero"`
}

// function is a call of a function, as a shim reads it from standard input.
type function struct {
	Reply      canon.ContentHash `json:"reply,omitempty"`
	ImportPath string            `json:"import_path"`
	Function   string            `json:"function"`
	Args       []any             `json:"args"`
	Kwargs     map[string]any    `json:"kwargs"`
}

var (
	requestPlan  canon.Plan[request]
	functionPlan canon.Plan[function]
)

// The most that one call may hand over: arguments, as an intent, and bytes, as an intent has.
const (
	maxArguments = 1024
	maxBytes     = canon.MaxIntentBytes
)

// Bind makes an invocation of the parameters of a call. With findings there is none. Tool,
// adapter and server come from ParseTool, ParseAdapter, CheckTool and Attach; anything else
// is a finding.
func Bind(t *Tool, a *Adapter, params map[string]any) (*Bound, []Finding) {
	b := &binding{params: maps.Clone(params), given: map[string]string{}, used: map[string]bool{}}
	if b.params == nil {
		b.params = make(map[string]any)
	}
	for name := range b.params {
		b.given[name] = canon.Pointer("", name)
	}
	if why := unbindable(t, a); why != "" {
		b.refuse("", "", why)
		return nil, b.list
	}
	b.transform(t, a.input)
	out := &Bound{Adapter: a, Hosts: slices.Clone(a.Override.Network.Allow)}
	req := &request{ToolID: t.ToolID, AdapterID: a.AdapterID, Type: a.Type}
	switch {
	case len(b.list) > 0:
	case a.Type == CLI:
		b.cli(a.Interface.CLI, out)
	case a.Type == API:
		b.api(a.Interface.API, out, req)
	case a.Type == SDK:
		b.sdk(a.Interface.SDK, out, req)
	default:
		b.mcp(a, out, req)
	}
	if len(b.list) > 0 {
		return nil, b.list
	}
	if err := out.seal(req); err != nil {
		b.refuse("", "", "the call has no canonical form: "+err.Error())
		return nil, b.list
	}
	return out, nil
}

// unbindable says why documents were not made by the functions that check them, or "".
func unbindable(t *Tool, a *Adapter) string {
	switch {
	case t == nil || t.SHA256 == "" || a == nil || a.SHA256 == "":
		return "the documents were not checked"
	case a.ToolID != t.ToolID:
		return "the adapter belongs to another tool"
	case a.Type == CLI && len(a.Interface.CLI.ArgMapping) != len(a.Interface.CLI.ArgOrder):
		return "the order of the arguments is not known"
	case a.Type == MCP && a.Server == nil:
		return "the server of the adapter is not known"
	}
	return ""
}

// seal computes the request, and the input of a library's function, which holds its hash.
func (b *Bound) seal(req *request) (err error) {
	req.Argv, req.Env, req.Secrets = b.Argv, b.Env, b.Secrets
	req.Operation, req.Method, req.Path, req.Query = b.Operation, b.Method, b.Path, b.Query
	req.MCPTool, req.Arguments = b.MCPTool, b.Arguments
	if b.Body != nil {
		req.Body = new(string(b.Body))
	}
	if req.Function == nil {
		req.Stdin = b.Stdin
	}
	if b.Request, b.RequestHash, err = requestPlan.Artifact(req); err != nil || req.Function == nil {
		return err
	}
	call := *req.Function
	call.Reply = b.RequestHash
	text, err := functionPlan.Canonical(&call)
	b.Stdin = new(string(text) + "\n")
	return err
}

// cli binds a command: its executable, its arguments in the order of the document, its
// environment and its input.
func (b *binding) cli(in *CLIInterface, out *Bound) {
	w := words{b: b, argv: append([]string{in.Executable}, in.BaseArgs...)}
	w.literal = slices.Contains(in.BaseArgs, "--")
	for _, name := range in.ArgOrder {
		t, err := readTemplate("", name, in.ArgMapping[name])
		if err != nil {
			b.refuse(b.at(name), "", err.Error())
			continue
		}
		w.add(name, t)
	}
	out.Argv, out.Secrets = w.argv, in.Secrets
	for _, name := range canon.Names(in.EnvMapping) {
		text, ok := b.text(name)
		if !ok {
			continue
		}
		variable := in.EnvMapping[name]
		if v := contract.CheckVariables("", map[string]string{variable: text}); len(v) > 0 {
			b.refuse(b.at(name), variable, v[0].ID+": "+v[0].Msg)
			continue
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[variable] = text
	}
	if in.Stdin != "" {
		switch v := b.take(in.Stdin).(type) {
		case nil:
		case string:
			out.Stdin = &v
		default:
			b.refuse(b.at(in.Stdin), params.TypeOf(v), "not a text, and it becomes standard input")
		}
	}
	b.rest()
}

// words is an argument list that grows.
type words struct {
	b       *binding
	argv    []string
	bytes   int
	literal bool // a literal "--" stands before: no word is an option any more
}

// add adds the words of a template for the value of a parameter.
func (w *words) add(name string, t template) {
	if t.isFlag() {
		switch v := w.b.take(name).(type) {
		case nil:
		case bool:
			if v {
				w.repeat(name, w.b.at(name), t, "")
			}
		default:
			w.b.refuse(w.b.at(name), params.TypeOf(v), "neither true nor false, and it stands for a flag")
		}
		return
	}
	values, _ := w.b.texts(name)
	_, many := w.b.params[name].([]any)
	for i, value := range values {
		at := w.b.at(name)
		if many && at != "" {
			at = element(at, i)
		}
		if !w.repeat(name, at, t, value) {
			return
		}
	}
}

// repeat adds the words of a template once, and says whether more fit.
func (w *words) repeat(name, at string, t template, value string) bool {
	for _, pieces := range t {
		if w.bytes += (len(pieces) - 1) * len(value); len(w.argv) >= maxArguments || w.bytes > maxBytes {
			w.b.refuse(at, name, "more than "+strconv.Itoa(maxArguments)+" arguments, or than "+strconv.Itoa(maxBytes)+" bytes in them")
			return false
		}
		word := strings.Join(pieces, value)
		begins := len(pieces) > 1 && pieces[0] == "" // the value is the beginning of the word
		if begins && strings.HasPrefix(word, "-") && !w.literal {
			w.b.refuse(at, word, contract.IV02+": a value that begins with - would be read as an option")
			return true
		}
		if v := contract.CheckArgument(at, word, contract.Argv); v != nil {
			w.b.refuse(at, "", v.ID+": "+v.Msg)
			return true
		}
		w.literal = w.literal || len(pieces) == 1 && word == "--"
		w.argv = append(w.argv, word)
	}
	return true
}

// api binds a request of a web service.
func (b *binding) api(in *APIInterface, out *Bound, req *request) {
	req.BaseURL, req.Headers, req.AuthMode, req.Auth = in.BaseURL, in.Headers, in.AuthMethod, in.Auth
	operation, ok := b.operation(in.EndpointMapping)
	if !ok {
		return
	}
	e, err := readEndpoint("", in.EndpointMapping[operation])
	if err != nil {
		b.refuse("", "", err.Error())
		return
	}
	out.Operation, out.Method = operation, e.method
	for _, s := range e.segments {
		value := s.literal
		if s.param != "" {
			text, there := b.text(s.param)
			if !there || text == "" || text == "." || text == ".." {
				b.refuse(b.at(s.param), s.param, "not a segment of a path: it is absent, empty, . or ..")
				continue
			}
			if value = escape(text); len(out.Path)+len(value) > maxBytes {
				b.refuse(b.at(s.param), s.param, "the path has more than "+strconv.Itoa(maxBytes)+" bytes")
				return
			}
		}
		out.Path += "/" + value
	}
	if len(e.segments) == 0 {
		out.Path = "/"
	}
	if !e.hasBody() {
		b.query(out)
		return
	}
	rest := b.others()
	body, err := canon.Canonical(rest)
	if err != nil || len(body) > maxBytes {
		b.refuse("", "", "the parameters make no body of at most "+strconv.Itoa(maxBytes)+" bytes")
	}
	out.Body = body
}

// query makes a query of the parameters that nothing has used, in the order of their names.
func (b *binding) query(out *Bound) {
	var q strings.Builder
	for _, name := range canon.Names(b.params) {
		if b.used[name] {
			continue
		}
		texts, _ := b.texts(name)
		for _, text := range texts {
			if q.Len()+len(name)+len(text) > maxBytes {
				b.refuse("", name, "the parameters make a query of more than "+strconv.Itoa(maxBytes)+" bytes")
				return
			}
			if q.Len() > 0 {
				q.WriteByte('&')
			}
			q.WriteString(escape(name) + "=" + escape(text))
		}
	}
	out.Query = q.String()
}

// others returns the parameters that nothing has used.
func (b *binding) others() map[string]any {
	rest := maps.Clone(b.params)
	for name := range b.used {
		delete(rest, name)
	}
	return rest
}

// sdk binds a function of a library: the parameters are keyword arguments, except for
// Node, where they are one object.
func (b *binding) sdk(in *SDKInterface, out *Bound, req *request) {
	operation, ok := b.operation(in.FunctionMapping)
	if !ok {
		return
	}
	call := &function{ImportPath: in.ImportPath, Function: in.FunctionMapping[operation], Args: []any{}, Kwargs: b.others()}
	switch in.Language {
	case "python":
		out.Argv = []string{"python3", pathname.ShimPython}
	case "node":
		out.Argv = []string{"node", pathname.ShimNode}
		call.Args, call.Kwargs = []any{call.Kwargs}, make(map[string]any)
	default:
		out.Argv = []string{in.Package}
	}
	out.Operation, req.Function = operation, call
}

// mcp binds a tool of an MCP server.
func (b *binding) mcp(a *Adapter, out *Bound, req *request) {
	in := a.Interface.MCP
	operation, ok := b.operation(in.ToolMapping)
	if !ok {
		return
	}
	out.Operation, out.MCPTool, out.Arguments = operation, in.ToolMapping[operation], b.others()
	out.Argv, out.Env = slices.Clone(a.Server.Command), maps.Clone(a.Server.Env)
	req.Server, req.URL, req.Auth = in.Server, a.Server.URL, a.Server.Auth
}
