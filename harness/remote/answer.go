package remote

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// read reads the answer to a spec from a folder, and returns the box that it describes. Nothing
// of data.tar is read before result.json is known to be one for this task, and every byte is held
// against the hash that result.json has of it.
func read(out, arch string, spec *job.Spec, sum canon.ContentHash, was *originals) (*box, error) {
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		return nil, err
	}
	r, err := job.ReadResult(text, mostValues(spec))
	if err != nil {
		return nil, broken("result.json: %v", err)
	}
	if r.Spec != sum {
		return nil, broken("it is one to another task")
	}
	if r.Refused != nil {
		return nil, refusedAs(r.Refused, spec)
	}
	b := &box{dir: out, was: was, result: r, files: map[string]string{}}
	if err := b.facts(spec, arch); err != nil {
		return nil, err
	}
	if err := steps(r, spec); err != nil {
		return nil, err
	}
	if err := b.changed(spec); err != nil {
		return nil, err
	}
	return b, b.data()
}

// facts checks what the answer says of the sandbox.
func (b *box) facts(s *job.Spec, arch string) error {
	r, at := b.result, sandbox.Isolation(b.result.Isolation)
	plan, planned := sumOf(r.Plan)
	switch {
	case at != sandbox.Full && at != sandbox.Confined && at != sandbox.None:
		return broken("isolation %s", canon.Quote(r.Isolation))
	case !at.AtLeast(sandbox.Isolation(s.Isolation.Least)) && s.Isolation.Least != "", s.Isolation.Most != "" && !sandbox.Isolation(s.Isolation.Most).AtLeast(at):
		return broken("isolation %s, and the task demands another", at)
	case !planned:
		return broken("plan_sha256 is no hash")
	case r.Machine.OS != "linux" || r.Machine.Arch != arch || r.Machine.LandlockABI < 0 || r.Machine.LandlockABI > 1000 || r.PeakMemory < 0,
		r.Machine.GoVersion == "" || r.Staging == "" || !brief(r.Machine.GoVersion, r.Machine.KernelRelease, r.Staging):
		return broken("the machine, the memory or the staging is not one of a sandbox")
	case len(r.Contacts) > evidence.MaxConnections || !s.Listed && len(r.Contacts) > 0:
		return broken("%d connections", len(r.Contacts))
	}
	if fault := clausesFault(r.Clauses, at, s); fault != "" {
		return broken("%s", fault)
	}
	for _, c := range r.Contacts {
		if c.Action < 0 || c.Action >= len(s.Actions) || len(c.Name) > 255 || told(c.Name) != c.Name || c.Port < 0 || c.Port > 65535 ||
			c.Sent < 0 || c.Received < 0 || !slices.Contains(evidence.Verdicts(), c.Verdict) {
			return broken("a connection of action %d that no proxy reports", c.Action)
		}
	}
	b.known = sandbox.Facts{Isolation: at, Clauses: r.Clauses, PlanHash: plan, Staging: r.Staging, Machine: sandbox.Machine(r.Machine)}
	return nil
}

// brief says whether texts are short, and such as a terminal can show.
func brief(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return len(s) > 64 || told(s) != s })
}

// steps checks what the answer says of the actions.
func steps(r *job.Result, s *job.Spec) error {
	if len(r.Steps) > len(s.Actions) {
		return broken("%d actions, and the task has %d", len(r.Steps), len(s.Actions))
	}
	for i, step := range r.Steps {
		end := step.End
		if (end != nil) != (len(s.Actions[i].Argv) > 0) {
			return broken("action %d is one of another kind", i)
		}
		if end == nil {
			if step.Errno < 0 || step.Errno > 4095 {
				return broken("errno %d", step.Errno)
			}
			continue
		}
		if end.Code < 0 || end.Code > 255 || end.Signal < 0 || end.Signal > 64 || end.Code != 0 && end.Signal != 0 || end.MaxRSS < 0 || end.DurationMS < 0 || step.Errno != 0 {
			return broken("action %d ended with code %d and signal %d", i, end.Code, end.Signal)
		}
		for _, of := range []struct {
			job.Stream
			most int64
		}{{end.Stdout, s.StdoutMax}, {end.Stderr, s.StderrMax}} {
			if _, ok := sumOf(of.SHA256); !ok || of.Kept < 0 || of.Kept != min(of.Size, of.most) {
				return broken("a stream of action %d with %d bytes of %d", i, of.Kept, of.Size)
			}
		}
	}
	return nil
}

// changed reads the changes.
func (b *box) changed(s *job.Spec) error {
	if int64(len(b.result.Changes)) > maxWritten(s) {
		return broken("%d changes", len(b.result.Changes))
	}
	left := s.Limits.OutputBytes
	last, folders := "", map[string]bool{".": true}
	for i, in := range b.result.Changes {
		name, err := base64.StdEncoding.DecodeString(in.Path)
		target, targetErr := base64.StdEncoding.DecodeString(in.Target)
		c := change.Change{Path: string(name), Kind: change.Kind(in.Kind), Target: string(target)}
		if err != nil || targetErr != nil || !change.IsClean(c.Path) || c.Path == "." || c.Path <= last {
			return broken("change %d has no path of its own, or is not in order", i)
		}
		if !b.inFolder(c.Path, folders) {
			return broken("change %s lies beneath something that is no folder", canon.Quote(c.Path))
		}
		switch c.Kind {
		case change.KindFile:
			sum, hashed := sumOf(in.SHA256)
			if c.Size, c.Executable = in.Size, in.Executable; c.Size < 0 || hashed && c.Size > left || !hashed && in.SHA256 != "" {
				return broken("file %s with %d bytes", canon.Quote(c.Path), in.Size)
			}
			if hashed {
				left -= c.Size
				c.SHA256, b.files[c.Path] = sum, "files/"+strconv.Itoa(i)
			}
		case change.KindLink:
			if c.Target == "" || len(c.Target) > change.MaxPath {
				return broken("link %s", canon.Quote(c.Path))
			}
		case change.KindFolder, change.KindDeleted, change.KindOther:
		default:
			return broken("a change of kind %s", canon.Quote(in.Kind))
		}
		if c.Kind != change.KindLink && c.Target != "" || c.Kind != change.KindFile && (in.Size != 0 || in.SHA256 != "" || in.Executable) {
			return broken("change %s has members of another kind", canon.Quote(c.Path))
		}
		c.Before = b.was.at[c.Path].seen
		last, folders[c.Path] = c.Path, c.Kind == change.KindFolder
		b.changes = append(b.changes, c)
	}
	return nil
}

// inFolder says whether everything above a path is a folder. folders are those that are known, with
// all changes above the path.
func (b *box) inFolder(p string, folders map[string]bool) bool {
	dir := path.Dir(p)
	is, known := folders[dir]
	if !known {
		is = b.was.at[dir].kind == change.KindFolder && b.inFolder(dir, folders)
		folders[dir] = is
	}
	return is
}

// data reads data.tar: the streams of each command, and each changed file, in the order of
// result.json. The files go to numbers beneath the folder of the answer.
func (b *box) data() error {
	f, err := os.Open(filepath.Join(b.dir, "data.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	d := &unpacker{tar: tar.NewReader(f)}
	b.streams = make([][2][]byte, len(b.result.Steps))
	for i, step := range b.result.Steps {
		if step.End == nil {
			continue
		}
		for n, of := range []job.Stream{step.End.Stdout, step.End.Stderr} {
			name := [2]string{"stdout/", "stderr/"}[n] + strconv.Itoa(i)
			if b.streams[i][n], err = d.stream(name, of); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "files"), 0o700); err != nil {
		return err
	}
	for _, c := range b.changes {
		if name, held := b.files[c.Path]; held {
			if err := d.file(name, filepath.Join(b.dir, filepath.FromSlash(name)), c); err != nil {
				return err
			}
		}
	}
	_, err = d.tar.Next()
	if info, statErr := f.Stat(); !errors.Is(err, io.EOF) || statErr != nil || info.Size() != d.size+2*tarBlock {
		return broken("data.tar has more than result.json names, or no end")
	}
	return nil
}

// unpacker reads the entries of data.tar, one after another.
type unpacker struct {
	tar  *tar.Reader
	size int64 // of the entries, with their headers
}

const tarBlock = 512

func (d *unpacker) next(name string, size int64) error {
	h, err := d.tar.Next()
	switch {
	case err != nil:
		return broken("data.tar: %s is missing: %v", name, err)
	case h.Name != name || h.Typeflag != tar.TypeReg || h.Size != size || h.Format != tar.FormatUSTAR:
		return broken("data.tar has %s with %d bytes where %s has %d", canon.Quote(h.Name), h.Size, name, size)
	}
	d.size += tarBlock + (size+tarBlock-1)/tarBlock*tarBlock
	return nil
}

func (d *unpacker) stream(name string, of job.Stream) ([]byte, error) {
	if err := d.next(name, of.Kept); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(d.tar)
	if err != nil {
		return nil, broken("data.tar: %v", err)
	}
	if canon.Sum(text) != of.SHA256 {
		return nil, broken("%s has other bytes than result.json says", name)
	}
	return text, nil
}

func (d *unpacker) file(name, to string, c change.Change) error {
	if err := d.next(name, c.Size); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), d.tar)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("data.tar: %w", err)
	}
	if [32]byte(h.Sum(nil)) != c.SHA256 {
		return broken("%s has other bytes than result.json says", canon.Quote(c.Path))
	}
	return nil
}

// sumOf returns the bytes of a hash; ok says whether it is one.
func sumOf(h canon.ContentHash) (sum [32]byte, ok bool) {
	if !h.Valid() {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(h.Hex()))
	return sum, err == nil
}
