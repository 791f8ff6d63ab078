// Package ledgercmd has the commands of a ledger: they make and verify it, prove what it
// records, and read, replay and export its entries.
package ledgercmd

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// Ledger returns the group of commands of a ledger.
func Ledger(a *cli.App) *cobra.Command {
	group := cli.Group(&cobra.Command{
		Use:   "ledger",
		Short: "record decisions, and prove what was recorded",
		Long: `Ledger makes ledgers, reads them, and proves what was recorded. A ledger is a folder
with one line for every decision, in a tree whose root is signed (C2SP tlog-tiles). Runs
are recorded with "fiador run --ledger". --ledger names the folder, or else
FIADOR_LEDGER; no command searches for it. Many machines share the ledger of a server:
--ledger is then its URL, and --key the verifier key of its log.

Exit codes:
  0  done, and nothing is wrong
  1  something is wrong: tampering, a difference, a proof that does not hold
  2  no answer`,
		Example: `  fiador ledger init ./ledger --origin example.com/gate --key ~/gate.key
  fiador ledger list --ledger ./ledger
  fiador ledger verify --ledger ./ledger`,
	}, initCommand(a), repairCommand(a), rotateCommand(a))
	for _, cmd := range []*cobra.Command{
		listCommand(a), showCommand(a), verifyCommand(a), proveCommand(a), checkProofCommand(a), consistencyCommand(a), compareCommand(a),
		pinCommand(a), receiptsCommand(a), driftCommand(a), statsCommand(a), exportCommand(a), publishCommand(a), replayCommand(a),
	} {
		ledgers.Accuses(cmd)
		group.AddCommand(cmd)
	}
	return group
}

// proofError returns the error for a proof when a command cannot answer.
func proofError(name string, err error) error {
	return runerr.New(result.CodeEvidence, "proof "+strconv.Quote(screen.Path(name))+": "+err.Error(), ledgers.Hint(err), runerr.Because(err))
}

// refuted prints what is wrong, after one word for it, and makes the exit status 1.
func refuted(a *cli.App, word, format string, args ...any) error {
	a.Status = cli.ExitRejected
	return a.Say(fmt.Appendf(nil, "%s  %s\n", a.Page.Paint(screen.Red, word), screen.Plain(fmt.Sprintf(format, args...))))
}

// progressOf shows the progress of long work on a ledger. tell takes the number of
// entries read so far, and clear removes the line.
func progressOf(a *cli.App, total int64) (tell func(int64), clear func()) {
	line := cli.NewProgress(a, total)
	return func(n int64) {
		line.Total = max(line.Total, n) // the ledger may have entries after the checkpoint
		line.Read = n - n%1024 - 1
		line.Tell()
	}, line.Clear
}

// checkpointFile reads a checkpoint, a pin, or the checkpoint in a proof or receipt. It
// checks no signature. Its error is a RUN_E001.
func checkpointFile(name string) (ledger.Promise, error) {
	b, err := ledgers.ReadSmall(name, ledger.MaxProofBytes)
	if err != nil {
		return ledger.Promise{}, err
	}
	p := ledger.Promise{Name: strconv.Quote(screen.Path(name))}
	if proof, err := ledger.ParseProof(b); err == nil {
		b = proof.Note
	}
	if p.Checkpoint, err = ledger.ParseCheckpoint(b); err != nil {
		return p, runerr.Unreadable(screen.Path(name), err.Error(), "name a checkpoint, a pin or a receipt of a ledger")
	}
	return p, nil
}
