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
	format := ""
	cmd := &cobra.Command{
		Use:   "verify LOG...",
		Short: "find out whether logs are whole and consistent",
		Long: `Verify reads each LOG to its end. It checks the sections and markers, the numbers and
the order of the events, and that nothing is missing at the end. Each line of a section
must have its event, and each event its line. Verify prints a line for every LOG: "ok"
with its counts, or "bad" with its first fault. For the fault it names the line, the
byte and the event, and what was due there. Lines are counted from 1 on, bytes from 0
on.

A log of the merged view has no events, so it is "bad". A log has no checksum: to prove
that nobody has rewritten it, keep its hash elsewhere.

With --format json it prints one canonical object a LOG: log, verdict, events and
exit_code, or fault and its offset.

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
				v, err := verifyTranscript(ctx, a, name)
				if err != nil {
					a.Status = max(a.Status, a.Report(err))
				} else if err := cli.PrintAs(a, format, v, v.text); err != nil {
					return err
				}
				a.RejectIf(v.Fault != "" && a.Status == cli.ExitAccepted)
				if ctx.Err() != nil {
					break
				}
			}
			return nil
		},
	}
	cli.FormatFlag(cmd, &format, "human", "json")
	return cmd
}

// verdict is what verify says about a log: "ok" with its counts, or "bad" with the first
// fault and its byte.
type verdict struct {
	Log      string `json:"log"`
	Verdict  string `json:"verdict"`
	Events   *int64 `json:"events,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Fault    string `json:"fault,omitempty"`
	Offset   *int64 `json:"offset,omitempty"`
}

func (v verdict) text(t cli.Terminal) {
	if v.Fault != "" {
		fmt.Fprintf(t.W, "%s %s: %s\n", t.Paint(screen.Red, v.Verdict), screen.Plain(v.Log), screen.Plain(v.Fault))
		return
	}
	fmt.Fprintf(t.W, "%s %s: %d events, exit code %d\n", t.Paint(screen.Green, v.Verdict), screen.Plain(v.Log), *v.Events, *v.ExitCode)
}

// verifyTranscript checks one log. An error is a log that could not be read.
func verifyTranscript(ctx context.Context, a *cli.App, name string) (v verdict, err error) {
	l, err := openLog(ctx, a, name)
	if err != nil {
		return v, err
	}
	defer l.close()
	log, err := l.check()
	if fault, ok := errors.AsType[*transcript.FormatError](err); ok {
		where, err := l.where(fault)
		return verdict{Log: l.path, Verdict: "bad", Fault: where, Offset: &fault.Offset}, err
	}
	if err != nil {
		return v, err
	}
	n, err := lineCounts(log)
	if err != nil {
		return v, l.unread(err)
	}
	return verdict{
		Log: l.path, Verdict: "ok",
		Events: new(n[transcript.Meta] + n[transcript.Stdout] + n[transcript.Stderr]), ExitCode: new(log.Code()),
	}, nil
}
