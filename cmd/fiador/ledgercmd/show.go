package ledgercmd

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// showFlags are the flags of show. At most one of evidence, result and line is set: it
// chooses stored bytes instead of a report. run takes a number for the id of a run.
type showFlags struct {
	ledgers.ReadFlags
	evidence bool
	result   bool
	line     bool
	run      bool
	format   string
}

func showCommand(a *cli.App) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show N|RUN",
		Short: "show all about one entry, or the entries of one run",
		Long: `Show prints the record of entry N (from 0 on), or the records of the run with the id
RUN. With each record it prints the seal and whether its signature is right, and the
leaf hash (SHA-256 of a zero byte and the record). It also says whether the tree of the
checkpoint has that leaf, and whether the evidence is there and is what the record names.

A number N is the index of an entry; with --run it is the id of a run. If it could be
both, write "+N" for the entry.

One of these flags prints bytes as they were stored, and nothing else. On a terminal
characters that do not show are escaped.

  --line      the lines of ledger.jsonl
  --evidence  the evidence of the decision: a canonical JSON object
  --result    the RunResult of the decision, byte for byte as it was printed

Exit codes:
  0  shown, and everything that was checked is right
  1  something is wrong: seal, place in the tree, or evidence that is gone or altered; or
     the ledger does not keep what it has promised
  2  there is no such entry, or what was asked for could not be read`,
		Example: `  fiador ledger show 7 --ledger ./ledger
  fiador ledger show nightly-42 --ledger ./ledger --result | fiador verify -
  fiador ledger show 7 --ledger ./ledger --format json | jq .entries[0].leaf_sha256`,
		Args: cli.ExactArgs("N|RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.line && f.evidence, f.line && f.result, f.evidence && f.result:
				return cli.Unfit("ask for one of them", "--line, --evidence and --result do not go together")
			case (f.line || f.evidence || f.result) && cmd.Flags().Changed("format"):
				return cli.Unfit("leave --format out", "stored bytes have no other format")
			}
			return ledgers.Reading(cmd.Context(), a, f.ReadFlags, func(r ledger.Source) error { return showEntries(cmd.Context(), a, r, args[0], f) })
		},
	}
	f.Register(cmd)
	flags := cmd.Flags()
	registerRun(cmd, &f.run)
	flags.BoolVar(&f.line, "line", false, "print the stored line")
	flags.BoolVar(&f.evidence, "evidence", false, "print the evidence")
	flags.BoolVar(&f.result, "result", false, "print the RunResult")
	cli.FormatFlag(cmd, &f.format, "human", "json")
	return cmd
}

// showEntries prints stored bytes, or the entries with the results of their checks. One
// wrong check makes the exit status 1.
func showEntries(ctx context.Context, a *cli.App, r ledger.Source, what string, f showFlags) error {
	list, err := find(ctx, a, r, what, f.run)
	if err != nil {
		return err
	}
	switch {
	case f.line:
		var out []byte
		for _, s := range list {
			out = s.Line.Append(out)
		}
		return printStored(a, out)
	case f.evidence, f.result:
		out, err := stored(r, list, f.result)
		if err != nil {
			return err
		}
		return printStored(a, out)
	}
	for i := range list {
		if err := list[i].examine(ctx, r); err != nil {
			return err
		}
		a.RejectIf(list[i].wrong())
	}
	if f.format == "json" {
		docs := make([]entryDocument, len(list))
		for i, s := range list {
			if docs[i], err = s.document(); err != nil {
				return err
			}
		}
		return cli.PrintJSON(a, struct {
			Checkpoint ledger.Checkpoint `json:"checkpoint"`
			Entries    []entryDocument   `json:"entries"`
		}{r.Checkpoint(), docs})
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		for i, s := range list {
			if i > 0 {
				t.Line()
			}
			s.text(t, r.Checkpoint())
		}
	})
}

// printStored prints bytes as they are. On a terminal it escapes invisible characters.
func printStored(a *cli.App, b []byte) error {
	if a.OutTTY {
		b = screen.JSON(b)
	}
	return a.Print(b)
}

// registerRun registers the flag that marks a number as the id of a run.
func registerRun(cmd *cobra.Command, run *bool) {
	cmd.Flags().BoolVar(run, "run", false, "take a number for the id of a run")
}

// find returns the entry with a number, or the entries of a run. It refuses a number that
// is both an entry and the id of a run. A number with a plus is always an entry, because
// no id of a run has a plus.
func find(ctx context.Context, a *cli.App, r ledger.Source, what string, run bool) ([]shownEntry, error) {
	line := cli.NewProgress(a, r.Checkpoint().Size)
	defer line.Clear()
	number, plus := strings.CutPrefix(what, "+")
	if index, err := strconv.ParseUint(number, 10, 62); err == nil && !run {
		if !plus && isRun(ctx, r, what) {
			return nil, cli.Usage(fmt.Sprintf("give --run for the run, or +%d for the entry", index), "%q is a number and the id of a run", what)
		}
		if int64(index) >= r.Checkpoint().Size {
			return nil, cli.Usage(fmt.Sprintf("the entries are 0 to %d", r.Checkpoint().Size-1), "no entry %d", index)
		}
		e, err := r.Entry(ctx, int64(index))
		if err != nil {
			return nil, entryFailure(err)
		}
		s := shownEntry{Entry: e, index: int64(index)}
		if e.Record.Kind == ledger.KindBegun {
			list, err := entriesOf(ctx, r, e.Record.RunID, line)
			if err != nil {
				return nil, err
			}
			s.open = len(list) == 1
		}
		return []shownEntry{s}, nil
	}
	if !ledger.RunID(what) {
		return nil, cli.Usage("the number of an entry, or the id of a run", "%q is neither", what)
	}
	list, err := entriesOf(ctx, r, what, line)
	if err == nil && len(list) == 0 {
		return nil, cli.Usage(`"fiador ledger list" prints the ids of runs`, "no run %q", what)
	}
	return list, err
}

// isRun reports whether a ledger has a run. It returns false if the search fails, so that
// one wrong entry does not hide the others.
func isRun(ctx context.Context, r ledger.Source, what string) bool {
	found, err := r.Find(ctx, what, false)
	return err == nil && len(found) > 0
}

// entriesOf returns the entries of a run, in order.
func entriesOf(ctx context.Context, r ledger.Source, runID string, line *cli.Progress) ([]shownEntry, error) {
	found, err := r.Find(ctx, runID, false)
	if err != nil {
		return nil, entryFailure(cmp.Or(ctx.Err(), err))
	}
	var list []shownEntry
	for _, index := range found {
		e, err := r.Entry(ctx, index)
		if err != nil {
			return nil, entryFailure(err)
		}
		list = append(list, shownEntry{Entry: e, index: index})
	}
	if len(list) != 1 || list[0].Record.Kind.Ends() {
		return list, nil
	}
	// The derived index may be older than the checkpoint, and may lack the end of the run.
	for index, e := range r.Lines(ctx, list[0].index+1) {
		if e.Err != nil {
			return nil, entryFailure(e.Err)
		}
		if line.Tell(); e.Record.RunID == runID {
			return append(list, shownEntry{Entry: e, index: index}), nil
		}
	}
	list[0].open = true
	return list, nil
}

// stored returns the bytes of a decision's evidence, or of the RunResult in the evidence.
func stored(r ledger.Source, list []shownEntry, ofResult bool) ([]byte, error) {
	i := slices.IndexFunc(list, func(s shownEntry) bool { return s.Record.Kind == ledger.KindDecision })
	if i < 0 {
		return nil, cli.Usage("decisions have evidence", "entry %d is no decision", list[0].index)
	}
	rec := list[i].Record
	wrong := func(why, hint string, err error) error {
		msg := fmt.Sprintf("entry %d: the evidence %s %s", list[i].index, rec.Evidence.SHA256, why)
		return runerr.New(result.CodeEvidence, msg, hint, runerr.Because(err))
	}
	blob, err := r.Blob(rec.Evidence)
	switch {
	case errors.Is(err, ledger.ErrNoBlob):
		return nil, wrong("is not there", "it may have been removed after its time; a copy of the ledger may have it", err)
	case err != nil && !errors.Is(err, ledger.ErrBadBlob):
		return nil, err
	case err != nil:
		return nil, wrong("is not what was recorded", `"fiador ledger verify --evidence" looks at all of it`, err)
	case !ofResult:
		return blob, nil
	}
	var doc struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(blob, &doc); err != nil || canon.Sum([]byte(doc.Result)) != rec.ResultSHA256 {
		return nil, wrong("does not hold the RunResult that the record names", "--evidence prints it", err)
	}
	return []byte(doc.Result), nil
}

// shownEntry is an entry with the results of its checks.
type shownEntry struct {
	ledger.Entry
	index    int64
	open     bool // the run began and has no end
	seal     string
	included string
	evidence string // empty: the record has no evidence
}

// The words for checks that succeed.
const (
	sealGood     = "good"
	leafIncluded = "included"
	blobPresent  = "present"
)

// wrong reports whether a check of the entry failed. A seal with an unknown key counts
// as wrong.
func (s shownEntry) wrong() bool {
	return s.seal != "" && s.seal != sealGood || s.included != leafIncluded || s.evidence != "" && s.evidence != blobPresent
}

// examine checks the seal, the tree and the evidence. It returns an error if it was
// interrupted, or if the evidence could not be read.
func (s *shownEntry) examine(ctx context.Context, r ledger.Source) error {
	s.seal = "unknown key"
	if s.Seal.Size == 0 {
		s.seal = "" // the entry of a server
	} else if key, ok := r.Keys().At(s.Seal.Size); ok {
		switch err := key.CheckSeal(s.Seal); {
		case err == nil:
			s.seal = sealGood
		case errors.Is(err, ledger.ErrBadSignature):
			s.seal = "bad signature"
		}
	}
	s.included = leafIncluded
	if _, err := r.Prove(ctx, s.index); err != nil {
		if ctx.Err() != nil {
			return entryFailure(ctx.Err())
		}
		s.included = "not proven"
	}
	if s.Record.Kind != ledger.KindDecision {
		return nil
	}
	switch _, err := r.Blob(s.Record.Evidence); {
	case err == nil:
		s.evidence = blobPresent
	case errors.Is(err, ledger.ErrNoBlob):
		s.evidence = "missing"
	case errors.Is(err, ledger.ErrBadBlob):
		s.evidence = "altered"
	default:
		return err
	}
	return nil
}

// leaf returns the leaf hash of RFC 6962: the SHA-256 of a zero byte and the record.
func (s shownEntry) leaf() canon.ContentHash {
	h := ledger.LeafHash(s.Line.Entry)
	return canon.ContentHash("sha256:" + hex.EncodeToString(h[:]))
}

// entryDocument is an entry in the JSON of show. Evidence is null for a record without
// evidence, and Seal for an entry of a server.
type entryDocument struct {
	Index     int64             `json:"index"`
	Record    any               `json:"record"`
	Leaf      canon.ContentHash `json:"leaf_sha256"`
	Inclusion string            `json:"inclusion"`
	Seal      *sealDocument     `json:"seal"`
	Evidence  *string           `json:"evidence"`
	Open      bool              `json:"open"`
}

type sealDocument struct {
	Size      int64  `json:"size"`
	Root      string `json:"root"`
	Sig       string `json:"sig"`
	Signature string `json:"signature"`
}

func (s shownEntry) document() (entryDocument, error) {
	rec, err := canon.Parse(s.Line.Entry, ledger.MaxEntryBytes)
	if err != nil {
		return entryDocument{}, err
	}
	doc := entryDocument{s.index, rec.Value(), s.leaf(), s.included, nil, nil, s.open}
	if s.seal != "" {
		doc.Seal = &sealDocument{s.Seal.Size, s.Seal.Root.String(), base64.StdEncoding.EncodeToString(s.Seal.Sig[:]), s.seal}
	}
	if s.evidence != "" {
		doc.Evidence = &s.evidence
	}
	return doc, nil
}

func (s shownEntry) text(t cli.Terminal, c ledger.Checkpoint) {
	outcome, style := listOutcome(s.Record)
	if s.open {
		outcome, style = "open", screen.Yellow
	}
	t.Line(t.Paint(screen.Bold, fmt.Sprintf("entry %d of %d", s.index, c.Size)), t.Paint(style, outcome))
	field := func(name, text string) {
		if text != "" {
			t.Line("  "+t.Paint(screen.Dim, fmt.Sprintf("%-16s", name)), screen.Plain(text))
		}
	}
	row, names := s.Record.Row(s.index), ledger.Columns()
	for i, name := range names {
		switch name {
		case "index", "evidence_sha256", "evidence_size":
		case "reasons":
			field(name, strings.Join(s.Record.Reasons, ", "))
		default:
			field(name, strings.TrimPrefix(row[i], "'"))
		}
	}
	state := func(name, word, good string, rest ...string) {
		style := screen.Green
		if word != good {
			style = screen.Red
		}
		t.Line(append([]string{"  " + t.Paint(screen.Dim, fmt.Sprintf("%-16s", name)), t.Paint(style, word)}, rest...)...)
	}
	if s.evidence != "" {
		state("evidence", s.evidence, blobPresent, string(s.Record.Evidence.SHA256), fmt.Sprintf("%d bytes", s.Record.Evidence.Size))
	}
	if s.seal != "" {
		state("seal", s.seal, sealGood, fmt.Sprintf("size %d", s.Seal.Size), "root "+s.Seal.Root.String())
	}
	t.Line("  "+t.Paint(screen.Dim, fmt.Sprintf("%-16s", "leaf_sha256")), string(s.leaf()))
	state("checkpoint", s.included, leafIncluded, c.Origin, fmt.Sprintf("size %d", c.Size), "root "+c.Root.String())
}
