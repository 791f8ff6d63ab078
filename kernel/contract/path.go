package contract

import (
	"strings"
	"unicode"
)

// CheckPath is IV-03: the path at the pointer at must be relative, and must stay
// beneath its base folder on every system. CheckPath returns the clean path, for which
// io/fs.ValidPath holds: no empty and no "." segments, and "." for the folder itself. A
// caller that needs a file refuses ".".
//
// CheckPath refuses the empty path, NUL, bytes that are not UTF-8, a backslash, a
// leading "/", and a first segment that begins with "~" or a drive letter. It also
// refuses ".." and every segment that could become ".." where a file system drops dots,
// spaces or invisible characters. Such a segment shows only dots and spaces, with at
// least two dots. A ".." is never resolved against the segment before it, which may be
// a symbolic link. Nothing is decoded: "%2e%2e" is a name.
//
// CheckPath examines the text alone. The code that opens the path handles links and
// existing files.
func CheckPath(at, path string) (string, *Violation) {
	refuse := func(msg, hint string) (string, *Violation) {
		return "", &Violation{ID: IV03, Pointer: at, Msg: msg, Hint: hint}
	}
	if path == "" {
		return refuse("path is empty", `name a file, or "." for the folder itself`)
	}
	if fault := unfit(path); fault != "" {
		return refuse("path "+fault, "give the path as text")
	}
	const relative = "give the path relative to the working directory"
	switch {
	case strings.Contains(path, `\`):
		return refuse("path "+quote(path)+" has a backslash", "separate folders with a forward slash")
	case path[0] == '/':
		return refuse("path "+quote(path)+" is absolute", relative)
	}
	var clean []string
	for segment := range strings.SplitSeq(path, "/") {
		if isTraversal(segment) {
			return refuse("path "+quote(path)+` has a ".." segment`, "name the file without going through a parent folder")
		}
		if segment != "" && segment != "." {
			clean = append(clean, segment)
		}
	}
	switch {
	case len(clean) == 0:
		return ".", nil
	case clean[0][0] == '~':
		return refuse("path "+quote(path)+" begins with a home folder", relative)
	case hasDrive(clean[0]):
		return refuse("path "+quote(path)+" begins with a drive letter", relative)
	}
	return strings.Join(clean, "/"), nil
}

func hasDrive(segment string) bool {
	return len(segment) > 1 && segment[1] == ':' && (segment[0]|0x20 >= 'a' && segment[0]|0x20 <= 'z')
}

// isTraversal says whether a segment shows only dots and spaces, with at least two dots.
// It skips every other character that shows nothing, which a file system may drop.
func isTraversal(segment string) bool {
	dots := 0
	for _, r := range segment {
		switch {
		case r == '.':
			dots++
		case r != ' ' && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return false
		}
	}
	return dots >= 2
}
