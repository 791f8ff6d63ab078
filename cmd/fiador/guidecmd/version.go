package guidecmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// Version returns the command that prints the versions of the program and its parts.
// The version of the policy engine is that of the build, and "unknown" in a build
// without it.
func Version(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the versions of fiador and of what it is built from",
		Long: `Version prints the kernel version, which stands in every RunResult, and the
versions of this build, which never do.

Exit codes:
  0  the versions were printed`,
		Example: `  fiador version`,
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			opa := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, dep := range info.Deps {
					if dep.Path == "github.com/open-policy-agent/opa" {
						opa = dep.Version
					}
				}
			}
			return a.Print(fmt.Appendf(nil, "fiador %s\nrun result schema %s\nbundle schema %s\nopa %s\n%s %s/%s\n",
				kernel.Version, result.SchemaVersion, kernel.BundleSchemaVersion, opa,
				runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}
