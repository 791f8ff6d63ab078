// Package packcmd has the commands of run packs: verify, show, sign, archive and keygen.
package packcmd

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// Pack returns the group of commands of run packs.
func Pack(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "pack",
		Short: "verify, show, sign and archive run packs",
		Long: `Pack verifies, shows, signs and archives run packs. A run pack proves one run to a
reader who has nothing else. It is a folder, or an archive of one. It has the RunResult,
the bundle, the policy, what was observed of an execution, and the run's lines of the
ledger. fiador run --pack writes one.

Exit codes:
  0  done, and every pack is valid
  1  a pack breaks a rule
  2  no answer`,
		Example: `  fiador run intent.json --pack ./pack
  fiador pack verify ./pack
  fiador pack archive ./pack pack.tar.gz`,
	}, verifyCommand(a), showCommand(a), signCommand(a), archiveCommand(a), keygenCommand(a))
}
