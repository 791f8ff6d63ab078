package cli

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/links"
	"github.com/fiador/fiador/kernel/canon"
)

// Role is the use that a command makes of a place. Roles are joined with |. A new flag for
// a file is one line with its roles, and rules lists the roles that exclude each other.
type Role uint

const (
	Written   Role = 1 << iota // a file or folder that is written
	Reached                    // a folder whose path is checked like that of a written place
	Kept                       // an answer that may not lie in the pack
	Answer                     // a file for an answer, apart from every other file
	Alone                      // a file for an answer beside standard output
	Input                      // the intent
	Fresh                      // a file that must not exist
	Reported                   // a report, whose what is FORMAT=FILE
	Needed                     // a file that no report may replace
	Asked                      // a file or folder that no recording may replace
	ModelFile                  // the list of adapters, or the recording
	Recorded                   // the new recording
	Packs                      // the pack
	Ledgers                    // the folder of the ledger
	Secret                     // the key of the ledger
	Guarded                    // a folder in which somebody may have planted a link
	Exposed                    // a place that an execution can read
	Worked                     // a place that an execution can read while it runs
	Changed                    // a folder that an execution changes
	Registry                   // the folder of the tools

	Answers = Written | Kept | Answer
)

// spot is a file or a folder that a command line names.
type spot struct {
	is   Role
	flag string // the flag that names the place
	what string // the name of the place in messages
	path string
}

// Places are all places that one command line names.
type Places []spot

// Add adds the paths of a flag. It skips an empty path.
func (p *Places) Add(is Role, flag, what string, paths ...string) {
	for _, path := range paths {
		if path != "" {
			*p = append(*p, spot{is, flag, what, path})
		}
	}
}

// rules lists the checks in their order. A rule with two roles holds for each two places
// with these roles. A rule without a second role holds for each place with the first.
var rules = []struct {
	of, against Role
	refuse      func(a *App, x, y spot) error
}{
	{ModelFile, Answer, ownFile},
	{Recorded, Asked, ownFile},
	{ModelFile, Changed, unchanging},
	{Recorded, Packs, func(_ *App, x, y spot) error {
		if LiesIn(y.path, x.path) {
			return Unfit("name a file elsewhere: the pack has the recording anyway", "recording %q lies in the pack", screen.Path(x.path))
		}
		return nil
	}},
	{Alone, 0, (*App).beside},
	{Alone, Input, (*App).notIntent},
	{Written, Ledgers, func(_ *App, x, y spot) error { return ApartFromLedger(x.path, y.path) }},
	{Written, Secret, notKey},
	{Secret, Exposed, apart},
	{Registry, Guarded | Changed, outside},
	{Ledgers, Changed, apart},
	{Written | Reached, 0, (*App).notPlanted},
	{Packs, 0, func(_ *App, x, _ spot) error {
		if x.path == "-" {
			return Unfit("name a folder", "a pack cannot be written to standard output")
		}
		return nil
	}},
	{Packs, Kept, notInTheWay},
	// Commands could see files beside the pack while they run, and a promotion could write
	// there.
	{Packs, Worked, apart},
	{Fresh, Alone, func(_ *App, x, y spot) error {
		if sameFile(x.path, y.path) {
			return Unfit("give each a file of its own", "%s and %s are one file: %q", y.what, x.what, screen.Path(x.path))
		}
		return nil
	}},
	{Fresh, 0, func(_ *App, x, _ spot) error { return Absent(x.path) }},
	{Reported, Needed, ownReport},
}

// CheckPlaces applies rules to the places. It also notes the guarded folders, in which somebody
// may have planted a link. Later writes follow no link beneath them.
func (a *App) CheckPlaces(p Places) error {
	a.Guarded = nil
	for _, x := range p {
		if x.is&Guarded != 0 {
			if real, err := RealPath(x.path); err == nil {
				a.Guarded = append(a.Guarded, real)
			}
		}
	}
	for _, r := range rules {
		for i, x := range p {
			if x.is&r.of == 0 {
				continue
			}
			others := p
			if r.against == 0 {
				others = Places{{}} // the rule is asked once for each place
			}
			for k, y := range others {
				if r.against != 0 && (k == i || y.is&r.against == 0) {
					continue
				}
				if err := r.refuse(a, x, y); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ownFile refuses a file that is also another one.
func ownFile(_ *App, x, y spot) error {
	if y.path != "-" && sameFile(x.path, y.path) {
		return Unfit("give each a file of its own", "%s and %q are one file", x.what, screen.Path(y.path))
	}
	return nil
}

// ownReport refuses a report that would replace another file of the command line.
func ownReport(_ *App, x, y spot) error {
	if y.path == "-" {
		return nil
	}
	if isFile(x.path, y.path) || filepath.Clean(x.path) == filepath.Clean(y.path) {
		return Unfit("give each report a file of its own", "report %q and %q are one file", x.what, y.path)
	}
	return nil
}

// resultAlone is the hint for a file that would be standard output.
const resultAlone = "standard output carries the RunResult alone; name a file"

// beside refuses standard output and folders.
func (a *App) beside(x, _ spot) error {
	if x.path == "-" {
		return Unfit(resultAlone, "%s %q cannot be standard output", x.what, x.path)
	}
	target, err := os.Stat(x.path)
	if err != nil {
		return nil
	}
	if target.IsDir() {
		return Usage("name the file to write", "%s %q is a folder", x.what, x.path)
	}
	if out, err := os.Stdout.Stat(); err == nil && os.SameFile(target, out) && !isNull(target) {
		return Unfit(resultAlone, "%s %q is standard output", x.what, x.path)
	}
	return nil
}

// notIntent refuses to overwrite the intent.
func (a *App) notIntent(x, y spot) error {
	in, err := os.Stat(y.path)
	if y.path == "-" {
		in, err = a.Stdin.Stat()
	}
	if target, statErr := os.Stat(x.path); err == nil && statErr == nil && os.SameFile(target, in) && !isNull(target) {
		return Unfit("name another file", "%s %q is the intent itself", x.what, x.path)
	}
	return nil
}

// isNull reports whether a file is the null device, which every command may write to.
func isNull(info os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// notPlanted refuses a path through a link beneath a guarded folder. Whoever can write
// there could choose the file that is overwritten. The path of the folder itself may have
// links.
func (a *App) notPlanted(x, _ spot) error {
	if x.path == "-" {
		return nil
	}
	_, err := links.Place(x.path, a.Guarded)
	if planted, ok := errors.AsType[*links.PlantedError](err); ok {
		return LeadsThrough(planted, x.flag, x.path)
	}
	return nil
}

// notKey refuses to overwrite the private key.
func notKey(_ *App, x, y spot) error {
	if isFile(x.path, y.path) {
		return Unfit("name another file", "file %q is the private key", screen.Path(x.path))
	}
	return nil
}

// isFile reports whether both paths lead to one existing regular file.
func isFile(a, b string) bool {
	first, err := os.Stat(a)
	second, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(first, second) && first.Mode().IsRegular()
}

// notInTheWay refuses a place in the pack, and a pack in that place.
func notInTheWay(_ *App, x, y spot) error {
	if LiesIn(x.path, y.path) || LiesIn(y.path, x.path) {
		return Unfit("give each a place of its own", "the pack %q and %q are in each other's way", canon.Clean(x.path), canon.Clean(y.path))
	}
	return nil
}

// apart refuses a place that lies in a folder of the execution.
func apart(_ *App, x, y spot) error {
	in, err := Beneath(y.path, x.path)
	if err == nil && in {
		err = Unfit("keep it where nothing that is executed can reach it", "the %s %q lies in %q, which the execution works with", x.what, screen.Path(x.path), screen.Path(y.path))
	}
	return err
}

// outside refuses tools in a folder that the intent is about.
func outside(_ *App, x, y spot) error {
	in, err := Beneath(y.path, x.path)
	if err == nil && in {
		err = Unfit("keep the tools in a folder of their own, and gate another one", "the folder of %s %q lies in %q: whoever changes that folder could change the tools", x.what, screen.Path(x.path), screen.Path(y.path))
	}
	return err
}

// unchanging refuses a file in a folder that an execution changes. It also refuses a path
// that leads through such a folder, because a link there could be changed.
func unchanging(a *App, x, y spot) error {
	if err := apart(a, x, y); err != nil {
		return err
	}
	var passed []string
	if real, err := filepath.EvalSymlinks(x.path); err == nil {
		passed = append(passed, real)
	}
	path, err := filepath.Abs(x.path)
	if err != nil {
		return err
	}
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		passed = append(passed, filepath.Dir(path))
	}
	for _, p := range passed {
		if in, err := Beneath(y.path, p); err != nil || in {
			return Unfit("name it by a path around that folder", "the path of the %s %q leads through %q, which the execution works with", x.what, screen.Path(x.path), screen.Path(y.path))
		}
	}
	return nil
}

// sameFile reports whether two paths lead to one file. The file need not exist.
func sameFile(a, b string) bool {
	if first, err := os.Stat(a); err == nil {
		second, err := os.Stat(b)
		return err == nil && os.SameFile(first, second)
	}
	there, err := destination(a)
	other, otherErr := destination(b)
	return err != nil || otherErr != nil || there == other
}

// destination returns the file that a write through a path would make or replace, after
// all links. The target of a link need not exist.
func destination(path string) (string, error) {
	for range 40 {
		at, err := resolved(path)
		if err != nil {
			return "", err
		}
		to, err := os.Readlink(at)
		if err != nil {
			return at, nil
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(filepath.Dir(at), to)
		}
	}
	return "", syscall.ELOOP
}

// LeadsThrough refuses a path that leads through a link beneath a guarded folder.
func LeadsThrough(e *links.PlantedError, what, name string) error {
	return Unfit("name a place that is reached without it, or put a file or folder there", "%s %q leads through the link %q", what, screen.Path(name), screen.Path(e.Link))
}

// ApartFromLedger refuses an output file that would replace a file of the ledger.
func ApartFromLedger(file, dir string) error {
	switch file {
	case "":
		return nil
	case "-":
		return Unfit("name a file", "%q would not be standard output", file)
	}
	in, err := Beneath(dir, file)
	if in {
		return Unfit("name a file elsewhere", "file %q lies in the folder of the ledger", screen.Path(file))
	}
	return err
}

// Beneath reports whether a file is dir or lies in it. The file need not exist.
func Beneath(dir, file string) (bool, error) {
	d, err := resolved(dir)
	if err != nil {
		return false, err
	}
	f, err := resolved(file)
	if err != nil {
		return false, err
	}
	top, topErr := os.Stat(d)
	for {
		info, err := os.Stat(f)
		if f == d || err == nil && topErr == nil && os.SameFile(info, top) {
			return true, nil
		}
		if f == filepath.Dir(f) {
			return false, nil
		}
		f = filepath.Dir(f)
	}
}

// LiesIn reports whether a file certainly is dir or lies in it.
func LiesIn(dir, file string) bool {
	in, err := Beneath(dir, file)
	return err == nil && in
}

// RealPath returns the absolute path of a file without links.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// resolved returns the target of a path: the existing part without links, and the rest
// unchanged.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for head, rest := path, ""; ; head, rest = filepath.Dir(head), filepath.Join(filepath.Base(head), rest) {
		if there, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(there, rest), nil
		}
		if head == filepath.Dir(head) {
			return path, nil
		}
	}
}
