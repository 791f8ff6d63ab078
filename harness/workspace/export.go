package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
)

// Export writes a state into an empty folder. A file comes from the store, or else from its
// path in the folder tree, where it is held against its hash; tree may be empty. The error
// wraps ErrMissing if neither has it.
func (s *Store) Export(ctx context.Context, state receipt.Hash, dir, tree string) error {
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	e := exporter{ctx: ctx, store: s, to: to}
	if tree != "" {
		if e.tree, err = os.OpenRoot(tree); err != nil {
			return err
		}
		defer e.tree.Close()
	}
	return e.folder(".", state)
}

type exporter struct {
	ctx      context.Context
	store    *Store
	to, tree *os.Root
}

func (e exporter) folder(at string, h receipt.Hash) error {
	if err := context.Cause(e.ctx); err != nil {
		return err
	}
	list, err := e.store.node(h)
	if err != nil {
		return err
	}
	for _, c := range list {
		p := path.Join(at, c.Name)
		switch c.Mode {
		case receipt.Folder:
			if err = e.to.Mkdir(filepath.FromSlash(p), 0o777); err == nil {
				err = e.folder(p, c.Hash)
			}
		case receipt.Link:
			var target []byte
			if target, err = e.target(p, c.Hash); err == nil {
				err = e.to.Symlink(string(target), filepath.FromSlash(p))
			}
		default:
			err = e.file(p, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e exporter) target(p string, h receipt.Hash) ([]byte, error) {
	text, err := e.store.read(h, change.MaxPath)
	if !errors.Is(err, ErrMissing) || e.tree == nil {
		return text, err
	}
	if target, linkErr := e.tree.Readlink(filepath.FromSlash(p)); linkErr == nil && receipt.Sum([]byte(target)) == h {
		return []byte(target), nil
	}
	return nil, err
}

func (e exporter) file(p string, c receipt.Entry) error {
	from, err := e.store.open(c.Hash)
	if errors.Is(err, ErrMissing) && e.tree != nil {
		if f, openErr := OpenFile(e.tree, p); openErr == nil {
			from, err = f, nil
		}
	}
	if err != nil {
		return err
	}
	defer from.Close()
	mode := os.FileMode(0o644)
	if c.Mode == receipt.Executable {
		mode = 0o755
	}
	out, err := e.to.OpenFile(filepath.FromSlash(p), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	h, _, err := receipt.Copy(out, from)
	if err == nil && h != c.Hash {
		err = fmt.Errorf("%q has other bytes now: %w", p, ErrMissing)
	}
	return errors.Join(err, out.Chmod(mode), out.Close())
}
