package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fiador/fiador/harness/rehearsal"
)

// Tests of the second storage start real servers: MariaDB of Debian (mariadb-server), and
// versitygw as S3, which testdata/versitygw builds once with Go. The tests of the package share
// one of each, and each test has a database and a bucket of its own. Where they cannot be had a
// test skips, and fails if FIADOR_LEDGERD_SERVICES is 1.

const (
	testAccess = "TESTACCESSKEY"
	testSecret = "a-secret-of-the-tests"
)

// need returns what a shared service gave, or ends the test.
func need[T any](t testing.TB, name string, start func() (T, error)) T {
	t.Helper()
	got, err := start()
	if err != nil && os.Getenv("FIADOR_LEDGERD_SERVICES") == "1" {
		t.Fatalf("%s cannot be started: %v", name, err)
	}
	if err != nil {
		t.Skipf("%s cannot be started here: %v", name, err)
	}
	return got
}

// mariaDB is a database server. Its folder has its data, its temporary files and its socket.
type mariaDB struct {
	dir   string
	flags []string
	cmd   *exec.Cmd
}

var (
	sharedMySQL = sync.OnceValues(func() (*mariaDB, error) { return newMariaDB() })
	sharedS3    = sync.OnceValues(newGateway)
	names       atomic.Int64 // of databases and buckets
)

// stopServices ends the shared servers. TestMain calls it.
func stopServices() {
	if ranServices.Load()&1 != 0 {
		if m, err := sharedMySQL(); err == nil {
			m.remove()
		}
	}
	if ranServices.Load()&2 != 0 {
		if g, err := sharedS3(); err == nil {
			g.kill()
			_ = os.RemoveAll(g.dir)
		}
	}
}

var ranServices atomic.Int32 // bits: 1 the database, 2 the gateway

// startMySQL returns the DSN of an empty database.
func startMySQL(t testing.TB) string {
	t.Helper()
	ranServices.Or(1)
	return need(t, "MariaDB", sharedMySQL).database(t)
}

// ownMySQL returns a server for a test that kills it.
func ownMySQL(t testing.TB, flags ...string) *mariaDB {
	t.Helper()
	m := need(t, "MariaDB", func() (*mariaDB, error) { return newMariaDB(flags...) })
	t.Cleanup(m.remove)
	return m
}

// newMariaDB makes a server whose folder is in memory, where syncing is fast.
func newMariaDB(flags ...string) (*mariaDB, error) {
	dir, err := os.MkdirTemp("/dev/shm", "fiador-mysql-")
	if err != nil {
		dir, err = os.MkdirTemp("", "fiador-mysql-")
	}
	if err != nil {
		return nil, err
	}
	m := &mariaDB{dir: dir, flags: flags}
	if err := errors.Join(os.Mkdir(m.file("data"), 0o700), os.Mkdir(m.file("tmp"), 0o700)); err != nil {
		return nil, err
	}
	out, err := exec.Command("mariadb-install-db", append([]string{"--no-defaults", "--user=root", "--datadir=" + m.file("data"), "--tmpdir=" + m.file("tmp"), "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=16M"}, flags...)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("install the Debian package mariadb-server: %w\n%s", err, out)
	}
	return m, m.start()
}

// start starts the server, again if it was killed. What it promised is durable.
func (m *mariaDB) start() error {
	m.cmd = exec.Command("mariadbd", append([]string{"--no-defaults", "--user=root", "--datadir=" + m.file("data"), "--tmpdir=" + m.file("tmp"), "--socket=" + m.file("s"),
		"--skip-networking", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M", "--log-error=" + m.file("log")}, m.flags...)...)
	if err := m.cmd.Start(); err != nil {
		return err
	}
	db, err := sql.Open("mysql", m.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err := db.Ping(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// file returns the path of a file in the folder.
func (m *mariaDB) file(name string) string { return filepath.Join(m.dir, name) }

func (m *mariaDB) kill() { _ = m.cmd.Process.Kill(); _ = m.cmd.Wait() }

func (m *mariaDB) remove() { m.kill(); _ = os.RemoveAll(m.dir) }

func (m *mariaDB) dsn(name string) string {
	return "root@unix(" + m.file("s") + ")/" + name
}

// database makes an empty database.
func (m *mariaDB) database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("log%d", names.Add(1))
	query(t, m.dsn(""), "CREATE DATABASE "+name)
	return m.dsn(name)
}

// query changes a database.
func query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check(t, err)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// gateway is an S3 server whose buckets are folders.
type gateway struct {
	dir, address string
	cmd          *exec.Cmd
	wait         func() error
}

func (g *gateway) kill() { _ = g.cmd.Process.Kill(); _ = g.wait() }

// startS3 returns the address of an empty bucket, for --s3, and its folder.
func startS3(t testing.TB) (address, dir string) {
	t.Helper()
	ranServices.Or(2)
	g := need(t, "versitygw", sharedS3)
	name := fmt.Sprintf("bucket%d", names.Add(1))
	dir = filepath.Join(g.dir, name)
	check(t, os.Mkdir(dir, 0o700))
	return "s3://" + name + "?endpoint=http://" + g.address + "&region=us-east-1", dir
}

func newGateway() (*gateway, error) {
	build := exec.Command("go", "tool", "-C", "testdata/versitygw", "-n", "versitygw") // builds it, or finds it in the build cache
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	out, err := build.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	lines := strings.Fields(string(out))
	dir, err := os.MkdirTemp("", "fiador-s3-")
	if err != nil {
		return nil, err
	}
	for range 5 {
		var g *gateway
		if g, err = startGateway(lines[len(lines)-1], dir); err == nil {
			return g, nil
		}
	}
	return nil, err
}

// startGateway starts a gateway at a free port, which another program may take before it.
func startGateway(program, dir string) (*gateway, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gateway{dir: dir, address: free.Addr().String()}
	if err := free.Close(); err != nil {
		return nil, err
	}
	said := new(rehearsal.Buffer)
	g.cmd = exec.Command(program, "--port", g.address, "--access", testAccess, "--secret", testSecret, "--region", "us-east-1", "--quiet", "posix", dir)
	g.cmd.Stdout, g.cmd.Stderr = said, said
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	g.wait = sync.OnceValue(g.cmd.Wait)
	go func() { ended <- g.wait() }()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			return nil, fmt.Errorf("%w: %s", err, said)
		default:
		}
		if resp, err := http.Head("http://" + g.address); err == nil && resp.Header.Get("Server") == "VERSITYGW" {
			return g, resp.Body.Close()
		}
	}
	g.kill()
	return nil, errors.New(said.String())
}

// storages are those that a test runs over.
var storages = []string{"folder", "database"}

// over runs a test over every storage.
func over(t *testing.T, test func(t *testing.T, p *place)) {
	for _, name := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPlaceIn(t, name))
		})
	}
}

// copied returns a function that puts the log back as it is now: database and bucket, or folder.
func (p *place) copied() (putBack func()) {
	p.t.Helper()
	bucket, base := p.copiedBucket(), func() {}
	if p.dsn != "" {
		base = p.copiedDatabase()
	}
	return func() { bucket(); base() }
}

// copiedBucket copies the folder of the log, or of the bucket.
func (p *place) copiedBucket() (putBack func()) {
	copied := filepath.Join(p.t.TempDir(), "log")
	check(p.t, os.CopyFS(copied, os.DirFS(p.dir)))
	return func() {
		check(p.t, os.RemoveAll(p.dir))
		check(p.t, os.CopyFS(p.dir, os.DirFS(copied)))
	}
}

// copiedDatabase copies the database, as its operator does.
func (p *place) copiedDatabase() (putBack func()) {
	config, err := mysql.ParseDSN(p.dsn)
	check(p.t, err)
	dump, err := exec.Command("mariadb-dump", "--no-defaults", "--user=root", "--socket="+config.Addr, "--single-transaction", "--hex-blob", config.DBName).Output()
	check(p.t, err)
	return func() {
		in := exec.Command("mariadb", "--no-defaults", "--user=root", "--socket="+config.Addr, config.DBName)
		in.Stdin = bytes.NewReader(dump)
		out, err := in.CombinedOutput()
		if err != nil {
			p.t.Fatalf("%v\n%s", err, out)
		}
	}
}

// newPlaceIn returns a place whose log is in a storage.
func newPlaceIn(t testing.TB, storage string) *place {
	t.Helper()
	p := newPlace(t)
	if storage == "database" {
		p.dsn = startMySQL(t)
		p.s3, p.dir = startS3(t)
	}
	return p
}
