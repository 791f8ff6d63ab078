package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built builds the client once: fiador itself, which is of another module.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fiador-ledgerd-test-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "fiador")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", name, "./cmd/fiador").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})

// machine is a machine that has nothing but the program, the address and the key of a log, and
// perhaps a token.
type machine struct {
	t     *testing.T
	home  string
	url   string
	key   string
	token string
	state string // XDG_STATE_HOME, if it is not in home
}

func (r *running) machine(t *testing.T, token string) *machine {
	t.Helper()
	m := &machine{t: t, home: t.TempDir(), url: r.url, key: r.keys[0].Key.String(), token: r.tokens[token]}
	check(t, os.WriteFile(filepath.Join(m.home, "intent.json"), []byte(`{"goal":"Say hello","constraints":["one file"],"actions":[{"kind":"write","path":"out/hello.txt","content":"hello\n"}],"outputs":["out/hello.txt"]}`), 0o644))
	return m
}

// run runs fiador, and returns what it said and its exit status.
func (m *machine) run(args ...string) (stdout, stderr string, status int) {
	m.t.Helper()
	cmd := m.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if m.token != "" && strings.Contains(out.String()+errs.String(), m.token) {
		m.t.Errorf("%q shows the token", args)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (m *machine) command(args ...string) *exec.Cmd {
	m.t.Helper()
	name, err := built()
	check(m.t, err)
	cmd := exec.Command(name, args...)
	cmd.Dir = m.home
	cmd.Env = []string{"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "FIADOR_LEDGER=" + m.url, "FIADOR_LEDGER_KEY=" + m.key, "FIADOR_LEDGER_TOKEN=" + m.token, "XDG_STATE_HOME=" + m.state}
	return cmd
}

// says fails the test unless fiador ends with a status and says a text.
func (m *machine) says(status int, text string, args ...string) string {
	m.t.Helper()
	stdout, stderr, got := m.run(args...)
	if got != status || !strings.Contains(stdout+stderr, text) {
		m.t.Fatalf("%q: exit status %d\n%s%s", args, got, stdout, stderr)
	}
	return stdout
}

// TestOneLedgerManyMachines: two machines record with one server, and a third one, which has
// the address and the key alone, verifies the log. When the disk of the server is rolled back,
// the next command of the auditor says so.
func TestOneLedgerManyMachines(t *testing.T) { over(t, testOneLedgerManyMachines) }

func testOneLedgerManyMachines(t *testing.T, p *place) {
	server := p.process("--public-read")
	a, b, auditor := server.machine(t, "ci"), server.machine(t, "ci"), server.machine(t, "")
	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one", "--receipt", "one.tlog-proof")
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "two", "--receipt", "two.tlog-proof")
	again := a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one")
	if first := a.says(0, "", "ledger", "show", "one", "--key", a.key, "--format", "json"); !json.Valid([]byte(first)) || !json.Valid([]byte(again)) {
		t.Errorf("%s\n%s", first, again)
	}
	b.says(2, "the run id was recorded before", "run", "intent.json", "--run-id", "one", "--policy", "dev")

	// The first copy of the disk, and one more record.
	check(t, server.stop())
	putBack := p.copied()
	server = p.process("--public-read")
	for _, m := range []*machine{a, b, auditor} {
		m.url = server.url
	}
	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "three", "--receipt", "three.tlog-proof", "--receipt-wait", "1m")

	key := []string{"--key", auditor.key}
	with := func(args ...string) []string { return append(args, key...) }
	for _, c := range []struct {
		text string
		args []string
	}{
		{"CLEAN", with("ledger", "verify", "--tiles")}, {"index 3\n", with("ledger", "prove", "three")}, {"three", with("ledger", "list")},
		{"checkpoints/4", with("ledger", "pin")}, {"4 entries of 4", with("ledger", "stats")}, {"0 differences", with("ledger", "drift")},
		{"SAME  4 entries", with("ledger", "compare", auditor.url, auditor.url)}, {"run_id", with("ledger", "export")},
		{"4 entries", with("ledger", "publish", "public")}, {`"submitter":"ci"`, with("ledger", "show", "1", "--line")},
	} {
		auditor.says(0, c.text, c.args...)
	}
	// Evidence is never public.
	auditor.says(2, "token", with("ledger", "verify", "--evidence")...)
	a.says(0, "CLEAN", with("ledger", "verify", "--evidence")...)
	a.says(0, "3 decisions: 3 MATCH", with("ledger", "replay", "--all")...)
	a.says(0, "3 kept, 0 lost", with("ledger", "check-receipts", gathered(t, a, b))...)
	a.says(2, "for ledgers in a folder", "ledger", "repair")
	a.says(2, "leave --all-seals out", with("ledger", "verify", "--all-seals")...)

	// Without a server nothing is decided, and without an acceptable token nothing either.
	url := a.url
	a.url = "http://127.0.0.1:1"
	if stdout, _, status := a.run("run", "intent.json", "--ledger-wait", "1s"); status != 2 || strings.Contains(stdout, "accepted") {
		t.Errorf("without a server: exit status %d\n%s", status, stdout)
	}
	a.url = url
	stranger := server.machine(t, "reader")
	if stdout, stderr, status := stranger.run("run", "intent.json"); status != 2 || strings.Contains(stdout, "accepted") || !strings.Contains(stdout+stderr, "token") {
		t.Errorf("with a token for reading: exit status %d\n%s%s", status, stdout, stderr)
	}

	// The disk of yesterday.
	check(t, server.stop())
	putBack()
	server = p.process("--public-read")
	for _, m := range []*machine{a, b, auditor} {
		m.url = server.url
	}
	auditor.says(1, "TRUNCATED", with("ledger", "verify")...)
	fresh := server.machine(t, "ci")
	fresh.says(1, "2 kept, 1 lost", append([]string{"ledger", "check-receipts", gathered(t, a, b)}, key...)...)
	// A new record takes the place of the lost one.
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "other")
	for !bytes.Contains(server.get("/checkpoint").body, []byte("\n4\n")) {
		time.Sleep(20 * time.Millisecond)
	}
	auditor.says(1, "other entries", with("ledger", "verify")...)
	a.says(1, "both signed notes are kept", with("ledger", "list")...)
}

// gathered copies the receipts of machines into one folder.
func gathered(t *testing.T, list ...*machine) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range list {
		names, err := filepath.Glob(filepath.Join(m.home, "*.tlog-proof"))
		check(t, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			check(t, err)
			check(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644))
		}
	}
	return dir
}

// TestWrongPlaces: a URL, a token or a key that is wrong is refused before anything is decided,
// and no secret is shown.
func TestWrongPlaces(t *testing.T) {
	p := newPlace(t)
	server := p.process()
	private, err := os.ReadFile(p.key)
	check(t, err)
	for name, c := range map[string]struct {
		change func(m *machine)
		says   string
		hides  string
	}{
		"user":        {func(m *machine) { m.url = "https://user:S3cret@log.example.com" }, "a user, a query or a fragment", "S3cret"},
		"query":       {func(m *machine) { m.url = "https://log.example.com/?token=S3cret" }, "a user, a query or a fragment", "S3cret"},
		"http":        {func(m *machine) { m.url = "http://log.example.com" }, "http is for this machine alone", ""},
		"scheme":      {func(m *machine) { m.url = "ftp://log.example.com" }, "no https URL", ""},
		"token":       {func(m *machine) { m.token = "S3cret\n" }, "FIADOR_LEDGER_TOKEN is no token", "S3cret"},
		"other token": {func(m *machine) { m.token = strings.Repeat("A", 43) }, "does not accept the token", strings.Repeat("A", 43)},
		"no key":      {func(m *machine) { m.key = "" }, "which key does the ledger", ""},
		"private key": {func(m *machine) { m.key = strings.TrimSpace(string(private)) }, "FIADOR_LEDGER_KEY is the private key", "PRIVATE"},
		"other key":   {func(m *machine) { m.key = "example.com/log+d3bd1b9f+AXhM6f8tGS7baSQXShTkR4/RViCxcuOKJSr/Elxu5bZw" }, "not known", ""},
		"no log":      {func(m *machine) { m.url += "/elsewhere" }, "ledger", ""},
		"no state":    {func(m *machine) { check(t, os.WriteFile(filepath.Join(m.home, ".local"), nil, 0o600)) }, ".local", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := server.machine(t, "ci")
			c.change(m)
			stdout, stderr, status := m.run("run", "intent.json")
			if status != 2 || !strings.Contains(stdout+stderr, c.says) || strings.Contains(stdout, "accepted") || c.hides != "" && strings.Contains(stdout+stderr, c.hides) {
				t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
			}
		})
	}
	if got := server.log(1); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// TestReceiptIsAnAck: a receipt that no checkpoint covers in time is the server's ack, and a
// later check holds it against the log.
func TestReceiptIsAnAck(t *testing.T) { over(t, testReceiptIsAnAck) }

func testReceiptIsAnAck(t *testing.T, p *place) {
	server := p.process()
	m := server.machine(t, "ci")
	m.says(0, `"accepted":true`, "run", "intent.json", "--receipt", "r.tlog-proof", "--receipt-wait", "1ns")
	b, err := os.ReadFile(filepath.Join(m.home, "r.tlog-proof"))
	check(t, err)
	if !bytes.Contains(b, []byte("/ack\n1\n")) && !bytes.HasPrefix(b, []byte("c2sp.org/tlog-proof@v1\n")) {
		t.Errorf("%s", b)
	}
	server.log(2)
	m.says(0, "1 kept, 0 lost", "ledger", "check-receipts", ".", "--key", m.key)
}
