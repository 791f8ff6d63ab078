package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/ledger"
)

// cosigner is a witness (C2SP tlog-witness), until a test gives it another behaviour.
type cosigner struct {
	t    *testing.T
	name string
	key  ed25519.PrivateKey
	http *httptest.Server

	mu    sync.Mutex
	size  int64
	root  tlog.Hash
	asked int
	other http.HandlerFunc // answers instead
}

func newCosigner(t *testing.T, name string) *cosigner {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	c := &cosigner{t: t, name: name, key: key}
	c.http = httptest.NewServer(c)
	t.Cleanup(func() { c.http.CloseClientConnections(); c.http.Close() })
	return c
}

// become changes the behaviour; nil: that of a right witness.
func (c *cosigner) become(other http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.other, c.asked = other, 0
}

func (c *cosigner) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *cosigner) keyID() (id, public []byte) {
	public = append([]byte{4}, c.key.Public().(ed25519.PublicKey)...)
	sum := sha256.Sum256(append([]byte(c.name+"\n"), public...))
	return sum[:4], public
}

func (c *cosigner) verifier() string {
	id, public := c.keyID()
	return fmt.Sprintf("%s+%x+%s", c.name, id, base64.StdEncoding.EncodeToString(public))
}

// line is the line of a policy with the witness.
func (c *cosigner) line() string {
	return fmt.Sprintf("witness %s %s %s\n", c.name, c.verifier(), c.http.URL)
}

// sign returns the signature line over the text of a note.
func (c *cosigner) sign(text string) string {
	id, _ := c.keyID()
	now := time.Now().Unix()
	sig := binary.BigEndian.AppendUint64(id, uint64(now))
	sig = append(sig, ed25519.Sign(c.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", now, text))...)
	return "— " + c.name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}

// signed says whether a checkpoint has its signature.
func (c *cosigner) signed(note []byte) bool {
	text, sigs, _ := strings.Cut(string(note), "\n\n")
	_, rest, ok := strings.Cut(sigs, "— "+c.name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	sig, err := base64.StdEncoding.DecodeString(line)
	if !ok || err != nil || len(sig) != 12+ed25519.SignatureSize {
		return false
	}
	msg := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", binary.BigEndian.Uint64(sig[4:]), text)
	return ed25519.Verify(c.key.Public().(ed25519.PublicKey), msg, sig[12:])
}

func (c *cosigner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked++
	other := c.other
	if other != nil {
		c.mu.Unlock()
		other(w, r)
		return
	}
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	head, note, _ := bytes.Cut(body, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	old, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	next, noteErr := ledger.ParseCheckpoint(note)
	if r.Method != "POST" || r.URL.Path != "/add-checkpoint" || err != nil || noteErr != nil || old > next.Size {
		c.t.Errorf("%s %s: %s", r.Method, r.URL, body)
		http.Error(w, "bad", 400)
		return
	}
	if old != c.size {
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(409)
		fmt.Fprintf(w, "%d\n", c.size)
		return
	}
	var proof tlog.TreeProof
	for _, l := range lines[1:] {
		h, err := tlog.ParseHash(l)
		check(c.t, err)
		proof = append(proof, h)
	}
	if old > 0 && tlog.CheckTree(proof, next.Size, next.Root, old, c.root) != nil {
		http.Error(w, "another tree", http.StatusUnprocessableEntity)
		return
	}
	c.size, c.root = next.Size, next.Root
	text, _, _ := strings.Cut(string(note), "\n\n")
	fmt.Fprint(w, c.sign(text+"\n"))
}

// policy writes a policy and returns the flag that names it.
func (p *place) policy(lines ...string) []string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "witness.policy")
	check(p.t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644))
	return []string{"--witness-policy", file}
}

// covered waits for a checkpoint of a size, and returns it.
func (r *running) covered(size int64) []byte {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := r.get("/checkpoint")
		if c, err := r.keys.OpenCheckpoint(got.body); err == nil && c.Size >= size {
			return got.body
		}
		if time.Now().After(end) {
			r.t.Fatalf("no checkpoint of %d entries: %s\n%s", size, got.body, r.stderr)
		}
	}
}

// ends waits until the server ends of itself, and says a text.
func (r *running) ends(texts ...string) {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- r.end() }()
	select {
	case err := <-ended:
		said := r.stderr.String()
		if err != nil {
			said += err.Error()
		}
		for _, text := range texts {
			if err == nil || !strings.Contains(said, text) {
				r.t.Fatalf("the server ended with %v, and did not say %q:\n%s", err, text, said)
			}
		}
		if got := strings.Count(said, "has cosigned"); got != 1 {
			r.t.Errorf("%d lines say why: %s", got, said)
		}
	case <-time.After(patience):
		r.t.Fatalf("the server goes on:\n%s", r.stderr)
	}
}

// TestWitnesses: each checkpoint has the cosignatures of the quorum, and every command of a
// client takes it as any other one.
func TestWitnesses(t *testing.T) { over(t, testWitnesses) }

func testWitnesses(t *testing.T, p *place) {
	a, b := newCosigner(t, "a.example/w"), newCosigner(t, "b.example/w")
	r := p.start(server.Config{}, append(p.policy(a.line(), b.line(), "group both all a.example/w b.example/w\nquorum both\n"), "--public-read")...)
	m := r.machine(t, "ci")
	for i := range 3 {
		m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", fmt.Sprint("run-", i), "--receipt", fmt.Sprint(i, ".tlog-proof"), "--receipt-wait", "1m")
		if note := r.covered(int64(i) + 2); !a.signed(note) || !b.signed(note) {
			t.Fatalf("%s", note)
		}
		receipt, err := os.ReadFile(filepath.Join(m.home, fmt.Sprint(i, ".tlog-proof")))
		check(t, err)
		_, note, _ := strings.Cut(string(receipt), "\n\n")
		if !a.signed([]byte(note)) || !b.signed([]byte(note)) {
			t.Errorf("the receipt lacks a cosignature: %s", receipt)
		}
	}
	auditor, key := r.machine(t, ""), []string{"--key", m.key}
	for _, c := range []struct {
		text string
		args []string
	}{
		{"CLEAN", []string{"ledger", "verify", "--tiles"}}, {"4 entries", []string{"ledger", "publish", "public"}}, {"run_id", []string{"ledger", "export"}},
		{"checkpoints/4", []string{"ledger", "pin"}}, {"CLEAN", []string{"ledger", "verify"}}, {"index 2\n", []string{"ledger", "prove", "run-1"}},
	} {
		auditor.says(0, c.text, append(c.args, key...)...)
	}
	kept, err := filepath.Glob(filepath.Join(auditor.home, ".local/state/*/ledgers/*/checkpoints/4"))
	check(t, err)
	for _, name := range append(kept, filepath.Join(auditor.home, "public", "checkpoint")) {
		if note, err := os.ReadFile(name); err != nil || !a.signed(note) || !b.signed(note) || len(kept) != 1 {
			t.Errorf("%s (%d pins): %v\n%s", name, len(kept), err, note)
		}
	}
	m.says(0, "3 kept, 0 lost", "ledger", "check-receipts", ".", "--key", m.key)

	// A later start finds the witnesses where they were.
	check(t, r.stop())
	r = p.start(server.Config{}, p.policy(a.line(), b.line(), "group both all a.example/w b.example/w\nquorum both\n")...)
	r.accepted(begun("later"), r.post(begun("later")))
	if note := r.covered(5); !a.signed(note) || !b.signed(note) {
		t.Errorf("%s", note)
	}
	if said := r.stderr.String(); strings.Contains(said, "quorum") || strings.Contains(said, "newest") {
		t.Errorf("the server complains: %s", said)
	}
}

// hang answers nothing.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
	<-r.Context().Done()
}

// answers returns a behaviour that always answers alike.
func answers(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestBelowQuorum: whatever a witness does instead of cosigning, no checkpoint comes, and the
// server goes on taking records. When the witness cosigns, the next checkpoint has it all.
func TestBelowQuorum(t *testing.T) {
	t.Parallel()
	stranger := newCosigner(t, "stranger.example/w")
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(trap.Close)
	sizes := 0
	signing := func(of *cosigner, name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, note, _ := strings.Cut(string(body), "\n\n")
			text, _, _ := strings.Cut(note, "\n\n")
			_, _ = io.WriteString(w, strings.Replace(of.sign(text+"\n"), of.name, name, 1))
		}
	}
	for name, behave := range map[string]func(*cosigner) http.HandlerFunc{
		"500":     func(*cosigner) http.HandlerFunc { return answers(500, "text/plain", "no") },
		"404":     func(*cosigner) http.HandlerFunc { return answers(404, "text/plain", "no") },
		"429":     func(*cosigner) http.HandlerFunc { return answers(429, "text/plain", "no") },
		"empty":   func(*cosigner) http.HandlerFunc { return answers(200, "text/plain", "") },
		"no note": func(*cosigner) http.HandlerFunc { return answers(200, "text/plain", "— x\n\n\n— y\n") },
		"redirect": func(*cosigner) http.HandlerFunc {
			return http.RedirectHandler(trap.URL, http.StatusTemporaryRedirect).ServeHTTP
		},
		"other key": func(*cosigner) http.HandlerFunc { return signing(stranger, stranger.name) },
		"forged":    func(c *cosigner) http.HandlerFunc { return signing(stranger, c.name) },
		"other text": func(c *cosigner) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, c.sign("example.com/log\n1\nAAAA\n"))
			}
		},
		"endless": func(*cosigner) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat("— a.example/w AAAA\n", 1000)); err != nil {
						return
					}
				}
			}
		},
		"hangs": func(*cosigner) http.HandlerFunc {
			return hang
		},
		"drips": func(*cosigner) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for r.Context().Err() == nil {
					_, _ = io.WriteString(w, "—")
					w.(http.Flusher).Flush()
					time.Sleep(50 * time.Millisecond)
				}
			}
		},
		"other sizes": func(c *cosigner) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				c.mu.Lock()
				sizes++
				n := sizes
				c.mu.Unlock()
				answers(409, "text/x.tlog.size", fmt.Sprintln(1+n%2))(w, r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newCosigner(t, "a.example/w")
			p := newPlace(t)
			policy := p.policy(a.line(), "quorum a.example/w\n")
			r := p.process(policy...)
			r.accepted(begun("one"), r.post(begun("one")))
			r.accepted(begun("two"), r.post(begun("two")))
			r.covered(3)
			began := time.Now()
			a.become(behave(a))
			for i := range 5 {
				run := fmt.Sprint("run-", i)
				r.accepted(begun(run), r.post(begun(run)))
			}
			r.waitFor("below the quorum")
			time.Sleep(2 * time.Second)
			if n := a.requests(); n > 4+2*int(time.Since(began)/witnessRests) {
				t.Errorf("the witness was asked %d times", n)
			}
			if got, _ := r.keys.OpenCheckpoint(r.get("/checkpoint").body); got.Size != 3 {
				t.Errorf("a checkpoint of %d entries was published", got.Size)
			}
			a.become(nil)
			if note := r.covered(8); !a.signed(note) {
				t.Errorf("%s", note)
			}
			if got := r.log(8); len(got) != 8 {
				t.Errorf("%d entries", len(got))
			}
		})
	}
}

// TestWitnessesAway: a new log without its witnesses acknowledges records, and a receipt is the
// ack. When they come, the checkpoint covers it. A kill between leaves nothing that hinders.
func TestWitnessesAway(t *testing.T) { over(t, testWitnessesAway) }

func testWitnessesAway(t *testing.T, p *place) {
	p.own = ownEnd // it comes without a checkpoint
	a, b := newCosigner(t, "a.example/w"), newCosigner(t, "b.example/w")
	b.become(answers(500, "text/plain", ""))
	policy := p.policy(a.line(), b.line(), "group both 2 a.example/w b.example/w\nquorum both\n")
	r := p.process(policy...)
	r.waitFor("the witness b.example/w cannot say whether this log is the newest: ")
	if said := r.stderr.String(); !strings.Contains(said, "it answers 500") && !strings.Contains(said, "no whole answer within") { // this process stood still
		t.Error(said)
	}
	m := r.machine(t, "ci")
	m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one", "--receipt", "one.tlog-proof", "--receipt-wait", "500ms", "--pack", "one.pack")
	receipt, err := os.ReadFile(filepath.Join(m.home, "one.tlog-proof"))
	check(t, err)
	if !bytes.HasPrefix(receipt, []byte(testOrigin+"/ack\n1\n")) {
		t.Errorf("the receipt is no ack: %s", receipt)
	}
	m.says(0, "promised as entry 1 of "+testOrigin, "pack", "verify", "one.pack", "--ledger-key", m.key)
	m.says(0, `"promised":true,"recorded":false`, "pack", "verify", "one.pack", "--ledger-key", m.key, "--format", "json")
	r.refused("no checkpoint yet", r.get("/checkpoint"), 503, "busy")
	// The first witness has cosigned a tree that was never published.
	for end := time.Now().Add(patience); a.saw() < 2 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	r.kill()
	r = p.process(policy...)
	m.url = r.url
	m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "two")
	b.become(nil)
	if note := r.covered(3); !a.signed(note) || !b.signed(note) {
		t.Errorf("%s", note)
	}
	m.says(0, "1 kept, 0 lost", "ledger", "check-receipts", ".", "--key", m.key)
	m.says(0, "CLEAN", "ledger", "verify", "--key", m.key)

	b.become(answers(500, "text/plain", ""))
	r.accepted(begun("three"), r.post(begun("three")))
	if err := r.stop(); err != nil {
		t.Errorf("below the quorum the server ends with %v: %s", err, r.stderr)
	}
	r.waitFor("they are asked again at the next start")
}

func (c *cosigner) saw() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// TestContradiction: a witness that has seen another log ends the server with exit status 2. No
// further checkpoint comes.
func TestContradiction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behave http.HandlerFunc
		says   string
	}{
		"larger":        {answers(409, "text/x.tlog.size", "1000000\n"), "has cosigned a tree of 1000000 entries (409), and this log has "},
		"same size":     {answers(409, "text/x.tlog.size", "2\n"), "has cosigned another tree of 2 entries (409), and this log has "},
		"without size":  {answers(409, "text/plain", "conflict\n"), "has cosigned another tree of 2 entries (409)"},
		"no number":     {answers(409, "text/x.tlog.size", "-1\n"), "has cosigned another tree of 2 entries (409)"},
		"proof refused": {answers(422, "text/plain", "bad proof\n"), "has cosigned a tree of 2 entries, and this log of "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, slow := newCosigner(t, "a.example/w"), newCosigner(t, "slow.example/w")
			p := newPlace(t)
			// One of the two is enough, and the other one still stops the log.
			r := p.process(p.policy(a.line(), slow.line(), "group one any a.example/w slow.example/w\nquorum one\n")...)
			r.accepted(begun("one"), r.post(begun("one")))
			r.covered(2)
			for slow.saw() < 2 {
				time.Sleep(5 * time.Millisecond)
			}
			slow.become(func(w http.ResponseWriter, q *http.Request) {
				time.Sleep(300 * time.Millisecond)
				c.behave(w, q)
			})
			r.accepted(begun("two"), r.post(begun("two")))
			r.ends("the witness slow.example/w "+c.says, "Nothing more is recorded or published", "exit status 2")
		})
	}
}

// TestYesterday: a server whose log is an old copy learns it from its witnesses, before it takes
// a record, or as soon as they answer.
func TestYesterday(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlace(t)
	policy := p.policy(a.line(), "quorum a.example/w\n")
	r := p.start(server.Config{}, policy...)
	r.accepted(begun("one"), r.post(begun("one")))
	r.covered(2)
	check(t, r.stop())
	yesterday := t.TempDir()
	check(t, os.CopyFS(yesterday, os.DirFS(p.dir)))
	r = p.start(server.Config{}, policy...)
	for i := range 3 {
		run := fmt.Sprint("lost-", i)
		r.accepted(begun(run), r.post(begun(run)))
	}
	r.covered(5)
	check(t, r.stop())
	restore := func() {
		check(t, os.RemoveAll(p.dir))
		check(t, os.CopyFS(p.dir, os.DirFS(yesterday)))
	}
	p.oldCopy(restore, "the witness a.example/w has cosigned a tree of 5 entries (409), and this log has 2: an old copy", policy...)
	if r, err := p.tryStart(server.Config{}, policy...); err == nil {
		t.Fatalf("the second start is accepted\n%s", r.stderr)
	}

	// The log is gone: a new one with its key is no better.
	p.oldCopy(func() { check(t, os.RemoveAll(p.dir)) }, "has cosigned a tree of 5 entries (409), and this log has 1: an old copy", policy...)

	// The witness is away at the start, and back when the log is smaller, or larger, than it was.
	for entries, says := range map[int]string{1: "has cosigned a tree of 5 entries (409), and this log has 3", 6: "has cosigned a tree of 5 entries, and this log of 8 does not begin with it (422)"} {
		restore()
		a.become(answers(503, "text/plain", ""))
		r := p.process(policy...)
		for i := range entries {
			run := fmt.Sprint("new-", i)
			r.accepted(begun(run), r.post(begun(run)))
		}
		if got, _ := r.keys.OpenCheckpoint(r.get("/checkpoint").body); got.Size != 2 {
			t.Errorf("a checkpoint of %d entries was published", got.Size)
		}
		a.become(nil)
		r.ends(says, "exit status 2")

		// Now it is noticed at the start, too.
		if r, err := p.tryStart(server.Config{}, policy...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v\n%s", err, r.stderr)
		}
	}
}

// oldCopy starts a server on an old copy, which its witness tells it. A server that did not hear
// the witness in time says so, and is started once more.
func (p *place) oldCopy(putBack func(), want string, policy ...string) {
	p.t.Helper()
	for try := 1; ; try++ {
		putBack()
		r, err := p.tryStart(server.Config{}, policy...)
		if err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if try == 5 || !strings.Contains(r.stderr.String(), "cannot say whether") {
			p.t.Fatalf("%v\n%s", err, r.stderr)
		}
		_ = r.stop() // which may fail: it has heard the witness by now
	}
}

// TestEmptyDatabase: a server whose database and bucket were replaced by empty ones.
func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlaceIn(t, "database")
	policy := p.policy(a.line(), "quorum a.example/w\n")
	r := p.start(server.Config{}, policy...)
	r.accepted(begun("one"), r.post(begun("one")))
	r.covered(2)
	check(t, r.stop())
	empty := func() {
		p.dsn = startMySQL(t)
		p.s3, p.dir = startS3(t)
	}
	p.oldCopy(empty, "has cosigned a tree of 2 entries (409), and this log has 1: an old copy", policy...)
}

// TestStandbyMeetsWitness: a server that takes over asks too, and ends.
func TestStandbyMeetsWitness(t *testing.T) {
	t.Parallel()
	a := newCosigner(t, "a.example/w")
	p := newPlace(t)
	first := p.process()
	first.accepted(begun("one"), first.post(begun("one")))
	second := p.process(p.policy(a.line(), "quorum a.example/w\n")...)
	second.waitFor("this one waits")
	a.become(answers(409, "text/x.tlog.size", "77\n"))
	first.kill()
	second.ends("has cosigned a tree of 77 entries (409), and this log has 2", "exit status 2")
}

// TestSlowWitness: a witness that hangs delays no checkpoint that the others cosign.
func TestSlowWitness(t *testing.T) {
	t.Parallel()
	a, hangs := newCosigner(t, "a.example/w"), newCosigner(t, "hangs.example/w")
	p := newPlace(t)
	hangs.become(hang)
	r := p.start(server.Config{}, p.policy(a.line(), hangs.line(), "group one 1 a.example/w hangs.example/w\nquorum one\n")...)
	before := time.Now()
	for i := range 10 {
		run := fmt.Sprint("run-", i)
		r.accepted(begun(run), r.post(begun(run)))
		r.covered(int64(i) + 2)
	}
	if n := hangs.requests(); int64(n) > 2+int64(time.Since(before)/(3*time.Second))*2+2 {
		t.Errorf("the witness that hangs was asked %d times", n)
	}
	hangs.become(nil)
	for end := time.Now().Add(patience); !hangs.signed(r.get("/checkpoint").body); {
		if time.Now().After(end) {
			t.Fatalf("the witness does not come back: %s", r.stderr)
		}
		run := fmt.Sprint("more-", time.Now().UnixNano())
		r.accepted(begun(run), r.post(begun(run)))
		time.Sleep(2 * betweenCheckpoints)
	}
}
