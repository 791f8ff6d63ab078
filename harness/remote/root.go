package remote

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// input is a file of the input root, as the helper reads it.
type input struct {
	Path       string `json:"path"`
	SHA256     string `json:"sha256"`
	Size       int64  `json:"size"`
	Executable bool   `json:"executable"`
	Source     string `json:"source"`
}

// writeRoot writes the list of inputs.
func writeRoot(name string, list []input) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, in := range list {
		if err == nil {
			err = enc.Encode(in)
		}
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// original is what the work folder had at a path when it was read.
type original struct {
	kind change.Kind
	sum  [32]byte
	size int64
	seen *change.Seen
}

// originals are the entries of the work folder. They do not change with the folder.
type originals struct {
	at    map[string]original
	paths []string // sorted
}

// below yields the paths beneath a folder.
func (o *originals) below(folder string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, _ := slices.BinarySearch(o.paths, folder+"/")
		for _, p := range o.paths[from:] {
			if !strings.HasPrefix(p, folder+"/") || !yield(p) {
				return
			}
		}
	}
}

// collector reads folders for an input root.
type collector struct {
	ctx     context.Context
	list    []input
	entries int
	bytes   int64
}

// folder reads what a sandbox would show of a folder. was also gets what commands cannot see; it
// may be nil.
func (c *collector) folder(at string, r sandbox.Request, was *originals) ([]job.Entry, error) {
	var entries []job.Entry
	err := r.Originals(func(o sandbox.Original, open func() (*os.File, error)) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.count(o); err != nil {
			return err
		}
		shown := r.Shows(o.Path) || o.Kind == change.KindFolder && r.Passes(o.Path)
		sum, err := c.hash(o, open)
		switch {
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case err != nil && shown:
			return unsent(o.Path, "cannot be read: "+runerr.Reason(err), "let it be read, or keep it out of the folder")
		case err != nil:
			return nil // commands cannot see it: a sandbox here takes it for no entry too
		}
		if was != nil {
			was.at[o.Path] = original{o.Kind, sum, o.Size, o.Seen}
			was.paths = append(was.paths, o.Path)
		}
		if !shown || o.Kind != change.KindFolder && path.Base(o.Path) == ".git" {
			return nil
		}
		e, err := c.entry(at, o, sum)
		entries = append(entries, e)
		return err
	})
	if unread, ok := errors.AsType[*fs.PathError](err); ok {
		err = unsent(unread.Path, "cannot be read: "+runerr.Reason(unread.Err), "let it be read, or keep it out of the folder")
	}
	if was != nil {
		slices.Sort(was.paths)
	}
	slices.SortFunc(entries, func(a, b job.Entry) int { return strings.Compare(a.Path, b.Path) })
	return entries, err
}

// hash returns the digest of a file.
func (c *collector) hash(o sandbox.Original, open func() (*os.File, error)) (sum [32]byte, err error) {
	if o.Kind != change.KindFile {
		return sum, nil
	}
	f, err := open()
	if err != nil {
		return sum, err
	}
	defer f.Close()
	text, size, err := digest(io.LimitReader(job.Until(c.ctx, f), o.Size+1))
	if err == nil && size != o.Size {
		err = errors.New("it changes while it is read")
	}
	if err == nil {
		_, err = hex.Decode(sum[:], []byte(text))
	}
	return sum, err
}

// count counts an entry, whether commands see it or not.
func (c *collector) count(o sandbox.Original) error {
	if c.entries++; c.entries > job.MaxEntries {
		return runerr.New(result.CodeSandbox, fmt.Sprintf("not sent to a worker: the folders have more than %d entries", job.MaxEntries), "use a smaller folder")
	}
	if o.Kind == change.KindFile {
		c.bytes += o.Size
	}
	if c.bytes > job.MaxBytes {
		return runerr.New(result.CodeSandbox, fmt.Sprintf("not sent to a worker: the folders have more than %d GiB", job.MaxBytes>>30), "use a smaller folder")
	}
	return nil
}

// entry adds an entry to the input root.
func (c *collector) entry(at string, o sandbox.Original, sum [32]byte) (e job.Entry, err error) {
	if !utf8.ValidString(o.Path) || !utf8.ValidString(o.Target) {
		return e, unsent(o.Path, "its name, or where it leads, is not UTF-8", "rename it, or keep it out of the folder")
	}
	e = job.Entry{Path: o.Path, Mode: int(o.Mode)}
	switch o.Kind {
	case change.KindFile:
		e.Kind, e.Size, e.SHA256 = job.File, o.Size, evidence.Hash(sum)
		c.list = append(c.list, input{Path: at + "/" + o.Path, SHA256: e.SHA256.Hex(), Size: o.Size, Executable: o.Mode&0o100 != 0, Source: o.Host})
	case change.KindFolder:
		e.Kind = job.Folder
	case change.KindLink:
		if !staysInside(o.Path, o.Target) {
			return e, unsent(o.Path, "it leads out of the folder", "remove the link, or keep it out of the folder")
		}
		e.Kind, e.Mode, e.Target = job.Link, 0, o.Target
	default:
		return e, unsent(o.Path, "it is neither a file nor a folder nor a link", "remove it, or keep it out of the folder")
	}
	return e, nil
}

// staysInside says whether a link at a path leads to a place in the folder.
func staysInside(p, target string) bool {
	if target == "" || path.IsAbs(target) {
		return false
	}
	to := path.Join(path.Dir(p), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}

func unsent(p, why, hint string) error {
	return runerr.New(result.CodeSandbox, "not sent to a worker: "+canon.Quote(p)+": "+why, hint, runerr.File(p))
}

// digest returns the SHA-256 of what is left in r, and its length.
func digest(r io.Reader) (sum string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), size, err
}
