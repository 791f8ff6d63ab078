package ledgercmd

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
)

// exportFlags are the flags of export. from is the index of the first entry to write.
// force lets the file of --output be replaced.
type exportFlags struct {
	ledgers.ReadFlags
	format string
	output string
	from   int64
	force  bool
}

func exportCommand(a *cli.App) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "write all entries as JSON Lines or CSV",
		Long: `Export writes every entry up to the checkpoint, with all its members, to standard
output or to the file of --output. That file appears only when it is complete. An
existing file is replaced only with --force.

The formats are those of "fiador ledger list", and both are exact: from a CSV cell that
begins with an apostrophe, remove one apostrophe. For a copy that can be verified, copy
the folder or use "fiador ledger publish".

To continue an earlier export, give --from the index after its last entry.

Exit codes:
  0  everything was written
  1  the ledger does not keep what it has promised: entries were changed, or are gone
  2  the ledger, or an entry, could not be read, or the output could not be written`,
		Example: `  fiador ledger export --ledger ./ledger --format csv --output decisions.csv
  fiador ledger export --ledger ./ledger --from 1000 >>decisions.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.from < 0:
				return cli.Usage("the first entry has index 0", "--from %d is no index", f.from)
			case f.force && f.output == "":
				return cli.Unfit("name the file with --output", "--force replaces a file, and none is named")
			case f.output == "-":
				return cli.Unfit("leave --output out", "output %q cannot be standard output", f.output)
			}
			return ledgers.Reading(cmd.Context(), a, f.ReadFlags, func(r ledger.Source) error { return exportEntries(cmd.Context(), a, r, f) })
		},
	}
	f.ReadFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.output, "output", "", "file to write (default: standard output)")
	flags.Int64Var(&f.from, "from", 0, "index of the first entry to write")
	flags.BoolVar(&f.force, "force", false, "replace the file of --output")
	cli.FormatFlag(cmd, &f.format, "jsonl", "csv")
	return cmd
}

// exportEntries writes to standard output or to the file of --output. The file takes
// its place when it is complete; after an error nothing of it is left.
func exportEntries(ctx context.Context, a *cli.App, r ledger.Source, f exportFlags) error {
	if f.from > r.Checkpoint().Size {
		return cli.Usage("leave it out to write all", "--from %d: the ledger has %s", f.from, entryCount(r.Checkpoint().Size))
	}
	line := cli.NewProgress(a, r.Checkpoint().Size-f.from)
	if f.output == "" {
		out := bufio.NewWriterSize(line.Before(a.Stdout), 64<<10)
		return export(ctx, r, f, line, out, cli.Unprinted)
	}
	if err := exportTarget(a, f); err != nil {
		return err
	}
	file, err := cli.CreateFile(f.output, nil, 0o666)
	if err != nil {
		return cli.NotWritten(f.output, err)
	}
	failed := func(err error) error { return cli.NotWritten(f.output, err) }
	if err := export(ctx, r, f, line, bufio.NewWriterSize(file, 64<<10), failed); err != nil {
		return errors.Join(err, file.Abort())
	}
	if f.force {
		return failed(file.Replace())
	}
	if err = file.Add(); errors.Is(err, fs.ErrExist) {
		return fileExists(f.output)
	}
	return failed(err)
}

// export writes the entries. failed makes the error of a failed write, and nil of nil.
func export(ctx context.Context, r ledger.Source, f exportFlags, line *cli.Progress, out *bufio.Writer, failed func(error) error) error {
	defer line.Clear()
	var w entryWriter = jsonlWriter{out}
	if f.format == "csv" {
		w = newCSVWriter(out)
	}
	if err := w.begin(); err != nil {
		return failed(err)
	}
	for index, e := range r.Lines(ctx, f.from) {
		if e.Err != nil {
			return entryFailure(e.Err)
		}
		line.Tell()
		if err := w.entry(index, e); err != nil {
			return failed(err)
		}
	}
	return failed(errors.Join(w.end(nil), out.Flush()))
}

// exportTarget refuses an output file that exists or lies in the ledger, before anything
// is read.
func exportTarget(a *cli.App, f exportFlags) error {
	info, err := os.Stat(f.output)
	if err == nil && info.Mode().IsRegular() && !f.force {
		return fileExists(f.output)
	}
	inside, err := cli.Beneath(f.Name(a), f.output)
	if err != nil {
		return cli.NotWritten(f.output, err)
	}
	if inside {
		return cli.Unfit("name a file elsewhere", "output %q lies in the ledger", screen.Path(f.output))
	}
	return nil
}

// fileExists is the usage error for an existing output file.
func fileExists(name string) error {
	return cli.Usage("name another file, or replace this one with --force", "output %q is there already", screen.Path(name))
}
