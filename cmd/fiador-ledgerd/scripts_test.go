package main

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk/disktest"
)

// TestScripts runs scripts of fiador on ledgers of servers, in each storage: those that make
// their ledgers with "ledger", and those that read the ledger of disktest. The same scripts
// run on folders in the tests of fiador, and some more that are about folders.
func TestScripts(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	fiador, err := built()
	check(t, err)
	for _, storage := range storages {
		t.Run(storage, func(t *testing.T) {
			for _, script := range scripts(t) {
				t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
					t.Parallel()
					runScript(t, script, filepath.Dir(fiador), &servers{t: t, storage: storage, running: map[string]*running{}})
				})
			}
		})
	}
}

// recordedScripts is the folder of the scripts that read the ledger of disktest.
const recordedScripts = "../fiador/testdata/ledger"

// scripts returns the scripts that are about no folder.
func scripts(t *testing.T) (list []string) {
	all, err := filepath.Glob("../fiador/testdata/script/*.txtar")
	check(t, err)
	for _, name := range all {
		text, err := os.ReadFile(name)
		check(t, err)
		if bytes.Contains(text, []byte("\nledger ")) {
			list = append(list, name)
		}
	}
	all, err = filepath.Glob(recordedScripts + "/*.txtar")
	check(t, err)
	for _, name := range all {
		if !strings.HasSuffix(name, "_folder.txtar") {
			list = append(list, name)
		}
	}
	if len(list) < 16 {
		t.Fatalf("only %d scripts: %q", len(list), list)
	}
	return list
}

// runScript runs one script. All of its servers know one token, and the first key is the one
// that FIADOR_LEDGER_KEY names.
func runScript(t *testing.T, script, bin string, s *servers) {
	commands := rehearsal.LedgerCommands(s)
	commands["work"] = func(ts *testscript.TestScript, _ bool, _ []string) { s.work(ts) }
	testscript.Run(t, testscript.Params{
		Files:               []string{script},
		RequireExplicitExec: true,
		Condition:           rehearsal.Holds,
		Cmds:                commands,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".state"))
			if filepath.Dir(script) == filepath.Clean(recordedScripts) {
				s.recorded(env)
			}
			return nil
		},
	})
}

// servers are the servers of a script, by the names of their ledgers.
type servers struct {
	t       *testing.T
	storage string
	running map[string]*running
	folder  string // the ledger of disktest
}

// put starts a server.
func (s *servers) put(ts *testscript.TestScript, name string, p *place) *running {
	r := s.start(name, p)
	rehearsal.Named(ts, name, r.url, p.keys[0].Key.String())
	return r
}

func (s *servers) start(name string, p *place) *running {
	s.running[name] = p.start(server.Config{}, "--public-read", "--origin", p.keys[0].Key.Origin())
	return s.running[name]
}

func (s *servers) Make(ts *testscript.TestScript, name, origin string) {
	p := newPlaceIn(s.t, s.storage)
	private, _, err := ledger.GenerateKey(rand.Reader, origin)
	check(s.t, err)
	s.sign(p, private)
	for _, first := range s.running {
		p.file, p.tokens = first.file, first.tokens
	}
	s.put(ts, name, p)
	if len(s.running) == 1 {
		ts.Setenv("FIADOR_LEDGER_KEY", p.keys[0].Key.String())
		ts.Setenv("FIADOR_LEDGER_TOKEN", p.tokens["ci"])
	}
	fmt.Fprintln(ts.Stdout(), p.keys[0].Key)
}

// sign gives a log, which is not there yet, another key.
func (s *servers) sign(p *place, private string) {
	signer, err := ledger.ParseSigner(private)
	check(s.t, err)
	p.keys = ledger.Keys{{Size: 1, Key: signer.Verifier()}}
	check(s.t, os.WriteFile(p.key, []byte(private+"\n"), 0o600))
}

// recorded makes the ledger of disktest on a server, and names it as the folder is named.
func (s *servers) recorded(env *testscript.Env) {
	p := newPlaceIn(s.t, s.storage)
	s.sign(p, disktest.Key())
	s.folder = filepath.Join(s.t.TempDir(), "gate")
	check(s.t, disktest.Recorded(s.folder))
	s.adopt(p)
	url := s.start("gate", p).url
	for name, value := range map[string]string{
		"gate": url, "FIADOR_LEDGER": url, "FIADOR_LEDGER_KEY": p.keys[0].Key.String(), "FIADOR_LEDGER_TOKEN": p.tokens["ci"],
	} {
		env.Setenv(name, value)
	}
}

// work adds the records of disktest.Work.
func (s *servers) work(ts *testscript.TestScript) {
	r := s.running["gate"]
	check(s.t, r.stop())
	check(s.t, disktest.Work(s.folder))
	s.adopt(r.place)
	ts.Setenv("FIADOR_LEDGER", s.put(ts, "gate", r.place).url)
}

// adopt adds to a log, byte for byte, the entries of the folder that it does not have. An
// import would refuse that evidence is missing, which the scripts need.
func (s *servers) adopt(p *place) {
	log := &printer{to: io.Discard}
	w := p.where()
	signer, err := w.signer(w.key)
	check(s.t, err)
	store, err := w.open(storage.Imported(signer, p.keys), log)
	check(s.t, err)
	text, err := os.ReadFile(filepath.Join(s.folder, "ledger.jsonl"))
	check(s.t, err)
	var items []claims.Item
	for line := range bytes.Lines(text) {
		l, err := ledger.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		check(s.t, err)
		it, err := claims.ParseItem(l.Entry)
		check(s.t, err)
		items = append(items, it)
	}
	writer := server.NewWriter(store, signer, time.Now, log, nil)
	check(s.t, writer.TakeLead())
	check(s.t, writer.Record(items[writer.Lead.Claims.Count():]))
	blobs, err := filepath.Glob(filepath.Join(s.folder, "evidence/sha256/*/*"))
	check(s.t, err)
	for _, name := range blobs {
		b, err := os.ReadFile(name)
		check(s.t, err)
		check(s.t, store.PutBlob(canon.Sum(b), bytes.NewReader(b)))
	}
	if store.Who().Fresh {
		check(s.t, store.Who().Write(store))
	}
	check(s.t, writer.GiveUp())
}

// logFolder returns where the tiles are: in a folder of their own, or at the top of a bucket.
func (p *place) logFolder() string {
	dir := filepath.Join(p.dir, "log")
	if _, err := os.Stat(dir); err != nil {
		return p.dir
	}
	return dir
}

// where returns what the flags of a place say.
func (p *place) where() where {
	w := where{mysql: p.dsn, s3: p.s3, origin: p.keys[0].Key.Origin(), key: p.key}
	if p.dsn == "" {
		w.posix = p.dir
	}
	return w
}

func (s *servers) Copy(ts *testscript.TestScript, name, copied string) {
	from := s.running[name]
	s.bundle(name)
	to := *from.place
	if to.dsn == "" {
		to.dir = filepath.Join(s.t.TempDir(), "log")
	} else {
		to.dsn = startMySQL(s.t)
		to.s3, to.dir = startS3(s.t)
		copyTables(s.t, from.dsn, to.dsn)
	}
	// -a keeps the attributes in which the gateway has what S3 says of an object.
	if out, err := exec.Command("cp", "-aT", from.dir, to.dir).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.put(ts, copied, &to)
}

// copyTables copies all tables of a database to another one of the same server.
func copyTables(t *testing.T, from, to string) {
	db, err := sql.Open("mysql", from)
	check(t, err)
	defer db.Close()
	rows, err := db.Query("SHOW TABLES")
	check(t, err)
	defer rows.Close()
	var statements []string
	_, old, _ := strings.Cut(from, ")/")
	for rows.Next() {
		var name string
		check(t, rows.Scan(&name))
		statements = append(statements, "CREATE TABLE "+name+" LIKE "+old+"."+name, "INSERT INTO "+name+" SELECT * FROM "+old+"."+name)
	}
	check(t, rows.Err())
	query(t, to, statements...)
}

// bundle returns the file with all entries of a log, once its checkpoint covers them. The
// scripts have fewer entries than a full bundle.
func (s *servers) bundle(name string) (file string) {
	r := s.running[name]
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		names, err := filepath.Glob(filepath.Join(r.logFolder(), "tile/entries/000.p/*"))
		check(s.t, err)
		size := 0
		for _, name := range names {
			if n, err := strconv.Atoi(filepath.Base(name)); err == nil && n > size {
				size, file = n, name
			}
		}
		if b := r.get("/checkpoint").body; size > 0 && bytes.Contains(b, fmt.Appendf(nil, "\n%d\n", size)) {
			return file
		}
	}
	s.t.Fatalf("no checkpoint covers the entries of %s:\n%s", name, r.stderr)
	return ""
}

// Entries changes the entries under the server, and the tiles of hashes stay.
func (s *servers) Entries(_ *testscript.TestScript, name string, change func([][]byte) [][]byte) {
	file := s.bundle(name)
	b, err := os.ReadFile(file)
	check(s.t, err)
	var entries [][]byte
	for len(b) > 0 {
		end := 2 + int(binary.BigEndian.Uint16(b))
		entries, b = append(entries, b[2:end]), b[end:]
	}
	var out []byte
	for _, entry := range change(entries) {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(entry))), entry...)
	}
	check(s.t, rehearsal.Rewrite(file, out))
}

// Checkpoint puts a server before the first one, which changes the checkpoint. In the storage
// Tessera would soon write the right one again.
func (s *servers) Checkpoint(ts *testscript.TestScript, name string, change func([]byte) []byte) {
	s.bundle(name)
	r := s.running[name]
	to, err := url.Parse(r.url)
	check(s.t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.URL.Path != "/checkpoint" {
			return nil
		}
		b, err := io.ReadAll(resp.Body)
		b = change(b)
		resp.Body = io.NopCloser(bytes.NewReader(b))
		resp.Header.Set("Content-Length", strconv.Itoa(len(b)))
		return err
	}
	liar := httptest.NewServer(proxy)
	s.t.Cleanup(liar.Close)
	rehearsal.Named(ts, name, liar.URL, r.keys[0].Key.String())
}

func (s *servers) Evidence(_ *testscript.TestScript, name string) string {
	return filepath.Join(s.running[name].dir, "evidence")
}
