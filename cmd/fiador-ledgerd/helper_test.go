package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// ownTimes names the variable that leaves some times of a process as they are in the program.
// All others are longer in the tests.
const ownTimes = "FIADOR_LEDGERD_OWN_TIMES"

// The values of ownTimes.
const (
	ownSession = "session" // of a database
	ownEnd     = "end"     // of a server
)

// TestMain makes the test binary the program itself for tests that kill it.
func TestMain(m *testing.M) {
	if os.Getenv(ownTimes) != ownSession {
		storage.WatchTime, storage.IdleSession = patience/4, 30
	}
	if os.Getenv(ownTimes) != ownEnd {
		storage.LastCheckpoint = patience
	}
	if step := os.Getenv("FIADOR_LEDGERD_KILL"); step != "" {
		os.Exit(killedAt(step))
	}
	if os.Getenv("FIADOR_LEDGERD_TEST") != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": testAccess, "AWS_SECRET_ACCESS_KEY": testSecret, "AWS_EC2_METADATA_DISABLED": "true"} {
		_ = os.Setenv(name, value) // of the S3 server of the tests
	}
	if os.Getenv(stormClient) != "" {
		os.Exit(runStormClient(os.Stdin, os.Stderr))
	}
	storage.Quiet(nothing)
	status := rehearsal.Tests{M: m}.Run()
	stopServices()
	os.Exit(status)
}

const testOrigin = "example.com/log"

// What is known of a server from the outside.
const (
	saysItWrites       = "this server writes to the log now"
	indexesOf          = `{"indexes":[`         // begins a line of claims.jsonl
	betweenCheckpoints = 200 * time.Millisecond // of a log in a folder
	witnessRests       = time.Second            // after an answer that is none
)

// patience is how long a test waits for an event. Some machines stop a process for ten seconds.
const patience = time.Minute

// place is the folder of a log with its key, clients and tokens.
type place struct {
	t      testing.TB
	dir    string // of the log, or of the bucket
	dsn    string // of the database, or empty
	s3     string
	secret string // that no line may show
	key    string
	file   string // of the clients
	keys   ledger.Keys
	tokens map[string]string
	intent string   // of the records that grow makes
	under  []string // a program that starts the server
	own    string   // what ownTimes says to its processes

	servers int // that run in this process
}

func newPlace(t testing.TB) *place {
	t.Helper()
	base := t.TempDir()
	private, verifier, err := ledger.GenerateKey(rand.Reader, testOrigin)
	check(t, err)
	v, err := ledger.ParseVerifier(verifier)
	check(t, err)
	p := &place{t: t, dir: filepath.Join(base, "log"), key: filepath.Join(base, "key"), file: filepath.Join(base, "clients.json"),
		keys: ledger.Keys{{Size: 1, Key: v}}, tokens: map[string]string{}}
	check(t, os.WriteFile(p.key, []byte(private+"\n"), 0o600))
	var members []string
	for name, may := range map[string]string{"ci": "append", "reader": "read"} {
		var out, member bytes.Buffer
		if status := run(context.Background(), []string{"token", name, "--may", may}, &out, &member); status != 0 {
			t.Fatalf("token: %s", &member)
		}
		p.tokens[name] = strings.TrimSpace(out.String())
		members = append(members, strings.TrimPrefix(strings.TrimSpace(member.String()), "add to clients: "))
	}
	check(t, os.WriteFile(p.file, []byte(`{"clients":[`+strings.Join(members, ",")+`]}`), 0o644))
	return p
}

// named returns the flags that name the log.
func (p *place) named(more ...string) []string {
	storage := []string{"--posix", p.dir}
	if p.dsn != "" {
		storage = []string{"--mysql", p.dsn, "--s3", p.s3}
	}
	return append(append(storage, "--origin", testOrigin, "--key", p.key), more...)
}

func (p *place) args(more ...string) []string {
	return append(p.named(), append([]string{"--listen", "127.0.0.1:0", "--clients", p.file}, more...)...)
}

// running is a server, in this process or in its own.
type running struct {
	*place
	url    string
	stderr *rehearsal.Buffer
	stop   func() error
	kill   func()
	end    func() error // waits for the end
	signal func(os.Signal) error
	ended  chan error // of a process
}

// start starts a server in this process.
func (p *place) start(c server.Config, more ...string) *running {
	p.t.Helper()
	r, err := p.tryStart(c, more...)
	if err != nil {
		p.t.Fatalf("serve: %v\n%s", err, r.stderr)
	}
	return r
}

func (p *place) tryStart(c server.Config, more ...string) (*running, error) {
	p.t.Helper()
	r := &running{place: p, stderr: new(rehearsal.Buffer)}
	if c.Now == nil {
		c.Now = time.Now
	}
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	c.Ready = func(a net.Addr) { ready <- a }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- serve(ctx, p.args(more...), &printer{to: r.stderr}, c) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		if r.url != "" {
			p.servers--
		}
		return <-ended
	})
	p.t.Cleanup(func() { _ = r.stop(); r.discreet() })
	select {
	case a := <-ready:
		r.url = "http://" + a.String()
		if p.servers++; p.servers == 1 {
			r.waitFor(saysItWrites) // another test that forks can hold the lock for a moment, and a witness can hang
		}
		return r, nil
	case err := <-ended:
		ended <- err
		return r, err
	}
}

// process starts a server as a process of its own, which then writes or waits.
func (p *place) process(more ...string) *running {
	p.t.Helper()
	r := p.launch(more...)
	r.says("this one waits", saysItWrites)
	return r
}

// launch starts a server as a process of its own, which then listens.
func (p *place) launch(more ...string) *running {
	p.t.Helper()
	r := &running{place: p, stderr: new(rehearsal.Buffer), ended: make(chan error, 1)}
	argv := slices.Concat(p.under, []string{os.Args[0], "serve"}, p.args(more...))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "FIADOR_LEDGERD_TEST=1", ownTimes+"="+p.own)
	cmd.Stderr = r.stderr
	check(p.t, cmd.Start())
	wait := sync.OnceValue(cmd.Wait)
	r.end = wait
	r.kill = func() { _ = cmd.Process.Kill(); _ = wait() }
	r.stop = func() error { _ = cmd.Process.Signal(syscall.SIGTERM); return wait() }
	r.signal = cmd.Process.Signal
	p.t.Cleanup(func() { r.kill(); r.discreet() })
	go func() { r.ended <- wait() }()
	r.says("listening on ")
	_, r.url, _ = strings.Cut(r.stderr.String(), "listening on ")
	r.url, _, _ = strings.Cut(r.url, "\n")
	return r
}

// says waits until a process says one of some texts, in a whole line.
func (r *running) says(texts ...string) {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		said := r.stderr.String()
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(said, text) }) && strings.HasSuffix(said, "\n") {
			return
		}
		select {
		case err := <-r.ended:
			r.t.Fatalf("the server ended: %v\n%s", err, r.stderr)
		default:
		}
	}
	r.t.Fatalf("the server does not say %q:\n%s", texts, r.stderr)
}

// discreet checks that no line has a token or a path of the log.
func (r *running) discreet() {
	text := r.stderr.String()
	for _, secret := range append([]string{r.dir, testSecret, cmp.Or(r.secret, testSecret)}, slices.Collect(maps.Values(r.tokens))...) {
		if strings.Contains(text, secret) {
			r.t.Errorf("stderr has a token or a path: %s", text)
		}
	}
}

// refusal is the document of an answer that is no success.
type refusal struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

// reply is an answer to a request.
type reply struct {
	status int
	header http.Header
	body   []byte
	ledger.Recorded
	refusal
}

var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// do sends a request. The status is 0 if no answer came.
func (r *running) do(method, path, token string, body io.Reader) (out reply) {
	req, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		panic(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := testClient.Do(req)
	if err != nil {
		return reply{body: []byte(err.Error())}
	}
	defer resp.Body.Close()
	defer func() {
		if bytes.Contains(out.body, []byte(r.dir)) {
			panic("an answer has a path: " + string(out.body))
		}
	}()
	out = reply{status: resp.StatusCode, header: resp.Header}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return reply{body: []byte(err.Error())}
	}
	if resp.Header.Get("Content-Type") == "application/json" && method != http.MethodHead {
		if canonical, err := canon.Parse(out.body, 1<<20); err != nil || string(canonical.Bytes())+"\n" != string(out.body) {
			panic("an answer is not canonical: " + string(out.body))
		}
		_ = json.Unmarshal(out.body, &out.Recorded)
		_ = json.Unmarshal(out.body, &out.refusal)
	}
	return out
}

func (r *running) get(path string) reply { return r.do("GET", path, r.tokens["reader"], nil) }

func (r *running) post(rec ledger.Record) reply {
	draft, err := rec.Draft()
	if err != nil {
		panic(err)
	}
	return r.do("POST", "/v1/records", r.tokens["ci"], bytes.NewReader(draft))
}

// accepted checks an answer as a client does, and returns the record of its entry.
func (r *running) accepted(rec ledger.Record, got reply) ledger.Record {
	r.t.Helper()
	if got.status != 200 {
		r.t.Fatalf("record: status %d: %s\n%s", got.status, got.body, r.stderr)
	}
	draft, err := rec.Draft()
	check(r.t, err)
	receipt, err := r.keys.CheckRecorded(rec, draft, got.body)
	check(r.t, err)
	return receipt.Record
}

// log reads the whole log as an auditor does: it checks the checkpoint, the tree over the
// entries, every tile, and the story of the records.
func (r *running) log(least int64) []ledger.Record {
	r.t.Helper()
	var c ledger.Checkpoint
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := r.get("/checkpoint")
		if got.status == 200 {
			var err error
			c, err = r.keys.OpenCheckpoint(got.body)
			check(r.t, err)
			if c.Size >= least {
				break
			}
		}
		if time.Now().After(end) {
			r.t.Fatalf("the checkpoint stays at %d entries, and %d were promised: %s\n%s", c.Size, least, got.body, r.stderr)
		}
	}
	var hashes []tlog.Hash
	stored := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var list []tlog.Hash
		for _, i := range indexes {
			list = append(list, hashes[i])
		}
		return list, nil
	})
	var records []ledger.Record
	open := map[string]ledger.Record{}
	for n := int64(0); n*256 < c.Size; n++ {
		width := min(256, c.Size-n*256)
		bundle := r.get("/" + ledger.TilePath(tlog.Tile{H: 8, L: -1, N: n, W: int(width)}))
		if bundle.status != 200 {
			r.t.Fatalf("bundle %d: %s", n, bundle.body)
		}
		for b := bundle.body; len(b) > 0; {
			size := int(b[0])<<8 + int(b[1])
			entry := b[2 : 2+size]
			b = b[2+size:]
			more, err := tlog.StoredHashes(int64(len(records)), entry, stored)
			check(r.t, err)
			hashes = append(hashes, more...)
			rec, err := ledger.ParseRecord(entry)
			check(r.t, err)
			if len(records) > 0 && rec.Timestamp < records[len(records)-1].Timestamp {
				r.t.Fatalf("entry %d is before the one before it", len(records))
			}
			if rec.RunID != "" {
				if old, ok := open[rec.RunID]; ok {
					if same, err := rec.After(old, 0); same || err != nil {
						r.t.Fatalf("entry %d cannot follow: %v", len(records), err)
					}
				}
				open[rec.RunID] = rec
			}
			records = append(records, rec)
		}
	}
	root, err := tlog.TreeHash(c.Size, stored)
	check(r.t, err)
	if int64(len(records)) != c.Size || root != c.Root {
		r.t.Fatalf("the tree of %d entries is not the one of the checkpoint over %d", len(records), c.Size)
	}
	for _, t := range tlog.NewTiles(8, 0, c.Size) {
		want, err := tlog.ReadTileData(t, stored)
		check(r.t, err)
		if got := r.get("/" + ledger.TilePath(t)); got.status != 200 || !bytes.Equal(got.body, want) {
			r.t.Fatalf("tile %s is wrong: %d", ledger.TilePath(t), got.status)
		}
	}
	return records
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hash(text string) canon.ContentHash { return canon.Sum([]byte(text)) }

// begun and failed return records of a run.
func begun(run string) ledger.Record {
	return ledger.Record{Kind: ledger.KindBegun, RunID: run, IntentSHA256: hash("intent"), ExecutionMode: "execute-sandbox", Mode: "none",
		Policy: "strict", PolicySHA256: hash("policy"), InputSHA256: hash("input"), BundleSHA256: hash("bundle"), Kernel: "1.0.0"}
}

func failedRun(run string) ledger.Record {
	return ledger.Record{Kind: ledger.KindError, RunID: run, IntentSHA256: hash("intent"), ExecutionMode: "execute-sandbox", Mode: "none",
		Policy: "strict", PolicySHA256: hash("policy"), Kernel: "1.0.0", Code: "RUN_E001"}
}

func decision(run string, evidence []byte) ledger.Record {
	r := begun(run)
	r.Kind, r.ResultKind, r.Accepted, r.Reasons = ledger.KindDecision, "BUNDLE", true, []string{}
	r.DecisionSHA256, r.CanonicalSHA256, r.ResultSHA256 = hash("decision"), hash("canonical"), hash("result")
	r.Evidence = ledger.Blob{SHA256: canon.Sum(evidence), Size: int64(len(evidence))}
	return r
}

func (r *running) put(blob []byte) reply {
	return r.do("PUT", "/v1/evidence/"+canon.Sum(blob).Hex(), r.tokens["ci"], bytes.NewReader(blob))
}
