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
		Long: `Safe-run runs a command without a sandbox and without a decision. It passes the streams
on as they come, and exits as the command does. The program safe-run does the same. When
the command fails or is interrupted, safe-run leaves a log, and prints the path of the
log on standard error. The log has the lines of both streams in order and numbered.

It reads these variables:
  SAFE_LOG_DIR        the folder for logs; by default .agent/FAIL-LOGS
  SAFE_RUN_VIEW       ledger or merged
  SAFE_SNIPPET_LINES  how many last lines of each stream it prints after a
                      failure, 0 to 10000
  SAFE_RUN_LOG_NAMES  contract or rfc

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
