package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

const (
	folderWait = 2 * time.Second // for the lock of the folder
	blobsAside = 8               // blobs that are copied at a time
)

// imports is the import of a ledger from a folder. It has these steps, in this order:
//
//  1. take the lock of the folder and verify the ledger completely;
//  2. compare the log with it: the log must be empty or a beginning of it;
//  3. take the lock of the log, and note that an import goes on: nothing else writes to the
//     log until the import has ended;
//  4. copy the evidence, and add the entries that the log does not have, byte for byte;
//  5. wait until the tiles have them, and compare the root at the size of the folder with the
//     root of the folder's checkpoint;
//  6. mark the folder as moved: it takes no more records;
//  7. add the record that the key needs to sign, if any, and wait for a checkpoint over all;
//  8. write origin.json and remove the note of step 3: servers can start.
//
// An import that was killed after any step can be started again.
type imports struct {
	where
	folder string
	signer *ledger.Signer
	log    *printer

	source *disk.Reader
	size   int64
	root   tlog.Hash    // of the folder's checkpoint
	tree   ledger.Range // of the log, at the size of the folder
	keys   ledger.Keys
	store  storage.Storage
	writer *server.Writer // nil if the log had everything
	added  int64
	blobs  int
}

// importLedger moves a ledger from a folder to a log.
func importLedger(ctx context.Context, args []string, stdout io.Writer, log *printer) error {
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	m := &imports{log: log}
	m.where.flags(flags)
	address := flags.String("url", "", "")
	if len(args) == 0 {
		return fmt.Errorf("%w: the folder of the ledger is missing", errUsage)
	}
	if err := parse(flags, args[1:]); err != nil {
		return err
	}
	if err := checkAddress(*address); err != nil {
		return err
	}
	m.folder = args[0]
	var err error
	if m.signer, err = m.where.signer(m.key); err != nil {
		return err
	}
	err = disk.Move(ctx, m.folder, m.signer, *address, disk.Options{Now: time.Now, Wait: folderWait}, func(again bool) error { return m.copy(ctx, again) })
	if err == nil {
		err = m.complete()
	}
	if err = errors.Join(err, m.close()); err != nil {
		return fmt.Errorf("%s: %w", strconv.Quote(m.folder), err)
	}
	_, err = fmt.Fprintf(stdout, "%d entries, of which %d were added, with %d blobs of evidence; root %s\nthe folder takes no more records; use --ledger %s\n",
		m.size, m.added, m.blobs, m.root, *address)
	return err
}

// checkAddress says what is wrong with the URL that clients will use.
func checkAddress(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" {
		host := u.Hostname()
		if u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || net.ParseIP(host).IsLoopback()) {
			return nil
		}
	}
	return errors.New("--url is the https URL that clients will use, as https://log.example.com; http is for loopback alone")
}

// copy makes the log the same as the folder, whose lock is held. A folder that has moved before
// is not copied into another log.
func (m *imports) copy(ctx context.Context, again bool) error {
	if err := m.verify(ctx); err != nil {
		return err
	}
	var err error
	if m.source, err = disk.Read(m.folder); err != nil {
		return err
	}
	if err := m.readKeys(ctx); err != nil {
		return err
	}
	if m.store, err = m.open(storage.Imported(m.signer, m.keys), m.log); err != nil {
		return err
	}
	view := storage.NewView(m.store)
	has, err := m.store.Size()
	if err == nil {
		err = m.begins(ctx, view, has)
	}
	if err != nil {
		return err
	}
	whole, unfinished, err := m.state(has)
	switch {
	case err != nil:
		return err
	case whole:
		return m.compare()
	case again && !unfinished:
		return errors.New("the folder has moved before, and not into this log; name the storage of the log that has it")
	}
	m.writer = server.NewWriter(m.store, m.signer, time.Now, m.log, nil)
	if err := m.writer.TakeLead(); err != nil {
		return stopFirst(err)
	}
	if err := m.begins(ctx, &m.writer.Lead.Tree.Reading, m.writer.Lead.Claims.Count()); err != nil {
		return err
	}
	return m.fill(ctx)
}

// verify verifies the folder. Every line and every piece of evidence must be there, and the
// checkpoint must cover all.
func (m *imports) verify(ctx context.Context) error {
	a, err := disk.Audit(ctx, m.folder, nil, ledger.AuditOptions{Seals: true, Evidence: true})
	switch fault := (*ledger.Fault)(nil); {
	case errors.As(err, &fault):
		return fmt.Errorf("the ledger does not verify: %w; run: fiador ledger verify", err)
	case err != nil:
		return err
	case a.Unsigned || a.Torn > 0 || a.Unsynced() > 0:
		return errors.New("the checkpoint does not cover all of the ledger, because an append was interrupted; run: fiador ledger repair")
	case len(a.Absent) > 0:
		return fmt.Errorf("the evidence of entry %d is missing (%d in all); put it back from a copy", a.Absent[0], len(a.Absent))
	case len(a.Altered) > 0:
		return fmt.Errorf("the evidence of entry %d was changed (%d in all); put it back from a copy", a.Altered[0], len(a.Altered))
	case a.Keys.Now().String() != m.signer.Verifier().String():
		return fmt.Errorf("%w: it is %s, and the ledger's is %s", ledger.ErrWrongKey, m.signer.Verifier(), a.Keys.Now())
	}
	m.size, m.root, m.keys = a.Size, a.Checkpoint.Root, a.Keys
	return nil
}

// readKeys adds to each later key the seal of the record that names it.
func (m *imports) readKeys(ctx context.Context) error {
	for i := range m.keys[1:] {
		k := &m.keys[i+1]
		e, err := m.source.Entry(ctx, k.Size-2)
		if err != nil {
			return err
		}
		k.Note = e.Seal.Note(m.signer.Origin())
	}
	return nil
}

// begins says whether a log of a size has the entries of the folder, as far as both go.
func (m *imports) begins(ctx context.Context, log *storage.Reading, size int64) error {
	next, stop := iter.Pull2(m.source.Lines(ctx, 0))
	defer stop()
	_, err := storage.TreeOf(log, min(size, m.size), size, func(index int64, entry []byte) error {
		_, e, _ := next()
		if e.Err != nil {
			return e.Err
		}
		leaf, err := log.Leaf(index, size)
		if err != nil {
			return err
		}
		if !bytes.Equal(entry, e.Line.Entry) || leaf != ledger.LeafHash(entry) {
			return fmt.Errorf("the log is no beginning of the folder: entry %d is another one; name a new log", index)
		}
		return nil
	})
	return err
}

// state says whether an earlier import has ended: the log has all of the folder, and servers may
// have added to it. An unfinished one has at most the record of signable more.
func (m *imports) state(has int64) (whole, unfinished bool, err error) {
	_, err = m.store.Document(storage.NameImport)
	switch unfinished = err == nil; {
	case !unfinished && !errors.Is(err, fs.ErrNotExist):
		return false, false, err
	case !unfinished && !m.store.Who().Fresh && has >= m.size:
		return true, false, nil
	case has > m.size && (!unfinished || has > m.size+1 || m.keys[len(m.keys)-1].Size <= m.size):
		return false, unfinished, fmt.Errorf("the log has %d entries, and the folder %d: it is no beginning of the folder; name a new log", has, m.size)
	}
	return false, unfinished, nil
}

// fill adds to the log what it does not have.
func (m *imports) fill(ctx context.Context) error {
	note, err := m.keys.Marshal()
	if err == nil {
		err = m.store.SetDocument(storage.NameImport, note)
	}
	if err == nil {
		err = m.copyEvidence(ctx)
	}
	if err != nil {
		return err
	}
	var batch []claims.Item
	flush := func() error {
		m.added += int64(len(batch))
		err := m.writer.Record(batch)
		batch = batch[:0]
		return err
	}
	if here := m.writer.Lead.Claims.Count(); here < m.size {
		for _, e := range m.source.Lines(ctx, here) {
			if e.Err != nil {
				return e.Err
			}
			if batch = append(batch, claims.Item{Record: e.Record, Entry: e.Line.Entry}); len(batch) < claims.MaxBatch {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	size, err := m.writer.Lead.Tree.Size()
	if err != nil {
		return err
	}
	return m.sameRoot(size)
}

// copyEvidence copies the evidence of all decisions, and the sets of policies that it names.
func (m *imports) copyEvidence(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	blobs := make(chan ledger.Blob)
	sets := &sync.Map{}
	for range blobsAside {
		all.Go(func() {
			for b := range blobs {
				if err := m.copyBlob(b, sets); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, e := range m.source.Lines(ctx, 0) {
		if e.Err != nil {
			cancel(e.Err)
		}
		if ctx.Err() != nil {
			break
		}
		if e.Record.Kind == ledger.KindDecision {
			m.blobs++
			blobs <- e.Record.Evidence
		}
	}
	close(blobs)
	all.Wait()
	sets.Range(func(any, any) bool { m.blobs++; return true })
	return context.Cause(ctx)
}

// copyBlob copies the evidence of a decision, and the set of policies that it names unless it
// is in sets.
func (m *imports) copyBlob(b ledger.Blob, sets *sync.Map) error {
	content, err := m.source.Blob(b)
	if err == nil {
		err = m.store.PutBlob(b.SHA256, bytes.NewReader(content))
	}
	if err != nil {
		return err
	}
	set := ledger.PolicySet(content)
	if _, known := sets.LoadOrStore(set, true); known {
		return nil
	}
	if content, err = m.source.Blob(set); err != nil {
		return err
	}
	return m.store.PutBlob(set.SHA256, bytes.NewReader(content))
}

// compare does for a log that has everything what fill and complete do.
func (m *imports) compare() error {
	size, err := m.store.Size()
	if err == nil {
		err = m.sameRoot(size)
	}
	if err != nil {
		return err
	}
	return m.covered(size)
}

// sameRoot compares the trees of log and folder as they are stored now.
func (m *imports) sameRoot(size int64) (err error) {
	view := storage.NewView(m.store)
	m.tree, err = storage.TreeOf(view, m.size, size, func(index int64, entry []byte) error {
		leaf, err := view.Leaf(index, size)
		if err == nil && leaf != ledger.LeafHash(entry) {
			err = fmt.Errorf("entry %d of the log has not the hash of its tile", index)
		}
		return err
	})
	if err == nil && m.tree.Root() != m.root {
		err = fmt.Errorf("the log has another root at %d entries than the checkpoint of the folder; the folder stays as it is", m.size)
	}
	return err
}

// covered waits for a checkpoint over a number of entries, and holds it against all entries.
func (m *imports) covered(size int64) error {
	c, err := m.store.Who().Covered(m.store, size)
	if err != nil {
		return err
	}
	err = storage.NewView(m.store).Entries(m.size, c.Size, func(_ int64, entry []byte) error {
		m.tree.Append(ledger.LeafHash(entry), nil)
		return nil
	})
	if err == nil && m.tree.Root() != c.Root {
		err = errors.New("the entries of the log do not lead to the root of its checkpoint")
	}
	return err
}

// complete makes the log one that servers can open. The folder is marked as moved: only now the
// log may get an entry that the folder does not have.
func (m *imports) complete() error {
	if m.writer == nil {
		return nil
	}
	if err := m.writer.Signable(); err != nil {
		return err
	}
	if err := m.covered(m.writer.Lead.Claims.Count()); err != nil {
		return err
	}
	if err := m.store.Who().Write(m.store); err != nil {
		return err
	}
	return m.store.SetDocument(storage.NameImport, nil)
}

// close gives back the right to write.
func (m *imports) close() (err error) {
	if m.source != nil {
		err = m.source.Close()
	}
	if m.writer != nil {
		err = errors.Join(err, m.writer.GiveUp())
	}
	return err
}
