package ledgercmd

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
)

// statsFlags are the flags of stats. top bounds each table of the format human.
type statsFlags struct {
	ledgers.ReadFlags
	chooseFlags
	top    int
	format string
}

func statsCommand(a *cli.App) *cobra.Command {
	var f statsFlags
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "count what was recorded",
		Long: `Stats counts the entries of a ledger by kind, and ended runs by profile, mode, day
(UTC) and policy. It counts decisions by outcome and reason, and errors by code. A
decision counts once for each of its reasons. The flags that choose entries are those
of "fiador ledger list".

Formats:
  human  tables; the most frequent reasons, and the newest days and policies
  json   one canonical document, with all of them
  csv    RFC 4180 with a header: group, name, value

Exit codes:
  0  counted
  1  the ledger does not keep what it has promised: entries were changed, or are gone
  2  the ledger, or an entry, could not be read`,
		Example: `  fiador ledger stats --ledger ./ledger
  fiador ledger stats --ledger ./ledger --since 30d --format json | jq .reasons`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.top < 1 {
				return cli.Usage("a number from 1 on", "--top %d shows nothing", f.top)
			}
			return ledgerStats(cmd.Context(), a, f)
		},
	}
	f.ReadFlags.Register(cmd)
	f.chooseFlags.register(cmd)
	cmd.Flags().IntVar(&f.top, "top", 10, "how many reasons, days and policies --format human shows")
	cli.FormatFlag(cmd, &f.format, "human", "json", "csv")
	return cmd
}

func ledgerStats(ctx context.Context, a *cli.App, f statsFlags) error {
	filter, err := f.filter(a.Now())
	if err != nil {
		return err
	}
	c := counted{top: f.top}
	s, err := visitAll(ctx, a, f.ReadFlags, filter, func(_ int64, r ledger.Record) { c.Add(r) })
	if err != nil {
		return err
	}
	c.checkpoint, c.open = s.Checkpoint(), s.open
	if f.format == "csv" {
		b, err := c.table()
		if err != nil {
			return err
		}
		return a.Print(b)
	}
	return cli.PrintAs(a, f.format, c.document(), c.text)
}

// counted holds the counts of a ledger.
type counted struct {
	ledger.Stats
	checkpoint ledger.Checkpoint
	open       ledger.Open
	top        int
}

// tally is one of the counts, with its name in documents and tables.
type tally struct {
	group string
	*ledger.Tally
}

func (c *counted) tallies() []tally {
	return []tally{
		{"kinds", &c.Kinds}, {"outcomes", &c.Outcomes}, {"profiles", &c.Profiles}, {"modes", &c.Modes},
		{"execution_modes", &c.Executions}, {"kernels", &c.Kernels}, {"reasons", &c.Reasons}, {"errors", &c.Codes}, {"days", &c.Days},
	}
}

// document returns the counts as JSON. First and last are null where no entry was
// counted.
func (c *counted) document() any {
	for _, t := range c.tallies() {
		if *t.Tally == nil {
			*t.Tally = ledger.Tally{}
		}
	}
	doc := struct {
		Checkpoint ledger.Checkpoint  `json:"checkpoint"`
		First      *string            `json:"first"`
		Last       *string            `json:"last"`
		Open       []string           `json:"open"`
		Policies   []ledger.PolicyUse `json:"policies"`
		ledger.Stats
	}{c.checkpoint, nil, nil, openRuns(c.open), cli.OrEmpty(c.Uses()), c.Stats}
	if c.Entries > 0 {
		doc.First, doc.Last = &c.First, &c.Last
	}
	return doc
}

// table returns the counts as CSV.
func (c *counted) table() ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	rows := [][]string{
		{"group", "name", "value"},
		{"entries", "", number(c.Entries)}, {"first", "", c.First}, {"last", "", c.Last},
		{"accepted", "", number(c.Accepted)}, {"rejected", "", number(c.Rejected)}, {"open", "", number(int64(len(c.open)))},
	}
	for _, t := range c.tallies() {
		for _, n := range t.ByName() {
			rows = append(rows, []string{t.group, ledger.Cell(n.Name), number(n.N)})
		}
	}
	for _, p := range c.Uses() {
		rows = append(rows, []string{"policies", string(p.SHA256), number(p.Ends)})
	}
	err := w.WriteAll(rows)
	return out.Bytes(), err
}

func (c *counted) text(t cli.Terminal) {
	digits := len(strconv.FormatInt(c.Entries, 10))
	row := func(name, style string, n int64, rest ...string) {
		t.Line(append([]string{"  " + fmt.Sprintf("%*d", digits, n), t.Paint(style, name)}, rest...)...)
	}
	t.Line(t.Paint(screen.Bold, c.checkpoint.Origin), entryCount(c.Entries)+fmt.Sprintf(" of %d", c.checkpoint.Size))
	if c.Entries == 0 {
		return
	}
	t.Line("from "+c.First, "to "+c.Last)
	styles := map[string]string{"BUNDLE": screen.Green, "CLARIFY": screen.Yellow, "REFUSE": screen.Red, "error": screen.Red}
	head := func(title string) {
		t.Line()
		t.Line(t.Paint(screen.Bold, title))
	}
	top := func(title string, length int, line func(i int)) {
		if length == 0 {
			return
		}
		head(title)
		for i := range min(length, c.top) {
			line(i)
		}
		if more := length - c.top; more > 0 {
			t.Line(t.Paint(screen.Dim, fmt.Sprintf("  and %d more; --top shows more", more)))
		}
	}
	group := func(title string, list []ledger.Count) {
		top(title, len(list), func(i int) { row(list[i].Name, styles[list[i].Name], list[i].N) })
	}
	group("kinds", c.Kinds.Most())
	if n := int64(len(c.open)); n > 0 {
		row("begun and not ended: open", screen.Yellow, n)
	}
	group("outcomes", c.Outcomes.Most())
	if c.Accepted+c.Rejected > 0 {
		head("decisions")
		row("accepted", screen.Green, c.Accepted)
		row("not accepted", screen.Red, c.Rejected)
	}
	group("reasons", c.Reasons.Most())
	group("errors", c.Codes.Most())
	group("profiles", c.Profiles.Most())
	group("model modes", c.Modes.Most())
	group("execution modes", c.Executions.Most())
	group("kernels", c.Kernels.Most())
	days := c.Days.ByName()
	slices.Reverse(days)
	group("newest days", days)
	uses := c.Uses() // the last used policy first
	top("policies", len(uses), func(i int) {
		row(string(uses[i].SHA256), "", uses[i].Ends, uses[i].Profile, t.Paint(screen.Dim, "until "+uses[i].Last))
	})
}
