package packtest

import (
	"slices"

	"github.com/fiador/fiador/evidence/pack"
)

// With returns the pack with another file, or without a file.
func With(p *pack.Pack, name string, text []byte) *pack.Pack {
	files := map[string][]byte{}
	for _, e := range p.Entries {
		files[e.Name] = e.Text
	}
	files[name] = text
	if text == nil {
		delete(files, name)
	}
	return pack.Of(files)
}

// Files returns the files of a pack by name.
func Files(p *pack.Pack) map[string][]byte {
	files := map[string][]byte{}
	for _, e := range p.Entries {
		files[e.Name] = e.Text
	}
	return files
}

// Altered returns the pack with a changed entry.
func Altered(p *pack.Pack, name string, change func(*pack.Entry)) *pack.Pack {
	out := &pack.Pack{Entries: slices.Clone(p.Entries)}
	for i := range out.Entries {
		if out.Entries[i].Name == name {
			change(&out.Entries[i])
		}
	}
	return out
}

// Twice returns the pack as an archive that has a name twice.
func Twice(p *pack.Pack, name string) *pack.Pack {
	return Altered(p, name, func(e *pack.Entry) { e.Twice = true })
}

// Linked returns the pack with a link in the place of a file.
func Linked(p *pack.Pack, name string) *pack.Pack {
	return Altered(p, name, func(e *pack.Entry) { e.Kind, e.Text = pack.KindLink, nil })
}

// More returns the pack as a folder with more names than are read.
func More(p *pack.Pack) *pack.Pack { return &pack.Pack{Entries: p.Entries, More: true} }
