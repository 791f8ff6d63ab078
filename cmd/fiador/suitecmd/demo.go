package suitecmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite/recording"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// Demo returns the command that shows a run of four cases.
func Demo(a *cli.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see a run of four cases: an answer, and three failures",
		Long: `Demo asks a recorded agent four cases, verifies what the run has left, and ends with the
commands to try next. It needs no agent and no network.

Exit codes:
  0  the demo ran
  2  it could not`,
		Example: "  fiador suite demo\n  fiador suite demo --out demo",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return show(cmd.Context(), a, out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` of the run, which is kept (default: a temporary one, which is removed)")
	return cmd
}

// show runs the demo, and prints what happened.
func show(ctx context.Context, a *cli.App, out string) error {
	a.Busy.Enter()
	defer a.Busy.LeaveSoon(ctx)
	temp, err := os.MkdirTemp("", "fiador-suite-")
	if err != nil {
		return runerr.New(result.CodeInternal, "no temporary folder: "+runerr.Reason(err), "set TMPDIR to a folder that may be written", runerr.Because(err))
	}
	defer os.RemoveAll(temp)
	to, at := out, out
	if out == "" {
		to, at = filepath.Join(temp, "out"), "demo"
	}
	dir := filepath.Join(to, string(trial.New), recording.DemoID)
	if _, err := os.Lstat(dir); err == nil {
		return cli.Usage("name another folder", "--out %s has a demo already", screen.Folder(out))
	}
	cases, err := recording.Demo(ctx, filepath.Join(temp, "agent"), to, kernel.Version, a.Now)
	if err != nil {
		return err
	}
	v, err := verdict(dir, nil)
	if err != nil || !v.OK() {
		return runerr.New(result.CodeInternal, "the demo has left a directory that is not valid", "run the demo again, alone in its folder")
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		t.Line("A recorded agent was asked four cases. Each case has its file, whatever the agent did:")
		for _, c := range cases {
			t.Line(fmt.Sprintf("  %-8s%-17s%s", c.ID, cmp.Or(c.Class, trial.Class(trial.OK)), c.Title))
		}
		t.Line("The directory is valid, and sealed: run.json has the hash of every file.\n\nTry next:")
		if out == "" {
			t.Line("  fiador suite demo --out demo")
		}
		at := screen.Plain(filepath.Join(at, string(trial.New), recording.DemoID))
		t.Line("  fiador suite verify " + at)
		t.Line("  jq -c 'select(.case_id) | [.case_id, .status, .runner_failure.class]' " + at + "/*.json")
		t.Line("  fiador suite run CASES --new http://HOST:PORT")
	})
}
