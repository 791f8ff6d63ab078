package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/transparency-dev/tessera"
	taws "github.com/transparency-dev/tessera/storage/aws"
	"golang.org/x/mod/sumdb/note"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger/disk"
)

// storage opens the log beside its servers.
func (p *place) storage() *storage.Database {
	p.t.Helper()
	signer, err := disk.ReadKey(p.key)
	check(p.t, err)
	d, err := storage.OpenDatabase(p.dsn, p.s3, storage.NewIdentity(signer))
	check(p.t, err)
	return d
}

// nameOfLock is the name of the lock: servers of different versions must agree on it.
const nameOfLock = "CONCAT('fiador/', SHA2(DATABASE(), 224))"

// counted returns the number of rows of a table, perhaps with a condition.
func (p *place) counted(table string) (n int) {
	p.t.Helper()
	db, err := sql.Open("mysql", p.dsn)
	check(p.t, err)
	defer db.Close()
	check(p.t, db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// bucket returns the name of the bucket, and what a client of S3 needs for it.
func (p *place) bucket() (aws.Config, string) {
	p.t.Helper()
	address, err := url.Parse(p.s3)
	check(p.t, err)
	config, err := awsconfig.LoadDefaultConfig(p.t.Context(), awsconfig.WithRegion("us-east-1"), awsconfig.WithBaseEndpoint(address.Query().Get("endpoint")))
	check(p.t, err)
	return config, address.Host
}

func inPath(o *awss3.Options) { o.UsePathStyle = true }

// unsigned is a key that signs nothing.
type unsigned struct{ note.Signer }

func (unsigned) Sign([]byte) ([]byte, error) { return nil, errors.New("nothing is signed here") }

// addLate adds an entry to the log as a server that lost its lock may still do, and returns its
// index. The database ends the connections that Tessera leaves.
func (p *place) addLate(entry []byte) uint64 {
	p.t.Helper()
	signer, err := disk.ReadKey(p.key)
	check(p.t, err)
	settings, name := p.bucket()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	driver, err := taws.New(ctx, taws.Config{SDKConfig: &settings, S3Options: inPath, Bucket: name, DSN: p.dsn + "?wait_timeout=1", MaxOpenConns: 4, MaxIdleConns: 2})
	check(p.t, err)
	appender, _, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().WithCheckpointSigner(unsigned{signer.NoteSigner()}))
	check(p.t, err)
	got, err := appender.Add(ctx, tessera.NewEntry(entry))()
	check(p.t, err)
	return got.Index
}

// takeLock ends the connection that has the lock.
func (p *place) takeLock() {
	p.t.Helper()
	db, err := sql.Open("mysql", p.dsn)
	check(p.t, err)
	defer db.Close()
	var id sql.NullInt64
	for end := time.Now().Add(patience); !id.Valid && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		check(p.t, db.QueryRow("SELECT IS_USED_LOCK("+nameOfLock+")").Scan(&id))
	}
	query(p.t, p.dsn, fmt.Sprintf("KILL %d", id.Int64))
}

// A server whose lock is lost stops, and takes the lead again if no other did.
func TestLockLost(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	r := p.start(server.Config{})
	for i := range 3 {
		rec := begun(fmt.Sprintf("run-%d", i))
		r.accepted(rec, r.retry(rec))
		p.takeLock()
		r.waitFor("lost the right to write")
	}
	for i := range 3 {
		rec := begun(fmt.Sprintf("run-%d", i))
		if got := r.retry(rec); !r.accepted(rec, got).Time().IsZero() && (!got.Again || got.Index != int64(i+1)) {
			t.Errorf("%s", got.body)
		}
	}
	if n := len(r.log(4)); n != 4 {
		t.Errorf("%d entries", n)
	}
}

// A writer that lost its lock while it added an entry promises nothing. The next writer adds
// the entry, and when the first one's Add arrives after all, the entry is there twice. That is
// a note of verify.
func TestFencedWriter(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	var f faults
	gate, blocked := make(chan struct{}), make(chan []byte, 1)
	first := p.start(server.Config{Decorate: f.decorate})
	first.log(1)
	f.once(func(add tessera.AddFn, ctx context.Context, e *tessera.Entry) tessera.IndexFuture {
		blocked <- bytes.Clone(e.Data())
		<-gate
		return add(ctx, e)
	})
	var outcome reply
	var posted sync.WaitGroup
	posted.Go(func() { outcome = first.post(begun("run-1")) })
	late := <-blocked
	second := p.process() // waits for the lock
	p.takeLock()
	rec := begun("run-2")
	second.accepted(rec, second.retry(rec))
	for range 150 { // the first server looks at its lock once a second, and a stall stops this loop too
		time.Sleep(20 * time.Millisecond)
	}
	close(gate)
	posted.Wait()
	first.refused("a writer without its lock", outcome, 500, "storage")
	if got := first.post(begun("run-3")); got.status != 503 {
		t.Errorf("the first server: %d %s", got.status, got.body)
	}

	if index := p.addLate(late); index != 3 {
		t.Fatalf("the repeat has index %d", index)
	}
	rec = begun("run-4")
	second.refused("an entry behind a repeat", second.post(rec), 500, "storage")
	if got := second.retry(rec); got.Index != 4 || second.accepted(rec, got).Timestamp == "" {
		t.Errorf("%s", got.body)
	}
	if got := second.retry(begun("run-1")); !got.Again || got.Index != 1 {
		t.Errorf("%s", got.body)
	}
	if got := second.get("/v1/runs/run-1"); string(got.body) != `{"indexes":[1]}`+"\n" {
		t.Errorf("%s", got.body)
	}
	rec = failedRun("run-1")
	second.accepted(rec, second.retry(rec))
	check(t, first.stop())
	check(t, second.stop())
	if third := p.start(server.Config{}); third.retry(rec).Index != 5 {
		t.Error("after a new start the end of run-1 is another one")
	} else {
		third.covered(6)
		m := third.machine(t, "reader")
		m.says(0, "CLEAN", "ledger", "verify", "--key", m.key)
		m.says(0, "repeat", "ledger", "verify", "--key", m.key)
	}
}

// The database is killed under load, twice. What was promised stands at its index.
func TestDatabaseKilled(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	m := ownMySQL(t)
	p.dsn = m.database(t)
	r := p.start(server.Config{})
	r.log(1)
	l := &load{promised: map[int64]string{}}
	for i := range 2 {
		all := l.run(r, fmt.Sprintf("run-%d", i), 8)
		time.Sleep(500 * time.Millisecond)
		m.kill()
		all.Wait()
		if got := r.post(begun("run-x")); got.status != 500 && got.status != 503 {
			t.Errorf("without a database: %d %s", got.status, got.body)
		}
		if got := r.get("/checkpoint"); got.status != 200 {
			t.Errorf("reading without a database: %d %s", got.status, got.body)
		}
		if got := r.get("/origin.json"); got.status != 200 {
			t.Errorf("origin.json without a database: %d %s", got.status, got.body)
		}
		check(t, m.start())
		rec := begun(fmt.Sprintf("run-after-%d", i))
		got := r.retry(rec)
		r.accepted(rec, got)
		l.promised[got.Index], l.sent = got.Entry, append(l.sent, rec.RunID)
	}
	for _, run := range l.sent {
		got := r.retry(begun(run))
		r.accepted(begun(run), got)
		if old, ok := l.promised[got.Index]; ok && old != got.Entry {
			t.Fatalf("another entry at %d", got.Index)
		}
		l.promised[got.Index] = got.Entry
	}
	records := r.log(int64(len(l.promised)) + 1)
	for index, entry := range l.promised {
		if have, err := records[index].Entry(); err != nil || string(have) != entry {
			t.Fatalf("entry %d is not the promised one", index)
		}
	}
	check(t, r.stop())
	p.fsck()
}

// On a database that is read-only or full nothing is promised. The server goes on when it can.
func TestDatabaseReadOnly(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	m := ownMySQL(t, "--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:24M")
	root := m.database(t)
	p.secret = "S3cret/p@ss:word"
	query(t, root, "CREATE USER ledger@localhost IDENTIFIED BY '"+p.secret+"'", "GRANT ALL ON "+root[strings.LastIndex(root, "/")+1:]+".* TO ledger@localhost")
	p.dsn = strings.Replace(root, "root@", "ledger:"+p.secret+"@", 1)
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.retry(begun("run-0")))
	for i, c := range []struct{ before, after string }{
		{"SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"},
		{"", ""},
	} {
		if c.before != "" {
			query(t, root, c.before)
		} else {
			fill(t, root)
		}
		refusals := 0
		for n := range 300 {
			rec := begun(fmt.Sprintf("run-%d-%d", i, n))
			if got := r.post(rec); got.status == 200 {
				r.accepted(rec, got)
			} else if got.status != 500 && got.status != 503 || got.Ack != "" {
				t.Fatalf("%d %s", got.status, got.body)
			} else if refusals++; refusals > 3 {
				break
			}
		}
		if refusals == 0 {
			t.Errorf("%d: nothing was refused", i)
		}
		if c.after != "" {
			query(t, root, c.after)
		} else { // its operator gives it more space
			m.kill()
			m.flags[1] += ";ibdata2:24M"
			check(t, m.start())
		}
		rec := begun(fmt.Sprintf("run-after-%d", i))
		r.accepted(rec, r.retry(rec))
	}
	r.log(3)
	check(t, r.stop())

	p.dsn = strings.Replace(p.dsn, p.secret, "wr0ng-secret", 1)
	p.secret = "wr0ng-secret"
	if r, err := p.tryStart(server.Config{}); err == nil || strings.Contains(err.Error()+r.stderr.String(), p.secret) {
		t.Errorf("with a wrong password: %v", err)
	}
}

// fill fills a database.
func fill(t *testing.T, dsn string) {
	db, err := sql.Open("mysql", dsn)
	check(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE filler (b LONGBLOB) ENGINE=InnoDB")
	check(t, err)
	for _, size := range []int{1 << 20, 1 << 16, 1 << 13, 100} {
		for range 5000 {
			if _, err := db.Exec("INSERT INTO filler VALUES (REPEAT('x', ?))", size); err != nil {
				break
			}
		}
	}
}

// A database or a bucket of yesterday does not fit the other one.
func TestDatabaseOldCopy(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	r.log(2)
	check(t, r.stop())
	oldDatabase, oldBucket := p.copiedDatabase(), p.copiedBucket()
	r = p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.log(3)
	check(t, r.stop())
	newDatabase := p.copiedDatabase()

	oldDatabase()
	if r, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "old copy") {
		t.Errorf("a database of yesterday: %v\n%s", err, r.stderr)
	}
	newDatabase()
	oldBucket()
	if r, err := p.tryStart(server.Config{}); err == nil {
		t.Errorf("a bucket of yesterday: %v\n%s", err, r.stderr)
	}
}

// Claims that were changed or lost are made again from the log.
func TestClaimRows(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	r := p.start(server.Config{})
	const runs = 5
	for i := range runs {
		rec := begun(fmt.Sprintf("run-%d", i))
		r.accepted(rec, r.post(rec))
	}
	r.log(runs + 1)
	other := fmt.Sprintf("REPLACE(entry, '%s', '%s')", hash("intent"), hash("other"))
	check(t, r.stop())
	for _, change := range []string{
		"UPDATE FiadorLog SET settled = settled",
		"UPDATE FiadorLog SET settled = 0, latest = ''",
		"UPDATE FiadorLog SET settled = 3",
		"DELETE FROM FiadorClaims",
		"DELETE FROM FiadorClaims WHERE idx = 2",
		"DELETE FROM FiadorClaims WHERE idx = 5",
		"UPDATE FiadorClaims SET leaf = REPEAT('x', 32) WHERE idx = 4",
		"UPDATE FiadorClaims SET entry = 'x' WHERE idx = 3",
		"UPDATE FiadorClaims SET entry = " + other + " WHERE idx = 2",
		"UPDATE FiadorClaims SET entry = " + other,
	} {
		query(t, p.dsn, change)
		r := p.start(server.Config{})
		for i := range runs {
			rec := begun(fmt.Sprintf("run-%d", i))
			if got := r.retry(rec); !got.Again || got.Index != int64(i+1) {
				t.Errorf("%s: run %d: %d %s\n%s", change, i, got.status, got.body, r.stderr)
			}
		}
		if n := len(r.log(runs + 1)); n != runs+1 {
			t.Errorf("%s: the log has %d entries", change, n)
		}
		check(t, r.stop())
	}
	query(t, p.dsn, "UPDATE FiadorLog SET settled = 99")
	if _, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "old copy") {
		t.Errorf("claims of more entries than the log has: %v", err)
	}
}

// A PUT whose request or answer is lost is an error. Records are promised without the bucket,
// because the database has them, and their tiles follow.
func TestPutLost(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	var fault atomic.Value // of PUT
	fault.Store("")
	p.before(func(through http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			switch fault.Load() {
			case "request":
				panic(http.ErrAbortHandler)
			case "refused":
				w.WriteHeader(500)
				return
			case "answer":
				through.ServeHTTP(&lost{header: http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
		}
		through.ServeHTTP(w, r)
	})
	r := p.start(server.Config{})
	r.log(1)
	for i, c := range []struct {
		fault string
		there bool
	}{{"request", false}, {"refused", false}, {"answer", true}} {
		fault.Store(c.fault)
		blob := fmt.Appendf(nil, "blob %d", i)
		r.refused(c.fault, r.put(blob), 500, "storage")
		run := fmt.Sprintf("run-%d", i)
		if got := r.post(decision(run, blob)); (got.status == 200) != c.there || !c.there && got.Error != "evidence" {
			t.Errorf("%s: a record about the blob: %d %s", c.fault, got.status, got.body)
		}
		rec := begun(run + "-without-bucket")
		r.accepted(rec, r.post(rec))
		fault.Store("")
		if got := r.put(blob); got.status != 204 {
			t.Errorf("%s: again: %d", c.fault, got.status)
		}
		r.accepted(decision(run, blob), r.post(decision(run, blob)))
	}
	if n := len(r.log(7)); n != 7 {
		t.Errorf("%d entries", n)
	}
}

// Evidence that the server has seen costs a record no request.
func TestEvidenceSeen(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	var looks atomic.Int64
	p.before(func(through http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/evidence/") {
			looks.Add(1)
		}
		through.ServeHTTP(w, r)
	})
	blob := []byte("policy")
	for i, want := range []int64{0, 1} { // the second server finds what the first one has put
		r := p.start(server.Config{})
		if i == 0 {
			r.refused("evidence is missing", r.post(decision("none", blob)), 409, "evidence")
			if got := r.put(blob); got.status != 204 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			looks.Store(0)
		}
		for n := range 3 {
			rec := decision(fmt.Sprintf("run-%d-%d", i, n), blob)
			r.accepted(rec, r.post(rec))
		}
		if got := looks.Load(); got != want {
			t.Errorf("server %d: %d requests", i, got)
		}
		check(t, r.stop())
	}
}

// before puts a handler before the bucket of a place.
func (p *place) before(do func(through http.Handler, w http.ResponseWriter, r *http.Request)) {
	p.t.Helper()
	address, err := url.Parse(p.s3)
	check(p.t, err)
	target, err := url.Parse(address.Query().Get("endpoint"))
	check(p.t, err)
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, ErrorLog: log.New(io.Discard, "", 0)}
	proxy := serveOn(p.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { do(through, w, r) }))
	p.s3 = strings.Replace(p.s3, target.Host, proxy, 1)
}

// serveOn serves a handler on a loopback address.
func serveOn(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// lost takes an answer and drops it.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header         { return l.header }
func (l *lost) Write(b []byte) (int, error) { return len(b), nil }
func (l *lost) WriteHeader(int)             {}

// A storage that is named wrongly is refused, and no secret is shown.
func TestStorageFlags(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const good, s3 = "user:S3cret@unix(/nowhere)/log", "s3://bucket?endpoint=http://127.0.0.1:1"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"name one storage", nil},
		{"name one storage", []string{"--posix", "x", "--mysql", good}},
		{"come together", []string{"--mysql", good}},
		{"come together", []string{"--posix", "x", "--s3", "b"}},
		{"--mysql is USER", []string{"--mysql", "user:S3cret", "--s3", s3}},
		{"--mysql is USER", []string{"--mysql", "user:S3cret/log", "--s3", s3}},
		{"--mysql is USER", []string{"--mysql", "user:S3cret@tcp(127.0.0.1)/", "--s3", s3}},
		{"no TLS", []string{"--mysql", "user:S3cret@tcp(db.example:3306)/log", "--s3", s3}},
		{"use ?tls=true", []string{"--mysql", "user:S3cret@tcp(db.example:3306)/log?tls=preferred", "--s3", s3}},
		{"use ?tls=true", []string{"--mysql", "user:S3cret@tcp(db.example:3306)/log?tls=skip-verify", "--s3", s3}},
		{"database", []string{"--mysql", good, "--s3", s3}},
	} {
		args := append(append([]string{"serve"}, c.args...), p.args()[2:]...)
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), args, &stdout, &stderr)
		if status != 2 || !strings.Contains(stderr.String(), c.want) || strings.Contains(stderr.String(), "S3cret") {
			t.Errorf("%q: status %d: %s", c.args, status, &stderr)
		}
	}
}

// The database ends the session of a server whose host stops, and a second server takes over.
func TestStoppedHost(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	p.own = ownSession // its end is the event
	first := p.process()
	first.accepted(begun("run-1"), first.retry(begun("run-1")))
	second := p.process()
	check(t, first.signal(syscall.SIGSTOP))
	rec := begun("run-2")
	second.accepted(rec, second.retry(rec))
	check(t, first.signal(syscall.SIGCONT))
	if got := first.post(begun("run-3")); got.status == 200 {
		t.Errorf("a writer without its lock: %s", got.body)
	}
	if n := len(second.log(3)); n != 3 {
		t.Errorf("%d entries", n)
	}
}
