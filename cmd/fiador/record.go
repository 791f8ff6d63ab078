package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// recordFlags name the ledger that records runs.
type recordFlags struct {
	dir string
	key keyFlags
}

func (f *recordFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "ledger", "", "folder of the ledger to record in (default: FIADOR_LEDGER; none: nothing is recorded)")
	f.key.register(cmd)
}

// recording opens the ledger that records runs. It does so before any decision, so that
// each decision can be recorded. It returns nil if no ledger is named.
func recording(a *app, f recordFlags) (*disk.Log, error) {
	dir := f.dir
	if dir == "" {
		dir = a.env("FIADOR_LEDGER")
	}
	if dir == "" {
		if f.key.file != "" {
			return nil, unfit("name the ledger with --ledger or FIADOR_LEDGER", "--ledger-key is for a ledger, and there is none")
		}
		return nil, nil
	}
	dir = filepath.Clean(dir)
	signer, err := signer(a, f.key, dir)
	if err != nil {
		return nil, err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.now, Progress: rebuilding(a)})
	if err != nil {
		return nil, ledgerError(dir, err)
	}
	return log, nil
}

// rebuilding shows progress while the first append after a start of the system reads the
// whole ledger. The line is cleared when everything was read.
func rebuilding(a *app) func(read, of int64) {
	line := newProgress(a, 0)
	return func(read, of int64) {
		if read == of {
			line.clear()
			return
		}
		line.show("read " + strconv.FormatInt(read*100/of, 10) + " % of the ledger")
	}
}

// notRecorded says on a terminal that no ledger records this run.
func notRecorded(a *app) {
	if a.tty {
		a.term.message("not recorded: there is no --ledger")
	}
}

// recorder returns a ledger as a harness.Recorder, or nil for nil.
func recorder(a *app, log *disk.Log) harness.Recorder {
	if log == nil {
		return nil
	}
	return &recordingLog{log, a.busy}
}

// recordingLog is a ledger whose errors name no path of the machine and have a hint.
type recordingLog struct {
	*disk.Log
	busy *occupied
}

func (l *recordingLog) Put(blob []byte) (ledger.Blob, error) {
	b, err := l.Log.Put(blob)
	return b, notRecordable(err)
}

func (l *recordingLog) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	l.busy.enter()
	defer l.busy.leave()
	r, err := l.Log.Append(ctx, rec)
	return r, notRecordable(err)
}

func (l *recordingLog) Blob(b ledger.Blob) ([]byte, error) {
	content, err := asStored(l.Log.Blob)(b)
	return content, notRecordable(err)
}

// asStored wraps a reader of evidence for the harness. For altered evidence it returns no
// bytes and no error, because the harness compares the hash itself.
func asStored(read func(ledger.Blob) ([]byte, error)) func(ledger.Blob) ([]byte, error) {
	return func(b ledger.Blob) ([]byte, error) {
		content, err := read(b)
		if errors.Is(err, disk.ErrBadBlob) {
			return nil, nil
		}
		return content, err
	}
}

func notRecordable(err error) error {
	if err == nil {
		return nil
	}
	return &recordingError{err}
}

type recordingError struct{ error }

func (e *recordingError) Error() string { return withoutPaths(e.error, "") }
func (e *recordingError) Unwrap() error { return e.error }
func (e *recordingError) Hint() string  { return ledgerHint(e.error) }

// keepReceipt prints the warnings of a recorded decision and writes its receipt.
func keepReceipt(ctx context.Context, a *app, f recordFlags, file string, r ledger.Receipt) error {
	dir, err := ledgerDir(a, f.dir)
	if err != nil {
		return err
	}
	warnLedger(a, r.Warnings)
	if file == "" {
		return nil
	}
	reader, err := disk.Read(dir)
	if err != nil {
		return ledgerError(dir, err)
	}
	defer reader.Close()
	p, err := reader.Prove(ctx, r.Index)
	if err != nil {
		return ledgerError(dir, err)
	}
	return writeNew(file, p.Marshal(), a.guarded)
}

// checkReceipt refuses a receipt without a ledger.
func checkReceipt(a *app, f recordFlags, file string) error {
	if file != "" && f.dir == "" && a.env("FIADOR_LEDGER") == "" {
		return unfit("name the ledger with --ledger or FIADOR_LEDGER", "--receipt is of a ledger, and there is none")
	}
	return nil
}

// recordPlaces adds the ledger and its key to the places.
func recordPlaces(a *app, f recordFlags, p *places) {
	dir, err := ledgerDir(a, f.dir)
	if err != nil {
		return // no ledger records this run
	}
	p.add(ledgers, "--ledger", "ledger", dir)
	p.add(secret, "--ledger-key", "key", f.key.file)
}
