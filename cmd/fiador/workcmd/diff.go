package workcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/result"
)

// Diff returns the command that compares two states.
func Diff(a *cli.App) *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "diff STATE [STATE]",
		Short: "list the paths at which two states differ",
		Long: `Diff compares a state that freeze has kept with another one, or with the folder as it
is. It prints one line for each path: A added, D deleted, M another content, T another
kind, X the executable bit alone.

Exit codes:
  0  no difference
  1  the states differ
  2  no answer`,
		Example: "  fiador work diff blake3:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Args:    stateArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var states [2]receipt.Hash
			for i, arg := range args {
				var err error
				if states[i], err = hash(arg); err != nil {
					return err
				}
			}
			s, _, err := p.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 1 {
				now, err := s.State(cmd.Context(), p.dir, a.Now())
				if err != nil {
					return p.failed(cmd.Context(), err)
				}
				states[1] = now.Hash
			}
			list, err := s.Diff(cmd.Context(), states[0], states[1])
			if err != nil {
				return p.failed(cmd.Context(), err)
			}
			a.RejectIf(len(list) > 0)
			return a.Print([]byte(lines(list)))
		},
	}
	p.registerTree(cmd)
	return cmd
}

// lines returns one line for each difference.
func lines(list []workspace.Difference) string {
	var b strings.Builder
	for _, d := range list {
		before, after := d.Before, d.After
		mark := "T"
		isFile := func(e receipt.Entry) bool { return e.Mode == receipt.File || e.Mode == receipt.Executable }
		switch {
		case before.Mode == "" && after.Mode == receipt.Folder, after.Mode == "" && before.Mode == receipt.Folder:
			continue // its files have their own lines
		case before.Mode == "":
			mark = "A"
		case after.Mode == "":
			mark = "D"
		case before.Hash == after.Hash && isFile(before) && isFile(after):
			mark = "X"
		case before.Mode == after.Mode, isFile(before) && isFile(after):
			mark = "M"
		}
		fmt.Fprintf(&b, "%s %s\n", mark, screen.Path(d.Path))
	}
	return b.String()
}

// Thaw returns the command that brings a state back.
func Thaw(a *cli.App) *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "thaw STATE [DIR]",
		Short: "bring a folder back to a state that freeze has kept",
		Long: `Thaw makes the content of a folder (default: the working folder) that of a state: all of
it, or nothing, also after a kill. It keeps the state that it replaces, prints its hash,
and says on standard error what has changed. What no state has, such as .git, stays.

Exit codes:
  0  the folder has the state
  2  nothing is changed`,
		Example: `  before=$(fiador work freeze)
  fiador work thaw "$before"`,
		Args: stateArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := hash(args[0])
			if err != nil {
				return err
			}
			p.dir = append(args[1:], ".")[0]
			s, journals, err := p.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer s.Close()
			was, list, err := s.Thaw(cmd.Context(), journals, p.dir, want, a.Now())
			if err != nil {
				return p.notThawed(cmd.Context(), err, journals)
			}
			for line := range strings.Lines(lines(list)) {
				a.Term.Message(strings.TrimSuffix(line, "\n"))
			}
			return a.Print([]byte(was.Hash.String() + "\n"))
		},
	}
	p.register(cmd)
	return cmd
}

// notThawed words an error of Thaw.
func (p *place) notThawed(ctx context.Context, err error, journals string) error {
	conflict, changed := errors.AsType[*tree.ConflictError](err)
	switch {
	case changed:
		return runerr.New(result.CodeEvidence, "nothing is changed: "+conflict.Error(), "run it again when nobody changes the folder")
	case errors.Is(err, tree.ErrApplied), errors.Is(err, tree.ErrUnfinished):
		return runerr.New(result.CodeEvidence, err.Error(), "give the state folder room and permission, and run the command again")
	case errors.Is(err, tree.ErrNotOwn), errors.Is(err, tree.ErrBusy):
		return folders.RecoverError(journals, p.dir, tree.RecoveredNothing, err)
	case errors.As(err, new(*workspace.ApplyError)):
		return runerr.New(result.CodeEvidence, "nothing is changed: "+runerr.Reason(err), "give the folder, and the folder for journals, room and permission", runerr.File(screen.Folder(p.dir)))
	}
	return p.failed(ctx, err)
}
