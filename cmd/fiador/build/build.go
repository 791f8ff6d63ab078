// Package build says from which source this program was built. It owns the variable that the
// linker sets for a release.
package build

import (
	"cmp"
	"regexp"
	"runtime/debug"
)

// commit is the commit of a release. The linker sets it (.ci/release), because the build
// information of Go depends on the tags of the clone that is built.
var commit string

// Source is where a program comes from. What the build does not say is empty.
type Source struct {
	Commit   string
	Modified bool   // the program has changes that the commit does not have
	Module   string // the version that go install was given
}

// Info returns the build information of this program.
func Info() (*debug.BuildInfo, Source) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return info, sourceOf(info, commit)
}

// sourceOf returns the source that a build information names. A commit from the linker wins
// over that of the build information. A program of another module has a commit of its own.
func sourceOf(info *debug.BuildInfo, commit string) Source {
	s := Source{Commit: commit}
	if m := info.Main.Version; m != "(devel)" {
		s.Module = m
	}
	for _, set := range info.Settings {
		switch {
		case commit != "" || info.Main.Path != "github.com/fiador/fiador":
		case set.Key == "vcs.revision":
			s.Commit = set.Value
		case set.Key == "vcs.modified":
			s.Modified = set.Value == "true"
		}
	}
	return s
}

// Revision returns the commit or the release, by which the source can be had again, or "" if
// the build knows neither.
func (s Source) Revision() string {
	return cmp.Or(s.Commit, regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).FindString(s.Module))
}
