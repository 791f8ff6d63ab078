package runcmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/decisions"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// checkFlags are the flags of check. record makes a ledger obligatory. reportOnly turns
// exit status 1 into 0.
type checkFlags struct {
	policies.GateFlags
	policies.ToolFlags
	decisions.ReportFlags
	decisions.ChangeFlags
	ledgers.RecordFlags
	record     bool
	reportOnly bool
}

// Check returns the command that decides many intents.
func Check(a *cli.App) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [INTENT...]",
		Short: "decide many intents, without any effect",
		Long: `Check decides every intent under one policy profile, in the order of the intents. A
terminal gets words. A pipe or a file gets one RunResult a line; --format chooses
another form. INTENT is a file, a folder, a pattern such as 'intents/**/*.json', or -
for JSON Lines on standard input. Of a folder, check decides every .json and .jsonl file
below it. Nothing is executed. The counts stand on standard error.

An argument that leads to no intent is an error, and so is a link below a folder.
So a check of nothing never passes. For an intent that cannot be decided, standard
error has a RunError line, and the other intents are still decided.

With --changed BASE it decides only the intents that a change brings: those that
differ since HEAD branched off BASE. With --covers BASE..HEAD it also names the
changed paths that no accepted intent among them announces. Without INTENT both
take the folder intents. A change without an intent passes --changed, and passes
--covers only if no path changed. git looks at the repository of --tree, and runs
no program of it.

With --report-only a rejection does not fail the run: exit code 1 becomes 0.
Exit code 2 and the verdicts do not change.

If --ledger or FIADOR_LEDGER names a ledger, every decision is recorded there before
it is printed. With --record one of them must name a ledger.

The worst intent decides the exit code; --format and --report never do.

Exit codes:
  0  every intent is allowed
  1  at least one was rejected: CLARIFY or REFUSE; or nothing announces a changed path
  2  at least one was not decided, or there was no intent; or git cannot tell the change`,
		Example: `  fiador check intents/
  fiador check intents/*.json --policy strict --format human
  fiador check intents/ --format github --report sarif=fiador.sarif --report markdown=summary.md
  fiador check --changed origin/main --policy ./profile
  fiador check intents/ --covers origin/main..HEAD --policy ./profile
  agent | fiador check - --policy ./profile`,
		Args: f.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Choose(cmd, a)
			err := checkIntents(cmd.Context(), a, args, f)
			if re, ok := errors.AsType[*result.RunError](err); ok && f.Format == "github" {
				err = errors.Join(a.Print([]byte(report.GitHubError(re))), err)
			}
			return err
		},
	}
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.ReportFlags.Register(cmd, report.Formats())
	f.RecordFlags.Register(cmd)
	f.ChangeFlags.Register(cmd)
	cmd.Flags().BoolVar(&f.record, "record", false, "decide nothing unless a ledger is named to record every decision in")
	cmd.Flags().BoolVar(&f.reportOnly, "report-only", false, "let a rejection pass: exit code 1 becomes 0")
	return cmd
}

// checkPlaces lists the files and folders that the command line of a check names, with
// the roles that exclude each other (cli.Role).
func checkPlaces(a *cli.App, files []intake.File, f checkFlags) cli.Places {
	var p cli.Places
	p.Add(cli.Needed, "--policy", "policy", policies.ProfileFiles(f.Policy)...)
	for _, t := range files {
		p.Add(cli.Needed, "INTENT", "intent", t.Name)
	}
	f.ToolFlags.Places(&p)
	f.ReportFlags.Places(&p)
	ledgers.RecordPlaces(a, f.RecordFlags, &p)
	p.Add(cli.Guarded, "--tree", "tree", f.Tree)
	return p
}

// checkIntents decides the intents in parallel and reports them in their order.
// Everything that can fail for the whole command is opened first: the ledger, the gate
// and the reports. The worst intent decides the exit status: 0 allowed, 1 rejected, 2
// not decided.
func checkIntents(ctx context.Context, a *cli.App, args []string, f checkFlags) error {
	if err := f.ReportFlags.Check(); err != nil {
		return err
	}
	if f.record {
		if _, err := ledgers.Dir(a, f.Dir); err != nil {
			return err
		}
	}
	a.GitHub = f.Format == "github"
	files, change, err := f.Targets(ctx, a, f.Tree, args)
	if err != nil {
		return err
	}
	if err := a.CheckPlaces(checkPlaces(a, files, f)); err != nil {
		return err
	}
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return err
	}
	policies.Unused(a, f.GateFlags)
	log, err := ledgers.OpenLog(ctx, a, f.RecordFlags)
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
	}
	gate, err := harness.OpenGate(ctx, sources, a.Specs, policy.DefaultLimits())
	if err == nil {
		err = f.Use(a, gate)
	}
	if err != nil {
		return err
	}
	debug.SetGCPercent(cli.ManyGC)
	reports, err := decisions.OpenReports(a, f.ReportFlags, gate.Profile.Name)
	if err != nil {
		return err
	}
	defer reports.Abort()
	reports.Summary.ReportOnly, reports.Summary.Change = f.reportOnly, change != nil
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Recorder: ledgers.Recorder(a, log)}
	seen := &seen{App: a, reports: reports, change: change, spoken: f.Spoken(a), words: a.TTY && !a.OutTTY && f.Format == "json", line: cli.NewProgress(a, 0)}
	if !slices.ContainsFunc(files, intake.File.Lines) {
		seen.total = fmt.Sprintf(" of %d", len(files))
	}
	err = harness.Each(ctx, deps, gate, runtime.GOMAXPROCS(0), decisions.Jobs(ctx, a, files), seen.end)
	seen.line.Clear()
	if err != nil {
		return err
	}
	return conclude(a, reports, change, f)
}

// conclude ends the reports and summarises the check on stderr.
func conclude(a *cli.App, r *decisions.Reports, change *decisions.Change, f checkFlags) error {
	words := f.Format == "human" && a.OutTTY
	if err := change.Conclude(a, r, words); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	a.Status = r.Summary.Status()
	counts := r.Summary.Counts
	if f.Spoken(a) && counts.Total() > 0 {
		return nil
	}
	if !words || counts.Total() == 0 {
		a.Term.Message(decisions.CountLine(counts) + fmt.Sprintf("; profile %q", r.Summary.Profile))
	}
	if f.reportOnly {
		said := screen.Count(counts.Rejected(), "intent") + " rejected"
		if counts.Unannounced > 0 {
			said += ", " + counts.Paths()
		}
		a.Term.Warning("REPORT ONLY: " + said + ", and no rejection fails this run")
	}
	return nil
}

// seen passes each decided intent on to the reports, and shows progress on a terminal.
type seen struct {
	*cli.App
	reports *decisions.Reports
	change  *decisions.Change
	words   bool // print rejected intents in words on stderr
	spoken  bool // the terminal already has the items in words
	told    int
	warned  bool   // the warnings of the ledger were printed; they are the same for every decision
	total   string // " of 12", where the number of intents is known
	line    *cli.Progress
}

// mostTold is how many rejected intents are printed in words.
const mostTold = 20

// end reports one decided intent. An intent without a decision gets a RunError line on
// standard error, and the check goes on.
func (s *seen) end(e harness.End) error {
	if e.Receipt != nil && !s.warned {
		s.warned = len(e.Receipt.Warnings) > 0
		s.line.Clear()
		ledgers.Warn(s.App, e.Receipt.Warnings)
	}
	s.change.Decided(e)
	item := decisions.ItemOf(e)
	item.Line = e.Line
	s.line.Clear()
	if err := s.reports.Item(item); err != nil {
		return err
	}
	if e.Err != nil {
		if !s.spoken {
			s.Report(e.Err)
		}
	} else if s.words && item.Outcome() != "BUNDLE" {
		if s.told++; s.told <= mostTold {
			if err := report.Human(s.Term.W, s.Term.Color, item); err != nil {
				return err
			}
		}
		if s.told == mostTold+1 {
			s.Term.Hint("more are rejected; --format human lists them all")
		}
	}
	s.line.Show(fmt.Sprintf("checked %d%s", s.reports.Summary.Counts.Total(), s.total))
	return nil
}
