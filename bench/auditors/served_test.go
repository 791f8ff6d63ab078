package auditors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

// TestServed: a server keeps a log, and litewitness cosigns it. The server is killed while
// fiador records. Then all who look at the log from outside agree about it: fsck, torchwood, the
// reference writer and fiador. When the log is put back to a copy, the witness ends the server.
func TestServed(t *testing.T) {
	s := newServed(t)
	s.start(t)
	s.record(t, "first", 1)
	first := s.await(t, 2)

	// The server is killed while the other records come, and starts again.
	recorded := make(chan error, 1)
	const n = 300
	cmd := s.fiador(t, "check", s.intents(t, "more", n), "--record", "--ledger-key", s.verifier, "--ledger-wait", "2m")
	var said bytes.Buffer
	cmd.Stderr = &said
	go func() { recorded <- cmd.Run() }()
	s.await(t, 40)
	s.kill()
	s.start(t)
	if err := <-recorded; err != nil {
		t.Fatalf("%v\n%s\n%s", err, &said, &s.said)
	}
	note := s.await(t, n+2)

	audit(t, holds, "fsckrun", "--key", s.verifier, s.url)
	earlier := filepath.Join(t.TempDir(), "earlier")
	if err := os.WriteFile(earlier, first, 0o644); err != nil {
		t.Fatal(err)
	}
	audit(t, holds, "torch", "--key", s.verifier, "--since", earlier, s.url)

	policy := s.readPolicy(t)
	c, _, err := torchwood.VerifyCheckpoint(note, policy)
	if err != nil {
		t.Fatalf("the checkpoint lacks a cosignature: %v\n%s", err, note)
	}
	dir := t.TempDir() // the bundles, as the reference writer reads them
	for i := 0; i < int(c.N); i += tileWidth {
		write(t, dir, bundlePath(i, int(c.N)), s.get(t, bundlePath(i, int(c.N))))
	}
	_, tree := store(t, entriesIn(t, dir, int(c.N)))
	if tree != c.Tree {
		t.Errorf("the entries have the tree %v, and the checkpoint %v", tree, c.Tree)
	}
	var verified struct {
		Entries int64  `json:"entries"`
		Root    string `json:"root"`
	}
	out, err := s.fiador(t, "ledger", "verify", "--key", s.verifier, "--format", "json").Output()
	if err := json.Unmarshal(out, &verified); err != nil || verified.Entries != c.N || verified.Root != c.Hash.String() {
		t.Errorf("fiador says %+v (%v), and the checkpoint %v\n%s", verified, err, c.Tree, out)
	}
	if err != nil {
		t.Errorf("ledger verify: %v", err)
	}

	// A receipt has the cosignature too, and the policy proves it without a network.
	proof := filepath.Join(t.TempDir(), "proof")
	s.must(t, "ledger", "prove", "--key", s.verifier, "2", "-o", proof)
	text, err := os.ReadFile(proof)
	if err != nil {
		t.Fatal(err)
	}
	if err := torchwood.VerifyProof(policy, tlog.RecordHash(entriesIn(t, dir, int(c.N))[2]), text); err != nil {
		t.Errorf("the proof: %v\n%s", err, text)
	}
	s.must(t, "ledger", "publish", "--key", s.verifier, filepath.Join(dir, "public"))
	audit(t, holds, "torch", "--key", s.verifier, filepath.Join(dir, "public"))
	if _, _, err := torchwood.VerifyCheckpoint(read(t, dir, "public/checkpoint"), policy); err != nil {
		t.Errorf("the published checkpoint: %v", err)
	}

	// Yesterday's copy.
	s.kill()
	copied := filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(copied, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.record(t, "today", 3)
	s.await(t, n+5)
	s.kill()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, s.dir); err != nil {
		t.Fatal(err)
	}
	var refused string
	for range 5 { // a server that did not hear the witness in time goes on. It is ended and started again
		var said buffer
		cmd = s.command(t)
		cmd.Stdout, cmd.Stderr = &said, &said
		if err = cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		stop.Stop()
		if refused = said.String(); !strings.Contains(refused, "cannot say whether") {
			break
		}
	}
	if want := fmt.Sprintf("has cosigned a tree of %d entries (409), and this log has %d: an old copy", n+5, n+2); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(refused, want) {
		t.Errorf("%v: not %q\n%s", err, want, refused)
	}
}

// served is a log with its server and its witness.
type served struct {
	base, dir, url, verifier, token, policy string

	server *exec.Cmd
	said   buffer
}

// buffer is a stream that a program writes while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newServed(t *testing.T) *served {
	t.Helper()
	base := t.TempDir()
	s := &served{base: base, dir: filepath.Join(base, "log"), url: "http://" + free(t)}
	s.verifier = strings.TrimSpace(string(fiador(t, "fiador-ledgerd", "key", "--origin", origin, "--key", filepath.Join(base, "key"))))
	s.token = strings.TrimSpace(string(fiador(t, "fiador-ledgerd", "token", "ci", "--may", "append", "--clients", filepath.Join(base, "clients.json"))))
	witness, at := startWitness(t, s.verifier)
	s.policy = filepath.Join(base, "policy")
	write(t, base, "policy", fmt.Appendf(nil, "log %s\nwitness lite %s http://%s\nquorum lite\n", s.verifier, witness, at))
	t.Cleanup(s.kill)
	return s
}

// free returns an address that nothing listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startWitness starts litewitness for the log, and returns its verifier key and its address.
func startWitness(t *testing.T, log string) (verifier, address string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lite") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address = free(t)
	cmd := exec.Command(filepath.Join(bin, "lite"), "--log", log, "--dir", dir, "--listen", address, "--litewitness", filepath.Join(bin, "litewitness"))
	var out, said buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	stdin, err := cmd.StdinPipe() // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("litewitness: %s", &said)
		}
	})
	eventually(t, &said, func() bool { return strings.Contains(out.String(), "\n") })
	return strings.TrimSpace(out.String()), address
}

// eventually waits until something is true.
func eventually(t *testing.T, said fmt.Stringer, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come:\n%s", said)
		}
	}
}

// command is the server.
func (s *served) command(t *testing.T) *exec.Cmd {
	return exec.Command(filepath.Join(bin, "fiador-ledgerd"), "serve", "--posix", s.dir, "--origin", origin, "--key", filepath.Join(s.base, "key"),
		"--listen", strings.TrimPrefix(s.url, "http://"), "--clients", filepath.Join(s.base, "clients.json"), "--public-read", "--witness-policy", s.policy)
}

func (s *served) start(t *testing.T) {
	t.Helper()
	s.server = s.command(t)
	s.server.Stderr = &s.said
	before := strings.Count(s.said.String(), "listening on ")
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, &s.said, func() bool { return strings.Count(s.said.String(), "listening on ") > before })
}

func (s *served) kill() {
	if s.server != nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
		s.server = nil
	}
}

// get reads a resource of the log without a token.
func (s *served) get(t *testing.T, path string) []byte {
	t.Helper()
	resp, err := http.Get(s.url + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, resp.Status, err, b)
	}
	return b
}

// await waits for a checkpoint of a size.
func (s *served) await(t *testing.T, size int64) (note []byte) {
	t.Helper()
	eventually(t, &s.said, func() bool {
		resp, err := http.Get(s.url + "/checkpoint")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		note, err = io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return false
		}
		text, _, _ := strings.Cut(string(note), "\n\n")
		c, err := torchwood.ParseCheckpoint(text + "\n")
		return err == nil && c.N >= size
	})
	return note
}

func (s *served) readPolicy(t *testing.T) torchwood.Policy {
	t.Helper()
	text, err := os.ReadFile(s.policy)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := torchwood.ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// intents writes n intents and returns their folder.
func (s *served) intents(t *testing.T, name string, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		write(t, dir, fmt.Sprintf("%s-%03d.json", name, i), fmt.Appendf(nil, `{"goal":"Say %s %d","constraints":["one file"],`+
			`"actions":[{"kind":"write","path":"out/hello.txt","content":"hello\n"}],"outputs":["out/hello.txt"]}`, name, i))
	}
	return dir
}

// record has fiador record n decisions.
func (s *served) record(t *testing.T, name string, n int) {
	t.Helper()
	s.must(t, "check", s.intents(t, name, n), "--record", "--ledger-key", s.verifier)
}

// fiador returns a command of a client that has a token.
func (s *served) fiador(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "fiador"), args...)
	cmd.Env = []string{"HOME=" + s.base, "PATH=" + os.Getenv("PATH"), "FIADOR_LEDGER=" + s.url, "FIADOR_LEDGER_TOKEN=" + s.token}
	return cmd
}

func (s *served) must(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.fiador(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("fiador %q: %v\n%s\n%s", args, err, out, &s.said)
	}
}
