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
		runcmd.RunCommand(a), runcmd.CheckCommand(a), runcmd.ExecCommand(a), runcmd.SafeRunCommand(a), runcmd.DoctorCommand(a), runcmd.SandboxCommand(a), runcmd.ReproduceCommand(a),
		provecmd.VerifyCommand(a), provecmd.DigestCommand(a), provecmd.CompareCommand(a), provecmd.FingerprintCommand(a), provecmd.ConformanceCommand(a),
		guidecmd.ExplainCommand(a), guidecmd.DemoCommand(a), guidecmd.SchemaCommand(a), guidecmd.VersionCommand(a),
		ledgercmd.LedgerCommand(a), packcmd.PackCommand(a), applycmd.ApplyCommand(a), transcriptcmd.TranscriptCommand(a),
		policycmd.PolicyCommand(a), policycmd.InitCommand(a),
		guidecmd.ExitCodesTopic(), guidecmd.EnvironmentTopic(),
	}
}
