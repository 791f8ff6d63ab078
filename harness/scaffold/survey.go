package scaffold

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/pathname"
)

// Survey is what a look at a repository found, and what a profile for it allows. The zero
// Survey found nothing and allows nothing.
type Survey struct {
	Found    []Found
	Commands []string
	Roots    []string // folders beneath which an intent may write
	Checks   []Argv   // one command of each kind of project, which tests the project
	Publish  Argv     // a command that publishes; its last argument says so
}

// Found is a file that names a kind of project, and the commands that follow from it.
type Found struct {
	File     string   `json:"file"`
	Kind     string   `json:"kind"`
	Commands []string `json:"commands"`
}

// Argv is a command with its arguments.
type Argv []string

// kind is a kind of project. Sources are the suffixes of its source files, and outputs are
// the folders that its builds usually write.
type kind struct {
	files   []string
	name    string
	sources []string
	outputs []string
	tools   func(repo fs.FS, text []byte) tools
}

// tools are the commands of a project, the one that tests it, and one that publishes it.
type tools struct {
	commands       []string
	check, publish Argv
}

func kinds() []kind {
	return []kind{
		{[]string{"package.json"}, "Node.js", []string{".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx"}, []string{"dist", "out", "build"}, nodeTools},
		{[]string{"go.mod"}, "Go", []string{".go"}, []string{"dist", "build"}, func(fs.FS, []byte) tools {
			return tools{[]string{"go"}, Argv{"go", "test", "./..."}, Argv{"go", "run", "./cmd/tool", "publish"}}
		}},
		{[]string{"pyproject.toml"}, "Python", []string{".py"}, []string{"dist", "build"}, pythonTools},
		{[]string{"Cargo.toml"}, "Rust", []string{".rs"}, []string{"target"}, func(fs.FS, []byte) tools {
			return tools{[]string{"cargo"}, Argv{"cargo", "test"}, Argv{"cargo", "publish"}}
		}},
		{[]string{"Makefile", "makefile", "GNUmakefile"}, "make", nil, []string{"build"}, makeTools},
	}
}

// Files returns the names of the files that say what a repository is.
func Files() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.files[0])
	}
	return names
}

// nodeTools finds the package managers by their lock files. Without one it is npm.
func nodeTools(repo fs.FS, _ []byte) tools {
	t := tools{commands: []string{"node"}}
	for _, m := range [][2]string{
		{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"}, {"pnpm-lock.yaml", "pnpm"},
		{"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
	} {
		if isFile(repo, m[0]) && !slices.Contains(t.commands, m[1]) {
			t.commands = append(t.commands, m[1])
		}
	}
	if len(t.commands) == 1 {
		t.commands = append(t.commands, "npm")
	}
	t.check, t.publish = Argv{t.commands[1], "run", "test"}, Argv{t.commands[1], "run", "publish"}
	return t
}

// pythonTools finds the manager of a project by its lock file or its table in
// pyproject.toml, and pytest by its name there.
func pythonTools(repo fs.FS, text []byte) tools {
	t := tools{[]string{"python"}, Argv{"python", "-m", "unittest"}, Argv{"python", "tools/release.py", "publish"}}
	if bytes.Contains(text, []byte("pytest")) {
		t.commands, t.check = append(t.commands, "pytest"), Argv{"pytest"}
	}
	for _, m := range []string{"uv", "poetry", "pdm"} {
		if isFile(repo, m+".lock") || bytes.Contains(text, []byte("[tool."+m)) {
			t.commands = append(t.commands, m)
			t.check, t.publish = append(Argv{m, "run"}, t.check...), Argv{m, "publish"}
			break
		}
	}
	return t
}

// makeTools takes the target test, where the Makefile has one.
func makeTools(_ fs.FS, text []byte) tools {
	t := tools{[]string{"make"}, Argv{"make"}, Argv{"make", "publish"}}
	if regexp.MustCompile(`(?m)^test[ \t]*:([^=]|$)`).Match(text) {
		t.check = append(t.check, "test")
	}
	return t
}

// Above returns the way from a folder up to the top of its repository of git, such as "../..".
// It is empty at the top, and without a repository.
func Above(dir string) string {
	dir, err := filepath.Abs(dir)
	up := ""
	for at := dir; err == nil; at, up = filepath.Dir(at), path.Join("..", up) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return up
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return ""
}

// Look finds out what a repository is, from the names at its top and from its folders. It
// runs nothing. A repository that does not exist yet is nil.
func Look(repo fs.FS) Survey {
	var s Survey
	if repo == nil {
		return s
	}
	var sources, outputs []string
	for _, k := range kinds() {
		at := slices.IndexFunc(k.files, func(name string) bool { return isFile(repo, name) })
		if at < 0 {
			continue
		}
		t := k.tools(repo, head(repo, k.files[at]))
		s.Found = append(s.Found, Found{k.files[at], k.name, t.commands})
		s.Commands = appendNew(s.Commands, t.commands...)
		s.Checks = append(s.Checks, t.check)
		if s.Publish == nil {
			s.Publish = t.publish
		}
		sources = append(sources, k.sources...)
		there := slices.DeleteFunc(slices.Clone(k.outputs), func(dir string) bool { return !isDir(repo, dir) })
		if len(there) == 0 {
			there = k.outputs[:1]
		}
		outputs = appendNew(outputs, there...)
	}
	s.Roots = appendNew(sourceFolders(repo, sources), outputs...)
	return s
}

// The limits of a look: how deep it goes into a folder, how many names it reads there and in
// all, how many folders with source it takes, and how much of a file it reads.
const (
	lookDepth   = 3
	lookNames   = 2000
	lookAll     = 200_000
	lookFolders = 64
	lookBytes   = 1 << 20
)

// sourceFolders returns the folders at the top that have a source file, sorted. It leaves
// out hidden folders, folders with code of others or with what builds write, and folders
// to which no intent may write.
func sourceFolders(repo fs.FS, suffixes []string) []string {
	var list []string
	left := lookAll
	entries, _ := fs.ReadDir(repo, ".")
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || len(list) == lookFolders || strings.HasPrefix(name, ".") || strings.Contains(name, "*") || len(name) > 255 ||
			slices.Contains(strings.Fields("node_modules vendor third_party venv env target dist build out tmp intents"), name) ||
			len(pathname.Faults(name+"/x")) > 0 {
			continue
		}
		if hasSource(repo, name, suffixes, &left) {
			list = append(list, name)
		}
	}
	return list
}

// hasSource looks for a source file. It takes the names that it reads from left.
func hasSource(repo fs.FS, dir string, suffixes []string, left *int) (found bool) {
	end := max(*left-lookNames, 0)
	_ = fs.WalkDir(repo, dir, func(p string, d fs.DirEntry, err error) error {
		*left--
		switch {
		case *left < end:
			return fs.SkipAll
		case err != nil || d.IsDir() && (strings.Count(p, "/") >= lookDepth || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.Type().IsRegular() && slices.Contains(suffixes, path.Ext(p)):
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// head returns the beginning of a file, or nothing.
func head(repo fs.FS, name string) []byte {
	f, err := repo.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, lookBytes))
	return b
}

func isFile(repo fs.FS, name string) bool {
	info, err := fs.Stat(repo, name)
	return err == nil && info.Mode().IsRegular()
}

func isDir(repo fs.FS, name string) bool {
	info, err := fs.Stat(repo, name)
	return err == nil && info.IsDir()
}

// appendNew appends the names that the list lacks.
func appendNew(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
