package transcriptcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
)

// verifyCommand checks logs one after the other. A log that cannot be read stops no
// other one, unless the command was interrupted. The worst log decides the exit status.
// Standard input can be one of the logs only once.
func verifyCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "verify LOG...",
		Short: "find out whether logs are whole and consistent",
		Long: `Verify reads each LOG to its end. It checks the sections and markers, the numbers and
the order of the events, and that nothing is missing at the end. Each line of a section
must have its event, and each event its line. Verify prints a line for every LOG: "ok"
with its counts, or "bad" with the line, the byte and the event of the first fault, and
what was due there. Lines are counted from 1 on, bytes from 0 on.

A log of the merged view has no events, so it is "bad". A log has no checksum: to prove
that nobody has rewritten it, keep its hash elsewhere.

Exit codes:
  0  every LOG is whole and consistent
  1  a LOG is not
  2  a LOG could not be read`,
		Example: `  fiador transcript verify .agent/FAIL-LOGS/*.log
  ssh builder cat run.log | fiador transcript verify -`,
		Args: func(cmd *cobra.Command, args []string) error {
			first := slices.Index(args, "-") // -1 if there is none
			if slices.Contains(args[first+1:], "-") {
				return cli.Unfit("name it once", "standard input cannot be two logs")
			}
			return cli.AtLeastOne("LOG")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			for _, name := range args {
				text, status, err := verifyTranscript(ctx, a, name)
				if err != nil {
					status = a.Report(err)
				} else if err := a.Print([]byte(text)); err != nil {
					return err
				}
				a.Status = max(a.Status, status)
				if ctx.Err() != nil {
					break
				}
			}
			return nil
		},
	}
}

// verifyTranscript checks one log. It returns the line to print and the exit status: 0
// for "ok", 1 for "bad". An error is a log that could not be read.
func verifyTranscript(ctx context.Context, a *cli.App, name string) (text string, status int, err error) {
	l, err := openLog(ctx, a, name)
	if err != nil {
		return "", 0, err
	}
	defer l.close()
	log, err := l.check()
	if fault, ok := errors.AsType[*transcript.FormatError](err); ok {
		where, err := l.where(fault)
		return fmt.Sprintf("%s %s: %s\n", a.Page.Paint(screen.Red, "bad"), screen.Plain(l.path), screen.Plain(where)), cli.ExitRejected, err
	}
	if err != nil {
		return "", 0, err
	}
	n, err := lineCounts(log)
	if err != nil {
		return "", 0, l.unread(err)
	}
	return fmt.Sprintf("%s %s: %d events, exit code %d\n", a.Page.Paint(screen.Green, "ok"), screen.Plain(l.path),
		n[transcript.Meta]+n[transcript.Stdout]+n[transcript.Stderr], log.Code()), cli.ExitAccepted, nil
}
