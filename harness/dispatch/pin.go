package dispatch

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
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
	if !idForm.Get().MatchString(name) {
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
var toolsBlock = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(tools|"tools"|'tools') *:.*\n?(^([ \t].*)?(\n|\z))*`)
}}

// With returns the document with these digests of tools as its member tools. Everything else
// stays as it is written. The error is a RunError: the text is written in a way that only a
// person can change.
func (p *Pinned) With(tools map[string]canon.ContentHash) ([]byte, error) {
	src, err := p.edited(tools)
	if err != nil {
		return nil, runerr.Internal("the document of a server has no text", err)
	}
	text, err := document.Read(p.folder.set, p.folder.shown(p.File), src, form("a server", specs.KindServer))
	if err != nil {
		return nil, err
	}
	want := *p.Server
	want.Tools = tools
	if got, err := adapter.ParseServer(text.Doc.Value()); err != nil || !same(got, &want) {
		return nil, p.folder.fault(p.File, "the member tools cannot be written into this text", "give tools lines of its own, at the end of the document")
	}
	return src, nil
}

func same(a, b *adapter.Server) bool {
	left, err := canon.Canonical(*a)
	right, otherErr := canon.Canonical(*b)
	return err == nil && otherErr == nil && bytes.Equal(left, right)
}

func (p *Pinned) edited(tools map[string]canon.ContentHash) ([]byte, error) {
	if doc, ok := p.Server.Doc.(map[string]any); ok && bytes.HasPrefix(bytes.TrimSpace(p.src), []byte("{")) {
		doc = maps.Clone(doc)
		doc["tools"] = tools
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
	if at := toolsBlock.Get().FindIndex(p.src); at != nil {
		return bytes.Join([][]byte{p.src[:at[0]], []byte(block.String()), p.src[at[1]:]}, nil), nil
	}
	return append(append(bytes.TrimRight(bytes.Clone(p.src), "\n"), '\n'), block.String()...), nil
}
