// Package policycmd has the commands of a policy's author: they write, check, test, show and
// compare policies. Init makes the first one of a repository.
package policycmd

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// Policy returns the group of commands of a policy's author.
func Policy(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "policy",
		Short: "write, check, test and compare policies",
		Long: `Policy writes, checks, tests and compares policies. PATH is a folder with a profile.json
and its Rego, or a folder with the Rego of a layer. A layer is an organisation's
(package gate.org.NAME) or a repository's (package gate.repo.NAME).

Exit codes:
  0  done, valid, passed, the same
  1  invalid, failed, different
  2  no answer`,
		Example: `  fiador policy new acme
  fiador policy check acme
  fiador policy test acme --coverage`,
	}, newCommand(a), checkCommand(a), testCommand(a),
		showCommand(a), diffCommand(a), fmtCommand(a))
}

// intentsFolder is the folder of a policy with example intents for its tests.
const intentsFolder = "intents"

// desk is the policy that a policy command reads: a profile, or a layer under a
// built-in profile. It is named by PATH alone; no layer of a tree or of --org-policy is
// added.
type desk struct {
	sources harness.Sources
	folder  *policy.Folder // nil for a built-in profile, and for a profile without a folder
	dir     string         // path of folder
	open    harness.Open
}

// layer returns the layer with the folder's Rego: the last one, if there is one besides
// the built-in layer. Otherwise it returns a layer without modules.
func (d desk) layer() policy.Layer {
	if last := d.open.Layers[len(d.open.Layers)-1]; len(d.open.Layers) > 1 {
		return last
	}
	return policy.Layer{Package: harness.UserPackage(d.open.Profile.Name)}
}

// openDesk reads the policy at a path. base is the profile for a layer without a profile
// of its own.
func openDesk(a *cli.App, name, base string) (d desk, err error) {
	if slices.Contains(profiles.Names(), name) {
		d.sources, err = policies.Profile(name)
	} else {
		err = d.find(name, base)
	}
	if err != nil {
		return d, err
	}
	d.open, err = d.sources.Read(a.Specs, policy.DefaultLimits())
	return d, err
}

// find finds a profile, or a layer in a folder without a profile.
func (d *desk) find(name, base string) error {
	info, err := os.Stat(name)
	if err != nil {
		return policies.Unusable("PATH", name, runerr.Reason(err))
	}
	if !info.IsDir() {
		return d.openProfile(name)
	}
	d.dir = name
	if !hasProfile(name) {
		return d.openLayer(name, base)
	}
	return d.openProfile(name)
}

// hasProfile says whether a folder has a profile.json.
func hasProfile(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, harness.ProfileFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// openProfile opens a profile: a folder with a profile.json, or a file. A file of
// another name is the data alone, and Rego beside it is not read
// (specs/policy-profile.md, Where a profile stands).
func (d *desk) openProfile(name string) (err error) {
	if d.sources, err = policies.Profile(name); err != nil {
		return err
	}
	if d.sources.File == harness.ProfileFile {
		d.folder = d.sources.User
		if d.dir == "" {
			d.dir = filepath.Dir(name)
		}
	}
	return nil
}

// openLayer opens a folder of Rego without a profile.json, under the built-in profile
// base. The package of the Rego must be gate.org.NAME or gate.repo.NAME.
func (d *desk) openLayer(name, base string) error {
	if err := d.openFolder(name, base); err != nil {
		return err
	}
	l, err := policy.LoadLayer(*d.folder, policy.PrefixAny, policy.DefaultLimits())
	if err != nil {
		return runerr.Load(err)
	}
	return d.join(name, l.Package)
}

// openFolder opens a folder of Rego, which is to stand beside the built-in profile base.
func (d *desk) openFolder(name, base string) error {
	folder, err := policies.OpenFolder("PATH", name)
	if err != nil {
		return err
	}
	d.folder = &folder
	d.sources, err = policies.Profile(base)
	return err
}

// join makes the folder the layer of its package.
func (d *desk) join(name, pkg string) error {
	switch {
	case strings.HasPrefix(pkg, policy.PrefixOrg):
		d.sources.Org = append(d.sources.Org, *d.folder)
	case strings.HasPrefix(pkg, policy.PrefixRepo):
		d.sources.Repo = d.folder
	default:
		return runerr.New(result.CodeProfile, "folder "+cli.Quoted(name)+" has no "+harness.ProfileFile,
			`add one, such as {"name": "acme", "extends": "default"}; without it the package must be gate.org.NAME or gate.repo.NAME`)
	}
	return nil
}

// gate compiles the policy.
func (d desk) gate(ctx context.Context, a *cli.App) (*harness.Gate, error) {
	return d.open.Compile(ctx, d.sources.Builtin, a.Specs, policy.DefaultLimits())
}

// intents reads the example intents of the policy. It returns the input of the rules
// for each intent, by the path of its file in the folder without the suffix. JSON Lines
// are left out. It refuses two intents of one name, and an intent that cannot be read.
func (d desk) intents(ctx context.Context, a *cli.App) (map[string]policy.Input, error) {
	return d.eachIntent(ctx, a, d.open.Profile, func(_ string, err error) error { return err })
}

// eachIntent is intents under a profile. It calls fault with the file of each intent that is
// refused, and goes on if fault returns nil. Such an intent has an empty input.
func (d desk) eachIntent(ctx context.Context, a *cli.App, p kernel.Profile, fault func(file string, err error) error) (map[string]policy.Input, error) {
	in := map[string]policy.Input{}
	if d.folder == nil {
		return in, nil
	}
	dir := path.Join(d.folder.Dir, intentsFolder)
	if _, err := fs.Stat(d.folder.FS, dir); errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	files, err := intake.Walk(filepath.Join(d.dir, intentsFolder))
	if err != nil {
		return nil, err
	}
	for _, t := range files {
		rel, err := filepath.Rel(filepath.Join(d.dir, intentsFolder), t.Name)
		if err != nil || t.Err == nil && t.Lines() {
			continue
		}
		var src cli.Source
		if err = t.Err; err == nil {
			src, err = a.Read(ctx, t.Name, canon.MaxIntentBytes)
		}
		var q policy.Input
		if err == nil {
			q, err = harness.Question(a.Specs, p, harness.Request{
				Source: src.Bytes, Path: src.Path, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone,
			})
		}
		shown := canon.Clean(filepath.ToSlash(rel))
		key := strings.TrimSuffix(shown, filepath.Ext(rel))
		if _, twice := in[key]; twice && err == nil {
			err = runerr.Unreadable(src.Path, "a second intent of the name "+cli.Quoted(key), "give each a name of its own")
		}
		if err != nil {
			if err := fault(d.folder.File(intentsFolder+"/"+shown), err); err != nil {
				return nil, err
			}
		}
		in[key] = q
	}
	return in, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
