package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// executing holds the state that all commands with an execution share.
type executing struct {
	host     *sandbox.Host
	state    string   // folder of journals; empty until the folder to change is known
	evidence *os.Root // folder for evidence, opened before anything runs; or nil
}

// execution opens the host of an execution.
func execution(a *cli.App) *executing { return &executing{host: sandboxes.Open(a)} }

// close releases the resources of the host.
func (e *executing) close(ctx context.Context, a *cli.App) {
	if e.evidence != nil {
		_ = e.evidence.Close()
	}
	sandboxes.Close(ctx, a, e.host)
}

// openEvidence makes or opens an empty folder for evidence. The folder stays open, so that
// no program can put another folder in its place meanwhile.
func (e *executing) openEvidence(name string) error {
	if name == "" {
		return nil
	}
	entries, err := os.ReadDir(name)
	if len(entries) > 0 && err == nil {
		return cli.Usage("name a new or an empty folder", "--evidence %q is not empty", canon.Clean(name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Mkdir(name, 0o777)
	}
	if err == nil {
		e.evidence, err = os.OpenRoot(name)
	}
	if err != nil {
		return cli.Usage("name a new or an empty folder", "--evidence %q: %s", canon.Clean(name), runerr.Reason(err))
	}
	return nil
}

// keep writes a new file of evidence. It replaces no file.
func (e *executing) keep(name string, text []byte) error {
	if err := durable.Write(e.evidence, name, text, 0o666); err != nil {
		return runerr.New(result.CodeEvidence, "evidence "+name+" could not be written: "+runerr.Reason(err),
			"name a folder outside the work folder, with room", runerr.Because(err))
	}
	return nil
}

// preserve copies the written files into a new folder, whether they are accepted or not.
// Files beyond the profile's limit are left out.
func preserve(p *execute.Performed) (string, error) {
	dir, err := os.MkdirTemp("", "fiador-work-")
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return dir, err
	}
	defer root.Close()
	for _, c := range slices.Concat(p.Changes, p.Responses) {
		if err := preserveOne(root, p, c); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// preserveOne copies one change into root. Deletions, devices and other kinds are left
// out.
func preserveOne(root *os.Root, p *execute.Performed, c change.Change) error {
	if parent := filepath.Dir(c.Path); parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	switch c.Kind {
	case change.KindFolder:
		return root.MkdirAll(c.Path, 0o777)
	case change.KindLink:
		return root.Symlink(c.Target, c.Path)
	case change.KindFile:
		if c.Size > 0 && c.SHA256 == [32]byte{} {
			return nil // the file is beyond the limit for all files together
		}
		in, err := p.Content(c.Path)
		if err != nil {
			return err
		}
		defer in.Close()
		mode := fs.FileMode(0o666)
		if c.Executable {
			mode = 0o777
		}
		out, err := root.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	}
	return nil // deletions, devices and other kinds are left out
}

// executingFlags are the flags of run that matter only to an execution. work is the
// folder that commands work on top of, promote the folder that gets accepted outputs,
// and evidence a new folder for observed facts. preserve keeps what was written. read
// names further paths that commands may read.
type executingFlags struct {
	work     string
	promote  string
	evidence string
	preserve bool
	read     []string
	remote   remotes.Flags
}

func (f *executingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.work, "work", "", "folder that commands work on top of; it is never changed (default: an empty one)")
	flags.StringVar(&f.promote, "promote", "", "folder to apply the outputs of an accepted execution to")
	flags.StringVar(&f.evidence, "evidence", "", "new folder for what was observed: runner.json, stdout, stderr")
	flags.BoolVar(&f.preserve, "preserve-sandbox", false, "keep what was written, accepted or not, and print its folder on standard error")
	flags.StringArrayVar(&f.read, "read", nil, "further file or folder that commands may read; may be repeated")
}

// check refuses flags without an effect: in mode plan-only each of them is an error.
func (f executingFlags) check(mode string) error {
	if mode == harness.ModeExecuteSandbox {
		return nil
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--work", f.work != ""}, {"--promote", f.promote != ""}, {"--evidence", f.evidence != ""},
		{"--preserve-sandbox", f.preserve}, {"--read", len(f.read) > 0}, {"--remote", f.remote.Given()},
	} {
		if flag.given {
			return cli.Unfit("add --mode execute-sandbox", "%s belongs to an execution", flag.name)
		}
	}
	return nil
}

// prepareExecution resolves the folders that the flags name. It finishes or undoes the
// change that a killed command began on the folder of --promote. It refuses a --work
// that such a change left half done (specs/sandbox.md, Applying).
func prepareExecution(ctx context.Context, a *cli.App, f executingFlags, tree string, e *executing) (dirs harness.Folders, err error) {
	if dirs.Tree, err = folders.Named("tree", tree); err != nil {
		return dirs, err
	}
	if dirs.Read, err = sandboxes.ReadPaths("--read", f.read); err != nil {
		return dirs, err
	}
	if f.work != "" {
		if dirs.Work, err = folders.Named("work", f.work); err != nil {
			return dirs, err
		}
	}
	if f.promote != "" {
		dir, err := folders.Named("promote", f.promote)
		if err != nil {
			return dirs, err
		}
		if e.state, err = folders.Recovered(ctx, a, dir); err != nil {
			return dirs, err
		}
	}
	if f.work != "" {
		if err := folders.Finished(ctx, a, dirs.Work); err != nil {
			return dirs, err
		}
	}
	return dirs, e.openEvidence(f.evidence)
}

// keptFlags say what is kept of a run: its record in a ledger, the receipt of that, and
// its pack.
type keptFlags struct {
	ledgers.RecordFlags
	receipt string
	pack    string
	runID   string
}

// register adds the flags to a command. what is "run" or "execution".
func (f *keptFlags) register(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	f.RecordFlags.Register(cmd)
	flags.StringVar(&f.receipt, "receipt", "", "new file to write the ledger's receipt to (C2SP tlog-proof)")
	f.RegisterReceipt(cmd)
	flags.StringVar(&f.pack, "pack", "", "new folder to write the run pack to, which proves this "+what+" elsewhere")
	flags.StringVar(&f.runID, "run-id", "", "id of this "+what+" (default: made from the time and random digits)")
}

// check refuses a receipt without a ledger, and a run id that no ledger can have.
func (f keptFlags) check(a *cli.App) error {
	if err := ledgers.CheckReceipt(a, f.RecordFlags, f.receipt); err != nil {
		return err
	}
	if f.runID != "" && !ledger.RunID(f.runID) {
		return cli.Usage("1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit", "run id %q cannot be used", f.runID)
	}
	return nil
}

// sinks returns the sinks that every run has: its receipt and its pack.
func (f keptFlags) sinks(a *cli.App, w *pack.Writer) harness.Sinks {
	prove := ledgers.Prover(a, f.RecordFlags)
	return harness.Sinks{
		Receipt: func(ctx context.Context, r ledger.Receipt) error {
			return ledgers.KeepReceipt(ctx, a, prove, f.receipt, r)
		},
		Pack: packs.Sink(a, w, f.RecordFlags, prove, f.pack),
	}
}

// executed adds the sinks of an execution to to: the recording, the evidence, the copy
// of --preserve-sandbox and the promotion. harness.Deliver puts them in order.
func executed(ctx context.Context, a *cli.App, f runFlags, e *executing, to *harness.Sinks) {
	if f.modelMode == harness.ModelRecord {
		to.Recording = func(modelIO, toolIO []byte) error {
			return errors.Join(keepRecording(a, f.recording, modelIO), keepRecording(a, f.tools, toolIO))
		}
	}
	if e.evidence != nil {
		to.Evidence = e.keep
	}
	if f.preserve {
		to.Keep = func(p *execute.Performed) error {
			dir, err := preserve(p)
			if err != nil {
				return runerr.New(result.CodeEvidence, "what was written could not be kept: "+runerr.Reason(err), "", runerr.Because(err))
			}
			fmt.Fprintln(a.Stderr, dir)
			return nil
		}
	}
	if f.out != "" {
		keep := to.Keep
		to.Keep = func(p *execute.Performed) error {
			err := keepAnswer(a, f.out, p)
			if err == nil && keep != nil {
				err = keep(p)
			}
			return err
		}
	}
	if f.promote != "" {
		to.Promote = &harness.Promotion{
			Folder: func() (string, error) { return folders.Named("promote", f.promote) }, State: e.state,
			Refuse: func(dir string, plan *patch.Plan) error { return folders.RefuseHooks(ctx, a, dir, plan) },
		}
	}
}

// stepLine shows on a terminal the current action of an execution and the seconds since
// the start, from the first second on. clear must be called once; it ends the display.
// Without a terminal show is nil.
func stepLine(a *cli.App) (show func(action, of int), clear func()) {
	if !a.Redraws() {
		return nil, func() {}
	}
	begun, shown := a.Now(), false
	var line atomic.Value
	line.Store("starting")
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for ticks := time.Tick(time.Second); ; {
			select {
			case <-done:
				return
			case <-ticks:
			}
			shown = true
			fmt.Fprintf(a.Stderr, "\r\x1b[K%s, %d s", line.Load(), int(a.Now().Sub(begun).Seconds()))
		}
	})
	show = func(i, of int) { line.Store(fmt.Sprintf("action %d of %d", i+1, of)) }
	return show, func() {
		close(done)
		ticking.Wait()
		if shown {
			fmt.Fprint(a.Stderr, "\r\x1b[K")
		}
	}
}
