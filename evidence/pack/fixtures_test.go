package pack

import "slices"

// with returns the pack with another file, or without a file.
func with(p *Pack, name string, text []byte) *Pack {
	files := map[string][]byte{}
	for _, e := range p.Entries {
		files[e.Name] = e.Text
	}
	files[name] = text
	if text == nil {
		delete(files, name)
	}
	return Of(files)
}

func filesOf(p *Pack) map[string][]byte {
	files := map[string][]byte{}
	for _, e := range p.Entries {
		files[e.Name] = e.Text
	}
	return files
}

func altered(p *Pack, name string, change func(*Entry)) *Pack {
	out := &Pack{Entries: slices.Clone(p.Entries)}
	for i := range out.Entries {
		if out.Entries[i].Name == name {
			change(&out.Entries[i])
		}
	}
	return out
}

func twice(p *Pack, name string) *Pack {
	return altered(p, name, func(e *Entry) { e.Twice = true })
}

func linked(p *Pack, name string) *Pack {
	return altered(p, name, func(e *Entry) { e.Kind, e.Text = KindLink, nil })
}

func more(p *Pack) *Pack { return &Pack{Entries: p.Entries, More: true} }
