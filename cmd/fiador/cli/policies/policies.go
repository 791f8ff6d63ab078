// Package policies finds the policy that a command line names. It owns the flags of the
// gate, and opens profiles, layers and the gate itself.
package policies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/scaffold"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// GateFlags select the policy that decides. Only the command line can set them: no
// variable and no file of the tree chooses a policy (specs/policy-profile.md, Where a
// profile stands). Policy is a built-in name, a folder or a file, Org are the layers of
// the organisation, and Tree is the gated folder.
type GateFlags struct {
	Policy string
	Org    []string
	Tree   string
	chosen func() bool // whether the command line names the profile
}

// Register adds the flags to a command.
func (f *GateFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.Policy, f.Tree = "default", "."
	f.chosen = func() bool { return flags.Changed("policy") }
	ProfileFlag(cmd, &f.Policy, "policy profile: strict, default, dev, or a folder with a profile.json")
	flags.StringArrayVar(&f.Org, "org-policy", nil, "folder with a layer of the organisation's policy, which can only tighten; may be repeated")
	flags.Var(&cli.Once{Value: &f.Tree}, "tree", "folder that is gated: inputs are taken from it, and "+harness.RepoPolicy+" in it can tighten the policy")
}

// ProfileFlag adds the flag --policy, which can be given once.
func ProfileFlag(cmd *cobra.Command, value *string, usage string) {
	cmd.Flags().Var(&cli.Once{Value: value}, "policy", usage)
	cli.Complete(cmd, "policy", profiles.Names()...)
}

// Gating finds the sources of the policy. It warns if a source lies in the tree that the
// policy gates.
func Gating(a *cli.App, f GateFlags) (harness.Sources, error) {
	s, err := Sources(f)
	if err != nil {
		return s, err
	}
	if s.User != nil {
		warnBeneath(a, "policy", f.Policy, f.Tree)
	}
	for _, dir := range f.Org {
		warnBeneath(a, "org-policy", dir, f.Tree)
	}
	return s, nil
}

// Unused says, where the command line names no profile, that the tree or the current folder
// has one, which does not count.
func Unused(a *cli.App, f GateFlags) {
	if f.chosen() {
		return
	}
	for _, dir := range []string{f.Tree, "."} {
		name := filepath.Join(dir, filepath.FromSlash(scaffold.OwnProfile))
		if _, err := os.Stat(filepath.Join(name, harness.ProfileFile)); err == nil {
			shown := canon.Clean(filepath.ToSlash(name))
			a.Term.Message(fmt.Sprintf("%q is there and is not used: the profile is %q; to use it, add --policy %s", shown, f.Policy, screen.ShellWord(shown)))
			return
		}
	}
}

// Sources finds the sources of the policy without reading them.
func Sources(f GateFlags) (harness.Sources, error) {
	s, err := Profile(f.Policy, f.Org...)
	if err == nil {
		err = RepoLayer(&s, f.Tree)
	}
	return s, err
}

// Profile finds a profile and the layers of the organisation without reading them.
func Profile(name string, org ...string) (harness.Sources, error) {
	s := harness.Sources{Builtin: profiles.FS(), Profile: name}
	if !slices.Contains(profiles.Names(), name) {
		if err := userProfile(&s, name); err != nil {
			return s, err
		}
	}
	for _, dir := range org {
		folder, err := OpenFolder("--org-policy", dir)
		if err != nil {
			return s, err
		}
		s.Org = append(s.Org, folder)
	}
	return s, nil
}

// userProfile finds a profile that is not built in. It leaves a name without a file, or a file
// of a similar name, as it is, and the name is refused later as an unknown profile.
func userProfile(s *harness.Sources, name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\`) && (specs.Nearest(name, profiles.Names()) != "" || runerr.NearFile(name) == ""):
		return nil
	case err != nil:
		return Unusable("--policy", name, runerr.Reason(err))
	case info.IsDir():
		s.File = harness.ProfileFile
	case !info.Mode().IsRegular():
		return Unusable("--policy", name, "neither a folder nor a file")
	case strings.HasSuffix(name, ".rego"):
		return Unusable("--policy", name, "Rego alone is no profile: put it beside a "+harness.ProfileFile+" and name the folder")
	default:
		s.File, name = filepath.Base(name), filepath.Dir(name)
	}
	folder, err := OpenFolder("--policy", name)
	s.User = &folder
	return err
}

// ProfileFiles returns the files at the top of a profile that is not built in.
func ProfileFiles(name string) []string {
	files := []string{name}
	entries, err := os.ReadDir(name)
	if slices.Contains(profiles.Names(), name) || err != nil {
		return files
	}
	for _, e := range entries {
		files = append(files, filepath.Join(name, e.Name()))
	}
	return files
}

// RepoLayer finds the layer of the gated tree. Anything else than a readable folder at its
// Place is an error, so that a layer that exists is never skipped.
func RepoLayer(s *harness.Sources, tree string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return cli.Usage("--tree names the folder that is gated", "tree %q: %s", tree, runerr.Reason(err))
	}
	place := filepath.Join(tree, filepath.FromSlash(harness.RepoPolicy))
	for _, dir := range []string{path.Dir(harness.RepoPolicy), harness.RepoPolicy} {
		if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return root.Close()
		}
		at := filepath.Join(tree, filepath.FromSlash(dir))
		info, err := root.Stat(dir)
		switch {
		case err != nil:
			return Unusable("--tree", at, runerr.Reason(err))
		case dir == harness.RepoPolicy && !info.IsDir():
			return Unusable("--tree", place, "not a folder")
		}
	}
	s.Repo = &policy.Folder{FS: root.FS(), Dir: harness.RepoPolicy, Show: screen.Folder(place)}
	return nil
}

// OpenFolder opens a folder. Links cannot lead out of it.
func OpenFolder(flag, dir string) (policy.Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return policy.Folder{}, Unusable(flag, dir, runerr.Reason(err))
	}
	return policy.Folder{FS: root.FS(), Dir: ".", Show: screen.Folder(dir)}, nil
}

// Unusable returns the RUN_E004 for a policy that cannot be used. by is the flag that names it,
// or what the name of an argument stands for.
func Unusable(by, name, why string) error {
	near, hint := runerr.NearFile(name), "name a folder that can be read"
	if by != "--org-policy" && by != "--tree" {
		kinds := " with a " + harness.ProfileFile
		if by != "--policy" {
			kinds += " or with Rego"
		}
		hint = "name a folder" + kinds + ", or one of: " + strings.Join(profiles.Names(), ", ")
		if builtin := specs.Nearest(name, profiles.Names()); builtin != "" {
			near = "did you mean " + canon.Quote(builtin) + "? "
		}
	}
	return runerr.New(result.CodeProfile, fmt.Sprintf("%s %q: %s", by, screen.Folder(name), why), near+hint, runerr.File(screen.Folder(name)))
}

// warnBeneath warns of a policy that lies in the tree that it gates.
func warnBeneath(a *cli.App, flag, name, tree string) {
	if cli.LiesIn(tree, name) {
		a.Term.Warning(fmt.Sprintf("--%s %q lies in the tree that it gates: whoever changes the tree can change the policy", flag, screen.Folder(name)))
	}
}

// OpenGate opens the gate: it reads and compiles the policy. A policy that cannot
// decide is an error, and no decision is made without it.
func OpenGate(ctx context.Context, a *cli.App, f GateFlags) (*harness.Gate, error) {
	s, err := Sources(f)
	if err != nil {
		return nil, err
	}
	return harness.OpenGate(ctx, s, a.Specs, policy.DefaultLimits())
}

// OpenGateAhead opens the gate in the background, while the command reads its input.
// The function that it returns waits for the gate, and can be called again.
func OpenGateAhead(ctx context.Context, a *cli.App, s harness.Sources) func() (*harness.Gate, error) {
	open := sync.OnceValues(func() (*harness.Gate, error) {
		return harness.OpenGate(ctx, s, a.Specs, policy.DefaultLimits())
	})
	go func() { _, _ = open() }()
	return open
}

// GivenProfile returns the resolved profile that a flag names, or nil for an empty
// name. Layers are not part of it.
func GivenProfile(a *cli.App, name string) (*kernel.Profile, error) {
	if name == "" {
		return nil, nil
	}
	s, err := Profile(name)
	if err != nil {
		return nil, err
	}
	r, err := s.Resolve(a.Specs)
	if err != nil {
		return nil, err
	}
	return &r.Profile, nil
}
