package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
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
	accepted               []acceptedIntent
}

type acceptedIntent struct{ name, executed string }

func (m *markdown) Item(i Item) error {
	wrong, notes := split(findings(i))
	heading := "### " + i.Outcome() + " " + code(i.Name(), shortText) + "\n\n"
	if i.Outcome() == string(kernel.OutcomeBundle) {
		a := acceptedIntent{name: i.Name()}
		if i.Execution != nil {
			a.executed = i.Execution.String()
		}
		m.accepted = append(m.accepted, a)
	} else {
		m.table.add(tableRow(i, wrong))
	}
	m.notes.section(heading, notes)
	if i.Outcome() == OutcomeFailed {
		heading += i.Execution.String() + "\n\n"
	}
	m.findings.section(heading, wrong)
	return nil
}

func tableRow(i Item, wrong []finding) string {
	reason := ""
	if len(wrong) > 0 {
		reason = wrong[0].reason()
	}
	return fmt.Sprintf("| %s | %s | %d | %s |\n", i.Outcome(), cell(i.Name()), len(wrong), cell(reason))
}

func (m *markdown) Close(s Summary) error {
	var b strings.Builder
	b.WriteString("# fiador: " + headline(s.Counts) + "\n\n")
	if s.ReportOnly {
		b.WriteString("> **REPORT ONLY:** " + reportOnly + ".\n\n")
	}
	b.WriteString(s.Counts.line())
	if s.Profile != "" {
		b.WriteString("; profile " + code(s.Profile, shortText))
	}
	if s.KernelVersion != "" {
		b.WriteString("; kernel " + code(s.KernelVersion, shortText))
	}
	b.WriteString("\n")
	if m.table.Len() > 0 {
		b.WriteString("\n| outcome | intent | findings | first reason |\n|---|---|---|---|\n")
		b.WriteString(m.table.String() + m.table.rest("intent"))
	}
	if m.findings.Len() > 0 {
		b.WriteString("\n## Findings\n" + m.findings.String() + m.findings.rest("finding"))
	}
	if m.notes.Len() > 0 {
		b.WriteString("\n## Notes\n" + m.notes.String() + m.notes.rest("note"))
	}
	b.WriteString(m.acceptedList(markdownLimit - endLimit - b.Len()))
	_, err := io.WriteString(m.w, b.String())
	return err
}

// headline returns the verdict, the worst outcome first.
func headline(c Counts) string {
	total := screen.Count(c.Total(), "intent")
	switch {
	case c.Total() == 0:
		return "no intents"
	case c.Errors > 0:
		return fmt.Sprintf("ERROR, no decision about %d of %s", c.Errors, total)
	case c.Rejected() > 0:
		return fmt.Sprintf("REJECTED, %d of %s", c.Rejected(), total)
	}
	return "ACCEPTED, " + total
}

func (m *markdown) acceptedList(limit int) string {
	if len(m.accepted) == 0 {
		return ""
	}
	list := part{limit: limit}
	for _, a := range m.accepted {
		list.add("- " + squeeze(", ", code(a.name, shortText), a.executed) + "\n")
	}
	text := list.String() + list.rest("intent")
	if len(m.accepted) > fewAccepted {
		return "\n<details>\n<summary>" + screen.Count(len(m.accepted), "accepted intent") + "</summary>\n\n" + text + "\n</details>\n"
	}
	return "\n## Accepted\n\n" + text
}

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
func (p *part) rest(word string) string {
	if p.left == 0 {
		return ""
	}
	return "\n**" + screen.Count(p.left, "more "+word) + " left out here to keep the page short: the formats sarif and junit have them all.**\n"
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
