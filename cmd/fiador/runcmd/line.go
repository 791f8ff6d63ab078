package runcmd

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/hook"
	"github.com/fiador/fiador/kernel/pathname"
)

// checkLine refuses what does not go together with --line, and --dir without it.
func (f execFlags) checkLine(cmd *cobra.Command, args []string) error {
	switch {
	case f.line == "":
		return cli.Usage("name the line with --line", "there is no line to run")
	case len(args) > 0:
		return cli.Unfit("leave it out: the line is the command", "unexpected argument %q", args[0])
	case !filepath.IsLocal(f.dir):
		return cli.Usage("name a folder beneath --work, relative to it", "--dir %q is not beneath --work", f.dir)
	}
	for _, flag := range []string{"request", "tools", "pack", "env"} {
		if cmd.Flags().Changed(flag) {
			return cli.Unfit("leave one of the two out", "--%s does not go together with --line", flag)
		}
	}
	return nil
}

// lineRequest returns the run of a line: what is decided are its commands, and what is
// started is sh.
func lineRequest(line, dir string, x harness.Exec) (harness.Request, error) {
	question, err := hook.Line(line, x.Work, dir)
	if err != nil {
		return harness.Request{}, err
	}
	req, err := question.Request()
	if err != nil {
		return harness.Request{}, err
	}
	x.Line, x.Dir = line, pathname.Clean(filepath.ToSlash(filepath.Clean(dir)))
	req.Mode, req.Calls, req.Exec = harness.ModeExecuteSandbox, nil, &x
	req.Folders = harness.Folders{Tree: x.Work, Work: x.Work}
	return req, nil
}
