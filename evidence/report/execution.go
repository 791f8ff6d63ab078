package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/reason"
)

// Execution is how the execution of an allowed intent ended.
type Execution struct {
	Accepted bool // the exit code is 0 and nothing forbidden was done
	ExitCode int
	// Reasons is why it was rejected, in the words of the RunResult: a code, and
	// behind a space the pointer, the path or the number that it is about. There is
	// at least one unless it was accepted.
	Reasons     []string
	Outputs     int
	OutputBytes int
	// Stderr is what was kept of the standard error of the command that counts.
	// People see the end of it if the execution was rejected. A renderer does not
	// keep it after Item returns.
	Stderr []byte
}

// How much of a command's standard error people see: lines, and UTF-16 code units
// of each.
const (
	stderrLines = 10
	stderrUnits = 400
)

// String returns the end of the execution in one line, without text from outside.
func (e Execution) String() string {
	if !e.Accepted {
		return fmt.Sprintf("executed: rejected, exit code %d", e.ExitCode)
	}
	return fmt.Sprintf("executed: accepted, exit code %d, %s, %s", e.ExitCode, count(e.Outputs, "output"), count(e.OutputBytes, "byte"))
}

// findings are the reasons of a rejected execution. The first has what the command
// said last.
func (e Execution) findings() []finding {
	list := make([]finding, 0, len(e.Reasons))
	for _, text := range e.Reasons {
		id, subject, _ := strings.Cut(text, " ")
		f := finding{level: levelError, id: id, title: reason.Title(id), subject: subject}
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

// lastLines are the last lines of what a command printed, but for empty ones. A
// terminal would end a line at a lone CR as well.
func lastLines(b []byte) []string {
	var list []string
	for len(b) > 0 && len(list) < stderrLines {
		k := bytes.LastIndexAny(b, "\r\n")
		line := b[k+1:]
		b = b[:max(k, 0)]
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		line = line[:min(len(line), 4*(stderrUnits+1))] // of a character at most four bytes
		list = append(list, cut(Plain(string(line)), stderrUnits))
	}
	slices.Reverse(list)
	return list
}

// quoted puts a bar before each line that a command printed, so that none of them
// passes for a line of the report or for a command to a runner of workflows.
func quoted(lines []string) []string {
	list := make([]string, len(lines))
	for k, s := range lines {
		list[k] = "| " + s
	}
	return list
}
