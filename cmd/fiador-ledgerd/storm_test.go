package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/remote"
)

// A storm has many processes that record, on several machines, with two servers behind a
// balancer, while servers are killed. FIADOR_FULL=1 asks for its full form: 64 processes, ten
// thousand records, five kills. stormSeed makes the moments of the kills those of an earlier
// storm.
const (
	stormSeed   = "FIADOR_LEDGERD_STORM_SEED"
	stormClient = "FIADOR_LEDGERD_STORM_CLIENT" // makes the test binary a client of a storm
	perMachine  = 4                             // processes that share one state folder
)

// TestStorm: whatever was acknowledged stands at its index, once, although the server that
// writes is killed again and again.
func TestStorm(t *testing.T) {
	s := storm{place: newPlace(t), clients: rehearsal.Count(16, 64), records: rehearsal.Count(40, 208), kills: rehearsal.Count(2, 5)}
	s.rage(t)
	s.fsck()
}

// TestStormDatabase is the same over MySQL and S3, and the database is killed twice too.
func TestStormDatabase(t *testing.T) {
	s := storm{place: newPlaceIn(t, "database"), clients: rehearsal.Count(16, 64), records: rehearsal.Count(40, 208), kills: rehearsal.Count(2, 5)}
	m := ownMySQL(t)
	s.dsn = m.database(t)
	kill := func() {
		m.kill()
		time.Sleep(time.Duration(s.random.IntN(500)) * time.Millisecond)
		check(t, m.start())
	}
	s.disturb = []func(){kill, kill}
	s.rage(t)
	s.fsck()
}

// storm is a storm and what it leaves.
type storm struct {
	*place
	clients, records, kills int
	disturb                 []func() // what else happens, at random moments

	random  *rand.Rand
	servers [2]*running
	between *balancer
	states  []string // the folders of the machines' states
}

// rage starts servers and clients, kills servers, and holds everything against the log.
func (s *storm) rage(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv(stormSeed), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d", stormSeed, seed)
	s.random = rand.New(rand.NewPCG(seed, 0))
	s.between = newBalancer(t)
	for i := range s.servers {
		s.serve(i)
	}
	started := time.Now()
	wait, acks := s.start(t)
	s.kill(t)
	wait()
	t.Logf("%d processes sent %d records each in %s", s.clients, s.records, time.Since(started).Round(time.Millisecond))
	s.hold(t, acks)
	s.audit(t)
	for _, r := range s.servers {
		check(t, r.stop())
	}
}

// serve starts a server, and shows it to the balancer.
func (s *storm) serve(i int) {
	s.servers[i] = s.place.process("--public-read")
	s.between.set(i, strings.TrimPrefix(s.servers[i].url, "http://"))
}

// writing returns the number of the server that takes records, or -1.
func (s *storm) writing() int {
	for i, r := range s.servers {
		if r.get("/v1/runs/none").status == 200 {
			return i
		}
	}
	return -1
}

// kill kills the server that writes, each time when the log has some more entries, and looks
// whether the other one takes over. The killed one starts again and stands by.
func (s *storm) kill(t *testing.T) {
	total := len(s.expected())
	moments := len(s.disturb) + s.kills
	slow := 0
	for n, order := 0, s.random.Perm(moments); n < moments; n++ {
		s.until(t, total*n/moments+s.random.IntN(total*3/4/moments))
		time.Sleep(time.Duration(s.random.IntN(20_000)) * time.Microsecond) // anywhere in a batch
		if order[n] < len(s.disturb) {
			s.disturb[order[n]]()
			continue
		}
		first := s.writing()
		for end := time.Now().Add(patience); first < 0; first = s.writing() { // after a disturbance
			if time.Now().After(end) {
				t.Fatalf("no server writes:\n%s\n%s", s.servers[0].stderr, s.servers[1].stderr)
			}
		}
		s.servers[first].kill()
		start := time.Now()
		for s.servers[1-first].get("/v1/runs/none").status != 200 {
			if time.Since(start) > patience {
				t.Fatalf("the second server does not take over:\n%s", s.servers[1-first].stderr)
			}
			time.Sleep(5 * time.Millisecond)
		}
		took := time.Since(start)
		t.Logf("kill %d: the second server took over after %s", n+1, took.Round(time.Millisecond))
		if took > takesOver {
			slow++
		}
		s.serve(first)
	}
	if slow > 1 { // a machine that stalls makes one of them slow
		t.Errorf("%d servers did not take over within %s", slow, takesOver)
	}
}

// until waits until the log has some entries.
func (s *storm) until(t *testing.T, size int) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, r := range s.servers {
			if c, err := ledger.ParseCheckpoint(r.get("/checkpoint").body); err == nil && c.Size >= int64(size) {
				return
			}
		}
	}
	t.Fatalf("the log does not get %d entries:\n%s\n%s", size, s.servers[0].stderr, s.servers[1].stderr)
}

// stormTask is what a client process is told, on its standard input.
type stormTask struct {
	URL, Key, Token, State, Acks string
	Number, Records              int
}

// stormAck is what a client process keeps of the answer to a record.
type stormAck struct {
	Run      string
	Kind     ledger.Kind
	Conflict bool
	Index    int64
	Ack      string
}

// start starts the client processes. They begin together. wait returns when all have ended;
// acks then has what they kept.
func (s *storm) start(t *testing.T) (wait func(), acks []string) {
	base := t.TempDir()
	var ends []func() error
	var begin []io.Closer
	for i := range s.clients {
		state := filepath.Join(base, fmt.Sprintf("machine-%d", i/perMachine))
		if i%perMachine == 0 {
			s.states = append(s.states, state)
		}
		task := stormTask{URL: s.between.url, Key: s.keys[0].Key.String(), Token: s.tokens["ci"], State: filepath.Join(state, "fiador", "ledgers"),
			Acks: filepath.Join(base, fmt.Sprintf("acks-%d", i)), Number: i, Records: s.records}
		acks = append(acks, task.Acks)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), stormClient+"=1")
		said := new(rehearsal.Buffer)
		cmd.Stderr = said
		in, err := cmd.StdinPipe()
		check(t, err)
		check(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		check(t, json.NewEncoder(in).Encode(task))
		begin = append(begin, in)
		ends = append(ends, func() error {
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("process %d: %w: %s", i, err, said)
			}
			return nil
		})
	}
	for _, in := range begin {
		check(t, in.Close())
	}
	return func() {
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}, acks
}

// stormRecord is a record, and its evidence.
type stormRecord struct {
	ledger.Record
	blob []byte
}

// stormRecords returns the records that a process sends, in order. Of eight, two are sent by
// all processes: one is the same, and the other differs between even and odd processes.
func stormRecords(number, count int) []stormRecord {
	var list []stormRecord
	for i := range count {
		run := fmt.Sprintf("own-%d-%d", number, i)
		r := stormRecord{Record: begun(run)}
		switch i % 8 {
		case 0:
			r.RunID = fmt.Sprintf("shared-%d", i)
		case 4:
			r.RunID, r.IntentSHA256 = fmt.Sprintf("contested-%d", i), hash(strconv.Itoa(number%2))
		case 6:
			r.Record = failedRun(run)
		case 2: // the end of the run before
			run = list[i-1].RunID
			fallthrough
		case 3, 5, 7:
			r.blob = []byte(run)
			r.Record = decision(run, r.blob)
		}
		list = append(list, r)
	}
	return list
}

// runStormClient is the main function of a client process. It records as fiador does: with a
// recorder for each run, and without another attempt after an error.
func runStormClient(in io.Reader, stderr io.Writer) int {
	if err := sendStorm(in); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func sendStorm(in io.Reader) error {
	told := bufio.NewReader(in)
	line, err := told.ReadBytes('\n')
	if err != nil {
		return err
	}
	var task stormTask
	if err := json.Unmarshal(line, &task); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, told); err != nil { // the end is the sign to begin
		return err
	}
	key, err := ledger.ParseVerifier(task.Key)
	if err != nil {
		return err
	}
	kept, err := os.Create(task.Acks)
	if err != nil {
		return err
	}
	at := remote.Place{URL: task.URL, Key: key, Token: task.Token, State: task.State, Wait: patience}
	for i, rec := range stormRecords(task.Number, task.Records) {
		ack, err := sendOne(at, rec)
		if err != nil {
			return fmt.Errorf("record %d, %s: %w", i, rec.RunID, err)
		}
		if err := json.NewEncoder(kept).Encode(ack); err != nil {
			return err
		}
	}
	return kept.Close()
}

// sendOne records a record, with its evidence.
func sendOne(at remote.Place, rec stormRecord) (stormAck, error) {
	ack := stormAck{Run: rec.RunID, Kind: rec.Kind}
	to, err := remote.Record(context.Background(), at)
	if err != nil {
		return ack, err
	}
	if rec.blob != nil {
		if _, err := to.Put(rec.blob); err != nil {
			return ack, errors.Join(err, to.Close())
		}
	}
	got, err := to.Append(context.Background(), rec.Record)
	if err = errors.Join(err, to.Close()); errors.Is(err, ledger.ErrConflict) {
		ack.Conflict = true
		return ack, nil
	}
	if err != nil {
		return ack, err
	}
	ack.Index, ack.Ack = got.Index, string(got.Ack.Note)
	return ack, nil
}

// stormEnd is a run and one of its ends.
type stormEnd struct {
	run  string
	kind ledger.Kind
}

// expected returns what the log has after the storm, without its genesis.
func (s *storm) expected() map[stormEnd]bool {
	all := map[stormEnd]bool{}
	for i := range s.clients {
		for _, r := range stormRecords(i, s.records) {
			all[stormEnd{r.RunID, r.Kind}] = true
		}
	}
	return all
}

// hold holds the log against what was sent, and against every ack.
func (s *storm) hold(t *testing.T, files []string) {
	want := s.expected()
	reader := s.servers[max(s.writing(), 0)]
	records := reader.log(int64(len(want)) + 1) // it checks the tree, and the order of the times
	at := map[stormEnd]int64{}
	for i, r := range records[1:] {
		end := stormEnd{r.RunID, r.Kind}
		if _, twice := at[end]; twice || !want[end] {
			t.Errorf("entry %d: %s of %s is there twice, or was never sent", i+1, r.Kind, r.RunID)
		}
		at[end] = int64(i + 1)
	}
	if len(at) != len(want) {
		t.Errorf("%d records were sent, and the log has %d", len(want), len(at))
	}
	for number, file := range files {
		f, err := os.Open(file)
		check(t, err)
		kept := json.NewDecoder(f)
		for _, sent := range stormRecords(number, s.records) {
			var ack stormAck
			if err := kept.Decode(&ack); err != nil {
				t.Fatalf("process %d has no answer to %s of %s: %v", number, sent.Kind, sent.RunID, err)
			}
			index := at[stormEnd{sent.RunID, sent.Kind}]
			has := records[index]
			if _, err := sent.After(has, index); ack.Conflict != errors.Is(err, ledger.ErrConflict) {
				t.Errorf("process %d, %s: conflict %t, and entry %d has: %v", number, sent.RunID, ack.Conflict, index, err)
			}
			if ack.Conflict {
				continue
			}
			if sent.blob != nil && number%perMachine == 0 {
				if blob := reader.get("/v1/evidence/" + hash(string(sent.blob)).Hex()); blob.status != 200 || string(blob.body) != string(sent.blob) {
					t.Errorf("process %d, %s: the evidence is not there: %d", number, sent.RunID, blob.status)
				}
			}
			entry, err := has.Entry()
			check(t, err)
			got, err := reader.keys.OpenAck([]byte(ack.Ack))
			check(t, err)
			if got.Index != index || ack.Index != index || got.Leaf != ledger.LeafHash(entry) {
				t.Errorf("process %d, %s of %s: the ack is of entry %d, and the log has it as entry %d", number, sent.Kind, sent.RunID, got.Index, index)
			}
		}
		check(t, f.Close())
	}
}

// audit has fiador, with the state of each machine, and torchwood verify the log.
func (s *storm) audit(t *testing.T) {
	for _, state := range s.states {
		m := s.servers[0].machine(t, "reader")
		m.url, m.state = s.between.url, state
		m.says(0, "CLEAN", "ledger", "verify", "--key", m.key)
		left, err := filepath.Glob(filepath.Join(state, "fiador/ledgers/*/acks/*"))
		if check(t, err); len(left) > 0 {
			t.Errorf("%d acks are not settled", len(left))
		}
	}
	m := s.servers[0].machine(t, "")
	m.says(0, "entries", "ledger", "publish", "public", "--key", m.key)
	torch := filepath.Join(t.TempDir(), "torch")
	out, err := exec.Command("go", "build", "-C", "../../bench/auditors", "-o", torch, "./torch").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = exec.Command(torch, "--key", m.key, filepath.Join(m.home, "public")).CombinedOutput(); err != nil {
		t.Errorf("torchwood: %v\n%s", err, out)
	}
}

// balancer passes connections on to one of two servers: the other one, once a server cannot be
// reached or has answered 503.
type balancer struct {
	url string

	mu      sync.Mutex
	servers [2]string
	now     int
}

func newBalancer(t *testing.T) *balancer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	b := &balancer{url: "http://" + l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(c)
		}
	}()
	return b
}

func (b *balancer) set(i int, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers[i] = address
}

func (b *balancer) pick() (int, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.servers[b.now]
}

func (b *balancer) avoid(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = 1 - i
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	i, address := b.pick()
	server, err := net.Dial("tcp", address)
	if err != nil {
		b.avoid(i)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	part := make([]byte, 32<<10)
	for {
		n, err := server.Read(part)
		if strings.HasPrefix(string(part[:n]), "HTTP/1.1 503") {
			b.avoid(i)
		}
		if _, failed := client.Write(part[:n]); err != nil || failed != nil {
			return
		}
	}
}
