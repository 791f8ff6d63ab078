// Package dispatch owns folders of tools: it writes the index of a folder, reads the documents
// that a call names, and binds the call. Nothing is used whose digest is not in the index.
//
// A folder holds
//
//	tools.json           the index: canonical JSON and a line feed
//	TOOL/tool.yaml       a tool
//	TOOL/ADAPTER.yaml    an adapter of the tool
//	servers/NAME.yaml    an MCP server
//
// or the same names with .json. No link is followed.
package dispatch

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/specs"
)

// IndexVersion is the version of the index's form.
const IndexVersion = "1.0.0"

// Index is the document of tools.json (schema tool-index).
type Index struct {
	Version string          `json:"index_schema_version"`
	Tools   []IndexedTool   `json:"tools"`   // by id
	Servers []IndexedServer `json:"servers"` // by name
}

// IndexedTool is a tool of an index.
type IndexedTool struct {
	ToolID    string            `json:"tool_id"`
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Status    string            `json:"status"`
	Adapters  []IndexedAdapter  `json:"adapters"` // the preferred one first
	File      string            `json:"file"`
	SizeBytes int               `json:"size_bytes"`
	SHA256    canon.ContentHash `json:"sha256"`
}

// IndexedAdapter is an adapter of an index.
type IndexedAdapter struct {
	AdapterID string            `json:"adapter_id"`
	Name      string            `json:"name"`
	ToolID    string            `json:"tool_id"`
	Type      adapter.Type      `json:"type"`
	Version   string            `json:"version"`
	Status    string            `json:"status,omitempty"`
	File      string            `json:"file"`
	SizeBytes int               `json:"size_bytes"`
	SHA256    canon.ContentHash `json:"sha256"`
}

// IndexedServer is an MCP server of an index.
type IndexedServer struct {
	Name      string            `json:"name"`
	File      string            `json:"file"`
	SizeBytes int               `json:"size_bytes"`
	SHA256    canon.ContentHash `json:"sha256"`
}

var indexDecoder canon.Decoder[Index]

const staleHint = "fiador tool index writes the index of the folder again; look first at what has changed"

// Registry is a folder of tools whose index was read. It reads each document once, when a
// call first needs it. One goroutine uses it at a time.
type Registry struct {
	folder
	index   Index
	sha256  canon.ContentHash
	tools   map[string]*adapter.Tool
	adapt   map[string]map[string]*adapter.Adapter // by tool and adapter
	servers map[string]*adapter.Server
}

// Open opens a folder of tools and reads its index alone. The error is a RunError: RUN_E002
// for an index that is no strict JSON, otherwise RUN_E004.
func Open(set *specs.Set, dir string) (*Registry, error) {
	f, err := openFolder(set, dir)
	if err != nil {
		return nil, err
	}
	r := &Registry{folder: f, tools: map[string]*adapter.Tool{}, adapt: map[string]map[string]*adapter.Adapter{}, servers: map[string]*adapter.Server{}}
	if err := r.readIndex(); err != nil {
		_ = f.root.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the folder.
func (r *Registry) Close() error { return r.root.Close() }

func (r *Registry) readIndex() error {
	src, err := r.bytes(IndexFile, maxIndex)
	if err != nil {
		return r.fault(IndexFile, "the index cannot be read: "+runerr.Reason(err), staleHint)
	}
	text, ended := bytes.CutSuffix(src, []byte("\n"))
	index, ok := skim(string(text))
	if !ok || !ended || len(src) > maxIndex {
		if index, err = r.parseIndex(text, ended); err != nil {
			return err
		}
	}
	r.index, r.sha256 = *index, canon.Sum(src)
	return nil
}

// parseIndex reads an index, and words its faults. ended says that a line feed followed it.
func (f folder) parseIndex(text []byte, ended bool) (*Index, error) {
	doc, err := canon.ParseCanonical(text, maxIndex-1)
	if parse, ok := errors.AsType[*canon.Error](err); ok && parse.Kind != canon.KindCanonical {
		return nil, runerr.Read(runerr.Text{Name: f.shown(IndexFile), Src: text}, err)
	}
	if err != nil || !ended {
		return nil, f.fault(IndexFile, "the index is not canonical JSON with a line feed", staleHint)
	}
	violations, err := f.set.Validate(specs.KindToolIndex, doc.Value())
	if err != nil {
		return nil, runerr.Internal("the index could not be held against its schema", err)
	}
	if len(violations) > 0 {
		return nil, f.fault(IndexFile, violations[0].Pointer+": "+violations[0].Msg, staleHint)
	}
	index, err := indexDecoder.Decode(doc.Value())
	if err != nil {
		return nil, runerr.Internal("the index fits its schema and is no index", err)
	}
	return index, nil
}

// SHA256 returns the digest of the index.
func (r *Registry) SHA256() canon.ContentHash { return r.sha256 }

// Index returns the index.
func (r *Registry) Index() Index { return r.index }

// Has says whether the index has a tool.
func (r *Registry) Has(toolID string) bool { return r.indexed(toolID) != nil }

func (r *Registry) indexed(toolID string) *IndexedTool {
	for i := range r.index.Tools {
		if r.index.Tools[i].ToolID == toolID {
			return &r.index.Tools[i]
		}
	}
	return nil
}

// stale refuses a document that is not the one of the index.
func (r *Registry) stale(name string, got, want canon.ContentHash) error {
	if got == want {
		return nil
	}
	return r.fault(name, "the document is not the one of the index: it has the digest "+string(got)+", and the index "+string(want), staleHint)
}

// Tool reads a tool that the index has. It returns nil for any other id.
func (r *Registry) Tool(toolID string) (*adapter.Tool, error) {
	at := r.indexed(toolID)
	if at == nil || r.tools[toolID] != nil {
		return r.tools[toolID], nil
	}
	t, _, err := r.tool(at.File)
	if err != nil {
		return nil, err
	}
	if err := r.stale(at.File, t.SHA256, at.SHA256); err != nil {
		return nil, err
	}
	r.tools[toolID], r.adapt[toolID] = t, map[string]*adapter.Adapter{}
	return t, nil
}

// Adapter reads an adapter of a tool. It returns nil for an id that the index does not have.
func (r *Registry) Adapter(toolID, adapterID string) (*adapter.Adapter, error) {
	t, err := r.Tool(toolID)
	if err != nil || t == nil {
		return nil, err
	}
	if a := r.adapt[toolID][adapterID]; a != nil {
		return a, nil
	}
	list := r.indexed(toolID).Adapters
	i := slices.IndexFunc(list, func(a IndexedAdapter) bool { return a.AdapterID == adapterID })
	if i < 0 {
		return nil, nil
	}
	a, _, _, err := r.adapter(t, list[i].File, r.Server)
	if err != nil {
		return nil, err
	}
	if err := r.stale(list[i].File, a.SHA256, list[i].SHA256); err != nil {
		return nil, err
	}
	r.adapt[toolID][adapterID] = a
	return a, nil
}

// Server reads an MCP server. It returns nil for a name that the index does not have.
func (r *Registry) Server(name string) (*adapter.Server, error) {
	i := slices.IndexFunc(r.index.Servers, func(s IndexedServer) bool { return s.Name == name })
	if i < 0 || r.servers[name] != nil {
		return r.servers[name], nil
	}
	s, _, err := r.server(r.index.Servers[i].File)
	if err != nil {
		return nil, err
	}
	if err := r.stale(r.index.Servers[i].File, s.SHA256, r.index.Servers[i].SHA256); err != nil {
		return nil, err
	}
	r.servers[name] = s
	return s, nil
}

// Call is a call of a tool that is bound to an adapter and to its fallbacks.
type Call struct {
	Tool  *adapter.Tool
	Bound []*adapter.Bound // of the first adapter, then of each fallback in order
}

// called begins a call: it reads the tool and its adapter, and says whether the tool is active.
// An empty adapterID becomes the first adapter of the tool. There is no call if the tool or
// the adapter is unknown.
func (r *Registry) called(toolID string, adapterID *string) (*Call, []adapter.Finding, error) {
	t, err := r.Tool(toolID)
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		return nil, []adapter.Finding{{Code: finding.ToolUnknown, Value: canon.Cut(toolID), Why: "the index has no such tool"}}, nil
	}
	*adapterID = cmp.Or(*adapterID, t.Adapters[0])
	a, err := r.Adapter(toolID, *adapterID)
	if err != nil {
		return nil, nil, err
	}
	if a == nil {
		return nil, []adapter.Finding{{Code: finding.AdapterUnknown, Value: canon.Cut(*adapterID), Why: "the tool has no such adapter"}}, nil
	}
	var list []adapter.Finding
	if t.Status != adapter.Active {
		list = append(list, adapter.Finding{Code: finding.ToolInactive, Value: t.Status, Why: "the tool is not active"})
	}
	return &Call{Tool: t}, list, nil
}

// Command binds the command of an execution request to the adapter that the request names. The
// command must be the adapter's executable; its arguments are those of the request, and no
// fallback follows. Pointers of findings lead into the action.
func (r *Registry) Command(toolID, adapterID string, argv []string) (*Call, []adapter.Finding, error) {
	call, list, err := r.called(toolID, &adapterID)
	if call == nil {
		return nil, list, err
	}
	a := r.adapt[toolID][adapterID]
	if cli := a.Interface.CLI; cli != nil && argv[0] != cli.Executable {
		list = append(list, adapter.Finding{Code: finding.ParamsInvalid, Pointer: "/argv/0", Why: "the command is not " + cli.Executable + ", the executable of adapter " + adapterID})
	}
	call.Bound = []*adapter.Bound{{Adapter: a, Argv: argv, Hosts: a.Override.Network.Allow}}
	return call, list, nil
}

// Bind binds a call. Without adapterID it takes the first adapter of the tool. Pointers of
// findings lead into params. With findings but tool_inactive there is no call: the tool or
// the adapter is unknown, or one of the chain cannot take the parameters. The error is a
// RunError about the folder.
func (r *Registry) Bind(toolID, adapterID string, params map[string]any) (*Call, []adapter.Finding, error) {
	call, list, err := r.called(toolID, &adapterID)
	if call == nil {
		return nil, list, err
	}
	t := call.Tool
	chain, err := r.chain(toolID, adapterID)
	if err != nil {
		return nil, nil, err
	}
	for i, a := range chain {
		bound, found := adapter.Bind(t, a, params)
		for _, f := range found {
			if i > 0 {
				f.Why = canon.Cut("fallback " + a.AdapterID + ": " + f.Why)
			}
			list = append(list, f)
		}
		call.Bound = append(call.Bound, bound)
	}
	if slices.Contains(call.Bound, nil) {
		call = nil
	}
	return call, list, nil
}

// chain reads an adapter and its fallbacks. It returns nil if the tool does not have the
// first. A chain that is too long, or that leads back, is a fault of Chain.
func (r *Registry) chain(toolID, first string) ([]*adapter.Adapter, error) {
	for id, n := first, 0; n < MaxAdapters; n++ {
		a, err := r.Adapter(toolID, id)
		if err != nil || a == nil && n == 0 {
			return nil, err
		}
		if a == nil || a.Errors.Fallback == nil {
			break
		}
		id = a.Errors.Fallback.AdapterID
	}
	chain, id, err := adapter.Chain(r.adapt[toolID], first)
	if err != nil {
		return nil, r.fault(toolID+"/"+id, err.Error(), "fiador tool check says in which line")
	}
	return chain, nil
}
