// Package asset owns one version directory of a suite run: the names of its files, the manifest
// of its assets, and the seal. The package knows nothing of what a case file says.
//
// A version directory is OUT/SIDE/RUN_ID, where SIDE is "baseline" or "new":
//
//	run.json  CASE.json…                   [Dir.Write]
//	assets/HASH.txt, assets/HASH.bin       [Dir.Keep]: HASH is the content's SHA-256; .txt is UTF-8
//	assets/CASE.SIDE.attemptN.meta.json    [Dir.Meta]
//	assets/manifest.json                   [Dir.Manifest]
//
// A text goes into a file ".tmp-N" in the folder of its place, which is synced and then renamed to
// the place. Write syncs the folder assets before it renames, if there are new names in it, and the
// version directory afterwards: a case file that is durable has all its assets. A kill leaves whole
// files, ".tmp-N", and perhaps assets that no case file names. An error leaves what stood there.
//
// [Create], [Resume] and [Open] open the directory once, and every access is beneath it. So a
// directory that is replaced by a link later leads nowhere else, and [Dir.InPlace] notices it.
package asset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

const tempPrefix = ".tmp-"

// Errors of Create, Resume and InPlace.
var (
	ErrExists = errors.New("there is a run with this id: choose another id, or resume the run")
	ErrBusy   = errors.New("another process writes this run: wait until it has ended")
	ErrMoved  = errors.New("is another folder than at the beginning: leave it alone until the run has ended")
)

// CheckHref says whether an href can name a file of a version directory: it is relative, clean,
// valid UTF-8, and separated by slashes. It has no "..", backslash, NUL, drive or scheme. An href
// is a path and no URL: "%2e" is three characters.
func CheckHref(href string) bool {
	first, _, _ := strings.Cut(href, "/")
	return href != "." && fs.ValidPath(href) && !strings.ContainsAny(href, "\\\x00") && !strings.Contains(first, ":")
}

// checkID refuses an id of a run or a case that cannot name a file on every system.
func checkID(id string) error {
	if why := trial.IDFault(id); why != "" {
		return at(id, errors.New(why))
	}
	return nil
}

// at names the place in an error, instead of the path of the machine in an error of package os.
func at(place string, err error) error {
	if one, ok := errors.AsType[*fs.PathError](err); ok {
		err = one.Err
	} else if two, ok := errors.AsType[*os.LinkError](err); ok {
		err = two.Err
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", canon.Quote(place), err)
}
