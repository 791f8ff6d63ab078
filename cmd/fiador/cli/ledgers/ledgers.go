// Package ledgers opens the ledger that a command line names, to read it or to record in it.
// It owns the flags of ledgers and of their keys, and the words for errors of ledgers.
package ledgers

import (
	"cmp"
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

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// ReadFlags name a ledger to read, and the key to trust. Without a key the ledger is
// trusted to name its own keys: it then proves only that it agrees with itself
// (specs/ledger.md, Keys).
type ReadFlags struct {
	Dir string
	Key string
}

// Register adds the flags to a command.
func (f *ReadFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Dir, "ledger", "", "folder of the ledger (default: FIADOR_LEDGER)")
	cmd.Flags().StringVar(&f.Key, "key", "", "verifier key of the ledger, or a file with this key (default: the keys that the ledger itself names)")
}

// Dir returns the folder of the ledger: dir, or FIADOR_LEDGER if dir is empty. No
// command searches for a ledger. Without either it is a usage error.
func Dir(a *cli.App, dir string) (string, error) {
	if dir = cmp.Or(dir, a.Env("FIADOR_LEDGER")); dir == "" {
		return "", cli.Usage("name it with --ledger or FIADOR_LEDGER", "which ledger?")
	}
	return filepath.Clean(dir), nil // without Clean, "link/" would be the target of the link
}

// Read opens a ledger for reading, up to its checkpoint. The caller closes it. It does
// not verify the entries.
func Read(a *cli.App, f ReadFlags) (*disk.Reader, error) {
	dir, err := Dir(a, f.Dir)
	if err != nil {
		return nil, err
	}
	key, err := f.Trusted()
	if err != nil {
		return nil, err
	}
	var trust []ledger.Verifier
	if key != nil {
		trust = append(trust, *key)
	}
	r, err := disk.Read(dir, trust...)
	if err != nil {
		return nil, Error(dir, err)
	}
	return r, nil
}

// Reading opens a ledger, calls do with it, and closes it. An error of do that is no
// RunError becomes the error of the ledger.
func Reading(a *cli.App, f ReadFlags, do func(*disk.Reader) error) error {
	r, err := Read(a, f)
	if err != nil {
		return err
	}
	defer r.Close()
	return Error(f.Name(a), do(r))
}

// Error returns the RUN_E006 for a ledger when a command cannot answer. It returns nil
// and a RunError as they are.
func Error(dir string, err error) error {
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	hint := Hint(err)
	if errors.Is(err, fs.ErrNotExist) {
		hint = runerr.NearFile(dir) + hint
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return runerr.New(result.CodeEvidence, "ledger "+strconv.Quote(screen.Path(dir))+": "+WithoutPaths(err, dir), hint, runerr.Because(err))
}

// Hint returns the remedy for an error of a ledger, or empty.
func Hint(err error) string {
	for _, h := range []struct {
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
		{disk.ErrNoLedger, "name the folder of a ledger, or make one with: fiador ledger init"},
		{disk.ErrNotFolder, "name the folder of a ledger, or make one with: fiador ledger init"},
		{fs.ErrNotExist, `name a folder that "fiador ledger init" has made, and that is whole`},
		{context.Canceled, "run it again"},
		{fs.ErrPermission, "use a folder and a key that this user may read and write"},
		{syscall.ENOSPC, "free some space; nothing was recorded"},
	} {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	return ""
}

// WithoutPaths returns the text of an error about a ledger. Files have their names in the
// ledger's folder, and names of system calls are left out.
func WithoutPaths(err error, dir string) string {
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

// Warn prints warnings about work after a record was written durably.
func Warn(a *cli.App, warnings []string) {
	for _, w := range warnings {
		a.Term.Warning(w)
	}
}

// Name returns the ledger's folder from the flags or the environment, for messages.
func (f ReadFlags) Name(a *cli.App) string {
	dir, _ := Dir(a, f.Dir)
	return dir
}

// Trusted returns the key of --key, or nil.
func (f ReadFlags) Trusted() (*ledger.Verifier, error) { return GivenKey("key", f.Key) }

// GivenKey returns the verifier key of a flag, or nil for an empty value.
func GivenKey(flag, text string) (*ledger.Verifier, error) {
	if text == "" {
		return nil, nil
	}
	k, err := VerifierKey(flag, text)
	return &k, err
}

// ReadSmall reads a regular file of at most most bytes.
func ReadSmall(name string, most int) ([]byte, error) {
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
