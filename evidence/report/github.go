package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/result"
)

// The limits of GitHub. The runner truncates a message, a check run refuses a longer
// title, and a step shows only the first annotations of each kind.
const (
	githubMessage = 4096 // UTF-16 code units
	githubTitle   = 255
	githubShown   = 10
)

// github writes workflow commands, a line for each finding:
//
//	::error file=F,line=L,col=C,endLine=L,endColumn=C,title=T::MESSAGE
//
// The runner reads a command to the end of its line, unescapes %0D, %0A and %25
// in the message, also %3A and %2C in a property, and takes columns only if both
// are on one line. endColumn is the column behind the end.
type github struct {
	w     io.Writer
	shown map[string]int // findings, by level
}

func (g *github) Item(i Item) error { return g.row(rowOf(i)) }

func (g *github) row(r row) error {
	var b strings.Builder
	for _, f := range r.findings {
		command := f.level
		if f.level == levelNote {
			command = "notice"
		}
		g.shown[f.level]++
		b.WriteString("::" + command + " " + githubProperties(r, f) + "::" + githubData(githubText(r, f)) + "\n")
	}
	_, err := io.WriteString(g.w, b.String())
	return err
}

func (g *github) Close(s Summary) error {
	return g.close(s.Counts.line(), s.remark())
}

// close writes the end in one line. The remark of a run that cannot fail is a warning too.
func (g *github) close(line, remark string) error {
	var b strings.Builder
	if remark != "" {
		remark = "REPORT ONLY: " + remark
		b.WriteString("::warning title=fiador%3A report only::" + remark + "\n")
		g.shown[levelWarning]++
	}
	b.WriteString(squeeze("; ", "fiador: "+line, remark))
	if max(g.shown[levelError], g.shown[levelWarning], g.shown[levelNote]) > githubShown {
		fmt.Fprintf(&b, "; a step shows %d annotations of a kind, all of them stand in this log", githubShown)
	}
	b.WriteString("\n")
	_, err := io.WriteString(g.w, b.String())
	return err
}

// githubProperties returns the place of a finding. Standard input is no file, so it has
// no place.
func githubProperties(r row, f finding) string {
	var list []string
	if r.path != "-" {
		list = append(list, "file="+githubProperty(screen.Plain(r.path)))
		list = append(list, githubPlace(f.region)...)
	}
	title := cut(screen.Plain(squeeze(": ", f.id, f.title)), githubTitle)
	return strings.Join(append(list, "title="+githubProperty(title)), ",")
}

func githubPlace(r region) []string {
	line, endLine := "line="+strconv.Itoa(r.start.Line), "endLine="+strconv.Itoa(r.end.Line)
	if r.start.Line != r.end.Line {
		return []string{line, endLine}
	}
	return []string{line, "col=" + strconv.Itoa(r.start.Column), endLine, "endColumn=" + strconv.Itoa(r.end.Column)}
}

// githubText returns the message of a finding: its place and text. On separate lines
// follow the advice and the last output of the command, within the limit. A long text
// leaves space for the advice.
func githubText(r row, f finding) string {
	advice := cut(screen.Plain(f.advice()), githubMessage/4)
	name := ""
	if r.path == "-" || r.line > 0 {
		name = r.name
	}
	text := cut(screen.Plain(cmp.Or(squeeze(": ", name, f.pointer, f.text), f.id)), githubMessage*3/4-1)
	message := squeeze("\n", text, advice)
	printed := f.stderr
	for len(printed) > 0 && units(message)+units(strings.Join(printed, "\n"))+1 > githubMessage {
		printed = printed[1:]
	}
	return squeeze("\n", message, strings.Join(printed, "\n"))
}

// GitHubError returns the workflow command for an error that belongs to no intent, such
// as the error of an unusable policy.
func GitHubError(e *result.RunError) string {
	var list []string
	if file, _ := e.Details["file"].(string); file != "" && file != "-" {
		list = append(list, "file="+githubProperty(screen.Plain(file)))
		if line, _ := e.Details["line"].(int); line > 0 {
			list = append(list, "line="+strconv.Itoa(line))
		}
	}
	title := cut(screen.Plain(squeeze(": ", string(e.Code), result.RecordOf(string(e.Code)).Title)), githubTitle)
	list = append(list, "title="+githubProperty(title))
	advice := cut(screen.Plain(finding{fix: e.Remedy()}.advice()), githubMessage/4)
	text := squeeze("\n", cut(screen.Plain(e.Message), githubMessage*3/4-1), advice)
	return "::error " + strings.Join(list, ",") + "::" + githubData(text) + "\n"
}

func githubData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func githubProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
