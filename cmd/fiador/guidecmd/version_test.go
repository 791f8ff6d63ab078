package guidecmd

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/build"
)

// TestVersions: what the build does not say is unknown, and a changed source is named.
func TestVersions(t *testing.T) {
	for want, source := range map[string]build.Source{
		"commit unknown\nmodule unknown\n":       {},
		"commit c1 (modified)\nmodule unknown\n": {Commit: "c1", Modified: true},
		"commit c1\nmodule v0.1.0\n":             {Commit: "c1", Module: "v0.1.0"},
	} {
		if got := string(versionsOf(&debug.BuildInfo{}, source).text()); !strings.Contains(got, "\n"+want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	deps := debug.BuildInfo{Deps: []*debug.Module{{Path: "github.com/open-policy-agent/opa", Version: "v9.9.9"}}}
	if got := versionsOf(&deps, build.Source{}).OPA; got != "v9.9.9" {
		t.Errorf("opa %s", got)
	}
}
