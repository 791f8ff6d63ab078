package build

import (
	"runtime/debug"
	"testing"
)

// TestSource: the commit is that of the linker, else that of the clone, else unknown. The
// module version is that of go install. Only a commit or a release can be named in a job.
func TestSource(t *testing.T) {
	ours := func(version, modified string) debug.BuildInfo {
		info := debug.BuildInfo{Main: debug.Module{Path: "github.com/fiador/fiador", Version: version}}
		if modified != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "c1"}, {Key: "vcs.modified", Value: modified}}
		}
		return info
	}
	foreign := ours("(devel)", "true")
	foreign.Main.Path = "example.com/other"
	for name, c := range map[string]struct {
		info     debug.BuildInfo
		linked   string
		want     Source
		revision string
	}{
		"release":           {ours("(devel)", ""), "c2", Source{Commit: "c2"}, "c2"},
		"clone":             {ours("v0.1.1-0.2026", "false"), "", Source{Commit: "c1", Module: "v0.1.1-0.2026"}, "c1"},
		"changed":           {ours("", "true"), "", Source{Commit: "c1", Modified: true}, "c1"},
		"linker":            {ours("", "true"), "c2", Source{Commit: "c2"}, "c2"},
		"go install":        {ours("v0.1.0", ""), "", Source{Module: "v0.1.0"}, "v0.1.0"},
		"go install branch": {ours("v0.0.0-20260101000000-0123456789ab", ""), "", Source{Module: "v0.0.0-20260101000000-0123456789ab"}, ""},
		"archive":           {ours("(devel)", ""), "", Source{}, ""},
		"another module":    {foreign, "", Source{}, ""},
	} {
		got := sourceOf(&c.info, c.linked)
		if got != c.want || got.Revision() != c.revision {
			t.Errorf("%s: %+v, revision %q", name, got, got.Revision())
		}
	}
}
