package ledgercmd

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/replay"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
)

// replayFlags are the flags of replay. given reports whether a flag was given: only
// then does another policy decide instead of the recorded one.
type replayFlags struct {
	ledgers.ReadFlags
	chooseFlags
	policies.GateFlags
	all    bool
	run    bool
	format string
	given  func(flag string) bool
}

func replayCommand(a *cli.App) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay [N|RUN]",
		Short: "decide recorded decisions again, and say whether the answer is the same",
		Long: `Replay decides the intent of a recorded decision again, from the evidence of that
decision alone. The evidence has the intent, the input of the policy, and the policy
text that decided then. Nothing is executed; what an execution observed is taken from
the recorded result. Without N or RUN, the flags choose many decisions.

A number N is the index of an entry; with --run it is the id of a run. If it could be
both, write "+N" for the entry.

  MATCH              the same decision, and the same canonical RunResult
  DECISION-DIFFERS   another decision
  CANONICAL-DIFFERS  the same decision, and another canonical RunResult
  EVIDENCE-MISSING   the evidence is not there
  EVIDENCE-CORRUPT   the evidence is not what the record says

With --policy another policy decides, to show what it would have decided.

Exit codes:
  0  every decision is a MATCH
  1  at least one differs, or its evidence is gone; or the ledger does not keep what it
     has promised
  2  no answer`,
		Example: `  fiador ledger replay 17 --ledger ./ledger
  fiador ledger replay --all --ledger ./ledger
  fiador ledger replay --since 7d --policy ./stricter --ledger ./ledger`,
		Args: cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error { return replayLedger(cmd.Context(), a, f, args) },
	}
	f.ReadFlags.Register(cmd)
	f.chooseFlags.register(cmd)
	f.GateFlags.Register(cmd)
	flags := cmd.Flags()
	flags.Lookup("policy").DefValue = "the recorded one"
	flags.Lookup("tree").DefValue = "none"
	registerRun(cmd, &f.run)
	flags.BoolVar(&f.all, "all", false, "replay every decision")
	cli.FormatFlag(cmd, &f.format, "human", "jsonl")
	f.given = flags.Changed
	return cmd
}

// replayLedger replays one entry, or the decisions that the flags choose
// (specs/ledger.md, Replay). Every verdict but MATCH is exit status 1. It refuses a
// call that chooses nothing.
func replayLedger(ctx context.Context, a *cli.App, f replayFlags, args []string) error {
	filter, err := f.filter(a.Now())
	if err != nil {
		return err
	}
	chosen := f.since != "" || f.until != "" || f.intent != "" || f.item != "" || len(f.profiles)+len(f.outcomes)+len(f.reasons) > 0 || filter.Accepted != nil
	switch {
	case slices.ContainsFunc(f.kinds, func(k string) bool { return ledger.Kind(k) != ledger.KindDecision }):
		return cli.Unfit("leave --kind out", "replay is for decisions, and --kind names other entries")
	case len(args) > 0 && (f.all || chosen):
		return cli.Unfit("give the one or the other", "an entry and flags that choose entries")
	case len(args) == 0 && f.run:
		return cli.Unfit("name the run", "--run is for the id of a run, and there is none")
	case len(args) == 0 && !f.all && !chosen:
		return cli.Usage(`an index, a run id, --all, or flags such as --since`, "which decisions?")
	}
	filter.Kinds = []ledger.Kind{ledger.KindDecision}
	s, out, err := openEntries(ctx, a, f.ReadFlags, filter)
	if err != nil {
		return err
	}
	defer s.Close()
	defer s.line.Clear()
	rp := &replaying{App: a, f: f, out: out, counts: map[replay.Status]int{}}
	rp.Session.Specs, rp.Evidence = a.Specs, ledgers.AsStored(s.Blob)
	rp.decide = rp.Replay
	if f.given("policy") || f.given("org-policy") || f.given("tree") {
		gate, err := otherGate(ctx, a, f)
		if err != nil {
			return err
		}
		rp.decide = func(ctx context.Context, rec ledger.Record) (replay.Result, error) { return rp.With(ctx, gate, rec) }
	}
	if len(args) > 0 {
		err = rp.one(ctx, s, args[0])
	} else if err = s.each(ctx, 0, func(index int64, e ledger.Entry) error { return rp.entry(ctx, index, e.Record) }); err == nil {
		err = rp.sum()
	}
	return cmp.Or(err, cli.Flush(out))
}

// otherGate opens the gate that decides instead of the recorded policy. Without --tree no
// layer of a tree counts.
func otherGate(ctx context.Context, a *cli.App, f replayFlags) (*harness.Gate, error) {
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return nil, err
	}
	if !f.given("tree") {
		sources.Repo = nil
	}
	return harness.OpenGate(ctx, sources, a.Specs, policy.DefaultLimits())
}

// replaying replays one decision or many.
type replaying struct {
	*cli.App
	replay.Session
	f      replayFlags
	decide func(context.Context, ledger.Record) (replay.Result, error)
	out    *bufio.Writer
	counts map[replay.Status]int
	seen   int
}

// one replays an entry, or the last entry of a run.
func (r *replaying) one(ctx context.Context, s *entries, what string) error {
	list, err := find(ctx, r.App, s, what, r.f.run)
	if err != nil {
		return err
	}
	e := list[len(list)-1]
	return r.entry(ctx, e.index, e.Record)
}

// entry replays one record, counts its verdict and prints it.
func (r *replaying) entry(ctx context.Context, index int64, rec ledger.Record) error {
	rp, err := r.decide(ctx, rec)
	if err != nil {
		return err
	}
	r.seen++
	r.counts[rp.Status]++
	r.RejectIf(rp.Status != replay.Match)
	doc := documentOf(index, rec, rp)
	if r.f.format == "jsonl" {
		b, _, err := canon.Artifact(doc)
		if err != nil {
			return err
		}
		_, err = r.out.Write(b)
		return err
	}
	_, err = r.out.WriteString(doc.text(r.Page))
	return err
}

// sum prints how many decisions had each status. No chosen decision is an error.
func (r *replaying) sum() error {
	if r.seen == 0 {
		return cli.Usage(`"fiador ledger list" shows what is there`, "no decision was chosen")
	}
	if r.f.format == "jsonl" {
		return nil
	}
	var parts []string
	for _, s := range []replay.Status{replay.Match, replay.DecisionDiffers, replay.CanonicalDiffers, replay.EvidenceMissing, replay.EvidenceCorrupt} {
		if n := r.counts[s]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+string(s))
		}
	}
	_, err := fmt.Fprintf(r.out, "%s: %s\n", screen.Count(r.seen, "decision"), strings.Join(parts, ", "))
	return err
}

// replayedDocument is the replay of an entry. Of a match it has the status alone.
type replayedDocument struct {
	Index    int64           `json:"index"`
	RunID    string          `json:"run_id"`
	Status   replay.Status   `json:"status"`
	Document string          `json:"document,omitempty"`
	Pointer  *string         `json:"pointer,omitempty"`
	Recorded *answerDocument `json:"recorded,omitempty"`
	Now      *answerDocument `json:"now,omitempty"`
	Details  []string        `json:"details,omitempty"`
}

// answerDocument is a decision, or the error in place of a decision.
type answerDocument struct {
	Error   result.Code    `json:"error,omitempty"`
	Message *string        `json:"message,omitempty"`
	Outcome kernel.Outcome `json:"outcome,omitempty"`
	Reasons []string       `json:"reasons,omitzero"`
}

// documentOf returns the document for a replayed record. Only an answer that differs
// has more members than its status.
func documentOf(index int64, rec ledger.Record, rp replay.Result) replayedDocument {
	doc := replayedDocument{Index: index, RunID: rec.RunID, Status: rp.Status}
	if rp.Status == replay.Match {
		return doc
	}
	if rp.Document != "" {
		doc.Document, doc.Pointer = rp.Document, &rp.Difference.Pointer
	}
	doc.Recorded, doc.Now, doc.Details = answerOf(rp.Recorded), answerOf(rp.Now), rp.Details
	return doc
}

// answerOf returns nil for no answer.
func answerOf(a replay.Answer) *answerDocument {
	switch {
	case a.Err != nil:
		return &answerDocument{Error: a.Err.Code, Message: &a.Err.Message}
	case a.Outcome == "":
		return nil
	}
	return &answerDocument{Outcome: a.Outcome, Reasons: cli.OrEmpty(a.Reasons)}
}

func (d replayedDocument) text(t cli.Terminal) string {
	style := screen.Green
	if d.Status != replay.Match {
		style = screen.Red
	}
	text := fmt.Sprintf("%s  entry %d  %s\n", t.Paint(style, string(d.Status)), d.Index, d.RunID)
	row := func(name, s string) { text += "  " + name + screen.Plain(s) + "\n" }
	if d.Pointer != nil {
		row("first difference: ", d.Document+" "+strconv.Quote(*d.Pointer))
	}
	if d.Recorded != nil {
		row("recorded: ", d.Recorded.text())
	}
	if d.Now != nil {
		row("now:      ", d.Now.text())
	}
	for _, detail := range d.Details {
		row("", detail)
	}
	return text
}

func (a answerDocument) text() string {
	if a.Message != nil {
		return string(a.Error) + " " + *a.Message
	}
	return strings.TrimSpace(string(a.Outcome) + "  " + strings.Join(a.Reasons, ", "))
}
