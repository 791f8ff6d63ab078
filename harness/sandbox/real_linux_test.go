//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree"
)

// realProgram is a typical task of an agent: a script, its needs, and its output on success.
type realProgram struct {
	name     string
	needs    []string          // programs of the system
	home     []string          // folders of the user's home that are read, as "NAME=folder"
	files    map[string]string // of the work folder before
	prepare  func(t *testing.T, work string)
	request  func(t *testing.T, r *Request)
	script   string
	want     string   // the last lines of standard output
	outputs  []string // files that were written, among others
	memory   int      // MiB; 0: that of a development profile
	children int      // 0: that of a development profile
	confined string   // the part that fails without a view of its own
	instead  string   // the script without that part; empty: it is not run there
}

// The limits of a development profile.
const (
	realMemory   = 512
	realChildren = 10
	realTime     = 5 * time.Minute
)

func realPrograms() []realProgram {
	return slices.Concat(realTools(), realLanguages(), realCompilers())
}

const realGit = `git() { command git -c init.defaultBranch=main -c user.name=A -c user.email=a@example.com "$@"; }
`

// realTools returns programs for shells and version control.
func realTools() []realProgram {
	return []realProgram{
		{
			name: "pipelines", needs: []string{"sh", "sort", "awk", "sed", "xargs", "tar", "gzip"},
			files: map[string]string{"in/words": "pear 3\nfig 1\napple 2\n"},
			script: `mkdir -p out/many
sort in/words | awk '{ s += $2; print $1 } END { print s }' | sed 's/fig/FIG/' >out/list
seq 1 40 | xargs -P 4 -I N sh -c 'echo N >out/many/N'
tar -cf - out | gzip -n -9 >out.tgz
mkdir back && tar -C back -xzf out.tgz && diff -r out back/out
find back -name '1*' -print0 | xargs -0 cat | sort -n | tail -1
mkfifo pipe; (cat in/words >pipe &); wc -l <pipe; rm pipe
cat out/list`,
			want: "19\n3\napple\nFIG\npear\n6\n", outputs: []string{"out/list", "out.tgz", "out/many/40", "back/out/many/7"},
		},
		{
			name: "copies that keep modes", needs: []string{"cp", "install", "sed", "tar"},
			files: map[string]string{"in/run": "#!/bin/sh\necho ran\n"},
			script: `cp -a in kept && cp -p in/run copied && cp --preserve=all in/run whole && install -m 755 in/run installed && install -d -m 700 made
./installed && sed -i s/ran/walked/ installed && ./installed && chmod +x copied && ./copied
tar -cf - kept | tar -C made -xpf - && stat -c %a copied installed made made/kept/run`,
			want: "ran\nwalked\nran\n755\n755\n700\n644\n", outputs: []string{"copied", "installed", "whole", "kept/run", "made/kept/run"},
		},
		{
			name: "perl", needs: []string{"perl"},
			script: `perl -MFile::Temp=tempfile -MPOSIX=:sys_wait_h -e '
my ($h, $name) = tempfile(); print $h "x" x 1000; close $h; print -s $name, "\n";
my $pid = fork(); exit 7 unless $pid; waitpid($pid, 0); print WEXITSTATUS($?), "\n";
open(my $p, "-|", "sh", "-c", "echo piped") or die; print <$p>;
open(my $o, ">", "made") or die; print $o sort { $a cmp $b } map { "$_\n" } qw(b a); close $o'`,
			want: "1000\n7\npiped\n", outputs: []string{"made"},
		},
		{
			name: "git makes a repository", needs: []string{"git"},
			script: realGit + `mkdir sub && cd sub && git init -q . && echo one >a && git add a && git commit -q -m first
echo two >>a && git diff --stat | cat && git commit -q -a -m second && git gc -q
cd .. && git clone -q sub copy && cd copy && git log --format=%s && git fsck --strict && git status --porcelain && cat a`,
			want: " a | 1 +\n 1 file changed, 1 insertion(+)\nsecond\nfirst\none\ntwo\n", outputs: []string{"sub/a", "sub/.git/HEAD", "copy/a"},
		},
		{
			name: "git looks at a repository that is protected", needs: []string{"git"},
			files: map[string]string{"a": "one\n", "b": "b\n"},
			prepare: func(t *testing.T, work string) {
				realHost(t, work, realGit+`git init -q . && git add . && git commit -q -m first`)
			},
			request: func(t *testing.T, r *Request) { r.Protect = []string{".git"} },
			script: `echo two >>a; rm b; touch c
git status --porcelain; git diff --name-only; git log --format=%s; git show HEAD:a; git blame -s a | wc -l
if git add a 2>/dev/null; then echo added; fi; git stash list`,
			want: " M a\n D b\n?? c\na\nb\nfirst\none\n2\n", outputs: []string{"a"},
			confined: "what is protected can be written there, and is found when the difference is judged",
			instead: `echo two >>a; rm b; touch c
git status --porcelain; git diff --name-only; git log --format=%s; git show HEAD:a; git blame -s a | wc -l`,
		},
	}
}

// realLanguages returns interpreters and programs that run on them.
func realLanguages() []realProgram {
	return []realProgram{
		{
			name: "node", needs: []string{"node"},
			files:  map[string]string{"main.js": realNode},
			script: `node main.js all`, want: "child 3\nworker 42\nforked up\nserved hello /there\n", outputs: []string{"out.txt"},
			confined: "sockets, those to itself included", instead: `node main.js`,
		},
		{
			name: "npm run", needs: []string{"node", "npm"},
			files: map[string]string{
				"package.json": `{"name":"made","version":"1.0.0","private":true,"scripts":{"prebuild":"echo before","build":"node build.js && echo done >>dist/log"}}`,
				"build.js":     `require("fs").mkdirSync("dist"); require("fs").writeFileSync("dist/bundle.js", process.env.npm_package_name)`,
			},
			script: `npm run --silent build && cat dist/bundle.js && echo && cat dist/log && npm --version >/dev/null && npm test --if-present`,
			want:   "before\nmade\ndone\n", outputs: []string{"dist/bundle.js", "dist/log"},
		},
		{
			name: "python3", needs: []string{"python3"},
			files:  map[string]string{"main.py": realPython},
			script: `python3 main.py all`, want: "b'child\\n'\n10\nsqlite 3\n[1, 4, 9, 16]\nserved\n", outputs: []string{"out.txt", "data.db"},
			confined: "sockets, and semaphores, which are files of /dev/shm", instead: `python3 main.py`,
		},
		{
			name: "python3 of the home folder", home: []string{"PYENV_ROOT=.pyenv"},
			files: map[string]string{"main.py": realPython},
			script: `set -- "$PYENV_ROOT"/versions/3.*/bin/python3
"$1" -c 'import sys; assert sys.prefix.startswith(sys.argv[1]), sys.prefix' "$PYENV_ROOT" && "$1" main.py all`,
			want: "b'child\\n'\n10\nsqlite 3\n[1, 4, 9, 16]\nserved\n", outputs: []string{"out.txt"},
			confined: "sockets, and semaphores, which are files of /dev/shm",
		},
	}
}

// realCompilers returns compilers and build tools.
func realCompilers() []realProgram {
	return []realProgram{
		{
			name: "gcc and make", needs: []string{"gcc", "make"},
			files: map[string]string{
				"Makefile": "prog: main.o lib.o\n\t$(CC) -o $@ $^ -lm\n%.o: %.c\n\t$(CC) -O1 -c -o $@ $<\nclean:\n\trm -f *.o prog\n",
				"main.c":   "#include <stdio.h>\nint sum(int, int);\nint main(void) { printf(\"%d\\n\", sum(1, 2)); return 0; }\n",
				"lib.c":    "#include <math.h>\nint sum(int a, int b) { return (int)floor(a + b + 0.5); }\n",
			},
			script: `make -s -j2 CC=gcc && ./prog && make -s clean && make -s CC="gcc -flto" && ./prog && gcc -g -S -pipe -o - lib.c | grep -qw sum`,
			want:   "3\n3\n", outputs: []string{"prog", "main.o"},
		},
		{
			name: "cargo check", home: []string{"CARGO_HOME=.cargo", "RUSTUP_HOME=.rustup"}, needs: []string{"gcc"}, memory: 1024, children: 20,
			files: map[string]string{
				"Cargo.toml": "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
				"src/lib.rs": "pub fn twice(n: u32) -> u32 { n * 2 }\n\n#[test]\nfn doubles() { assert_eq!(twice(2), 4); }\n",
			},
			script: `PATH="$CARGO_HOME/bin:$PATH"; cargo check -q --offline && cargo test -q --offline --lib | grep -o '1 passed'`,
			want:   "1 passed\n", outputs: []string{"Cargo.lock"},
		},
		{
			name: "java", needs: []string{"java"}, memory: 1024, children: 20,
			files: map[string]string{"Main.java": "public class Main {\n\tpublic static void main(String[] a) throws Exception {\n\t\tvar t = new Thread(() -> System.out.println(\"thread\"));\n\t\tt.start(); t.join();\n\t\tvar p = new ProcessBuilder(\"echo\", \"child\").redirectErrorStream(true).start();\n\t\tSystem.out.print(new String(p.getInputStream().readAllBytes()));\n\t\tjava.nio.file.Files.writeString(java.nio.file.Path.of(\"out.txt\"), \"x\");\n\t}\n}\n"},
			request: func(t *testing.T, r *Request) {
				// Its security settings are links to a folder of /etc.
				dirs, _ := filepath.Glob("/etc/java*")
				r.Read = append(r.Read, dirs...)
			},
			script: `java -Xmx128m -Xshare:auto Main.java`, want: "thread\nchild\n", outputs: []string{"out.txt"},
		},
	}
}

const realNode = `
const { execFileSync, spawn, fork } = require("child_process")
const { Worker, isMainThread, parentPort } = require("worker_threads")
const fs = require("fs"), http = require("http")
if (process.argv[2] === "forked") {
	process.send("up")
} else if (!isMainThread) {
	parentPort.postMessage(42)
} else {
	main(process.argv[2] === "all")
}
async function main(all) {
	console.log("child", execFileSync("sh", ["-c", "echo $((1+2))"]).toString().trim())
	await new Promise(done => new Worker(__filename).on("message", m => { console.log("worker", m); done() }))
	await new Promise(done => fork(__filename, ["forked"]).on("message", m => { console.log("forked", m); done() }))
	fs.writeFileSync("out.txt", "x".repeat(100))
	if (!all) return
	const server = http.createServer((q, a) => a.end("hello " + q.url)).listen(0, "127.0.0.1", () => {
		http.get("http://127.0.0.1:" + server.address().port + "/there", a => {
			let body = ""
			a.on("data", d => body += d).on("end", () => { console.log("served", body); server.close() })
		})
	})
}
`

const realPython = `
import subprocess, sqlite3, sys, tempfile, threading
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, check=True).stdout)
def square(n): return n * n
with tempfile.TemporaryFile() as f:
    f.write(b"0123456789"); print(f.tell())
db = sqlite3.connect("data.db")
db.execute("create table t (n int)"); db.executemany("insert into t values (?)", [(1,), (2,), (3,)]); db.commit()
print("sqlite", db.execute("select count(*) from t").fetchone()[0])
open("out.txt", "w").write("x")
if len(sys.argv) > 1:
    import multiprocessing
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, [1, 2, 3, 4]))
    import http.server, urllib.request
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"served")
        def log_message(self, *a): pass
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.handle_request).start()
    print(urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port).read().decode())
`

// TestRealPrograms runs programs that people use in both tiers.
func TestRealPrograms(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, p := range realPrograms() {
		for _, tier := range []Isolation{Full, Confined} {
			t.Run(p.name+"/"+string(tier), func(t *testing.T) { p.test(t, tier) })
		}
	}
}

// realGoWork names a work folder whose cache of builds is filled.
const realGoWork = "FIADOR_TEST_GO_WORK"

// TestRealGo builds and tests a module twice: first with an empty build cache in the work
// folder, then with the filled one. The short form vets the module instead of testing it,
// needs no package of the library but those of the runtime, and compiles without optimizing.
func TestRealGo(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if !realInstalled("go") {
		t.Skip("go is not installed in a folder of the system")
	}
	work := os.Getenv(realGoWork)
	if work == "" {
		needTier(t, Full)
		work = realGoCold(t)
	}
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			needTier(t, tier)
			r := realGoRequest(work, tier)
			r.Actions = slices.Insert(r.Actions, 0, Action{Path: "add.go", Content: []byte("package main\n\nfunc add(a, b int) int { return b + a + 0 }\n")})
			wantGo(t, runRequest(t, r, realTime))
		})
	}
	if os.Geteuid() == 0 {
		t.Run("as user", func(t *testing.T) { testAsUser(t, "TestRealGo", realGoWork+"="+work) })
	}
}

// realGoCold returns a work folder in which everything was built.
func realGoCold(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	program := "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"sum\", add(1, 2)) }\n"
	if !rehearsal.Full() {
		program = "package main\n\nfunc main() { println(\"sum\", add(1, 2)) }\n"
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/sum\n\ngo 1.24\n", "main.go": program,
		"add.go": "package main\n\nfunc add(a, b int) int { return a + b }\n", "add_test.go": "package main\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		realFile(t, filepath.Join(work, name), text)
	}
	if os.Geteuid() == 0 {
		// Applied files belong to the owner of the folder.
		if err := errors.Join(giveAway(work, ordinaryID), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	h := NewHost("")
	defer h.Close()
	since := time.Now()
	got, err := h.ranBy(realGoRequest(work, Full), realTime, func(s *Sandbox, got ran) error {
		return tree.Apply(t.Context(), filepath.Join(dir, "state"), work, got.changes, s.Content, since)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantGo(t, got)
	return work
}

func realGoRequest(work string, tier Isolation) Request {
	l := limits()
	l.MemoryMB, l.CPUCores, l.MaxChildren, l.OutputFiles, l.OutputBytes = 1024, 2, 20, 5000, 256<<20
	build, test := `go build -o sum . && ./sum`, `go test . | cut -f 1,2`
	if !rehearsal.Full() {
		build = `go build -gcflags='all=-N -l' -o sum . && ./sum 2>&1`
		test = `go vet main.go add.go && printf 'ok  \texample.com/sum\n'`
	}
	return Request{
		Work: work, Write: Staged, Limits: l, Least: tier, Most: tier,
		Actions: []Action{{
			Argv: []string{"sh", "-e", "-c", `GOCACHE="$PWD/.cache" && export GOCACHE && ` + build + ` && ` + test + ` && go env GOPROXY`},
			Env:  []string{"CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local"},
		}},
	}
}

func wantGo(t *testing.T, got ran) {
	t.Helper()
	if want := "sum 3\nok  \texample.com/sum\noff\n"; got.code != 0 || got.stdout != want {
		t.Fatalf("exit %d (%+v)\nstdout:\n%s\nstderr:\n%s", got.code, got.end, got.stdout, got.stderr)
	}
	if !slices.ContainsFunc(got.changes, func(c change.Change) bool { return c.Path == "sum" && c.Executable }) {
		t.Errorf("the program is not among what was written: %d changes", len(got.changes))
	}
	t.Logf("%s, %d changes, %d MiB at most in one process", got.isolation, len(got.changes), got.end.MaxRSS/mib)
}

func TestRealProgramsAsUser(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	testAsUser(t, "TestRealPrograms")
}

func (p realProgram) test(t *testing.T, tier Isolation) {
	needTier(t, tier)
	for _, name := range p.needs {
		if !realInstalled(name) {
			t.Skipf("%s is not installed in a folder of the system", name)
		}
	}
	work := t.TempDir()
	for name, text := range p.files {
		realFile(t, filepath.Join(work, name), text)
	}
	if p.prepare != nil {
		p.prepare(t, work)
	}
	l := limits()
	l.MemoryMB, l.MaxChildren, l.CPUCores = cmp.Or(p.memory, realMemory), cmp.Or(p.children, realChildren), 2
	l.OutputBytes = 64 << 20
	r := Request{
		Work: work, Write: Staged, Limits: l, Least: tier, Most: tier,
		Actions: []Action{{Argv: []string{"sh", "-e", "-c", p.script}}},
	}
	for _, h := range p.home {
		name, folder, _ := strings.Cut(h, "=")
		dir := realHome(t, folder, tier)
		r.Read = append(r.Read, dir)
		r.Actions[0].Env = append(r.Actions[0].Env, name+"="+dir)
	}
	if p.request != nil {
		p.request(t, &r)
	}
	got := runRequest(t, r, realTime)
	if tier == Confined && p.confined != "" {
		if got.code == 0 && got.stdout == p.want {
			t.Fatalf("works, and should not: %s", p.confined)
		}
		t.Logf("as declared (%s): exit %d, %s", p.confined, got.code, lastLine(got.stderr))
		if p.instead == "" {
			return
		}
		r.Actions[0].Argv[3] = p.instead
		got = runRequest(t, r, realTime)
	}
	// What is left out is at the end of what there is to be seen.
	if got.code != 0 || got.stdout != p.want && (r.Actions[0].Argv[3] == p.script || !strings.HasPrefix(p.want, got.stdout)) {
		t.Fatalf("exit %d (%+v)\nstdout:\n%s\nstderr:\n%s\nwant:\n%s", got.code, got.end, got.stdout, got.stderr, p.want)
	}
	for _, out := range p.outputs {
		if !slices.ContainsFunc(got.changes, func(c change.Change) bool { return c.Path == out && c.Kind == change.KindFile }) {
			t.Errorf("%s was not written: %s", out, shownChanges(got.changes))
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// realInstalled says whether a command is in a folder in which sandboxed commands find it.
func realInstalled(name string) bool {
	for dir := range strings.SplitSeq(SearchPath, ":") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// realHome returns a folder of the home folder that commands may read.
func realHome(t *testing.T, name string, tier Isolation) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(home, name)
	if _, err := os.ReadDir(dir); err != nil {
		t.Skipf("~/%s cannot be read: %v", name, err)
	}
	if info, err := os.Stat(home); err == nil && tier == Confined && os.Geteuid() == 0 && info.Mode()&0o001 == 0 {
		t.Skip("does not work there: root's commands have another id, which may not enter root's home folder")
	}
	return dir
}

func realFile(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	// Whatever the umask is.
	if err := errors.Join(err, os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// realHost runs a script on the host.
func realHost(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// ran is the result of the last command of a request.
type ran struct {
	isolation Isolation
	clauses   []Clause
	staging   staging
	stdout    string
	stderr    string
	sums      [2][32]byte
	code      int
	end       End
	changes   []change.Change
}

// runRequest performs all actions of a request.
func runRequest(t *testing.T, r Request, limit time.Duration) ran {
	t.Helper()
	h := NewHost("")
	defer h.Close()
	got, err := h.ranBy(r, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// ranBy performs all actions of a request, and calls then with the sandbox before it is
// closed.
func (h *Host) ranBy(r Request, limit time.Duration, then func(*Sandbox, ran) error) (got ran, err error) {
	s, err := h.Start(context.Background(), r)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	got.isolation, got.clauses, got.staging = s.Isolation, s.Clauses, s.staging
	for i, a := range r.Actions {
		if len(a.Argv) == 0 {
			if errno, err := s.Write(i); err != nil || errno != 0 {
				return got, fmt.Errorf("%s: %w", a.Path, errors.Join(err, errno))
			}
			continue
		}
		res, err := command.Run(context.Background(), s.Command(i, limit, &got.end), command.Spec{
			Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 256 << 10}, Timeout: limit + time.Minute,
		})
		if err != nil {
			return got, err
		}
		got.stdout, got.stderr, got.code = string(res.Stdout.Bytes), string(res.Stderr.Bytes), res.ExitCode()
		got.sums = [2][32]byte{res.Stdout.SHA256, res.Stderr.SHA256}
	}
	if got.changes, err = s.Changes(); err != nil || then == nil {
		return got, err
	}
	return got, then(s, got)
}

func shownChanges(changes []change.Change) string {
	var list []string
	for _, c := range changes {
		list = append(list, string(c.Kind)+" "+c.Path)
	}
	return strings.Join(list, ", ")
}

// needTier skips a test if the machine lacks a tier for an ordinary user. Root always has
// it.
func needTier(t *testing.T, tier Isolation) {
	t.Helper()
	if e := tiers()[tier]; e != nil && os.Geteuid() != 0 && ofMachine(e) {
		t.Skip("this machine refuses it: ", e)
	}
}

// tiers returns the unavailable tiers, with the reason.
var tiers = sync.OnceValue(func() map[Isolation]*Error {
	h := NewHost("")
	defer h.Close()
	refused := map[Isolation]*Error{}
	for _, p := range h.Probe(context.Background()) {
		refused[p.Isolation] = p.Err
	}
	return refused
})

// ofMachine says whether the cause of a refusal is the machine.
func ofMachine(e *Error) bool {
	return slices.Contains([]string{CauseLimit, CauseOff, CauseSeccomp, CauseAppArmor, CauseProc, CauseKernel, CauseLandlock}, e.Cause)
}

// ordinaryID is the user and group that tests become.
const ordinaryID = 65534

// testAsUser runs a test of this program once more as an ordinary user.
func testAsUser(t *testing.T, name string, env ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user runs the test already")
	}
	out := asUser(t, nil, name, env...)
	if t.Logf("%s", out); !strings.Contains(out, "--- PASS: "+name) {
		t.Skip("skipped as an ordinary user too")
	}
}

// asUser returns the output of a test that an ordinary user runs, started by another program
// unless that is nil.
func asUser(t *testing.T, through []string, name string, env ...string) string {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	self, err := os.Open("/proc/self/exe") // which a user may not find by its path
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	argv := append(slices.Clone(through), "/proc/self/fd/3", "-test.run="+pattern, "-test.v", "-test.count=1", "-test.timeout=10m")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{self}
	temp := rehearsal.SharedTemp(t)
	cmd.Env = rehearsal.Env(append([]string{"HOME=" + temp, "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH"), rehearsal.Form()}, env...)...)
	// Mounts of other tests do not appear here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}, Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
