package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

func ledgerCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "record decisions, and prove what was recorded",
		Long: `The commands of a ledger: a folder with one line for every decision, in a tree
whose root is signed (C2SP tlog-tiles). Runs are recorded with "fiador run --ledger".
The folder is the one of --ledger, else that of FIADOR_LEDGER; it is never looked for.

Exit codes:
  0  done, and nothing is wrong
  1  something is wrong: tampering, a difference, a proof that does not hold
  2  no answer`,
		Example: `  fiador ledger init ./ledger --origin example.com/gate --key ~/gate.key
  fiador ledger list --ledger ./ledger
  fiador ledger verify --ledger ./ledger`,
		Args: groupArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ledgerInitCommand(a), ledgerListCommand(a), ledgerShowCommand(a), ledgerVerifyCommand(a),
		ledgerProveCommand(a), ledgerCheckProofCommand(a), ledgerConsistencyCommand(a), ledgerCompareCommand(a), ledgerPinCommand(a),
		ledgerReceiptsCommand(a), ledgerDriftCommand(a), ledgerStatsCommand(a), ledgerExportCommand(a), ledgerPublishCommand(a),
		ledgerReplayCommand(a), ledgerRepairCommand(a), ledgerRotateCommand(a))
	return cmd
}

// ledgerFlags name a ledger to read, and the key to trust.
type ledgerFlags struct {
	dir string
	key string
}

func (f *ledgerFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "ledger", "", "folder of the ledger (default: FIADOR_LEDGER)")
	cmd.Flags().StringVar(&f.key, "key", "", "verifier key of the ledger, or a file with it (default: the ledger's own word)")
}

// ledgerDir returns the folder of the ledger.
func ledgerDir(a *app, dir string) (string, error) {
	if dir == "" {
		dir = a.env("FIADOR_LEDGER")
	}
	if dir == "" {
		return "", usage("name it with --ledger or FIADOR_LEDGER", "which ledger?")
	}
	return filepath.Clean(dir), nil // without Clean, "link/" would be the target of the link
}

// readLedger opens a ledger for reading.
func readLedger(a *app, f ledgerFlags) (*disk.Reader, error) {
	dir, err := ledgerDir(a, f.dir)
	if err != nil {
		return nil, err
	}
	var trust []ledger.Verifier
	if f.key != "" {
		key, err := verifierKey("key", f.key)
		if err != nil {
			return nil, err
		}
		trust = append(trust, key)
	}
	r, err := disk.Read(dir, trust...)
	if err != nil {
		return nil, ledgerError(dir, err)
	}
	return r, nil
}

// verifierKey reads the verifier key of a flag: the key itself, or a file with it.
func verifierKey(flag, text string) (ledger.Verifier, error) {
	v, err := ledger.ParseVerifier(text)
	if err == nil {
		return v, nil
	}
	what := "--" + flag
	if !isPrivate(text) {
		b, readErr := readSmall(text, ledger.MaxCheckpointBytes)
		if readErr == nil {
			what += " " + strconv.Quote(screen.Path(text))
			text = strings.TrimSpace(string(b))
			v, err = ledger.ParseVerifier(text)
		} else if _, statErr := os.Stat(text); statErr == nil || !strings.Contains(text, "+") {
			return v, readErr
		}
	}
	const printed = `"fiador ledger init" or "fiador pack keygen" printed it`
	switch {
	case err == nil:
		return v, nil
	case isPrivate(text):
		return v, unfit("keep it to yourself, and give the verifier key: "+printed, "%s is the private key", what)
	case isPEM(text):
		return v, usage(`give the line that "fiador pack keygen" printed`, "%s is a public key as PEM, and the verifier key is wanted", what)
	}
	return v, usage(printed, "%s: %s", what, err)
}

// isPrivate reports whether a text begins like a private key.
func isPrivate(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "PRIVATE+KEY+")
}

// isPEM reports whether a text begins like a public key that "fiador pack keygen --pem"
// writes.
func isPEM(text string) bool {
	return strings.HasPrefix(text, "-----BEGIN PUBLIC KEY-----")
}

// ledgerError returns the error for a ledger when a command cannot answer.
func ledgerError(dir string, err error) error {
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	hint := ledgerHint(err)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return runerr.New(result.CodeEvidence, "ledger "+strconv.Quote(screen.Path(dir))+": "+withoutPaths(err, dir), hint, runerr.Because(err))
}

// proofError returns the error for a proof when a command cannot answer.
func proofError(name string, err error) error {
	return runerr.New(result.CodeEvidence, "proof "+strconv.Quote(screen.Path(name))+": "+err.Error(), ledgerHint(err), runerr.Because(err))
}

func ledgerHint(err error) string {
	for _, h := range ledgerHints {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	return ""
}

// withoutPaths returns the text of an error about a ledger. Files have their names in the
// ledger's folder, and names of system calls are left out.
func withoutPaths(err error, dir string) string {
	text := err.Error()
	var walk func(error)
	walk = func(err error) {
		name, why := "", error(nil)
		switch e := err.(type) {
		case *fs.PathError:
			name, why = e.Path, e.Err
		case *os.LinkError:
			name, why = e.New, e.Err
		case *os.SyscallError:
			why = e.Err
		case interface{ Unwrap() []error }:
			for _, part := range e.Unwrap() {
				walk(part)
			}
			return
		case interface{ Unwrap() error }:
			if part := e.Unwrap(); part != nil {
				walk(part)
			}
			return
		default:
			return
		}
		said := runerr.Reason(why)
		if name = inFolder(name, dir); name != "" {
			said = name + ": " + said
		}
		text = strings.ReplaceAll(text, err.Error(), said)
	}
	walk(err)
	return canon.Clean(strings.ReplaceAll(text, "\n", "; "))
}

// inFolder returns the name of a file relative to the folder of a ledger. It returns empty
// for the folder itself, and the last element for a file elsewhere.
func inFolder(name, dir string) string {
	if name == "" || filepath.Clean(name) == filepath.Clean(dir) {
		return ""
	}
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	if !filepath.IsLocal(name) {
		name = filepath.Base(name)
	}
	return filepath.ToSlash(name)
}

// apartFromLedger refuses an output file that would replace a file of the ledger.
func apartFromLedger(file, dir string) error {
	switch file {
	case "":
		return nil
	case "-":
		return unfit("name a file", "%q would not be standard output", file)
	}
	in, err := beneath(dir, file)
	if in {
		return unfit("name a file elsewhere", "file %q lies in the folder of the ledger", screen.Path(file))
	}
	return err
}

// beneath reports whether a file is dir or lies in it. The file need not exist.
func beneath(dir, file string) (bool, error) {
	d, err := resolved(dir)
	if err != nil {
		return false, err
	}
	f, err := resolved(file)
	if err != nil {
		return false, err
	}
	top, topErr := os.Stat(d)
	for {
		info, err := os.Stat(f)
		if f == d || err == nil && topErr == nil && os.SameFile(info, top) {
			return true, nil
		}
		if f == filepath.Dir(f) {
			return false, nil
		}
		f = filepath.Dir(f)
	}
}

// resolved returns the target of a path: the existing part without links, and the rest
// unchanged.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for head, rest := path, ""; ; head, rest = filepath.Dir(head), filepath.Join(filepath.Base(head), rest) {
		if there, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(there, rest), nil
		}
		if head == filepath.Dir(head) {
			return path, nil
		}
	}
}

// ledgerHints say how to mend errors of ledgers.
var ledgerHints = []struct {
	err  error
	hint string
}{
	{disk.ErrPoisoned, `free the disk and run "fiador ledger repair"`},
	{disk.ErrTruncated, "restore the entries that are missing from a copy; nothing is appended to a ledger that lost any"},
	{disk.ErrForked, `run "fiador ledger compare" with a copy, and keep the one that the receipts fit`},
	{disk.ErrTampered, `run "fiador ledger verify": it names the entry`},
	{disk.ErrWrongKey, `use the key that "fiador ledger rotate-key" made last`},
	{disk.ErrBusy, "end the process that holds it, or wait for it; the lock ends with the process"},
	{disk.ErrConflict, "choose another --run-id: a run id stands for one run"},
	{disk.ErrEnded, "choose another --run-id: that run has ended"},
	{ledger.ErrUnknownKey, "give the ledger's verifier key with --key"},
	{disk.ErrNotEmpty, "name a folder that is not there, or is empty"},
	{fs.ErrNotExist, `name a folder that "fiador ledger init" has made, and that is whole`},
	{context.Canceled, "run it again"},
	{fs.ErrPermission, "use a folder and a key that this user may read and write"},
	{syscall.ENOSPC, "free some space; nothing was recorded"},
}

// progressOf shows the progress of long work on a ledger.
func progressOf(a *app, total int64) (tell func(int64), clear func()) {
	line := newProgress(a, total)
	return func(n int64) {
		line.total = max(line.total, n) // the ledger may have entries after the checkpoint
		line.read = n - n%1024 - 1
		line.tell()
	}, line.clear
}

// checkpointFile reads a checkpoint, or the checkpoint in a proof.
func checkpointFile(name string) (ledger.Promise, error) {
	b, err := readSmall(name, ledger.MaxProofBytes)
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

// readSmall reads a regular file of at most most bytes.
func readSmall(name string, most int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK the open of a pipe would wait
	if err != nil {
		return nil, runerr.Unreadable(screen.Path(name), runerr.Reason(err), "name a file that exists and may be read")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, runerr.Unreadable(screen.Path(name), "not a regular file", "name a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, runerr.Unreadable(screen.Path(name), runerr.Reason(err), "name a file that may be read")
	}
	if len(b) > most {
		return nil, runerr.Unreadable(screen.Path(name), fmt.Sprintf("it has more than %d bytes", most), "name a file of a ledger")
	}
	return b, nil
}
