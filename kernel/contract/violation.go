package contract

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// The ids of the input checks (code execution contract, "Required Checks").
const (
	IV01 = "IV-01" // command allowlist
	IV02 = "IV-02" // argument sanitization
	IV03 = "IV-03" // path traversal
	IV04 = "IV-04" // environment filtering
	IV05 = "IV-05" // input size
)

// Violation is an input that a check refuses. ID and Pointer are stable; the words are
// not. Msg and Hint never hold the value of an argument or of a variable, which may be
// a secret. They quote any other text in ASCII.
type Violation struct {
	ID      string // IV-01 to IV-05
	Pointer string // JSON Pointer of the refused value
	Msg     string // what is wrong
	Hint    string // what to do
}

// AllowList is a list of allowed names, or allows everything. The zero value allows
// nothing. If All is set, Names still holds the names that the list states explicitly.
// kernel.AllowList converts to it.
type AllowList struct {
	All   bool
	Names []string
}

// names says whether the list states name explicitly, by exact comparison.
func (a AllowList) names(name string) bool { return slices.Contains(a.Names, name) }

// unfit says why s cannot be in an argument list, an environment or a file system, or
// "".
func unfit(s string) string {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "has a NUL byte, where the system would cut it"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// unpassable says why s cannot be passed to a process as an argument or as a variable
// NAME=VALUE, and what to do. The fault is "" if it can.
func unpassable(s string) (fault, hint string) {
	if len(s) > MaxStringBytes {
		return "has more than " + strconv.Itoa(MaxStringBytes) + " bytes, and no command can be started with it", "put it into a file, or on standard input"
	}
	return unfit(s), "give it as text"
}

// quote returns s, shortened, in quotes and printable ASCII.
func quote(s string) string { return strconv.QuoteToASCII(canon.Cut(s)) }
