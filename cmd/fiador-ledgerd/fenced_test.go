package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/transparency-dev/tessera"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
)

// posts sends records of several runs at once.
func (r *running) posts(name string, from, to int) {
	r.t.Helper()
	var all sync.WaitGroup
	runs := make(chan string)
	for range 32 {
		all.Go(func() {
			for run := range runs {
				r.accepted(begun(run), r.retry(begun(run)))
			}
		})
	}
	for i := from; i < to; i++ {
		runs <- fmt.Sprintf("%s-%d", name, i)
	}
	close(runs)
	all.Wait()
}

// filled returns the place of a log that has a full tile and a part of the next one, in a
// database without a server.
func filled(t *testing.T) *place {
	t.Helper()
	p := newPlaceIn(t, "database")
	r := p.start(server.Config{})
	r.posts("run", 1, 301)
	r.log(301)
	check(t, r.stop())
	return p
}

// Tessera removes a part of a tile when the tile is full. A run that was begun in that part
// can still end, and its claim is not doubted.
func TestPartRemoved(t *testing.T) {
	t.Parallel()
	p := filled(t)
	r := p.start(server.Config{})
	r.posts("new", 1, 256)
	r.log(556)
	part := filepath.Join(p.dir, "tile/0/001.p")
	if _, err := os.Stat(part); err != nil {
		t.Fatal(err)
	}
	check(t, os.RemoveAll(part))
	r.accepted(failedRun("run-1"), r.post(failedRun("run-1"))) // its tile takes the place of the other in memory
	late := r.log(557)[299].RunID
	r.accepted(failedRun(late), r.post(failedRun(late)))
	if said := r.stderr.String(); strings.Contains(said, "was changed") {
		t.Errorf("stderr: %s", said)
	}
}

// A tile that cannot be read for a moment does not throw the claims away.
func TestTileNotRead(t *testing.T) {
	t.Parallel()
	p := filled(t)
	query(t, p.dsn, "UPDATE FiadorClaims SET entry = 'x' WHERE idx = 7") // is made again with all others
	r := p.start(server.Config{})
	first := r.log(301)[8].RunID
	tile := filepath.Join(p.dir, "tile/0/000")
	check(t, os.Rename(tile, tile+".away"))
	r.refused("a record whose tile is not there", r.post(failedRun(first)), 500, "storage")
	check(t, os.Rename(tile+".away", tile))
	r.accepted(failedRun(first), r.retry(failedRun(first)))
	if n := p.counted("FiadorClaims WHERE entry = 'x'"); n != 1 {
		t.Error("the claims were made again")
	}
}

// Claims behind the settled ones are compared with the log a page at a time.
func TestManyOpenClaims(t *testing.T) {
	t.Parallel()
	p := filled(t)
	query(t, p.dsn, "UPDATE FiadorLog SET settled = 1, latest = ''")
	db, err := sql.Open("mysql", p.dsn)
	check(t, err)
	defer db.Close()
	c := claims.InTable(db, 0, nil)
	open, err := c.Load(301, storage.NewView(p.storage()))
	if check(t, err); len(open) != 0 || c.Count() != 1 {
		t.Errorf("%d open claims behind %d", len(open), c.Count())
	}
	r := p.start(server.Config{})
	if n := len(r.log(301)); n != 301 {
		t.Errorf("%d entries", n)
	}
	r.accepted(begun("run-301"), r.post(begun("run-301")))
}

// All tables of a log are of InnoDB, whatever the database has by default. Other tables are
// refused.
func TestEngine(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	m := ownMySQL(t, "--default-storage-engine=MyISAM")
	p.dsn = m.database(t)
	r := p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	if n := p.counted("information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB'"); n != 0 {
		t.Errorf("%d tables are not of InnoDB", n)
	}
	check(t, r.stop())
	query(t, p.dsn, "ALTER TABLE Seq ENGINE=MyISAM")
	if r, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "InnoDB") {
		t.Errorf("started: %v\n%s", err, r.stderr)
	}
	says(t, 2, "InnoDB", append([]string{"check"}, p.args()[:8]...)...)
}

// A checkpoint whose PUT was lost is written again.
func TestOldCheckpoint(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	r := p.start(server.Config{})
	r.log(1)
	old, err := os.ReadFile(filepath.Join(p.dir, "checkpoint"))
	check(t, err)
	settings, name := p.bucket()
	client := awss3.NewFromConfig(settings, inPath)
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.log(2)
	putBack := func() {
		_, err := client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &name, Key: aws.String("checkpoint"), Body: bytes.NewReader(old)})
		check(t, err)
	}
	putBack() // below a running server
	file := filepath.Join(p.dir, "checkpoint")
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if now, err := os.ReadFile(file); err == nil && len(now) > 0 && !bytes.Equal(now, old) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the bucket keeps the old checkpoint: %s", r.stderr)
		}
	}
	r.log(2)
	check(t, r.stop())
	putBack()
	p.start(server.Config{}).log(2)
}

// A bucket that is too slow is no failure of the storage: the client tries again.
func TestPushback(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	var f faults
	r := p.start(server.Config{Decorate: f.decorate})
	f.once(func(tessera.AddFn, context.Context, *tessera.Entry) tessera.IndexFuture {
		return failing(tessera.ErrPushbackIntegration)
	})
	r.refused("too many entries in no tile", r.post(begun("run-1")), 503, "busy")
	r.refused("before it is settled", r.post(begun("run-2")), 503, "busy")
	r.accepted(begun("run-1"), r.retry(begun("run-1")))
}

// A server that lost the lock writes no document, and the leader of now does.
func TestFence(t *testing.T) {
	t.Parallel()
	p := newPlaceIn(t, "database")
	d, other := p.storage(), p.storage()
	first, err := d.Lead(nil)
	check(t, err)
	check(t, d.SetDocument(storage.NameImport, []byte("{}")))
	check(t, d.SetDocument(storage.NameImport, nil))
	p.takeLock()
	<-first.Lost
	second, err := other.Lead(nil)
	check(t, err)
	if err := d.SetDocument(storage.NameImport, []byte("{}")); !errors.Is(err, storage.ErrLost) {
		t.Errorf("a document: %v", err)
	}
	check(t, other.SetDocument(storage.NameImport, nil))
	check(t, errors.Join(first.Close(), second.Close()))
}
