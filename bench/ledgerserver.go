package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// serverSizes are the sizes at which the ledger server is timed.
type serverSizes struct {
	rounds   int           // of appends
	window   time.Duration // of each way in a round
	clients  []int
	database bool          // appends in MySQL and S3 too
	entries  []int         // of the logs that are read
	limit    time.Duration // of the import of one
	reads    int           // rounds of commands that read
	more     int           // entries before the last verify
}

func fullServer(rounds int) serverSizes {
	return serverSizes{(rounds + 5) / 6, time.Second, []int{1, 8, 64, 512}, true, []int{1e5, 1e6}, 30 * time.Minute, 3, 300}
}

func quickServer() serverSizes {
	return serverSizes{2, 50 * time.Millisecond, []int{1, 8}, true, []int{300, 700}, time.Minute, 1, 300}
}

// The ways that are compared.
const (
	ledgerdWay = "fiador-ledgerd"
	tesseraAdd = "Tessera's server"
	folderWay  = "a folder"

	verifyFirst  = "verify, first"
	verifyAgain  = "verify, second"
	verifyFolder = "verify of a folder"
	listFirst    = "list, first"
	listAgain    = "list, second"
	listFolder   = "list of a folder"
)

// crowdedServer is the appends of so many clients at once. A sample's Wall is the time of a
// round, divided by the records that it took.
type crowdedServer struct {
	clients int
	ways    []series
}

// serverAppends has the appends to logs in one kind of storage.
type serverAppends struct {
	storage string
	missing string // without which there are no figures
	version string // of the database
	ways    []string
	crowds  []crowdedServer
	records int64 // that were acknowledged, and stand in the log
}

// ledgerServed has the measurements of the ledger server.
type ledgerServed struct {
	sizes   serverSizes
	load    string // of the machine before
	after   string
	tessera string // version
	on      string // file system
	appends []*serverAppends
	logs    []*servedLog
}

// ledgerScene is the programs, a folder, and the servers that are asked now.
type ledgerScene struct {
	*scene
	t                tools
	root             string // of the module
	ledgerd, tessera string // programs
	token            string
	url, key         string       // of fiador-ledgerd, and of its log
	add              string       // URL of Tessera's server
	next             atomic.Int64 // number of the next run
	blobs            [][]byte     // a set of policies, and evidence that names it
	evidence         ledger.Blob
	book             *disk.Log
	http             *http.Client
}

func (s *ledgerScene) file(name string) string { return filepath.Join(s.dir, name) }

// ledgerServer fills the report's part about the ledger server.
func (r *report) ledgerServer(ctx context.Context, root string, t tools, dir string, z serverSizes, log io.Writer) (err error) {
	m := &ledgerServed{sizes: z, load: loadAverage()}
	r.served = m
	dir = filepath.Join(dir, "ledgerserver")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	own, version, err := buildLedger(ctx, root, dir)
	if err != nil {
		return err
	}
	s := &ledgerScene{scene: &scene{dir: dir}, t: t, root: root, ledgerd: filepath.Join(dir, "fiador-ledgerd"), tessera: own.tessera}
	if err := goTool(ctx, filepath.Join(root, "cmd", "fiador-ledgerd"), "", "build", "-trimpath", "-o", s.ledgerd, "."); err != nil {
		return err
	}
	m.tessera, m.on = version, fileSystem(dir)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.book.Close()) }()
	err = inParts(ctx, []part[*ledgerScene]{
		{"appends in folders", m.inFolders}, {"appends in MySQL and S3", m.inDatabase}, {"commands that read", m.reading},
	}, s, "ledger server", log)
	m.after = loadAverage()
	return err
}

// prepare makes a token and the folder, whose key is that of all logs that are appended to.
func (s *ledgerScene) prepare(ctx context.Context) error {
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: 3 * time.Second, DisableCompression: true}}
	token, err := s.output(ctx, command{"token", []string{s.ledgerd, "token", "bench", "--may", "append", "--clients", s.file("clients.json")}, 0})
	if err != nil {
		return err
	}
	s.token = string(bytes.TrimSpace(token))
	policies := []byte("policies")
	evidence := fmt.Appendf(nil, `{"intent":%q,"policy":{"sha256":%q,"size":%d}}`, strings.Repeat("intent", 1000), canon.Sum(policies), len(policies))
	s.blobs = [][]byte{policies, evidence}
	b, err := newBook(ctx, s.file("folder"), 1, s.blobs...)
	if err != nil {
		return err
	}
	s.evidence = b.evidence
	signer, err := disk.ReadKey(b.key)
	if err != nil {
		return err
	}
	s.book, err = disk.Open(b.dir, signer, disk.Options{Now: time.Now, Wait: time.Minute})
	return err
}

// serve starts fiador-ledgerd on a storage. It is the one that is asked from now on.
func (s *ledgerScene) serve(keyFile string, storage ...string) (stop func() error, err error) {
	signer, err := disk.ReadKey(keyFile)
	if err != nil {
		return nil, err
	}
	s.key = signer.Verifier().String()
	s.url, stop, err = listening("this server writes to the log now", append([]string{s.ledgerd, "serve", "--origin", bookOrigin, "--key", keyFile,
		"--listen", "127.0.0.1:0", "--clients", s.file("clients.json"), "--public-read"}, storage...))
	return stop, err
}

// listening starts a server, waits for a line, and returns the address that it prints.
func listening(ready string, argv []string) (url string, stop func() error, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+bucketAccess, "AWS_SECRET_ACCESS_KEY="+bucketSecret)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	lines := bufio.NewReader(out)
	for said := ""; url == "" || !strings.Contains(said, ready); {
		line, err := lines.ReadString('\n')
		said += line
		if _, at, ok := strings.Cut(strings.TrimSpace(line), "listening on "); ok {
			url = at
		}
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("%s: %s", filepath.Base(argv[0]), said), cmd.Wait())
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(os.Stderr, lines) }()
	return url, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		return cmd.Wait()
	}, nil
}

// ask sends one request with the token.
func (s *ledgerScene) ask(ctx context.Context, method, url string, body []byte, want int) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%d: %s", resp.StatusCode, said)
	}
	return err
}

// record returns the record of a run that no other record has.
func (s *ledgerScene) record() ledger.Record {
	some := canon.Sum([]byte("some"))
	return ledger.Record{
		Kind: ledger.KindDecision, RunID: fmt.Sprintf("run_%016x", mixed(uint64(s.next.Add(1)))), IntentSHA256: some, ExecutionMode: "plan-only", Mode: "none",
		Policy: "default", PolicySHA256: some, InputSHA256: some, BundleSHA256: some, Kernel: "1.0.0", ResultKind: "BUNDLE", Accepted: true,
		DecisionSHA256: some, CanonicalSHA256: some, ResultSHA256: some, Evidence: s.evidence,
	}
}

// append appends one record by a way.
func (s *ledgerScene) append(ctx context.Context, way string) error {
	rec := s.record()
	if way == folderWay {
		_, err := s.book.Append(ctx, rec)
		return err
	}
	draft, err := rec.Draft()
	if err != nil {
		return err
	}
	url := s.url + "/v1/records"
	if way == tesseraAdd {
		url = s.add + "/add"
	}
	return s.ask(ctx, http.MethodPost, url, draft, http.StatusOK)
}

// crowd appends with so many clients, each one record or more after the other, for a time or
// until there are enough records, and returns how many there are.
func (s *ledgerScene) crowd(ctx context.Context, way string, clients int, window time.Duration, enough int64) (int64, time.Duration, error) {
	var all sync.WaitGroup
	var begun, done atomic.Int64
	errs := make([]error, clients)
	start := time.Now()
	for i := range clients {
		all.Go(func() {
			for first := true; (first || time.Since(start) < window) && begun.Add(1) <= enough; first = false {
				if errs[i] = s.append(ctx, way); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return done.Load(), time.Since(start), errors.Join(errs...)
}

const unlimited = 1 << 62

// inFolders times appends to logs on the file system.
func (m *ledgerServed) inFolders(ctx context.Context, s *ledgerScene) error {
	a := &serverAppends{storage: "folders", ways: []string{ledgerdWay, tesseraAdd, folderWay}}
	m.appends = append(m.appends, a)
	return a.measure(ctx, s, m.sizes, []string{s.tessera, "serve", s.file("tessera-log"), s.file("tessera.key")}, "--posix", s.file("log"))
}

// measure times appends of clients at once, to fiador-ledgerd on a storage and to a server of
// Tessera.
func (a *serverAppends) measure(ctx context.Context, s *ledgerScene, z serverSizes, tessera []string, storage ...string) (err error) {
	stop, err := s.serve(s.file("folder.key"), storage...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	add, end, err := listening("listening on ", tessera)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s.add = add
	if err := s.ask(ctx, http.MethodPut, s.url+"/v1/evidence/"+s.evidence.SHA256.Hex(), s.blobs[1], http.StatusNoContent); err != nil {
		return err
	}
	for _, clients := range z.clients {
		of := crowdedServer{clients: clients}
		for _, way := range a.ways {
			of.ways = append(of.ways, series{name: way})
		}
		for round := range 1 + z.rounds { // the first warms up
			order := slices.Clone(a.ways)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, way := range order {
				n, took, err := s.crowd(ctx, way, clients, z.window, unlimited)
				if err != nil || n == 0 {
					return cmp.Or(err, fmt.Errorf("%s took no record", way))
				}
				if way == ledgerdWay {
					a.records += n
				}
				if of := named(of.ways, way); round > 0 {
					of.samples = append(of.samples, sample{Wall: took / time.Duration(n)})
				}
			}
		}
		a.crowds = append(a.crowds, of)
	}
	return s.holds(ctx, a.records)
}

// holds waits for a checkpoint over exactly so many records and the genesis.
func (s *ledgerScene) holds(ctx context.Context, records int64) error {
	key, err := ledger.ParseVerifier(s.key)
	if err != nil {
		return err
	}
	var size int64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := s.http.Get(s.url + "/checkpoint")
		if err != nil {
			return err
		}
		note, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		c, err := ledger.Keys{{Size: 1, Key: key}}.OpenCheckpoint(note)
		if err != nil {
			return err
		}
		if size = c.Size; size == records+1 {
			return nil
		}
	}
	return fmt.Errorf("%d records were acknowledged, and the checkpoint is over %d", records, size-1)
}
