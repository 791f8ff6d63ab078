package dispatch

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/lazy"
	"github.com/fiador/fiador/specs"
)

// The limits of a folder of tools.
const (
	MaxBytes    = 256 << 10 // of a document
	MaxTools    = 1000
	MaxAdapters = 16 // of one tool
	maxIndex    = 16 << 20
)

// The fixed names in a folder of tools.
const (
	IndexFile     = "tools.json"
	toolFile      = "tool"
	serversFolder = "servers"
)

// suffixes are the names of the two notations.
var suffixes = []string{".yaml", ".json"}

func form(name string, kind specs.Kind) document.Form {
	return document.Form{Name: name, Schema: kind, MaxBytes: MaxBytes, Invalid: result.CodeProfile, TooLarge: "a document of a tool is small; leave data out of it"}
}

// folder is an open folder of tools.
type folder struct {
	root *os.Root
	name string // for messages
	set  *specs.Set
}

func openFolder(set *specs.Set, dir string) (folder, error) {
	f := folder{name: screen.Folder(dir), set: set}
	var err error
	if f.root, err = os.OpenRoot(dir); err != nil {
		return f, runerr.New(result.CodeProfile, "the folder of tools "+canon.Quote(f.name)+": "+runerr.Reason(err), "name a folder that fiador tool index has prepared", runerr.Because(err))
	}
	return f, nil
}

func (f folder) shown(name string) string { return screen.Plain(path.Join(f.name, name)) }

// fault is the RunError for a folder that cannot be used.
func (f folder) fault(name, msg, hint string) *result.RunError {
	return runerr.New(result.CodeProfile, f.shown(name)+": "+msg, hint, runerr.File(f.shown(name)))
}

var errNotRegular = errors.New("not a regular file")

// bytes reads a regular file, and one byte more than the limit at most. Neither the file
// nor a folder on the way may be a link.
func (f folder) bytes(name string, most int) ([]byte, error) {
	var info fs.FileInfo
	for at := range prefixes(name) {
		var err error
		if info, err = f.root.Lstat(at); err != nil {
			return nil, err
		}
		if at != name && !info.IsDir() {
			return nil, errNotRegular
		}
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errNotRegular
	}
	var b bytes.Buffer
	b.Grow(int(min(info.Size(), int64(most))) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(file, int64(most)+1))
	return b.Bytes(), err
}

// prefixes yields the folders on the way to a file, and the file.
func prefixes(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
		yield(name)
	}
}

// read reads a document of the folder. The error is a RunError.
func (f folder) read(name string, form document.Form) (document.Text, int, error) {
	src, err := f.bytes(name, MaxBytes)
	switch {
	case errors.Is(err, errNotRegular):
		return document.Text{}, 0, f.fault(name, "a link, or no regular file", "put the file itself into the folder")
	case err != nil:
		return document.Text{}, 0, f.fault(name, runerr.Reason(err), staleHint)
	}
	text, err := document.Read(f.set, f.shown(name), src, form)
	return text, len(src), err
}

// at makes a RunError of a fault of a document. The fault of another type is the program's.
func at(text document.Text, err error) error {
	f, ok := errors.AsType[*adapter.Fault](err)
	if !ok {
		return runerr.Internal("a document of a tool could not be read", err)
	}
	return text.Invalid(f.Pointer, f.Msg, cmp.Or(f.Hint, "specs/tools.md says what may stand there"))
}

func (f folder) tool(name string) (*adapter.Tool, int, error) {
	text, size, err := f.read(name, form("a tool", specs.KindTool))
	if err != nil {
		return nil, 0, err
	}
	t, err := adapter.ParseTool(text.Doc.Value())
	if err != nil {
		return nil, 0, at(text, err)
	}
	if dir := path.Dir(name); t.ToolID != dir {
		return nil, 0, text.Invalid("/tool_id", "the tool lies in the folder "+dir, "name the folder as the tool")
	}
	return t, size, nil
}

func (f folder) server(name string) (*adapter.Server, int, error) {
	text, size, err := f.read(name, form("a server", specs.KindServer))
	if err != nil {
		return nil, 0, err
	}
	s, err := adapter.ParseServer(text.Doc.Value())
	if err != nil {
		return nil, 0, at(text, err)
	}
	if s.URL != "" {
		if msg, hint := model.BaseFault(s.URL); msg != "" {
			return nil, 0, text.Invalid("/url", msg, hint)
		}
	}
	return s, size, nil
}

// adapter reads the document of an adapter of a tool, and gives it its server.
func (f folder) adapter(t *adapter.Tool, name string, server func(name string) (*adapter.Server, error)) (*adapter.Adapter, document.Text, int, error) {
	text, size, err := f.read(name, form("an adapter", specs.KindAdapter))
	if err != nil {
		return nil, text, 0, err
	}
	doc, err := ordered(text)
	if err != nil {
		return nil, text, 0, err
	}
	a, err := adapter.ParseAdapter(doc)
	if err == nil {
		err = a.CheckTool(t)
	}
	if err != nil {
		return nil, text, 0, at(text, err)
	}
	if id := strings.TrimSuffix(path.Base(name), path.Ext(name)); a.AdapterID != id {
		return nil, text, 0, text.Invalid("/adapter_id", "the adapter lies in a file of the name "+id, "name the file as the adapter")
	}
	if a.Type == adapter.MCP {
		s, err := server(a.Interface.MCP.Server)
		if err != nil {
			return nil, text, 0, err
		}
		if s == nil {
			return nil, text, 0, text.Invalid("/interface/mcp/server", "the folder has no server of this name", "add servers/NAME.yaml")
		}
		if err := a.Attach(s); err != nil {
			return nil, text, 0, at(text, err)
		}
	}
	return a, text, size, addressFault(a, text)
}

// ordered returns the document with arg_order: the names of arg_mapping as the text orders
// them. The document is not changed.
func ordered(text document.Text) (any, error) {
	doc, _ := text.Doc.Value().(map[string]any)
	in, _ := doc["interface"].(map[string]any)
	cli, _ := in["cli"].(map[string]any)
	const at = "/interface/cli"
	if _, given := cli["arg_order"]; given {
		return nil, text.Invalid(at+"/arg_order", "the file itself has arg_order", "leave it out: the order of arg_mapping in the text counts")
	}
	if _, has := cli["arg_mapping"]; !has {
		return doc, nil
	}
	order := []any{}
	for _, name := range text.Order(at + "/arg_mapping") {
		order = append(order, name)
	}
	doc, in, cli = maps.Clone(doc), maps.Clone(in), maps.Clone(cli)
	cli["arg_order"], in["cli"], doc["interface"] = order, cli, in
	return doc, nil
}

// addressFault checks the address of a service: its form, and that the adapter lists its
// host.
func addressFault(a *adapter.Adapter, text document.Text) error {
	address, where := "", "/interface/mcp/server"
	switch {
	case a.Type == adapter.API:
		address, where = a.Interface.API.BaseURL, "/interface/api/base_url"
	case a.Type == adapter.MCP:
		address = a.Server.URL
	}
	if address == "" {
		return nil
	}
	if msg, hint := model.BaseFault(address); msg != "" {
		return text.Invalid(where, msg, hint)
	}
	const hint = "add it to sandbox_override.network.allow, as private:localhost:PORT for http"
	if !listed(address, a.Override.Network.Allow) {
		return text.Invalid(where, "the host and port of the address are not in the adapter's list of hosts", hint)
	}
	if a.Type == adapter.API && a.Interface.API.Auth != nil && a.Interface.API.Auth.TokenURL != "" {
		address, where = a.Interface.API.Auth.TokenURL, "/interface/api/auth/token_url"
		if msg, hint := model.BaseFault(address); msg != "" {
			return text.Invalid(where, msg, hint)
		}
		if !listed(address, a.Override.Network.Allow) {
			return text.Invalid(where, "the host and port of the address are not in the adapter's list of hosts", hint)
		}
	}
	return nil
}

// listed says whether a list has the host and the port of an address.
func listed(address string, list []string) bool {
	u, err := url.Parse(address)
	allow, _, wrong := contract.ParseHosts(list)
	if err != nil || wrong != "" {
		return false
	}
	_, ok := outbound.Listed(u, contract.Hosts{Allow: allow})
	return ok
}

var idForm = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) }}

// named returns the one document of a name, in one of the two notations.
func (f folder) named(stem string) (string, error) {
	var found []string
	for _, suffix := range suffixes {
		if _, err := f.root.Lstat(stem + suffix); err == nil {
			found = append(found, stem+suffix)
		}
	}
	switch len(found) {
	case 0:
		return "", f.fault(stem+suffixes[0], "the file is not there", "write it, or take its name out of the folder")
	case 1:
		return found[0], nil
	}
	return "", f.fault(found[1], "the folder has "+found[0]+" too", "keep one of them")
}
