// The witness: everything that a user can see of fiador, as hashes. It proves that a
// change of the code changes nothing else (TestWitness).

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/specs"
)

var (
	witnessRun    = flag.Bool("witness", false, "run TestWitness")
	witnessUpdate = flag.Bool("update-witness", false, "run TestWitness, and record what it sees")
	witnessKeep   = flag.String("witness-keep", "", "`folder` that keeps the masked texts of TestWitness, each in a file named by its hash")
)

const (
	witnessFile     = "testdata/witness.txt"
	witnessUser     = "testdata/witness.user.txt"
	witnessAccepted = "testdata/witness.accepted"
)

// TestWitness runs the scripts, the pages, the vectors and the table of witnessTable,
// and compares all results with testdata/witness.txt. This file has a line for each call:
//
//	WHERE <tab> ARGUMENTS <tab> STATUS STDOUT STDERR
//
// and a line for each file that the call makes, changes or removes:
//
//	WHERE <tab> ARGUMENTS <tab> file NAME <tab> MODE CONTENT
//
// STDOUT, STDERR and CONTENT are the first 16 digits of a SHA-256, or - for nothing. A
// line that differs fails the test, unless testdata/witness.accepted has it with the
// reason, as
//
//	LINE WITHOUT ITS LAST COLUMN <tab> OLD => NEW <tab> REASON
//
// where "none" stands for an absent line. A line of witness.accepted without a difference
// fails the test as well. testdata/witness.user.txt has the lines that differ between an
// ordinary user and root: the mechanisms of clauses, and the readable files. It is recorded
// after witness.txt, and a difference of such a line is accepted for each of the two users.
// Another machine can enforce clauses by other mechanisms. There, record the witness of
// the old commit before comparing the new one.
//
// The clock of the program stands still, and its randomness is the same each time. So ids,
// keys, signatures and ledgers are the same too. Other values of the machine are masked
// (see mask). To see the texts behind two hashes, run the test on both commits with
// -args -witness-keep FOLDER.
func TestWitness(t *testing.T) {
	if !*witnessRun && !*witnessUpdate {
		t.Skip("it takes two minutes, runs scripts and pages once more, and make witness runs it")
	}
	t.Cleanup(func() {
		if t.Skipped() && os.Getenv(witnessedVar) == "1" {
			t.Error("TestScripts leaves the scripts to the witness: " + witnessedVar + "=1")
		}
	})
	needSandbox(t, "node")
	for _, name := range []string{"base64", "cmp", "git", "go", "jq", "mkfifo", "openssl", "sed", "sha256sum", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("the witness needs %s", name)
		}
	}
	defer syscall.Umask(syscall.Umask(0o022))
	exe, err := exec.LookPath("fiador")
	if err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(filepath.Dir(exe), steady)
	if err := os.Mkdir(calls, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(calls)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "/tmp") // plans name each folder on the way
	temp := t.TempDir()
	if *witnessKeep == "" {
		*witnessKeep = t.TempDir()
	}
	w := &witness{begun: time.Now().Add(-time.Second).Truncate(time.Second), lines: map[string]string{}}
	w.boot = strings.TrimSpace(string(boot))
	w.known = strings.NewReplacer(filepath.Dir(exe), "<bin>", filepath.Dir(temp), "<temp>", filepath.Base(filepath.Dir(temp)), "<temp>", w.boot, "<boot>")
	t.Run("runs", func(t *testing.T) {
		t.Run("table", func(t *testing.T) { t.Parallel(); w.table(t, temp) })
		t.Run("pages", func(t *testing.T) { t.Parallel(); w.pages(t) })
		w.scripts(t, temp)
	})
	w.compare(t)
}

// witness is what was seen.
type witness struct {
	begun time.Time
	boot  string
	known *strings.Replacer // values of this machine
	root  string            // folder of the sources, where pages name it
	level bool              // runs at once share the random numbers of their ids in any order
	mu    sync.Mutex
	lines map[string]string
}

// patterns find values that cannot be known in advance, by the member's name or the text
// around them.
var patterns = []struct {
	find *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`-pid\d+\b`), "-pid<pid>"},
	{regexp.MustCompile(`(/fiador-(?:demo|work)-)\d+\b`), "${1}<random>"},
	{regexp.MustCompile(`("(?:duration_ms|total_duration_ms|peak_memory_bytes)":)[1-9]\d*\b`), "${1}<measured>"},
	{regexp.MustCompile(`("latency_ms":|"adapter_id":"[^"]*","code":-?\d+,"duration_ms":)\d+\b`), "${1}<measured>"},
	{regexp.MustCompile(`("(?:kernel_release|go_version|node_version|npm_version)":)"[^"]*"`), "${1}<of the machine>"},
	{regexp.MustCompile(`("landlock_abi":)\d+`), "${1}<of the machine>"},
	{regexp.MustCompile(`("plan_sha256":"sha256:)[0-9a-f]{64}\b`), "${1}<of paths>"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "127.0.0.1:<port>"},
	{regexp.MustCompile(`(/state/fiador/work/)\d+-\d+\b`), "${1}<device and inode>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b`), "<receipt>"},
	{regexp.MustCompile(`("(?:receipt_hash|receipt|previous|(?:run|runner|evidence)\.json)":"blake3:)[0-9a-f]{64}\b`), "${1}<of this moment>"},
	{regexp.MustCompile(`("execution_time_ms":)\d+\b`), "${1}<measured>"},
}

// moments match times. A time during the test is masked, with the random id that follows
// it in the name of a log.
var moments = regexp.MustCompile(`\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\d{8}T\d{6}Z|\d{8}-\d{6})(-[0-9a-f]{8}\b)?`)

// runs match ids of runs, which have a time and a random number.
var runs = regexp.MustCompile(`\brun_(\d{8}T\d{6}Z)_[0-9a-f]{16}\b`)

// mask replaces the values of this machine and of this moment.
func (w *witness) mask(s string) string {
	s = w.known.Replace(withoutRoot(s, w.root))
	for _, p := range patterns {
		s = p.find.ReplaceAllString(s, p.mask)
	}
	s = runs.ReplaceAllStringFunc(s, func(text string) string {
		switch at := runs.FindStringSubmatch(text)[1]; {
		case w.isNow(at):
			return "run_<now>_<id>"
		case w.level:
			return "run_" + at + "_<id>"
		}
		return text
	})
	return moments.ReplaceAllStringFunc(s, func(text string) string {
		m := moments.FindStringSubmatch(text)
		switch {
		case !w.isNow(m[1]):
			return text
		case m[2] != "":
			return "<now>-<id>"
		}
		return "<now>"
	})
}

// isNow says whether a text is a time during the test.
func (w *witness) isNow(text string) bool {
	for _, layout := range []string{time.RFC3339, "20060102T150405Z", "20060102-150405"} {
		if at, err := time.Parse(layout, text); err == nil && !at.Before(w.begun) && !at.After(time.Now()) {
			return true
		}
	}
	return false
}

// sum is the hash of a masked text.
func (w *witness) sum(s string) string {
	if s == "" {
		return "-"
	}
	s = w.mask(s)
	h := fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:16]
	_ = os.WriteFile(filepath.Join(*witnessKeep, h), []byte(s), 0o600)
	return h
}

// call notes one call under a unique name, and the changes that it left in a folder.
func (w *witness) call(where, args string, status int, stdout, stderr string, left *folderSeen) {
	args = strings.ReplaceAll(strings.ReplaceAll(w.mask(args), "\n", `\n`), "\t", `\t`)
	if len(args) > 300 {
		args = args[:300] + "... " + w.sum(args)
	}
	key := where + "\t" + args
	var files map[string]string
	if left != nil {
		files = left.changes()
		stdout, stderr = left.known(left.blur(args, stdout)), left.known(left.blur(args, stderr))
	}
	value := fmt.Sprintf("%d %s %s", status, w.sum(stdout), w.sum(stderr))
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := 2; w.lines[key] != ""; n++ {
		key = fmt.Sprintf("%s\t%s (%d)", where, args, n)
	}
	w.lines[key] = value
	for name, is := range files {
		w.lines[key+"\tfile "+name] = is
	}
}

// folderSeen is a folder as it was at the last look.
type folderSeen struct {
	w      *witness
	dir    string
	files  map[string]string // by masked name
	looked map[string]fs.FileInfo
	spelt  map[string]string // by name: the text of each file
	hashes map[string]string // of a file that is masked: the hash of its mask
}

func (w *witness) folder(dir string) *folderSeen {
	f := &folderSeen{w: w, dir: dir, looked: map[string]fs.FileInfo{}, spelt: map[string]string{}, hashes: map[string]string{}}
	f.changes()
	return f
}

// changes lists the changes of files since its last call.
func (f *folderSeen) changes() map[string]string {
	now, changed, found := map[string]string{}, map[string]string{}, map[string][]string{}
	for _, pass := range []func(name, path string, info fs.FileInfo){
		func(_, path string, info fs.FileInfo) { f.look(path, info) },
		func(name, path string, info fs.FileInfo) {
			is := info.Mode().String()
			if info.Mode()&fs.ModeSymlink != 0 {
				to, _ := os.Readlink(path)
				is += " " + f.w.mask(to)
			} else if info.Mode().IsRegular() {
				is += " " + f.w.sum(f.known(f.blur(name, f.spelt[path])))
			}
			found[name] = append(found[name], is)
		},
	} {
		_ = filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && d.Name() == ".git" { // times are in an index, and in commits
				return fs.SkipDir
			}
			name, _ := filepath.Rel(f.dir, path)
			name = f.w.mask("/" + name)[1:]
			if err != nil {
				found[name] = append(found[name], "unreadable")
			} else if info, err := os.Lstat(path); err == nil {
				pass(name, path, info)
			}
			return nil
		})
	}
	for name, list := range found {
		slices.Sort(list)
		now[name] = strings.Join(slices.Compact(list), ", ")
		if f.files[name] != now[name] {
			changed[name] = now[name]
		}
	}
	for name := range f.files {
		if now[name] == "" {
			changed[name] = "gone"
		}
	}
	f.files = now
	return changed
}

// look reads a file that is new, or that has changed since the last look.
func (f *folderSeen) look(path string, info fs.FileInfo) {
	was := f.looked[path]
	if !info.Mode().IsRegular() || was != nil && os.SameFile(was, info) && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) {
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		b = []byte("unreadable")
	}
	f.looked[path], f.spelt[path] = info, f.w.mask(f.w.spell(b))
	if f.spelt[path] != string(b) {
		f.hashes[fmt.Sprintf("%x", sha256.Sum256(b))] = "<sha256 " + f.w.sum(f.spelt[path]) + ">"
	}
}

var hexHash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// known replaces the hashes of files that are masked.
func (f *folderSeen) known(s string) string {
	return hexHash.ReplaceAllStringFunc(s, func(h string) string {
		if mask := f.hashes[h]; mask != "" {
			return mask
		}
		return h
	})
}

// chance finds names of files with random content, in scripts and pages about randomness.
var chance = regexp.MustCompile(`\b(dice|chanced?)\b`)

// blur removes the content of a random file from a text.
func (f *folderSeen) blur(name, text string) string {
	if strings.HasSuffix(name, "work/sig") { // over what is masked
		return fmt.Sprint(len(text))
	}
	if !chance.MatchString(name) {
		return text
	}
	text = regexp.MustCompile(`"content":"[^"]*"`).ReplaceAllString(text, `"content":<random>`)
	return hexHash.ReplaceAllString(text, "<random>")
}

var (
	headOfLedger = regexp.MustCompile(`(?s)^(\{"format":"1","boot":"[^"]*","inode":)\d+(,.*\}) +.{4}$`)
	signed       = regexp.MustCompile(`"payload":"([A-Za-z0-9+/=]+)"(.*?)"sig":"[A-Za-z0-9+/=]+"`)
)

// spell returns the text of a file whose values mask cannot find in the bytes. The head of
// a ledger has an inode, and a checksum over it, and an index of states has nothing else. An
// archive is compressed. Signed data is base64. A copy of the program differs after every
// change of the code.
func (w *witness) spell(b []byte) string {
	if bytes.HasPrefix(b, []byte("\x7fELF")) {
		return "a program"
	}
	if bytes.HasPrefix(b, []byte("fiador-index-1\n")) {
		return fmt.Sprintf("an index of %d bytes", len(b))
	}
	if m := headOfLedger.FindSubmatch(b); m != nil {
		return string(m[1]) + "<inode>" + string(m[2])
	}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return w.archive(b)
	}
	return signed.ReplaceAllStringFunc(string(b), func(text string) string {
		m := signed.FindStringSubmatch(text)
		plain, err := base64.StdEncoding.DecodeString(m[1])
		if err != nil {
			return text
		}
		return fmt.Sprintf(`"payload":%q%s`, plain, m[2])
	})
}

// archive returns a packed archive as text. If nothing in it is masked, its bytes count.
func (w *witness) archive(b []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return string(b)
	}
	var out strings.Builder
	same := z.ModTime.Before(w.begun)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			if err != io.EOF {
				return string(b)
			}
			break
		}
		content, _ := io.ReadAll(r)
		spelt := w.spell(content)
		same = same && w.mask(spelt) == string(content) && h.ModTime.Before(w.begun)
		fmt.Fprintf(&out, "%s %c %o %d %s\n", h.Name, h.Typeflag, h.Mode, len(content), w.sum(spelt))
	}
	if same {
		return string(b)
	}
	return out.String()
}

// execLine is a line of a script that runs a program and waits for its end.
var execLine = regexp.MustCompile(`(?m)^((?:\[[^\]]*\] *)*(?:! )?)exec (.*[^&\n])$`)

// scripts runs the scripts of TestScripts and TestLedgerScripts. Its own exec command
// notes each call.
func (w *witness) scripts(t *testing.T, temp string) {
	var seen sync.Map // the folder of each script
	ran := func(ts *testscript.TestScript, args []string) int {
		status := 0
		var ee *exec.ExitError
		if err := ts.Exec(args[0], args[1:]...); errors.As(err, &ee) {
			status = ee.ExitCode()
		} else {
			ts.Check(err)
		}
		stderr := ts.ReadFile("stderr")
		folder, _ := seen.Load(ts.Getenv("WORK"))
		left := folder.(*folderSeen)
		if strings.Contains(strings.Join(args, " "), "kill -KILL") {
			stderr = ""    // the stderr of a shell may mention the signal
			left.changes() // the progress before the end differs from run to run
			left = nil
		}
		w.call("script/"+ts.Name(), strings.Join(args, " "), status, ts.ReadFile("stdout"), stderr, left)
		return status
	}
	for _, kind := range []string{"script", "ledger"} {
		dir := filepath.Join(temp, kind)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", kind))); err != nil {
			t.Fatal(err)
		}
		scripts, err := filepath.Glob(dir + "/*.txtar")
		if err != nil || len(scripts) == 0 {
			t.Fatalf("%v, no scripts", err)
		}
		for _, name := range scripts {
			if timed[strings.TrimSuffix(filepath.Base(name), ".txtar")] {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, files, _ := strings.Cut(string(b), "\n-- ")
			if files != "" {
				files = "\n-- " + files
			}
			if err := os.WriteFile(name, []byte(execLine.ReplaceAllString(script, "${1}ran $2")+files), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p := scriptParams()
		if kind == "ledger" {
			p = ledgerScriptParams()
		}
		setup := p.Setup
		p.Dir, p.WorkdirRoot, p.ContinueOnError = dir, temp, true
		p.Condition = func(cond string) (bool, error) {
			if cond == "unprivileged" { // root cannot try these lines, so the witness leaves them out
				return false, nil
			}
			return rehearsal.Holds(cond)
		}
		p.Setup = func(env *testscript.Env) error {
			if setup != nil {
				if err := setup(env); err != nil {
					return err
				}
			}
			seen.Store(env.WorkDir, w.folder(env.WorkDir))
			return nil
		}
		p.Cmds["exits"] = func(ts *testscript.TestScript, _ bool, args []string) {
			if got := ran(ts, args[1:]); fmt.Sprint(got) != args[0] {
				ts.Logf("exit status %d, want %s", got, args[0])
			}
		}
		p.Cmds["ledger"] = rehearsal.LedgerCommands(folders{func(ts *testscript.TestScript, command string, args ...string) error {
			ran(ts, append([]string{command}, args...))
			return nil
		}})["ledger"]
		p.Cmds["ran"] = func(ts *testscript.TestScript, neg bool, args []string) {
			if got := ran(ts, args); (got != 0) != neg {
				ts.Logf("exit status %d", got)
			}
		}
		testscript.Run(t, p)
	}
}

// pages runs the commands of the pages. TestReadme runs those of the README, which have
// receipts and a suite with the time in them.
func (w *witness) pages(t *testing.T) {
	src := pages(t, "docs/*.md", "specs/safe-run.md")
	whole, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	delete(src, "docs/cli.md")           // its examples stand for each command alone
	delete(src, "docs/installing.md")    // it runs in the folder of a release
	delete(src, "docs/comparison.md")    // it needs programs that the benchmark installs
	delete(src, "docs/remote.md")        // it needs a cluster: TestRemotely runs it
	delete(src, "docs/shared-ledger.md") // it needs a server: TestPage of cmd/fiador-ledgerd runs it
	delete(src, "docs/suites.md")        // its agents write the time
	delete(src, "docs/comparing.md")     // its runs have the time that an agent took
	path := needSafeRun(t)
	for _, name := range slices.Sorted(maps.Keys(src)) {
		if len(parsePage(src[name]).steps) == 0 {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Dir(t.TempDir())
			here := &witness{begun: w.begun, lines: map[string]string{}}
			here.known = strings.NewReplacer(dir, "<temp>", path[0], "<bin>", w.boot, "<boot>")
			here.root, here.level = whole, name == "docs/work-items.md"
			left := here.folder(dir)
			p := runPage(t, src[name], path...)
			for i, s := range p.steps {
				status := 0
				fmt.Sscan(s.status, &status)
				here.call("page/"+name, s.code, status, left.blur(s.code, s.output), "", nil)
				if i == len(p.steps)-1 {
					here.call("page/"+name, "the end", 0, "", "", left)
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			maps.Copy(w.lines, here.lines)
		})
	}
}

// in runs a call in this process. Ids are the same in each call, in whatever order they
// are drawn.
func (w *witness) in(where, name string, args ...string) (stdout, stderr string) {
	var out, errs bytes.Buffer
	status := cli.Run(context.Background(), args, cli.System{
		Stdin: os.Stdin, Stdout: &out, Stderr: &errs, Env: func(string) string { return "" },
		Now: func() time.Time { return steadyTime }, Rand: zeros{},
	}, commands)
	if name == "" {
		name = "fiador " + strings.Join(args, " ")
	}
	w.call(where, name, status, out.String(), errs.String(), nil)
	return out.String(), errs.String()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// table runs the calls that scripts and pages leave out: every help text, completion,
// schema and explanation, and every vector that a command reads.
func (w *witness) table(t *testing.T, temp string) {
	var helps func(*cobra.Command)
	helps = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		w.in("help", "", append(slices.Clone(path), "--help")...)
		w.in("complete", "", slices.Concat([]string{"__complete"}, path, []string{"-"})...)
		for _, sub := range cmd.Commands() {
			helps(sub)
		}
	}
	helps(cli.Root(&cli.App{}, commands(&cli.App{})...))
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		w.in("complete", "", "completion", shell)
	}
	for _, name := range specs.Names() {
		w.in("schema", "", "schema", name)
	}
	w.in("explain", "", "explain")
	var codes []struct{ ID string }
	list, _ := w.in("explain", "", "explain", "--format", "json")
	if err := json.Unmarshal([]byte(list), &codes); err != nil || len(codes) < 50 {
		t.Fatalf("%d codes, %v", len(codes), err)
	}
	for _, c := range codes {
		w.in("explain", "", "explain", c.ID)
		w.in("explain", "", "explain", c.ID, "--format", "json")
	}
	w.in("doctor", "", "doctor")
	w.in("doctor", "", "doctor", "--format", "json")
	w.runVectors(t, temp)
	w.packVectors(t, temp)
	w.ledgerVectors(t, temp)
	w.detectVectors(t, temp)
	w.resultVectors(t, temp)
	w.requestVectors(t, temp)
}

// longText is the form of a long text in vectors.
type longText struct {
	Before, Unit, After string
	Times               int
}

func (r longText) text() string { return r.Before + strings.Repeat(r.Unit, r.Times) + r.After }

// runVectors decides the intents of specs/vectors/run: those of a profile in one call.
func (w *witness) runVectors(t *testing.T, temp string) {
	files, err := fs.Glob(specs.RunVectors(), "*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, no vectors", err)
	}
	names := map[string]map[string]string{} // by profile: by file
	for _, name := range files {
		var file struct {
			Vectors []struct {
				Name, Profile string
				Intent        json.RawMessage `json:"intent"`
				Text          string          `json:"intent_text"`
				Base64        []byte          `json:"intent_base64"`
				Repeat        longText        `json:"intent_repeat"`
			}
		}
		b, err := fs.ReadFile(specs.RunVectors(), name)
		if err = errors.Join(err, json.Unmarshal(b, &file)); err != nil {
			t.Fatal(err)
		}
		for i, v := range file.Vectors {
			dir := filepath.Join(temp, "run", url.PathEscape(v.Profile))
			path := filepath.Join(dir, fmt.Sprintf("%s-%03d.json", strings.TrimSuffix(name, ".json"), i))
			if names[v.Profile] == nil {
				names[v.Profile] = map[string]string{}
			}
			names[v.Profile][path] = name + ": " + v.Name
			intent := string(v.Intent) + v.Text + string(v.Base64) + v.Repeat.text()
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, []byte(intent), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for profile, names := range names {
		args := append([]string{"check", "--policy", profile}, slices.Sorted(maps.Keys(names))...)
		stdout, stderr := w.in("vector/run", "fiador check --policy "+profile, args...)
		w.each("vector/run", "check --policy "+profile+": ", stdout+stderr, names)
		w.in("vector/run", "fiador check --format human --policy "+profile, append(args, "--format", "human")...)
		for i, path := range slices.Sorted(maps.Keys(names)) {
			if i%10 == 0 { // compiling the policy each time costs 0.1 s
				w.in("vector/run", "explain --policy "+profile+": "+names[path], "explain", "--intent", path, "--policy", profile, "--format", "json")
			}
		}
	}
}

// each notes every line of an answer about many files under the name of its file.
func (w *witness) each(where, call, answer string, names map[string]string) {
	for line := range strings.Lines(answer) {
		for path, name := range names {
			if strings.Contains(line, `"`+path+`"`) || strings.Contains(line, `"`+filepath.Base(path)+`"`) {
				w.call(where, call+name, 0, line, "", nil)
				break
			}
		}
	}
}

// packVectors verifies the packs of specs/vectors/pack at both levels. The test of those
// vectors makes the packs.
func (w *witness) packVectors(t *testing.T, temp string) {
	dir := filepath.Join(temp, "packs")
	out, err := exec.Command("go", "test", "-count=1", "../../evidence/pack/verify", "-run", "^TestVectors$", "-lay-out", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	paths, err := filepath.Glob(dir + "/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, no packs", err)
	}
	names := map[string]string{}
	for _, path := range paths {
		names[path], _ = url.PathUnescape(strings.TrimSuffix(filepath.Base(path), ".tar.gz"))
	}
	for _, level := range []string{"strict", "structural"} {
		args := append([]string{"pack", "verify", "--level", level}, paths...)
		w.in("vector/pack", "fiador pack verify --level "+level, args...)
		stdout, stderr := w.in("vector/pack", "fiador pack verify --format json --level "+level, append(args, "--format", "json")...)
		w.each("vector/pack", "pack verify --level "+level+": ", stdout+stderr, names)
	}
}

// ledgerVectors reads the ledgers of specs/vectors/ledger, unchanged and with the changes
// of folders.json.
func (w *witness) ledgerVectors(t *testing.T, temp string) {
	vectors := filepath.Join(root, "specs", "vectors", "ledger")
	dir := filepath.Join(temp, "ledgers")
	if err := os.CopyFS(dir, os.DirFS(vectors)); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Log string
			Edits     []struct {
				File    string
				Remove  bool
				At, Cut int
				Insert  struct {
					Text   string
					Base64 []byte
					Repeat longText
				}
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "folders.json"))
	if err = errors.Join(err, json.Unmarshal(b, &file)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"log", "fork", "wide"} {
		at := filepath.Join(dir, name)
		for _, args := range [][]string{
			{"list"}, {"list", "--format", "jsonl"}, {"list", "--format", "csv"}, {"stats"}, {"stats", "--format", "json"}, {"drift"},
			{"show", "0"}, {"show", "1"}, {"show", "2"}, {"show", "3"}, {"show", "10"}, {"show", "11"}, {"compare", at, filepath.Join(dir, "log")},
		} {
			if args[0] != "compare" {
				args = append(args, "--ledger", at)
			}
			w.in("vector/ledger", "", append([]string{"ledger"}, args...)...)
		}
	}
	for i, v := range file.Vectors {
		at := filepath.Join(dir, fmt.Sprintf("edited-%03d", i))
		if err := os.CopyFS(at, os.DirFS(filepath.Join(dir, v.Log))); err != nil {
			t.Fatal(err)
		}
		for _, e := range v.Edits {
			name := filepath.Join(at, e.File)
			b, err := os.ReadFile(name)
			if e.Remove {
				err = os.Remove(name)
			} else if err == nil || errors.Is(err, fs.ErrNotExist) {
				insert := e.Insert.Text + string(e.Insert.Base64) + e.Insert.Repeat.text()
				b = slices.Replace(b, e.At, e.At+e.Cut, []byte(insert)...)
				err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, b, 0o600))
			}
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
		}
		w.in("vector/ledger", "ledger verify: "+v.Name, "ledger", "verify", "--ledger", at, "--all-seals", "--tiles", "--evidence")
		w.in("vector/ledger", "ledger verify --format json: "+v.Name, "ledger", "verify", "--ledger", at, "--all-seals", "--tiles", "--evidence", "--format", "json")
	}
}

// compare compares the witness with the recorded and accepted lines, or records it.
func (w *witness) compare(t *testing.T) {
	root := os.Geteuid() == 0
	recorded := lastColumn(t, witnessFile)
	if !*witnessUpdate {
		accepted, user := lastColumn(t, witnessAccepted), lastColumn(t, witnessUser)
		mine, others := maps.Clone(recorded), user
		if !root {
			maps.Copy(mine, user)
			others = recorded
		}
		// A line of the file can be about the other user.
		for key, was := range others {
			maps.DeleteFunc(accepted, func(line, _ string) bool {
				return mine[key] != was && strings.HasPrefix(line, key+"\t"+was+" => ")
			})
		}
		for _, fault := range differences(mine, w.lines, accepted) {
			t.Error(fault + texts(fault))
		}
		return
	}
	file, all := witnessFile, maps.Clone(w.lines)
	if !root {
		file = witnessUser
		for key, was := range recorded {
			if all[key] == was {
				delete(all, key)
			} else if all[key] == "" {
				all[key] = none
			}
		}
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text.WriteString(key + "\t" + all[key] + "\n")
	}
	if err := errors.Join(os.WriteFile(file, []byte(text.String()), 0o644), os.WriteFile(witnessAccepted, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// none is the value of an absent line.
const none = "none"

// differences lists differences that are not accepted. It also lists accepted lines
// without a difference or without a reason.
func differences(recorded, seen, accepted map[string]string) []string {
	var faults []string
	all, used := maps.Clone(recorded), map[string]bool{}
	maps.Copy(all, seen)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, is := cmp.Or(recorded[key], none), cmp.Or(seen[key], none)
		line := key + "\t" + was + " => " + is
		if was != is && strings.TrimSpace(accepted[line]) == "" {
			faults = append(faults, "differs without a reason: "+line)
		}
		used[line] = was != is
	}
	for _, line := range slices.Sorted(maps.Keys(accepted)) {
		if !used[line] {
			faults = append(faults, witnessAccepted+" accepts what does not differ: "+line)
		}
	}
	return faults
}

// texts are the beginnings of the texts whose hashes a difference has on its right.
func texts(fault string) (all string) {
	_, seen, _ := strings.Cut(fault, " => ")
	for _, hash := range strings.Fields(seen) {
		if b, err := os.ReadFile(filepath.Join(*witnessKeep, hash)); err == nil {
			all += "\n" + hash + ":\n" + string(b[:min(len(b), 2000)])
		}
	}
	return all
}

// withoutRoot masks the path of a folder, but not a longer name that has the path in it.
// The folder can be /src/ci, and a page can write src/ci.key.
func withoutRoot(s, root string) string {
	named := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0
	}
	var b strings.Builder
	for root != "" {
		at := strings.Index(s, root)
		if at < 0 {
			break
		}
		end := at + len(root)
		b.WriteString(s[:at])
		if at > 0 && named(s[at-1]) || end < len(s) && named(s[end]) {
			b.WriteString(root)
		} else {
			b.WriteString("<root>")
		}
		s = s[end:]
	}
	return b.String() + s
}

// TestWitnessMasksRoot: only the folder itself is masked.
func TestWitnessMasksRoot(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "/src/ci": "<root>", "'/src/ci/examples' /src/ci": "'<root>/examples' <root>",
		"002/src/ci.key /src/cia": "002/src/ci.key /src/cia", "/src/ci.d /src/ci": "/src/ci.d <root>",
	} {
		if got := withoutRoot(in, "/src/ci"); got != want {
			t.Errorf("%q is masked as %q, want %q", in, got, want)
		}
	}
	if got := withoutRoot("a", ""); got != "a" {
		t.Errorf("without a folder: %q", got)
	}
}

// TestWitnessDifferences: a difference needs a reason, and an accepted line needs a
// difference.
func TestWitnessDifferences(t *testing.T) {
	t.Parallel()
	recorded := map[string]string{"help\tfiador": "0 a -", "help\tfiador run": "0 b -"}
	for _, c := range []struct {
		seen, accepted map[string]string
		want           string
	}{
		{recorded, nil, ""},
		{map[string]string{"help\tfiador": "0 c -", "help\tfiador run": "0 b -"}, nil, "differs without a reason: help\tfiador\t0 a - => 0 c -"},
		{map[string]string{"help\tfiador": "0 c -", "help\tfiador run": "0 b -"}, map[string]string{"help\tfiador\t0 a - => 0 c -": "a new command"}, ""},
		{map[string]string{"help\tfiador": "0 c -", "help\tfiador run": "0 b -"}, map[string]string{"help\tfiador\t0 a - => 0 c -": " "}, "differs without a reason: help\tfiador\t0 a - => 0 c -"},
		{map[string]string{"help\tfiador": "0 a -"}, nil, "differs without a reason: help\tfiador run\t0 b - => none"},
		{recorded, map[string]string{"help\tfiador\t0 a - => 0 c -": "a new command"}, witnessAccepted + " accepts what does not differ: help\tfiador\t0 a - => 0 c -"},
	} {
		if got := strings.Join(differences(recorded, c.seen, c.accepted), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// lastColumn reads a file of lines: the last column of each by the others.
func lastColumn(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.LastIndexByte(line, '\t')
		if at < 0 {
			t.Fatalf("%s: no column: %s", name, line)
		}
		lines[line[:at]] = line[at+1:]
	}
	return lines
}
