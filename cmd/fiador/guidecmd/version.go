package guidecmd

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/build"
	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// unknown stands for what the build does not say.
const unknown = "unknown"

// versions are the versions of the program and of what it is built from. None of them but
// the kernel's and those of the schemas stands in a result.
type versions struct {
	Version      string `json:"version"`
	Commit       string `json:"commit"`
	Modified     bool   `json:"modified"` // the program has changes that the commit does not have
	Module       string `json:"module"`   // the version that go install was given
	ResultSchema string `json:"run_schema_version"`
	BundleSchema string `json:"bundle_schema_version"`
	OPA          string `json:"opa"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
}

// versionsOf returns the versions of a program with a build information and a source.
func versionsOf(info *debug.BuildInfo, source build.Source) versions {
	v := versions{
		Version: kernel.Version, Commit: cmp.Or(source.Commit, unknown), Modified: source.Modified, Module: cmp.Or(source.Module, unknown),
		ResultSchema: result.SchemaVersion, BundleSchema: kernel.BundleSchemaVersion,
		OPA: unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/open-policy-agent/opa" {
			v.OPA = dep.Version
		}
	}
	return v
}

// text returns the versions for people, one a line.
func (v versions) text() []byte {
	modified := ""
	if v.Modified {
		modified = " (modified)"
	}
	return fmt.Appendf(nil, "fiador %s\ncommit %s%s\nmodule %s\nrun result schema %s\nbundle schema %s\nopa %s\n%s %s\n",
		v.Version, v.Commit, modified, v.Module, v.ResultSchema, v.BundleSchema, v.OPA, v.Go, v.Platform)
}

// Version returns the command that prints the versions of the program and its parts.
func Version(a *cli.App) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the versions of fiador and of what it is built from",
		Long: `Version prints the kernel version, which stands in every RunResult, and the commit and
the versions of this build, which never do. "fiador --version" prints the same. What the
build does not say is "unknown". A build from an archive of the source has no commit,
and only "go install" with a version has a module version.

Exit codes:
  0  the versions were printed`,
		Example: `  fiador version
  fiador version --format json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionsOf(build.Info())
			if format == "json" {
				return cli.PrintJSON(a, v)
			}
			return a.Print(v.text())
		},
	}
	cli.FormatFlag(cmd, &format, "text", "json")
	return cmd
}
