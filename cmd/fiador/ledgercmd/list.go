package ledgercmd

import (
	"bufio"
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/ledger"
)

// listFlags are the flags of list. last is how many of the newest entries are listed,
// and 0 for all. relative goes with the format human alone.
type listFlags struct {
	ledgers.ReadFlags
	chooseFlags
	last     int64
	reverse  bool
	relative bool
	format   string
}

const listHelp = `List prints entries of a ledger in their order, so that the newest stands last;
--reverse prints the newest first. Flags choose entries: an entry must match every
flag, and one value of a flag that lists several.

Times are in UTC. A date means its beginning for --since and its end for --until.

A run that began and has no end was killed, or still goes on: it is "open". A line
on standard error counts the open runs that are listed. They do not change the exit
code.
FAILED is a BUNDLE whose execution was not accepted.

Formats:
  human  columns; cut to the width of a terminal, never elsewhere
  json   one canonical document: checkpoint {origin, root, size}, entries, and the
         ids of open runs
  jsonl  one canonical object a line: the members of the record, and index
  csv    RFC 4180 with a header; what the record does not have is empty. A cell that
         begins with =, +, -, @ or ' has one more ' before it. So no spreadsheet
         takes the cell for a formula

The columns of csv, in their order:
  entry      index, timestamp, kind, run_id
  decision   result_kind, accepted, reasons (joined with "|"), policy, mode,
             execution_mode
  hashes     intent_sha256, bundle_sha256, policy_sha256, input_sha256,
             decision_sha256, canonical_sha256, result_sha256, evidence_sha256
  others     evidence_size, kernel_version, code, rule_id, clock_behind_ms
  ledger     format, origin, key, repairs (a JSON array)
  work item  work_item_id, work_plan_sha256, work_base, work_before, work_after,
             work_receipt

List believes what it reads; "fiador ledger verify" is what proves it. An entry that
cannot be read ends the list with exit code 2.

Exit codes:
  0  listed, even if nothing was to be listed
  1  the ledger does not keep what it has promised: entries were changed, or are gone
  2  the ledger, or an entry, could not be read`

func listCommand(a *cli.App) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list what was recorded",
		Long:  listHelp,
		Example: `  fiador ledger list --ledger ./ledger --last 20
  fiador ledger list --ledger ./ledger --outcome REFUSE,CLARIFY --since 7d --relative
  fiador ledger list --ledger ./ledger --item work-item-1
  fiador ledger list --ledger ./ledger --format jsonl | jq -r .intent_sha256`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("last") && f.last < 1:
				return cli.Usage("a number from 1 on", "--last %d lists nothing", f.last)
			case f.relative && f.format != "human":
				return cli.Unfit("leave it out; other formats have exact times", "--relative goes with --format human")
			}
			return listEntries(cmd.Context(), a, f)
		},
	}
	f.ReadFlags.Register(cmd)
	f.chooseFlags.register(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&f.last, "last", 0, "only the newest `N` of them")
	flags.BoolVar(&f.reverse, "reverse", false, "the newest first")
	flags.BoolVar(&f.relative, "relative", false, "say how long ago, and not when")
	cli.FormatFlag(cmd, &f.format, "human", "json", "jsonl", "csv")
	return cmd
}

// listEntries lists the chosen entries. An entry that cannot be read ends the list with
// exit status 2; the entries before it are printed. Open runs do not change the status.
func listEntries(ctx context.Context, a *cli.App, f listFlags) error {
	filter, err := f.filter(a.Now())
	if err != nil {
		return err
	}
	s, out, err := openEntries(ctx, a, f.ReadFlags, filter)
	if err != nil {
		return err
	}
	defer s.Close()
	defer s.line.Clear()
	l := lister{entries: s, last: f.last}
	if l.first, err = s.since(ctx); err != nil {
		return err
	}
	if err := l.skip(ctx); err != nil {
		return err
	}
	l.w = newEntryWriter(ctx, a, f, &l, out)
	err = l.list(ctx, f.reverse)
	err = cmp.Or(err, cli.Flush(out))
	s.line.Clear()
	if err != nil {
		return err
	}
	if l.listed == 0 && f.format == "human" {
		a.Term.Message("no entry to list")
	}
	tellOpen(a, s)
	return nil
}

// newEntryWriter returns the writer of a format, which writes to out.
func newEntryWriter(ctx context.Context, a *cli.App, f listFlags, l *lister, out *bufio.Writer) entryWriter {
	switch f.format {
	case "json":
		return &jsonWriter{out: out, checkpoint: l.Checkpoint()}
	case "jsonl":
		return jsonlWriter{out}
	case "csv":
		return newCSVWriter(out)
	}
	return &listWriter{
		out: out, t: a.Page, layout: a.Layout(), digits: len(strconv.FormatInt(l.Checkpoint().Size-1, 10)),
		relative: f.relative, now: a.Now(),
		isOpen: func(index int64, runID string) (bool, error) { return l.isOpen(ctx, index, runID) },
	}
}

// lister lists the chosen entries from first on, or only the last of them.
type lister struct {
	*entries
	w      entryWriter
	first  int64
	last   int64 // 0: all
	ends   ledger.Open
	listed int64
}

// skip sets first to the index of the first entry to list.
func (l *lister) skip(ctx context.Context) error {
	if l.last == 0 {
		return nil
	}
	if l.filter.All() {
		l.first = max(l.Checkpoint().Size-l.last, 0)
		return nil
	}
	left := l.last
	return l.back(ctx, func(index int64, e ledger.Entry) (bool, error) {
		if l.filter.Match(e.Record) {
			if left--; left == 0 {
				l.first = index
			}
		}
		return left > 0 && index > l.first, nil
	})
}

// list writes the beginning, the entries and the end of the format.
func (l *lister) list(ctx context.Context, reverse bool) error {
	err := l.w.begin()
	visit := func(index int64, e ledger.Entry) error {
		l.listed++
		return cli.Unprinted(l.w.entry(index, e))
	}
	switch {
	case err != nil:
	case reverse:
		err = l.backwards(ctx, visit)
	default:
		err = l.each(ctx, l.first, visit)
	}
	if err == nil {
		err = l.w.end(l.open)
	}
	return cli.Unprinted(err)
}

// backwards visits the chosen entries, the newest first.
func (l *lister) backwards(ctx context.Context, visit visitor) error {
	return l.back(ctx, func(index int64, e ledger.Entry) (bool, error) {
		if index < l.first {
			return false, nil
		}
		if !l.filter.Match(e.Record) {
			return true, nil
		}
		if e.Record.Kind == ledger.KindBegun {
			open, err := l.isOpen(ctx, l.first, e.Record.RunID)
			if err != nil {
				return false, err
			}
			if open {
				l.open.See(index, e.Record)
			}
		}
		return true, visit(index, e)
	})
}

// isOpen reports whether a run that began at an index or later has no end. Its first call
// reads the entries from that index on.
func (l *lister) isOpen(ctx context.Context, index int64, runID string) (bool, error) {
	if l.ends == nil {
		var err error
		if l.ends, err = l.unended(ctx, index); err != nil {
			return false, err
		}
	}
	_, open := l.ends[runID]
	return open, nil
}
