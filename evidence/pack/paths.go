package pack

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// maxPath is the maximum length of a path in evidence and patch, in characters.
const maxPath = 1024

// PatchPath says whether an operation of a patch can have a path: PS3, PS4 and the
// shapes of evidence and patch allow it, and canonical JSON can hold it. PatchPath does
// not check the path's place, or who may write there.
func PatchPath(path string) bool {
	if path == "" || utf8.RuneCountInString(path) > maxPath || IsAbsolute(path) || PatchPathFault(path) != "" || PathFault(path) != "" {
		return false
	}
	_, err := canon.Canonical(path)
	return err == nil && utf8.ValidString(path)
}

// PathFault says why a path is no readable name of a file, or returns "".
func PathFault(path string) string {
	switch {
	case path == "":
		return "is empty"
	case strings.HasPrefix(path, "/"):
		return "is absolute"
	case pathname.Clean(path) != path:
		return "is not clean"
	case HasParent(path):
		return `has a ".." segment`
	}
	return ""
}

// PatchPathFault says why a path that is not empty breaks PS4, or returns "".
func PatchPathFault(path string) string {
	switch {
	case strings.Contains(path, `\`):
		return "has a backslash"
	case HasControl(path):
		return "has a control character"
	case HasParent(path):
		return `has a ".." segment`
	case strings.HasPrefix(path, "./"):
		return `begins with "./"`
	case strings.Contains(path, "//"):
		return `has "//"`
	case strings.HasSuffix(path, "/"):
		return "ends in a slash"
	}
	first, _ := utf8.DecodeRuneInString(path)
	last, _ := utf8.DecodeLastRuneInString(path)
	if isBlank(first) || isBlank(last) {
		return "begins or ends with white space"
	}
	return ""
}

func isBlank(c rune) bool { return c == 0xfeff || unicode.IsSpace(c) }

// IsAbsolute says whether a path begins with a slash, or with a letter and a colon.
func IsAbsolute(path string) bool {
	return strings.HasPrefix(path, "/") || pathname.HasDrive(path)
}

// HasParent says whether a segment of a path is "..".
func HasParent(path string) bool {
	return strings.Contains(path, "..") && slices.Contains(strings.Split(path, "/"), "..")
}

// HasControl says whether a text has one of U+0000 to U+001F or U+007F to U+009F.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, unicode.IsControl)
}
