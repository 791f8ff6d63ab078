package scaffold

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// repository is a repository with files of the given names, each with its text.
func repository(files ...string) fs.FS {
	m := fstest.MapFS{}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// TestLook: what a repository is decides its commands, folders and checks.
func TestLook(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		repo                    fs.FS
		commands, roots, checks string
	}{
		{"absent", nil, "", "", ""},
		{"empty", repository(), "", "", ""},
		{"foreign", repository("README.md", "src/a.go"), "", "", ""},
		{"node", repository("package.json={}"), "node npm", "dist", "npm run test"},
		{"node with source", repository("package.json={}", "src/a.ts", "lib/deep/er/b.js", "build/x.js", "node_modules/m/i.js", ".hidden/x.js"), "node npm", "lib src build", "npm run test"},
		{"pnpm", repository("package.json={}", "pnpm-lock.yaml"), "node pnpm", "dist", "pnpm run test"},
		{"yarn and npm", repository("package.json={}", "yarn.lock", "package-lock.json"), "node npm yarn", "dist", "npm run test"},
		{"go", repository("go.mod=module x", "main.go", "cmd/x/main.go", "internal/a/b/c.go", "docs/a.md", "vendor/v/v.go"), "go", "cmd internal dist", "go test ./..."},
		{"python", repository("pyproject.toml=[project]"), "python", "dist", "python -m unittest"},
		{"pytest", repository("pyproject.toml=[tool.pytest.ini_options]", "tests/test_a.py"), "python pytest", "tests dist", "pytest"},
		{"uv", repository("pyproject.toml=pytest", "uv.lock"), "python pytest uv", "dist", "uv run pytest"},
		{"poetry", repository("pyproject.toml=[tool.poetry.group.dev]"), "python poetry", "dist", "poetry run python -m unittest"},
		{"rust", repository("Cargo.toml=[package]", "src/main.rs"), "cargo", "src target", "cargo test"},
		{"make", repository("Makefile=all:\n\ttest:\n"), "make", "build", "make"},
		{"make test", repository("Makefile=all: test\ntest: all\n"), "make", "build", "make test"},
		{"mixed", repository("package.json={}", "go.mod", "Makefile=test:\n", "web/a.js", "api/a.go"), "node npm go make", "api web dist build", "npm run test, go test ./..., make test"},
		{"control path", repository("go.mod", "hooks/a.go", "commands/a.go", ".github/a.go", "a*b/a.go", "a\\b/a.go", "ok/a.go"), "go", "hooks ok dist", "go test ./..."},
		{"deep", repository("go.mod", "a/b/c/d/e.go"), "go", "dist", "go test ./..."},
	} {
		s := Look(tc.repo)
		var checks []string
		for _, c := range s.Checks {
			checks = append(checks, strings.Join(c, " "))
		}
		if got := strings.Join(s.Commands, " "); got != tc.commands {
			t.Errorf("%s: commands %q, want %q", tc.name, got, tc.commands)
		}
		if got := strings.Join(s.Roots, " "); got != tc.roots {
			t.Errorf("%s: roots %q, want %q", tc.name, got, tc.roots)
		}
		if got := strings.Join(checks, ", "); got != tc.checks {
			t.Errorf("%s: checks %q, want %q", tc.name, got, tc.checks)
		}
	}
}

// TestLookIsBounded: a repository with many folders is looked at in part, and what is left
// out is not allowed.
func TestLookIsBounded(t *testing.T) {
	m := fstest.MapFS{"go.mod": {}}
	for i := range 300 {
		m["d"+strings.Repeat("x", i%200)+string(rune('a'+i%26))+"/a.go"] = &fstest.MapFile{}
	}
	for i := range 3 * lookNames {
		m["big/"+strings.Repeat("y", i%200)+string(rune('a'+i%26))+string(rune('a'+i/200))] = &fstest.MapFile{}
	}
	m["big/zzz.go"] = &fstest.MapFile{}
	s := Look(m)
	if len(s.Roots) != lookFolders+1 || slices.Contains(s.Roots, "big") {
		t.Errorf("%d roots: %q", len(s.Roots), s.Roots)
	}
}

// TestScaffoldIsValid: the JSON files of init are valid and filled in, and the schemas that
// its editor settings name exist.
func TestScaffoldIsValid(t *testing.T) {
	for _, repo := range []fs.FS{nil, repository("package.json"), repository("go.mod"), repository("pyproject.toml"), repository("Cargo.toml", "Makefile")} {
		for _, ci := range Systems() {
			list, err := Repository(specstest.NewSpecs(t), repo, Plan{Name: "house-x", Survey: Look(repo), CI: ci})
			if err != nil {
				t.Fatal(err)
			}
			checkSeeds(t, list)
			files := map[string]string{}
			for _, s := range list {
				files[s.Path] = s.Text
			}
			for _, schema := range []string{"intent", "profile"} {
				want, _ := specs.Schema(schema)
				name := ".fiador/" + schema + ".schema.json"
				if files[name] != string(want) || !strings.Contains(files[".vscode/settings.json"], `"./`+name+`"`) {
					t.Errorf("%s is not the schema, or no setting names it", name)
				}
			}
		}
	}
	for _, prefix := range []string{"gate.org.", "gate.repo."} {
		list, err := Layer(specstest.NewSpecs(t), prefix, "acme-x")
		if err != nil {
			t.Fatal(err)
		}
		checkSeeds(t, list)
	}
}

func checkSeeds(t *testing.T, list []Seed) {
	t.Helper()
	for _, s := range list {
		for _, hole := range []string{"VERSION", "REVISION", "PACKAGE", "LAYER", "LAST", "PREFIX", `"NAME"`, "COMMANDS", "ROOTS", "SURVEY", "/AT"} {
			if strings.Contains(s.Text, hole) && !strings.HasSuffix(s.Path, ".schema.json") {
				t.Errorf("%s is not filled in: it has %q", s.Path, hole)
			}
		}
		if !strings.HasSuffix(s.Path, ".json") || strings.HasSuffix(s.Path, ".schema.json") {
			continue
		}
		if _, err := canon.Parse([]byte(s.Text), canon.MaxIntentBytes); err != nil {
			t.Errorf("%s: %v", s.Path, err)
		}
	}
}

// TestRevision: the job and the hooks name the source that the program was made of. A build
// that does not know it names the main branch.
func TestRevision(t *testing.T) {
	repo := repository(".gitlab-ci.yml")
	for _, tc := range []struct{ ci, revision, file, want string }{
		{GitHub, "", ".github/workflows/fiador.yml", "fiador/action@main\n"},
		{GitHub, "0123abcd", ".github/workflows/fiador.yml", "fiador/action@0123abcd\n"},
		{GitLab, "", ".fiador/gitlab-ci.yml", "cmd/fiador@latest\n"},
		{GitLab, "v0.1.0", ".fiador/gitlab-ci.yml", "cmd/fiador@v0.1.0\n"},
		{NoCI, "", ".pre-commit-config.yaml", "rev: main\n"},
		{GitLab, "", ".pre-commit-config.yaml", "rev: main\n"},
		{NoCI, "0123abcd", ".pre-commit-config.yaml", "rev: 0123abcd\n"},
	} {
		list, err := Repository(specstest.NewSpecs(t), repo, Plan{Name: "house", CI: tc.ci, Revision: tc.revision})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(list, func(s Seed) bool { return s.Path == tc.file })
		if at < 0 || !strings.Contains(list[at].Text, tc.want) {
			t.Errorf("%s %q: %s lacks %q", tc.ci, tc.revision, tc.file, tc.want)
		}
	}
}

// TestSystem: the files of a repository choose the system that runs the job.
func TestSystem(t *testing.T) {
	for want, repos := range map[string][]fs.FS{
		GitHub: {nil, repository(), repository(".github/x"), repository(".github/x", ".gitlab-ci.yml")},
		GitLab: {repository(".gitlab-ci.yml")},
	} {
		for i, repo := range repos {
			if got := System(repo); got != want {
				t.Errorf("repository %d is for %s, want %s", i, got, want)
			}
		}
	}
}
