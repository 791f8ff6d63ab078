package main

import "github.com/spf13/cobra"

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "what the exit codes mean",
		Long: `Every command ends with one of three exit codes.

  0  accepted, valid or the same; for commands that only print: printed
  1  rejected (CLARIFY or REFUSE), a check failed, or two results differ
  2  no answer: usage, unreadable input, a profile that cannot be used, a policy
     that gave no usable answer, output that could not be written

With code 2, standard error carries one line of canonical JSON, the RunError:

  RUN_E001  a file could not be read
  RUN_E002  not strict JSON
  RUN_E003  not a valid intent
  RUN_E004  profile and mode do not go together, or the profile is invalid
  RUN_E005  the sandbox could not be set up as the policy demands
  RUN_E006  a result or its evidence contradicts itself
  RUN_E007  internal, policy engine included

A call that cannot be understood (an unknown flag, a missing argument) ends with
2 as well and is answered in words.`,
	}
}

func environmentTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "the environment variables that are read",
		Long: `These variables are read, and no others. None of them can change a verdict.

  FIADOR_COLOR    auto, always or never, like --color, which wins over it
  NO_COLOR        not empty: no colour
  CLICOLOR_FORCE  neither empty nor 0: colour, even when stderr is no terminal
  TERM            dumb: no colour

There is no variable that chooses a profile or a mode: what gates an intent
stands on the command line, where a reviewer can see it.`,
	}
}
