//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// Originals calls yield for each entry of Work, Delta and Inputs as they lie over one another,
// with a function that opens a file. A folder comes before what is in it. It ends at the first
// error, and what cannot be read is one. A folder whose entry is .git has no content.
func (r Request) Originals(yield func(o Original, open func() (*os.File, error)) error) error {
	folders := []string{r.Inputs, r.Delta, r.Work}
	was, err := openLayers(folders...)
	defer was.close()
	if err != nil {
		return err
	}
	hosts := map[int]string{}
	for _, dir := range folders {
		if dir != "" {
			hosts[was[len(hosts)]] = dir
		}
	}
	return was.originals(r, ".", hosts, yield)
}

func (l layers) originals(r Request, folder string, hosts map[int]string, yield func(Original, func() (*os.File, error)) error) error {
	shown := r.Shows(folder) || r.Passes(folder)
	names, err := l.names(folder, shown)
	if err != nil && shown {
		return &fs.PathError{Op: "list", Path: folder, Err: err}
	}
	for _, name := range names {
		p := path.Join(folder, name)
		layer, st, err := l.look(p)
		if err != nil && (r.Shows(p) || r.Passes(p)) {
			return &fs.PathError{Op: "look at", Path: p, Err: err}
		}
		if st == nil {
			continue // gone in the meantime
		}
		o := Original{Path: p, Kind: change.KindOf(st.Mode), Mode: st.Mode & 0o777, Size: st.Size, Seen: change.SeenAs(st), Host: filepath.Join(hosts[layer], p)}
		if o.Kind == change.KindLink {
			if o.Target, err = tree.ReadLink(layer, p); err != nil {
				return err
			}
		}
		if err := yield(o, func() (*os.File, error) { return tree.OpenPlain(layer, p) }); err != nil {
			return err
		}
		if o.Kind == change.KindFolder && name != ".git" {
			if err := l.originals(r, p, hosts, yield); err != nil {
				return err
			}
		}
	}
	return nil
}
