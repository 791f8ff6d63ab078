package policycmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/build"
	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/scaffold"
	"github.com/fiador/fiador/kernel/result"
)

// initFlags are the flags of init. An empty ci is the system that the repository uses.
type initFlags struct {
	name, ci, format string
	dryRun           bool
}

// Init returns the command that gates a repository with a first profile. It keeps every
// existing file. For a kept file of settings that does not mention Fiador, it prints
// the text to add.
func Init(a *cli.App) *cobra.Command {
	f := initFlags{name: "house"}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "begin to gate the intents of a repository",
		Long: `Init looks at a repository and writes what it needs to gate its intents. The profile in
.fiador/profile fits the repository. package.json, go.mod, pyproject.toml, Cargo.toml
and Makefile give the commands. An intent may write to folders with source and to
folders of builds. Without any of these files the profile allows nothing.

Init also writes tests, an example intent, a CI job, an entry for pre-commit,
schemas, and settings for editors. It overwrites nothing: an existing file is kept,
and the printed list says so.

The job of GitHub runs the action, with a summary and a SARIF report. Without --ci a
repository with .gitlab-ci.yml and without .github gets the job of GitLab.

Exit codes:
  0  every file is there; with --dry-run, every file could be there
  2  a file could not be written`,
		Example: `  fiador init --dry-run
  fiador init --name acme --ci gitlab
  fiador init --dry-run --format json`,
		Args: cli.AtMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return initRepository(a, dir, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", f.name, "name of the profile")
	flags.StringVar(&f.ci, "ci", "", "job to write: "+strings.Join(scaffold.Systems(), ", ")+" (default: what the repository uses)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "write nothing, and print what would be written; --format json prints the texts too")
	cli.FormatFlag(cmd, &f.format, "text", "json")
	cli.Complete(cmd, "ci", scaffold.Systems()...)
	return cmd
}

// started is what init found, wrote and kept, and what it leaves to do.
type started struct {
	initFlags
	scaffold.Settled
	dir  string
	plan scaffold.Plan
	adds []scaffold.Seed
}

// initRepository looks at a folder, and writes the files that it lacks. Whatever could
// stand in the way of a file is found before the first one is written.
func initRepository(a *cli.App, dir string, f initFlags) error {
	if err := checkProfileName(f.name); err != nil {
		return err
	}
	if f.ci != "" {
		if err := cli.Choice("ci", f.ci, scaffold.Systems()); err != nil {
			return err
		}
	}
	root, err := openRepository(dir, f.dryRun)
	if err != nil {
		return unmade(dir, err)
	}
	var repo fs.FS
	if root != nil {
		defer root.Close()
		repo = root.FS()
	}
	_, source := build.Info()
	s := started{initFlags: f, dir: dir, plan: scaffold.Plan{Name: f.name, Survey: scaffold.Look(repo), CI: f.ci, Revision: source.Revision()}}
	if f.ci == "" {
		s.plan.CI = scaffold.System(repo)
	}
	list, err := scaffold.Repository(a.Specs, repo, s.plan)
	if err != nil {
		return err
	}
	if s.Settled, err = scaffold.Settle(root, list); err != nil {
		return err
	}
	if repo != nil {
		s.adds = scaffold.Additions(repo, s.Seeds)
	}
	for i, seed := range s.Seeds {
		if s.Kept[i] || f.dryRun {
			continue
		}
		if err := seed.Sow(root); err != nil {
			return err
		}
	}
	return cli.PrintAs(a, f.format, s.document(), s.text)
}

// openRepository opens a folder, which it makes unless nothing is to be written. It returns
// nil for a folder that is not there.
func openRepository(dir string, dryRun bool) (*os.Root, error) {
	if !dryRun {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if dryRun && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}

// unmade is the error of a folder that cannot be made or entered.
func unmade(dir string, err error) error {
	if dir == "" {
		return cli.Usage("write . for the working directory, or leave it out", "the folder has no name")
	}
	return runerr.New(result.CodeInternal, "folder "+strconv.Quote(asGiven(dir))+" cannot be used: "+runerr.Reason(err),
		"name a folder that may be written, or a new one beside others", runerr.Because(err))
}

// path returns the place of a file of the list in the form that the user gave.
func (s started) path(seed scaffold.Seed) string {
	return asGiven(filepath.Join(s.dir, filepath.FromSlash(seed.Path)))
}

// state says what became of a file of the list, or would become of it.
func (s started) state(i int) string {
	switch {
	case s.Kept[i]:
		return "kept"
	case s.dryRun:
		return "new"
	}
	return "wrote"
}

// text prints what was found, what follows from it, each file, and what to do next.
func (s started) text(t cli.Terminal) {
	survey := s.plan.Survey
	for _, f := range survey.Found {
		t.Line("found", f.File, f.Kind)
	}
	switch {
	case s.Theirs:
		t.Line("kept ", "the profile of .fiador/profile, whatever was found")
	case len(survey.Found) == 0:
		t.Line("found", "none of "+strings.Join(scaffold.Files(), ", "))
		t.Line("allow", "nothing: .fiador/README.md says how to begin")
	default:
		t.Line("allow", "commands "+strings.Join(survey.Commands, ", "))
		t.Line("allow", "writes beneath "+screen.Plain(strings.Join(survey.Roots, ", ")))
	}
	for i, seed := range s.Seeds {
		t.Line(fmt.Sprintf("%-5s", s.state(i)), screen.Plain(s.path(seed)))
	}
	for _, add := range s.adds {
		t.Line("\nAdd to " + screen.Plain(s.path(add)) + ":\n\n" + strings.TrimSuffix(add.Text, "\n"))
	}
	if up := scaffold.Above(s.dir); up != "" {
		t.Line("\nThe repository begins in " + up + ": GitHub, GitLab and pre-commit read their files only there. Run fiador init there, or move the files.")
	}
	if s.dryRun {
		t.Line("\nNothing was written.")
		return
	}
	t.Line("\nTry next:")
	if s.dir != "." {
		t.Command("  cd " + typed(s.dir))
	}
	if s.NoData {
		t.Command("  fiador policy test .fiador/profile --data >.fiador/profile/" + scaffold.DataFile)
	}
	t.Command("  fiador policy test .fiador/profile --coverage")
	t.Command("  fiador check intents --policy .fiador/profile --tree intents --format human")
	if s.plan.Revision == "" {
		t.Line("\nThis build does not know its commit. Put a commit of Fiador in place of main or latest, in the job and for pre-commit.")
	}
}

// document returns the answer in the form that --format json prints. Only with --dry-run
// does a file have its text. The profile and its lists are null where another one is kept.
func (s started) document() any {
	type file struct {
		Path  string  `json:"path"`
		State string  `json:"state"`
		Text  *string `json:"text,omitempty"`
	}
	type addition struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
	doc := struct {
		Found    []scaffold.Found `json:"found"`
		Profile  *string          `json:"profile"`
		Commands []string         `json:"allowed_commands"`
		Roots    []string         `json:"allowed_write_roots"`
		CI       string           `json:"ci"`
		Revision *string          `json:"revision"`
		DryRun   bool             `json:"dry_run"`
		Files    []file           `json:"files"`
		Add      []addition       `json:"add"`
	}{
		cli.OrEmpty(s.plan.Survey.Found), &s.name, cli.OrEmpty(s.plan.Survey.Commands), cli.OrEmpty(s.plan.Survey.Roots),
		s.plan.CI, nil, s.dryRun, make([]file, len(s.Seeds)), make([]addition, len(s.adds)),
	}
	if s.Theirs {
		doc.Profile, doc.Commands, doc.Roots = nil, nil, nil
	}
	if s.plan.Revision != "" {
		doc.Revision = &s.plan.Revision
	}
	for i, seed := range s.Seeds {
		doc.Files[i] = file{Path: s.path(seed), State: s.state(i)}
		if s.dryRun {
			doc.Files[i].Text = &s.Seeds[i].Text
		}
	}
	for i, add := range s.adds {
		doc.Add[i] = addition{s.path(add), add.Text}
	}
	return doc
}
