package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
)

// junit writes one test case for each intent, in the form that all readers of Jenkins'
// JUnit schema accept. It keeps the finished cases, because their counts come before
// them. There are no times: a report describes decisions, not their duration.
type junit struct {
	w      io.Writer
	cases  bytes.Buffer
	counts Counts
}

func (j *junit) Item(i Item) error {
	j.counts.Add(i)
	list := findings(i)
	j.cases.WriteString("    <testcase" + attribute("classname", "fiador") + attribute("name", screen.Plain(i.Name())))
	accepted := i.Outcome() == string(kernel.OutcomeBundle)
	if accepted && len(list) == 0 && i.Execution == nil {
		j.cases.WriteString("/>\n")
		return nil
	}
	j.cases.WriteString(">\n")
	wrong, notes := split(list)
	switch {
	case i.Outcome() == OutcomeError:
		j.element("error", wrong[0].id, wrong)
	case !accepted:
		j.element("failure", i.Outcome(), wrong)
	}
	out := junitBody(notes)
	if i.Execution != nil {
		out = squeeze("\n", i.Execution.String(), out)
	}
	j.stream("system-out", out)
	for _, f := range wrong {
		j.stream("system-err", escaped(strings.Join(quoted(f.stderr), "\n")))
	}
	j.cases.WriteString("    </testcase>\n")
	return nil
}

// element writes the faults of an intent, the first of them as the message.
func (j *junit) element(name, kind string, list []finding) {
	message := ""
	if len(list) > 0 {
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
	var head strings.Builder
	head.WriteString("    <properties>\n")
	for _, p := range [][2]string{
		{"profile", s.Profile}, {"kernel_version", s.KernelVersion}, {"report_only", strconv.FormatBool(s.ReportOnly)},
	} {
		head.WriteString("      <property" + attribute("name", p[0]) + attribute("value", screen.Plain(p[1])) + "/>\n")
	}
	head.WriteString("    </properties>\n")
	counts := [3]int{j.counts.Total(), j.counts.Rejected(), j.counts.Errors}
	return writeSuite(j.w, "fiador", counts, head.String()+j.cases.String())
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
