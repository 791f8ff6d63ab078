package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
)

// junit writes one test case for each row, in the form that all readers of Jenkins'
// JUnit schema accept. It keeps the finished cases, because their counts come before
// them. There are no times: a report describes decisions, not their duration.
type junit struct {
	w      io.Writer
	cases  bytes.Buffer
	counts [3]int // tests, failures and errors
}

func (j *junit) Item(i Item) error {
	j.row(rowOf(i))
	return nil
}

func (j *junit) row(r row) {
	j.counts[0]++
	j.cases.WriteString("    <testcase" + attribute("classname", screen.Plain(r.group)) + attribute("name", screen.Plain(r.name)))
	if r.verdict == passed && len(r.findings) == 0 && r.said == "" {
		j.cases.WriteString("/>\n")
		return
	}
	j.cases.WriteString(">\n")
	wrong, notes := split(r.findings)
	said := r.said
	switch r.verdict {
	case rejected:
		j.counts[1]++
		j.element("failure", r.outcome, "", wrong)
	case undecided:
		j.counts[2]++
		j.element("error", wrong[0].id, "", wrong)
	case known:
		j.element("skipped", r.outcome, said, wrong)
		said = ""
	case unsteady:
		j.element("flakyFailure", r.outcome, said, wrong)
		said = ""
	}
	j.stream("system-out", squeeze("\n", escaped(screen.Plain(said)), junitBody(notes)))
	for _, f := range wrong {
		j.stream("system-err", escaped(strings.Join(quoted(f.stderr), "\n")))
	}
	j.cases.WriteString("    </testcase>\n")
}

// element writes the faults of a row. The message is the given one, or the first of them.
func (j *junit) element(name, kind, message string, list []finding) {
	if message = screen.Plain(message); message == "" && len(list) > 0 {
		message = screen.Plain(squeeze(" ", list[0].id, list[0].pointer, list[0].text))
	}
	fmt.Fprintf(&j.cases, "      <%s%s%s>%s</%s>\n", name,
		attribute("type", kind), attribute("message", message), junitBody(list), name)
}

// stream writes the text beside the verdict of a case, as XML.
func (j *junit) stream(name, body string) {
	if body != "" {
		fmt.Fprintf(&j.cases, "      <%s>%s</%s>\n", name, body, name)
	}
}

func (j *junit) Close(s Summary) error {
	return j.close([][2]string{
		{"profile", s.Profile}, {"kernel_version", s.KernelVersion}, {"report_only", strconv.FormatBool(s.ReportOnly)},
	})
}

// close writes the document with its properties.
func (j *junit) close(properties [][2]string) error {
	var head strings.Builder
	head.WriteString("    <properties>\n")
	for _, p := range properties {
		head.WriteString("      <property" + attribute("name", p[0]) + attribute("value", screen.Plain(p[1])) + "/>\n")
	}
	head.WriteString("    </properties>\n")
	return writeSuite(j.w, "fiador", j.counts, head.String()+j.cases.String())
}

// junitBody returns a line for each finding.
func junitBody(list []finding) string {
	lines := make([]string, len(list))
	for k, f := range list {
		at := fmt.Sprintf("(line %d, column %d)", f.region.start.Line, f.region.start.Column)
		lines[k] = screen.Plain(squeeze("; ", squeeze(" ", f.id, f.pointer, f.text, at), f.advice()))
	}
	return escaped(strings.Join(lines, "\n"))
}

func attribute(name, value string) string { return " " + name + `="` + escaped(value) + `"` }

// escaped returns text as XML. The text consists of results of Plain and LF, so XML 1.0
// allows every character of it.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
