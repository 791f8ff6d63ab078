package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/transparency-dev/tessera/api"
	tclient "github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/ledger"
)

// refused checks the form of an answer that is no success.
func (r *running) refused(what string, got reply, status int, code string) {
	r.t.Helper()
	if got.status != status || got.Error != code || got.Message == "" || got.Ack != "" || len(got.body) > 4096 {
		r.t.Errorf("%s: %d %s, and %d %q was expected", what, got.status, got.body, status, code)
	}
	if status == 503 && got.header.Get("Retry-After") == "" {
		r.t.Errorf("%s: no Retry-After", what)
	}
}

func TestStory(t *testing.T) { over(t, testStory) }

func testStory(t *testing.T, p *place) {
	r := p.start(server.Config{})
	blob := []byte("{\"evidence\":1}\n")
	r.refused("evidence missing", r.post(decision("run-1", blob)), 409, "evidence")
	for range 2 {
		if got := r.put(blob); got.status != 204 || len(got.body) != 0 {
			t.Fatalf("put: %d %s", got.status, got.body)
		}
	}
	bad := decision("run-1", blob)
	bad.Evidence.Size++
	r.refused("evidence of another size", r.post(bad), 409, "evidence")

	first := r.post(begun("run-1"))
	entry := r.accepted(begun("run-1"), first)
	if first.Index != 1 || first.Again || entry.Submitter != "ci" || time.Since(entry.Time()) > time.Minute {
		t.Fatalf("first: %s", first.body)
	}
	second := r.post(begun("run-1"))
	r.accepted(begun("run-1"), second)
	if !second.Again || second.Index != 1 || second.Entry != first.Entry || second.Ack != first.Ack {
		t.Fatalf("again: %s", second.body)
	}
	other := begun("run-1")
	other.IntentSHA256 = hash("another intent")
	r.refused("another begun", r.post(other), 409, "conflict")
	other = decision("run-1", blob)
	other.InputSHA256 = hash("another input")
	r.refused("another end", r.post(other), 409, "conflict")

	end := r.post(decision("run-1", blob))
	r.accepted(decision("run-1", blob), end)
	later := decision("run-1", blob)
	later.ResultSHA256, later.Evidence = hash("result with other times"), ledger.Blob{SHA256: hash("none"), Size: 9}
	if got := r.post(later); !got.Again || got.Index != end.Index || got.Entry != end.Entry {
		t.Fatalf("the same end with other times: %d %s", got.status, got.body)
	}
	r.refused("begun after the end", r.post(begun("run-1")), 409, "ended")
	r.refused("error after the end", r.post(failedRun("run-1")), 409, "conflict")
	r.accepted(failedRun("run-2"), r.post(failedRun("run-2")))

	// A blob that was damaged on the disk is written again when a client sends it.
	stored := filepath.Join(r.dir, "evidence/sha256", hash(string(blob)).Hex()[:2], hash(string(blob)).Hex()[2:])
	check(t, os.Truncate(stored, 3))
	if p.dsn != "" { // a server looks again for what it has seen in the bucket after a minute
		check(t, r.stop())
		r = p.start(server.Config{})
	}
	r.refused("a record about a blob that was cut on the disk", r.post(decision("run-3", blob)), 409, "evidence")
	for _, damaged := range [][]byte{blob[:3], bytes.Repeat([]byte("x"), len(blob))} {
		check(t, os.Remove(stored))
		check(t, os.WriteFile(stored, damaged, 0o444))
		if got := r.put(blob); got.status != 204 {
			t.Errorf("a damaged blob: %d %s", got.status, got.body)
		}
		if now, err := os.ReadFile(stored); err != nil || !bytes.Equal(now, blob) {
			t.Errorf("a damaged blob is %q, %v", now, err)
		}
	}

	for path, want := range map[string]string{"run-1": `{"indexes":[1,2]}`, "run-2": `{"indexes":[3]}`, "run-3": `{"indexes":[]}`} {
		if got := r.get("/v1/runs/" + path); got.status != 200 || string(got.body) != want+"\n" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := r.get("/v1/evidence/" + hash(string(blob)).Hex()); got.status != 200 || !bytes.Equal(got.body, blob) {
		t.Errorf("blob: %d %s", got.status, got.body)
	}
	if got := r.get("/origin.json"); got.status != 200 {
		t.Errorf("origin.json: %d", got.status)
	} else if keys, err := ledger.ParseKeys(got.body); err != nil || keys.Now().String() != r.keys.Now().String() {
		t.Errorf("origin.json: %v", err)
	}
	if records := r.log(4); len(records) != 4 || records[0].Kind != ledger.KindGenesis || records[0].Key != r.keys.Now().String() {
		t.Errorf("the log has %d records", len(records))
	}
	check(t, r.stop())
	r.fsck()
	r = r.start(server.Config{})
	if got := r.post(begun("run-1")); got.Error != "ended" {
		t.Errorf("after a new start: %s", got.body)
	}
	r.accepted(begun("run-9"), r.post(begun("run-9")))
	r.log(5)
}

// fsck has Tessera check its own files.
func (p *place) fsck() {
	p.t.Helper()
	v, err := note.NewVerifier(p.keys.Now().String())
	check(p.t, err)
	hashes := func(b []byte) (list [][]byte, err error) {
		var bundle api.EntryBundle
		if err := bundle.UnmarshalText(b); err != nil {
			return nil, err
		}
		for _, e := range bundle.Entries {
			h := ledger.LeafHash(e)
			list = append(list, h[:])
		}
		return list, nil
	}
	dir := filepath.Join(p.dir, "log")
	if p.dsn != "" {
		dir = p.dir
	}
	check(p.t, fsck.New(testOrigin, v, tclient.FileFetcher{Root: dir}, hashes, fsck.Opts{N: 1}).Check(p.t.Context()))
}

func TestForms(t *testing.T) { over(t, testForms) }

func testForms(t *testing.T, p *place) {
	r := p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.log(2)
	ci, reader := r.tokens["ci"], r.tokens["reader"]
	digits := hash("x").Hex()
	draft, err := begun("run-2").Draft()
	check(t, err)
	entry, err := func() ([]byte, error) { b := begun("run-2"); b.Stamp(time.Now(), ""); return b.Entry() }()
	check(t, err)
	submitted := bytes.Replace(draft, []byte(`"run_id":"run-2"`), []byte(`"run_id":"run-2","submitter":"ci"`), 1)
	for _, c := range []struct {
		what, method, path, token, body string
		status                          int
		code                            string
	}{
		{"wrong method", "GET", "/v1/records", ci, "", 400, "request"},
		{"wrong method of a tile", "POST", "/checkpoint", ci, "", 400, "request"},
		{"wrong method of a blob", "DELETE", "/v1/evidence/" + digits, ci, "", 400, "request"},
		{"a query", "GET", "/checkpoint?x=1", reader, "", 400, "request"},
		{"no token", "GET", "/checkpoint", "", "", 401, "token"},
		{"no token to append", "POST", "/v1/records", "", string(draft), 401, "token"},
		{"an unknown token", "GET", "/checkpoint", strings.Repeat("A", 43), "", 401, "token"},
		{"a short token", "GET", "/checkpoint", reader[:42], "", 401, "token"},
		{"a token and more", "GET", "/checkpoint", reader + "=", "", 401, "token"},
		{"a reader's record", "POST", "/v1/records", reader, string(draft), 403, "forbidden"},
		{"a reader's blob", "PUT", "/v1/evidence/" + digits, reader, "x", 403, "forbidden"},
		{"no such path", "GET", "/", reader, "", 404, "missing"},
		{"another path", "GET", "/v1/nothing", reader, "", 404, "missing"},
		{"a path with a slash too many", "GET", "//checkpoint", reader, "", 404, "missing"},
		{"a path outside", "GET", "/tile/../checkpoint", reader, "", 404, "missing"},
		{"an escaped path", "GET", "/tile%2f0/000", reader, "", 404, "missing"},
		{"a path of the storage", "GET", "/tile/../.state/treeState", reader, "", 404, "missing"},
		{"a bad run id", "GET", "/v1/runs/.x", reader, "", 404, "missing"},
		{"no run id", "GET", "/v1/runs/", reader, "", 404, "missing"},
		{"no such blob", "GET", "/v1/evidence/" + digits, reader, "", 404, "missing"},
		{"no hash", "GET", "/v1/evidence/xyz", reader, "", 404, "missing"},
		{"upper case", "GET", "/v1/evidence/" + strings.ToUpper(digits), reader, "", 404, "missing"},
		{"a tile that is not yet", "GET", "/tile/0/000", reader, "", 404, "missing"},
		{"a wider tile", "GET", "/tile/0/000.p/3", reader, "", 404, "missing"},
		{"a tile far away", "GET", "/tile/0/x123/456", reader, "", 404, "missing"},
		{"a high tile", "GET", "/tile/9/000.p/1", reader, "", 404, "missing"},
		{"a tile in another spelling", "GET", "/tile/00/000.p/2", reader, "", 404, "missing"},
		{"no tile", "GET", "/tile/0", reader, "", 404, "missing"},
		{"a bundle that is not yet", "GET", "/tile/entries/001.p/1", reader, "", 404, "missing"},
		{"data is no path of entries", "GET", "/tile/data/000.p/2", reader, "", 404, "missing"},
		{"a large record", "POST", "/v1/records", ci, string(draft) + strings.Repeat(" ", 16<<10), 413, "large"},
		{"no body", "POST", "/v1/records", ci, "", 422, "record"},
		{"no draft", "POST", "/v1/records", ci, "{}", 422, "record"},
		{"an entry", "POST", "/v1/records", ci, string(entry), 422, "record"},
		{"a line", "POST", "/v1/records", ci, string(draft) + "\n", 422, "record"},
		{"a submitter", "POST", "/v1/records", ci, string(submitted), 422, "record"},
		{"another order", "POST", "/v1/records", ci, strings.Replace(string(draft), `"accepted":null,`, "", 1)[:1] + `"kind":"begun"}`, 422, "record"},
		{"a genesis", "POST", "/v1/records", ci, `{"format":"1.0.0","key":"` + r.keys.Now().String() + `","kind":"genesis","origin":"` + testOrigin + `"}`, 422, "record"},
		{"a blob of another hash", "PUT", "/v1/evidence/" + digits, ci, "y", 422, "record"},
		{"a blob without a hash", "PUT", "/v1/evidence/xyz", ci, "y", 422, "record"},
	} {
		r.refused(c.what, r.do(c.method, c.path, c.token, strings.NewReader(c.body)), c.status, c.code)
	}
	r.log(2)
}

func TestHeaders(t *testing.T) { over(t, testHeaders) }

func testHeaders(t *testing.T, p *place) {
	r := p.start(server.Config{})
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	r.log(2)
	ci, reader := r.tokens["ci"], r.tokens["reader"]
	req, err := http.NewRequest("GET", r.url+"/checkpoint", nil)
	check(t, err)
	req.Header["Authorization"] = []string{"Bearer " + reader, "Bearer " + ci}
	resp, err := testClient.Do(req)
	check(t, err)
	if resp.Body.Close(); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("two tokens: %d", resp.StatusCode)
	}
	req.Header["Authorization"] = []string{"Basic " + reader}
	resp, err = testClient.Do(req)
	check(t, err)
	if resp.Body.Close(); resp.StatusCode != 401 {
		t.Errorf("another scheme: %d", resp.StatusCode)
	}
	for _, path := range []string{"/checkpoint", "/origin.json", "/tile/0/000.p/2", "/tile/entries/000.p/2", "/tile/0/000.p/1"} {
		got, head := r.get(path), r.do("HEAD", path, reader, nil)
		if got.status != 200 || head.status != 200 || len(head.body) > 0 || head.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
			t.Errorf("HEAD %s: %d %d %v", path, got.status, head.status, head.header)
		}
		if cache := got.header.Get("Cache-Control"); cache != "no-cache" {
			t.Errorf("%s: Cache-Control %q", path, cache)
		}
	}
	r.log(2)
}

func TestPublicRead(t *testing.T) { over(t, testPublicRead) }

func testPublicRead(t *testing.T, p *place) {
	r := p.start(server.Config{}, "--public-read")
	blob := []byte("evidence")
	r.put(blob)
	for _, path := range []string{"/checkpoint", "/origin.json", "/tile/entries/000.p/1"} {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			got := r.do("GET", path, "", nil)
			if got.status == 200 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d %s", path, got.status, got.body)
			}
		}
	}
	r.refused("evidence", r.do("GET", "/v1/evidence/"+hash(string(blob)).Hex(), "", nil), 401, "token")
	r.refused("a run", r.do("GET", "/v1/runs/run-1", "", nil), 401, "token")
	r.refused("a record", r.do("POST", "/v1/records", "", nil), 401, "token")
}

func TestLimits(t *testing.T) { over(t, testLimits) }

func testLimits(t *testing.T, p *place) {
	r := p.start(server.Config{})
	large := make([]byte, ledger.MaxBlobBytes)
	if got := r.put(large); got.status != 204 {
		t.Fatalf("the largest blob: %d %s", got.status, got.body)
	}
	if got := r.get("/v1/evidence/" + hash(string(large)).Hex()); got.status != 200 || !bytes.Equal(got.body, large) {
		t.Fatalf("the largest blob: %d", got.status)
	}
	more := append(large, 0)
	for _, body := range []io.Reader{bytes.NewReader(more), io.MultiReader(bytes.NewReader(more))} { // the second has no length
		got := r.do("PUT", "/v1/evidence/"+hash(string(more)).Hex(), r.tokens["ci"], body)
		if got.status != 413 && got.status != 0 { // 0: the connection ended before the client had sent all
			t.Errorf("a larger blob: %d %s", got.status, got.body)
		}
	}
	r.refused("it is not stored", r.get("/v1/evidence/"+hash(string(more)).Hex()), 404, "missing")
	if left, err := os.ReadDir(filepath.Join(r.dir, "evidence/incoming")); p.dsn == "" && (err != nil || len(left) > 0) {
		t.Errorf("refused blobs left %v, %v", left, err)
	}
	req, err := http.NewRequest("GET", r.url+"/checkpoint", nil)
	check(t, err)
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if resp, err := testClient.Do(req); err == nil {
		if resp.Body.Close(); resp.StatusCode != 431 {
			t.Errorf("a large header: %d", resp.StatusCode)
		}
	}

	long := decision("run-long", large) // as long as a record gets
	long.Accepted = false
	for i := range 64 {
		long.Reasons = append(long.Reasons, fmt.Sprintf("%s%02d 12345", strings.Repeat("R", 62), i))
	}
	r.accepted(long, r.post(long))
	r.log(2)
}

func TestSameRunAtOnce(t *testing.T) { over(t, testSameRunAtOnce) }

func testSameRunAtOnce(t *testing.T, p *place) {
	r := p.start(server.Config{})
	var all sync.WaitGroup
	got := make([]reply, 64)
	for i := range got {
		all.Go(func() { got[i] = r.post(begun("run-1")) })
	}
	all.Wait()
	fresh := 0
	for _, g := range got {
		r.accepted(begun("run-1"), g)
		if g.Entry != got[0].Entry || g.Index != 1 {
			t.Fatalf("another entry: %s", g.body)
		}
		if !g.Again {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers say that they are the first", fresh)
	}
	if records := r.log(2); len(records) != 2 {
		t.Errorf("the log has %d records", len(records))
	}
}

// A begun and its end at once: whichever comes first, the log keeps the story.
func TestBegunAndEndAtOnce(t *testing.T) { over(t, testBegunAndEndAtOnce) }

func testBegunAndEndAtOnce(t *testing.T, p *place) {
	r := p.start(server.Config{})
	var all sync.WaitGroup
	for i := range 40 {
		run := fmt.Sprintf("run-%d", i)
		all.Go(func() {
			if got := r.post(begun(run)); got.status != 200 && got.Error != "ended" {
				t.Errorf("begun: %d %s", got.status, got.body)
			}
		})
		all.Go(func() { r.accepted(failedRun(run), r.post(failedRun(run))) })
	}
	all.Wait()
	if n := len(r.log(41)); n < 41 || n > 81 {
		t.Errorf("the log has %d records", n)
	}
}

func TestManyClients(t *testing.T) { over(t, testManyClients) }

func testManyClients(t *testing.T, p *place) {
	r := p.start(server.Config{})
	const runs, clients = 300, 64
	jobs := make(chan int, 2*runs)
	for i := range runs {
		jobs <- i
	}
	close(jobs)
	var all sync.WaitGroup
	var mu sync.Mutex
	promised := map[int64]string{}
	for range clients {
		all.Go(func() {
			for i := range jobs {
				run := fmt.Sprintf("run-%03d", i)
				for _, rec := range []ledger.Record{begun(run), failedRun(run)} {
					got := r.post(rec)
					r.accepted(rec, got)
					mu.Lock()
					promised[got.Index] = got.Entry
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	records := r.log(2*runs + 1)
	if len(promised) != 2*runs || len(records) != 2*runs+1 {
		t.Fatalf("%d promises, %d records", len(promised), len(records))
	}
	for i, rec := range records[1:] {
		entry, err := rec.Entry()
		check(t, err)
		if promised[int64(i+1)] != string(entry) {
			t.Fatalf("entry %d is not the promised one", i+1)
		}
	}
	if got := r.get("/tile/0/001"); got.status != 200 || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
		t.Errorf("a full tile: %d %v", got.status, got.header)
	}
	// A client with an old checkpoint asks for parts of tiles that are full now.
	full, part := r.get("/tile/entries/001"), r.get("/tile/entries/001.p/17")
	if part.status != 200 || !bytes.HasPrefix(full.body, part.body) || len(part.body) == len(full.body) {
		t.Errorf("a part of a full bundle: %d, %d bytes", part.status, len(part.body))
	}
	full, part = r.get("/tile/0/001"), r.get("/tile/0/001.p/17")
	if part.status != 200 || !bytes.Equal(part.body, full.body[:17*32]) {
		t.Errorf("a part of a full tile: %d, %d bytes", part.status, len(part.body))
	}
	check(t, r.stop())
	r.fsck()
}

func TestSignals(t *testing.T) { over(t, testSignals) }

func testSignals(t *testing.T, p *place) {
	r := p.process()
	var all sync.WaitGroup
	var mu sync.Mutex
	promised := map[int64]string{}
	for i := range 16 {
		all.Go(func() {
			for n := 0; ; n++ {
				got := r.post(begun(fmt.Sprintf("run-%d-%d", i, n)))
				if got.status != 200 {
					if got.status != 0 && got.status != 503 {
						t.Errorf("at the end: %d %s", got.status, got.body)
					}
					return
				}
				mu.Lock()
				promised[got.Index] = got.Entry
				mu.Unlock()
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	if err := r.stop(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, r.stderr)
	}
	all.Wait()
	if !strings.Contains(r.stderr.String(), "ended\n") {
		t.Errorf("stderr: %s", r.stderr)
	}
	r.fsck()
	again := r.place.process()
	records := again.log(int64(len(promised)) + 1)
	for index, entry := range promised {
		if have, err := records[index].Entry(); err != nil || string(have) != entry {
			t.Fatalf("entry %d is not the promised one", index)
		}
	}
}

func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	good := newPlace(t)
	check(t, good.start(server.Config{}).stop())
	other := newPlace(t)
	for _, c := range []struct {
		what string
		want string
		with func(p *place) []string
	}{
		{"no arguments", "is missing", func(p *place) []string { return []string{"serve"} }},
		{"no command", "key or token", func(p *place) []string { return nil }},
		{"an unknown flag", "-sql", func(p *place) []string { return append(p.serve(), "--sql", "x") }},
		{"a certificate alone", "come together", func(p *place) []string { return append(p.serve(), "--tls-cert", "x") }},
		{"an argument", "\"x\" is not expected", func(p *place) []string { return append(p.serve(), "x") }},
		{"every address", "only a loopback address", func(p *place) []string { return append(p.serve(), "--listen", ":0") }},
		{"another address", "only a loopback address", func(p *place) []string { return append(p.serve(), "--listen", "192.0.2.1:80") }},
		{"a name", "only a loopback address", func(p *place) []string { return append(p.serve(), "--listen", "log.example:80") }},
		{"no port", "HOST:PORT", func(p *place) []string { return append(p.serve(), "--listen", "127.0.0.1") }},
		{"another origin", "--origin is", func(p *place) []string { return append(p.serve(), "--origin", "example.com/other") }},
		{"another key", "another key", func(p *place) []string { return append(p.serve(), "--key", other.key) }},
		{"a key for all", "chmod 600", func(p *place) []string { check(t, os.Chmod(p.key, 0o644)); return p.serve() }},
		{"no key", "no such file", func(p *place) []string { return append(p.serve(), "--key", p.key+"x") }},
		{"no clients", "no such file", func(p *place) []string { return append(p.serve(), "--clients", p.file+"x") }},
		{"a folder with files", "no origin.json", func(p *place) []string { return append(p.serve(), "--posix", filepath.Dir(p.key)) }},
		{"no folder above", "no such file", func(p *place) []string { return append(p.serve(), "--posix", p.dir+"/a/b") }},
		{"a bad origin.json", "origin.json: ", func(p *place) []string {
			check(t, os.WriteFile(filepath.Join(p.dir, "origin.json"), []byte("{}\n"), 0o644))
			return p.serve()
		}},
		{"no log", "old copy", func(p *place) []string { check(t, os.RemoveAll(filepath.Join(p.dir, "log"))); return p.serve() }},
		{"no log and no claims", "put them back", func(p *place) []string {
			check(t, os.RemoveAll(filepath.Join(p.dir, "log")))
			check(t, os.Remove(filepath.Join(p.dir, "claims.jsonl")))
			return p.serve()
		}},
	} {
		p := *good
		p.dir, p.key = filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "key")
		check(t, os.CopyFS(p.dir, os.DirFS(good.dir)))
		key, err := os.ReadFile(good.key)
		check(t, err)
		check(t, os.WriteFile(p.key, key, 0o600))
		var stdout, stderr bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if status := run(ctx, c.with(&p), &stdout, &stderr); status != 2 || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%s: status %d: %s", c.what, status, &stderr)
		}
		if text, _ := os.ReadFile(p.key); bytes.Contains(stderr.Bytes(), bytes.TrimSpace(text)) {
			t.Errorf("%s: the message has the key", c.what)
		}
	}
}

func (p *place) serve() []string { return append([]string{"serve"}, p.args()...) }

// TestUsage: a command that is wrong says so, and prints nothing.
func TestUsage(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"serve", "--help"}, &stdout, &stderr); status != 0 || stdout.String() != usage || stderr.Len() > 0 {
		t.Errorf("help: status %d: %s", status, &stderr)
	}
	for _, args := range [][]string{{"token"}, {"token", "a b", "--may", "read"}, {"token", "ci"}, {"token", "ci", "--may", "all"}, {"token", "ci", "x", "--may", "read"}} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, &stdout, &stderr); status != 2 || stdout.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}

// waitFor waits for a text on stderr.
func (r *running) waitFor(text string) {
	r.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(r.stderr.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("no %q in: %s", text, r.stderr)
		}
	}
}

func TestClientsChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.process()
	good, err := os.ReadFile(p.file)
	check(t, err)
	check(t, os.WriteFile(p.file, []byte(`{"clients":[{"name":"x"}]}`), 0o644))
	r.hangUp()
	r.waitFor("the clients stay as they were: ")
	if !strings.Contains(r.stderr.String(), "/clients/0/token_sha256") {
		t.Errorf("stderr: %s", r.stderr)
	}
	r.accepted(begun("run-1"), r.post(begun("run-1")))
	check(t, os.WriteFile(p.file, bytes.Replace(good, []byte(`"ci"`), []byte(`"cd"`), 1), 0o644))
	r.hangUp()
	r.waitFor("read 2 clients")
	if rec := r.accepted(begun("run-2"), r.post(begun("run-2"))); rec.Submitter != "cd" {
		t.Errorf("submitter %q", rec.Submitter)
	}
	check(t, os.WriteFile(p.file, []byte(`{"clients":[]}`), 0o644))
	r.hangUp()
	r.waitFor("read 0 clients")
	r.refused("a client that is gone", r.post(begun("run-3")), 401, "token")
}

func (r *running) hangUp() { check(r.t, r.signal(syscall.SIGHUP)) }
