package ledgercmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
)

// driftFlags are the flags of drift. strict makes a flip exit status 1; a difference
// always is.
type driftFlags struct {
	ledgers.ReadFlags
	chooseFlags
	strict bool
	format string
}

func driftCommand(a *cli.App) *cobra.Command {
	var f driftFlags
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "find decisions that should have been the same",
		Long: `Drift looks for two things among the decisions of a ledger.

A "difference": two decisions of the same intent, input, policy, modes and kernel
whose canonical hashes differ. Something that was not recorded has influenced a
decision. The exit code is 1.

A "flip": an intent whose outcome changed from one revision of a profile or of the
kernel to the next. That may be intended; with --strict a flip is exit code 1 too.
For each intent and profile the latest flip is shown.

Exit codes:
  0  equal decisions are equal
  1  at least one differs; with --strict: or flipped; or the ledger does not keep what it
     has promised
  2  the ledger, or an entry, could not be read`,
		Example: `  fiador ledger drift --ledger ./ledger
  fiador ledger drift --ledger ./ledger --since 30d --profile strict --strict
  fiador ledger drift --ledger ./ledger --format json | jq .flips`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return ledgerDrift(cmd.Context(), a, f) },
	}
	f.ReadFlags.Register(cmd)
	f.chooseFlags.registerScope(cmd)
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with code 1 for a flip too")
	cli.FormatFlag(cmd, &f.format, "human", "json")
	return cmd
}

// ledgerDrift reads the chosen decisions and prints their differences and flips. The
// exit status is 1 for a difference, and with --strict for a flip.
func ledgerDrift(ctx context.Context, a *cli.App, f driftFlags) error {
	filter, err := f.filter(a.Now())
	if err != nil {
		return err
	}
	filter.Kinds = []ledger.Kind{ledger.KindDecision}
	var d ledger.Drift
	s, err := visitAll(ctx, a, f.ReadFlags, filter, d.Add)
	if err != nil {
		return err
	}
	a.RejectIf(len(d.Differences) > 0 || f.strict && len(d.Flips) > 0)
	d.Differences, d.Flips = cli.OrEmpty(d.Differences), cli.OrEmpty(d.Flips)
	return cli.PrintAs(a, f.format, struct {
		Checkpoint ledger.Checkpoint `json:"checkpoint"`
		ledger.Drift
	}{s.Checkpoint(), d}, func(t cli.Terminal) { driftText(t, d) })
}

// driftText prints each difference and each flip with its fields, and the counts last.
func driftText(t cli.Terminal, d ledger.Drift) {
	field := func(name string, words ...string) {
		t.Line(append([]string{"  " + t.Paint(screen.Dim, fmt.Sprintf("%-8s", name))}, words...)...)
	}
	for _, x := range d.Differences {
		t.Line(t.Paint(screen.Red, "DIFFERS"), fmt.Sprintf("entry %d from entry %d", x.Other.Index, x.First.Index)+more(x.Count, "%d entries differ from it"))
		field("intent", string(x.Intent))
		field("profile", x.Profile, string(x.Policy))
		field("modes", x.ExecutionMode, x.Mode)
		field("first", string(x.First.Canon))
		field("other", string(x.Other.Canon))
	}
	for _, x := range d.Flips {
		t.Line(t.Paint(screen.Yellow, "FLIPPED"), x.From.Outcome+" -> "+x.To.Outcome, fmt.Sprintf("entry %d to entry %d", x.From.Index, x.To.Index)+more(x.Count, "flipped %d times"))
		field("intent", string(x.Intent))
		field("profile", x.Profile)
		if x.From.Policy != x.To.Policy {
			field("policy", string(x.From.Policy))
			field("  ->", string(x.To.Policy))
		}
		if x.From.Kernel != x.To.Kernel {
			field("kernel", x.From.Kernel+" -> "+x.To.Kernel)
		}
	}
	t.Line(fmt.Sprintf("%s: %s, %s", screen.Count(d.Decisions, "decision"),
		screen.Count(len(d.Differences), "difference"), screen.Count(len(d.Flips), "flip")))
}

// more formats how often an event happened, and returns empty for an event that happened
// once.
func more(n int64, format string) string {
	if n == 1 {
		return ""
	}
	return "  (" + fmt.Sprintf(format, n) + ")"
}
