package ledgercmd

import (
	"bufio"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// chooseFlags choose entries of a ledger: an entry must match every flag. since and until
// are moments that ledger.ParseMoment reads; empty sets no bound. acceptedSet reports
// whether --accepted was given. It is nil where the command lacks the flag.
type chooseFlags struct {
	since, until string
	profiles     []string
	intent       string
	item         string
	outcomes     []string
	kinds        []string
	reasons      []string
	accepted     bool
	acceptedSet  func() bool
}

// registerScope registers the flags that every command over entries has.
func (f *chooseFlags) registerScope(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "entries from this time on: RFC 3339, a date, or how long ago (90m, 24h, 7d)")
	flags.StringVar(&f.until, "until", "", "entries up to this time, that moment or day included")
	flags.StringSliceVar(&f.profiles, "profile", nil, "entries of runs under this profile; several with commas")
	flags.StringVar(&f.intent, "intent", "", "entries of runs of this intent: its hash, or the first 8 or more digits of it")
}

// register registers all flags of chooseFlags.
func (f *chooseFlags) register(cmd *cobra.Command) {
	f.registerScope(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.outcomes, "outcome", nil, "decisions with this outcome: BUNDLE, CLARIFY, REFUSE")
	flags.BoolVar(&f.accepted, "accepted", true, "decisions that were accepted; --accepted=false: that were not")
	flags.StringSliceVar(&f.reasons, "reason", nil, "entries with this reason, error code or rule id")
	flags.StringVar(&f.item, "item", "", "begun runs and decisions for the work item with this `ID`")
	flags.StringSliceVar(&f.kinds, "kind", nil, "entries of this kind: "+strings.Join(ledgerKinds, ", "))
	flags.Lookup("accepted").DefValue = "any"
	cli.Complete(cmd, "outcome", ledgerOutcomes...)
	cli.Complete(cmd, "kind", ledgerKinds...)
	f.acceptedSet = func() bool { return flags.Changed("accepted") }
}

var (
	// The values of --outcome and --kind.
	ledgerOutcomes = []string{"BUNDLE", "CLARIFY", "REFUSE"}
	ledgerKinds    = []string{"genesis", "begun", "decision", "error", "key-rotation", "repair"}
)

// filter returns the filter for the values of the flags.
func (f *chooseFlags) filter(now time.Time) (ledger.Filter, error) {
	out := ledger.Filter{Profiles: f.profiles, Reasons: f.reasons, Item: f.item}
	var err error
	const hint = "a time such as 2026-01-31T12:00:00Z, a date such as 2026-01-31, or how long ago: 90m, 24h, 7d"
	if f.since != "" {
		if out.Since, err = ledger.ParseMoment(f.since, now, false); err != nil {
			return out, cli.Usage(hint, "--since: %s", err)
		}
	}
	if f.until != "" {
		if out.Until, err = ledger.ParseMoment(f.until, now, true); err != nil {
			return out, cli.Usage(hint, "--until: %s", err)
		}
	}
	if out.Since != "" && out.Until != "" && out.Since > out.Until {
		return out, cli.Unfit("swap them", "--since %q is after --until %q", f.since, f.until)
	}
	if f.intent != "" {
		if out.Intent, err = ledger.ParseHashPrefix(f.intent); err != nil {
			return out, cli.Usage(`"fiador digest" and the member intent_sha256 show hashes`, "--intent %q: %s", f.intent, err)
		}
	}
	if f.item != "" && !ledger.ItemID(f.item) {
		return out, cli.Usage("1 to 128 letters, digits, dots, underscores and hyphens, the first a letter or digit", "--item %q is no id of a work item", f.item)
	}
	for _, o := range f.outcomes {
		if err := cli.Choice("outcome", o, ledgerOutcomes); err != nil {
			return out, err
		}
	}
	out.Outcomes = f.outcomes
	for _, k := range f.kinds {
		if err := cli.Choice("kind", k, ledgerKinds); err != nil {
			return out, err
		}
		out.Kinds = append(out.Kinds, ledger.Kind(k))
	}
	if f.acceptedSet != nil && f.acceptedSet() {
		out.Accepted = &f.accepted
	}
	return out, nil
}

// entries reads the chosen entries of a ledger.
type entries struct {
	ledger.Source
	filter ledger.Filter
	open   ledger.Open // runs of chosen entries without an end so far
	line   *cli.Progress
}

// openEntries opens a ledger and standard output. A write to standard output first clears
// the progress line.
func openEntries(ctx context.Context, a *cli.App, f ledgers.ReadFlags, filter ledger.Filter) (*entries, *bufio.Writer, error) {
	r, err := ledgers.Read(ctx, a, f)
	if err != nil {
		return nil, nil, err
	}
	// The entries of a large ledger allocate much, so the runtime collects as usual.
	debug.SetGCPercent(cli.UsualGC)
	e := &entries{r, filter, ledger.Open{}, cli.NewProgress(a, r.Checkpoint().Size)}
	return e, bufio.NewWriterSize(e.line.Before(a.Stdout), 64<<10), nil
}

// visitAll opens a ledger and visits its chosen entries in order. It returns what it has
// read, which is closed.
func visitAll(ctx context.Context, a *cli.App, f ledgers.ReadFlags, filter ledger.Filter, visit func(index int64, r ledger.Record)) (*entries, error) {
	s, _, err := openEntries(ctx, a, f, filter)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	defer s.line.Clear()
	first, err := s.since(ctx)
	if err != nil {
		return nil, err
	}
	return s, s.each(ctx, first, func(index int64, e ledger.Entry) error {
		visit(index, e.Record)
		return nil
	})
}

// visitor takes one entry with its index. Its error ends the visit.
type visitor func(index int64, e ledger.Entry) error

// each visits the chosen entries from an index on, in order. It reads on until it knows
// which of their runs have ended.
func (s *entries) each(ctx context.Context, from int64, visit visitor) error {
	for index, e := range s.Lines(ctx, from) {
		if e.Err != nil {
			return entryFailure(e.Err)
		}
		s.line.Tell()
		chosen := s.filter.Match(e.Record)
		if chosen || e.Record.Kind.Ends() {
			s.open.See(index, e.Record)
		}
		if chosen {
			if err := visit(index, e); err != nil {
				return err
			}
		}
		if s.filter.Past(e.Record) && len(s.open) == 0 {
			break
		}
	}
	return nil
}

// unended returns the runs that begin from an index on and have not ended.
func (s *entries) unended(ctx context.Context, from int64) (ledger.Open, error) {
	open := ledger.Open{}
	for index, e := range s.Lines(ctx, from) {
		if e.Err != nil {
			return nil, entryFailure(e.Err)
		}
		s.line.Tell()
		open.See(index, e.Record)
	}
	return open, nil
}

// back visits all entries from the newest on. It reads growing blocks, each of them
// forwards. It ends when visit returns false.
func (s *entries) back(ctx context.Context, visit func(index int64, e ledger.Entry) (more bool, err error)) error {
	var block []ledger.Entry
	for end, length := s.Checkpoint().Size, int64(256); end > 0; length = min(2*length, 16<<10) {
		begin := max(end-length, 0)
		block = block[:0]
		for index, e := range s.Lines(ctx, begin) {
			if e.Err != nil {
				return entryFailure(e.Err)
			}
			block = append(block, e)
			if index == end-1 {
				break
			}
		}
		for i, e := range slices.Backward(block) {
			s.line.Tell()
			if more, err := visit(begin+int64(i), e); err != nil || !more {
				return err
			}
		}
		end = begin
	}
	return nil
}

// since returns an index before the first entry that the filter can choose by time. It
// does not read all entries.
func (s *entries) since(ctx context.Context) (int64, error) {
	if s.filter.Since == "" {
		return 0, nil
	}
	for step := int64(1024); step < s.Checkpoint().Size; step *= 2 {
		e, err := s.Entry(ctx, s.Checkpoint().Size-step)
		if err != nil {
			return 0, entryFailure(err)
		}
		if e.Record.Timestamp < s.filter.Since {
			return s.Checkpoint().Size - step, nil
		}
	}
	return 0, nil
}

// entryFailure returns the error for entries that cannot be read.
func entryFailure(err error) error {
	if errors.Is(err, context.Canceled) {
		return runerr.New(result.CodeUnreadable, "interrupted: not every entry was read", "run it again", runerr.Because(err))
	}
	return runerr.New(result.CodeEvidence, "the ledger cannot be read: "+canon.Clean(err.Error()),
		`"fiador ledger verify" says what else is wrong with it`, runerr.Because(err))
}

// tellOpen warns how many runs have no end.
func tellOpen(a *cli.App, s *entries) {
	if n := len(s.open); n > 0 {
		a.Term.Warning(screen.Count(n, "run") + " began and did not end: killed, or still going on")
	}
}
