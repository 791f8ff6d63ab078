package gitbranch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/harness/links"
	"github.com/fiador/fiador/harness/runerr"
)

// HookPlace is a place from which git takes hooks of a work tree.
type HookPlace struct {
	Path string // absolute
	Name string // relative to the folder; "." where the folder is the place or lies in it
}

// Hooks returns the places in a folder, or around it, from which git takes hooks of
// the work tree. It returns none where git is not installed: no program then runs a hook.
func Hooks(ctx context.Context, dir string, environ []string) ([]HookPlace, error) {
	if !underGit(dir) {
		return nil, nil
	}
	g, err := newRepo(dir, environ)
	if err != nil {
		return nil, refusal(err)
	}
	hooks, err := g.hooks(ctx)
	if errors.As(err, new(*git.OwnerError)) {
		g.Git = g.AsCaller()
		hooks, err = g.hooks(ctx)
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, nil
	case ctx.Err() != nil:
		return nil, runerr.Unchanged()
	case err != nil:
		return nil, refusal(err)
	}
	var places []HookPlace
	for _, path := range hooks {
		if name, ok := within(dir, path); ok {
			places = append(places, HookPlace{path, name})
		}
	}
	return places, nil
}

// underGit reports whether a folder can lie in a work tree. Without environment variables
// git finds a work tree by a .git in the folder or above. This look is cheaper than a run
// of git.
func underGit(dir string) bool {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

// within returns place relative to dir, and whether place lies in dir. It returns "."
// where dir is place or lies in place.
func within(dir, place string) (rel string, ok bool) {
	if rel, err := filepath.Rel(place, dir); err == nil && filepath.IsLocal(rel) {
		return ".", true
	}
	rel, err := filepath.Rel(dir, place)
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

// hooks returns the places that supply the hooks of the work tree: the folder of hooks,
// its target, and the targets of links in it. There are none outside of a work tree.
func (g repo) hooks(ctx context.Context) ([]string, error) {
	folder, err := g.hookFolder(ctx)
	if err != nil || folder == "" {
		return nil, err
	}
	places := []string{folder, links.Follow(folder)}
	list, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	for _, e := range list {
		if e.Type()&fs.ModeSymlink != 0 {
			places = append(places, links.Follow(filepath.Join(folder, e.Name())))
		}
	}
	slices.Sort(places)
	return slices.Compact(places), nil
}

// hookFolder returns the folder from which git takes the hooks of the work tree, or empty
// outside of a work tree.
func (g repo) hookFolder(ctx context.Context) (string, error) {
	top, err := g.Run(ctx, "rev-parse", "--show-toplevel")
	if strings.Contains(git.Message(err), "not a git repository") || strings.Contains(git.Message(err), "must be run in a work tree") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	said, err := g.Run(ctx, "config", "-z", "--type=path", "--get-all", "core.hooksPath")
	if err != nil {
		return "", err
	}
	// The last value is the one that git.run sets.
	set := strings.Split(strings.TrimSuffix(said, "\x00"), "\x00")
	if len(set) < 2 {
		common, err := g.Run(ctx, "rev-parse", "--git-common-dir")
		return filepath.Join(g.path(strings.TrimSuffix(common, "\n")), "hooks"), err
	}
	folder := set[len(set)-2]
	if folder == "" || filepath.IsAbs(folder) {
		return folder, nil
	}
	return filepath.Join(strings.TrimSuffix(top, "\n"), folder), nil
}
