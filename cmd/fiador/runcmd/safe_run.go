package runcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/saferun"
)

// SafeRun returns the command safe-run.
func SafeRun(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "safe-run [--log-names contract|rfc] [--] COMMAND [ARGUMENT...]",
		Short: "run a command as it is and leave a log when it fails",
		Long: `Safe-run runs a command without a sandbox and without a decision, passes its
streams on as they come and exits as it does. When the command fails, or is
interrupted, a log is left, with the lines of both streams in order and numbered,
and its path is printed on standard error. It is the program safe-run.

SAFE_LOG_DIR is the folder for logs (default: .agent/FAIL-LOGS), SAFE_RUN_VIEW is
ledger or merged, SAFE_SNIPPET_LINES (0 to 10000) prints the last lines of each
stream after a failure, SAFE_RUN_LOG_NAMES is contract or rfc.

Exit codes:
  0 to 255  the command's own; 128+n signal n, 126 not executable, 127 not found
  125       how the command ended is not known
  2         usage: nothing was started`,
		Example: `  fiador safe-run make test
  fiador safe-run -- sh -c 'echo out; echo err >&2; exit 3'
  fiador transcript show .agent/FAIL-LOGS/safe-run-*.log`,
		DisableFlagParsing: true, // safe-run reads its own flags; every other argument belongs to the command
		RunE:               func(cmd *cobra.Command, args []string) error { return safeRun(cmd.Context(), a, args) },
	}
}

// safeRun runs the program of specs/safe-run.md in this process and takes over its exit
// status. It never leaves Busy: after a signal the command ends before the process
// does.
func safeRun(ctx context.Context, a *cli.App, args []string) error {
	a.Busy.Enter() // a signal ends the command, and then this process
	signals := saferun.Notify()
	if ctx.Err() != nil { // a signal came before Notify
		return runerr.Stopped()
	}
	a.Status = saferun.Run(args, saferun.System{
		Stdin: a.Stdin, Stdout: a.Direct, Stderr: a.Stderr,
		Env: a.Environ, Signals: signals, Now: a.Now, Rand: a.Rand,
	})
	return nil
}
