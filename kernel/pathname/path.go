// Package pathname finds the faults of a path as text, and never looks at a file system.
// It owns the clean form of a path, its folding, and the lists of control paths.
package pathname

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/text"
)

// The path detector examines a path as text and never looks at a file system. It
// reports each finding at most once, in this order:
//
//	path_absolute   a leading "/" or "\", a leading "~", or a drive letter "C:"
//	path_traversal  a ".." segment between slashes of either kind
//	path_backslash  a backslash
//	path_character  a control, invisible, format or bidirectional character, a
//	                line or paragraph separator, a noncharacter, invalid UTF-8
//	path_form       no file name is left, a trailing slash, not NFC, more than
//	                1024 bytes or 255 in a segment, white space (White_Space of
//	                Unicode) at an end of the path, a segment with ":" or ending
//	                in a space or dot, a device name of Windows
//	path_reserved   the first segment, case-folded, is one that a bundle reserves
//	path_control    the path is, or is beneath, a control path
//	agent_instructions  a write to a file that coding agents read as instructions,
//	                or beneath such a folder
//
// A control path is a file or folder that switches checks, hooks or pipelines on or
// off. It is also a file that a tool runs without a request: when a folder is opened or
// entered, when a change is pushed, or when the tool is started for another purpose.
// The detector finds a control path at any depth, case-folded, with both kinds of
// slash, and under its short name on NTFS ("git~1"). It ignores what file systems
// ignore: invisible characters, trailing dots and spaces, a stream suffix.

const (
	maxPathBytes    = 1024
	maxSegmentBytes = 255
)

// Fault is a finding about a path: its code, and the text that the detector found.
type Fault struct{ Code, Value string }

// reservedRoots are the top folders that a bundle fills itself (specs/bundle.md).
var reservedRoots = []string{"calls", "commands", "context"}

// deviceNames are names that open a device on Windows, with any extension. Another
// check finds COM and LPT with a digit.
const deviceNames text.Words = "con prn aux nul conin$ conout$ clock$"

// Clean returns the lexical clean form of a path. It drops empty and "." segments, and
// keeps a leading slash and ".." segments. Only "/" separates. The path of the folder
// itself ("", ".", "./") becomes "". Clean is idempotent.
func Clean(p string) string {
	if isCleanPath(p) {
		return p
	}
	var b strings.Builder
	b.Grow(len(p))
	if strings.HasPrefix(p, "/") {
		b.WriteByte('/')
	}
	first := true
	for seg := range strings.SplitSeq(p, "/") {
		if seg == "" || seg == "." {
			continue
		}
		if !first {
			b.WriteByte('/')
		}
		b.WriteString(seg)
		first = false
	}
	return b.String()
}

// isCleanPath says whether Clean changes nothing.
func isCleanPath(p string) bool {
	rest := strings.TrimPrefix(p, "/")
	if rest == "" {
		return true
	}
	for seg := range strings.SplitSeq(rest, "/") {
		if seg == "" || seg == "." {
			return false
		}
	}
	return true
}

// Faults returns the faults of a path, in the order of the list above.
func Faults(p string) []Fault {
	var list []Fault
	add := func(code, value string, ok bool) {
		if ok {
			list = append(list, Fault{code, value})
		}
	}
	var room, foldedRoom [16]string // most paths need no allocation for their segments
	segments := room[:0]
	for seg := range strings.FieldsFuncSeq(p, isSlash) {
		segments = append(segments, seg)
	}
	printable := text.IsPrintable(p)
	add(finding.PathAbsolute, p, isAbsolute(p))
	add(finding.PathTraversal, p, hasTraversal(segments))
	add(finding.PathBackslash, p, strings.Contains(p, `\`))
	add(finding.PathCharacter, p, !printable && (strings.ContainsFunc(p, text.IsHostile) || !utf8.ValidString(p)))
	add(finding.PathForm, p, !wellFormed(p, segments) || !printable && !norm.NFC.IsNormalString(p))
	root, reserved := reservedRoot(segments)
	add(finding.PathReserved, root, reserved)
	folded := appendFolded(foldedRoom[:0], segments)
	control, instructions := find(folded)
	add(finding.PathControl, control, control != "")
	add(finding.AgentPath, instructions, instructions != "")
	return list
}

// View is the kernel's view of the path of a file that an execution left or removed.
type View struct {
	Fault   string // code of the first finding about the form, or empty
	Control string // the control path that the path is or lies beneath, or empty
	Leads   bool   // the path's last segment is the first of a control path of two segments
	Folded  string // equal for two paths that differ in case alone
}

// Inspect examines, as text, a path that was found after an execution. The roots that a
// bundle reserves are no fault here, for the files of a command are no part of a
// bundle. Folded has as many segments as the path.
func Inspect(path string) View {
	segments := strings.FieldsFunc(path, isSlash)
	out := View{Folded: Fold(path)}
	for _, f := range Faults(path) {
		switch f.Code {
		case finding.PathReserved, finding.AgentPath:
		case finding.PathControl:
			out.Control = f.Value
		default:
			out.Fault = cmp.Or(out.Fault, f.Code)
		}
	}
	if len(segments) > 0 {
		out.Leads = leads(FoldSegment(segments[len(segments)-1]))
	}
	return out
}

// Fold returns equal texts for two paths that differ in case alone. The result has as
// many segments as the path.
func Fold(path string) string { return strings.Map(leastFold, foldName(path)) }

// leastFold returns the least of the characters that differ from r in case alone.
func leastFold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToUpper(r)
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

func isAbsolute(p string) bool {
	return p != "" && (isSlash(rune(p[0])) || p[0] == '~' || HasDrive(p))
}

// HasDrive says whether a path begins with a drive letter of Windows and a colon.
func HasDrive(path string) bool {
	return len(path) > 1 && path[1] == ':' && path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z'
}

// hasTraversal also finds a ".." that invisible characters, a trailing space or a third
// dot hide: some file systems drop these, and ".." remains.
func hasTraversal(segments []string) bool {
	return slices.ContainsFunc(segments, func(seg string) bool {
		if !strings.Contains(seg, ".") {
			return false
		}
		bare := strings.TrimRight(text.DropInvisible(seg), " ")
		return len(bare) >= 2 && strings.Trim(bare, ".") == ""
	})
}

// wellFormed says whether a path has none of the faults of path_form, but for NFC.
// segments are the parts of the path between slashes of either kind.
func wellFormed(p string, segments []string) bool {
	if len(p) > maxPathBytes || strings.HasSuffix(p, "/") || strings.HasSuffix(p, `\`) {
		return false
	}
	if first, _ := utf8.DecodeRuneInString(p); unicode.IsSpace(first) {
		return false
	}
	if last, _ := utf8.DecodeLastRuneInString(p); unicode.IsSpace(last) {
		return false
	}
	named := false
	for _, seg := range segments {
		if seg == "." || seg == ".." {
			continue
		}
		named = true
		if len(seg) > maxSegmentBytes || strings.ContainsRune(seg, ':') ||
			strings.HasSuffix(seg, " ") || strings.HasSuffix(seg, ".") || isDevice(seg) {
			return false
		}
	}
	last := len(segments) - 1
	return named && segments[last] != "." && segments[last] != ".."
}

// isDevice says whether a segment is the name of a Windows device, with any extension: CON,
// NUL, COM1, LPT¹.
func isDevice(seg string) bool {
	name, _, _ := strings.Cut(seg, ".")
	name = strings.TrimRight(foldName(name), " ")
	if deviceNames.Has(name) {
		return true
	}
	digit, ok := strings.CutPrefix(name, "com")
	if !ok {
		digit, ok = strings.CutPrefix(name, "lpt")
	}
	if !ok {
		return false
	}
	switch digit {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return true
	}
	return false
}

// reservedRoot returns the first segment other than ".", folded, and whether a bundle
// reserves it.
func reservedRoot(segments []string) (string, bool) {
	i := slices.IndexFunc(segments, func(seg string) bool { return seg != "." })
	if i < 0 {
		return "", false
	}
	root := FoldSegment(segments[i])
	return root, slices.Contains(reservedRoots, root)
}

// appendFolded appends the folded segments that are not empty.
func appendFolded(folded, segments []string) []string {
	for _, seg := range segments {
		if seg = FoldSegment(seg); seg != "" {
			folded = append(folded, seg)
		}
	}
	return folded
}

// FoldSegment returns a segment as a lenient file system reads it: without invisible
// characters, stream suffix, trailing dots and spaces, and in one case.
func FoldSegment(seg string) string {
	seg = text.DropInvisible(seg)
	if name, _, ok := strings.Cut(seg, ":"); ok {
		seg = name
	}
	return foldName(strings.TrimRight(seg, ". "))
}

// foldName returns s in lower case. A character that equals ASCII letters but for case
// becomes these letters: U+017F is s, U+212A is k, U+FB01 is fi.
func foldName(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || r >= 'A' && r <= 'Z' }) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if folded := foldToASCII(r); folded != "" {
			b.WriteString(folded)
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// foldToASCII returns the full case folding of a character outside ASCII whose folding is
// ASCII letters. For all others it returns "".
func foldToASCII(r rune) string {
	switch r {
	case 0x130, 0x131:
		return "i"
	case 0x212a:
		return "k"
	case 0x17f:
		return "s"
	case 0xdf, 0x1e9e:
		return "ss"
	case 0xfb00:
		return "ff"
	case 0xfb01:
		return "fi"
	case 0xfb02:
		return "fl"
	case 0xfb03:
		return "ffi"
	case 0xfb04:
		return "ffl"
	case 0xfb05, 0xfb06:
		return "st"
	}
	return ""
}

// CutLast cuts a path at its last slash. Without a slash, ok is false and name is the
// path.
func CutLast(path string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
