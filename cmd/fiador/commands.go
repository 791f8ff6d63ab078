package main

import "github.com/spf13/cobra"

// commands returns all commands of the program.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		runCommand(a), checkCommand(a), execCommand(a), safeRunCommand(a), doctorCommand(a), sandboxCommand(a), reproduceCommand(a),
		verifyCommand(a), digestCommand(a), compareCommand(a), fingerprintCommand(a), conformanceCommand(a),
		explainCommand(a), demoCommand(a), schemaCommand(a), versionCommand(a),
		ledgerCommand(a), packCommand(a), applyCommand(a), transcriptCommand(a),
		policyCommand(a), initCommand(a),
	}
}
