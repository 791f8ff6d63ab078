//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// StageInputs copies files of a tree, each once and without following a link. A path of a
// folder stands for all files below it. StageInputs returns an error for more than most
// files or more than bytes bytes. The caller removes the result with Remove.
func (h *Host) StageInputs(tree string, paths []string, most int, bytes int64) (in Inputs, err error) {
	if len(paths) == 0 {
		return Inputs{}, nil
	}
	s := &Sandbox{}
	if err := h.makeScratch(s); err != nil {
		return Inputs{}, err
	}
	in.Dir = s.scratch
	defer func() {
		if err != nil {
			_ = in.Remove()
			in = Inputs{}
		}
	}()
	dir, err := unix.Open(tree, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return in, &InputError{Path: ".", Msg: "the tree cannot be opened: " + err.Error()}
	}
	defer unix.Close(dir)
	c := &stager{tree: dir, to: in.Dir, files: most, left: bytes}
	for _, p := range slices.Sorted(slices.Values(paths)) {
		if err := c.add(p); err != nil {
			return in, err
		}
	}
	in.Files = c.list
	if h.root {
		return in, giveAway(in.Dir, h.id)
	}
	return in, nil
}

type stager struct {
	tree  int
	to    string
	files int
	left  int64
	list  []Input
}

func (c *stager) add(p string) error {
	unread := func(err error) error { return &InputError{Path: p, Msg: inputReason(err)} }
	f, err := tree.OpenPlain(c.tree, p)
	if err != nil {
		return unread(err)
	}
	defer f.Close()
	fd, st := int(f.Fd()), unix.Stat_t{}
	if err := unix.Fstat(fd, &st); err != nil {
		return unread(err)
	}
	switch change.KindOf(st.Mode) {
	case change.KindFile:
		return c.file(f, p, st.Mode&0o111 != 0)
	case change.KindFolder:
		names, err := tree.ReadNames(fd)
		if err != nil {
			return unread(err)
		}
		for _, name := range names {
			if err := c.add(path.Join(p, name)); err != nil {
				return err
			}
		}
		return nil
	}
	return &InputError{Path: p, Msg: "neither a file nor a folder"}
}

func inputReason(err error) string {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return "leads through a symbolic link"
	case errors.Is(err, fs.ErrNotExist):
		return "no such file in the tree"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return err.Error()
}

func (c *stager) file(in io.Reader, p string, executable bool) error {
	if c.files--; c.files < 0 {
		return &InputError{Path: p, Msg: "more files than an execution may read", Limit: true}
	}
	to := filepath.Join(c.to, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o444)
	if executable {
		mode = 0o555
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil // two paths name this file
	}
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, c.left+1))
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	if c.left -= n; c.left < 0 {
		return &InputError{Path: p, Msg: "more bytes than an execution may read", Limit: true}
	}
	i := Input{Path: p, Size: n}
	sum.Sum(i.SHA256[:0])
	c.list = append(c.list, i)
	return nil
}
