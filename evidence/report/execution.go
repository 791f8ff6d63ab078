package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
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

// executedTitles are the titles of the reasons why an execution is rejected
// (TestExecutedTitles).
var executedTitles = map[string]string{
	"EXIT":               "The command ended with an exit code other than 0",
	"NOT_EXECUTABLE":     "The command cannot be executed",
	"NOT_FOUND":          "There is no such command",
	"OOM":                "The command ran out of memory",
	"OUTPUT_KIND":        "An output is not a regular file",
	"OUTPUT_LIMIT":       "More files or bytes were written than the policy allows",
	"OUTPUT_MISSING":     "A declared output is missing",
	"OUTPUT_NAME":        "An output has a name that not every system can hold",
	"SIGNAL":             "A signal ended the command",
	"STREAM_LIMIT":       "The command printed more than is kept",
	"TIMEOUT":            "The command took longer than it may",
	"WRITE_OUTSIDE_ROOT": "Something was written or removed where that is not allowed",
}

// String is how it ended in one line of our own words and numbers.
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
	for _, reason := range e.Reasons {
		id, subject, _ := strings.Cut(reason, " ")
		f := finding{level: levelError, id: id, title: executedTitles[id], subject: subject}
		// The paths of reasons are relative, so that only a pointer begins so.
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
