// Package adapter owns tools and their adapters: what their documents may say, and how the
// parameters of a call become the invocation of a command, a web service, a library or an
// MCP server. It performs nothing.
//
// A document comes decoded (canon.Document.Value), and fits its schema in package specs.
// ParseTool, ParseAdapter and ParseServer check what no schema can say, and return a *Fault.
// Bind trusts only what they have returned: any other value gives a finding.
package adapter

import (
	"errors"
	"strings"

	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// Type is how an adapter reaches its tool.
type Type string

// The types of adapters.
const (
	CLI Type = "cli"
	API Type = "api"
	SDK Type = "sdk"
	MCP Type = "mcp"
)

// The states of tools and adapters that have a meaning. Any other state of a tool is one in
// which nobody may call it.
const (
	Active       = "active"
	Deprecated   = "deprecated"
	Experimental = "experimental"
)

// Fault is an error of a document that its schema in package specs cannot find.
type Fault = params.Fault

func fault(at, msg, hint string) *Fault { return &Fault{Pointer: at, Msg: msg, Hint: hint} }

// Tool is the document of a tool (schema tool).
type Tool struct {
	ToolID      string         `json:"tool_id"`
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Status      string         `json:"status"`
	Description string         `json:"description"`
	Params      map[string]any `json:"params"`   // a schema of the closed vocabulary; nil if the document has none
	Adapters    []string       `json:"adapters"` // ids, the preferred one first

	Doc    any               `json:"-"` // the whole document, decoded
	SHA256 canon.ContentHash `json:"-"` // its Digest
	params *params.Schema
}

// Adapter is the document of an adapter (schema adapter). Exactly the member of Interface
// that Type names is set.
type Adapter struct {
	AdapterID     string      `json:"adapter_id"`
	Name          string      `json:"name"`
	Version       string      `json:"version"`
	ToolID        string      `json:"tool_id"`
	Type          Type        `json:"type"`
	Interface     Interface   `json:"interface"`
	Transforms    Transforms  `json:"transforms"`
	Errors        ErrorRules  `json:"errors"`
	Override      Override    `json:"sandbox_override"`
	Deterministic bool        `json:"deterministic"` // the same call gives the same answer
	Metadata      Description `json:"metadata"`

	Doc    any               `json:"-"` // the whole document with arg_order, decoded
	SHA256 canon.ContentHash `json:"-"` // its Digest
	Server *Server           `json:"-"` // of an adapter of type mcp, set by Attach
	input  []input
}

// Interface says how the tool is reached.
type Interface struct {
	CLI *CLIInterface `json:"cli"`
	API *APIInterface `json:"api"`
	SDK *SDKInterface `json:"sdk"`
	MCP *MCPInterface `json:"mcp"`
}

// CLIInterface is a command. ArgOrder has the names of ArgMapping in the order of the
// document's text. The loader adds it; the file itself does not have it.
type CLIInterface struct {
	Executable       string            `json:"executable"`
	ExecutableSHA256 canon.ContentHash `json:"executable_sha256"` // of the only file that may run, or empty
	BaseArgs         []string          `json:"base_args"`
	ArgMapping       map[string]string `json:"arg_mapping"` // of a parameter, its template
	ArgOrder         []string          `json:"arg_order"`
	EnvMapping       map[string]string `json:"env_mapping"` // of a parameter, the variable that it sets
	Stdin            string            `json:"stdin"`       // the parameter that becomes standard input, or empty
	Secrets          map[string]Secret `json:"secrets"`     // by the variable that the command gets
}

// Secret names a variable of the supervisor, whose value is a secret.
type Secret struct {
	Env string `json:"env"`
}

// APIInterface is a web service.
type APIInterface struct {
	BaseURL         string            `json:"base_url"`
	AuthMethod      string            `json:"auth_method"` // none, api_key, oauth or bearer; empty is none
	Headers         map[string]string `json:"headers"`
	EndpointMapping map[string]string `json:"endpoint_mapping"` // of an operation, "METHOD /path/{parameter}"
	Auth            *Auth             `json:"auth"`
}

// Auth says where the secret of a web service or a server is found.
type Auth struct {
	SecretEnv  string `json:"secret_env,omitempty"`  // a variable of the supervisor, or empty
	SecretFile string `json:"secret_file,omitempty"` // a file, or empty
	Header     string `json:"header,omitempty"`      // the header that carries the secret; empty is the usual one
	TokenURL   string `json:"token_url,omitempty"`   // of oauth
	ClientID   string `json:"client_id,omitempty"`   // of oauth
	Scope      string `json:"scope,omitempty"`       // of oauth, or empty
}

// SDKInterface is a function of a library.
type SDKInterface struct {
	Language        string            `json:"language"`    // python, node, go or rust
	Package         string            `json:"package"`     // of go and rust: the executable that answers
	ImportPath      string            `json:"import_path"` // of python and node: the module
	FunctionMapping map[string]string `json:"function_mapping"`
}

// MCPInterface is a tool of an MCP server.
type MCPInterface struct {
	Server      string            `json:"server"`    // the name of the server's document
	Transport   string            `json:"transport"` // stdio or http
	ToolMapping map[string]string `json:"tool_mapping"`
}

// Transforms change the parameters before, and the answer after, in the order of the lists.
type Transforms struct {
	Input  []answer.Step `json:"input"`
	Output []answer.Step `json:"output"`
}

// Override narrows the limits of a call. A member that is zero narrows nothing, except for
// Network: without it there is no network.
type Override struct {
	TimeoutMS int `json:"timeout_ms"`
	MemoryMB  int `json:"memory_mb"`
	Network   struct {
		Enabled bool     `json:"enabled"`
		Allow   []string `json:"allow"`
	} `json:"network"`
}

// Description says who made an adapter and when.
type Description struct {
	Author  string `json:"author"`
	Created string `json:"created"`
	Updated string `json:"updated"`
	Status  string `json:"status"`
}

// Server is the document of an MCP server (schema server): a command or a URL, and what its
// tools are pinned to.
type Server struct {
	Command []string                     `json:"command"`
	URL     string                       `json:"url"`
	Env     map[string]string            `json:"env"`
	Auth    *Auth                        `json:"auth"`
	Tools   map[string]canon.ContentHash `json:"tools"` // of a tool, the digest of what the server says about it

	Doc    any               `json:"-"`
	SHA256 canon.ContentHash `json:"-"`
}

var (
	toolDecoder    canon.Decoder[Tool]
	adapterDecoder canon.Decoder[Adapter]
	serverDecoder  canon.Decoder[Server]
)

// Digest returns the hash of a document: of its canonical JSON and one LF.
func Digest(doc any) (canon.ContentHash, error) {
	_, hash, err := canon.Artifact(doc)
	return hash, err
}

// read decodes a document, and hashes it.
func read[T any](d *canon.Decoder[T], doc any) (*T, canon.ContentHash, error) {
	to, err := d.Decode(doc)
	if de, ok := errors.AsType[*canon.DecodeError](err); ok {
		return nil, "", &Fault{Pointer: de.Pointer, Msg: de.Msg}
	}
	hash, err := Digest(doc)
	if err != nil {
		return nil, "", &Fault{Msg: err.Error()}
	}
	return to, hash, nil
}

// ParseTool reads the document of a tool. The error is a *Fault.
func ParseTool(doc any) (*Tool, error) {
	t, hash, err := read(&toolDecoder, doc)
	if err != nil {
		return nil, err
	}
	t.Doc, t.SHA256 = doc, hash
	seen := map[string]bool{}
	for i, id := range t.Adapters {
		if seen[id] {
			return nil, fault(element("/adapters", i), canon.Quote(id)+" stands twice", "name each adapter once")
		}
		seen[id] = true
	}
	if t.Params != nil {
		if t.params, err = params.New("/params", t.Params); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ParseServer reads the document of an MCP server. The error is a *Fault.
func ParseServer(doc any) (*Server, error) {
	s, hash, err := read(&serverDecoder, doc)
	if err != nil {
		return nil, err
	}
	s.Doc, s.SHA256 = doc, hash
	switch {
	case (len(s.Command) > 0) == (s.URL != ""):
		return nil, fault("", "the server has not exactly one of command and url", "give command for a server that is started, or url for one that runs")
	case s.URL != "" && len(s.Env) > 0:
		return nil, fault("/env", "a server with a url is not started, so it has no environment", "leave env out")
	case s.URL == "" && s.Auth != nil:
		return nil, fault("/auth", "a server that is started has no auth", "leave auth out")
	}
	if len(s.Command) > 0 {
		if err := commandFault("/command/0", s.Command[0]); err != nil {
			return nil, err
		}
		if v := contract.CheckArguments("/command", s.Command, contract.Argv); len(v) > 0 {
			return nil, violated(&v[0])
		}
	}
	if v := contract.CheckEnvironment("/env", s.Env, contract.AllowList{All: true}); len(v) > 0 {
		return nil, violated(&v[0])
	}
	if s.Auth != nil {
		if err := s.Auth.fault("/auth", ""); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ParseAdapter reads the document of an adapter, with the arg_order that the loader has
// added. The error is a *Fault.
func ParseAdapter(doc any) (*Adapter, error) {
	a, hash, err := read(&adapterDecoder, doc)
	if err != nil {
		return nil, err
	}
	a.Doc, a.SHA256 = doc, hash
	for _, check := range []func() error{a.interfaceFault, a.inputFault, a.outputFault, a.fallbackFault, a.networkFault} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *Adapter) outputFault() error {
	for i, step := range a.Transforms.Output {
		if err := step.Check(); err != nil {
			return fault(element("/transforms/output", i)+"/spec", err.Error(), "")
		}
	}
	return nil
}

func (a *Adapter) interfaceFault() error {
	in := a.Interface
	has := map[Type]bool{CLI: in.CLI != nil, API: in.API != nil, SDK: in.SDK != nil, MCP: in.MCP != nil}
	for _, t := range []Type{CLI, API, SDK, MCP} {
		if has[t] != (t == a.Type) {
			return fault("/interface", "an adapter of type "+string(a.Type)+" describes that interface, and no other", "leave one member, "+string(a.Type))
		}
	}
	switch a.Type {
	case CLI:
		return in.CLI.fault("/interface/cli")
	case API:
		return in.API.fault("/interface/api")
	case SDK:
		return in.SDK.fault("/interface/sdk")
	case MCP:
		return in.MCP.fault("/interface/mcp")
	}
	return fault("/type", "no type of adapter", "use cli, api, sdk or mcp")
}

// CheckTool says what is wrong between an adapter and its tool. The error is a *Fault of
// the adapter's document.
func (a *Adapter) CheckTool(t *Tool) error {
	if a.ToolID != t.ToolID {
		return fault("/tool_id", canon.Quote(a.ToolID)+" is not the tool "+canon.Quote(t.ToolID)+", in whose folder the adapter lies", "move the file, or name the tool")
	}
	for i, step := range a.input {
		if step.byTool && t.params == nil {
			return fault(element("/transforms/input", i)+"/spec", "json_schema means the tool's params, and the tool has none", "give the tool params, or write the schema here")
		}
	}
	return nil
}

// Attach gives an adapter of type mcp the server that it names. The error is a *Fault of the
// adapter's document: a server of the other transport, or a tool that is not pinned.
func (a *Adapter) Attach(s *Server) error {
	in := a.Interface.MCP
	if in == nil {
		return fault("/type", "only an adapter of type mcp has a server", "")
	}
	if (in.Transport == "stdio") != (len(s.Command) > 0) {
		return fault("/interface/mcp/transport", "the server "+canon.Quote(in.Server)+" is not reached by "+in.Transport, "a server with command is reached by stdio, one with url by http")
	}
	for _, operation := range canon.Names(in.ToolMapping) {
		if name := in.ToolMapping[operation]; s.Tools[name] == "" {
			return fault(canon.Pointer("/interface/mcp/tool_mapping", operation), "the tool "+canon.Quote(name)+" is not pinned by the server "+canon.Quote(in.Server), "add its digest to tools of the server's document")
		}
	}
	a.Server = s
	return nil
}

func violated(v *contract.Violation) error { return fault(v.Pointer, v.ID+": "+v.Msg, v.Hint) }

// commandFault checks the form of a command (IV-01). Which commands may run is for the
// policy to say.
func commandFault(at, command string) error {
	if v := contract.CheckCommand(at, command, contract.AllowList{All: true}); v != nil {
		return violated(v)
	}
	return nil
}

// isName says whether a text can be the name of a parameter in a template.
func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}
