package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/reason"
)

// Execution is the end of the execution of an allowed intent.
type Execution struct {
	Accepted bool // the exit code is 0 and nothing forbidden was done
	ExitCode int
	// Reasons says why it was rejected, in the words of the RunResult: a code, then a
	// space and the pointer, path or number that the reason is about. A rejected
	// execution has at least one reason.
	Reasons     []string
	Outputs     int
	OutputBytes int
	// Stderr is the recorded standard error of the command whose result counts. People
	// see its end if the execution was rejected. A renderer does not keep it after Item
	// returns.
	Stderr []byte
}

// The part of a command's standard error that people see: number of lines, and UTF-16
// code units of each.
const (
	stderrLines = 10
	stderrUnits = 400
)

// String returns the end of the execution in one line, without text from outside.
func (e Execution) String() string {
	if !e.Accepted {
		return fmt.Sprintf("executed: rejected, exit code %d", e.ExitCode)
	}
	return fmt.Sprintf("executed: accepted, exit code %d, %s, %s", e.ExitCode, screen.Count(e.Outputs, "output"), screen.Count(e.OutputBytes, "byte"))
}

// findings returns the reasons of a rejected execution. The first has the last output of
// the command.
func (e Execution) findings() []finding {
	list := make([]finding, 0, len(e.Reasons))
	for _, text := range e.Reasons {
		id, subject, _ := strings.Cut(text, " ")
		means := reason.MeaningOf(id)
		f := finding{level: levelError, id: id, title: means.Title, why: means.Why, help: means.Fix, page: reference(id), subject: subject}
		// The paths of reasons are relative, so only a pointer begins with a slash.
		if strings.HasPrefix(subject, "/") {
			f.pointer, f.hasPointer, f.subject = subject, true, ""
		}
		f.text = squeeze(": ", f.title, f.subject)
		list = append(list, f)
	}
	if len(list) > 0 {
		list[0].stderr = lastLines(e.Stderr)
	}
	return list
}

// lastLines returns the last lines of a command's output that are not empty. A lone CR
// ends a line too, as on a terminal.
func lastLines(b []byte) []string {
	var list []string
	for len(b) > 0 && len(list) < stderrLines {
		k := bytes.LastIndexAny(b, "\r\n")
		line := b[k+1:]
		b = b[:max(k, 0)]
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		line = line[:min(len(line), 4*(stderrUnits+1))] // a character has at most four bytes
		list = append(list, cut(screen.Plain(string(line)), stderrUnits))
	}
	slices.Reverse(list)
	return list
}

// quoted puts a bar before each line of a command's output. So no such line looks like a
// line of the report, or like a command for a runner of workflows.
func quoted(lines []string) []string {
	list := make([]string, len(lines))
	for k, s := range lines {
		list[k] = "| " + s
	}
	return list
}
