package ledgers

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// RecordFlags name the ledger that records runs.
type RecordFlags struct{ SignFlags }

// Register adds the flags to a command.
func (f *RecordFlags) Register(cmd *cobra.Command) {
	f.SignFlags.Register(cmd, " to record in (default: FIADOR_LEDGER; none: nothing is recorded)")
}

// OpenLog opens the ledger that records runs, with its private key. It does so before
// any decision, so that each decision can be recorded. It returns nil if no ledger is
// named, and refuses a key without a ledger.
func OpenLog(a *cli.App, f RecordFlags) (*disk.Log, error) {
	if f.Dir == "" && a.Env("FIADOR_LEDGER") == "" {
		if f.file != "" {
			return nil, cli.Unfit("name the ledger with --ledger or FIADOR_LEDGER", "--ledger-key is for a ledger, and there is none")
		}
		return nil, nil
	}
	dir, signer, err := f.Signer(a)
	if err != nil {
		return nil, err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.Now, Progress: Rebuilding(a)})
	if err != nil {
		return nil, Error(dir, err)
	}
	return log, nil
}

// Rebuilding shows progress while the first append after a start of the system reads the
// whole ledger. The line is cleared when everything was read.
func Rebuilding(a *cli.App) func(read, of int64) {
	line := cli.NewProgress(a, 0)
	return func(read, of int64) {
		if read == of {
			line.Clear()
			return
		}
		line.Show("read " + strconv.FormatInt(read*100/of, 10) + " % of the ledger")
	}
}

// NotRecorded says on a terminal that no ledger records this run.
func NotRecorded(a *cli.App) {
	if a.TTY {
		a.Term.Message("not recorded: there is no --ledger")
	}
}

// Recorder returns a ledger as a harness.Recorder, or nil for nil.
func Recorder(a *cli.App, log *disk.Log) harness.Recorder {
	if log == nil {
		return nil
	}
	return &recordingLog{log, a.Busy}
}

// recordingLog is a ledger whose errors name no path of the machine and have a hint. A
// Ctrl-C waits for an append that has begun.
type recordingLog struct {
	*disk.Log
	busy *cli.Busy
}

func (l *recordingLog) Put(blob []byte) (ledger.Blob, error) {
	b, err := l.Log.Put(blob)
	return b, notRecordable(err)
}

func (l *recordingLog) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	l.busy.Enter()
	defer l.busy.Leave()
	r, err := l.Log.Append(ctx, rec)
	return r, notRecordable(err)
}

func (l *recordingLog) Blob(b ledger.Blob) ([]byte, error) {
	content, err := AsStored(l.Log.Blob)(b)
	return content, notRecordable(err)
}

// AsStored wraps a reader of evidence for the harness. For altered evidence it returns no
// bytes and no error, because the harness compares the hash itself.
func AsStored(read func(ledger.Blob) ([]byte, error)) func(ledger.Blob) ([]byte, error) {
	return func(b ledger.Blob) ([]byte, error) {
		content, err := read(b)
		if errors.Is(err, disk.ErrBadBlob) {
			return nil, nil
		}
		return content, err
	}
}

// notRecordable wraps an error of a ledger for the harness.
func notRecordable(err error) error {
	if err == nil {
		return nil
	}
	return &recordingError{err}
}

// recordingError shows an error without paths. The harness asks it for its hint.
type recordingError struct{ error }

func (e *recordingError) Error() string { return WithoutPaths(e.error, "") }
func (e *recordingError) Unwrap() error { return e.error }
func (e *recordingError) Hint() string  { return Hint(e.error) }

// KeepReceipt prints the warnings of a recorded decision and writes its receipt to a
// new file (specs/ledger.md, Proof). With an empty name it writes none.
func KeepReceipt(ctx context.Context, a *cli.App, f RecordFlags, file string, r ledger.Receipt) error {
	Warn(a, r.Warnings)
	if file == "" {
		return nil
	}
	return Reading(a, ReadFlags{Dir: f.Dir}, func(reader *disk.Reader) error {
		p, err := reader.Prove(ctx, r.Index)
		if err != nil {
			return err
		}
		return cli.WriteNew(file, p.Marshal(), a.Guarded)
	})
}

// CheckReceipt refuses a receipt without a ledger.
func CheckReceipt(a *cli.App, f RecordFlags, file string) error {
	if file != "" && f.Dir == "" && a.Env("FIADOR_LEDGER") == "" {
		return cli.Unfit("name the ledger with --ledger or FIADOR_LEDGER", "--receipt is of a ledger, and there is none")
	}
	return nil
}

// RecordPlaces adds the ledger and its key to the places.
func RecordPlaces(a *cli.App, f RecordFlags, p *cli.Places) {
	dir, err := Dir(a, f.Dir)
	if err != nil {
		return // no ledger records this run
	}
	p.Add(cli.Ledgers, "--ledger", "ledger", dir)
	p.Add(cli.Secret, "--ledger-key", "key", f.file)
}
