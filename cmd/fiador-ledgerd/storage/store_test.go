package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

func newSigner(t testing.TB) *ledger.Signer {
	t.Helper()
	private, _, err := ledger.GenerateKey(rand.Reader, testOrigin)
	check(t, err)
	signer, err := ledger.ParseSigner(private)
	check(t, err)
	return signer
}

// begins takes the lead of a log.
func begins(t *testing.T, store *Posix) *Lead {
	t.Helper()
	l, err := store.Lead(nil)
	check(t, err)
	return l
}

// loads reads the claims of a lead, which has no open ones.
func loads(t *testing.T, l *Lead) {
	t.Helper()
	size, err := l.Tree.Size()
	check(t, err)
	open, err := l.Claims.Load(size, l.Tree)
	if check(t, err); len(open) > 0 || l.Claims.Count() != size {
		t.Fatalf("%d claims of %d entries, and %d open ones", l.Claims.Count(), size, len(open))
	}
}

// record makes records entries of a log, and waits for their checkpoint.
func record(t *testing.T, store *Posix, l *Lead, records ...ledger.Record) {
	t.Helper()
	var items []claims.Item
	for _, r := range records {
		r.Stamp(time.Now(), l.Claims.Last())
		it, err := claims.NewItem(r)
		check(t, err)
		items = append(items, it)
	}
	size := l.Claims.Count()
	check(t, l.Claims.Write(items))
	check(t, l.Tree.Add(size, items))
	check(t, l.Claims.Settled(items))
	check(t, l.Finish())
	_, err := store.Covered(store, size+int64(len(items)))
	check(t, err)
}

// runs returns the records of some runs that have begun.
func runs(from, to int) (list []ledger.Record) {
	hash := canon.Sum([]byte("any"))
	for i := from; i < to; i++ {
		list = append(list, ledger.Record{Kind: ledger.KindBegun, RunID: fmt.Sprintf("run-%d", i), IntentSHA256: hash, ExecutionMode: "execute-sandbox",
			Mode: "none", Policy: "strict", PolicySHA256: hash, InputSHA256: hash, BundleSHA256: hash, Kernel: "1.0.0"})
	}
	return list
}

// TestFollow: a standby reads what is new. What it has read serves it when it leads.
func TestFollow(t *testing.T) {
	t.Parallel()
	Quiet(func(string, any) {})
	dir, signer := filepath.Join(t.TempDir(), "log"), newSigner(t)
	opens := func() *Posix {
		store, err := OpenPosix(dir, NewIdentity(signer))
		check(t, err)
		return store
	}
	follows := func(store *Posix, size int64) {
		t.Helper()
		if _, err := store.Lead(nil); !errors.Is(err, ErrBusy) {
			t.Fatalf("the right to write: %v", err)
		}
		if n := store.followed.Count(); n != size {
			t.Errorf("%d claims were followed, and not %d", n, size)
		}
	}
	first := opens()
	l := begins(t, first)
	loads(t, l)
	record(t, first, l, ledger.Record{Kind: ledger.KindGenesis, Format: ledger.Format, Origin: testOrigin, Key: signer.Verifier().String()})
	record(t, first, l, runs(0, 2)...)
	standby := opens()
	follows(standby, 3)
	record(t, first, l, runs(2, 3)...)
	follows(standby, 4)
	check(t, l.Close())
	l = begins(t, standby)
	if n := l.Claims.Count(); n != 4 {
		t.Errorf("the leader knows %d claims", n)
	}
	loads(t, l)
	second := opens()
	follows(second, 4)
	check(t, l.Close())
	// Another file with the same text: what was read of the first is not used.
	name := filepath.Join(dir, claims.Name)
	text, err := os.ReadFile(name)
	check(t, err)
	check(t, os.Remove(name))
	check(t, os.WriteFile(name, text, 0o644))
	l = begins(t, second)
	if n := l.Claims.Count(); n != 0 {
		t.Errorf("the leader knows %d claims of another file", n)
	}
	loads(t, l)
	check(t, l.Close())
}

// TestGuard: no checkpoint is signed that contradicts an earlier one, and none without the lock.
func TestGuard(t *testing.T) {
	t.Parallel()
	signer := newSigner(t).NoteSigner()
	g := &guard{Signer: signer, size: 5}
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"4\nAAAA\n", false}, {"5\nAAAA\n", true}, {"5\nAAAA\n", true}, {"5\nBBBB\n", false}, {"7\nBBBB\n", true}, {"6\nBBBB\n", false}, {"x\n", false},
	} {
		if _, err := g.Sign([]byte(testOrigin + "\n" + c.text)); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	var held error
	g = &guard{Signer: signer, fence: func(context.Context) error { return held }}
	if _, err := g.Sign([]byte(testOrigin + "\n1\nAAAA\n")); err != nil {
		t.Error(err)
	}
	held = ErrLost
	if _, err := g.Sign([]byte(testOrigin + "\n1\nAAAA\n")); !errors.Is(err, ErrLost) {
		t.Errorf("signed without the lock: %v", err)
	}
}

// TestFencedDial: Tessera gets no connection when the lock is lost, and what it has ends.
func TestFencedDial(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	check(t, err)
	defer listener.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	config, err := mysql.ParseDSN("root@unix(" + socket + ")/log")
	check(t, err)
	l := newLines()
	var held error
	l.fence = func(context.Context) error { return held }
	dsn := l.dsn(config)
	ping := func() error {
		db, err := sql.Open("mysql", dsn)
		check(t, err)
		defer db.Close()
		return db.PingContext(t.Context())
	}
	held = ErrLost
	if err := ping(); !errors.Is(err, ErrLost) {
		t.Errorf("a dial without the lock: %v", err)
	}
	(<-accepted).Close()
	held = nil
	done := make(chan error, 1)
	go func() { done <- ping() }() // waits for the greeting of the database
	c := <-accepted
	defer c.Close()
	for kept := 0; kept == 0; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		kept = len(l.open)
		l.mu.Unlock()
	}
	l.hangUp()
	if err := <-done; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the connection goes on: %v", err)
	}
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection goes on: %d, %v", n, err)
	}
	if err := ping(); err == nil {
		t.Error("a dial after the end")
	}
}

const formOfBucket = "--s3 is s3://BUCKET"

// TestBuckets: an address of a bucket that is wrong is refused, and no secret is shown.
func TestBuckets(t *testing.T) {
	withCredentials(t)
	for address, want := range map[string]string{
		"https://host/bucket": formOfBucket, "s3://": formOfBucket, "s3://b?endpoint=": formOfBucket, "s3://b?x=y": formOfBucket, "s3://S3cret@b": formOfBucket, "s3://b/a": formOfBucket,
		"s3://b?endpoint=http://s3.example": "without TLS", "s3://b?endpoint=https://u:S3cret@s3.example": "no https URL",
		"s3://b?endpoint=http://127.0.0.1:1": "cannot be used",
	} {
		if _, err := openBucket(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// withCredentials sets what every program for S3 takes from the environment.
func withCredentials(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
}

// An endpoint of the environment is held to the same rules.
func TestEndpointOfEnvironment(t *testing.T) {
	withCredentials(t)
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "http://s3.example")
			if _, err := openBucket("s3://bucket?region=us-east-1"); err == nil || !strings.Contains(err.Error(), "without TLS") {
				t.Error(err)
			}
		})
	}
}

// An object that is larger than any file of a log is not read completely.
func TestLargeObject(t *testing.T) {
	withCredentials(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write(make([]byte, maxObject+1))
		}
	}))
	defer server.Close()
	b, err := openBucket("s3://bucket?endpoint=" + server.URL)
	check(t, err)
	if text, err := b.Resource("tile/0/000"); err == nil || !strings.Contains(err.Error(), "is larger") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestSeen: a blob that was put, or found once, is not looked for again. One that is missing, has
// another size, or was refused is.
func TestSeen(t *testing.T) {
	withCredentials(t)
	var mu sync.Mutex
	there, heads, refuses := map[string]int64{}, 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.URL.Path, nameEvidence) {
			return // the bucket
		}
		switch size, ok := there[r.URL.Path]; {
		case r.Method == http.MethodPut && refuses:
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodPut:
			n, _ := io.Copy(io.Discard, r.Body)
			there[r.URL.Path] = n
		case r.Method == http.MethodHead && ok:
			heads++
			w.Header().Set("Content-Length", fmt.Sprint(size))
		default:
			heads++
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	open := func() *bucket {
		b, err := openBucket("s3://bucket?endpoint=" + server.URL)
		check(t, err)
		return b
	}
	content := []byte("evidence")
	blob := ledger.Blob{SHA256: canon.Sum(content), Size: int64(len(content))}
	b, other := open(), open()
	looks := func(b *bucket, blob ledger.Blob, has bool, asked int) {
		t.Helper()
		got, err := b.HasBlob(blob)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || got != has || heads != asked {
			t.Errorf("%v, %v, %d requests", got, err, heads)
		}
		heads = 0
	}
	looks(b, blob, false, 1)
	refuse := func(now bool) { mu.Lock(); defer mu.Unlock(); refuses = now }
	refuse(true)
	if err := b.PutBlob(blob.SHA256, bytes.NewReader(content)); err == nil {
		t.Error("the refusal is no error")
	}
	looks(b, blob, false, 1)
	refuse(false)
	check(t, b.PutBlob(blob.SHA256, bytes.NewReader(content)))
	looks(b, blob, true, 0)
	looks(b, ledger.Blob{SHA256: blob.SHA256, Size: 1}, false, 1)
	looks(b, blob, true, 0)
	looks(other, blob, true, 1)
	looks(other, blob, true, 0)
	for i := range maxSeen - 1 {
		other.seen.add(canon.Sum(fmt.Append(nil, i)), 1)
	}
	looks(other, blob, true, 0)
	other.seen.add(canon.Sum([]byte("one more")), 1)
	if n := len(other.seen.sizes); n != 1 {
		t.Errorf("%d blobs are remembered", n)
	}
	looks(other, blob, true, 1)
	other.seen.begun = time.Now().Add(-seenTime)
	looks(other, blob, true, 1)
	looks(other, blob, true, 0)
}

// BenchmarkAdd measures one Add to Tessera's driver for a local folder, by batch.
func BenchmarkAdd(b *testing.B) {
	signer := newSigner(b)
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t, err := openTree(filepath.Join(b.TempDir(), "log"), signer.NoteSigner(), nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			next := int64(0)
			for b.Loop() {
				batch := make([]claims.Item, size)
				for i := range batch {
					batch[i].Entry = make([]byte, 800)
					_, _ = rand.Read(batch[i].Entry)
				}
				if err := t.Add(next, batch); err != nil {
					b.Fatal(err)
				}
				next += int64(size)
			}
			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "entries/s")
			if err := t.close(false); err != nil {
				b.Fatal(err)
			}
		})
	}
}
