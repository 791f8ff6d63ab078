package dispatch

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// documents are all the documents of a folder.
type documents struct {
	folder
	files    map[string]file // by tool, tool/adapter and servers/name
	tools    map[string]*adapter.Tool
	adapters map[string]map[string]*adapter.Adapter
	servers  map[string]*adapter.Server
}

// file is the name and the size of a document.
type file struct {
	name string
	size int
}

// MakeIndex reads and checks every document of a folder, and returns its index as canonical
// JSON with a line feed. current says whether the folder has that index already. The error is
// a RunError: RUN_E001 for a document that is too large, RUN_E002 for one that is not strict,
// RUN_E004 for everything else.
func MakeIndex(set *specs.Set, dir string) (index []byte, current bool, err error) {
	d, index, err := readFolder(set, dir)
	if err != nil {
		return nil, false, err
	}
	return index, d.hasIndex(index), d.root.Close()
}

// hasIndex says whether the folder has this index.
func (f folder) hasIndex(index []byte) bool {
	was, err := f.bytes(IndexFile, len(index))
	return err == nil && bytes.Equal(was, index)
}

// readFolder reads every document of a folder, which it leaves open.
func readFolder(set *specs.Set, dir string) (*documents, []byte, error) {
	f, err := openFolder(set, dir)
	if err != nil {
		return nil, nil, err
	}
	d := &documents{folder: f, files: map[string]file{}, tools: map[string]*adapter.Tool{}, adapters: map[string]map[string]*adapter.Adapter{}, servers: map[string]*adapter.Server{}}
	if err := d.readAll(); err != nil {
		_ = f.root.Close()
		return nil, nil, err
	}
	index, _, err := canon.Artifact(d.makeIndex())
	if err != nil {
		_ = f.root.Close()
		return nil, nil, runerr.Internal("the index has no canonical form", err)
	}
	return d, index, nil
}

// readAll reads the servers, then the tools with their adapters. Files of the folder itself
// but the index, and names that begin with a dot, are no documents.
func (d *documents) readAll() error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return d.fault(".", runerr.Reason(err), "make it readable")
	}
	var ids []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, ".") || e.Type().IsRegular():
		case !e.IsDir():
			return d.fault(name, "a link, or no regular file", "put the file itself into the folder")
		case name == serversFolder:
			if err := d.readServers(); err != nil {
				return err
			}
		case !idForm.Get().MatchString(name):
			return d.fault(name, "the name of the folder is no id", "an id has letters, digits, dots, underscores and hyphens, and at most 64")
		default:
			ids = append(ids, name)
		}
	}
	if len(ids) > MaxTools {
		return d.fault(".", "more than "+strconv.Itoa(MaxTools)+" tools", "divide the folder")
	}
	for _, id := range ids {
		if err := d.readTool(id); err != nil {
			return err
		}
	}
	return nil
}

// stems returns the names of the documents in a folder without their notation, each once.
func (d *documents) stems(dir string) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), dir)
	if err != nil {
		return nil, d.fault(dir, runerr.Reason(err), "make it readable")
	}
	var stems []string
	for _, e := range entries {
		suffix := path.Ext(e.Name())
		stem := strings.TrimSuffix(e.Name(), suffix)
		if e.IsDir() || !slices.Contains(suffixes, suffix) || strings.HasPrefix(stem, ".") {
			continue
		}
		if !idForm.Get().MatchString(stem) {
			return nil, d.fault(path.Join(dir, e.Name()), "the name of the file is no id", "an id has letters, digits, dots, underscores and hyphens, and at most 64")
		}
		stems = append(stems, stem)
	}
	slices.Sort(stems)
	return slices.Compact(stems), nil
}

func (d *documents) readServers() error {
	stems, err := d.stems(serversFolder)
	if err != nil {
		return err
	}
	if len(stems) > MaxTools {
		return d.fault(serversFolder, "more than "+strconv.Itoa(MaxTools)+" servers", "divide the folder")
	}
	for _, stem := range stems {
		key := serversFolder + "/" + stem
		name, err := d.named(key)
		if err != nil {
			return err
		}
		s, size, err := d.server(name)
		if err != nil {
			return err
		}
		d.servers[stem], d.files[key] = s, file{name, size}
	}
	return nil
}

func (d *documents) readTool(id string) error {
	name, err := d.named(id + "/" + toolFile)
	if err != nil {
		return err
	}
	t, size, err := d.tool(name)
	if err != nil {
		return err
	}
	d.tools[id], d.adapters[id], d.files[id] = t, map[string]*adapter.Adapter{}, file{name, size}
	stems, err := d.stems(id)
	if err != nil {
		return err
	}
	for _, stem := range stems {
		if stem != toolFile && !slices.Contains(t.Adapters, stem) {
			return d.fault(id+"/"+stem, "the tool does not list this adapter", "add it to adapters of the tool, or remove the file")
		}
	}
	texts := map[string]document.Text{}
	for _, adapterID := range t.Adapters {
		name, err := d.named(id + "/" + adapterID)
		if err != nil {
			return err
		}
		a, text, size, err := d.adapter(t, name, func(name string) (*adapter.Server, error) { return d.servers[name], nil })
		if err != nil {
			return err
		}
		texts[adapterID], d.adapters[id][adapterID], d.files[id+"/"+adapterID] = text, a, file{name, size}
	}
	for _, adapterID := range t.Adapters {
		if _, of, err := adapter.Chain(d.adapters[id], adapterID); err != nil {
			return at(texts[of], err)
		}
	}
	return nil
}

// makeIndex is the index of documents that were read.
func (d *documents) makeIndex() Index {
	index := Index{Version: IndexVersion, Tools: []IndexedTool{}, Servers: []IndexedServer{}}
	for _, id := range canon.Names(d.tools) {
		t, f := d.tools[id], d.files[id]
		tool := IndexedTool{ToolID: id, Name: t.Name, Version: t.Version, Status: t.Status, File: f.name, SizeBytes: f.size, SHA256: t.SHA256}
		for _, adapterID := range t.Adapters {
			a, f := d.adapters[id][adapterID], d.files[id+"/"+adapterID]
			tool.Adapters = append(tool.Adapters, IndexedAdapter{
				AdapterID: adapterID, Name: a.Name, ToolID: id, Type: a.Type, Version: a.Version, Status: a.Metadata.Status,
				File: f.name, SizeBytes: f.size, SHA256: a.SHA256,
			})
		}
		index.Tools = append(index.Tools, tool)
	}
	for _, name := range canon.Names(d.servers) {
		f := d.files[serversFolder+"/"+name]
		index.Servers = append(index.Servers, IndexedServer{Name: name, File: f.name, SizeBytes: f.size, SHA256: d.servers[name].SHA256})
	}
	return index
}
