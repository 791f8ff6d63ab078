package policycmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/scaffold"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// The layers that new begins.
const (
	layerOrg     = "org"
	layerRepo    = "repo"
	layerProfile = "profile"
)

// newCommand makes the folder of a profile or of a layer. It refuses a folder that is not
// empty.
func newCommand(a *cli.App) *cobra.Command {
	var dir, layer string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "begin a profile or a layer: a commented example with its test",
		Long: `New makes a folder with two commented rules, their tests, and the intents that the
tests use. With --layer profile the folder is a profile that extends default, for
--policy. With --layer org it is a layer of an organisation, for --org-policy. With
--layer repo it is the layer of a repository, ` + harness.RepoPolicy + `. It overwrites nothing.

Exit codes:
  0  the folder was made
  2  the name cannot be used, or the folder is there and not empty`,
		Example: `  fiador policy new acme
  fiador policy new acme --layer org --dir org-policy
  fiador policy new site --layer repo`,
		Args: cli.ExactArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return newPolicy(a, args[0], layer, dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder to make (default: the name; with --layer repo "+harness.RepoPolicy+")")
	cmd.Flags().StringVar(&layer, "layer", layerProfile, "what to begin: org, repo or profile")
	cli.Complete(cmd, "layer", layerOrg, layerRepo, layerProfile)
	return cmd
}

// newPolicy makes the folder of a profile or of a layer.
func newPolicy(a *cli.App, name, layer, dir string) error {
	if err := cli.Choice("layer", layer, []string{layerOrg, layerRepo, layerProfile}); err != nil {
		return err
	}
	if err := checkProfileName(name); err != nil {
		return err
	}
	to := cmp.Or(dir, name)
	if layer == layerRepo {
		to = cmp.Or(dir, filepath.FromSlash(harness.RepoPolicy))
	}
	entries, err := os.ReadDir(to)
	if err == nil && len(entries) > 0 {
		return cli.Usage("name another folder with --dir", "folder %s is not empty", cli.Quoted(to))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage("name another folder with --dir", "folder %s: %s", cli.Quoted(to), runerr.Reason(err))
	}
	shown, intents := typed(to), typed(filepath.Join(to, intentsFolder))
	var list []scaffold.Seed
	next := fmt.Sprintf("fiador check %s --org-policy %s --format human", intents, shown)
	switch layer {
	case layerOrg:
		list, err = scaffold.Layer(a.Specs, policy.PrefixOrg, name)
	case layerRepo:
		list, err = scaffold.Layer(a.Specs, policy.PrefixRepo, name)
		next = fmt.Sprintf("fiador check %s --format human", intents)
	default:
		list, err = scaffold.Profile(a.Specs, name)
		next = fmt.Sprintf("fiador check %[1]s --policy %[2]s --tree %[1]s --format human", intents, shown)
	}
	if err != nil {
		return err
	}
	if err := sowFolder(to, list); err != nil {
		return err
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, s := range list {
			t.Line("wrote", screen.Plain(asGiven(filepath.Join(to, filepath.FromSlash(s.Path)))))
		}
		t.Line("\nTry next:")
		t.Command("  fiador policy test " + shown + " --coverage")
		t.Command("  " + next)
	})
}

// sowFolder writes files into a folder. A new folder takes its place when it is complete, so
// that an interrupted command leaves none, or one beside it that begins with .fiador-new-.
func sowFolder(dir string, list []scaffold.Seed) error {
	to := dir
	if _, err := os.Stat(dir); err != nil {
		to = filepath.Join(filepath.Dir(dir), ".fiador-new-"+strconv.Itoa(os.Getpid()))
		defer os.RemoveAll(to)
	}
	root, err := openRepository(to, false)
	if err != nil {
		return unmade(dir, err)
	}
	defer root.Close()
	for _, s := range list {
		if err := s.Sow(root); err != nil {
			return err
		}
	}
	if to == dir {
		return nil
	}
	if err := errors.Join(root.Close(), os.Rename(to, dir)); err != nil {
		return unmade(dir, err)
	}
	return nil
}

// typed returns a path as a word of a command that the user can type.
func typed(path string) string {
	if path = asGiven(path); strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return screen.ShellWord(path)
}

// asGiven returns a path in the form that the user gave, absolute or relative, so that the
// user can find the file.
func asGiven(path string) string { return canon.Clean(filepath.ToSlash(filepath.Clean(path))) }

// checkProfileName refuses a name that no profile can have, and the name of a built-in
// profile.
func checkProfileName(name string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`).MatchString(name) {
		return cli.Usage("a lower-case letter, then lower-case letters, digits, '_' and '-'; at most 64", "name %q cannot be used", name)
	}
	if slices.Contains(profiles.Names(), name) {
		return cli.Unfit("give it a name of its own", "%q is a built-in profile", name)
	}
	return nil
}
