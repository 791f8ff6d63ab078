// Package workcmd has the commands for work items and the states of a folder.
package workcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Work returns the group of commands for work items and states.
func Work(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "work",
		Short: "work items: an agent's change as a whole or not at all; states of a folder",
		Long: `Work runs the items of a plan on a folder, each as a whole or not at all. It applies
what an agent has written if the policy, the limits of the item and its test accept it.
Every item leaves a receipt, which can be verified, and run again elsewhere.

It also names the content of a folder by one hash, keeps it, compares two such states,
and brings one back. A state has files, links and folders, with their content and whether
their owner can execute them. Left out are .git and empty folders.

Exit codes:
  0  done
  1  an item has no success, a receipt does not hold, or states differ
  2  no answer`,
		Example: `  fiador work run plan.json --agents agents.json
  fiador work verify
  fiador work state
  before=$(fiador work freeze)
  fiador work diff "$before"
  fiador work thaw "$before"`,
	}, Check(a), Run(a), List(a), Show(a), Verify(a), Replay(a), State(a), Freeze(a), Diff(a), Thaw(a))
}

// place is a folder and the store of its states.
type place struct {
	dir, store string
}

func (p *place) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.store, "store", "", "folder of the states, outside of DIR (default: one for each DIR beneath the user's state folder)")
}

// registerTree adds the flag of the folder for commands whose arguments are states.
func (p *place) registerTree(cmd *cobra.Command) {
	p.register(cmd)
	cmd.Flags().StringVar(&p.dir, "tree", ".", "the folder")
}

// openStore finds the folder and opens its store. A change that a killed command began on the
// folder is ended first.
func (p *place) openStore(ctx context.Context, a *cli.App) (s *workspace.Store, journals string, err error) {
	info, err := os.Stat(p.dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	if err == nil {
		p.dir, err = cli.RealPath(p.dir)
	}
	if err != nil {
		return nil, "", runerr.Unreadable(screen.Folder(p.dir), runerr.Reason(err), "name a folder that is there")
	}
	if journals, err = folders.Recovered(ctx, a, p.dir); err != nil {
		return nil, "", err
	}
	if p.store == "" {
		seen := change.SeenOf(info)
		p.store = filepath.Join(journals, "work", fmt.Sprintf("%d-%d", seen.Device, seen.Inode))
	} else if cli.LiesIn(p.dir, p.store) {
		return nil, "", cli.Unfit("keep the store elsewhere", "--store %q lies in the folder %q, whose state it would change", screen.Path(p.store), screen.Folder(p.dir))
	}
	if s, err = workspace.OpenStore(p.store); err != nil {
		return nil, "", runerr.Unreadable(screen.Folder(p.store), runerr.Reason(err), "give the store room and permission, or name another one with --store")
	}
	return s, journals, nil
}

// failed words an error about a state or the store.
func (p *place) failed(ctx context.Context, err error) error {
	var of *workspace.Error
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return runerr.Unchanged()
	case errors.As(err, &of):
		return runerr.Unreadable(screen.Folder(p.dir), of.Error(), "a state has files, links and folders alone, which its user can read: remove the path, or move it elsewhere")
	case errors.Is(err, workspace.ErrMissing):
		return runerr.New(result.CodeEvidence, err.Error(), "fiador work freeze keeps a state; --store names the store that has it")
	case errors.Is(err, workspace.ErrDamaged):
		return runerr.New(result.CodeEvidence, err.Error(), "remove the object from the store, and freeze again a folder that has it")
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(*os.LinkError)):
		return runerr.New(result.CodeEvidence, "the store cannot be used: "+runerr.Reason(err), "give the store room and permission, or name another one with --store", runerr.File(screen.Folder(p.store)))
	}
	return runerr.New(result.CodeEvidence, err.Error(), "fiador work diff says what differs now")
}

// stateArgs takes a state, and one more argument or none.
func stateArgs(cmd *cobra.Command, args []string) error {
	if err := cli.AtLeastOne("STATE")(cmd, args); err != nil {
		return err
	}
	return cli.AtMostOne(cmd, args[1:])
}

// hash reads a hash of the command line.
func hash(s string) (receipt.Hash, error) {
	h, err := receipt.ParseHash(s)
	if err != nil {
		return h, cli.Usage("give one that fiador work state or freeze has printed", "%q is no hash of a state: %s", canon.Clean(s), err)
	}
	return h, nil
}

// State returns the command that prints the hash of a folder's content.
func State(a *cli.App) *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "state [DIR]",
		Short: "print the hash of a folder's content",
		Long: `State prints one hash for the content of a folder (default: the working folder). The
folder stays as it is. Files that have not changed since the last time are not read again.

Exit codes:
  0  the hash is printed
  2  the folder has what no state can hold, or cannot be read`,
		Example: "  fiador work state",
		Args:    cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.print(cmd.Context(), a, args, (*workspace.Store).State)
		},
	}
	p.register(cmd)
	return cmd
}

// Freeze returns the command that keeps a folder's content.
func Freeze(a *cli.App) *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "freeze [DIR]",
		Short: "keep a folder's content, and print its hash",
		Long: `Freeze keeps the content of a folder (default: the working folder) in the store, and
prints the hash by which thaw brings it back.

Exit codes:
  0  the content is kept
  2  it is not: the folder cannot be read, or the store cannot be written`,
		Example: "  fiador work freeze project",
		Args:    cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.print(cmd.Context(), a, args, (*workspace.Store).Freeze)
		},
	}
	p.register(cmd)
	return cmd
}

// print reads a state and prints its hash.
func (p *place) print(ctx context.Context, a *cli.App, args []string, read reader) error {
	p.dir = append(args, ".")[0]
	s, _, err := p.open(ctx, a)
	if err != nil {
		return err
	}
	defer s.Close()
	state, err := read(s, ctx, p.dir, a.Now())
	if err != nil {
		return p.failed(ctx, err)
	}
	return a.Print([]byte(state.Hash.String() + "\n"))
}

type reader = func(*workspace.Store, context.Context, string, time.Time) (workspace.State, error)
