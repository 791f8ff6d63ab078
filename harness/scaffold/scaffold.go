// Package scaffold owns the files with which a project begins to gate its intents: a profile
// that fits the project, its Rego and tests, a job, and settings of editors. It overwrites
// no file, and runs nothing of the project.
package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

//go:embed profile repo
var embedded embed.FS

// OwnProfile is the folder of a repository with the profile that init writes. Only the
// command line can choose it.
const OwnProfile = ".fiador/profile"

// Seed is a file that a command writes into a new project.
type Seed struct {
	Path string // beneath the folder, with slashes
	Text string
}

// Profile returns a commented profile with its Rego, its tests and its intents, for a
// project with Node.js.
func Profile(set *specs.Set, name string) ([]Seed, error) {
	return profileSeeds(set, name, Survey{
		Commands: []string{"node", "npm"}, Roots: []string{"out", "dist"},
		Checks: []Argv{{"npm", "run", "test"}}, Publish: Argv{"npm", "run", "publish"},
	})
}

// profileSeeds returns a profile that allows what a survey says. It extends the built-in profile
// default where that allows as much.
func profileSeeds(set *specs.Set, name string, s Survey) ([]Seed, error) {
	data := "whole.json"
	base, err := profile.Load(profiles.FS(), "default", set)
	if err != nil {
		return nil, err
	}
	wider := kernel.Profile{AllowedCommands: kernel.AllowList{Names: s.Commands}, AllowedWriteRoots: kernel.AllowList{Names: s.Roots}}.WiderThan(base)
	switch {
	case len(s.Found) == 0 && len(s.Commands) == 0:
		data = "nothing.json"
	case !slices.Contains(wider, "allowed_commands") && !slices.Contains(wider, "allowed_write_roots"):
		data = "profile.json"
	}
	files := map[string]string{data: harness.ProfileFile}
	if data == "nothing.json" {
		files["nothing.rego.txt"], files["nothing_test.rego.txt"] = "nothing.rego", "nothing_test.rego"
	}
	return layer(set, harness.UserPackage(name), name, s, files)
}

// Layer returns the Rego of a layer with its tests and its intents. The prefix of its
// package is policy.PrefixOrg or policy.PrefixRepo.
func Layer(set *specs.Set, prefix, name string) ([]Seed, error) {
	s := Survey{Roots: []string{"out"}, Checks: []Argv{{"npm", "run", "test"}}, Publish: Argv{"npm", "run", "publish"}}
	return layer(set, prefix+profiles.PackageName(name), name, s, map[string]string{})
}

// layer returns the files of a folder with Rego of a package: those of files, by the names
// of their templates, and those that every such folder has.
func layer(set *specs.Set, pkg, name string, s Survey, files map[string]string) ([]Seed, error) {
	maps.Copy(files, map[string]string{
		"rules.rego.txt": "rules.rego", "rules_test.rego.txt": "rules_test.rego", "regal.yaml": ".regal/config.yaml",
	})
	prefix, last := pkg[:strings.LastIndex(pkg, ".")+1], pkg[strings.LastIndex(pkg, ".")+1:]
	what := "the profile " + name
	if prefix != policy.PrefixUser {
		what = "the layer " + pkg
	}
	publish := s.Publish
	if publish == nil {
		publish = Argv{"make", "publish"}
	}
	list, err := seeds("profile", strings.NewReplacer(
		"LAYER", what, "PREFIXNAME", prefix+"NAME", "PACKAGE", pkg, "LAST", last, `"NAME"`, quote(name),
		"COMMANDS", spaced(s.Commands), "ROOTS", spaced(s.Roots), "/argv/AT", "/argv/"+strconv.Itoa(len(publish)-1),
	), files)
	if err != nil {
		return nil, err
	}
	schema, _ := specs.Schema("policy-input")
	list = append(list, Seed{"intents/build.json", s.example()}, Seed{"intents/publish.json", intent("Publish the project", "all tests pass", action(publish))},
		Seed{InputSchema, string(schema)})
	data, err := testData(set, list)
	list = append(list, Seed{DataFile, data})
	// The profile comes last, so that the next init completes what an interrupted one left.
	slices.SortStableFunc(list, func(a, b Seed) int {
		return cmp.Compare(strings.Count(a.Path, harness.ProfileFile), strings.Count(b.Path, harness.ProfileFile))
	})
	return list, err
}

// example returns an intent that the profile of the survey allows.
func (s Survey) example() string {
	var actions []string
	for _, argv := range s.Checks {
		actions = append(actions, action(argv))
	}
	if len(s.Roots) > 0 {
		actions = append(actions, `{"kind": "write", "path": `+quote(s.Roots[len(s.Roots)-1]+"/tested.txt")+`, "content": "All tests pass\n"}`)
	}
	if len(actions) == 0 {
		return intent("Find out how the project is tested", "change nothing")
	}
	return intent("Test the project, and note that it passes", "change no source file", actions...)
}

func action(argv Argv) string { return `{"kind": "run", "argv": ` + spaced(argv) + `}` }

// intent returns the text of an intent, with an action on each line.
func intent(goal, constraint string, actions ...string) string {
	text := "{\n  \"goal\": " + quote(goal) + ",\n  \"constraints\": [" + quote(constraint) + "]"
	if len(actions) > 0 {
		text += ",\n  \"actions\": [\n    " + strings.Join(actions, ",\n    ") + "\n  ]"
	}
	return text + "\n}\n"
}

// quote returns a text as JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string has no error
	return string(b)
}

// spaced returns a list as JSON on one line.
func spaced(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// The files of a policy's folder that its author's other tools read.
const (
	DataFile    = "data.json" // data.profile and data.intents, as opa test --bundle loads them
	InputSchema = "policy-input.schema.json"
)

// testData returns the text of DataFile for the profile and the intents of a list. Without
// a profile it is the built-in default one.
func testData(set *specs.Set, list []Seed) (string, error) {
	base := func(name string) (kernel.Profile, error) { return profile.Load(profiles.FS(), name, set) }
	p, err := base("default")
	for _, s := range list {
		if s.Path == harness.ProfileFile && err == nil {
			var r profile.Resolved
			r, err = profile.Resolve([]byte(s.Text), base, set)
			p = r.Profile
		}
	}
	suite := devel.Suite{Profile: p, Intents: map[string]policy.Input{}}
	for _, s := range list {
		if name, ok := strings.CutPrefix(s.Path, "intents/"); ok && err == nil {
			suite.Intents[strings.TrimSuffix(name, ".json")], err = harness.Question(set, p, harness.Request{
				Source: []byte(s.Text), Path: s.Path, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone,
			})
		}
	}
	if err != nil {
		return "", err
	}
	b, err := suite.Data()
	return string(b), err
}

// The systems for which Repository writes a job.
const (
	GitHub = "github"
	GitLab = "gitlab"
	NoCI   = "none"
)

const (
	profileFolder = OwnProfile + "/"
	readme        = ".fiador/README.md"
	exampleIntent = "intents/example.json"
	gitlabFile    = ".gitlab-ci.yml"
	gitlabInclude = ".fiador/gitlab-ci.yml" // beneath a control path, so that no intent can write it
)

// Systems returns the systems for which Repository writes a job.
func Systems() []string { return []string{GitHub, GitLab, NoCI} }

// System returns the system that a repository uses: GitLab if it has a .gitlab-ci.yml and no
// folder .github, and otherwise GitHub.
func System(repo fs.FS) string {
	if repo != nil && isFile(repo, gitlabFile) && !isDir(repo, ".github") {
		return GitLab
	}
	return GitHub
}

// Plan says what to write into a repository. Revision names the source of this program: a
// release or a commit, or it is empty for a build that knows neither.
type Plan struct {
	Name     string // of the profile
	Survey   Survey
	CI       string
	Revision string
}

// Repository returns the files that a repository needs to gate its intents.
func Repository(set *specs.Set, repo fs.FS, p Plan) ([]Seed, error) {
	own, err := profileSeeds(set, p.Name, p.Survey)
	if err != nil {
		return nil, err
	}
	var list []Seed
	for _, s := range own {
		switch s.Path {
		case InputSchema, ".regal/config.yaml": // one for all policies of the repository
			s.Path = ".fiador/" + s.Path
		default:
			s.Path = profileFolder + s.Path
		}
		list = append(list, s)
	}
	for _, schema := range []string{"intent", "profile"} {
		b, _ := specs.Schema(schema)
		list = append(list, Seed{".fiador/" + schema + ".schema.json", string(b)})
	}
	list = append(list, Seed{exampleIntent, p.Survey.example()})
	files := map[string]string{"pre-commit.yaml": ".pre-commit-config.yaml", "settings.json": ".vscode/settings.json", "README.md": readme}
	branch := "main"
	switch p.CI {
	case GitHub:
		files["workflow.yml"] = ".github/workflows/fiador.yml"
	case GitLab:
		branch = "latest"
		files["gitlab.yml"] = gitlabFile
		if repo != nil && isFile(repo, gitlabFile) && !bytes.Contains(head(repo, gitlabFile), []byte("fiador/cmd/fiador@")) {
			files["gitlab.yml"] = gitlabInclude
		}
	}
	rest, err := seeds("repo", strings.NewReplacer("VERSION", kernel.Version, "SURVEY", p.words(), "rev: REVISION", "rev: "+cmp.Or(p.Revision, "main"),
		"REVISION", cmp.Or(p.Revision, branch)), files)
	return append(list, rest...), err
}

// words says in Markdown what was found and what follows from it.
func (p Plan) words() string {
	var b strings.Builder
	for _, f := range p.Survey.Found {
		b.WriteString("- `" + f.File + "` (" + f.Kind + "): the commands " + code(f.Commands) + "\n")
	}
	if b.Len() > 0 {
		return b.String() + "- the folders with source, and those that builds write: " + code(p.Survey.Roots)
	}
	whole, _ := embedded.ReadFile("profile/whole.json")
	fill := strings.NewReplacer(`"NAME"`, quote(p.Name), "COMMANDS", `["make"]`, "ROOTS", `["src", "build"]`)
	return "There was no " + code(Files()) + ", so `profile/nothing.rego` refuses every command, write,\ninput and call. To begin, delete that file and its test, " +
		"and say in `profile/profile.json` what an agent may do, such as:\n\n```json\n" + fill.Replace(string(whole)) + "```"
}

func code(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }

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

// Additions returns what files that are kept lack, as the texts to add to them. A file of
// settings that mentions this program lacks nothing.
func Additions(repo fs.FS, list []Seed) []Seed {
	var adds []Seed
	for _, s := range list {
		mention := "fiador"
		switch s.Path {
		case gitlabInclude:
			s, mention = Seed{gitlabFile, "include:\n  - local: " + gitlabInclude + "\n"}, gitlabInclude
		case ".pre-commit-config.yaml", ".vscode/settings.json":
		default:
			continue
		}
		if isFile(repo, s.Path) && !bytes.Contains(head(repo, s.Path), []byte(mention)) {
			adds = append(adds, s)
		}
	}
	return adds
}

// Settled is a list of files with those of them that stand already, and are kept. Theirs says
// that the profile is not the one of the list: then the list has none of the new files that
// belong to that one. NoData says that DataFile was left out.
type Settled struct {
	Seeds          []Seed
	Kept           []bool
	Theirs, NoData bool
}

// Settle looks which files of a list stand already. Root is nil for a folder that does not
// exist yet. Anything but a file at one of the paths is an error.
func Settle(root *os.Root, list []Seed) (Settled, error) {
	var s Settled
	stands, differs := map[string]bool{}, false
	for _, seed := range list {
		there, err := seed.stands(root)
		if err != nil {
			return Settled{}, err
		}
		stands[seed.Path] = there
		if there && string(head(root.FS(), seed.Path)) != seed.Text {
			s.Theirs = s.Theirs || seed.Path == profileFolder+harness.ProfileFile
			differs = differs || strings.HasPrefix(seed.Path, profileFolder+"intents/")
		}
	}
	for _, seed := range list {
		own := strings.HasPrefix(seed.Path, profileFolder) || seed.Path == readme || seed.Path == exampleIntent
		data := seed.Path == profileFolder+DataFile
		if !stands[seed.Path] && (s.Theirs && own || data && differs) {
			s.NoData = s.NoData || data
			continue
		}
		s.Seeds, s.Kept = append(s.Seeds, seed), append(s.Kept, stands[seed.Path])
	}
	return s, nil
}

// stands says whether a file stands at the path of a seed.
func (s Seed) stands(root *os.Root) (bool, error) {
	if root == nil {
		return false, nil
	}
	for at := path.Dir(s.Path); at != "."; at = path.Dir(at) {
		if leadsNowhere(root, at) {
			return false, s.unwritten(errors.New("the link " + strconv.Quote(at) + " leads nowhere"))
		}
	}
	name := filepath.FromSlash(s.Path)
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	info, err := root.Stat(name)
	switch {
	case leadsNowhere(root, s.Path):
		err = errors.New("a link that leads nowhere stands there")
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("something that is no file stands there")
	}
	if err != nil {
		return false, s.unwritten(err)
	}
	return true, nil
}

// leadsNowhere reports whether a link stands at a path, and nothing where it leads.
func leadsNowhere(root *os.Root, path string) bool {
	name := filepath.FromSlash(path)
	_, err := root.Lstat(name)
	_, broken := root.Stat(name)
	return err == nil && errors.Is(broken, fs.ErrNotExist)
}

func (s Seed) unwritten(err error) error {
	return runerr.New(result.CodeInternal, "file "+strconv.Quote(s.Path)+" could not be written: "+runerr.Reason(err),
		"make room for it, or choose another folder", runerr.Because(err))
}

// Sow writes a seed beneath root, which links cannot leave. The error wraps fs.ErrExist if
// something stands at its path.
func (s Seed) Sow(root *os.Root) error {
	name := filepath.FromSlash(s.Path)
	err := root.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		err = durable.Write(root, name, []byte(s.Text), 0o666)
	}
	if err != nil {
		return s.unwritten(err)
	}
	return nil
}
