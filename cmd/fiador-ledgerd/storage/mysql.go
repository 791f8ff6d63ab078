package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-sql-driver/mysql"
	taws "github.com/transparency-dev/tessera/storage/aws"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
	"github.com/fiador/fiador/ledger"
)

const (
	watchEvery = time.Second             // the lock is looked at so often
	idleInPool = 3500 * time.Millisecond // of a connection, before the database ends it
	lockWait   = 8                       // seconds of a statement for a row that another one has
	lateEvery  = time.Second             // Tessera signs checkpoints of a database not more often
)

// envPassword has the password of a DSN that has none, so that it is in no list of processes.
const envPassword = "FIADOR_LEDGERD_MYSQL_PASSWORD"

// Database is a storage in MySQL, with tiles and evidence in a bucket. Tessera keeps the order
// of the entries in the same database.
type Database struct {
	Identity
	*bucket
	config *mysql.Config
	db     *sql.DB
	epoch  int64                  // of this writer
	origin atomic.Pointer[[]byte] // origin.json as it was read last
}

// The tables of a log besides those of Tessera. The row of FiadorLog says how many leading
// claims have an index for certain, and the highest time of these. A claim has the index that
// its entry is going to get.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS FiadorLog (id TINYINT PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, settled BIGINT UNSIGNED NOT NULL, latest VARCHAR(32) NOT NULL) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS FiadorDocuments (name VARCHAR(64) PRIMARY KEY, text MEDIUMBLOB NOT NULL) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS FiadorClaims (idx BIGINT UNSIGNED PRIMARY KEY, run BINARY(16) NOT NULL, leaf BINARY(32) NOT NULL, entry BLOB NOT NULL, KEY (run)) ENGINE=InnoDB`,
	`INSERT IGNORE INTO FiadorLog VALUES (0, 0, 0, '')`,
}

// OpenDatabase opens a log, or makes its tables.
func OpenDatabase(dsn, s3 string, id Identity) (*Database, error) {
	return connectDatabase(dsn, s3, id, func(ctx context.Context, db *sql.DB) error {
		for i, table := range tables {
			if i == 0 && hasTables(ctx, db) == nil {
				break // the tables are there
			}
			if _, err := db.ExecContext(ctx, table); err != nil {
				return fmt.Errorf("the database: %w", err)
			}
		}
		return nil
	})
}

// LookDatabase opens a log that is there.
func LookDatabase(dsn, s3 string, id Identity) (*Database, error) {
	return connectDatabase(dsn, s3, id, func(ctx context.Context, db *sql.DB) error {
		err := hasTables(ctx, db)
		if id.checking && errors.Is(err, ErrNoLog) {
			err = nil // the rest can be looked at
		}
		return err
	})
}

// hasTables says whether the tables of a log are there.
func hasTables(ctx context.Context, db *sql.DB) error {
	var have int
	err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM FiadorLog").Scan(&have)
	if noTable(err) || err == nil && have != 1 {
		err = ErrNoLog
	}
	return err
}

// noTable says whether a query failed because a table is not there.
func noTable(err error) bool {
	var known *mysql.MySQLError
	return errors.As(err, &known) && known.Number == 1146
}

// connectDatabase opens a log after do has prepared its database.
func connectDatabase(dsn, s3 string, id Identity, do func(context.Context, *sql.DB) error) (*Database, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	d := &Database{Identity: id, config: config}
	if d.db, err = d.open(IdleSession); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	if err = do(ctx, d.db); err == nil {
		d.bucket, err = openBucket(s3)
	}
	if err == nil {
		err = d.Identity.read(d, false)
	}
	if err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	return d, nil
}

// parseDSN reads a DSN. Its errors show nothing of it.
func parseDSN(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil || c.DBName == "" || c.Net != "tcp" && c.Net != "unix" {
		return nil, errors.New("--mysql is USER@tcp(HOST:PORT)/DATABASE?tls=true, or USER@unix(SOCKET)/DATABASE; the password is in " + envPassword)
	}
	host, _, _ := net.SplitHostPort(c.Addr)
	ip, err := netip.ParseAddr(host)
	away := c.Net == "tcp" && host != "localhost" && (err != nil || !ip.IsLoopback())
	if away && (c.TLSConfig == "preferred" || c.TLSConfig == "skip-verify") {
		return nil, errors.New("--mysql names another machine and a tls that anybody between can end: use ?tls=true")
	}
	if away && c.TLSConfig == "" {
		return nil, errors.New("--mysql names another machine and no TLS: add ?tls=true to the DSN, or ?tls=false if the network between them is yours alone")
	}
	if c.Passwd == "" {
		c.Passwd = os.Getenv(envPassword)
	}
	c.InterpolateParams, c.ClientFoundRows = true, true
	c.Timeout, c.ReadTimeout, c.WriteTimeout = 5*time.Second, claims.QueryTime, claims.QueryTime
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params["default_storage_engine"] = "InnoDB" // of Tessera's tables
	c.Params["wait_timeout"], c.Params["innodb_lock_wait_timeout"] = fmt.Sprint(IdleSession), fmt.Sprint(lockWait)
	return c, nil
}

// open opens a pool of connections, which the database ends when they are idle so long.
func (d *Database) open(idle int) (*sql.DB, error) {
	config := d.config.Clone()
	config.Params["wait_timeout"] = fmt.Sprint(idle)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(8)
	db.SetConnMaxIdleTime(idleInPool)
	return db, nil
}

// Who implements Storage.
func (d *Database) Who() *Identity { return &d.Identity }

// Document implements Storage. While the database is gone, origin.json is what was read last.
func (d *Database) Document(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	var text []byte
	err := d.db.QueryRowContext(ctx, "SELECT text FROM FiadorDocuments WHERE name = ?", name).Scan(&text)
	switch {
	case errors.Is(err, sql.ErrNoRows), noTable(err):
		return nil, fs.ErrNotExist
	case name != ledger.NameOrigin:
	case err == nil:
		d.origin.Store(&text)
	case d.origin.Load() != nil:
		return *d.origin.Load(), nil // for readers: nothing is written while the database is gone
	}
	return text, err
}

// SetDocument implements Storage. It fails with ErrLost if another server has taken the lead.
func (d *Database) SetDocument(name string, text []byte) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	result, err := tx.ExecContext(ctx, "UPDATE FiadorLog SET epoch = epoch WHERE id = 0 AND epoch = ?", d.epoch)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows != 1 {
		return errors.Join(ErrLost, err)
	}
	if text == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM FiadorDocuments WHERE name = ?", name)
	} else {
		_, err = tx.ExecContext(ctx, "REPLACE INTO FiadorDocuments VALUES (?, ?)", name, text)
	}
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if name == ledger.NameOrigin {
		d.origin.Store(&text)
	}
	return nil
}

// Size returns the number of entries that are in the tiles.
func (d *Database) Size() (int64, error) {
	_, integrated, err := d.sizes()
	return integrated, err
}

func (d *Database) state() (tree tlog.Tree, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	var root []byte
	err = d.db.QueryRowContext(ctx, "SELECT seq, rootHash FROM IntCoord WHERE id = 0").Scan(&tree.N, &root)
	if noTable(err) || errors.Is(err, sql.ErrNoRows) { // the log is new
		err = nil
	}
	copy(tree.Hash[:], root)
	return tree, err
}

// sizes returns how many entries are durable, and how many of them are in the tiles.
func (d *Database) sizes() (next, integrated int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	row := d.db.QueryRowContext(ctx, "SELECT s.next, i.seq FROM SeqCoord s, IntCoord i WHERE s.id = 0 AND i.id = 0")
	err = row.Scan(&next, &integrated)
	if noTable(err) { // the log is new
		err = nil
	}
	return next, integrated, err
}

// Lead takes the lock, and a new epoch, which ends the right of the writer before.
func (d *Database) Lead(decorate Decorator) (*Lead, error) {
	l, err := d.lock()
	if err != nil {
		return nil, err
	}
	go l.watch() // from now on, so that the database does not end its session meanwhile
	fail := func(err error) (*Lead, error) { return nil, errors.Join(err, l.close()) }
	d.epoch, err = d.newEpoch()
	if err == nil {
		err = rooted(d) // before Tessera, which would sign another tree
	}
	if err != nil {
		return fail(err)
	}
	if _, err := d.Document(NameRotation); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return fail(err)
		}
		if err := d.integrate(l); err != nil { // its record is perhaps in no tile yet
			return fail(err)
		}
	}
	d.origin.Store(nil) // a writer needs the one of now
	if err := d.Identity.read(d, true); err != nil {
		return fail(err)
	}
	t, err := d.openTree(d.noteSigner(), l, decorate, d.Cosign)
	if err != nil {
		return fail(err)
	}
	return &Lead{Tree: t, Claims: claims.InTable(d.db, d.epoch, l.superseded), Fresh: d.Fresh,
		Finish: func() error { return d.finish(d) }, unlock: l.close, Lost: l.lost}, nil
}

// newEpoch raises the number of the writer. It waits for a transaction of the writer before.
func (d *Database) newEpoch() (epoch int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	if err := d.durable(ctx); err != nil {
		return 0, err
	}
	result, err := d.db.ExecContext(ctx, "UPDATE FiadorLog SET epoch = LAST_INSERT_ID(epoch + 1) WHERE id = 0")
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// durable refuses a database that promises what it could lose.
func (d *Database) durable(ctx context.Context) error {
	var flush, binlog, syncBinlog, others int
	if err := d.db.QueryRowContext(ctx, "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB')").Scan(&flush, &binlog, &syncBinlog, &others); err != nil {
		return err
	}
	if others > 0 {
		return fmt.Errorf("%d tables of the database are not of the engine InnoDB, and lose what they promised: use ALTER TABLE … ENGINE=InnoDB", others)
	}
	if flush != 1 || binlog == 1 && syncBinlog != 1 {
		return errors.New("the database answers before its data is durable: set innodb_flush_log_at_trx_commit and sync_binlog to 1")
	}
	return nil
}

// openTree opens the log of Tessera. When the lock is lost, its connections and its requests to
// the bucket end at once.
func (d *Database) openTree(signer note.Signer, l *lock, decorate Decorator, w *witness.Quorum) (*Tree, error) {
	signed, err := d.signed(d.Signer.Origin())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	fail := func(err error) (*Tree, error) { stop(); return nil, err }
	options := func(o *awss3.Options) { d.options(o); o.HTTPClient = fenced{o.HTTPClient, l.lines} }
	driver, err := taws.New(ctx, taws.Config{SDKConfig: &d.bucket.config, S3Options: options, Bucket: d.name,
		DSN: l.dsn(d.config), MaxOpenConns: 16, MaxIdleConns: 4, HTTPClient: w.Client(l.fence)})
	if err != nil {
		return fail(err)
	}
	t, err := appendTo(ctx, driver, &guard{Signer: signer, size: signed, fence: l.fence}, lateEvery, decorate, w)
	if err != nil {
		return fail(err)
	}
	t.Signed, t.late = signed, &late{}
	t.resources = stored{d} // which has a limit of time, and finds a part in the full tile
	t.stop = func() { stop(); l.hangUp() }
	t.durable = func() (int64, error) { return d.integrated(t, l) }
	go d.aging(ctx)
	return t, nil
}

// integrated waits until the tiles have all durable entries.
func (d *Database) integrated(t *Tree, l *lock) (int64, error) {
	for end := time.Now().Add(claims.QueryTime); ; time.Sleep(50 * time.Millisecond) {
		next, integrated, err := d.sizes()
		switch {
		case err != nil:
			return 0, err
		case l.life.Err() != nil:
			return 0, ErrLost
		case next == integrated:
			*t.late = late{base: next}
			return next, nil
		case time.Now().After(end):
			return 0, fmt.Errorf("%w: the tiles have %d entries, and the database %d: does the bucket take objects, and was an old copy put back?", errBehind, integrated, next)
		}
	}
}

// integrate writes tiles of all entries, and signs nothing.
func (d *Database) integrate(l *lock) error {
	own := &lock{lines: newLines()}
	own.fence = l.fence
	t, err := d.openTree(mute{d.Signer.NoteSigner()}, own, nil, nil)
	if err != nil {
		return err
	}
	defer t.stop()
	_, err = t.durable()
	return err
}

// mute is a key that signs nothing.
type mute struct{ note.Signer }

func (mute) Sign([]byte) ([]byte, error) { return nil, errors.New("a rotation is being ended") }

// aging keeps the time of a checkpoint from being of the future, as in a folder. Now and then it
// lets Tessera write the checkpoint again, if the one in the bucket is older.
func (d *Database) aging(ctx context.Context) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		now := time.Now().Unix()
		var at int64
		if d.db.QueryRowContext(ctx, "SELECT publishedAt FROM PubCoord WHERE id = 0").Scan(&at) == nil && at > now {
			_, _ = d.db.ExecContext(ctx, "UPDATE PubCoord SET publishedAt = ? WHERE id = 0 AND publishedAt > ?", now-1, now) // the next second tries again
		}
		if n%10 == 0 {
			d.republish(ctx)
		}
	}
}

// republish lets Tessera write the checkpoint again if the bucket has an older one: a PUT was
// lost, or that of another server came late. Tessera itself looks into the database alone.
func (d *Database) republish(ctx context.Context) {
	var size sql.NullInt64
	if d.db.QueryRowContext(ctx, "SELECT size FROM PubCoord WHERE id = 0").Scan(&size) != nil || size.Int64 == 0 {
		return
	}
	if signed, err := d.signed(d.Signer.Origin()); err == nil && signed < size.Int64 {
		_, _ = d.db.ExecContext(ctx, "UPDATE PubCoord SET size = 0 WHERE id = 0 AND size = ?", size) // the next time tries again
	}
}

// lock is the right to write, which the database gives to one connection of its own.
type lock struct {
	*lines
	db *sql.DB // of one connection

	lost chan struct{}
	once sync.Once
	end  context.CancelFunc
	ctx  context.Context
}

// lockName is the name of the lock: that of the database, as the server compares such names. All
// databases of a server share the names of locks.
const lockName = "CONCAT('fiador/', SHA2(IF(@@lower_case_table_names = 0, DATABASE(), LOWER(DATABASE())), 224))"

// lock takes the lock of the log, or returns ErrBusy. The database gives it back when the
// connection ends.
func (d *Database) lock() (*lock, error) {
	db, err := d.open(IdleSession + 1) // the session of the lock is the last one
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetConnMaxIdleTime(0)
	l := &lock{lines: newLines(), db: db, lost: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.fence = l.held
	ctx, cancel := context.WithTimeout(l.ctx, claims.QueryTime)
	defer cancel()
	var got sql.NullInt64
	err = db.QueryRowContext(ctx, "SELECT GET_LOCK("+lockName+", 0)").Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// held says whether the connection still has the lock. A connection that was made anew has
// not.
func (l *lock) held(ctx context.Context) error {
	var mine sql.NullBool
	err := l.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+lockName+") = CONNECTION_ID()").Scan(&mine)
	if err == nil && !mine.Bool {
		err = ErrLost
	}
	return err
}

// watch looks whether the lock is still held.
func (l *lock) watch() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(watchEvery):
		}
		ctx, cancel := context.WithTimeout(l.ctx, WatchTime)
		err := l.held(ctx)
		cancel()
		if l.ctx.Err() == nil && err != nil {
			l.lose()
			return
		}
	}
}

// lose ends the right: what Tessera has under way fails now.
func (l *lock) lose() {
	l.once.Do(func() { close(l.lost); l.hangUp() })
}

// superseded ends the right because another server has taken it.
func (l *lock) superseded() error {
	l.lose()
	return ErrLost
}

func (l *lock) close() error {
	l.end()
	l.hangUp()
	return l.db.Close()
}
