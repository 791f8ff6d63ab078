// Package packs opens, writes and verifies the run packs that a command line names. It owns
// the flags of keys that authenticate a pack, and how the result for a pack is shown.
package packs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/links"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
)

// Open begins the pack of a run before any decision, so that an unusable folder is
// reported first (specs/pack.md, Writing). It returns nil if dir is empty. The caller
// calls Abort in the end, which does nothing once the pack is in place.
func Open(dir string) (*pack.Writer, error) {
	if dir == "" {
		return nil, nil
	}
	w, err := pack.Create(dir)
	switch {
	case errors.Is(err, pack.ErrNotEmpty):
		return nil, cli.Usage("name a new or an empty folder", "--pack %q is not an empty folder", screen.Path(dir))
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usage("name a new folder in one that is there", "--pack %q: there is no folder %q", canon.Clean(dir), canon.Clean(filepath.Dir(filepath.Clean(dir))))
	case errors.Is(err, syscall.EBUSY):
		return nil, cli.Usage("name a new folder in it", "--pack %q is a mount point, which a pack cannot take the place of", canon.Clean(dir))
	case err != nil:
		return nil, cli.Usage("name a new folder in one that is there and can be written", "--pack %q: %s", canon.Clean(dir), runerr.Reason(err))
	}
	return w, nil
}

// Sink returns the sink for the pack of a run, or nil without a pack. Ready is asked
// right before the pack takes its place: a link that was planted meanwhile is refused.
func Sink(a *cli.App, w *pack.Writer, f ledgers.RecordFlags, prove ledgers.Prove, dir string) *harness.PackSink {
	if w == nil {
		return nil
	}
	return &harness.PackSink{
		Folder: w,
		Ledger: func(ctx context.Context, files map[string][]byte, begun, end ledger.Receipt) error {
			lines, err := linesOf(ctx, a, f, begun, end)
			if err != nil {
				return err
			}
			receipt, err := prove(ctx, end)
			if err != nil {
				return err
			}
			meta, _, err := canon.Artifact(struct {
				Receipt string `json:"receipt"`
			}{string(receipt)})
			files[pack.LedgerFile], files[pack.MetaFile] = lines, meta
			return err
		},
		Ready: func() error {
			_, err := links.Place(dir, a.Guarded)
			if planted, ok := errors.AsType[*links.PlantedError](err); ok {
				return cli.LeadsThrough(planted, "--pack", dir)
			}
			return nil
		},
		Fault: func(err error) error { return packWritten(dir, err) },
	}
}

// packWritten returns the RunError for a pack that could not be written, and nil for nil.
func packWritten(dir string, err error) error {
	if err == nil {
		return nil
	}
	return runerr.New(result.CodeEvidence, "the pack "+strconv.Quote(canon.Clean(dir))+" could not be written: "+runerr.Reason(err),
		"name a new folder with room in one that can be written", runerr.File(screen.Path(dir)), runerr.Because(err))
}

// linesOf returns the run's lines of the ledger. The receipts of a server have the entries, which
// fit their acks and have no seals.
func linesOf(ctx context.Context, a *cli.App, f ledgers.RecordFlags, begun, end ledger.Receipt) (lines []byte, err error) {
	if end.Ack != nil {
		for _, r := range []ledger.Receipt{begun, end} {
			if r.Ack == nil {
				continue // nothing was executed
			}
			entry, err := r.Record.Entry()
			if err != nil {
				return nil, err
			}
			lines = append(append(lines, entry...), '\n')
		}
		return lines, nil
	}
	err = ledgers.Reading(ctx, a, f.Reading(a), func(r ledger.Source) error {
		list, err := r.Find(ctx, end.Record.RunID, false)
		if err != nil {
			return err
		}
		for _, i := range list {
			e, err := r.Entry(ctx, i)
			if err != nil {
				return err
			}
			lines = e.Line.Append(lines)
		}
		return nil
	})
	return lines, err
}

// resolved is a profile and its hash. The zero value is no profile.
type resolved struct {
	profile *kernel.Profile
	digest  canon.ContentHash
}

// resolvedOf returns a profile with the hash of its canonical bytes.
func resolvedOf(p *kernel.Profile) resolved {
	_, sum, _ := canon.Artifact(*p)
	return resolved{p, sum}
}

// Options returns the options that check a pack against the profile of its RunResult:
// the given profile, or a built-in one. A built-in profile is resolved at its first use.
func Options(a *cli.App, given *kernel.Profile) verify.Options {
	known := map[string]func() resolved{}
	for _, name := range profiles.Names() {
		known[name] = sync.OnceValue(func() resolved {
			p, err := profile.Load(profiles.FS(), name, a.Specs)
			if err != nil {
				return resolved{}
			}
			return resolvedOf(&p)
		})
	}
	named := func(name string) resolved {
		if resolve := known[name]; resolve != nil {
			return resolve()
		}
		return resolved{}
	}
	if given != nil {
		one := resolvedOf(given)
		named = func(string) resolved { return one }
	}
	return verify.Options{
		Level:  pack.Strict,
		Whole:  func(name string) *kernel.Profile { return named(name).profile },
		Digest: func(name string) canon.ContentHash { return named(name).digest },
		Profile: func(name string) *kernel.PolicyProfile {
			if p := named(name).profile; p != nil {
				return new(p.Contract())
			}
			return nil
		},
	}
}

// packReason says why a pack could not be read, and names the file at fault.
func packReason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && slices.Contains(pack.Names(), pe.Path) {
		return pe.Path + ": " + runerr.Reason(err)
	}
	return runerr.Reason(err)
}

// ReadUnder reads a pack and the profile that a flag names. given is nil for an empty
// profile.
func ReadUnder(a *cli.App, profile, name string) (p *pack.Pack, given *kernel.Profile, err error) {
	if given, err = policies.GivenProfile(a, profile); err == nil {
		p, err = Read(a, name)
	}
	return p, given, err
}

// Read reads the pack that an argument names: a folder, an archive, or - for an archive
// on standard input. It verifies nothing. A pack that cannot be read is a RUN_E006.
func Read(a *cli.App, name string) (*pack.Pack, error) {
	var p *pack.Pack
	var err error
	if name == "-" {
		p, err = pack.ReadArchive(a.Stdin)
	} else {
		p, err = pack.Open(name)
	}
	if err != nil {
		e := runerr.New(result.CodeEvidence, "pack "+strconv.Quote(canon.Clean(name))+" could not be read: "+packReason(err),
			"name a folder that fiador run --pack wrote, or an archive of one", runerr.File(screen.Path(name)), runerr.Because(err))
		if info, failed := os.Stat(name); failed == nil && info.Mode().IsRegular() && info.Size() <= canon.MaxIntentBytes {
			text, _ := os.ReadFile(name)
			doc, _ := canon.Parse(text, canon.MaxIntentBytes)
			runerr.Text{Name: screen.Path(name)}.Named(e, "a pack", "", doc.Value())
		}
		return nil, e
	}
	return p, nil
}
