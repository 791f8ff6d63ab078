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

// recordFlags say where runs are recorded.
type recordFlags struct {
	dir string
	key keyFlags
}

func (f *recordFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "ledger", "", "folder of the ledger to record in (default: FIADOR_LEDGER; none: nothing is recorded)")
	f.key.register(cmd)
}

// recording opens the ledger that runs are recorded in, before anything is decided:
// nothing is decided that could not be recorded. It is nil where none is named.
func (a *app) recording(f recordFlags) (*disk.Log, error) {
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
	signer, err := a.signer(f.key, dir)
	if err != nil {
		return nil, err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.now, Progress: a.rebuilding()})
	if err != nil {
		return nil, ledgerError(dir, err)
	}
	return log, nil
}

// rebuilding shows how far the reading of a whole ledger is, which the first append after
// a start of the system does. Its line makes way when everything was read.
func (a *app) rebuilding() func(read, of int64) {
	line := a.progressLine(0)
	return func(read, of int64) {
		if read == of {
			line.clear()
			return
		}
		line.show("read " + strconv.FormatInt(read*100/of, 10) + " % of the ledger")
	}
}

// notRecorded says once, where somebody looks, that no ledger has this run.
func (a *app) notRecorded() {
	if a.tty {
		a.term.message("not recorded: there is no --ledger")
	}
}

// recorder is a ledger as the harness takes it: nil where there is none.
func (a *app) recorder(log *disk.Log) harness.Recorder {
	if log == nil {
		return nil
	}
	return &recordingLog{log, a.busy}
}

// recordingLog is a ledger whose errors name nothing of the machine, and say what to do.
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

// asStored reads evidence as the harness takes it, which finds out itself that it is not
// what its name says.
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
func (a *app) keepReceipt(ctx context.Context, f recordFlags, file string, r ledger.Receipt) error {
	dir, err := a.ledgerDir(f.dir)
	if err != nil {
		return err
	}
	a.warnLedger(r.Warnings)
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

// checkReceipt refuses a receipt that would have no ledger.
func (a *app) checkReceipt(f recordFlags, file string) error {
	if file != "" && f.dir == "" && a.env("FIADOR_LEDGER") == "" {
		return unfit("name the ledger with --ledger or FIADOR_LEDGER", "--receipt is of a ledger, and there is none")
	}
	return nil
}

// recordPlaces adds the ledger and its key to the places.
func (a *app) recordPlaces(f recordFlags, p *places) {
	dir, err := a.ledgerDir(f.dir)
	if err != nil {
		return // no ledger records this run
	}
	p.add(ledgers, "--ledger", "ledger", dir)
	p.add(secret, "--ledger-key", "key", f.key.file)
}
