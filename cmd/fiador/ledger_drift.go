package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

type driftFlags struct {
	ledgerFlags
	chooseFlags
	strict bool
	format string
}

func (a *app) ledgerDriftCommand() *cobra.Command {
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := choice("format", f.format, formats); err != nil {
				return err
			}
			return a.ledgerDrift(cmd.Context(), f)
		},
	}
	f.ledgerFlags.register(cmd)
	f.chooseFlags.registerScope(cmd)
	cmd.Flags().BoolVar(&f.strict, "strict", false, "let a flip be exit code 1")
	cmd.Flags().StringVar(&f.format, "format", f.format, "human or json")
	complete(cmd, "format", formats...)
	return cmd
}

func (a *app) ledgerDrift(ctx context.Context, f driftFlags) error {
	filter, err := f.filter(a.now())
	if err != nil {
		return err
	}
	filter.Kinds = []ledger.Kind{ledger.KindDecision}
	s, _, err := a.openEntries(f.ledgerFlags, filter)
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
	s.line.clear()
	if err != nil {
		return err
	}
	if len(d.Differences) > 0 || f.strict && len(d.Flips) > 0 {
		a.status = exitRejected
	}
	if f.format == "json" {
		return a.printJSON(driftDocument(&d, s.Checkpoint()))
	}
	var out bytes.Buffer
	driftText(terminal{w: &out, color: a.page.color}, &d)
	return a.print(out.Bytes())
}

func driftText(t terminal, d *ledger.Drift) {
	field := func(name string, words ...string) {
		t.line(append([]string{"  " + t.paint(dim, fmt.Sprintf("%-8s", name))}, words...)...)
	}
	for _, x := range d.Differences {
		t.line(t.paint(red, "DIFFERS"), fmt.Sprintf("entry %d from entry %d", x.Other, x.First)+more(x.Count, "%d entries differ from it"))
		field("intent", string(x.Record.IntentSHA256))
		field("profile", x.Record.Policy, string(x.Record.PolicySHA256))
		field("modes", x.Record.ExecutionMode, x.Record.Mode)
		field("first", string(x.Canon))
		field("other", string(x.Record.CanonicalSHA256))
	}
	for _, x := range d.Flips {
		t.line(t.paint(yellow, "FLIPPED"), x.From.Outcome+" -> "+x.To.Outcome, fmt.Sprintf("entry %d to entry %d", x.From.Index, x.To.Index)+more(x.Count, "flipped %d times"))
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
	t.line(fmt.Sprintf("%s: %s, %s", count64(d.Decisions, "decision", "decisions"),
		count(len(d.Differences), "difference"), count(len(d.Flips), "flip")))
}

// more says how often something happened that happened more than once.
func more(n int64, format string) string {
	if n == 1 {
		return ""
	}
	return "  (" + fmt.Sprintf(format, n) + ")"
}

func driftDocument(d *ledger.Drift, c ledger.Checkpoint) map[string]any {
	differences := make([]any, len(d.Differences))
	for i, x := range d.Differences {
		differences[i] = map[string]any{
			"intent_sha256": string(x.Record.IntentSHA256), "input_sha256": string(x.Record.InputSHA256),
			"policy_sha256": string(x.Record.PolicySHA256), "profile": x.Record.Policy, "mode": x.Record.Mode,
			"execution_mode": x.Record.ExecutionMode, "kernel": x.Record.Kernel, "count": x.Count,
			"first": map[string]any{"index": x.First, "canonical_sha256": string(x.Canon)},
			"other": map[string]any{"index": x.Other, "canonical_sha256": string(x.Record.CanonicalSHA256)},
		}
	}
	list := make([]any, len(d.Flips))
	for i, x := range d.Flips {
		list[i] = map[string]any{
			"intent_sha256": string(x.Intent), "profile": x.Profile, "count": x.Count,
			"from": verdictDocument(x.From), "to": verdictDocument(x.To),
		}
	}
	return map[string]any{
		"checkpoint": checkpointDocument(c), "decisions": d.Decisions, "differences": differences, "flips": list,
	}
}

func verdictDocument(v ledger.Verdict) map[string]any {
	return map[string]any{
		"index": v.Index, "outcome": v.Outcome, "policy_sha256": string(v.Policy), "kernel": v.Kernel,
	}
}
