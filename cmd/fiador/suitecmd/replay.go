package suitecmd

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite/recording"
	"github.com/fiador/fiador/kernel/result"
)

// Replay returns the command that serves a recording.
func Replay(a *cli.App) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "answer over HTTP as a recorded agent did",
		Long: `Replay serves a version directory (OUT/new/RUN_ID) as an agent: POST /run-case gets what
the recorded agent answered, its failures and their bodies too. A timeout is held until
the client leaves. A connection that failed is closed without an answer.

Replay prints the base URL, and serves until Ctrl-C. A run needs no server:
--new replay:DIR asks a recording without one.

Exit codes:
  0  ended by Ctrl-C
  2  the directory cannot be read, or the address cannot be had`,
		Example: "  fiador suite replay runs/new/nightly",
		Args:    cli.ExactArgs("DIR"),
		RunE:    func(cmd *cobra.Command, args []string) error { return serve(cmd.Context(), a, args[0], listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`ADDRESS` of the loopback interface; port 0 is a free one")
	return cmd
}

// open opens a recording.
func open(dir string) (*recording.Replay, error) {
	r, err := recording.OpenReplay(dir)
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name a version directory: OUT/new/RUN_ID")
	}
	return r, nil
}

// serve serves a recording until the context ends.
func serve(ctx context.Context, a *cli.App, dir, listen string) error {
	r, err := open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	l, err := net.Listen("tcp", listen)
	if err == nil {
		err = r.Serve(ctx, l, func() error { return a.Print([]byte("http://" + l.Addr().String() + "\n")) })
	}
	if err != nil {
		return runerr.New(result.CodeUnreadable, "the recording cannot be served: "+runerr.Reason(err), "listen at a free port of 127.0.0.1")
	}
	return nil
}
