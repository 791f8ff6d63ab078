package main

import "github.com/spf13/cobra"

// commands returns all commands of the program.
func commands(a *App) []*cobra.Command {
	return []*cobra.Command{
		RunCommand(a), CheckCommand(a), ExecCommand(a), SafeRunCommand(a), DoctorCommand(a), SandboxCommand(a), ReproduceCommand(a),
		VerifyCommand(a), DigestCommand(a), CompareCommand(a), FingerprintCommand(a), ConformanceCommand(a),
		ExplainCommand(a), DemoCommand(a), SchemaCommand(a), VersionCommand(a),
		LedgerCommand(a), PackCommand(a), ApplyCommand(a), TranscriptCommand(a),
		PolicyCommand(a), InitCommand(a),
		ExitCodesTopic(), EnvironmentTopic(),
	}
}
