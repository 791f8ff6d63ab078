package policycmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/scaffold"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/profiles"
)

// asGiven returns a path in the form that the user gave, absolute or relative, so that the
// user can find the file.
func asGiven(path string) string { return canon.Clean(filepath.ToSlash(filepath.Clean(path))) }

// checkProfileName refuses a name that no profile can have, and the name of a built-in
// profile.
func checkProfileName(name string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`).MatchString(name) {
		return cli.Usage("a lower-case letter, then lower-case letters, digits, '_' and '-'; at most 64", "profile name %q cannot be used", name)
	}
	if slices.Contains(profiles.Names(), name) {
		return cli.Unfit("give it a name of its own", "%q is a built-in profile", name)
	}
	return nil
}

// sowAll writes seeds below dir, which it makes. It prints "wrote" or "kept" for each,
// and returns those whose files existed already. It replaces no file.
func sowAll(a *cli.App, dir string, list []scaffold.Seed) (kept []scaffold.Seed, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, cli.NotWritten(filepath.Join(dir, "."), err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cli.NotWritten(dir, err)
	}
	defer root.Close()
	for _, s := range list {
		was, err := s.Sow(root)
		if err != nil {
			return nil, err
		}
		word := "wrote"
		if was {
			word, kept = "kept ", append(kept, s)
		}
		if err := a.Print([]byte(word + "  " + screen.Plain(asGiven(filepath.Join(dir, filepath.FromSlash(s.Path)))) + "\n")); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
