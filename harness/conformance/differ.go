package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// anything is the placeholder in an expected text for the rest of a line, or a part of
// one.
const anything = "{{any}}"

// Limits of the texts of a fault, in bytes.
const (
	maxBrief = 300
	maxLine  = 160
)

// matches says whether got consists of the parts in order, with any text without LF
// between them.
func matches(parts []string, got string) bool {
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for {
		if matches(parts[1:], rest) {
			return true
		}
		if rest == "" || rest[0] == '\n' {
			return false
		}
		rest = rest[1:]
	}
}

// difference is the fault of a text that differs from the wanted one: both texts if they
// are short, else the first line that differs.
func difference(what, want, got string) Fault {
	if len(want) <= maxLine && len(got) <= maxLine {
		return Fault{what + " differs", want, got}
	}
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && matches(strings.Split(a[i], anything), b[i]) {
			continue
		}
		f := Fault{What: fmt.Sprintf("%s differs at line %d", what, i+1), Want: "nothing more", Got: "nothing more"}
		if i < len(a) && a[i] != "" {
			f.Want = line(a[i])
		}
		if i < len(b) && b[i] != "" {
			f.Got = line(b[i])
		}
		return f
	}
	return Fault{what + " differs", brief(want), brief(got)}
}

func line(s string) string { return shorten(s, maxLine) }

func brief(s string) string { return shorten(s, maxBrief) }

// shorten keeps the beginning and the end of a long text.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most*2/3] + " ... " + s[len(s)-most/3:] + " (" + strconv.Itoa(len(s)) + " bytes)"
}
