// Package intake finds the files of intents that a user names: by name, by pattern, or by the
// folder above them. What may hold an intent and cannot be read is found too, with its error.
package intake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
)

// File is one file of intents to check, or an error at the place of such a file.
type File struct {
	Name string // the path to open; "-" for standard input
	Err  error  // why the file cannot be opened
}

// Lines reports whether the file has one intent per line (JSON Lines).
func (t File) Lines() bool {
	ext := strings.ToLower(filepath.Ext(t.Name))
	return t.Name == "-" || ext == ".jsonl" || ext == ".ndjson"
}

// wild are the characters by which an argument is a pattern.
const wild = "*?["

// Find finds the files that the arguments name, each file once. The order is that of
// the arguments, and by path below a folder. An argument that names no file is an error: a
// check of nothing does not pass.
func Find(args []string) ([]File, error) {
	list, _, err := FindSince(args, func(string) []string { return nil })
	return list, err
}

// FindSince finds files as Find does. before returns the files that an argument named at an
// earlier time. An argument that names no file now is no error if it named one then. gone are
// the files that it named then and that are not there now.
func FindSince(args []string, before func(arg string) []string) (list []File, gone []string, err error) {
	seen, missing := map[string]bool{}, map[string]bool{}
	for _, arg := range args {
		found, err := find(arg)
		if err != nil {
			return nil, nil, err
		}
		then := before(arg)
		if _, err := os.Lstat(arg); len(then) > 0 && errors.Is(err, fs.ErrNotExist) && len(found) == 1 && found[0].Name == arg {
			found = nil
		}
		for _, name := range then {
			if dir := linkAbove(name); dir != "" {
				found = append(found, linked(dir))
			} else if _, err := os.Lstat(name); err != nil && !missing[name] {
				gone, missing[name] = append(gone, name), true
			}
		}
		if len(found)+len(then) == 0 {
			return nil, nil, runerr.New(result.CodeUnreadable, screen.Folder(arg)+": no intent found",
				"an intent is a .json file, or a line of a .jsonl file", runerr.File(screen.Folder(arg)))
		}
		for _, t := range found {
			if key := t.key(); !seen[key] {
				seen[key] = true
				list = append(list, t)
			}
		}
	}
	return list, gone, nil
}

// Names reports whether an argument names a file, by their names alone: it is the file, a folder
// above it, or a pattern for one of the two. Both begin at one folder.
func Names(arg, name string) bool {
	arg, name = path.Clean(filepath.ToSlash(arg)), filepath.ToSlash(name)
	if below, err := filepath.Rel(arg, name); arg == name || err == nil && filepath.IsLocal(below) && isIntents(name) {
		return true
	}
	if !strings.ContainsAny(arg, wild) {
		return false
	}
	pattern, fixed := segmentsOf(arg)
	parts := strings.Split(name, "/")
	if above(pattern) != above(parts) {
		return false // no wildcard stands for ".."
	}
	for n := fixed + 1; n < len(parts); n++ {
		if matches(pattern, parts[:n]) { // a folder
			return isIntents(name)
		}
	}
	return matches(pattern, parts)
}

// above returns how many segments lead up.
func above(segments []string) (n int) {
	for n < len(segments) && segments[n] == ".." {
		n++
	}
	return n
}

// linkAbove returns the nearest link that has taken the place of a folder above a file, or empty.
func linkAbove(name string) string {
	for dir := filepath.Dir(name); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}

// segmentsOf returns the segments of a pattern, in the syntax of path.Match. The first of them,
// fixed in number, name the folder in which its matches are.
func segmentsOf(pattern string) (segments []string, fixed int) {
	segments = strings.Split(strings.ReplaceAll(pattern, "[!", "[^"), "/")
	for fixed < len(segments)-1 && !strings.ContainsAny(segments[fixed], `*?[\`) {
		fixed++
	}
	return segments, fixed
}

// Folder returns the folder in which all matches of a pattern are. It returns a name that is no
// pattern as it is.
func Folder(arg string) string {
	if !strings.ContainsAny(arg, wild) {
		return arg
	}
	segments, fixed := segmentsOf(filepath.ToSlash(arg))
	if root := strings.Join(segments[:fixed], "/"); root != "" || fixed == 0 {
		return cmp.Or(root, ".")
	}
	return "/"
}

// PatternError says that a pattern cannot be read.
type PatternError struct{ pattern string }

func (e *PatternError) Error() string { return fmt.Sprintf("pattern %q cannot be read", e.pattern) }

// key returns the same text for two spellings of a file only where they certainly name one
// file. In a/../b the result depends on a, which may be a link.
func (t File) key() string {
	slashed := filepath.ToSlash(t.Name)
	if t.Name == "-" || slices.Contains(strings.Split(slashed, "/"), "..") {
		return "as given: " + t.Name
	}
	return path.Clean(slashed)
}

// find returns the files that an argument names. If a file has a pattern as its name, find
// returns the file and the matches of the pattern: the gated tree may contain such a file
// on purpose.
func find(arg string) ([]File, error) {
	info, err := os.Stat(arg)
	pattern := strings.ContainsAny(arg, wild)
	switch {
	case arg == "-":
		return []File{{Name: arg}}, nil
	case pattern:
		found, globErr := glob(filepath.ToSlash(arg))
		if err != nil || globErr != nil {
			return found, globErr
		}
		own, err := named(arg, info)
		return append(own, found...), err
	case err != nil:
		return []File{{Name: arg}}, nil
	}
	return named(arg, info)
}

// named returns the files of one name that is not a pattern.
func named(name string, info fs.FileInfo) ([]File, error) {
	if info.IsDir() {
		return Walk(name)
	}
	return []File{{Name: atHome(name)}}, nil
}

// linked returns the target for a link at a place where intents may be.
func linked(name string) File {
	return File{name, runerr.Unreadable(screen.Path(name), "a link, which is not followed below a folder", "name the file itself")}
}

// Walk finds every file of intents below a folder. It keeps links and unreadable entries
// as errors, because the intents behind them would not be checked.
func Walk(dir string) ([]File, error) {
	var found []File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			found = append(found, File{name, runerr.Unreadable(screen.Path(name), runerr.Reason(err), "")})
			return skipFolder(d)
		case d.Type()&fs.ModeSymlink != 0:
			if info, err := os.Stat(name); isIntents(name) || err != nil || info.IsDir() {
				found = append(found, linked(name))
			}
		case d.IsDir() || !isIntents(name):
		case !d.Type().IsRegular():
			found = append(found, File{name, runerr.Unreadable(screen.Path(name), "not a regular file", "")})
		default:
			found = append(found, File{Name: name})
		}
		return nil
	})
	return found, err
}

func isIntents(name string) bool {
	return slices.Contains([]string{".json", ".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(name)))
}

// glob finds the matches of a pattern that the shell has not expanded: * ? [a] [!a] as in
// a shell, and ** for any folders. A folder that matches stands for the files below it. A
// matching name is never read as a pattern again. Links to folders in which a file could
// match, and folders that cannot be read, are kept as errors.
func glob(pattern string) ([]File, error) {
	segments, fixed := segmentsOf(pattern)
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return nil, &PatternError{pattern}
		}
	}
	root, rest := Folder(pattern), segments[fixed:]
	var found []File
	err := filepath.WalkDir(filepath.FromSlash(root), func(name string, d fs.DirEntry, err error) error {
		if name == filepath.FromSlash(root) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, relErr := filepath.Rel(filepath.FromSlash(root), name)
		if relErr != nil {
			return relErr
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		below, whole := leads(rest, parts), matches(rest, parts)
		switch {
		case err != nil && (below || whole):
			found = append(found, File{name, runerr.Unreadable(screen.Path(name), runerr.Reason(err), "")})
			return skipFolder(d)
		case err != nil:
			return skipFolder(d)
		case d.Type()&fs.ModeSymlink != 0:
			info, err := os.Stat(name)
			if whole || err == nil && info.IsDir() && below {
				if err == nil && !info.IsDir() {
					found = append(found, File{Name: atHome(name)})
				} else {
					found = append(found, linked(name))
				}
			}
		case whole && d.IsDir():
			inside, err := Walk(name)
			if found = append(found, inside...); err != nil {
				return err
			}
			return fs.SkipDir
		case whole:
			found = append(found, File{Name: atHome(name)})
		case d.IsDir() && !below:
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(filepath.FromSlash(root)), runerr.Reason(err), "")
	}
	return found, nil
}

// atHome returns a name that cannot be mistaken for standard input.
func atHome(name string) string {
	if name == "-" {
		return "./-"
	}
	return name
}

func skipFolder(d fs.DirEntry) error {
	if d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// leads reports whether a path below name could match the pattern.
func leads(pattern, name []string) bool {
	if len(name) == 0 {
		return len(pattern) > 0
	}
	if len(pattern) == 0 {
		return false
	}
	if pattern[0] == "**" {
		return true
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && leads(pattern[1:], name[1:])
}

// matches reports whether the segments of a path match those of a pattern.
func matches(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := range len(name) + 1 {
			if matches(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && matches(pattern[1:], name[1:])
}
