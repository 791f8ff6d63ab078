package rehearsal

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Trace returns the lines of a trace that "strace -f -o FILE" wrote, a whole call each. strace
// writes a call in two lines if another thread's line comes between, and only its first line
// if the program was killed in the call. Such a call ends in "= ?", as strace writes it
// elsewhere.
func Trace(t testing.TB, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begun := regexp.MustCompile(`^(\d+) (.*) <unfinished \.\.\.>$`)
	resumed := regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
	var lines []string
	open := map[string]int{} // the line of each thread's call that has not ended
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := begun.FindStringSubmatch(line); m != nil {
			open[m[1]] = len(lines)
			lines = append(lines, m[1]+" "+m[2])
			continue
		}
		if m := resumed.FindStringSubmatch(line); m != nil {
			if i, known := open[m[1]]; known {
				lines[i] += m[2]
				delete(open, m[1])
				continue
			}
		}
		lines = append(lines, line)
	}
	for _, i := range open {
		lines[i] += ") = ?"
	}
	return lines
}
