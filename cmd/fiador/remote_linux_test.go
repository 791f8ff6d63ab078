package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/rehearsal"
)

const (
	workerVar = "FIADOR_REMOTE_WORKER" // the folder that .ci/remote-worker build has filled
	insideVar = "FIADOR_REMOTE_INSIDE" // set for the test that runs in a network namespace
)

// TestRemoteWorker runs the tests of TestRemotely in a network namespace of their own, because
// Bazel's RemoteWorker listens on every address.
func TestRemoteWorker(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	switch {
	case os.Getenv(workerVar) == "":
		t.Skipf("%s is not set: .ci/remote-worker build DIR makes Bazel's RemoteWorker", workerVar)
	case os.Getuid() != 0:
		t.Skip("only root makes a network namespace here")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range [][]string{{"fiador-shim", runtime.GOARCH}, {"fiador-shim", otherArch()}, {"fiador-remote", runtime.GOARCH}} {
		build := exec.Command("go", "build", "-C", root+"/cmd/"+b[0], "-trimpath", "-o", filepath.Join(dir, b[0]+"-"+b[1]), ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+b[1])
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestRemotely$", "-test.v", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), insideVar+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRemotely")) {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// otherArch is the architecture of the shim that this machine cannot run.
func otherArch() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// TestRemotely compares executions on a worker with those of this machine.
func TestRemotely(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(insideVar)
	if dir == "" {
		t.Skip("TestRemoteWorker runs it, in a network namespace")
	}
	loopback(t)
	t.Run("doctor", func(t *testing.T) { newCluster(t, dir).doctor(t, filepath.Join(dir, "fiador-shim-"+runtime.GOARCH)) })
	t.Run("intents", func(t *testing.T) { newCluster(t, dir).intents(t) })
	t.Run("repeats", func(t *testing.T) { newCluster(t, dir).repeats(t) })
	t.Run("work", func(t *testing.T) { remoteWork(t, dir) })
	t.Run("suite", func(t *testing.T) { remoteSuite(t, dir) })
	t.Run("restricted", func(t *testing.T) { remoteRestricted(t, dir) })
	t.Run("less", func(t *testing.T) { remoteLess(t, dir) })
	t.Run("page", func(t *testing.T) { remotePage(t, dir) })
	t.Run("kills", func(t *testing.T) { newCluster(t, dir).kills(t) })
}

// doctor: it names the worker, and the bytes of the shim that it sent.
func (c *cluster) doctor(t *testing.T, shim string) {
	b, err := os.ReadFile(shim)
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(b))
	var found struct{ Remote remotes.Health }
	stdout, stderr, code := c.remotely(t, "doctor", "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != 0 || found.Remote.ShimSHA256 != sum || found.Remote.OS != "linux" {
		t.Errorf("%d, %v, %+v, want the shim %s\n%s", code, err, found.Remote, sum, stderr)
	}
	if stdout, _, _ := c.remotely(t, "doctor"); !strings.Contains(stdout, "\nshim    sha256 "+sum+"\n") {
		t.Errorf("it does not name the shim %s:\n%s", sum, stdout)
	}
}

// loopback sets the flag that a new network namespace lacks.
func loopback(t *testing.T) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}

// cluster is a bench with a RemoteWorker of its own.
type cluster struct {
	bench
	server *exec.Cmd
	state  string
	port   int
	flags  []string // that name the cluster
}

func newCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	return startCluster(t, newBench(t), dir, func(*exec.Cmd) {})
}

// startCluster starts a server, whose command change may alter, and names it in a document.
func startCluster(t *testing.T, b bench, dir string, change func(*exec.Cmd)) *cluster {
	t.Helper()
	c := &cluster{bench: b}
	var err error
	if c.state, err = os.MkdirTemp("/dev/shm", "fiador-remote-"); err != nil { // the server syncs every file
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.port = free.Addr().(*net.TCPAddr).Port
	free.Close()
	c.serve(t, change)
	t.Cleanup(func() {
		c.stop()
		if err := os.RemoveAll(c.state); err != nil {
			t.Error(err)
		}
	})
	file := put(t, b.dir, "remote.json", fmt.Sprintf(`{"execution":"grpc://127.0.0.1:%d","arch":%q,"shim":{"amd64":%q,"arm64":%q},"wait_ms":30000}`, c.port, runtime.GOARCH, filepath.Join(dir, "fiador-shim-amd64"), filepath.Join(dir, "fiador-shim-arm64")))
	c.flags = []string{"--remote", file, "--remote-helper", filepath.Join(dir, "fiador-remote-"+runtime.GOARCH)}
	return c
}

// serve starts the server and waits until it listens.
func (c *cluster) serve(t *testing.T, change func(*exec.Cmd)) {
	t.Helper()
	script, err := filepath.Abs(root + "/.ci/remote-worker")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c.server = exec.Command(script, "serve", os.Getenv(workerVar), c.state, strconv.Itoa(c.port))
	c.server.Stdout, c.server.Stderr = &said, &said
	change(c.server)
	if c.server.SysProcAttr == nil {
		c.server.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.server.SysProcAttr.Setpgid, c.server.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := c.server.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(c.port)); err == nil {
			conn.Close()
			return
		}
	}
	c.stop()
	t.Fatalf("RemoteWorker does not listen: %s", said.Bytes())
}

// stop kills the server and its actions.
func (c *cluster) stop() {
	_ = syscall.Kill(-c.server.Process.Pid, syscall.SIGKILL)
	_ = c.server.Wait()
}

// remotely runs the program with the cluster.
func (c *cluster) remotely(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	at := 1
	if args[0] == "work" || args[0] == "suite" {
		at = 2
	}
	return c.run(t, append(append(append([]string{}, args[:at]...), c.flags...), args[at:]...)...)
}

// remoteScripts are scripts of intents whose results are the same everywhere.
func remoteScripts() []string {
	list := []string{
		"true", "exit 3", "echo hi >out/hi", "echo hi; echo ho >&2", "mkdir -p out/a/b/c; echo x >out/a/b/c/d", "echo more >>log", "rm gone", "rm -r d", "mv log moved",
		"chmod 755 log", "cp log copy; rm log", "kill -SEGV $$", "kill -TERM $$", "seq 1 50000", "head -c 300000 /dev/zero", "ln -s log link", "touch 'a name with spaces'",
		"echo x >Log", "mkfifo pipe", "cat nowhere", "exec nowhere", "env | sort", "id; hostname; pwd; umask", "ls -la /tree | wc -c >/dev/null; ls", "echo x >.git/hooks", "mkdir .github; echo x >.github/a",
		"cat log d/one d/two >out/all", "list=$(find . -type f | sort); echo \"$list\" >out/list", "tar cf out/t.tar --sort=name --mtime=@0 d", "node -e \"require('fs').writeFileSync('out/n', 'node')\"",
	}
	return list
}

// origin makes a work folder.
func (c *cluster) origin(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(c.dir, name)
	for file, text := range map[string]string{"log": "0\n", "gone": "gone\n", "d/one": "1\n", "d/two": "2\n", "out/first": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, dir, file, text)
	}
	return dir
}

// intents executes thirty intents here and on the worker: the canonical subsets of the results and
// the files of the packs that no machine changes are the same, and each reproduces the other.
func (c *cluster) intents(t *testing.T) {
	work := c.origin(t, "origin")
	times := regexp.MustCompile(`"(completed_at|started_at)":"[^"]*"|"total_duration_ms":[0-9]+`)
	scripts := remoteScripts()
	if len(scripts) != 30 {
		t.Fatalf("%d scripts", len(scripts))
	}
	for i, script := range scripts {
		intent := c.intentOf(t, script)
		args := []string{"run", intent, "--policy", "dev", "--tree", work, "--mode", "execute-sandbox", "--pack"}
		if i%3 != 0 {
			args = append(append([]string{}, args[:2]...), append([]string{"--work", work}, args[2:]...)...)
		}
		here, there := filepath.Join(c.dir, fmt.Sprintf("here-%d", i)), filepath.Join(c.dir, fmt.Sprintf("there-%d", i))
		stdout, stderr, code := c.run(t, append(args, here)...)
		remote, remoteErr, remoteCode := c.remotely(t, append(args, there)...)
		if code != remoteCode || code == cli.ExitError || !bytes.Equal(subset(t, []byte(stdout)), subset(t, []byte(remote))) {
			t.Errorf("%q: exit status %d and %d\n%s%s%s%s", script, code, remoteCode, stdout, stderr, remote, remoteErr)
			continue
		}
		for _, name := range []string{pack.BundleFile, pack.PatchFile, pack.EvidenceFile, pack.PolicyFile} {
			a, errA := os.ReadFile(filepath.Join(here, name))
			b, errB := os.ReadFile(filepath.Join(there, name))
			if name == pack.EvidenceFile {
				a, b = times.ReplaceAll(a, nil), times.ReplaceAll(b, nil)
			}
			if (errA == nil) != (errB == nil) || !bytes.Equal(a, b) {
				t.Errorf("%q: %s: %v, %v\n%s\n%s", script, name, errA, errB, a, b)
			}
		}
		again := []string{"reproduce", here, "--intent", intent, "--tree", work}
		if i%3 != 0 {
			again = append(again, "--work", work)
		}
		if stdout, stderr, code := c.remotely(t, again...); code != cli.ExitAccepted || !strings.HasPrefix(stdout, "MATCH") {
			t.Errorf("%q: reproduced on the worker: exit status %d\n%s%s", script, code, stdout, stderr)
		}
		again[1] = there
		if stdout, stderr, code := c.run(t, again...); code != cli.ExitAccepted || !strings.HasPrefix(stdout, "MATCH") {
			t.Errorf("%q: reproduced here: exit status %d\n%s%s", script, code, stdout, stderr)
		}
		if stdout, stderr, code := c.run(t, "pack", "verify", there); code != cli.ExitAccepted {
			t.Errorf("%q: the worker's pack: exit status %d\n%s%s", script, code, stdout, stderr)
		}
	}
}

// repeats: an action that appends to an input gives one patch, however often a worker runs it.
func (c *cluster) repeats(t *testing.T) {
	work := c.origin(t, "origin")
	intent := c.intentOf(t, "echo more >>log")
	before := shot(t, work)
	var first []byte
	for i := range 3 {
		at := filepath.Join(c.dir, fmt.Sprintf("pack-%d", i))
		if stdout, stderr, code := c.remotely(t, "run", intent, "--policy", "dev", "--work", work, "--tree", work, "--mode", "execute-sandbox", "--pack", at); code != cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
		}
		patch, err := os.ReadFile(filepath.Join(at, pack.PatchFile))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = patch
		}
		if !bytes.Equal(patch, first) {
			t.Errorf("repeat %d: %s\nand the first: %s", i, patch, first)
		}
	}
	unchanged(t, work, before)
}

// remoteWork runs ten work items here and on the worker: the folder, the lines and the cores of the
// receipts are the same.
func remoteWork(t *testing.T, dir string) {
	s := newSite(t, false, map[string]string{
		"a": ": echo a >>log", "b": "a: rm gone", "c": "b: mkdir -p new/deep; echo c >new/deep/c", "d": "c: mv d/one d/three", "e": "d: chmod 755 d/two",
		"f": "e: echo f >>log; echo f >f", "g": "f: ln log hard", "h": "g: rm -r new", "i": "h: cat log >sum; wc -c log >>sum", "j": "i: echo j >j",
	})
	here := s.cores(t)
	if len(here) != 10 {
		t.Fatalf("%d receipts", len(here))
	}
	c := startCluster(t, s.bench, dir, func(*exec.Cmd) {})
	s.renew(t)
	if stdout, stderr, code := c.remotely(t, s.args()...); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	for i, core := range s.cores(t) {
		if core != here[i] {
			t.Errorf("receipt %d: %s, and here %s", i, core, here[i])
		}
	}
	if what := differ(shot(t, s.tree()), s.end); what != "" {
		t.Errorf("the folder: %s", what)
	}
	s.survives(t, "after a run on the worker")
}

// cores returns the hashes of the cores of a store's receipts, in the order of the history.
func (s *site) cores(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.store(), "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct {
			ID string `json:"receipt_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		receipt, err := os.ReadFile(filepath.Join(s.store(), "receipts", l.ID, "RECEIPT.json"))
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Core string `json:"core_hash"`
		}
		if err := json.Unmarshal(receipt, &r); err != nil || r.Core == "" {
			t.Fatalf("%v: %s", err, receipt)
		}
		list = append(list, r.Core)
	}
	return list
}

// remoteSuite asks an agent that is a command four cases, here and on the worker.
func remoteSuite(t *testing.T, dir string) {
	b := newBench(t)
	if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, b.dir, "tree/kept", "kept")
	agent := put(t, b.dir, "agent.json", `{"argv":["sh","-c","read request; echo >changed; id=${request#*case_id\\\":\\\"}; printf '{\"case_id\":\"%s\",\"version\":\"new\",\"proposed_actions\":[],\"events\":[],\"final_output\":{\"content_type\":\"text\",\"content\":\"%s after %s\"}}' \"${id%%\\\"*}\" \"$(cat kept)\" \"${#request}\""],"work":"tree"}`)
	c := startCluster(t, b, dir, func(*exec.Cmd) {})
	args := []string{"suite", "run", b.cases(t, "one", "two", "three", "four"), "--policy", "dev", "--run-id", "r", "--new", "exec:" + agent, "--out"}
	here, there := filepath.Join(b.dir, "here", "out"), filepath.Join(b.dir, "there", "out")
	stdout, stderr, code := b.run(t, append(args, here)...)
	if code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := c.remotely(t, append(args, there)...); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	alike(t, "on the worker", there, here)
	for _, id := range []string{"one", "two", "three", "four"} {
		if text, err := os.ReadFile(filepath.Join(there, "new", "r", id+".json")); err != nil || !bytes.Contains(text, []byte("kept after ")) {
			t.Errorf("%v: %s", err, text)
		}
	}
}

// withoutLandlock changes a command so that its program finds no Landlock in the kernel.
func withoutLandlock(cmd *exec.Cmd) {
	const filter = `import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *c) for c in [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)])
held = ctypes.create_string_buffer(code)
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, struct.pack("HxxxxxxP", 4, ctypes.addressof(held)), 0, 0):
    sys.exit("no filter: %d" % ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])`
	cmd.Path, cmd.Args = "/usr/bin/python3", append([]string{"python3", "-c", filter, cmd.Path}, cmd.Args[1:]...)
}

// unshared makes the folders of a server that runs as restrict says.
func unshared(t *testing.T, state string) {
	t.Helper()
	for _, d := range []string{state, filepath.Join(state, "work"), filepath.Join(state, "cas")} {
		if err := errors.Join(os.MkdirAll(d, 0o777), os.Chmod(d, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
}

// remoteLess: workers that lack something. Each gives what it can and says so, or starts nothing.
func remoteLess(t *testing.T, dir string) {
	needPrograms(t, "python3")
	node := func(b bench) string {
		return put(t, b.dir, "node.json", `{"goal":"Run","constraints":["now"],"actions":[{"kind":"write","path":"out/x.js","content":""},{"kind":"run","argv":["node","out/x.js"]}]}`)
	}
	t.Run("Landlock", func(t *testing.T) {
		b := newBench(t)
		c := startCluster(t, b, dir, withoutLandlock)
		at := filepath.Join(b.dir, "pack")
		if stdout, stderr, code := c.remotely(t, "run", node(b), "--tree", b.work, "--mode", "execute-sandbox", "--pack", at); code != cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
		}
		runner, err := os.ReadFile(filepath.Join(at, pack.RunnerFile))
		if err != nil || !bytes.Contains(runner, []byte(`"isolation_level":"strict"`)) || !bytes.Contains(runner, []byte(evidence.FilesNoLandlock.Clause().Mechanism)) {
			t.Errorf("%v: %s", err, runner)
		}
	})
	t.Run("Landlock and namespaces", func(t *testing.T) {
		b := newBench(t)
		c := startCluster(t, b, dir, func(cmd *exec.Cmd) {
			unshared(t, cmd.Args[3])
			withoutLandlock(cmd)
			restrict(cmd)
		})
		stdout, stderr, code := c.remotely(t, "run", node(b), "--policy", "dev", "--tree", b.work, "--mode", "execute-sandbox")
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"code":"RUN_E005"`) || !strings.Contains(stderr, "on the worker") {
			t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
		}
	})
	t.Run("architecture", func(t *testing.T) {
		b := newBench(t)
		c := startCluster(t, b, dir, func(*exec.Cmd) {})
		text, err := os.ReadFile(c.flags[1])
		if err != nil {
			t.Fatal(err)
		}
		put(t, b.dir, "remote.json", strings.Replace(string(text), `"arch":"`+runtime.GOARCH, `"arch":"`+otherArch(), 1))
		stdout, stderr, code := c.remotely(t, "run", node(b), "--tree", b.work, "--mode", "execute-sandbox")
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"code":"RUN_E005"`) {
			t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
		}
		t.Log(stderr)
	})
}

// remoteRestricted: a worker without user namespaces gives confined isolation, and says so. A
// profile that demands more is refused there, and nothing is started.
func remoteRestricted(t *testing.T, dir string) {
	b := newBench(t)
	c := startCluster(t, b, dir, func(cmd *exec.Cmd) {
		unshared(t, cmd.Args[3])
		restrict(cmd)
	})
	intent := c.intentOf(t, "echo >out/second")
	canary := filepath.Join(c.state, "canary")
	for _, profile := range []string{"strict", "default"} {
		stdout, stderr, code := c.remotely(t, "run", put(t, b.dir, "node.json", `{"goal":"Run","constraints":["now"],"actions":[{"kind":"write","path":"out/x.js","content":"require('fs').writeFileSync('`+canary+`','x')"},{"kind":"run","argv":["node","out/x.js"]}]}`), "--policy", profile, "--tree", b.work, "--mode", "execute-sandbox")
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"code":"RUN_E005"`) || !strings.Contains(stderr, "on the worker") || !strings.Contains(stderr, `"step":"`) {
			t.Errorf("%s: exit status %d\n%s%s", profile, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("the command was started")
	}
	at := filepath.Join(b.dir, "pack")
	stdout, stderr, code := c.remotely(t, "run", intent, "--policy", "dev", "--tree", b.work, "--mode", "execute-sandbox", "--pack", at)
	if code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	runner, err := os.ReadFile(filepath.Join(at, pack.RunnerFile))
	if err != nil || !bytes.Contains(runner, []byte(`"isolation_level":"standard"`)) || !bytes.Contains(runner, []byte("Landlock")) {
		t.Errorf("%v: %s", err, runner)
	}
	here, _, _ := b.run(t, "run", intent, "--policy", "dev", "--tree", b.work, "--mode", "execute-sandbox")
	if !bytes.Equal(subset(t, []byte(here)), subset(t, []byte(stdout))) {
		t.Errorf("%s\nand here %s", stdout, here)
	}
}

// remotePage runs the commands of docs/remote.md. Helper and shim lie beside the program.
func remotePage(t *testing.T, dir string) {
	needSandbox(t, "node", "sh", "wc")
	beside := filepath.Dir(command(t).Path)
	for name, as := range map[string]string{"fiador-remote-" + runtime.GOARCH: "fiador-remote", "fiador-shim-" + runtime.GOARCH: "fiador-shim-linux-" + runtime.GOARCH} {
		if err := os.Link(filepath.Join(dir, name), filepath.Join(beside, as)); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{bench: newBench(t), port: 18980, state: t.TempDir()}
	c.serve(t, func(*exec.Cmd) {})
	defer c.stop()
	src, err := os.ReadFile(root + "/docs/remote.md")
	if err != nil {
		t.Fatal(err)
	}
	p := runPage(t, string(src))
	for _, fault := range p.faults() {
		t.Errorf("docs/remote.md:%s", fault)
	}
	if len(p.steps) < 10 {
		t.Errorf("only %d commands found", len(p.steps))
	}
}

// kills kills the helper, the server or the worker's processes at moments that nobody chooses. The
// command ends in a result or a RunError, the folder is as before or as the command made it, and
// nothing is left running here.
func (c *cluster) kills(t *testing.T) {
	ends, killed := map[string]int{}, 0
	for n := range rehearsal.Count(10, 100) {
		work := c.origin(t, "tree-"+strconv.Itoa(n))
		before := shot(t, work)
		mark := fmt.Sprintf("0.4%05d", n+os.Getpid()%1000)
		cmd, stdout, stderr := c.command(t, append(append([]string{"exec", "--policy", "dev", "--work", work}, c.flags...), "--", "sh", "-c", "echo more >>log; sleep "+mark)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
		time.Sleep(rand.N(900 * time.Millisecond))
		what := []string{"helper", "server", "shim"}[n%3]
		switch what {
		case "helper":
			for _, pid := range runningWith(t, c.flags[3]) {
				if pid != strconv.Itoa(cmd.Process.Pid) {
					kill(t, pid)
				}
			}
		case "server":
			c.stop()
			c.serve(t, func(*exec.Cmd) {})
		case "shim":
			shims := c.shims(t)
			killed += len(shims)
			for _, pid := range append(shims, runningWith(t, mark)...) {
				if pid != strconv.Itoa(cmd.Process.Pid) {
					kill(t, pid)
				}
			}
		}
		code := status(t, cmd.Wait())
		if !hung.Stop() {
			t.Fatalf("%s: it does not end\n%s%s", what, stdout, stderr)
		}
		ends[what+" "+strconv.Itoa(code)]++
		gone(t, mark)
		if left := runningWith(t, c.flags[3]); len(left) > 0 {
			t.Errorf("%s: a helper is left: %q", what, left)
		}
		after := shot(t, work)
		switch {
		case code == 0:
			if text, err := os.ReadFile(filepath.Join(work, "log")); err != nil || string(text) != "0\nmore\n" {
				t.Errorf("%s: exit status 0, and log is %q, %v", what, text, err)
			}
		case after != before:
			t.Errorf("%s: exit status %d\n%s\nthe folder was\n%s\nand is\n%s", what, code, stderr, before, after)
		case code == 125 && !strings.Contains(stderr.String(), `"code":"RUN_E00`):
			t.Errorf("%s: exit status %d\n%s", what, code, stderr)
		}
	}
	t.Logf("%v, %d shims killed", ends, killed)
	if rehearsal.Full() && killed == 0 {
		t.Error("no shim was there when it should be killed")
	}
}

// shims returns the shims that run: the programs that the server has started. Other packages may
// run shims of their own meanwhile.
func (c *cluster) shims(t *testing.T) (pids []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range processes {
		text, _ := os.ReadFile(name) // a process may have ended
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(c.server.Process.Pid) { // proc(5): the parent
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// kill kills a process that may have ended.
func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(n, syscall.SIGKILL)
}

// TestRemoteFlags: wrong flags and wrong documents are errors that name the remedy, before anything
// is started.
func TestRemoteFlags(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	intent := put(t, b.dir, "intent.json", allowed)
	good := put(t, b.dir, "good.json", `{"execution":"grpc://127.0.0.1:1"}`)
	documents := 0
	execute := func(document string) []string {
		documents++
		document = strings.Replace(document, "{", `{"shim":{"amd64":"/bin/true","arm64":"/bin/true"},`, 1)
		file := put(t, b.dir, fmt.Sprintf("remote-%d.json", documents), strings.Replace(document, ",}", "}", 1))
		return []string{"run", intent, "--mode", "execute-sandbox", "--tree", b.work, "--remote", file}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"plan-only":             {[]string{"run", intent, "--remote", good}, "--remote belongs to an execution"},
		"helper alone":          {[]string{"run", intent, "--mode", "execute-sandbox", "--remote-helper", "x"}, "--remote-helper without --remote"},
		"no document":           {[]string{"run", intent, "--mode", "execute-sandbox", "--remote", filepath.Join(b.dir, "nowhere.json")}, "no such file"},
		"no helper":             {execute(`{"execution":"grpc://127.0.0.1:1"}`), "fiador-remote cannot be started"},
		"no server":             {execute(`{}`), "execution"},
		"no port":               {execute(`{"execution":"grpcs://a.example"}`), "is not an address with a host and a port"},
		"another protocol":      {execute(`{"execution":"https://a.example:1"}`), "does not fit"},
		"a user":                {execute(`{"execution":"grpcs://me@a.example:1"}`), "does not fit"},
		"half a key":            {execute(`{"execution":"grpcs://a.example:1","tls":{"cert":"c.pem"}}`), "cert and key belong together"},
		"a typing slip":         {execute(`{"execution":"grpcs://a.example:1","header":{}}`), "headers"},
		"a value":               {execute(`{"execution":"grpcs://a.example:1","headers":{"authorization":"Bearer x"}}`), "does not fit"},
		"no variable":           {append(execute(`{"execution":"grpc://127.0.0.1:1","headers":{"a":"NOT_SET"}}`), "--remote-helper", "/bin/false"), "variable NOT_SET"},
		"a helper that is none": {append(execute(`{"execution":"grpc://127.0.0.1:1"}`), "--remote-helper", "/bin/true"), "fiador-remote has ended"},
		"a suite of a service":  {[]string{"suite", "run", b.cases(t, "one"), "--new", "http://127.0.0.1:1", "--out", b.work, "--remote", good}, "--remote belongs to agents that are commands"},
	} {
		stdout, stderr, code := b.run(t, c.args...)
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, `"hint":"`) {
			t.Errorf("%s: exit status %d\n%s%s", name, code, stdout, stderr)
		}
	}
}
