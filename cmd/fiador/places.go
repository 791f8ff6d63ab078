package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/links"
	"github.com/fiador/fiador/kernel/canon"
)

// role is the use that a command makes of a place. Roles are joined with |. A new flag for
// a file is one line with its roles, and rules lists the roles that exclude each other.
type role uint

const (
	written   role = 1 << iota // a file or folder that is written
	reached                    // a folder whose path is checked like that of a written place
	kept                       // an answer that may not lie in the pack
	answer                     // a file for an answer, apart from every other file
	alone                      // a file for an answer beside standard output
	input                      // the intent
	fresh                      // a file that must not exist
	reported                   // a report, whose what is FORMAT=FILE
	needed                     // a file that no report may replace
	asked                      // a file or folder that no recording may replace
	modelFile                  // the list of adapters, or the recording
	recorded                   // the new recording
	packs                      // the pack
	ledgers                    // the folder of the ledger
	secret                     // the key of the ledger
	guarded                    // a folder in which somebody may have planted a link
	exposed                    // a place that an execution can read
	worked                     // a place that an execution can read while it runs
	changed                    // a folder that an execution changes

	answers = written | kept | answer
)

// spot is a file or a folder that a command line names.
type spot struct {
	is   role
	flag string // the flag that names the place
	what string // the name of the place in messages
	path string
}

// places are all places that one command line names.
type places []spot

// add adds the paths of a flag. It skips an empty path.
func (p *places) add(is role, flag, what string, paths ...string) {
	for _, path := range paths {
		if path != "" {
			*p = append(*p, spot{is, flag, what, path})
		}
	}
}

// rules lists the checks in their order. A rule with two roles holds for each two places
// with these roles. A rule without a second role holds for each place with the first.
var rules = []struct {
	of, against role
	refuse      func(a *app, x, y spot) error
}{
	{modelFile, answer, ownFile},
	{recorded, asked, ownFile},
	{modelFile, changed, unchanging},
	{recorded, packs, func(_ *app, x, y spot) error {
		if in, err := beneath(y.path, x.path); err == nil && in {
			return unfit("name a file elsewhere: the pack has the recording anyway", "recording %q lies in the pack", screen.Path(x.path))
		}
		return nil
	}},
	{alone, 0, (*app).beside},
	{alone, input, (*app).notIntent},
	{written, ledgers, func(_ *app, x, y spot) error { return apartFromLedger(x.path, y.path) }},
	{written, secret, notKey},
	{secret, exposed, apart},
	{ledgers, changed, apart},
	{written | reached, 0, (*app).notPlanted},
	{packs, 0, func(_ *app, x, _ spot) error {
		if x.path == "-" {
			return unfit("name a folder", "a pack cannot be written to standard output")
		}
		return nil
	}},
	{packs, kept, notInTheWay},
	// Commands could see files beside the pack while they run, and a promotion could write
	// there.
	{packs, worked, apart},
	{fresh, alone, func(_ *app, x, y spot) error {
		if sameFile(x.path, y.path) {
			return unfit("give each a file of its own", "%s and %s are one file: %q", y.what, x.what, screen.Path(x.path))
		}
		return nil
	}},
	{fresh, 0, func(_ *app, x, _ spot) error { return absent(x.path) }},
	{reported, needed, ownReport},
}

// check applies rules to the places. It also notes the guarded folders, in which somebody
// may have planted a link. Later writes follow no link beneath them.
func (a *app) check(p places) error {
	a.guarded = nil
	for _, x := range p {
		if x.is&guarded == 0 {
			continue
		}
		if real, err := filepath.EvalSymlinks(x.path); err == nil {
			if real, err = filepath.Abs(real); err == nil {
				a.guarded = append(a.guarded, real)
			}
		}
	}
	for _, r := range rules {
		for i, x := range p {
			if x.is&r.of == 0 {
				continue
			}
			if r.against == 0 {
				if err := r.refuse(a, x, spot{}); err != nil {
					return err
				}
				continue
			}
			for k, y := range p {
				if k == i || y.is&r.against == 0 {
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
func ownFile(_ *app, x, y spot) error {
	if y.path != "-" && sameFile(x.path, y.path) {
		return unfit("give each a file of its own", "%s and %q are one file", x.what, screen.Path(y.path))
	}
	return nil
}

// ownReport refuses a report that would replace another file of the command line.
func ownReport(_ *app, x, y spot) error {
	if y.path == "-" {
		return nil
	}
	target, err := os.Stat(x.path)
	info, otherErr := os.Stat(y.path)
	same := err == nil && otherErr == nil && os.SameFile(target, info) && info.Mode().IsRegular()
	if same || filepath.Clean(x.path) == filepath.Clean(y.path) {
		return unfit("give each report a file of its own", "report %q and %q are one file", x.what, y.path)
	}
	return nil
}

const resultAlone = "standard output carries the RunResult alone; name a file"

// beside refuses standard output and folders.
func (a *app) beside(x, _ spot) error {
	if x.path == "-" {
		return unfit(resultAlone, "%s %q cannot be standard output", x.what, x.path)
	}
	target, err := os.Stat(x.path)
	if err != nil {
		return nil
	}
	if target.IsDir() {
		return usage("name the file to write", "%s %q is a folder", x.what, x.path)
	}
	if out, err := os.Stdout.Stat(); err == nil && os.SameFile(target, out) && !isNull(target) {
		return unfit(resultAlone, "%s %q is standard output", x.what, x.path)
	}
	return nil
}

// notIntent refuses to overwrite the intent.
func (a *app) notIntent(x, y spot) error {
	in, err := os.Stat(y.path)
	if y.path == "-" {
		in, err = a.stdin.Stat()
	}
	if target, statErr := os.Stat(x.path); err == nil && statErr == nil && os.SameFile(target, in) && !isNull(target) {
		return unfit("name another file", "%s %q is the intent itself", x.what, x.path)
	}
	return nil
}

func isNull(info os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// notPlanted refuses a path through a link beneath a guarded folder. Whoever can write
// there could choose the file that is overwritten. The path of the folder itself may have
// links.
func (a *app) notPlanted(x, _ spot) error {
	var planted *links.PlantedError
	if x.path == "-" {
		return nil
	}
	if _, err := links.Place(x.path, a.guarded); errors.As(err, &planted) {
		return leadsThrough(planted, x.flag, x.path)
	}
	return nil
}

// notKey refuses to overwrite the private key.
func notKey(_ *app, x, y spot) error {
	target, err := os.Stat(x.path)
	if err != nil {
		return nil
	}
	if info, err := os.Stat(y.path); err == nil && os.SameFile(target, info) && info.Mode().IsRegular() {
		return unfit("name another file", "file %q is the private key", screen.Path(x.path))
	}
	return nil
}

// notInTheWay refuses a place in the pack, and a pack in that place.
func notInTheWay(_ *app, x, y spot) error {
	in, err := beneath(x.path, y.path)
	if err == nil && !in {
		in, err = beneath(y.path, x.path)
	}
	if err == nil && in {
		return unfit("give each a place of its own", "the pack %q and %q are in each other's way", canon.Clean(x.path), canon.Clean(y.path))
	}
	return nil
}

// apart refuses a place that lies in a folder of the execution.
func apart(_ *app, x, y spot) error {
	in, err := beneath(y.path, x.path)
	if err == nil && in {
		err = unfit("keep it where nothing that is executed can reach it", "the %s %q lies in %q, which the execution works with", x.what, screen.Path(x.path), screen.Path(y.path))
	}
	return err
}

// unchanging refuses a file in a folder that an execution changes. It also refuses a path
// that leads through such a folder, because a link there could be changed.
func unchanging(a *app, x, y spot) error {
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
		if in, err := beneath(y.path, p); err != nil || in {
			return unfit("name it by a path around that folder", "the path of the %s %q leads through %q, which the execution works with", x.what, screen.Path(x.path), screen.Path(y.path))
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
	if err != nil {
		return true
	}
	other, err := destination(b)
	return err != nil || there == other
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

// leadsThrough refuses a path that leads through a link beneath a guarded folder.
func leadsThrough(e *links.PlantedError, what, name string) error {
	return unfit("name a place that is reached without it, or put a file or folder there", "%s %q leads through the link %q", what, screen.Path(name), screen.Path(e.Link))
}

// apartFromLedger refuses an output file that would replace a file of the ledger.
func apartFromLedger(file, dir string) error {
	switch file {
	case "":
		return nil
	case "-":
		return unfit("name a file", "%q would not be standard output", file)
	}
	in, err := beneath(dir, file)
	if in {
		return unfit("name a file elsewhere", "file %q lies in the folder of the ledger", screen.Path(file))
	}
	return err
}

// beneath reports whether a file is dir or lies in it. The file need not exist.
func beneath(dir, file string) (bool, error) {
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
