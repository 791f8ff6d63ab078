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
	rounds  int           // of appends
	window  time.Duration // of each way in a round
	clients []int
	entries int // of the log that is read
	reads   int // rounds of commands that read
	more    int // entries before the last verify
}

func fullServer(rounds int) serverSizes {
	return serverSizes{(rounds + 5) / 6, time.Second, []int{1, 8, 64, 512}, 1e5, 3, 300}
}

func quickServer() serverSizes {
	return serverSizes{2, 50 * time.Millisecond, []int{1, 8}, 700, 1, 300}
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

// storageVar has the flags of another storage for fiador-ledgerd, such as --mysql and --s3. Then
// the server that it is held against still has a folder, and the report says so.
const storageVar = "FIADOR_BENCH_LEDGERD"

// crowdedServer is the appends of so many clients at once. A sample's Wall is the time of a
// round, divided by the records that it took.
type crowdedServer struct {
	clients int
	ways    []series
}

// ledgerServed has the measurements of the ledger server.
type ledgerServed struct {
	sizes   serverSizes
	load    string // of the machine before
	after   string
	tessera string // version
	on      string // file system
	storage string // of fiador-ledgerd, where it is another
	crowds  []crowdedServer
	records int64 // that were acknowledged, and stand in the log
	reads   []series
	asked   []asking
}

// asking is what a verify asked a server for.
type asking struct {
	what                   string
	requests, tiles, again int // tiles are full ones; again, those that the verify before had asked for
}

// ledgerScene is the servers and the folder.
type ledgerScene struct {
	*scene
	t                    tools
	ledgerd, tessera     string // programs
	url, key, token, add string
	next                 atomic.Int64 // number of the next run
	evidence             ledger.Blob
	book                 *disk.Log
	http                 *http.Client
}

// ledgerServer fills the report's part about the ledger server.
func (r *report) ledgerServer(ctx context.Context, root string, t tools, dir string, z serverSizes, log io.Writer) (err error) {
	m := &ledgerServed{sizes: z, load: loadAverage(), storage: os.Getenv(storageVar)}
	r.served = m
	dir = filepath.Join(dir, "ledgerserver")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	own, version, err := buildLedger(ctx, root, dir)
	if err != nil {
		return err
	}
	s := &ledgerScene{scene: &scene{dir: dir}, t: t, ledgerd: filepath.Join(dir, "fiador-ledgerd"), tessera: own.tessera}
	if err := goTool(ctx, filepath.Join(root, "cmd", "fiador-ledgerd"), "", "build", "-trimpath", "-o", s.ledgerd, "."); err != nil {
		return err
	}
	m.tessera, m.on = version, fileSystem(dir)
	stop, err := s.start(ctx, m.storage)
	if err != nil {
		return errors.Join(err, stop())
	}
	defer func() { err = errors.Join(err, stop()) }()
	err = inParts(ctx, []part[*ledgerScene]{{"appends", m.appending}, {"commands that read", m.reading}}, s, "ledger server", log)
	m.after = loadAverage()
	return err
}

// start makes a key and a token, starts both servers, and opens the folder.
func (s *ledgerScene) start(ctx context.Context, storage string) (stop func() error, err error) {
	var ends []func() error
	stop = func() error {
		var all error
		for _, end := range slices.Backward(ends) {
			all = errors.Join(all, end())
		}
		return all
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	key, keyErr := s.output(ctx, command{"key", []string{s.ledgerd, "key", "--origin", bookOrigin, "--key", file("key")}, 0})
	token, tokenErr := s.output(ctx, command{"token", []string{s.ledgerd, "token", "bench", "--may", "append", "--clients", file("clients.json")}, 0})
	if err := errors.Join(keyErr, tokenErr); err != nil {
		return stop, err
	}
	s.key, s.token = string(bytes.TrimSpace(key)), string(bytes.TrimSpace(token))
	place := []string{"--posix", file("log")}
	if storage != "" {
		place = strings.Fields(storage)
	}
	for _, server := range []struct {
		to   *string
		argv []string
	}{
		{&s.url, append([]string{s.ledgerd, "serve", "--origin", bookOrigin, "--key", file("key"), "--listen", "127.0.0.1:0", "--clients", file("clients.json"), "--public-read"}, place...)},
		{&s.add, []string{s.tessera, "serve", file("tessera-log"), file("tessera.key")}},
	} {
		url, end, err := listening(server.argv)
		if err != nil {
			return stop, err
		}
		*server.to, ends = url, append(ends, end)
	}
	signer, err := disk.ReadKey(file("key"))
	if err != nil {
		return stop, err
	}
	if _, err = disk.Create(file("folder"), signer, disk.Options{Now: time.Now}); err != nil {
		return stop, err
	}
	if s.book, err = disk.Open(file("folder"), signer, disk.Options{Now: time.Now, Wait: time.Minute}); err != nil {
		return stop, err
	}
	ends = append(ends, s.book.Close)
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: 3 * time.Second, DisableCompression: true}}
	text := bytes.Repeat([]byte("evidence"), 750)
	if s.evidence, err = s.book.Put(text); err != nil {
		return stop, err
	}
	return stop, s.ask(ctx, http.MethodPut, s.url+"/v1/evidence/"+s.evidence.SHA256.Hex(), text, http.StatusNoContent)
}

// listening starts a server, and returns the address that it prints.
func listening(argv []string) (url string, stop func() error, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	lines := bufio.NewReader(out)
	for said := ""; url == ""; {
		line, err := lines.ReadString('\n')
		said += line
		if _, at, ok := strings.Cut(strings.TrimSpace(line), "listening on "); ok {
			url = at
		} else if err != nil {
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

// crowd appends with so many clients, each one record after the other, for a time or until
// there are enough records, and returns how many there are.
func (s *ledgerScene) crowd(ctx context.Context, way string, clients int, window time.Duration, enough int64) (int64, time.Duration, error) {
	var all sync.WaitGroup
	var begun, done atomic.Int64
	errs := make([]error, clients)
	start := time.Now()
	for i := range clients {
		all.Go(func() {
			for time.Since(start) < window && begun.Add(1) <= enough {
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

// appending times appends of clients at once.
func (m *ledgerServed) appending(ctx context.Context, s *ledgerScene) error {
	ways := []string{ledgerdWay, tesseraAdd, folderWay}
	for _, clients := range m.sizes.clients {
		of := crowdedServer{clients: clients}
		for _, way := range ways {
			of.ways = append(of.ways, series{name: way})
		}
		for round := range 1 + m.sizes.rounds { // the first warms up
			order := []int{0, 1, 2}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				n, took, err := s.crowd(ctx, ways[i], clients, m.sizes.window, unlimited)
				if err != nil || n == 0 {
					return cmp.Or(err, fmt.Errorf("%s took no record", ways[i]))
				}
				if ways[i] == ledgerdWay {
					m.records += n
				}
				if round > 0 {
					of.ways[i].samples = append(of.ways[i].samples, sample{Wall: took / time.Duration(n)})
				}
			}
		}
		m.crowds = append(m.crowds, of)
	}
	return s.holds(ctx, m.records)
}

// holds waits for a checkpoint over exactly so many records and the genesis.
func (s *ledgerScene) holds(ctx context.Context, records int64) error {
	key, err := ledger.ParseVerifier(s.key)
	if err != nil {
		return err
	}
	var size int64
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
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
