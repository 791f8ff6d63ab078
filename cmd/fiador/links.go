package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/fiador/fiador/kernel"
)

// output is a file or folder that a command writes: the flag that names it, and its path.
type output struct{ flag, path string }

// noPlantedLinks refuses outputs that are reached through a link beneath one of the
// folders: whoever may write there would choose what is written over. A folder may be
// named through links itself; an empty one is none.
func noPlantedLinks(outputs []output, folders ...string) error {
	var within []string
	for _, dir := range folders {
		if real, err := filepath.EvalSymlinks(dir); dir != "" && err == nil {
			if real, err = filepath.Abs(real); err == nil {
				within = append(within, real)
			}
		}
	}
	for _, out := range outputs {
		if out.path == "" || out.path == "-" {
			continue
		}
		if link := plantedLink(out.path, within); link != "" {
			return unfit("name a place that is reached without it, or put a file or folder there", "%s %q leads through the link %q", out.flag, displayPath(out.path), displayPath(link))
		}
	}
	return nil
}

// plantedLink is the first link on the way to a path that stands beneath one of the
// folders, which are absolute and without links; or empty. What is not there leads
// nowhere.
func plantedLink(name string, within []string) string {
	abs := name
	if !filepath.IsAbs(abs) {
		here, err := os.Getwd()
		if err != nil {
			return ""
		}
		abs = here + "/" + abs
	}
	at, rest := "/", strings.Split(abs, "/")
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		seg := rest[0]
		rest = rest[1:]
		if seg == "" || seg == "." {
			continue
		}
		if seg == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, seg)
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		for _, dir := range within {
			if dir == "/" || kernel.Beneath(next, dir) {
				return next
			}
		}
		if links++; filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return ""
}
