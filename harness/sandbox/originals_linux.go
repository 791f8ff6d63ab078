//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// Originals calls yield for each entry of Work, Delta and Inputs as they lie over one another,
// with a function that opens a file. A folder comes before what is in it. It ends at the first
// error. A folder whose entry is .git has no content.
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
	return was.originals(".", hosts, yield)
}

func (l layers) originals(folder string, hosts map[int]string, yield func(Original, func() (*os.File, error)) error) error {
	names, err := l.names(folder)
	if err != nil {
		return &fs.PathError{Op: "list", Path: folder, Err: err}
	}
	for _, name := range names {
		p := path.Join(folder, name)
		layer, st := l.find(p)
		if st == nil {
			continue // gone in the meantime
		}
		o := Original{Path: p, Kind: change.KindOf(st.Mode), Mode: st.Mode & 0o777, Size: st.Size, Seen: change.SeenAs(st), Host: filepath.Join(hosts[layer], p)}
		if o.Kind == change.KindLink {
			if o.Target, err = tree.ReadLink(layer, p); err != nil {
				return err
			}
		}
		if err := yield(o, func() (*os.File, error) { return openPlain(layer, p) }); err != nil {
			return err
		}
		if o.Kind == change.KindFolder && name != ".git" {
			if err := l.originals(p, hosts, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// openPlain opens a file of the user's, whose mode it leaves as it is.
func openPlain(layer int, p string) (*os.File, error) {
	fd, err := tree.Beneath(layer, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p), nil
}
