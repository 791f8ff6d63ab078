package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
)

// markdownLimit is the maximum size of a job summary, in bytes.
const markdownLimit = 1<<20 - 1

// The maximum sizes of the parts of the page. The accepted intents have the rest.
const (
	tableLimit   = 200 << 10
	findingLimit = 500 << 10
	noteLimit    = 100 << 10
	endLimit     = 1 << 10 // text after the last row
)

// The maximum length of one text on the page, in UTF-16 code units, and the maximum
// number of a question's answers.
const (
	longText  = 2000
	shortText = 400
	maxAnswer = 20
)

// fewAccepted is the maximum number of accepted intents that are listed unfolded.
const fewAccepted = 10

// markdown writes a page in GitHub Flavored Markdown. All text from outside is in code
// spans, which contain no markup, link or mention.
type markdown struct {
	w                      io.Writer
	table, findings, notes part
	accepted               []namedEnd
}

// namedEnd is the name of a row and how it ended, in words of this package.
type namedEnd struct{ name, said string }

func newMarkdown(w io.Writer) *markdown {
	return &markdown{w: w, table: part{limit: tableLimit}, findings: part{limit: findingLimit}, notes: part{limit: noteLimit}}
}

func (m *markdown) Item(i Item) error {
	r := rowOf(i)
	wrong, notes := split(r.findings)
	heading := "### " + r.outcome + " " + code(r.name, shortText) + "\n\n"
	if r.verdict == passed {
		m.accepted = append(m.accepted, namedEnd{r.name, r.said})
	} else {
		m.table.add(tableRow(r, wrong))
	}
	m.notes.section(heading, notes)
	if r.outcome == OutcomeFailed {
		heading += r.said + "\n\n"
	}
	m.findings.section(heading, wrong)
	return nil
}

func tableRow(r row, wrong []finding) string {
	reason := ""
	if len(wrong) > 0 {
		reason = wrong[0].reason()
	}
	return fmt.Sprintf("| %s | %s | %d | %s |\n", r.outcome, cell(r.name), len(wrong), cell(reason))
}

func (m *markdown) Close(s Summary) error {
	var b strings.Builder
	b.WriteString("# fiador: " + headline(s) + "\n\n")
	b.WriteString(quotedRemark(s.remark()) + s.Counts.line())
	if s.Profile != "" {
		b.WriteString("; profile " + code(s.Profile, shortText))
	}
	if s.KernelVersion != "" {
		b.WriteString("; kernel " + code(s.KernelVersion, shortText))
	}
	b.WriteString("\n")
	if m.table.Len() > 0 {
		b.WriteString("\n| outcome | intent | findings | first reason |\n|---|---|---|---|\n")
		b.WriteString(m.table.String() + m.table.rest("intent", everywhere))
	}
	if m.findings.Len() > 0 {
		b.WriteString("\n## Findings\n" + m.findings.String() + m.findings.rest("finding", everywhere))
	}
	if m.notes.Len() > 0 {
		b.WriteString("\n## Notes\n" + m.notes.String() + m.notes.rest("note", everywhere))
	}
	b.WriteString(acceptedList(m.accepted, markdownLimit-endLimit-b.Len()))
	_, err := io.WriteString(m.w, b.String())
	return err
}

// quotedRemark returns the remark of a run that cannot fail as a paragraph.
func quotedRemark(text string) string {
	if text == "" {
		return ""
	}
	return "> **REPORT ONLY:** " + text + ".\n\n"
}

// headline returns the verdict, the worst outcome first.
func headline(s Summary) string {
	c := s.Counts
	total := screen.Count(c.Total(), "intent")
	switch {
	case c.Errors > 0:
		return fmt.Sprintf("ERROR, no decision about %d of %s", c.Errors, total)
	case c.Rejected() > 0:
		return fmt.Sprintf("REJECTED, %d of %s", c.Rejected(), total)
	case c.Unannounced > 0:
		return "REJECTED, " + c.Paths()
	case c.Total() == 0 && s.Change:
		return "ACCEPTED, the change brings no intent"
	case c.Total() == 0:
		return "no intents"
	}
	return "ACCEPTED, " + total
}

func acceptedList(accepted []namedEnd, limit int) string {
	if len(accepted) == 0 {
		return ""
	}
	text := listed(accepted, limit, "intent", everywhere)
	if len(accepted) > fewAccepted {
		return folded(screen.Count(len(accepted), "accepted intent"), text)
	}
	return "\n## Accepted\n\n" + text
}

// folded returns a text that a reader has to open.
func folded(summary, text string) string {
	return "\n<details>\n<summary>" + summary + "</summary>\n\n" + text + "\n</details>\n"
}

// listed returns a list of names of at most limit bytes.
func listed(ends []namedEnd, limit int, word, where string) string {
	list := part{limit: limit}
	for _, e := range ends {
		list.add("- " + squeeze(", ", code(e.name, shortText), e.said) + "\n")
	}
	return list.String() + list.rest(word, where)
}

// everywhere says where the rows stand that a page of intents leaves out.
const everywhere = "the formats sarif and junit have them all"

// part is a part of the page. It takes whole rows up to its limit and counts the rows
// that do not fit.
type part struct {
	strings.Builder
	limit int // bytes
	left  int
}

func (p *part) add(row string) {
	if p.left > 0 || p.Len()+len(row) > p.limit {
		p.left++
		return
	}
	p.WriteString(row)
}

// section adds the findings of one intent under a heading.
func (p *part) section(heading string, list []finding) {
	told := map[string]bool{}
	for k, f := range list {
		row := findingRow(f, told)
		if k == 0 {
			row = "\n" + heading + row
		}
		p.add(row)
	}
}

// rest says how many rows are left out and where to find them.
func (p *part) rest(word, where string) string {
	if p.left == 0 {
		return ""
	}
	return "\n**" + screen.Count(p.left, "more "+word) + " left out here to keep the page short: " + where + ".**\n"
}

// findingRow returns a finding as an item of a list. A fix that was written before is
// not repeated.
func findingRow(f finding, told map[string]bool) string {
	var b strings.Builder
	b.WriteString("- " + code(f.id, shortText))
	if f.pointer != "" {
		b.WriteString(" at " + code(f.pointer, shortText))
	}
	if f.hasPointer || f.hasOffset {
		fmt.Fprintf(&b, ", line %d", f.region.start.Line)
	}
	b.WriteString(": " + code(f.text, longText) + "\n")
	if f.fix != "" && !told[f.fix] {
		b.WriteString("  - fix: " + code(f.fix, longText) + "\n")
		told[f.fix] = true
	}
	for k, o := range f.options {
		if k == maxAnswer {
			b.WriteString("  - " + screen.Count(len(f.options)-k, "more answer") + "\n")
			break
		}
		b.WriteString("  - answer: " + code(o, shortText) + "\n")
	}
	for _, s := range f.stderr {
		b.WriteString("  - stderr: " + code(s, shortText) + "\n")
	}
	return b.String()
}

// maxFence is the longest run of backticks that a code span is built around. Readers of
// Markdown do not handle much longer ones.
const maxFence = 8

// code returns text from outside as a code span of at most n code units.
func code(s string, n int) string { return codeSpan(cut(screen.Plain(s), n)) }

// cell is like code, but for a table. There a bar ends a cell even in a code span.
func cell(s string) string {
	return codeSpan(strings.ReplaceAll(cut(screen.Plain(s), shortText), "|", `\u007c`))
}

func codeSpan(s string) string {
	if s == "" {
		return "–"
	}
	run := longestRun(s, '`')
	if run > maxFence {
		s, run = strings.ReplaceAll(s, "`", `\u0060`), 0
	}
	// A reader removes one space on each side of a span that begins and ends with a
	// space.
	if strings.ContainsAny(s[:1]+s[len(s)-1:], "` ") && strings.Trim(s, " ") != "" {
		s = " " + s + " "
	}
	fence := strings.Repeat("`", run+1)
	return fence + s + fence
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for k := range len(s) {
		if run++; s[k] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
