package main

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/applycmd"
	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/guidecmd"
	"github.com/fiador/fiador/cmd/fiador/ledgercmd"
	"github.com/fiador/fiador/cmd/fiador/packcmd"
	"github.com/fiador/fiador/cmd/fiador/policycmd"
	"github.com/fiador/fiador/cmd/fiador/provecmd"
	"github.com/fiador/fiador/cmd/fiador/runcmd"
	"github.com/fiador/fiador/cmd/fiador/transcriptcmd"
)

// commands returns all commands of the program.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		runcmd.Run(a), runcmd.Check(a), runcmd.Exec(a), runcmd.SafeRun(a), runcmd.Doctor(a), runcmd.Sandbox(a), runcmd.Reproduce(a),
		provecmd.Verify(a), provecmd.Digest(a), provecmd.Compare(a), provecmd.Fingerprint(a), provecmd.Conformance(a),
		guidecmd.Explain(a), guidecmd.Demo(a), guidecmd.Schema(a), guidecmd.Version(a),
		ledgercmd.Ledger(a), packcmd.Pack(a), applycmd.Apply(a), transcriptcmd.Transcript(a),
		policycmd.Policy(a), policycmd.Init(a),
		guidecmd.ExitCodes(), guidecmd.Environment(),
	}
}
