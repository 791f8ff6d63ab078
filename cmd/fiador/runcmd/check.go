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
	ledgers.RecordFlags
	record     bool
	reportOnly bool
}

// Check returns the command that decides many intents.
func Check(a *cli.App) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check INTENT...",
		Short: "decide many intents, without any effect",
		Long: `Check decides every intent under one policy profile and prints one RunResult a
line, in the order of the intents. INTENT is a file, a folder (every .json and
.jsonl file below it), a pattern such as 'intents/**/*.json', or - for JSON Lines
on standard input. Nothing is executed. The counts stand on standard error.

An argument that leads to no intent is an error, and so is a link below a folder.
So a check of nothing never passes. For an intent that cannot be decided, standard
error has a RunError line, and the other intents are still decided.

With --report-only a rejected intent does not fail the run: exit code 1 becomes 0.
Exit code 2 and the verdicts do not change.

If --ledger or FIADOR_LEDGER names a ledger, every decision is recorded there before
it is printed. With --record one of them must name a ledger.

The worst intent decides the exit code; --format and --report never do.

Exit codes:
  0  every intent is allowed
  1  at least one was rejected: CLARIFY or REFUSE
  2  at least one was not decided, or there was no intent`,
		Example: `  fiador check intents/
  fiador check intents/*.json --policy strict --format human
  fiador check intents/ --format github --report sarif=fiador.sarif --report markdown=summary.md
  agent | fiador check - --policy ./profile`,
		Args: cli.AtLeastOne("INTENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkIntents(cmd.Context(), a, args, f)
			if re, ok := errors.AsType[*result.RunError](err); ok && f.Format == "github" {
				err = errors.Join(a.Print([]byte(report.GitHubError(re))), err)
			}
			return err
		},
	}
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.ReportFlags.Register(cmd)
	f.RecordFlags.Register(cmd)
	cmd.Flags().BoolVar(&f.record, "record", false, "decide nothing unless a ledger is named to record every decision in")
	cmd.Flags().BoolVar(&f.reportOnly, "report-only", false, "let rejected intents pass: exit code 1 becomes 0")
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
	files, err := decisions.Targets(args)
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
	log, err := ledgers.OpenLog(a, f.RecordFlags)
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
	reports.Summary.ReportOnly = f.reportOnly
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Recorder: ledgers.Recorder(a, log)}
	seen := &seen{App: a, reports: reports, words: a.TTY && f.Format == "json", line: cli.NewProgress(a, 0)}
	if !slices.ContainsFunc(files, intake.File.Lines) {
		seen.total = fmt.Sprintf(" of %d", len(files))
	}
	err = harness.Each(ctx, deps, gate, runtime.GOMAXPROCS(0), decisions.Jobs(ctx, a, files), seen.end)
	seen.line.Clear()
	if err != nil {
		return err
	}
	return conclude(a, reports, f)
}

// conclude ends the reports and summarises the check on stderr.
func conclude(a *cli.App, r *decisions.Reports, f checkFlags) error {
	if err := r.Close(); err != nil {
		return err
	}
	if f.Format != "human" || !a.OutTTY {
		a.Term.Message(decisions.CountLine(r.Summary.Counts) + fmt.Sprintf("; profile %q", r.Summary.Profile))
	}
	if rejected := r.Summary.Counts.Rejected(); f.reportOnly {
		a.Term.Warning(fmt.Sprintf("REPORT ONLY: %s rejected, and no rejection fails this run", screen.Count(rejected, "intent")))
	}
	a.Status = r.Status()
	return nil
}

// seen passes each decided intent on to the reports, and shows progress on a terminal.
type seen struct {
	*cli.App
	reports *decisions.Reports
	words   bool // print rejected intents in words on stderr
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
	item := decisions.ItemOf(e)
	item.Line = e.Line
	s.line.Clear()
	if err := s.reports.Item(item); err != nil {
		return err
	}
	if e.Err != nil {
		s.Status = s.Report(e.Err)
	} else if s.words && item.Outcome() != "BUNDLE" {
		if s.told++; s.told <= mostTold {
			if err := report.Human(s.Stderr, s.Term.Color, item); err != nil {
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
