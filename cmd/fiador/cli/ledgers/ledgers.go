// Package ledgers opens the ledger that a command line names, to read it or to record in it.
// It owns the flags of ledgers and of their keys, and the words for errors of ledgers.
package ledgers

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/ledger/remote"
)

// ReadFlags name a ledger to read, and the key to trust. Without a key the ledger is
// trusted to name its own keys: it then proves only that it agrees with itself
// (specs/ledger.md, Keys).
type ReadFlags struct {
	Dir   string
	Key   string
	cover time.Duration // how long to wait for a server's checkpoint; 0: the default
	Of    string        // the other copy: of two servers the second is held against the first, and not against what this machine remembers
	alien bool          // the user has not named the server: it gets no token
}

// Kept returns the flags for the ledger that a file of a store names. named and key are what the
// user names; the variables count where they are empty. A server that the user does not name
// gets no token, and none is believed with another key than the user's.
func Kept(a *cli.App, kept ReadFlags, named, key string) (ReadFlags, error) {
	if !remote.Named(kept.Dir) {
		return kept, nil
	}
	kept.alien = kept.Dir != cmp.Or(named, a.Env("FIADOR_LEDGER"))
	own, err := GivenKey("FIADOR_LEDGER_KEY", cmp.Or(key, a.Env("FIADOR_LEDGER_KEY")))
	if err == nil && own != nil && own.String() != kept.Key { // of a folder it is the private key
		return kept, cli.Unfit("put the key of that ledger into FIADOR_LEDGER_KEY, or unset it", "the store names the ledger %s with another key than FIADOR_LEDGER_KEY", Shown(kept.Dir))
	}
	return kept, nil
}

// Register adds the flags to a command.
func (f *ReadFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Dir, "ledger", "", "folder or URL of the ledger (default: FIADOR_LEDGER)")
	cmd.Flags().StringVar(&f.Key, "key", "", "verifier key of the ledger, or a file with it (default: for a URL FIADOR_LEDGER_KEY, for a folder the keys that it names)")
}

// Dir returns the folder or the URL of the ledger: dir, or FIADOR_LEDGER if dir is empty.
// No command searches for a ledger. Without either it is a usage error.
func Dir(a *cli.App, dir string) (string, error) {
	if dir = cmp.Or(dir, a.Env("FIADOR_LEDGER")); dir == "" {
		return "", cli.Usage("name it with --ledger or FIADOR_LEDGER", "which ledger?")
	}
	if remote.Named(dir) {
		return dir, nil
	}
	return filepath.Clean(dir), nil // without Clean, "link/" would be the target of the link
}

// Read opens a ledger for reading, up to its checkpoint. The caller closes it. It does
// not verify the entries.
func Read(ctx context.Context, a *cli.App, f ReadFlags) (ledger.Source, error) {
	dir, err := Dir(a, f.Dir)
	if err != nil {
		return nil, err
	}
	key, err := f.Trusted()
	if err != nil {
		return nil, err
	}
	if remote.Named(dir) {
		p, err := place(a, dir, key)
		if err != nil {
			return nil, err
		}
		if p.Cover, p.Copy = f.cover, remote.Named(f.Of); f.alien {
			p.Token = ""
		}
		r, err := remote.Read(ctx, p)
		if err != nil {
			return nil, Error(dir, err)
		}
		pending(a, r.Pending())
		return r, nil
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

// place returns the place of a log on a server. Without a key it is the one of
// FIADOR_LEDGER_KEY.
func place(a *cli.App, url string, key *ledger.Verifier) (remote.Place, error) {
	if _, err := remote.ParseURL(url); err != nil {
		return remote.Place{}, cli.Usage("name it as https://HOST/PATH; http is for servers on this machine", "--ledger: %s", err)
	}
	if key == nil {
		var err error
		if key, err = GivenKey("FIADOR_LEDGER_KEY", a.Env("FIADOR_LEDGER_KEY")); err != nil {
			return remote.Place{}, err
		}
	}
	if key == nil {
		return remote.Place{}, cli.Usage("give the verifier key of the log, which its operator has published", "which key does the ledger %s have?", Shown(url))
	}
	token := a.Env("FIADOR_LEDGER_TOKEN")
	if b, err := base64.RawURLEncoding.DecodeString(token); token != "" && (err != nil || len(b) != 32) {
		return remote.Place{}, cli.Usage("it is one line of 43 characters, as \"fiador-ledgerd token\" prints it", "FIADOR_LEDGER_TOKEN is no token")
	}
	state, err := cli.StateFolder(a)
	return remote.Place{URL: url, Key: *key, Token: token, State: filepath.Join(state, "ledgers")}, err
}

// Audit verifies a ledger.
func Audit(ctx context.Context, a *cli.App, f ReadFlags, o ledger.AuditOptions) (ledger.Audited, error) {
	dir, err := Dir(a, f.Dir)
	if err != nil {
		return ledger.Audited{}, err
	}
	key, err := f.Trusted()
	if err != nil {
		return ledger.Audited{}, err
	}
	if !remote.Named(dir) {
		return disk.Audit(ctx, dir, key, o)
	}
	if o.Seals {
		return ledger.Audited{}, cli.Unfit("leave --all-seals out", "the entries of a server have no seals: its checkpoint covers them")
	}
	p, err := place(a, dir, key)
	if err != nil {
		return ledger.Audited{}, err
	}
	audited, err := remote.Audit(ctx, p, o)
	pending(a, audited.Pending)
	return audited, err
}

// pending warns of entries that a server has acknowledged and that no checkpoint covers.
func pending(a *cli.App, n int) {
	if n > 0 {
		a.Term.Warning(screen.Count(n, "acknowledged record") + " of this machine: no checkpoint covers it yet")
	}
}

// Reading opens a ledger, calls do with it, and closes it. An error of do that is no
// RunError becomes the error of the ledger.
func Reading(ctx context.Context, a *cli.App, f ReadFlags, do func(ledger.Source) error) error {
	r, err := Read(ctx, a, f)
	if err != nil {
		return err
	}
	defer r.Close()
	return Error(f.Name(a), do(r))
}

// Accuses makes 1 the exit status of a command that reads a ledger and finds that the ledger
// does not keep what it has promised.
func Accuses(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if ledger.Broken(err) {
			cmd.Annotations = map[string]string{cli.FailsWith: strconv.Itoa(cli.ExitRejected)}
		}
		return err
	}
}

// Error returns the RUN_E006 for a ledger when a command cannot answer. It returns nil
// and a RunError as they are.
func Error(dir string, err error) error {
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	hint := Hint(err)
	switch {
	case remote.Named(dir) && ledger.Broken(err):
		hint = "keep the signed notes, and ask the operator of the server: the log does not keep what it has promised"
	case errors.Is(err, fs.ErrNotExist) && !remote.Named(dir):
		hint = runerr.NearFile(dir) + hint
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return runerr.New(result.CodeEvidence, "ledger "+strconv.Quote(Shown(dir))+": "+WithoutPaths(err, dir), hint, runerr.Because(err))
}

// Shown returns the name of a ledger for messages: a URL without a user and a query, and a
// folder without its place on this machine.
func Shown(name string) string {
	if !remote.Named(name) {
		return screen.Path(name)
	}
	if a, b, two := strings.Cut(name, " and "); two {
		return Shown(a) + " and " + Shown(b)
	}
	if _, err := remote.ParseURL(name); err != nil {
		return "of the URL"
	}
	return canon.Clean(name)
}

// Hint returns the remedy for an error of a ledger, or empty.
func Hint(err error) string {
	if moved := (*disk.Moved)(nil); errors.As(err, &moved) {
		return moved.Remedy()
	}
	for _, h := range []struct {
		err  error
		hint string
	}{
		{disk.ErrPoisoned, `free the disk and run "fiador ledger repair"`},
		{ledger.ErrTruncated, "restore the entries that are missing from a copy; nothing is appended to a ledger that lost any"},
		{ledger.ErrForked, `run "fiador ledger compare" with a copy, and keep the one that the receipts fit`},
		{ledger.ErrTampered, `run "fiador ledger verify": it names the entry`},
		{ledger.ErrWrongKey, `use the key that "fiador ledger rotate-key" made last`},
		{disk.ErrBusy, "end the process that holds it, or wait for it; the lock ends with the process"},
		{ledger.ErrConflict, "choose another --run-id: a run id stands for one run"},
		{ledger.ErrEnded, "choose another --run-id: that run has ended"},
		{remote.ErrPending, "wait for the next checkpoint of the server, and run it again"},
		{remote.ErrNoToken, "name that ledger with FIADOR_LEDGER, and put the token of this client into FIADOR_LEDGER_TOKEN"},
		{remote.ErrToken, "put the token of this client into FIADOR_LEDGER_TOKEN"},
		{remote.ErrForbidden, "ask the operator of the server for a token that may do this"},
		{remote.ErrUnreachable, "look at the URL, the network and the server, and run it again"},
		{ledger.ErrAnswer, "ask the operator of the server what stands at that URL; nothing that it said was believed"},
		{remote.ErrRefused, "ask the operator of the server"},
		{ledger.ErrUnknownKey, "give the ledger's verifier key with --key, or with --ledger-key where a command has that"},
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
