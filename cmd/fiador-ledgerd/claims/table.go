package claims

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Table has the claims of a log in a database. A claim is a row with the index that its
// entry is going to get. FiadorLog.settled says how many of them the log has for certain; it is
// written with the next claims. Rows behind it are open.
type Table struct {
	db    *sql.DB
	epoch int64
	lose  func() error // is called when another server has a higher epoch

	placed  atomic.Int64 // claims that have an index
	latest  string
	doubted atomic.Bool // a claim is not what the log has; a reader may find that too
}

// InTable returns the claims of the log in a database, for the writer of an epoch. lose is called
// when another one has a higher epoch, and says so; who writes nothing needs neither.
func InTable(db *sql.DB, epoch int64, lose func() error) *Table {
	return &Table{db: db, epoch: epoch, lose: lose}
}

// Count implements Store.
func (c *Table) Count() int64 { return c.placed.Load() }

// Last implements Store.
func (c *Table) Last() string { return c.latest }

// Close implements Store.
func (c *Table) Close() error { return nil }

// Doubt implements Store.
func (c *Table) Doubt() { c.doubted.Store(true) }

// Load looks at the number of claims and at the last one. If they are not those of the log, or
// if a claim is in doubt, it begins at the first entry, and the writer makes all claims again.
func (c *Table) Load(size int64, log Log) (open []Item, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*QueryTime)
	defer cancel()
	var settled, rows int64
	var latest string
	if err := c.db.QueryRowContext(ctx, "SELECT settled, latest FROM FiadorLog WHERE id = 0").Scan(&settled, &latest); err != nil {
		return nil, err
	}
	if settled > size {
		return nil, fmt.Errorf("the log has %d entries, and the claims know %d: an old copy of the log was put back; put database and bucket back from one time", size, settled)
	}
	if err := c.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM FiadorClaims WHERE idx < ?", settled).Scan(&rows); err != nil {
		return nil, err
	}
	doubted := c.doubted.Load()
	sound := !doubted && rows == settled
	if sound && settled > 0 {
		var leaf []byte
		if err := c.db.QueryRowContext(ctx, "SELECT leaf FROM FiadorClaims WHERE idx = ?", settled-1).Scan(&leaf); err != nil {
			return nil, err
		}
		h, err := log.Leaf(settled-1, size)
		if err == nil && [tlog.HashSize]byte(h) != toHash(leaf) {
			err, sound = log.Holds(settled-1, size), false
		}
		if err != nil {
			return nil, err
		}
	}
	if open, err = c.behind(settled, size, log); err != nil {
		return nil, err
	}
	if !sound {
		settled, latest = 0, ""
	}
	c.placed.Store(settled)
	c.latest = latest
	c.doubted.CompareAndSwap(doubted, false)
	return open, nil
}

func toHash(b []byte) (h [tlog.HashSize]byte) { copy(h[:], b); return h }

// behind returns the claims from an index on that are not those of the log there. When all
// claims are being made again, most of them are; it reads a page at a time.
func (c *Table) behind(index, size int64, log Log) (open []Item, err error) {
	for len(open) < maxOpen {
		page, whole, err := c.page(index)
		if err != nil {
			return nil, err
		}
		for _, row := range page {
			if row.index < size {
				h, err := log.Leaf(row.index, size)
				if err != nil {
					return nil, err
				}
				if h == row.leaf {
					continue
				}
			}
			it, err := ParseItem(row.entry)
			if err != nil {
				return open, nil
			}
			open = append(open, it)
		}
		if !whole {
			break
		}
		index = page[len(page)-1].index + 1
	}
	return open, nil
}

const (
	QueryTime = 10 * time.Second // for a query of a database

	pageRows = 4 * MaxBatch
	maxOpen  = 4 * MaxBatch // a server leaves at most a batch that the log does not have
)

// row is a claim as it is stored.
type row struct {
	index int64
	leaf  tlog.Hash
	entry []byte
}

// page reads claims from an index on, and says whether there may be more.
func (c *Table) page(index int64) (list []row, whole bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), QueryTime)
	defer cancel()
	rows, err := c.db.QueryContext(ctx, "SELECT idx, leaf, entry FROM FiadorClaims WHERE idx >= ? ORDER BY idx LIMIT ?", index, pageRows)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var leaf []byte
		if err := rows.Scan(&r.index, &leaf, &r.entry); err != nil {
			return nil, false, err
		}
		r.leaf = toHash(leaf)
		list = append(list, r)
	}
	return list, len(list) == pageRows, rows.Err()
}

// Of reads all runs at once. A byte-identical repeat of an entry is left out.
func (c *Table) Of(runIDs []string) (map[string][]Entry, error) {
	found := map[string][]Entry{}
	if len(runIDs) == 0 {
		return found, nil
	}
	args := make([]any, 0, len(runIDs)+1)
	for _, run := range runIDs {
		key := keyOf(run)
		args = append(args, key[:])
	}
	args = append(args, c.Count())
	ctx, cancel := context.WithTimeout(context.Background(), QueryTime)
	defer cancel()
	rows, err := c.db.QueryContext(ctx, "SELECT idx, entry FROM FiadorClaims WHERE run IN ("+placeholders("?", len(runIDs))+") AND idx < ? ORDER BY idx", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var text []byte
		if err := rows.Scan(&e.Index, &text); err != nil {
			return nil, err
		}
		if e.Item, err = ParseItem(text); err != nil {
			c.Doubt()
			return nil, fmt.Errorf("the claim of entry %d was changed: %w", e.Index, err)
		}
		run := e.Record.RunID
		if !slices.ContainsFunc(found[run], func(o Entry) bool { return string(o.Entry) == string(e.Entry) }) {
			found[run] = append(found[run], e)
		}
	}
	return found, rows.Err()
}

// Indexes implements Store.
func (c *Table) Indexes(runID string) ([]int64, error) {
	found, err := c.Of([]string{runID})
	list := []int64{}
	for _, e := range found[runID] {
		list = append(list, e.Index)
	}
	return list, err
}

// Write writes claims in one transaction, and with them how many the log has. The row that it
// changes first is locked until its end, and says whether another server writes now.
func (c *Table) Write(items []Item) error {
	ctx, cancel := context.WithTimeout(context.Background(), QueryTime)
	defer cancel()
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTakenBack, err)
	}
	first := c.Count()
	result, err := tx.ExecContext(ctx, "UPDATE FiadorLog SET settled = ?, latest = ? WHERE id = 0 AND epoch = ?", first, c.latest, c.epoch)
	if err == nil {
		var rows int64
		if rows, err = result.RowsAffected(); err == nil && rows != 1 {
			err = c.lose()
		}
	}
	if err == nil {
		args := make([]any, 0, 4*len(items))
		for i, it := range items {
			key, leaf := keyOf(it.Record.RunID), ledger.LeafHash(it.Entry)
			args = append(args, first+int64(i), key[:], leaf[:], it.Entry)
		}
		_, err = tx.ExecContext(ctx, "REPLACE INTO FiadorClaims (idx, run, leaf, entry) VALUES "+placeholders("(?,?,?,?)", len(items)), args...)
	}
	if err != nil {
		_ = tx.Rollback() // a connection that ends is rolled back too
		return fmt.Errorf("%w: %w", ErrTakenBack, err)
	}
	return tx.Commit() // after an error nobody knows; the writer looks
}

// Settled implements Store.
func (c *Table) Settled(items []Item) error {
	for _, it := range items {
		c.latest = max(c.latest, it.Record.Timestamp)
	}
	c.placed.Add(int64(len(items)))
	return nil
}

// Fit compares the leaf hashes of all claims up to a size.
func (c *Table) Fit(size int64, log Log) (fit int64, err error) {
	rows, err := c.db.Query("SELECT leaf FROM FiadorClaims WHERE idx < ? ORDER BY idx", size)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var leaf []byte
		if err := rows.Scan(&leaf); err != nil {
			return 0, err
		}
		if h, err := log.Leaf(fit, size); err != nil || toHash(leaf) != [32]byte(h) {
			return fit, err
		}
		fit++
	}
	return fit, rows.Err()
}

// placeholders returns n times the text, with commas.
func placeholders(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", n), ",")
}
