package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/transparency-dev/tessera/api/layout"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
)

// checker says what it finds about a log, a line each.
type checker struct {
	out io.Writer
	bad int // findings that stop the log, or show that it is damaged
}

// OK says what is right, and note what a person should know.
func (c *checker) OK(what, format string, args ...any)   { c.line("ok  ", what, format, args) }
func (c *checker) Note(what, format string, args ...any) { c.line("note", what, format, args) }

// Fault says what is wrong, with a remedy.
func (c *checker) Fault(what, format string, args ...any) {
	c.bad++
	c.line("BAD ", what, format, args)
}

func (c *checker) line(word, what, format string, args []any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	fmt.Fprintf(c.out, "%s  %-10s  %s\n", word, what, text)
}

// checkLog says what it finds about a log. It changes nothing, and works beside a server.
func checkLog(args []string, stdout io.Writer, log *printer, now func() time.Time) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	var w where
	w.flags(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	signer, err := w.signer(w.key)
	if err != nil {
		return err
	}
	c := &checker{out: stdout}
	store, err := w.look(storage.Looking(signer), log)
	switch {
	case errors.Is(err, storage.ErrNoLog) && w.posix != "":
		storage.InspectParent(w.posix, c)
	case err != nil:
		return err
	default:
		store.Inspect(c)
		c.identity(store)
		if !store.Who().Fresh {
			c.entries(store, now)
		}
	}
	if c.bad > 0 {
		return fmt.Errorf("findings that are bad: %d", c.bad)
	}
	return nil
}

// identity compares the key with origin.json.
func (c *checker) identity(store storage.Storage) {
	d := store.Who()
	own := d.Signer.Verifier().String()
	if _, err := store.Document(storage.NameImport); err == nil {
		c.Fault("import", "an import into this log has not ended: run the same import again")
	} else if !errors.Is(err, fs.ErrNotExist) {
		c.Fault("import", "%v", err)
	}
	if err := storage.Contradicted(store); err != nil {
		c.Fault("witness", "%v", err)
	}
	switch planned, err := d.Planned(store); {
	case err != nil:
		c.Fault("rotation", "%v", err)
	case planned != nil:
		c.Note("rotation", "a rotation was interrupted: run it again, or start a server with either key, which says which one it needs")
	}
	switch {
	case d.Fresh:
		c.Note("origin", "there is no log yet; fiador-ledgerd serve makes it")
	case d.Keys.Origin() != d.Signer.Origin():
		c.Fault("origin", "origin.json is of the log %q, and the key of %q: name the storage of this log", d.Keys.Origin(), d.Signer.Origin())
	case d.Keys.Now().String() != own:
		c.Fault("key", "origin.json says that another key signs now: %s; use the private key that belongs to it", d.Keys.Now())
	default:
		c.OK("key", "it signs for %q, from %d entries on, as origin.json says", d.Signer.Origin(), d.Keys[len(d.Keys)-1].Size)
	}
}

const firstEntry = 5 * time.Second // the wait for the tiles of a new log

// entries reads the whole log, up to the size that it has now.
func (c *checker) entries(store storage.Storage, now func() time.Time) {
	note, noteErr := store.Resource(layout.CheckpointPath) // before the size, which is then not smaller
	size, err := store.Size()
	for end := time.Now().Add(firstEntry); err == nil && size == 0 && time.Now().Before(end); size, err = store.Size() {
		time.Sleep(20 * time.Millisecond) // the first entry is perhaps in no tile yet
	}
	if err == nil && size == 0 {
		err = errors.New("it has none, and origin.json says that it had: put the log back from a copy")
	}
	if err != nil {
		c.Fault("entries", "%v", err)
		return
	}
	var promise ledger.Checkpoint
	if noteErr == nil {
		if promise, noteErr = ledger.ParseCheckpoint(note); noteErr == nil && promise.Size > 0 {
			promise, noteErr = store.Who().Keys.OpenCheckpoint(note)
		}
	}
	var tree ledger.Range
	var keys ledger.Keys
	var last ledger.Record
	rooted := false
	view := storage.NewView(store)
	err = view.Entries(0, size, func(index int64, entry []byte) error {
		rec, err := ledger.ParseRecord(entry)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if k, err := ledger.ParseVerifier(rec.Key); err == nil {
			keys = append(keys, ledger.KeyFrom{Size: ledger.FirstSize(index), Key: k})
		}
		if tree.Append(ledger.LeafHash(entry), nil); tree.Size == promise.Size {
			rooted = tree.Root() == promise.Root
		}
		last = rec
		return nil
	})
	if err != nil {
		c.Fault("entries", "%v; put the log back from one copy", err)
		return
	}
	c.OK("entries", "%d entries can be read", size)
	c.checkpoint(promise, noteErr, size, rooted)
	c.clock(last, now()) // a server may have written until then
	c.records(store, keys, size)
	c.claims(store, size, view)
}

// checkpoint says whether the checkpoint fits the entries.
func (c *checker) checkpoint(promise ledger.Checkpoint, noteErr error, size int64, rooted bool) {
	switch {
	case errors.Is(noteErr, fs.ErrNotExist) || noteErr == nil && promise.Size == 0:
		c.Note("checkpoint", "there is none yet; a server signs one")
	case noteErr != nil:
		c.Fault("checkpoint", "%v", noteErr)
	case promise.Size > size:
		c.Fault("checkpoint", "it promises %d entries, and the log has %d: an old copy was put back; put the newest back", promise.Size, size)
	case !rooted:
		c.Fault("checkpoint", "the entries do not lead to its root at %d entries: put the log back from one copy", promise.Size)
	default:
		c.OK("checkpoint", "its root is the one of the first %d entries; %d wait for the next one", promise.Size, size-promise.Size)
	}
}

// clock compares the clock with the last entry.
func (c *checker) clock(last ledger.Record, now time.Time) {
	switch behind := last.Time().Sub(now); {
	case last.Timestamp == "":
	case behind > time.Second:
		c.Fault("clock", "it says %s, and the last entry is of %s: set the clock, or every record says how far it is behind", ledger.Timestamp(now), last.Timestamp)
	default:
		c.OK("clock", "it says %s, and the last entry is of %s", ledger.Timestamp(now), last.Timestamp)
		if last.ClockBehindMS > 0 {
			c.Note("clock", "it was %d ms behind at the last entry", last.ClockBehindMS)
		}
	}
}

// records compares the keys that the records of a log of a size name with origin.json, or with
// what it becomes when a rotation is ended. A server may have added the last key meanwhile.
func (c *checker) records(store storage.Storage, named ledger.Keys, size int64) {
	has := store.Who().Keys
	for len(has) > 0 && has[len(has)-1].Size > size+1 {
		has = has[:len(has)-1]
	}
	planned, err := store.Who().Planned(store)
	if sameKeys(has, named) || err == nil && sameKeys(planned, named) {
		return
	}
	c.Fault("origin", "origin.json has %d keys for these entries, and the records name %d or other ones: put origin.json back from a copy", len(has), len(named))
}

func sameKeys(a, b ledger.Keys) bool {
	return slices.EqualFunc(a, b, func(a, b ledger.KeyFrom) bool { return a.Size == b.Size && a.Key.String() == b.Key.String() })
}

// claims compares the claims with the log.
func (c *checker) claims(store storage.Storage, size int64, log claims.Log) {
	fit, err := store.Claimed(size, log)
	switch {
	case err != nil:
		c.Fault("claims", "%v", err)
	case fit < size:
		c.Fault("claims", "they fit the log up to entry %d, of %d: a part was lost or changed; the next start makes them again from the log", fit, size)
	default:
		c.OK("claims", "all %d entries have their claims", size)
	}
}
