// Package changes finds what a change brings, as a pull request means it: the paths that differ
// between the commit at which HEAD branched off a base, and HEAD. It compares the two trees that
// git has recorded, so that no setting, attribute or filter of the repository hides a path. It
// looks at files of the work tree only to say whether they have the bytes of one of the trees.
package changes

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Change is what HEAD brings since it branched off a base. Its paths are those of git: from the
// top of the repository, with slashes, in whatever bytes they have.
type Change struct {
	Paths []string // that differ: added, modified, removed, of another mode or kind; sorted

	top    string           // of the work tree, without links
	here   string           // the current folder, without links
	prefix string           // of the gated folder below top; "." where it is top
	base   map[string]entry // the tree at which HEAD branched off
	was    []string         // its paths, sorted
	head   map[string]entry
}

// entry is one path of a tree.
type entry struct{ mode, object string }

// file reports whether the entry is a regular file.
func (e entry) file() bool { return strings.HasPrefix(e.mode, "100") }

// Linked reports whether HEAD has a link or a submodule at a path of git. No intent writes one.
func (c *Change) Linked(path string) bool {
	e, ok := c.head[path]
	return ok && !e.file()
}

// RevisionError says that a name stands for no commit that git knows here.
type RevisionError struct{ Name string }

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %q: git has no such commit here", canon.Clean(e.Name))
}

// FetchHint is the remedy for a history that is not there.
const FetchHint = "fetch the whole history: fetch-depth: 0 for actions/checkout, GIT_DEPTH: 0 for GitLab, otherwise git fetch --unshallow"

// Look finds what end brings since it branched off base. dir is the gated folder, in a work tree
// in which end is checked out. An error is exec.ErrNotFound without git, a *RevisionError, or a
// RunError.
func Look(ctx context.Context, dir, base, end string, environ []string) (*Change, error) {
	g, err := git.New(dir, environ)
	if err != nil {
		return nil, unanswered(dir, err)
	}
	c := &Change{}
	if err := c.places(ctx, g); err != nil {
		return nil, unanswered(dir, err)
	}
	var commits [3]string // of base, end, HEAD
	for i, name := range []string{base, end, "HEAD"} {
		if commits[i], err = commit(ctx, g, name); err != nil {
			return nil, unanswered(dir, err)
		}
	}
	if commits[1] != commits[2] {
		return nil, runerr.New(result.CodeUnreadable, fmt.Sprintf("%q is not what is checked out: intents are read from the work tree", canon.Clean(end)),
			"check that commit out, or end the range with HEAD")
	}
	from, err := branched(ctx, g, base, commits[0], commits[1])
	if err != nil {
		return nil, unanswered(dir, err)
	}
	if c.base, err = tree(ctx, g, from); err == nil {
		c.head, err = tree(ctx, g, commits[1])
	}
	if err != nil {
		return nil, unanswered(dir, err)
	}
	c.was = slices.Sorted(maps.Keys(c.base))
	c.Paths = differing(c.base, c.head)
	return c, nil
}

// unanswered returns the error for a git that gave no answer. It returns errors that say more as
// they are.
func unanswered(dir string, err error) error {
	_, run := errors.AsType[*result.RunError](err)
	if run || errors.As(err, new(*RevisionError)) || errors.Is(err, exec.ErrNotFound) {
		return err
	}
	msg := "git gives no answer in " + canon.Quote(screen.Folder(dir)) + ": " + canon.Clean(err.Error())
	return runerr.New(result.CodeUnreadable, msg, git.Remedy(err, "run it in a clone of the repository with the history of the change, or name the folder of that clone with --tree"), runerr.Because(err))
}

// places finds the top of the work tree, the gated folder in it, and the current folder.
func (c *Change) places(ctx context.Context, g git.Git) error {
	top, err := folder(ctx, g, "--show-toplevel")
	if err != nil {
		return err
	}
	repository, err := folder(ctx, g, "--absolute-git-dir")
	if err != nil {
		return err
	}
	c.top = top
	if c.here, err = real("."); err != nil {
		return err
	}
	gated, err := real(g.Dir())
	if err != nil {
		return err
	}
	if c.prefix, err = filepath.Rel(c.top, gated); err == nil && !filepath.IsLocal(c.prefix) {
		err = errors.New("the folder is not in the work tree that git names")
	}
	// A change can bring a bare repository, whose history says that nothing changed.
	if in, relErr := filepath.Rel(repository, gated); relErr == nil && filepath.IsLocal(in) {
		err = errors.New("the folder is in a repository of its own, which is no work tree")
	}
	c.prefix = filepath.ToSlash(c.prefix)
	return err
}

// folder returns a folder of the repository that git names, without links.
func folder(ctx context.Context, g git.Git, which string) (string, error) {
	said, err := g.Run(ctx, "rev-parse", which)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(filepath.FromSlash(strings.TrimSuffix(said, "\n")))
}

// real returns the absolute name of a folder, without links.
func real(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// recorded runs git so that it reads commits as they are recorded. Replaced objects and the file
// commit-graph could give them other parents and trees.
func recorded(ctx context.Context, g git.Git, args ...string) (string, error) {
	return g.Run(ctx, append([]string{"--no-replace-objects", "-c", "core.commitGraph=false"}, args...)...)
}

// commit returns the hash of the commit that a name stands for.
func commit(ctx context.Context, g git.Git, name string) (string, error) {
	if name == "" || name[0] == '-' || strings.ContainsRune(name, 0) {
		return "", &RevisionError{name}
	}
	said, err := recorded(ctx, g, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if git.Failed(err) && !git.Foreign(err) {
		return "", &RevisionError{name}
	}
	return strings.TrimSuffix(said, "\n"), err
}

// branched returns the commit at which end branched off base. A shallow clone knows it for certain
// only if base is that commit. If there are several, a path could differ from one and not from the
// other, and none of them is what git would merge from.
func branched(ctx context.Context, g git.Git, name, base, end string) (string, error) {
	shallow, err := g.Run(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return "", err
	}
	said, err := recorded(ctx, g, "merge-base", "--all", base, end)
	if err != nil && !git.No(err) {
		return "", err
	}
	found := strings.Fields(said)
	switch {
	case strings.TrimSpace(shallow) != "false" && !slices.Equal(found, []string{base}):
		return "", runerr.New(result.CodeUnreadable, fmt.Sprintf("the clone is shallow, and does not say where HEAD branched off %q", canon.Clean(name)), FetchHint)
	case len(found) == 0:
		return "", runerr.New(result.CodeUnreadable, fmt.Sprintf("%q and HEAD have no commit in common", canon.Clean(name)), "name a commit of the branch that the change goes to")
	case len(found) > 1:
		return "", runerr.New(result.CodeUnreadable, fmt.Sprintf("HEAD branched off %q at %d commits, so it is not clear what it brings", canon.Clean(name), len(found)),
			"merge that branch into HEAD, or name the commit to compare with")
	}
	return found[0], nil
}

// tree returns the files, links and submodules of a commit.
func tree(ctx context.Context, g git.Git, commit string) (map[string]entry, error) {
	said, err := recorded(ctx, g, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	entries := map[string]entry{}
	for line := range strings.SplitSeq(strings.TrimSuffix(said, "\x00"), "\x00") {
		if line == "" {
			continue
		}
		about, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(about) // mode, type, object
		if _, twice := entries[name]; !ok || len(fields) != 3 || twice {
			return nil, fmt.Errorf("the tree of commit %s is malformed at %q", commit, canon.Clean(name))
		}
		entries[name] = entry{fields[0], fields[2]}
	}
	return entries, nil
}

// differing returns the paths at which two trees differ, sorted.
func differing(a, b map[string]entry) []string {
	var list []string
	for name, e := range a {
		if other, ok := b[name]; !ok || other != e {
			list = append(list, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// Before returns the files of intents that an argument of the command line named before the
// change, with names from the current folder.
func (c *Change) Before(arg string) []string {
	var list []string
	a := c.argument(arg)
	for _, name := range c.near(a, c.was) {
		if shown, ok := c.named(a, name); ok {
			list = append(list, shown)
		}
	}
	return list
}

// Absent returns the files of intents that HEAD brings, that an argument names, and that are not
// in the work tree.
func (c *Change) Absent(args []string) []string {
	var list []string
	seen := map[string]bool{}
	for _, arg := range args {
		a := c.argument(arg)
		for _, name := range c.near(a, c.Paths) {
			if _, ok := c.head[name]; !ok || seen[name] {
				continue
			}
			if shown, ok := c.named(a, name); ok {
				seen[name] = true
				if _, err := os.Lstat(shown); err != nil {
					list = append(list, shown)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// near returns a part of a sorted list of paths with all those that an argument names, so that many
// arguments are not each compared with all paths of a large tree.
func (c *Change) near(a argument, sorted []string) []string {
	if filepath.Separator != '/' {
		return sorted // names are alike in other letters
	}
	given := intake.Folder(a.given)
	if !filepath.IsAbs(given) {
		given = filepath.Join(c.here, given)
	}
	given, err := filepath.Rel(c.top, given)
	from, to := len(sorted), 0
	for _, dir := range []string{given, intake.Folder(a.fromTop)} {
		if err != nil || strings.Trim(dir, "./") == "" { // the top, or above it
			return sorted
		}
		first, _ := slices.BinarySearch(sorted, dir)
		after, _ := slices.BinarySearch(sorted, dir+"0") // 0 follows the slash
		from, to = min(from, first), max(to, after)
	}
	return sorted[from:to]
}

// argument is an argument of the command line: as given, and from the top of the work tree, with
// no link in the name of its folder.
type argument struct{ given, fromTop string }

func (c *Change) argument(given string) argument {
	dir, rest := given, ""
	for {
		rest = filepath.Join(filepath.Base(dir), rest)
		parent := filepath.Dir(dir)
		if found, err := real(parent); err == nil {
			if fromTop, err := filepath.Rel(c.top, filepath.Join(found, rest)); err == nil {
				return argument{given, fromTop}
			}
		}
		if parent == dir {
			return argument{given, given}
		}
		dir = parent
	}
}

// named returns a path of git from the folder at which an argument begins, and whether the
// argument names it, in either spelling.
func (c *Change) named(a argument, name string) (string, bool) {
	shown := c.Show(name)
	if filepath.IsAbs(a.given) {
		shown = filepath.Join(c.top, filepath.FromSlash(name))
	}
	return shown, intake.Names(a.given, shown) || intake.Names(a.fromTop, name)
}

// Was returns what happened to a path: added, modified or removed.
func (c *Change) Was(name string) string {
	_, was := c.base[name]
	_, is := c.head[name]
	switch {
	case !was:
		return "added"
	case !is:
		return "removed"
	}
	return "modified"
}

// Show returns the name of a path from the current folder. It is never "-", which stands for
// standard input.
func (c *Change) Show(name string) string {
	rel, err := filepath.Rel(c.here, filepath.Join(c.top, filepath.FromSlash(name)))
	switch {
	case err != nil: // another drive
		return name
	case rel == "-":
		return "./-"
	}
	return filepath.ToSlash(rel)
}

// Target returns the path of git for a path of an intent, which begins at the gated folder. A path
// that leads out of that folder is no path of git.
func (c *Change) Target(name string) string {
	if c.prefix == "." {
		return name
	}
	return c.prefix + "/" + name
}

// State says what a change does to a file of the work tree. Brought is its path if the file has
// the bytes that HEAD brings, and otherwise empty. Same says that the change leaves the file as it
// was, and the work tree does too.
type State struct {
	Brought string
	Same    bool
}

// OutsideError says that a file is not in the work tree of the change.
type OutsideError struct{ name string }

func (e *OutsideError) Error() string {
	return canon.Quote(screen.Path(e.name)) + " is not in the work tree of the change"
}

// State looks at one file. A file that cannot be read, a link, and a file that is reached in
// another spelling are neither the same nor brought.
func (c *Change) State(name string) (State, error) {
	dir, err := real(filepath.Dir(name))
	if err != nil {
		return State{}, nil // the file cannot be read, which is the reader's to say
	}
	rel, err := filepath.Rel(c.top, filepath.Join(dir, filepath.Base(name)))
	if err != nil || !filepath.IsLocal(rel) {
		return State{}, &OutsideError{name}
	}
	rel = filepath.ToSlash(rel)
	was, is := c.base[rel], c.head[rel]
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() || !is.file() {
		return State{}, nil
	}
	text, err := os.ReadFile(name)
	switch {
	case err != nil || !holds(is.object, text):
		return State{}, nil
	case is == was:
		return State{Same: true}, nil
	}
	return State{Brought: rel}, nil
}

// holds reports whether an object of git is a file with these bytes. Git may have given the lines
// of the file CRLF at their ends, where they have LF. Neither means anything in an intent.
func holds(object string, text []byte) bool {
	for _, b := range [][]byte{text, bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))} {
		var h hash.Hash = sha1.New()
		if len(object) > 2*sha1.Size {
			h = sha256.New()
		}
		fmt.Fprintf(h, "blob %d\x00", len(b))
		h.Write(b)
		if hex.EncodeToString(h.Sum(nil)) == object {
			return true
		}
	}
	return false
}
