// Package suitecmd has the commands for suites: test cases against an agent.
package suitecmd

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// Suite returns the group of commands for suites.
func Suite(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "suite",
		Short: "test cases against an agent: an artifact for every case, whatever happens",
		Long: `Suite runs test cases against an agent, and keeps what the agent did in a folder that can
be copied, verified and compared.

Exit codes:
  0  done
  1  a case has no answer (with --fail-on-error), or a rule is broken
  2  no answer`,
		Example: `  fiador suite demo
  fiador suite run cases.json --new http://127.0.0.1:8787
  fiador suite verify runs/new/nightly`,
	}, Run(a), Compare(a), Bless(a), Verify(a), Replay(a), Demo(a))
}
