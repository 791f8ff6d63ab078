package suitecmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite/recording"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// Demo returns the command that shows a run of four cases, and a comparison.
func Demo(a *cli.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see two versions of an agent run, and compared",
		Long: `Demo asks two recorded versions of an agent four cases, compares the new version with the
baseline, and ends with the commands to try next. One case is worse on new, so that new is
rejected: the exit code is that of the comparison. Demo needs no agent and no network.

Exit codes:
  1  the demo ran; its comparison rejects new, as it should
  2  the demo could not run`,
		Example: "  fiador suite demo\n  fiador suite demo --out demo",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return show(cmd.Context(), a, out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` of the runs and the report, which is kept (default: a temporary one, which is removed)")
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
	if _, err := os.Lstat(filepath.Join(to, string(trial.New), recording.DemoID)); err == nil {
		return cli.Usage("name another folder", "--out %s has a demo already", screen.Folder(out))
	}
	if err := recording.Demo(ctx, filepath.Join(temp, "agent"), to, kernel.Version, a.Now); err != nil {
		return err
	}
	f := compareFlags{limits: grade.DefaultLimits()}
	c, p, err := f.compare(ctx, a, []string{to})
	if err != nil {
		return err
	}
	defer p.Close()
	w, err := c.Write(p.Out)
	if err != nil {
		return err
	}
	var said strings.Builder
	view := report.Comparison{Comparison: c.Comparison, Document: w.Text, Cases: "cases.json"}
	if err := view.Write(&said, "human", report.Options{Color: a.Page.Color}); err != nil {
		return err
	}
	a.Status = c.Gate.ExitCode
	return cli.PrintText(a, func(t cli.Terminal) {
		t.Line("Two recorded versions of an agent were asked four cases. Each case has its file, whatever\nthe agent did. Then new was compared with the baseline:\n")
		_, _ = t.W.Write([]byte(said.String()))
		t.Line("\nTry next:")
		if out == "" {
			t.Line("  fiador suite demo --out demo")
		}
		at := screen.Plain(at)
		t.Line("  open " + filepath.Join(at, suitedir.PageFile) + " in a browser")
		t.Line("  fiador suite verify " + at)
		t.Line("  jq -c '.cases[] | [.case_id, .class, .divergence.headline]' " + filepath.Join(at, suitedir.CompareFile))
		t.Line("  fiador suite run CASES --baseline http://HOST:PORT --new http://HOST:PORT")
	})
}
