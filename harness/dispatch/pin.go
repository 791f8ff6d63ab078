package dispatch

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// Pinned is the document of an MCP server that is to be pinned. The folder needs no index.
type Pinned struct {
	File   string // its name in the folder
	Server *adapter.Server

	folder folder
	src    []byte
}

// ReadServer reads the document of a server. The error is a RunError.
func ReadServer(set *specs.Set, dir, name string) (*Pinned, error) {
	f, err := openFolder(set, dir)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	if !idForm().MatchString(name) {
		return nil, f.fault(serversFolder, canon.Quote(name)+" is no name of a server", "name a document of the folder servers, without its suffix")
	}
	p := &Pinned{folder: f}
	if p.File, err = f.named(serversFolder + "/" + name); err != nil {
		return nil, err
	}
	if p.Server, _, err = f.server(p.File); err != nil {
		return nil, err
	}
	if p.src, err = f.bytes(p.File, MaxBytes); err != nil {
		return nil, f.fault(p.File, "the document cannot be read again", "")
	}
	return p, nil
}

// toolsBlock is the member tools of a document in YAML, with its lines.
var toolsBlock = regexp.MustCompile(`(?m)^(tools|"tools"|'tools') *:.*\n?(^([ \t].*)?(\n|\z))*`)

// With returns the document with these digests of tools as its member tools. Everything else
// stays as it is written. The error is a RunError: the text is written in a way that only a
// person can change.
func (p *Pinned) With(tools map[string]canon.ContentHash) ([]byte, error) {
	want := map[string]any{}
	for name, digest := range tools {
		want[name] = string(digest)
	}
	src, err := p.edited(tools, want)
	if err == nil {
		var text document.Text
		text, err = document.Read(p.folder.set, p.folder.shown(p.File), src, form("a server", specs.KindServer))
		if doc := maps.Clone(p.Server.Doc.(map[string]any)); err == nil {
			if doc["tools"] = want; !reflect.DeepEqual(text.Doc.Value(), any(doc)) {
				err = p.folder.fault(p.File, "the member tools cannot be written into this text", "give tools lines of its own, at the end of the document")
			}
		}
	}
	return src, err
}

func (p *Pinned) edited(tools map[string]canon.ContentHash, want map[string]any) ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimSpace(p.src), []byte("{")) {
		doc := maps.Clone(p.Server.Doc.(map[string]any))
		doc["tools"] = want
		src, err := json.MarshalIndent(doc, "", "  ")
		return append(src, '\n'), err
	}
	var block strings.Builder
	block.WriteString("tools:")
	if len(tools) == 0 {
		block.WriteString(" {}")
	}
	block.WriteString("\n")
	for _, name := range canon.Names(tools) {
		quoted, err := canon.Canonical(name)
		if err != nil {
			return nil, err
		}
		block.WriteString("  " + string(quoted) + ": \"" + string(tools[name]) + "\"\n")
	}
	if at := toolsBlock.FindIndex(p.src); at != nil {
		return bytes.Join([][]byte{p.src[:at[0]], []byte(block.String()), p.src[at[1]:]}, nil), nil
	}
	return append(append(bytes.TrimRight(bytes.Clone(p.src), "\n"), '\n'), block.String()...), nil
}
