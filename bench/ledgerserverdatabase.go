package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The credentials of the bucket.
const (
	bucketAccess = "BENCHACCESSKEY"
	bucketSecret = "a-secret-of-the-benchmark"
)

// inDatabase times appends to logs in databases of MariaDB and buckets of versitygw, or notes
// which of these programs cannot be had.
func (m *ledgerServed) inDatabase(ctx context.Context, s *ledgerScene) (err error) {
	if !m.sizes.database {
		return nil
	}
	a := &serverAppends{storage: "MySQL and S3", ways: []string{ledgerdWay, tesseraAdd}}
	m.appends = append(m.appends, a)
	for _, program := range []string{"mariadbd", "mariadb-install-db", "mariadb"} {
		if _, err := exec.LookPath(program); err != nil {
			a.missing = program + " (Debian package mariadb-server)"
			return nil
		}
	}
	gateway, err := gatewayProgram(ctx, s.root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		a.missing = "versitygw (it cannot be built)"
		return nil
	}
	tessera := s.file("tessera-mysql")
	if err := goTool(ctx, filepath.Join(s.root, "bench", "tessera"), "", "build", "-trimpath", "-o", tessera, "./mysql"); err != nil {
		return err
	}
	dsn, stop, err := startMariaDB(ctx, s.file("mysql"))
	defer func() { stop() }()
	if err != nil {
		return err
	}
	endpoint, end, err := startGateway(ctx, gateway, s.file("s3"))
	defer func() { end() }()
	if err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, "mariadbd", "--version").Output()
	if err != nil {
		return err
	}
	if words := strings.Fields(string(version)); len(words) > 2 {
		a.version = words[2]
	}
	return a.measure(ctx, s, m.sizes, []string{tessera, dsn + "tessera", endpoint, "tessera", s.file("tessera-mysql.key")},
		"--mysql", dsn+"fiador", "--s3", "s3://fiador?endpoint="+endpoint+"&region=us-east-1")
}

// logsAside are the databases and the buckets: each log needs one of its own.
func logsAside() []string { return []string{"fiador", "tessera"} }

// gatewayProgram builds the S3 server that the tests of fiador-ledgerd use.
func gatewayProgram(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-C", filepath.Join(root, "cmd", "fiador-ledgerd", "testdata", "versitygw"), "-n", "versitygw")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("versitygw: %w\n%s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// startMariaDB starts a database server with its files in a new folder. What it commits is
// durable. The name of a database is missing at the end of the DSN.
func startMariaDB(ctx context.Context, dir string) (dsn string, stop func(), err error) {
	common := []string{"--no-defaults", "--datadir=" + dir, "--innodb-flush-log-at-trx-commit=1"}
	if os.Getuid() == 0 {
		common = append(common, "--user=root") // without it, it does not run as root
	}
	out, err := exec.CommandContext(ctx, "mariadb-install-db", append(common, "--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		return "", func() {}, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	socket := filepath.Join(dir, "s")
	if stop, err = started("mariadbd", append(common, "--socket="+socket, "--skip-networking", "--log-error="+filepath.Join(dir, "log"))...); err != nil {
		return "", stop, err
	}
	var create strings.Builder
	for _, name := range logsAside() {
		fmt.Fprintf(&create, "CREATE DATABASE IF NOT EXISTS %s;", name)
	}
	err = soon(ctx, func() error {
		out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--user=root", "--socket="+socket, "-e", create.String()).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("mariadb: %w\n%s", err, out)
		}
		return err
	})
	return "root@unix(" + socket + ")/", stop, err
}

// startGateway starts an S3 server whose buckets are folders in a new folder.
func startGateway(ctx context.Context, program, dir string) (endpoint string, stop func(), err error) {
	for _, name := range logsAside() {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return "", func() {}, err
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", func() {}, err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return "", func() {}, err
	}
	if stop, err = started(program, "--port", address, "--access", bucketAccess, "--secret", bucketSecret, "--region", "us-east-1", "--quiet", "posix", dir); err != nil {
		return "", stop, err
	}
	err = soon(ctx, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return "http://" + address, stop, err
}

// started starts a program. Its data is thrown away, so it is killed at the end.
func started(program string, args ...string) (stop func(), err error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return func() {}, err
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// soon tries something until it succeeds.
func soon(ctx context.Context, try func() error) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err := try(); err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}
