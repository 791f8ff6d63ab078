package gitbranch

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/harness/patch"
)

// MaxNamed is the largest number of files in a command line that is shown to a person.
const MaxNamed = 20

// Next describes how a person commits exactly the applied files.
type Next struct {
	Owner  bool     // the owner of the folder has to do it, who is another user
	Add    []string // paths that git add accepts
	commit []string // those paths of add that git commit accepts too
	Many   bool     // there are too many files, so none is named
	staged bool     // the index has changes, which a commit without paths would include
	sparse bool     // git add needs a flag for paths outside of the sparse cone
	Others []string // repositories in folders of this one, with changed files of their own
}

// Next finds out which paths of the applied steps git add and git commit accept.
func (b *Branch) Next(ctx context.Context, steps []patch.Step) (n Next, err error) {
	g := b.git
	n.Owner = g.Owner()
	if steps, n.Others, err = g.inside(ctx, steps); err != nil {
		return n, err
	}
	if n.Many = len(steps) > MaxNamed; n.Many {
		return n, nil
	}
	for _, s := range steps {
		known, last := s.After != nil, s.After != nil
		if s.After == nil {
			// Neither git add nor git commit accepts a path that git does not know.
			indexed, err := g.Run(ctx, "ls-files", "-z", "--", s.Path)
			if err != nil {
				return n, err
			}
			committed, err := g.Run(ctx, "ls-tree", "-z", "--name-only", "HEAD", "--", s.Path)
			if err != nil {
				return n, err
			}
			// git commit does not accept a file that a folder has replaced.
			folder := slices.ContainsFunc(steps, func(o patch.Step) bool { return strings.HasPrefix(o.Path, s.Path+"/") && o.After != nil })
			known, last = indexed != "", committed != "" && !folder
		}
		if known {
			n.Add = append(n.Add, s.Path)
		}
		if known && last {
			n.commit = append(n.commit, s.Path)
		}
	}
	_, err = g.Run(ctx, "diff-index", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=dirty", "HEAD", "--")
	if n.staged = git.No(err); err != nil && !n.staged {
		return n, err
	}
	sparse, err := g.Run(ctx, "config", "--type=bool", "--get", "core.sparseCheckout")
	if n.sparse = sparse == "true\n"; git.No(err) {
		err = nil
	}
	return n, err
}

// inside returns the steps that lie in no nested repository, and the nested repositories
// that hold the other steps.
func (g repo) inside(ctx context.Context, steps []patch.Step) (own []patch.Step, others []string, err error) {
	ask := []string{"ls-files", "--stage", "-z", "--"}
	for _, s := range steps {
		if top, _, beneath := strings.Cut(s.Path, "/"); beneath && !slices.Contains(ask[4:], top) {
			ask = append(ask, top)
		}
	}
	if len(ask) == 4 {
		return steps, nil, nil
	}
	list, err := g.Run(ctx, ask...)
	if err != nil {
		return nil, nil, err
	}
	links := map[string]bool{} // folders that the index has as commits of other repositories
	for entry := range strings.SplitSeq(list, "\x00") {
		if info, name, _ := strings.Cut(entry, "\t"); strings.HasPrefix(info, "160000 ") {
			links[name] = true
		}
	}
	for _, s := range steps {
		other := ""
		for folder := path.Dir(s.Path); folder != "."; folder = path.Dir(folder) {
			if links[folder] || g.isRepository(folder) {
				other = folder
			}
		}
		switch {
		case other == "":
			own = append(own, s)
		case !slices.Contains(others, other):
			others = append(others, other)
		}
	}
	return own, others, nil
}

// Commands returns the command lines that a person types, where to names the folder. They
// take every path literally.
func (n Next) Commands(to string) []string {
	in := "git"
	if to != "." {
		in += " -C " + screen.ShellWord(to)
	}
	commit := in + " commit"
	if n.staged { // the commit includes only these paths and leaves other staged changes alone
		commit = in + " --literal-pathspecs commit --only --" + shellWords(n.commit)
	}
	in += " --literal-pathspecs add -A -f" // -f adds files that .gitignore lists
	if n.sparse {
		in += " --sparse"
	}
	list := []string{in + " --" + shellWords(n.Add)}
	if n.staged && len(n.commit) == 0 { // every deleted file was staged and is in no commit
		return list
	}
	return append(list, commit)
}

func shellWords(list []string) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(" " + screen.ShellWord(s))
	}
	return b.String()
}

// isRepository reports whether a folder of the work tree has a repository of its own.
func (g repo) isRepository(folder string) bool {
	_, err := os.Lstat(filepath.Join(g.Dir(), filepath.FromSlash(folder), ".git"))
	return err == nil
}
