package ledgercmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/remote"
)

// verifyLedgerFlags are the flags of verify. since names checkpoints and receipts that
// the ledger must keep; the other checks are those of ledger.AuditOptions.
type verifyLedgerFlags struct {
	ledgers.ReadFlags
	ledger.AuditOptions
	since  []string
	format string
}

func verifyCommand(a *cli.App) *cobra.Command {
	var f verifyLedgerFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "find out whether a ledger is complete and unmodified",
		Long: `Verify reads every line of a ledger. It checks the form of the line, its place in the
tree, the root of its seal, and its record. Times must never go back, and a run must
begin once and end once. Each new key must be signed by the key before it. Verify
also checks the signatures of the last seal, of the checkpoint and of every pin, and
that the tree has their roots.

A ledger alone cannot prove that it is not an old copy, or that nobody with its key
has rewritten it. So give --since a checkpoint or a receipt that was kept elsewhere,
and --key the key that you trust.

Exit codes:
  0  clean
  1  tampering: the entry is named; evidence that is gone or altered; or UNSIGNED:
     there is no checkpoint at all. Without a checkpoint nobody can tell whether
     entries are missing at the end
  2  it could not be decided: an unknown key, a ledger that cannot be read`,
		Example: `  fiador ledger verify --ledger ./ledger --key gate.pub
  fiador ledger verify --ledger ./ledger --all-seals --evidence --tiles
  fiador ledger verify --ledger ./ledger --since receipt.tlog-proof`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return verifyLedger(cmd.Context(), a, f) },
	}
	f.Register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.Quick, "quick", false, "compare the sizes of all seals, but their roots only every half MiB and at the end; read only the records of keys and beginnings")
	flags.BoolVar(&f.Seals, "all-seals", false, "check the signature of every seal as well")
	flags.BoolVar(&f.Evidence, "evidence", false, "check the evidence of every decision as well")
	flags.BoolVar(&f.Tiles, "tiles", false, "check the hash tiles as well")
	flags.StringArrayVar(&f.since, "since", nil, "checkpoint or receipt that the ledger must keep; may be repeated")
	cli.FormatFlag(cmd, &f.format, "human", "json")
	return cmd
}

// verifyLedger audits a ledger (specs/ledger.md, Verify). The exit status is 1 for
// every word but CLEAN, and 2 where the audit cannot decide, as for an unknown key.
func verifyLedger(ctx context.Context, a *cli.App, f verifyLedgerFlags) error {
	if f.Quick && f.Evidence {
		return cli.Unfit("leave --quick out", "--quick reads few records, and --evidence needs all")
	}
	dir, err := ledgers.Dir(a, f.Dir)
	if err != nil {
		return err
	}
	for _, name := range f.since {
		p, err := checkpointFile(name)
		if err != nil {
			return err
		}
		f.Since = append(f.Since, p)
	}
	var total int64
	if c, err := checkpointFile(filepath.Join(dir, "checkpoint")); err == nil {
		total = c.Size
	}
	tell, clear := progressOf(a, total)
	f.Progress = tell
	audited, err := ledgers.Audit(ctx, a, f.ReadFlags, f.AuditOptions)
	clear()
	v := ledgerVerdict{dir: dir, flags: f, Audited: audited}
	switch {
	case errors.As(err, &v.fault), ledger.Broken(err), errors.Is(err, ledger.ErrBadSignature):
		if v.fault == nil {
			v.fault = &ledger.Fault{Index: -1, What: err.Error()}
		}
	case err != nil:
		return ledgers.Error(dir, err)
	}
	a.RejectIf(v.fault != nil || !audited.Sound())
	return cli.PrintAs(a, f.format, v.document(), v.text)
}

// ledgerVerdict is the result of verify.
type ledgerVerdict struct {
	ledger.Audited
	dir   string
	flags verifyLedgerFlags
	fault *ledger.Fault
}

// word returns the verdict. Tampering comes first, then wrong tiles and evidence. A
// ledger without any checkpoint is UNSIGNED: nobody can tell whether its last entries
// were removed.
func (v ledgerVerdict) word() string {
	switch {
	case v.fault != nil:
		return "TAMPERED"
	case len(v.Wrong) > 0:
		return "WRONG-TILES"
	case len(v.Altered) > 0:
		return "EVIDENCE-CORRUPT"
	case len(v.Absent) > 0:
		return "EVIDENCE-MISSING"
	case v.Unsigned:
		return "UNSIGNED"
	}
	return "CLEAN"
}

// parts counts the correct tiles or blobs and lists the others.
type parts[T any] struct {
	Right   int `json:"right"`
	Missing []T `json:"missing"`
	Wrong   []T `json:"wrong,omitzero"`
	Altered []T `json:"altered,omitzero"`
}

func (v ledgerVerdict) document() any {
	if v.fault != nil {
		return struct {
			Verdict string        `json:"verdict"`
			Fault   *ledger.Fault `json:"fault"`
		}{v.word(), v.fault}
	}
	doc := struct {
		Verdict    string           `json:"verdict"`
		Entries    int64            `json:"entries"`
		Root       string           `json:"root"`
		Open       []ledger.OpenRun `json:"open"`
		Checkpoint int64            `json:"checkpoint"`
		Pins       int              `json:"pins"`
		TornBytes  int64            `json:"torn_bytes"`
		Tiles      *parts[string]   `json:"tiles,omitempty"`
		Evidence   *parts[int64]    `json:"evidence,omitempty"`
		Repeats    []int64          `json:"repeats,omitempty"`
	}{Verdict: v.word(), Entries: v.Size, Root: v.Root.String(), Open: cli.OrEmpty(v.Open), Checkpoint: v.Checkpoint.Size, Pins: v.Pins, TornBytes: v.Torn, Repeats: v.Repeats}
	if v.flags.Tiles {
		doc.Tiles = &parts[string]{Right: v.Tiles, Missing: cli.OrEmpty(v.Missing), Wrong: cli.OrEmpty(v.Wrong)}
	}
	if v.flags.Evidence {
		doc.Evidence = &parts[int64]{Right: v.Evidence, Missing: cli.OrEmpty(v.Absent), Altered: cli.OrEmpty(v.Altered)}
	}
	return doc
}

func (v ledgerVerdict) text(t cli.Terminal) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t.W, "%-11s %s\n", name, screen.Plain(fmt.Sprintf(format, args...)))
	}
	row("ledger", "%s", ledgers.Shown(v.dir))
	if v.fault == nil {
		v.rows(row)
	}
	style, why := screen.Green, ""
	if v.word() != "CLEAN" {
		style = screen.Red
	}
	if v.fault != nil {
		why = ": " + screen.Plain(v.fault.Error())
	}
	t.Line(t.Paint(style, v.word()) + why)
}

// rows prints what a ledger without a fault has, and what the flags asked for.
func (v ledgerVerdict) rows(row func(name, format string, args ...any)) {
	row("origin", "%s", v.Keys[0].Key.Origin())
	row("entries", "%d", v.Size)
	row("root", "%s", v.Root)
	switch n := v.Unsynced(); {
	case v.Checkpoint.Size == 0:
		row("checkpoint", "none: it was lost or taken away, and the next append makes one")
	case n > 0:
		row("checkpoint", "%d entries; %s after it, written and not promised yet", v.Checkpoint.Size, entryCount(n))
	default:
		row("checkpoint", "covers every entry")
	}
	if v.Torn > 0 {
		row("torn", "%s after the last entry, left by an append that was interrupted; the next append takes them to quarantine", screen.Count(int(v.Torn), "byte"))
	}
	if n := len(v.Repeats); n > 0 {
		row("repeats", "%s an earlier one byte for byte: %s; the server wrote it twice when another took over", screen.Number(int64(n), "entry repeats", "entries repeat"), some(v.Repeats))
	}
	if n := v.Pins + len(v.flags.Since); n > 0 {
		row("kept", "%s", screen.Count(n, "older checkpoint"))
	}
	if v.flags.Seals {
		row("seals", "all signatures are right")
	}
	if v.flags.Tiles {
		row("tiles", "%d right%s%s", v.Tiles, butFor("missing", v.Missing), butFor("wrong", v.Wrong))
	}
	if v.flags.Evidence {
		row("evidence", "%d right%s%s", v.Evidence, butFor("missing, of entry", v.Absent), butFor("altered, of entry", v.Altered))
	}
	if len(v.Open) > 0 {
		var ids []string
		for _, o := range v.Open {
			ids = append(ids, o.RunID)
		}
		row("open", "%s without an end, killed or still going on: %s", screen.Count(len(v.Open), "run"), some(ids))
	}
	if v.flags.Key == "" && !remote.Named(v.dir) {
		row("trust", "the ledger's own keys; give --key the one that you trust")
	}
}

func entryCount(n int64) string { return screen.Number(n, "entry", "entries") }

// butFor describes the faulty items of a count, or returns empty if there are none.
func butFor[T any](what string, list []T) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d %s %s", len(list), what, some(list))
}

// some formats the first few items of a list.
func some[T any](list []T) string {
	const most = 10
	var parts []string
	for _, v := range list[:min(len(list), most)] {
		parts = append(parts, fmt.Sprint(v))
	}
	if len(list) > most {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
