package ledgers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/ledger/remote"
)

// RecordFlags name the ledger that records runs.
type RecordFlags struct {
	SignFlags
	wait  time.Duration
	cover time.Duration
}

// Register adds the flags to a command.
func (f *RecordFlags) Register(cmd *cobra.Command) {
	f.SignFlags.Register(cmd, " to record in (default: FIADOR_LEDGER; none: nothing is recorded)")
	cmd.Flags().DurationVar(&f.wait, "ledger-wait", remote.DefaultWait, "how long to wait for the lock or the server of the ledger")
}

// RegisterReceipt adds the flag that belongs to --receipt.
func (f *RecordFlags) RegisterReceipt(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.cover, "receipt-wait", remote.DefaultCover, "how long the receipt waits for a server's checkpoint; then it is the server's ack")
}

// OpenLog opens the ledger that records runs, with its private key. It does so before
// any decision, so that each decision can be recorded. It returns nil if no ledger is
// named, and refuses a key without a ledger.
func OpenLog(ctx context.Context, a *cli.App, f RecordFlags) (Log, error) {
	log, err := OpenLogAhead(ctx, a, f)
	if r, ok := log.(*remote.Recorder); ok && err == nil {
		if err = r.Opened(ctx); err != nil {
			return nil, Error(r.URL, errors.Join(err, r.Close()))
		}
	}
	return log, err
}

// OpenLogAhead is OpenLog, and does not wait for a server: what is wrong there is an error of
// the first append. It saves a round trip where everything before that append is undone by
// its failure.
func OpenLogAhead(ctx context.Context, a *cli.App, f RecordFlags) (Log, error) {
	if f.Dir == "" && a.Env("FIADOR_LEDGER") == "" {
		if f.file != "" {
			return nil, cli.Unfit("name the ledger with --ledger or FIADOR_LEDGER", "--ledger-key is for a ledger, and there is none")
		}
		return nil, nil
	}
	if f.wait < 0 || f.cover < 0 {
		return nil, cli.Usage("give it as 30s or 2m", "--ledger-wait and --receipt-wait are not below zero")
	}
	if p, named, err := f.place(a); named || err != nil {
		if err != nil {
			return nil, err
		}
		p.Wait = max(f.wait, 1)
		log, err := remote.Record(ctx, p)
		if err != nil {
			return nil, Error(p.URL, err)
		}
		return log, nil
	}
	dir, signer, err := f.Signer(a)
	if err != nil {
		return nil, err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.Now, Wait: max(f.wait, 1), Progress: Rebuilding(a)})
	if err != nil {
		return nil, Error(dir, err)
	}
	return log, nil
}

// Log is a ledger that records runs.
type Log interface {
	harness.Recorder
	Close() error
}

// place returns the place of the log, if the ledger is on a server. --ledger-key then names
// its verifier key.
func (f RecordFlags) place(a *cli.App) (p remote.Place, named bool, err error) {
	dir, err := Dir(a, f.Dir)
	if err != nil || !remote.Named(dir) {
		return p, false, err
	}
	key, err := GivenKey("ledger-key", f.file)
	if err != nil {
		return p, true, err
	}
	p, err = place(a, dir, key)
	return p, true, err
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
func Recorder(a *cli.App, log Log) harness.Recorder {
	if log == nil {
		return nil
	}
	return &recordingLog{log, a.Busy}
}

// recordingLog is a ledger whose errors name no path of the machine and have a hint. A
// Ctrl-C waits for an append that has begun.
type recordingLog struct {
	Log
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
		if errors.Is(err, ledger.ErrBadBlob) {
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

// Prove returns the receipt of a run's decision, in the form of a file.
type Prove func(ctx context.Context, r ledger.Receipt) ([]byte, error)

// Prover returns what proves the decision of one run: a proof (specs/ledger.md, Proof), or the
// ack of a server whose checkpoint does not come in time. It is made once, so that a server
// is waited for once.
func Prover(a *cli.App, f RecordFlags) Prove {
	var kept []byte
	return func(ctx context.Context, r ledger.Receipt) (text []byte, err error) {
		if kept != nil {
			return kept, nil
		}
		kept, err = prove(ctx, a, f, r)
		return kept, err
	}
}

func prove(ctx context.Context, a *cli.App, f RecordFlags, r ledger.Receipt) (text []byte, err error) {
	bound := ctx
	if r.Ack != nil { // a server that accepts requests and answers none is not waited for longer
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(ctx, max(f.cover, f.cover+f.wait)) // the sum may overflow
		defer cancel()
	}
	err = Reading(bound, a, f.Reading(a), func(reader ledger.Source) error {
		if r.Ack != nil && reader.Checkpoint().Size <= r.Index {
			text = acknowledged(a, r)
			return nil
		}
		p, err := reader.Prove(bound, r.Index)
		if err == nil && r.Ack != nil && ledger.LeafHash(p.Entry) != r.Ack.Leaf {
			err = fmt.Errorf("%w: entry %d is not the one that it acknowledged", ledger.ErrForked, r.Index)
		}
		text = p.Marshal()
		return err
	})
	switch {
	case r.Ack != nil && (errors.Is(err, remote.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)):
		return acknowledged(a, r), nil
	case err != nil:
		return nil, err
	}
	return text, nil
}

// acknowledged returns the ack of a server as the receipt.
func acknowledged(a *cli.App, r ledger.Receipt) []byte {
	a.Term.Warning("no checkpoint that covers the decision came in time, so the receipt is the server's ack; fiador ledger check-receipts holds it against the log")
	return r.Ack.Note
}

// KeepReceipt prints the warnings of a recorded decision and writes its receipt to a new
// file. With an empty name it writes none.
func KeepReceipt(ctx context.Context, a *cli.App, prove Prove, file string, r ledger.Receipt) error {
	Warn(a, r.Warnings)
	if file == "" {
		return nil
	}
	text, err := prove(ctx, r)
	if err != nil {
		return err
	}
	return cli.WriteNew(file, text, a.Guarded)
}

// Reading returns the flags with which the ledger is read that records the runs. The keys of
// a folder stand in the folder.
func (f RecordFlags) Reading(a *cli.App) ReadFlags {
	r := ReadFlags{Dir: f.Dir, cover: max(f.cover, 1)}
	if remote.Named(r.Name(a)) {
		r.Key = f.file
	}
	return r
}

// Place returns the ledger in a form that other folders of work do not change: a URL with the
// verifier key of its log, or an absolute path.
func (f RecordFlags) Place(a *cli.App) (place, key string, err error) {
	p, named, err := f.place(a)
	if named || err != nil {
		return p.URL, p.Key.String(), err
	}
	place, err = filepath.Abs(ReadFlags{Dir: f.Dir}.Name(a))
	return place, "", err
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
	if err != nil || remote.Named(dir) {
		return // no folder records this run
	}
	p.Add(cli.Ledgers, "--ledger", "ledger", dir)
	p.Add(cli.Secret, "--ledger-key", "key", f.file)
}
