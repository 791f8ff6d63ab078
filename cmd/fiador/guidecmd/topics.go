package guidecmd

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// ExitCodes returns the help topic about exit codes (specs/run-result.md, Exit codes
// and RunError).
func ExitCodes(*cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "what the exit codes mean",
		Long: `Exec and safe-run end with the exit code of their command, or with a code of
their own, such as 125. Every other command ends with one of three exit codes:

  0  accepted, valid or the same; for commands that only print: printed
  1  rejected (CLARIFY or REFUSE), a check failed, or two results differ
  2  no answer: usage, unreadable input, a profile that cannot be used, a policy
     that gave no usable answer, output that could not be written

With code 2, standard error carries one line of canonical JSON, the RunError:

  RUN_E001  a file could not be read
  RUN_E002  not strict JSON
  RUN_E003  not a valid intent or execution request
  RUN_E004  profile and mode do not go together, or the profile is invalid
  RUN_E005  the sandbox could not be set up as the policy demands
  RUN_E006  evidence could not be collected or applied, or contradicts itself
  RUN_E007  internal, policy engine included

A call that cannot be understood (an unknown flag, a missing argument) is RUN_E001.
A call with flags or values that do not go together is RUN_E004. For both,
details.usage is true. details.hint says what to do. On a terminal the same stands
above the line in words.`,
	}
}

// Environment returns the help topic about environment variables. A variable that the
// program begins to read belongs into it.
func Environment(*cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "the environment variables that are read",
		Long: `These variables are read. None of them can change a verdict.

  FIADOR_COLOR    auto, always or never, like --color, which wins over it
  FIADOR_LEDGER   folder or URL of the ledger, like --ledger, which wins over it
  FIADOR_LEDGER_KEY
                  private key of the ledger, the key itself; --ledger-key, which
                  names its file, wins over it. With a URL it is the verifier key
  FIADOR_LEDGER_TOKEN
                  token for the server of a ledger, sent to no other host
  FIADOR_REMOTE   document of a build cluster, like --remote, which wins over it
  names that its headers list
                  values that are sent to the cluster's server
  FIADOR_PACK_KEY the private key that signs packs, the key itself; --key of pack
                  sign, which names its file, wins over it
  one that --model-adapters names as key_env
                  the key that is sent to that model
  NO_COLOR        not empty: no colour
  CLICOLOR_FORCE  neither empty nor 0: colour, even when stderr is no terminal
  TERM            dumb: no colour
  SAFE_LOG_DIR    safe-run: the folder for logs; by default .agent/FAIL-LOGS
  SAFE_RUN_VIEW   safe-run: ledger or merged
  SAFE_SNIPPET_LINES
                  safe-run: how many last lines of each stream it prints
                  after a failure
  SAFE_RUN_LOG_NAMES
                  safe-run: contract or rfc; --log-names wins over it
  PATH            safe-run and conformance: where they look for the command
  SAFE_RUN_BIN    the wrappers of safe-run: the program; conformance passes it on
  TMPDIR          where demo makes its folder, executions make their copies, and
                  transcript keeps a long log from a pipe. Safe-run keeps
                  output there that does not fit into memory; by default
                  /var/tmp
  XDG_STATE_HOME  where the journal of outputs is kept while they are applied, and
                  what the servers of ledgers have promised; by default
                  .local/state in HOME
  HOME            see XDG_STATE_HOME

The Go runtime reads variables of its own, such as GOMAXPROCS and GODEBUG.

No variable chooses a profile or a mode: the command line says what gates an
intent, and a reviewer can see it there.`,
	}
}
