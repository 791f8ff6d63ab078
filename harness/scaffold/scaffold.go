// Package scaffold owns the files with which a project begins to gate its intents: a profile
// with its Rego and tests, a workflow, and settings of editors. It overwrites no file.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

//go:embed profile repo
var embedded embed.FS

// Seed is a file that a command writes into a new project.
type Seed struct {
	Path string // beneath the folder, with slashes
	Text string
}

// Profile returns a commented profile with its Rego, its tests and its intents.
func Profile(name string) ([]Seed, error) {
	pkg := strings.TrimPrefix(harness.UserPackage(name), "gate.user.")
	fill := strings.NewReplacer("PACKAGE", pkg, `"NAME"`, `"`+name+`"`, "profile NAME", "profile "+name, "gate.user.NAME", "gate.user."+pkg)
	return seeds("profile", fill, map[string]string{
		"profile.json": "profile.json", "rules.rego.txt": "rules.rego", "rules_test.rego.txt": "rules_test.rego",
		"intents/build.json": "intents/build.json", "intents/publish.json": "intents/publish.json",
	})
}

// Repository returns the files that a repository needs to gate its intents with a profile.
func Repository(name string) ([]Seed, error) {
	list, err := Profile(name)
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		list[i].Path = ".fiador/profile/" + s.Path
	}
	for _, schema := range []string{"intent", "profile"} {
		b, _ := specs.Schema(schema)
		list = append(list, Seed{".fiador/" + schema + ".schema.json", string(b)})
	}
	build, err := embedded.ReadFile("profile/intents/build.json")
	if err != nil {
		return nil, err
	}
	list = append(list, Seed{"intents/example.json", string(build)})
	rest, err := seeds("repo", strings.NewReplacer("VERSION", kernel.Version), map[string]string{
		"workflow.yml": ".github/workflows/fiador.yml", "pre-commit.yaml": ".pre-commit-config.yaml", "settings.json": ".vscode/settings.json",
	})
	return append(list, rest...), err
}

// seeds returns the files of an embedded folder, filled in, under the names that files gives.
func seeds(dir string, fill *strings.Replacer, files map[string]string) ([]Seed, error) {
	var list []Seed
	for _, from := range slices.Sorted(maps.Keys(files)) {
		b, err := embedded.ReadFile(dir + "/" + from)
		if err != nil {
			return nil, err
		}
		list = append(list, Seed{files[from], fill.Replace(string(b))})
	}
	return list, nil
}

// Wanted reports whether a file of settings that was kept needs the text of the seed: it does
// not mention this program.
func (s Seed) Wanted(dir string) bool {
	if s.Path != ".pre-commit-config.yaml" && s.Path != ".vscode/settings.json" {
		return false
	}
	name := filepath.Join(dir, filepath.FromSlash(s.Path))
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return false
	}
	b, err := os.ReadFile(name)
	return err == nil && !bytes.Contains(b, []byte("fiador"))
}

// Sow writes a seed beneath root, which links cannot leave. It keeps an existing file and
// returns kept. Anything else at the path is an error.
func (s Seed) Sow(root *os.Root) (kept bool, err error) {
	name := filepath.FromSlash(s.Path)
	fail := func(err error) (bool, error) {
		return false, runerr.New(result.CodeInternal, "file "+strconv.Quote(s.Path)+" could not be written: "+runerr.Reason(err),
			"make room for it, or choose another folder", runerr.Because(err))
	}
	if _, err := root.Lstat(name); err == nil {
		info, err := root.Stat(name)
		if err != nil {
			return fail(err)
		}
		if !info.Mode().IsRegular() {
			return fail(errors.New("something that is no file stands there"))
		}
		return true, nil
	}
	err = root.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		err = durable.Write(root, name, []byte(s.Text), 0o666)
	}
	if err != nil {
		return fail(err)
	}
	return false, nil
}
