package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fiador/fiador/harness"
)

// refuseHooks refuses what a plan does to the hooks of the work tree that the folder lies
// in. Without git there is none that runs one.
func (a *app) refuseHooks(ctx context.Context, dir string, plan *harness.PatchPlan) error {
	if !underGit(dir) {
		return nil
	}
	g, err := newGit(dir, a.environ)
	if err != nil {
		return gitError(err)
	}
	hooks, err := g.hooks(ctx)
	if errors.As(err, new(*gitOwnerError)) {
		g.attr, g.owner = nil, false
		hooks, err = g.hooks(ctx)
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil
	case ctx.Err() != nil:
		return interrupted()
	case err != nil:
		return gitError(err)
	}
	for _, place := range hooks {
		if rel, ok := within(dir, place); ok {
			plan.RefuseBeneath(rel, fmt.Sprintf("git takes hooks from %q", displayPath(place)))
		}
	}
	return nil
}

// underGit says whether a folder can lie in a work tree: without variables, git finds one
// by the .git in it or above it. To look is cheaper than to ask git.
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

// within is a place as a path of a folder: "." where the folder is the place, or lies in
// it.
func within(dir, place string) (rel string, ok bool) {
	if rel, err := filepath.Rel(place, dir); err == nil && filepath.IsLocal(rel) {
		return ".", true
	}
	rel, err := filepath.Rel(dir, place)
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

// hooks are the places that the hooks of the work tree come from: their folder, and what
// it and the links in it lead to. There is none where the folder is in no work tree.
func (g git) hooks(ctx context.Context) ([]string, error) {
	folder, err := g.hookFolder(ctx)
	if err != nil || folder == "" {
		return nil, err
	}
	places := []string{folder, followed(folder)}
	list, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	for _, e := range list {
		if e.Type()&fs.ModeSymlink != 0 {
			places = append(places, followed(filepath.Join(folder, e.Name())))
		}
	}
	slices.Sort(places)
	return slices.Compact(places), nil
}

// hookFolder is where git takes the hooks of the work tree from.
func (g git) hookFolder(ctx context.Context) (string, error) {
	top, err := g.run(ctx, "rev-parse", "--show-toplevel")
	var f *gitFailure
	if errors.As(err, &f) && (strings.Contains(f.text, "not a git repository") || strings.Contains(f.text, "must be run in a work tree")) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	said, err := g.run(ctx, "config", "-z", "--type=path", "--get-all", "core.hooksPath")
	if err != nil {
		return "", err
	}
	// The last one is that of run.
	set := strings.Split(strings.TrimSuffix(said, "\x00"), "\x00")
	if len(set) < 2 {
		common, err := g.run(ctx, "rev-parse", "--git-common-dir")
		return filepath.Join(g.path(strings.TrimSuffix(common, "\n")), "hooks"), err
	}
	folder := set[len(set)-2]
	if folder == "" || filepath.IsAbs(folder) {
		return folder, nil
	}
	return filepath.Join(strings.TrimSuffix(top, "\n"), folder), nil
}

// maxLinks is how many links are followed on the way of a path.
const maxLinks = 40

// followed is where a path leads, whether anything stands there or not.
func followed(name string) string {
	name = filepath.Clean(name)
	for range maxLinks {
		next := pastLink(name)
		if next == name {
			break
		}
		name = next
	}
	return name
}

// pastLink is a path with the first link on its way replaced by what it names.
func pastLink(name string) string {
	for i := range len(name) + 1 {
		if i == 0 || i < len(name) && !os.IsPathSeparator(name[i]) {
			continue
		}
		target, err := os.Readlink(name[:i])
		if err != nil {
			continue
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name[:i]), target)
		}
		return filepath.Join(target, name[i:])
	}
	return name
}
