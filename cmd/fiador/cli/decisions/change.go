package decisions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/changes"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
)

// ChangeFlags ask about the change that a checkout brings (docs/gating.md, Changes without an
// intent). base and end are the two sides of --covers.
type ChangeFlags struct {
	changed, covers string
	base, end       string
}

// usualIntents is where the intents of a change are if the command line does not say it.
const usualIntents = "intents"

// noIntent says that a change has nothing to decide.
const noIntent = "this change brings no intent"

// Register adds the flags to a command.
func (f *ChangeFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&cli.Once{Value: &f.changed}, "changed", "decide only the intents that HEAD brings since it branched off `BASE`")
	flags.Var(&cli.Once{Value: &f.covers}, "covers", "as --changed, and fail for paths that changed in `BASE..HEAD` and that no accepted intent announces")
	cli.RefuseEmpty(cmd, "changed", "covers")
}

// Args refuses a command line without an intent, unless it asks about a change.
func (f *ChangeFlags) Args(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("changed") || cmd.Flags().Changed("covers") {
		return nil
	}
	return cli.AtLeastOne("INTENT")(cmd, args)
}

// check refuses flags that do not name one change.
func (f *ChangeFlags) check(args []string) error {
	f.base, f.end = f.changed, "HEAD"
	if f.covers != "" {
		var ok bool
		if f.base, f.end, ok = strings.Cut(f.covers, "..."); !ok {
			f.base, f.end, ok = strings.Cut(f.covers, "..")
		}
		if !ok || f.base == "" || f.end == "" {
			return cli.Usage("as in --covers origin/main..HEAD", "--covers %q is no range of the form BASE..HEAD", f.covers)
		}
	}
	switch {
	case f.changed != "" && f.changed != f.base:
		return cli.Unfit("leave --changed out: --covers decides the same intents", "--changed %q and --covers %q have two bases", f.changed, f.covers)
	case strings.HasPrefix(f.base, "-") || strings.HasPrefix(f.end, "-"):
		return cli.Usage("name a branch, a tag or a hash", "a revision begins with -: %q", f.base+".."+f.end)
	case slices.Contains(args, "-"):
		return cli.Unfit("name files, folders or patterns of the repository", "standard input is no part of a change")
	}
	return nil
}

// Change is the change that a check is about. A nil Change means that the check is about
// the intents that the command line names.
type Change struct {
	*changes.Change
	covers    bool
	brought   map[string]string // paths of git, by the name in results, of files that HEAD brings
	announced map[string]bool   // paths of git
	removed   []string          // intents that are there no more
}

// Targets finds the files to decide: of the files that the arguments name, those that the
// change brings, or all if the flags ask for no change.
func (f *ChangeFlags) Targets(ctx context.Context, a *cli.App, tree string, args []string) ([]intake.File, *Change, error) {
	if f.changed == "" && f.covers == "" {
		files, err := Targets(args)
		return files, nil, err
	}
	if err := f.check(args); err != nil {
		return nil, nil, err
	}
	found, err := changes.Look(ctx, tree, f.base, f.end, a.Environ)
	if err != nil {
		return nil, nil, unasked(err)
	}
	if len(args) == 0 {
		args = []string{usualIntents}
		if _, err := os.Lstat(usualIntents); errors.Is(err, fs.ErrNotExist) && len(found.Before(usualIntents)) == 0 {
			return nil, nil, cli.Usage("name the files or the folder of the intents", "INTENT is missing, and there is no folder %q here", usualIntents)
		}
	}
	c := &Change{Change: found, covers: f.covers != "", brought: map[string]string{}, announced: map[string]bool{}}
	files, removed, err := intake.FindSince(args, c.Before)
	if err != nil {
		return nil, nil, badPattern(err)
	}
	c.removed = removed
	if files, err = c.differing(files); err != nil {
		return nil, nil, err
	}
	for _, name := range c.Absent(args) {
		files = append(files, intake.File{Name: name, Err: runerr.Unreadable(screen.Path(name), "HEAD brings this file, and the work tree does not have it", "check out all of HEAD")})
	}
	return files, c, nil
}

// unasked returns the error for a question that git could not be asked.
func unasked(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return cli.Usage("install git", "--changed and --covers need git, which is not there")
	}
	if unknown, ok := errors.AsType[*changes.RevisionError](err); ok {
		return cli.Usage("check the name, or "+changes.FetchHint, "%s", unknown)
	}
	return err
}

// differing returns the files that the change does not leave as they were. A file that cannot be
// read stays, so that it is an error.
func (c *Change) differing(files []intake.File) ([]intake.File, error) {
	var list []intake.File
	known := map[string]bool{}
	for _, t := range files {
		if t.Err != nil {
			list = append(list, t)
			continue
		}
		state, err := c.State(t.Name)
		if err != nil {
			return nil, cli.Usage("name files of the work tree that --tree is in", "%s", err)
		}
		// Two files with one name in results are not told apart, so neither announces anything.
		name := screen.Path(t.Name)
		if delete(c.brought, name); state.Brought != "" && !known[name] {
			c.brought[name] = state.Brought
		}
		known[name] = true
		if !state.Same {
			list = append(list, t)
		}
	}
	return list, nil
}

// Decided notes what a decided intent announces: its own file, and if it is accepted the paths
// that it writes. An intent whose bytes are not those that HEAD brings announces nothing.
func (c *Change) Decided(e harness.End) {
	if c == nil || e.Err != nil {
		return
	}
	file, ok := c.brought[e.Path]
	if !ok {
		return
	}
	c.announced[file] = true
	if e.Decision.Outcome != kernel.OutcomeBundle {
		return
	}
	for _, effect := range e.Effects {
		if effect.Kind == kernel.EffectWrite {
			c.announced[c.Target(effect.Path)] = true
		}
	}
}

// mostNamed is how many paths of a kind are named on stderr.
const mostNamed = 20

// Conclude adds the changed paths that nothing announces to the reports, and names them on stderr
// unless words on a terminal name them.
func (c *Change) Conclude(a *cli.App, r *Reports, words bool) error {
	if c == nil {
		return nil
	}
	var gone []string
	for _, name := range c.removed {
		gone = append(gone, fmt.Sprintf("the intent %q was removed, so it is not decided", name))
	}
	say(a, gone, "")
	if !c.covers {
		return nil
	}
	var open []string
	for _, p := range c.Paths {
		if c.announced[p] && !c.Linked(p) {
			continue
		}
		item := report.Item{Path: c.Show(p), Unannounced: c.Was(p)}
		open = append(open, fmt.Sprintf("%q was %s, and no accepted intent announces it", item.Path, item.Unannounced))
		if err := r.Item(item); err != nil {
			return err
		}
	}
	if !words {
		say(a, open, "; --format human names them all")
	}
	return nil
}

// say writes lines on stderr, and the number of those that it leaves out. where says where
// these are.
func say(a *cli.App, lines []string, where string) {
	for _, line := range lines[:min(len(lines), mostNamed)] {
		a.Term.Message(line)
	}
	if more := len(lines) - mostNamed; more > 0 {
		a.Term.Message(fmt.Sprintf("and %d more", more) + where)
	}
}
