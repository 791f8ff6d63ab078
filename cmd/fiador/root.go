package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/harness/runerr"
)

// run is the whole program except for the process around it. It returns the exit status. A
// panic in any command becomes RUN_E007.
func run(ctx context.Context, args []string, sys system) (status int) {
	debug.SetMemoryLimit(512 << 20)
	debug.SetGCPercent(startupGC)
	a := newApp(sys)
	defer func() {
		if p := recover(); p != nil {
			status = a.report(runerr.Panicked())
		}
	}()
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(sys.stdin)
	root.SetOut(sys.stdout)
	root.SetErr(sys.stderr)
	cmd, err := root.ExecuteContextC(waiting(ctx, a))
	if lost := a.lost(); lost != nil {
		err = lost
	}
	if err != nil {
		status = a.report(err)
		if cmd != nil && cmd.Name() == "exec" && cmd.Parent() == root {
			status = exitOurs
		}
		return status
	}
	return a.status
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "fiador",
		Short: "the safety catch for agent intents",
		Long: `Fiador reads what an agent wants to do, decides under a policy profile whether
it may, and answers BUNDLE (allowed, with the plan), CLARIFY (not yet, with
questions) or REFUSE (no, with the reason).

Nothing is sent anywhere but prompts, to models that --model-adapters lists, and
nothing is asked on the terminal.

Exit codes:
  0  accepted, valid, the same, or printed
  1  rejected, a check failed, or different
  2  no answer`,
		Example: `  fiador demo
  fiador run intent.json
  fiador run intent.json --policy strict --bundle bundle.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.prepare()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(helpHint(cmd), "%s", err)
	})
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colour on the terminal: auto, always or never")
	root.AddCommand(
		runCommand(a), checkCommand(a), execCommand(a), safeRunCommand(a), conformanceCommand(a), transcriptCommand(a), explainCommand(a), policyCommand(a), initCommand(a), ledgerCommand(a), doctorCommand(a), sandboxCommand(a), verifyCommand(a), digestCommand(a), compareCommand(a), packCommand(a), applyCommand(a), reproduceCommand(a), fingerprintCommand(a),
		demoCommand(a), schemaCommand(a), versionCommand(a),
		exitCodesTopic(), environmentTopic(),
	)
	complete(root, "color", "auto", "always", "never")
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			strictCompletion(cmd)
		}
	}
	return root
}
