package ledgercmd

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

type driftFlags struct {
	ledgers.ReadFlags
	chooseFlags
	strict bool
	format string
}

func driftCommand(a *cli.App) *cobra.Command {
	f := driftFlags{format: "human"}
	formats := []string{"human", "json"}
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "find decisions that should have been the same",
		Long: `Drift looks for two things among the decisions of a ledger.

A "difference": two decisions of the same intent, input, policy, modes and kernel
whose canonical hashes differ. Something that was not recorded has decided, and exit
code 1 says so.

A "flip": an intent whose outcome changed from one revision of a profile or of the
kernel to the next. That may well be meant; --strict makes it exit code 1 too. For
each intent and profile the latest flip is shown.

Exit codes:
  0  equal decisions are equal
  1  at least one differs; with --strict: or flipped
  2  the ledger, or an entry, could not be read`,
		Example: `  fiador ledger drift --ledger ./ledger
  fiador ledger drift --ledger ./ledger --since 30d --profile strict --strict
  fiador ledger drift --ledger ./ledger --format json | jq .flips`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Choice("format", f.format, formats); err != nil {
				return err
			}
			return ledgerDrift(cmd.Context(), a, f)
		},
	}
	f.ReadFlags.Register(cmd)
	f.chooseFlags.registerScope(cmd)
	cmd.Flags().BoolVar(&f.strict, "strict", false, "let a flip be exit code 1")
	cmd.Flags().StringVar(&f.format, "format", f.format, "human or json")
	cli.Complete(cmd, "format", formats...)
	return cmd
}

func ledgerDrift(ctx context.Context, a *cli.App, f driftFlags) error {
	filter, err := f.filter(a.Now())
	if err != nil {
		return err
	}
	filter.Kinds = []ledger.Kind{ledger.KindDecision}
	s, _, err := openEntries(a, f.ReadFlags, filter)
	if err != nil {
		return err
	}
	defer s.Close()
	first, err := s.since(ctx)
	if err != nil {
		return err
	}
	var d ledger.Drift
	err = s.each(ctx, first, func(index int64, e disk.Entry) error {
		d.Add(index, e.Record)
		return nil
	})
	s.line.Clear()
	if err != nil {
		return err
	}
	if len(d.Differences) > 0 || f.strict && len(d.Flips) > 0 {
		a.Status = cli.ExitRejected
	}
	if f.format == "json" {
		return cli.PrintJSON(a, driftDocument(&d, s.Checkpoint()))
	}
	var out bytes.Buffer
	driftText(cli.Terminal{W: &out, Color: a.Page.Color}, &d)
	return a.Print(out.Bytes())
}

func driftText(t cli.Terminal, d *ledger.Drift) {
	field := func(name string, words ...string) {
		t.Line(append([]string{"  " + t.Paint(screen.Dim, fmt.Sprintf("%-8s", name))}, words...)...)
	}
	for _, x := range d.Differences {
		t.Line(t.Paint(screen.Red, "DIFFERS"), fmt.Sprintf("entry %d from entry %d", x.Other, x.First)+more(x.Count, "%d entries differ from it"))
		field("intent", string(x.Record.IntentSHA256))
		field("profile", x.Record.Policy, string(x.Record.PolicySHA256))
		field("modes", x.Record.ExecutionMode, x.Record.Mode)
		field("first", string(x.Canon))
		field("other", string(x.Record.CanonicalSHA256))
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

type driftPlace struct {
	Index     int64             `json:"index"`
	Canonical canon.ContentHash `json:"canonical_sha256"`
}

type driftDifference struct {
	Intent        canon.ContentHash `json:"intent_sha256"`
	Input         canon.ContentHash `json:"input_sha256"`
	Policy        canon.ContentHash `json:"policy_sha256"`
	Profile       string            `json:"profile"`
	Mode          string            `json:"mode"`
	ExecutionMode string            `json:"execution_mode"`
	Kernel        string            `json:"kernel"`
	Count         int64             `json:"count"`
	First         driftPlace        `json:"first"`
	Other         driftPlace        `json:"other"`
}

type driftVerdict struct {
	Index   int64             `json:"index"`
	Outcome string            `json:"outcome"`
	Policy  canon.ContentHash `json:"policy_sha256"`
	Kernel  string            `json:"kernel"`
}

type driftFlip struct {
	Intent  canon.ContentHash `json:"intent_sha256"`
	Profile string            `json:"profile"`
	Count   int64             `json:"count"`
	From    driftVerdict      `json:"from"`
	To      driftVerdict      `json:"to"`
}

func driftDocument(d *ledger.Drift, c ledger.Checkpoint) any {
	doc := struct {
		Checkpoint  checkpointDocument `json:"checkpoint"`
		Decisions   int64              `json:"decisions"`
		Differences []driftDifference  `json:"differences"`
		Flips       []driftFlip        `json:"flips"`
	}{documentOf(c), d.Decisions, []driftDifference{}, []driftFlip{}}
	for _, x := range d.Differences {
		r := x.Record
		doc.Differences = append(doc.Differences, driftDifference{
			r.IntentSHA256, r.InputSHA256, r.PolicySHA256, r.Policy, r.Mode, r.ExecutionMode, r.Kernel, x.Count,
			driftPlace{x.First, x.Canon}, driftPlace{x.Other, r.CanonicalSHA256},
		})
	}
	for _, x := range d.Flips {
		doc.Flips = append(doc.Flips, driftFlip{x.Intent, x.Profile, x.Count, verdictOf(x.From), verdictOf(x.To)})
	}
	return doc
}

func verdictOf(v ledger.Verdict) driftVerdict {
	return driftVerdict{v.Index, v.Outcome, v.Policy, v.Kernel}
}
