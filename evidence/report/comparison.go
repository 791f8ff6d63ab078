package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// Comparison is a comparison of two agents, for every format of ComparisonFormats.
type Comparison struct {
	grade.Comparison
	Document []byte // compare-report.json
	Cases    string // name of the document of the cases
	// Line returns the line of a case in that document, by its id; nil or 0: not known.
	Line func(id string) int
	// Why returns why an assertion of a case failed on new; nil or "": not known.
	Why func(caseID, assertion string) string
}

// sarifResults is the maximum number of results in a SARIF file of a comparison.
const sarifResults = 5000

// Write writes the comparison in a format.
func (c Comparison) Write(w io.Writer, format string, o Options) error {
	switch format {
	case "json":
		_, err := w.Write(c.Document)
		return err
	case "human":
		return c.human(w, o.Color)
	case "github":
		g := &github{w: w, shown: map[string]int{}}
		for _, r := range c.rows() {
			if err := g.row(r.row); err != nil {
				return err
			}
		}
		return g.close(screen.Plain(squeeze("; ", c.Headline(), c.counts())), c.remark())
	case "junit":
		j := &junit{w: w}
		for _, r := range c.rows() {
			j.row(r.row)
		}
		return j.close([][2]string{
			{"cases", c.path()}, {"evaluator_version", c.EvaluatorVersion}, {"gate", c.Gate.Status}, {"report_only", strconv.FormatBool(c.remark() != "")},
		})
	case "sarif":
		s := newSARIF(w)
		s.limit = sarifResults
		for _, r := range c.rows() {
			if err := s.row(r.row); err != nil {
				return err
			}
		}
		properties := gateProperties{c.Gate.Status, c.remark() != ""}
		return s.close(c.EvaluatorVersion, sarifInvocation{Successful: c.Gate.ExitCode < 2, ExitCode: c.Gate.ExitCode}, properties)
	case "markdown":
		return c.markdown(w)
	}
	return fmt.Errorf("unknown format %q; one of: %s", format, strings.Join(ComparisonFormats(), ", "))
}

type gateProperties struct {
	Gate       string `json:"gate"`
	ReportOnly bool   `json:"reportOnly"`
}

// path returns the name of the document of the cases, in the words of an Item.
func (c Comparison) path() string { return cmp.Or(c.Cases, "-") }

// remark returns what a report says of a rejection that does not fail the run.
func (c Comparison) remark() string {
	if c.Gate.Status == grade.GateFail && c.Gate.ExitCode == 0 {
		return "new is rejected, and that does not fail this run"
	}
	return ""
}

// decision returns the decision in the words of a reader, and its style.
func (c Comparison) decision() (word, style string) {
	switch c.Gate.Status {
	case grade.GatePass:
		return "ACCEPTED", screen.Green
	case grade.GateFail:
		return "REJECTED", screen.Red
	}
	return "NO DECISION", screen.Yellow
}

// Headline returns the decision and its first reason in one line.
func (c Comparison) Headline() string {
	word, _ := c.decision()
	if len(c.Gate.Reasons) == 0 {
		return word
	}
	more := ""
	if n := len(c.Gate.Reasons) - 1; n > 0 {
		more = "and " + screen.Count(n, "more reason")
	}
	return word + ": " + squeeze(", ", c.brief(c.Gate.Reasons[0]), more)
}

// brief returns a reason with its count, as part of a sentence.
func (c Comparison) brief(r grade.Reason) string {
	words := map[string][2]string{
		grade.CodeRegression:       {"regression", "regressions"},
		grade.CodeCriticalFailure:  {"critical case fails", "critical cases fail"},
		grade.CodePolicyViolation:  {"case did what the policy does not allow", "cases did what the policy does not allow"},
		grade.CodeAddedFailing:     {"added case fails", "added cases fail"},
		grade.CodeRemoved:          {"case was removed", "cases were removed"},
		grade.CodeSecretExposed:    {"case shows a secret", "cases show secrets"},
		grade.CodeFlaky:            {"flaky case", "flaky cases"},
		grade.CodeInfraRegression:  {"case has no answer on new", "cases have no answer on new"},
		grade.CodeBaselineUnusable: {"case has no answer on baseline", "cases have no answer on baseline"},
	}
	if w, counted := words[r.Code]; counted {
		return screen.Number(int(r.Count), w[0], w[1])
	}
	for _, side := range []trial.Side{trial.New, trial.Baseline} {
		if a := c.Summary.Answers[side]; r.Code == grade.CodeAnswers && a.Rate == r.Count && a.K < a.N {
			return fmt.Sprintf("%d of %s of %s %s an answer", a.K, screen.Count(a.N, "run"), side, map[bool]string{true: "has", false: "have"}[a.K == 1])
		}
	}
	title := grade.MeaningOf(grade.OfGate, r.Code).Title
	begin, size := utf8.DecodeRuneInString(title)
	return string(unicode.ToLower(begin)) + title[size:]
}

// counts returns how many cases there are of each class, and how many pass, in one line.
func (c Comparison) counts() string {
	fields := []string{screen.Count(len(c.Comparison.Cases), "case")}
	for _, m := range grade.Meanings() {
		if n := c.Summary.Classes[grade.Class(m.ID)]; m.Kind == grade.OfClass && n > 0 {
			fields = append(fields, fmt.Sprintf("%d %s", n, m.ID))
		}
	}
	share := c.Summary.PassShare[trial.New]
	passing := fmt.Sprintf("%d/%d pass", share.K, share.N)
	if c.Baseline != nil {
		old := c.Summary.PassShare[trial.Baseline]
		passing = fmt.Sprintf("%d/%d -> %s", old.K, old.N, passing)
	}
	return strings.Join(fields, ", ") + "; " + passing
}

// human writes the decision, each reason with its cases, a line for each case that needs a
// look, and the counts.
func (c Comparison) human(w io.Writer, color bool) error {
	p := page{color: color}
	word, style := c.decision()
	_, why, _ := strings.Cut(c.Headline(), word)
	p.WriteString(p.paint(style, word) + screen.Plain(why) + "\n")
	for _, r := range c.Gate.Reasons {
		m := grade.MeaningOf(grade.OfGate, r.Code)
		p.line(p.paint(screen.Bold, screen.Plain(r.Code)), screen.Plain(m.Title), measure(r))
		if ids, more := named(r); len(ids) > 0 {
			p.line("", screen.Plain(squeeze(", ", strings.Join(ids, ", "), more)))
		}
		p.hint(m.Fix)
	}
	for _, r := range c.rows() {
		if !r.look {
			continue
		}
		tone := ""
		switch r.verdict {
		case rejected:
			tone = screen.Red
		case undecided, unsteady:
			tone = screen.Yellow
		}
		p.line(p.paint(tone, screen.Plain(r.outcome)), screen.Plain(r.name), r.rates, screen.Plain(r.what))
	}
	p.line(p.paint(screen.Bold, "TOTAL"), c.counts())
	p.remark(c.remark())
	_, err := w.Write(p.Bytes())
	return err
}

// measure returns the count and the limit of a reason.
func measure(r grade.Reason) string { return number(r.Count) + " (limit " + number(r.Limit) + ")" }

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// named returns the cases that a reason names, and how many more it counts.
func named(r grade.Reason) (ids []string, more string) {
	if n := int(r.Count) - len(r.Cases); n > 0 {
		more = strconv.Itoa(n) + " more"
	}
	return r.Cases, more
}

// markdown writes the decision, the reasons, the cases that need a look, and the others in
// a list that is folded.
func (c Comparison) markdown(w io.Writer) error {
	reasons, table := part{limit: tableLimit}, part{limit: findingLimit}
	for _, r := range c.Gate.Reasons {
		ids, more := named(r)
		list := make([]string, len(ids))
		for k, id := range ids {
			list[k] = cell(id)
		}
		m := grade.MeaningOf(grade.OfGate, r.Code)
		if m.Why == "" { // not one of our codes: its title is not ours either
			m.Title, m.Fix = "–", "–"
		}
		reasons.add(fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", cell(r.Code), m.Title, number(r.Count), number(r.Limit), squeeze(", ", strings.Join(list, ", "), more), m.Fix))
	}
	var others []namedEnd
	for _, r := range c.rows() {
		if r.look {
			table.add(fmt.Sprintf("| %s | %s | %s | %s | %s |\n", cell(r.outcome), cell(r.name), r.rates, cell(r.what), cell(strings.Join(r.failed, ", "))))
		} else {
			others = append(others, namedEnd{r.name, r.rates})
		}
	}
	var b strings.Builder
	b.WriteString("# fiador: " + screen.Plain(c.Headline()) + "\n\n" + quotedRemark(c.remark()) + c.counts())
	b.WriteString("; evaluator " + code(c.EvaluatorVersion, shortText) + "\n")
	const where = "the format junit has them all"
	if reasons.Len() > 0 {
		b.WriteString("\n## Reasons\n\n| reason | title | count | limit | cases | fix |\n|---|---|---|---|---|---|\n" + reasons.String() + reasons.rest("reason", where))
	}
	if table.Len() > 0 {
		b.WriteString("\n## Needs a look\n\n| class | case | baseline, new | what changed first | failed on new |\n|---|---|---|---|---|\n")
		b.WriteString(table.String() + table.rest("case", where))
	}
	if len(others) > 0 {
		b.WriteString(folded(screen.Number(len(others), "case passes", "cases pass")+" as before", listed(others, markdownLimit-endLimit-b.Len(), "case", where)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
