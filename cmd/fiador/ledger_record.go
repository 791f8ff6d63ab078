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

// keepReceipt tells what went wrong after a decision was recorded, and writes its
// receipt.
func (a *app) keepReceipt(ctx context.Context, f recordFlags, file string, r *ledger.Receipt) error {
	if r == nil {
		return nil
	}
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

// apartFromRecords refuses files to write that would take the place of a file of the
// ledger, or of its key.
func (a *app) apartFromRecords(f recordFlags, files ...string) error {
	dir, err := a.ledgerDir(f.dir)
	if err != nil {
		return nil // nothing is recorded
	}
	for _, file := range files {
		if err := a.apartFromLedger(file, dir, f.key.file); err != nil {
			return err
		}
	}
	return nil
}

// written are what a run writes.
func (f runFlags) written() []output {
	list := append(f.reportFlags.written(), output{"--bundle", f.bundle}, output{"--receipt", f.receipt}, output{"--evidence", f.evidence}, output{"--pack", f.pack})
	if f.modelMode == harness.ModelRecord {
		list = append(list, output{"--model-recording", f.recording})
	}
	return list
}

// apartFromRun refuses a run that could write over its ledger or read its key.
func (a *app) apartFromRun(f runFlags) error {
	if err := a.apartFromRecords(f.recordFlags, append(f.outputs(), f.receipt, f.bundle, f.evidence, f.pack)...); err != nil {
		return err
	}
	dir, err := a.ledgerDir(f.dir)
	if err != nil || f.mode != harness.ModeExecuteSandbox {
		return nil
	}
	for _, seen := range append([]string{f.tree, f.work, f.promote}, f.read...) {
		if err := apartFrom(seen, f.key.file, "key"); err != nil {
			return err
		}
	}
	return apartFrom(f.promote, dir, "ledger")
}

// apartFrom refuses a folder that an execution reads or writes and in which something of
// the ledger lies.
func apartFrom(folder, file, what string) error {
	if folder == "" || file == "" {
		return nil
	}
	in, err := beneath(folder, file)
	if err == nil && in {
		err = unfit("keep it where nothing that is executed can reach it", "the %s %q lies in %q, which the execution works with", what, displayPath(file), displayPath(folder))
	}
	return err
}
