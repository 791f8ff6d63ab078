package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/remote/job"
)

// layOut makes the work folder and the tree beneath scratch, from the worker's inputs.
func layOut(ctx context.Context, root *os.Root, scratch string, spec *job.Spec) error {
	if err := checkEntries(spec.Work, spec.Tree); err != nil {
		return err
	}
	if !spec.ShowsTree && len(spec.Tree) > 0 {
		return refuse(job.RefusedSpec, "the spec has a tree and does not show it")
	}
	err := lay(ctx, root, job.WorkDir, filepath.Join(scratch, job.WorkDir), spec.Work)
	if err == nil {
		err = lay(ctx, root, job.TreeDir, filepath.Join(scratch, job.TreeDir), spec.Tree)
	}
	return err
}

// checkEntries refuses lists with too much, and entries that could stand at another place than
// their path says. The parent of each entry is a folder of its list, so no path passes a link.
func checkEntries(lists ...[]job.Entry) error {
	entries, bytes := 0, int64(0)
	for _, list := range lists {
		if entries += len(list); entries > job.MaxEntries {
			return refuse(job.RefusedSpec, "the spec lists more than %d entries", job.MaxEntries)
		}
		folders, last := map[string]bool{".": true}, ""
		for _, e := range list {
			fault := faultOf(e)
			switch {
			case fault != "":
			case e.Path <= last:
				fault = "is listed twice, or not in order"
			case !folders[path.Dir(e.Path)]:
				fault = "lies in no folder of the list"
			}
			if bytes += e.Size; fault == "" && bytes > job.MaxBytes {
				fault = "exceeds the limit on the bytes of all files"
			}
			if fault != "" {
				return refuse(job.RefusedSpec, "the entry %q %s", e.Path, fault)
			}
			last, folders[e.Path] = e.Path, e.Kind == job.Folder
		}
	}
	return nil
}

// faultOf says what is wrong with an entry by itself, or returns "".
func faultOf(e job.Entry) string {
	switch {
	case !fs.ValidPath(e.Path) || e.Path == "." || strings.Contains(e.Path, "\x00"):
		return "is no clean path beneath its folder"
	case e.Mode < 0 || e.Mode > 0o777:
		return "has a mode with other bits than those of permissions"
	case e.Kind != job.File && e.Kind != job.Folder && e.Kind != job.Link:
		return "is of an unknown kind"
	case e.Kind == job.File && (e.Size < 0 || e.Size > job.MaxBytes || !e.SHA256.Valid()):
		return "has no size or no hash that a file can have"
	case e.Kind != job.File && e.Size != 0:
		return "has a size and is no file"
	case (e.Kind == job.Link) != (e.Target != "") || strings.Contains(e.Target, "\x00"):
		return "is a link without a target, or has a target and is no link"
	}
	return ""
}

// laying is a folder that is laid out.
type laying struct {
	ctx     context.Context
	name    string // of the folder in the action
	in, out *os.Root
	missing map[string]job.Entry // files that the worker has not shown yet
	folders map[string]bool
}

// lay makes the folder to with what a list has. Folders and links are made. Files are copied from
// the folder of that name in the action, which must have exactly the files of the list.
func lay(ctx context.Context, root *os.Root, name, to string, list []job.Entry) error {
	if err := errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, 0o755)); err != nil { // whatever the umask is
		return err
	}
	out, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer out.Close()
	l := &laying{ctx: ctx, name: name, out: out, missing: map[string]job.Entry{}, folders: map[string]bool{".": true}}
	for _, e := range list {
		switch e.Kind {
		case job.Folder:
			l.folders[e.Path] = true
			err = out.Mkdir(e.Path, 0o700)
		case job.Link:
			err = out.Symlink(e.Target, e.Path)
		case job.File:
			l.missing[e.Path] = e
		}
		if err != nil {
			return err
		}
	}
	if err := l.files(root); err != nil {
		return err
	}
	for _, e := range list {
		if _, missing := l.missing[e.Path]; missing {
			return l.refuse(e.Path, "is missing")
		}
	}
	for _, e := range slices.Backward(list) {
		if e.Kind == job.Folder {
			err = errors.Join(err, out.Chmod(e.Path, fs.FileMode(e.Mode)))
		}
	}
	return err
}

func (l *laying) refuse(p, fault string) error {
	return refuse(job.RefusedInputs, "the worker's input %q %s: the worker or its storage is broken", path.Join(l.name, p), fault)
}

// files copies all files that the worker has. A worker that has no file of a folder does not
// make the folder. Some workers make the folder itself a link to their cache, so such a link is
// followed, and no other.
func (l *laying) files(root *os.Root) error {
	in, err := os.OpenRoot(filepath.Join(root.Name(), l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.refuse("", "cannot be opened as a folder ("+err.Error()+")")
	}
	defer in.Close()
	l.in = in
	return fs.WalkDir(in.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		e, listed := l.missing[p]
		switch {
		case d.IsDir() && l.folders[p]:
			return nil
		case d.IsDir() || !listed:
			return l.refuse(p, "is not what the spec lists there")
		case !d.Type().IsRegular():
			return l.refuse(p, "is no regular file")
		}
		delete(l.missing, p)
		return l.file(e)
	})
}

// file copies a file and holds the copied bytes against its entry.
func (l *laying) file(e job.Entry) error {
	in, err := l.in.OpenFile(e.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := l.out.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(job.Until(l.ctx, in), e.Size+1))
	err = errors.Join(err, out.Chmod(fs.FileMode(e.Mode)), out.Close())
	if err == nil && (n != e.Size || evidence.Hash([32]byte(sum.Sum(nil))) != e.SHA256) {
		err = l.refuse(e.Path, "has other bytes than the spec lists")
	}
	return err
}
