//go:build linux && (amd64 || arm64)

package harness_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// reasonCase is an intent with its expected exit code and reasons.
type reasonCase struct {
	name    string
	profile func(*kernel.Profile)
	members string
	code    int
	reasons []string
	cmd     []string // nil: not checked
	outputs []string // paths; nil: not checked
}

func reasonCases() []reasonCase {
	few := func(p *kernel.Profile) { p.MaxOutputFiles = 3 }
	small := func(p *kernel.Profile) { p.MaxTotalOutputBytes = 1 << 16 }
	anywhere := func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true} }
	one := func(p *kernel.Profile) { p.TimeoutMS = 1000 }
	return []reasonCase{
		{name: "accepted", members: intents.Actions(intents.Write("out/a", "1"), intents.Sh("cat out/a; echo 2 >out/b")), outputs: []string{"out/a", "out/b"}},
		{name: "accepted without a command", members: intents.Actions(intents.Write("out/a", "1")), cmd: []string{}, outputs: []string{"out/a"}},
		{name: "accepted without an action", members: `"context":{}`, cmd: []string{}, outputs: []string{}},
		{name: "EXIT", members: intents.Actions(intents.Sh("exit 7")), code: 7, reasons: []string{"EXIT 7"}, cmd: []string{"sh", "-c", "exit 7"}},
		{name: "EXIT 125 by itself", members: intents.Actions(intents.Sh("exit 125")), code: 125, reasons: []string{"EXIT 125"}},
		{name: "EXIT 255", members: intents.Actions(intents.Sh("exit 255")), code: 255, reasons: []string{"EXIT 255"}},
		{name: "TIMEOUT of the action", members: intents.Actions(`{"kind":"run","argv":["sleep","30"],"timeout_ms":200}`), code: 143, reasons: []string{"TIMEOUT"}},
		{name: "TIMEOUT though it ended well", members: intents.Actions(`{"kind":"run","argv":["sh","-c","trap 'exit 0' TERM; sleep 30 & wait"],"timeout_ms":200}`), code: 143, reasons: []string{"TIMEOUT"}},
		// One process: a shell that lives on for a moment would print the end of the other
		// process on its standard error.
		{name: "TIMEOUT of a command that ignores TERM", members: intents.Actions(`{"kind":"run","argv":["sh","-c","trap '' TERM; exec sleep 30"],"timeout_ms":200}`), code: 143, reasons: []string{"TIMEOUT"}},
		{name: "TIMEOUT of the profile, all actions together", profile: one, members: intents.Actions(intents.Argv("sleep", "0.2"), intents.Argv("sleep", "0.9")), code: 143, reasons: []string{"TIMEOUT"}, cmd: []string{"sleep", "0.9"}},
		{name: "TIMEOUT of the profile where the action asks for more", profile: one, members: intents.Actions(`{"kind":"run","argv":["sleep","30"],"timeout_ms":600000}`), code: 143, reasons: []string{"TIMEOUT"}},
		{name: "SIGNAL 9", members: intents.Actions(intents.Sh("kill -9 $$")), code: 137, reasons: []string{"SIGNAL 9"}},
		{name: "SIGNAL 11", members: intents.Actions(intents.Sh("kill -11 $$")), code: 139, reasons: []string{"SIGNAL 11"}},
		{name: "SIGNAL 15", members: intents.Actions(intents.Sh("kill -15 $$")), code: 143, reasons: []string{"SIGNAL 15"}},
		{name: "NOT_FOUND", members: intents.Actions(intents.Argv("fiador-no-such-command")), code: 127, reasons: []string{"NOT_FOUND"}, cmd: []string{"fiador-no-such-command"}},
		{name: "NOT_FOUND for a path", members: intents.Actions(intents.Argv("./out/none")), code: 127, reasons: []string{"NOT_FOUND"}},
		{name: "NOT_FOUND for a folder to work in", members: intents.Actions(`{"kind":"run","argv":["true"],"cwd":"out/none"}`), code: 127, reasons: []string{"NOT_FOUND"}},
		{name: "NOT_FOUND for an interpreter", members: intents.Actions(intents.Program("out/a", "#!/no/such/interpreter\n"), intents.Argv("./out/a")), code: 127, reasons: []string{"NOT_FOUND"}},
		{name: "NOT_EXECUTABLE", members: intents.Actions(intents.Write("out/a", "#!/bin/sh\n"), intents.Argv("./out/a")), code: 126, reasons: []string{"NOT_EXECUTABLE"}},
		{name: "NOT_EXECUTABLE for a folder", members: intents.Actions(intents.Argv("/usr")), code: 126, reasons: []string{"NOT_EXECUTABLE"}},
		{name: "NOT_EXECUTABLE for what is no program", members: intents.Actions(intents.Program("out/a", "\x01\x02"), intents.Argv("./out/a")), code: 126, reasons: []string{"NOT_EXECUTABLE"}},
		{name: "an executable script", members: intents.Actions(intents.Program("out/a", "#!/bin/sh\nexit 5\n"), intents.Argv("./out/a")), code: 5, reasons: []string{"EXIT 5"}},
		{name: "OUTPUT_MISSING", members: intents.Actions(intents.Sh("true")) + `,"outputs":["out/b","out/a"]`, code: 125, reasons: []string{"OUTPUT_MISSING out/a", "OUTPUT_MISSING out/b"}},
		{name: "a failure says nothing of missing outputs", members: intents.Actions(intents.Sh("exit 3")) + `,"outputs":["out/a"]`, code: 3, reasons: []string{"EXIT 3"}},
		{name: "OUTPUT_KIND of a declared folder", members: intents.Actions(intents.Sh("mkdir -p out/a")) + `,"outputs":["out/a"]`, code: 125, reasons: []string{"OUTPUT_KIND out/a"}},
		{name: "OUTPUT_KIND of a FIFO", members: intents.Actions(intents.Sh("mkdir out; mkfifo out/p")), code: 125, reasons: []string{"OUTPUT_KIND out/p"}},
		{name: "OUTPUT_KIND of a link", members: intents.Actions(intents.Sh("mkdir out; echo >out/a; ln -s a out/l")), code: 125, reasons: []string{"OUTPUT_KIND out/l"}},
		{name: "OUTPUT_KIND of a link that leads outside", members: intents.Actions(intents.Sh("mkdir out; ln -s /etc/passwd out/l")), code: 125, reasons: []string{"OUTPUT_KIND out/l"}},
		{name: "OUTPUT_KIND of a write onto a folder", members: intents.Actions(intents.Write("out/a/b", "1"), intents.Write("out/a", "2"), intents.Sh("exit 9")), code: 125, reasons: []string{"OUTPUT_KIND out/a"}, cmd: []string{}},
		{name: "OUTPUT_KIND of a write below a file", members: intents.Actions(intents.Write("out/a", "1"), intents.Write("out/a/b", "2")), code: 125, reasons: []string{"OUTPUT_KIND out/a/b"}, cmd: []string{}},
		{name: "OUTPUT_KIND of a write through a link", members: intents.Actions(intents.Sh("mkdir out; ln -s /etc/passwd out/l"), intents.Write("out/l", "x")), code: 125, reasons: []string{"OUTPUT_KIND out/l"}},
		{name: "OUTPUT_NAME", members: intents.Actions(intents.Sh(`mkdir out; : >"out/$(printf 'a\nb')"`)), code: 125, reasons: []string{`OUTPUT_NAME "out/a\nb"`}, outputs: []string{}},
		{name: "OUTPUT_NAME of twins", members: intents.Actions(intents.Sh("mkdir out; echo 1 >out/a; echo 2 >out/A")), code: 125, reasons: []string{"OUTPUT_NAME out/A", "OUTPUT_NAME out/a"}},
		{name: "OUTPUT_LIMIT of files", profile: few, members: intents.Actions(intents.Sh("mkdir out; for i in 1 2 3 4; do echo >out/$i; done")), code: 125, reasons: []string{"OUTPUT_LIMIT"}, outputs: []string{"out/1", "out/2", "out/3"}},
		{name: "as many files as allowed", profile: few, members: intents.Actions(intents.Sh("mkdir out; for i in 1 2 3; do echo >out/$i; done")), outputs: []string{"out/1", "out/2", "out/3"}},
		{name: "OUTPUT_LIMIT of bytes", profile: small, members: intents.Actions(intents.Sh("mkdir out; head -c 40000 /dev/zero >out/a; head -c 40000 /dev/zero >out/b")), code: 125, reasons: []string{"OUTPUT_LIMIT"}, outputs: []string{"out/a"}},
		{name: "as many bytes as allowed", profile: small, members: intents.Actions(intents.Sh("mkdir out; head -c 40000 /dev/zero >out/a; head -c 25536 /dev/zero >out/b")), outputs: []string{"out/a", "out/b"}},
		{name: "STREAM_LIMIT of standard output", members: intents.Actions(intents.Sh("head -c 1048577 /dev/zero"), intents.Sh("exit 9")), code: 125, reasons: []string{"STREAM_LIMIT /actions/0"}},
		{name: "as much standard output as is kept", members: intents.Actions(intents.Sh("head -c 1048576 /dev/zero"))},
		{name: "STREAM_LIMIT of standard error", members: intents.Actions(intents.Sh("true"), intents.Sh("head -c 262145 /dev/zero >&2")), code: 125, reasons: []string{"STREAM_LIMIT /actions/1"}},
		{name: "STREAM_LIMIT where the profile allows less", profile: small, members: intents.Actions(intents.Sh("head -c 65537 /dev/zero")), code: 125, reasons: []string{"STREAM_LIMIT /actions/0"}},
		{name: "STREAM_LIMIT of a failure", members: intents.Actions(intents.Sh("head -c 1048577 /dev/zero; exit 3")), code: 3, reasons: []string{"EXIT 3", "STREAM_LIMIT /actions/0"}},
		{name: "WRITE_OUTSIDE_ROOT", members: intents.Actions(intents.Sh("mkdir out src; echo >out/a; echo >src/b; echo >c")), code: 125,
			reasons: []string{"WRITE_OUTSIDE_ROOT c", "WRITE_OUTSIDE_ROOT src", "WRITE_OUTSIDE_ROOT src/b"}},
		{name: "WRITE_OUTSIDE_ROOT for what is anybody's settings", profile: anywhere, members: intents.Actions(intents.Sh("echo >a; mkdir .git; echo >.git/config")), code: 125,
			reasons: []string{"WRITE_OUTSIDE_ROOT .git", "WRITE_OUTSIDE_ROOT .git/config"}},
		{name: "several reasons", members: intents.Actions(intents.Sh("mkdir out; mkfifo out/p; echo >x")) + `,"outputs":["out/a"]`, code: 125,
			reasons: []string{"OUTPUT_KIND out/p", "OUTPUT_MISSING out/a", "WRITE_OUTSIDE_ROOT x"}},
	}
}

// TestReasons: every reason of the vocabulary occurs in a valid RunResult. The result is
// the same to the byte under every isolation.
func TestReasons(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	subsets := map[string][]byte{}
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range reasonCases() {
				t.Run(tc.name, func(t *testing.T) {
					var rep harness.Report
					rehearsal.Again(t, 3, func(int) string {
						rep = harnesstest.NewExecutor(t, h, tc.profile).Run(t, tc.members, harness.Folders{})
						if e := rep.Result.Execution; e != nil && tc.cmd != nil && !slices.Equal(e.Cmd, tc.cmd) && slices.Equal(rep.Result.Decision.Reasons, []string{"TIMEOUT"}) {
							return fmt.Sprintf("the time ran out in %q", e.Cmd)
						}
						return ""
					})
					checkReasonCase(t, tc, rep)
					got := canonicalSubset(t, rep.Bytes)
					if want := subsets[tc.name]; want != nil && !bytes.Equal(got, want) {
						t.Errorf("differs between isolations:\n got %s\nwant %s", got, want)
					}
					subsets[tc.name] = got
				})
			}
		})
	}
}

func checkReasonCase(t *testing.T, tc reasonCase, rep harness.Report) {
	t.Helper()
	e := rep.Result.Execution
	if e == nil || e.ExitCode != tc.code || !slices.Equal(rep.Result.Decision.Reasons, tc.reasons) {
		t.Fatalf("%s\nwant exit code %d, reasons %q", rep.Bytes, tc.code, tc.reasons)
	}
	if tc.cmd != nil && !slices.Equal(e.Cmd, tc.cmd) {
		t.Errorf("cmd %q, want %q", e.Cmd, tc.cmd)
	}
	if tc.outputs == nil {
		return
	}
	paths := []string{}
	for _, f := range e.Outputs {
		paths = append(paths, f.Path)
	}
	if !slices.Equal(paths, tc.outputs) {
		t.Errorf("outputs %q, want %q", paths, tc.outputs)
	}
}

func canonicalSubset(t *testing.T, raw []byte) []byte {
	t.Helper()
	doc, err := canon.Parse(raw, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Canonical(result.Subset(doc.Value().(map[string]any)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOutOfMemory: a command that the kernel ended for lack of memory has exit code 137
// and the reason OOM, where a cgroup can tell.
func TestOutOfMemory(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Full)
	x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) { p.MemoryMB = 64 })
	rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(intents.Actions(intents.Sh("head -c 63000000 /dev/zero >/tmp/a; exec head -c 63000000 /dev/zero >/dev/shm/b")), harness.Folders{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rep.Execution.Close() })
	total := slices.ContainsFunc(rep.Execution.Clauses, func(c evidence.Clause) bool {
		return c.Clause == evidence.ClauseMemory && c.Status == evidence.Enforced
	})
	if !total {
		t.Skip("no cgroup limits the memory of all processes together here")
	}
	harnesstest.CheckExecuted(t, x, rep)
	if e := rep.Result.Execution; e.ExitCode != 137 || !slices.Equal(rep.Result.Decision.Reasons, []string{"OOM"}) {
		t.Errorf("%s", rep.Bytes)
	}
}

// TestStreamHashes: the hashes are those of the command that counts, over the kept bytes.
func TestStreamHashes(t *testing.T) {
	kept := func(n int) canon.ContentHash { return canon.Sum(bytes.Repeat([]byte("ab\n"), n)[:n]) }
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			rep := x.Run(t, intents.Actions(intents.Sh("echo first; echo one >&2"), intents.Sh("printf second; printf two >&2"), intents.Write("out/a", "")), harness.Folders{})
			if e := rep.Result.Execution; e.StdoutSHA256 != canon.Sum([]byte("second")) || e.StderrSHA256 != canon.Sum([]byte("two")) {
				t.Errorf("not the last command's: %s", rep.Bytes)
			}
			rep = x.Run(t, intents.Actions(intents.Sh("printf first; exit 3"), intents.Sh("printf second")), harness.Folders{})
			if e := rep.Result.Execution; e.StdoutSHA256 != canon.Sum([]byte("first")) || e.Cmd[2] != "printf first; exit 3" {
				t.Errorf("not the failed command's: %s", rep.Bytes)
			}
			rep = x.Run(t, intents.Actions(intents.Sh("yes 'ab' | head -c 2000000; yes 'ab' | head -c 400000 >&2")), harness.Folders{})
			if e := rep.Result.Execution; e.StdoutSHA256 != kept(1<<20) || e.StderrSHA256 != kept(1<<18) || !e.OutputTruncated {
				t.Errorf("not the first bytes: %s", rep.Bytes)
			}
			rep = x.Run(t, intents.Actions(`{"kind":"run","argv":["cat"],"stdin":"in\u0000put"}`), harness.Folders{})
			if e := rep.Result.Execution; e.StdoutSHA256 != canon.Sum([]byte("in\x00put")) {
				t.Errorf("standard input did not arrive: %s", rep.Bytes)
			}
		})
	}
}

// TestActionsInOrder: an action sees the effects of the actions before it. After the first
// action that fails, no other is performed.
func TestActionsInOrder(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			append3 := func(n string) string { return intents.Sh("echo " + n + " >>out/log; cat out/log >out/" + n) }
			rep := x.Run(t, intents.Actions(intents.Write("out/log", ""), append3("1"), intents.Write("out/log", "again\n"), append3("2"), append3("3")), harness.Folders{})
			got := contents(t, rep, "out/log", "out/1", "out/2", "out/3")
			if want := []string{"again\n2\n3\n", "1\n", "again\n2\n", "again\n2\n3\n"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}

			rep = x.Run(t, intents.Actions(intents.Sh("mkdir out; echo >out/1"), intents.Sh("echo >out/2; exit 6"), intents.Write("out/3", ""), intents.Sh("echo >out/4")), harness.Folders{})
			var paths []string
			for _, f := range rep.Result.Execution.Outputs {
				paths = append(paths, f.Path)
			}
			if !slices.Equal(paths, []string{"out/1", "out/2"}) || rep.Result.Execution.ExitCode != 6 {
				t.Errorf("after the failure: %s", rep.Bytes)
			}
		})
	}
}

func contents(t *testing.T, rep harness.Report, paths ...string) []string {
	t.Helper()
	var list []string
	for _, p := range paths {
		f, err := rep.Execution.Content(p)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(f); err != nil {
			t.Error(err)
		}
		f.Close()
		list = append(list, b.String())
	}
	return list
}

// TestManyCommands: the init survives all actions of an intent, however many and however
// long they are.
func TestManyCommands(t *testing.T) {
	t.Parallel()
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			var list []string
			for i := range 40 {
				list = append(list, intents.Sh(fmt.Sprintf("mkdir -p out; echo %d >>out/log; sleep 0.02", i)), intents.Write("out/"+strconv.Itoa(i), ""))
			}
			rep := x.Run(t, intents.Actions(list...), harness.Folders{})
			if !rep.Result.Decision.Accepted || strings.Count(contents(t, rep, "out/log")[0], "\n") != 40 {
				t.Errorf("%s", rep.Bytes)
			}
		})
	}
}

// TestEnvironment: a command's environment is the fixed one with the additions of its
// action.
func TestEnvironment(t *testing.T) {
	t.Setenv("FIADOR_TEST_SECRET", "do not tell")
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			rep := x.Run(t, intents.Actions(`{"kind":"run","argv":["env"],"env":{"B":"2","A":"1=x"}}`), harness.Folders{})
			out := string(rep.Execution.Stdout.Bytes)
			for _, line := range []string{"A=1=x", "B=2", "TZ=UTC", "LC_ALL=C.UTF-8"} {
				if !strings.Contains("\n"+out, "\n"+line+"\n") {
					t.Errorf("no %s in\n%s", line, out)
				}
			}
			if strings.Contains(out, "FIADOR_TEST_SECRET") || strings.Contains(out, os.Getenv("HOME")+"\n") && os.Getenv("HOME") != "/" {
				t.Errorf("the caller's environment shows:\n%s", out)
			}
			if rep := x.Run(t, intents.Actions(intents.Sh("umask; hostname >/dev/null; head -c 1 | wc -c")), harness.Folders{}); string(rep.Execution.Stdout.Bytes) != "0022\n0\n" {
				t.Errorf("umask and standard input: %q", rep.Execution.Stdout.Bytes)
			}
		})
	}
}

// elsewhere are intents whose results have to be the same everywhere.
var elsewhere = []string{
	intents.Actions(intents.Write("out/a", "1"), intents.Sh("cat out/a src/in.txt >out/b; ls -A . out; id -u >/dev/null; sort -R </dev/null; date +%Z")) + `,"inputs":["src/in.txt"]`,
	intents.Actions(intents.Sh("echo old: $(cat old.txt); echo new >out/new; echo changed >out/old")) + `,"outputs":["out/old"]`,
	intents.Actions(intents.Sh("exit 4")),
	intents.Actions(intents.Sh("echo x >outside; mkdir out/d; rm out/old")),
	intents.Actions(intents.Sh("for n in z \\~ A é 10 9; do echo $n >out/$n; done")),
	intents.Actions(`{"kind":"run","argv":["sleep","9"],"timeout_ms":50}`),
	intents.Actions(intents.Argv("no-such-command")),
}

// inElsewhere makes a tree and a work folder for these intents.
func inElsewhere(t *testing.T, dir string) harness.Folders {
	t.Helper()
	for name, text := range map[string]string{"tree/src/in.txt": "input\n", "work/old.txt": "old\n", "work/out/old": "old\n", "work/out/keep": "kept\n"} {
		treetest.Put(t, filepath.Join(dir, name), text)
	}
	return harness.Folders{Tree: filepath.Join(dir, "tree"), Work: filepath.Join(dir, "work")}
}

const elsewhereName = "HARNESS_TEST_ELSEWHERE"

// TestElsewhereChild is started by TestSameEverywhere as another user.
func TestElsewhereChild(t *testing.T) {
	isolation := sandbox.Isolation(os.Getenv(elsewhereName))
	if isolation == "" {
		t.Skip("started by TestSameEverywhere")
	}
	for _, b := range subsetsElsewhere(t, isolation) {
		fmt.Printf("subset %s\n", b)
	}
}

func subsetsElsewhere(t *testing.T, isolation sandbox.Isolation) [][]byte {
	t.Helper()
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
	dir, err := os.MkdirTemp("", "elsewhere-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for _, members := range elsewhere {
		list = append(list, canonicalSubset(t, x.Run(t, members, inElsewhere(t, dir)).Bytes))
	}
	return list
}

// TestSameEverywhere: an intent that is executed again, in another work folder, under
// another isolation and as another user, gives the same canonical subset to the byte.
func TestSameEverywhere(t *testing.T) {
	want := subsetsElsewhere(t, sandbox.Confined)
	same := func(t *testing.T, got [][]byte) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%d results, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("intent %d:\n got %s\nwant %s", i, got[i], want[i])
			}
		}
	}
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) { same(t, subsetsElsewhere(t, isolation)) })
		t.Run(string(isolation)+" as another user", func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("only root can become another user")
			}
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestElsewhereChild$", "-test.v")
			cmd.Dir, cmd.Stderr = "/", os.Stderr
			cmd.Env = rehearsal.Env(elsewhereName+"="+string(isolation), "PATH=/usr/bin:/bin", "HOME=/nonexistent", "TMPDIR="+rehearsal.SharedTemp(t), "LC_ALL=tr_TR.UTF-8", "TZ=Pacific/Chatham")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got [][]byte
			for line := range bytes.Lines(out) {
				if b, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("subset ")); ok {
					got = append(got, b)
				}
			}
			if bytes.Contains(out, []byte("--- SKIP")) {
				t.Skipf("%s", out)
			}
			same(t, got)
		})
	}
}

// node returns an executor under the built-in default profile and its policy. It skips the
// test where node does not run.
func node(t *testing.T) harnesstest.Executor {
	t.Helper()
	h := harnesstest.NewTier(t, sandbox.Full)
	d := harnesstest.Deps(t)
	d.Runner = h
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "default"}, d.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	x := harnesstest.Executor{Deps: d, Gate: gate, Tree: t.TempDir()}
	rep, err := harness.Run(t.Context(), d, gate, x.Request(intents.Actions(intents.Write("out/v.js", "process.exit(0)"), intents.Argv("node", "out/v.js")), harness.Folders{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rep.Execution.Close()
	if !rep.Result.Decision.Accepted {
		t.Skipf("node cannot be run in the sandbox here: %q", rep.Result.Decision.Reasons)
	}
	return x
}

// TestProgramThatIsWrittenAndRun: an intent that writes a program and runs it is
// accepted under the default profile, with its outputs and their hashes.
func TestProgramThatIsWrittenAndRun(t *testing.T) {
	x := node(t)
	const js = `const fs = require("fs"); fs.writeFileSync("out/sum.txt", String(19 + 23) + "\n"); console.log("done")`
	rep := x.Run(t, intents.Actions(intents.Write("out/sum.js", js), intents.Argv("node", "out/sum.js"))+`,"outputs":["out/sum.txt"]`, harness.Folders{})
	e := rep.Result.Execution
	want := []kernel.FileRef{
		{Path: "out/sum.js", SHA256: canon.Sum([]byte(js)), SizeBytes: len(js)},
		{Path: "out/sum.txt", SHA256: canon.Sum([]byte("42\n")), SizeBytes: 3},
	}
	if !rep.Result.Decision.Accepted || !slices.Equal(e.Outputs, want) || e.StdoutSHA256 != canon.Sum([]byte("done\n")) {
		t.Errorf("%s", rep.Bytes)
	}
}

// TestProgramThatMisbehaves: the same intent gets a step that reads a secret of the host,
// opens a socket to the outside or fills the disk. It is stopped, the result says so, and
// nothing outside has changed.
func TestProgramThatMisbehaves(t *testing.T) {
	x := node(t)
	dir := t.TempDir()
	treetest.Put(t, filepath.Join(dir, "secret"), "the secret of the house\n")
	server := rehearsal.Serve(t)
	socket := func(host string, port int) string {
		return fmt.Sprintf(`const s = require("net").connect(%d, %q, () => { console.log("connected"); process.exit(0) });
s.on("error", e => { console.error(e.code); process.exit(11) }); setTimeout(() => process.exit(12), 30000)`, port, host)
	}
	for _, tc := range []struct {
		name, js string
		reasons  []string
		stderr   string
	}{
		{"reads the password hashes", `console.log(require("fs").readFileSync("/etc/shadow", "utf8"))`, []string{"EXIT 1"}, "E(NOENT|ACCES)"},
		{"reads a file of the host", fmt.Sprintf(`console.log(require("fs").readFileSync(%q, "utf8"))`, filepath.Join(dir, "secret")), []string{"EXIT 1"}, "ENOENT"},
		{"reads the memory of others", `console.log(require("fs").readFileSync("/proc/1/environ", "utf8"))`, []string{"EXIT 1"}, "E(NOENT|ACCES|PERM)"},
		{"calls the host", socket("127.0.0.1", server.Port), []string{"EXIT 11"}, "ECONNREFUSED"},
		{"calls the world", socket("198.51.100.1", 80), []string{"EXIT 11"}, "E(NETUNREACH|PERM|ACCES)"},
		{"asks for a name", `require("dns").lookup("example.com", e => { console.error(e && e.code); process.exit(e ? 11 : 0) })`, []string{"EXIT 11"}, "E(AI_AGAIN|NOTFOUND)|EAI"},
		{"fills the disk", `const fs = require("fs"); const b = Buffer.alloc(1 << 20); const f = fs.openSync("out/big", "w"); for (;;) fs.writeSync(f, b)`, []string{"EXIT 1", "OUTPUT_LIMIT"}, "ENOSPC|EFBIG"},
		{"fills the disk and says nothing", `const fs = require("fs"); const b = Buffer.alloc(1 << 20); for (let i = 0; i < 60; i++) fs.writeFileSync("out/" + i, b)`, []string{"OUTPUT_LIMIT"}, ""},
		{"writes outside", `require("fs").writeFileSync("package.json", "{}")`, []string{"WRITE_OUTSIDE_ROOT package.json"}, ""},
		{"writes into the system", `require("fs").writeFileSync("/usr/bin/node", "")`, []string{"EXIT 1"}, "E(ROFS|ACCES|PERM)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "work")
			treetest.Put(t, filepath.Join(work, "out", "old"), "old\n")
			before := fingerprint(t, work, dir)
			rep := x.Run(t, intents.Actions(intents.Write("out/sum.js", tc.js), intents.Argv("node", "out/sum.js")), harness.Folders{Work: work})
			if rep.Result.Decision.Accepted || !slices.Equal(rep.Result.Decision.Reasons, tc.reasons) {
				t.Errorf("%s\nwant reasons %q\n%s", rep.Bytes, tc.reasons, rep.Execution.Stderr.Bytes)
			}
			if ok, _ := regexp.Match(tc.stderr, rep.Execution.Stderr.Bytes); !ok {
				t.Errorf("standard error %q, want %q", rep.Execution.Stderr.Bytes, tc.stderr)
			}
			if out := rep.Execution.Stdout.Bytes; len(out) > 0 {
				t.Errorf("standard output %q", out)
			}
			if after := fingerprint(t, work, dir); after != before {
				t.Errorf("something outside has changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
	if n := server.Calls.Load(); n > 0 {
		t.Errorf("%d connections reached the host", n)
	}
}

// fingerprint describes the content of folders: names, modes, times and contents.
func fingerprint(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprint(&b, p, " ", info.Mode(), " ", info.ModTime().UnixNano())
			if info.Mode().IsRegular() {
				text, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %x", sha256.Sum256(text))
			}
			b.WriteByte('\n')
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestWorkFolder: commands work on top of the work folder, and never change it. Promote
// applies the written files there, unless somebody else changed them meanwhile.
func TestWorkFolder(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			work, state := t.TempDir(), t.TempDir()
			treetest.Put(t, filepath.Join(work, "src", "a"), "source\n")
			treetest.Put(t, filepath.Join(work, "out", "old"), "old\n")
			treetest.Put(t, filepath.Join(work, "out", "gone"), "gone\n")
			before := fingerprint(t, work)
			members := intents.Actions(intents.Sh("cat src/a >>out/old; rm out/gone; mkdir out/d; echo new >out/d/new; touch src/a"))
			rep := x.Run(t, members, harness.Folders{Work: work})
			if !rep.Result.Decision.Accepted {
				t.Fatalf("%s", rep.Bytes)
			}
			if after := fingerprint(t, work); after != before {
				t.Errorf("the work folder has changed:\n%s\nwas\n%s", after, before)
			}
			if err := rep.Execution.Promote(t.Context(), state, work, nil); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"out/old": "old\nsource\n", "out/d/new": "new\n", "src/a": "source\n"} {
				if b, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(b) != want {
					t.Errorf("%s is %q (%v)", name, b, err)
				}
			}
			if _, err := os.Lstat(filepath.Join(work, "out/gone")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was removed is there: %v", err)
			}

			rep = x.Run(t, intents.Actions(intents.Sh("echo mine >out/old; echo new >out/new")), harness.Folders{Work: work})
			treetest.Put(t, filepath.Join(work, "out", "old"), "somebody else's\n")
			err := rep.Execution.Promote(t.Context(), state, work, nil)
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeEvidence || !strings.Contains(re.Message, "out/old") {
				t.Errorf("conflict: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(work, "out/new")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("half of it was applied: %v", err)
			}
			if list, err := os.ReadDir(state); err != nil || len(list) > 0 {
				t.Errorf("journals left: %v (%v)", list, err)
			}
		})
	}
}

// TestInputs: inputs are staged with their hashes and are read-only. A path that cannot be
// an input is RUN_E001 before anything runs.
func TestInputs(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	treetest.Put(t, filepath.Join(tree, "src/a"), "a\n")
	treetest.Put(t, filepath.Join(tree, "src/sub/b"), "b\n")
	treetest.Put(t, filepath.Join(tree, "locked"), "x")
	treetest.Put(t, filepath.Join(tree, "big"), "")
	for i := range 1001 {
		treetest.Put(t, filepath.Join(tree, "many", strconv.Itoa(i)), "x")
	}
	for _, err := range []error{
		os.Symlink("a", filepath.Join(tree, "src/link")), os.Symlink("src", filepath.Join(tree, "way")), os.Symlink("/etc", filepath.Join(tree, "etc")),
		syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o600), os.Truncate(filepath.Join(tree, "big"), 64<<20+1), os.Chmod(filepath.Join(tree, "locked"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := fingerprint(t, filepath.Join(tree, "src"))
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true} })
			rep := x.Run(t, intents.Actions(intents.Sh("cat src/a src/sub/b"))+`,"inputs":["src/sub","src/a","src/a"]`, harness.Folders{Tree: tree})
			want := []kernel.FileRef{
				{Path: "src/a", SHA256: canon.Sum([]byte("a\n")), SizeBytes: 2},
				{Path: "src/sub/b", SHA256: canon.Sum([]byte("b\n")), SizeBytes: 2},
			}
			if e := rep.Result.Execution; !rep.Result.Decision.Accepted || !slices.Equal(e.Inputs, want) || len(e.Outputs) > 0 || string(rep.Execution.Stdout.Bytes) != "a\nb\n" {
				t.Errorf("%s", rep.Bytes)
			}
			for script, reasons := range map[string][]string{
				"rm -f src/a":                                {"WRITE_OUTSIDE_ROOT src/a"},
				"rm -f src/a; echo other >src/a":             {"WRITE_OUTSIDE_ROOT src/a"},
				"rm -rf src; mkdir src; echo >src/c":         {"WRITE_OUTSIDE_ROOT src/a"},
				"rm -rf src":                                 {"WRITE_OUTSIDE_ROOT src/a"},
				"mv src gone":                                {"WRITE_OUTSIDE_ROOT src/a"},
				"rm -rf src; ln -s out src":                  {"OUTPUT_KIND src", "WRITE_OUTSIDE_ROOT src/a"},
				"cat src/a; echo >src/beside; mkdir src/sub": nil,
			} {
				rep := x.Run(t, intents.Actions(intents.Sh(script))+`,"inputs":["src/a"]`, harness.Folders{Tree: tree})
				if !slices.Equal(rep.Result.Decision.Reasons, reasons) {
					t.Errorf("%s: reasons %q, want %q", script, rep.Result.Decision.Reasons, reasons)
				}
			}
			for _, tc := range []struct{ inputs, pointer, msg string }{
				{`["missing"]`, "/inputs/0", "no such file"},
				{`["src/a","src/link"]`, "/inputs/1", "symbolic link"},
				{`["src"]`, "/inputs/0", "symbolic link"},
				{`["way/a"]`, "/inputs/0", "symbolic link"},
				{`["etc/passwd"]`, "/inputs/0", "symbolic link"},
				{`["fifo"]`, "/inputs/0", "neither a file nor a folder"},
				{`["many"]`, "/inputs/0", "more files"},
				{`["big"]`, "/inputs/0", "more bytes"},
				{`["src/a/b"]`, "/inputs/0", ""},
			} {
				re := x.Fails(t, intents.Actions(intents.Sh("true"))+`,"inputs":`+tc.inputs, harness.Folders{Tree: tree})
				if re.Code != result.CodeUnreadable || re.Details["pointer"] != tc.pointer || !strings.Contains(re.Message, tc.msg) {
					t.Errorf("%s: %s", tc.inputs, re.Line())
				}
			}
			if os.Geteuid() != 0 {
				if re := x.Fails(t, intents.Actions(intents.Sh("true"))+`,"inputs":["locked"]`, harness.Folders{Tree: tree}); re.Code != result.CodeUnreadable {
					t.Errorf("%s", re.Line())
				}
			}
		})
	}
	if after := fingerprint(t, filepath.Join(tree, "src")); after != before {
		t.Errorf("the tree has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestNoInputsNoCopies: an execution without inputs needs no folder for copies.
func TestNoInputsNoCopies(t *testing.T) {
	harnesstest.NewTier(t, sandbox.Full)
	h := harnesstest.Tier{Host: sandbox.NewHost(filepath.Join(t.TempDir(), "none")), Isolation: sandbox.Full}
	defer h.Close()
	x := harnesstest.NewExecutor(t, h, nil)
	if rep := x.Run(t, intents.Actions(intents.Write("out/a", "1"), intents.Sh("cat out/a")), harness.Folders{}); !rep.Result.Decision.Accepted {
		t.Errorf("%s", rep.Bytes)
	}
}

// TestInputOverWorkFolder: an input hides the entry of the work folder at its path.
func TestInputOverWorkFolder(t *testing.T) {
	tree, work := t.TempDir(), t.TempDir()
	treetest.Put(t, filepath.Join(tree, "src/a"), "of the tree\n")
	treetest.Put(t, filepath.Join(work, "src/a"), "of the work folder\n")
	treetest.Put(t, filepath.Join(work, "src/b"), "beside\n")
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			rep := x.Run(t, intents.Actions(intents.Sh("cat src/a src/b"))+`,"inputs":["src/a"]`, harness.Folders{Tree: tree, Work: work})
			if got := string(rep.Execution.Stdout.Bytes); got != "of the tree\nbeside\n" || !rep.Result.Decision.Accepted {
				t.Errorf("%q, %s", got, rep.Bytes)
			}
		})
	}
}

// untouched is a runner that must not be called.
type untouched struct{ t *testing.T }

func (u untouched) Start(context.Context, sandbox.Request) (*sandbox.Sandbox, error) {
	u.t.Error("a sandbox was started")
	return nil, errors.New("untouched")
}

func (u untouched) StageInputs(string, []string, int, int64) (sandbox.Inputs, error) {
	u.t.Error("inputs were read")
	return sandbox.Inputs{}, errors.New("untouched")
}

// TestNothingIsDone: an intent that cannot be executed, or is not allowed, is found before
// anything is read or started.
func TestNothingIsDone(t *testing.T) {
	for _, tc := range []struct {
		name, members string
		change        func(*kernel.Profile)
		code          result.Code
		rule          string
		pointer       any
	}{
		{name: "a call", members: intents.Actions(intents.Write("out/a", "1"), `{"kind":"call","tool_id":"t","adapter_id":"a","params":{}}`) + `,"inputs":["a"]`,
			code: result.CodeSandbox, pointer: "/actions/1"},
		{name: "a variable", members: intents.Actions(`{"kind":"run","argv":["env"],"env":{"A":"1"}}`), change: func(p *kernel.Profile) { p.EnvAllow = kernel.AllowList{} },
			code: result.CodeSandbox, rule: "IV-04", pointer: "/actions/0/env/A"},
		{name: "a guarded variable", members: intents.Actions(intents.Sh("true"), `{"kind":"run","argv":["env"],"env":{"LD_PRELOAD":"x"}}`),
			code: result.CodeSandbox, rule: "IV-04", pointer: "/actions/1/env/LD_PRELOAD"},
		{name: "a mode that the profile does not have", members: intents.Actions(intents.Sh("true")), change: func(p *kernel.Profile) { p.ExecutionModes = []string{harness.ModePlanOnly} },
			code: result.CodeProfile},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := harnesstest.NewExecutor(t, untouched{t}, tc.change)
			re := x.Fails(t, tc.members, harness.Folders{Tree: t.TempDir()})
			if re.Code != tc.code || re.RuleID != tc.rule || re.Details["pointer"] != tc.pointer {
				t.Errorf("%s", re.Line())
			}
		})
	}
	t.Run("what is refused or unclear", func(t *testing.T) {
		x := harnesstest.NewExecutor(t, untouched{t}, nil)
		for _, v := range []kernel.Verdict{{}, {Permits: []string{"run:/actions/0"}, Clarify: []kernel.Result{{ID: "Q", Path: "/goal", Text: "Why?"}}}} {
			x.Gate.Judge = harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) { return v, nil })
			rep := x.Run(t, intents.Actions(intents.Sh("true")), harness.Folders{})
			if rep.Execution != nil || rep.Result.Execution != nil || rep.Result.Decision.Accepted {
				t.Errorf("%s", rep.Bytes)
			}
		}
	})
	t.Run("without a sandbox", func(t *testing.T) {
		x := harnesstest.NewExecutor(t, nil, nil)
		x.Deps.Runner = nil
		if re := x.Fails(t, intents.Actions(intents.Sh("true")), harness.Folders{}); re.Code != result.CodeSandbox || re.Hint == "" {
			t.Errorf("%s", re.Line())
		}
	})
}

// TestWeakMachine: without the isolation that the profile demands, nothing runs. The error
// names the step and a remedy.
func TestWeakMachine(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Confined)
	x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) { p.Isolation = kernel.IsolationFull })
	re := x.Fails(t, intents.Actions(intents.Write("out/a", "1"), intents.Sh("true")), harness.Folders{})
	if re.Code != result.CodeSandbox || re.Hint == "" || re.Details["isolation"] == "" || re.Details["step"] == "" {
		t.Errorf("%s %q", re.Line(), re.Hint)
	}
}

// TestFolderThatIsNotThere: a missing work folder, or a missing path to read, is an error
// and never a weaker sandbox.
func TestFolderThatIsNotThere(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			gone := filepath.Join(t.TempDir(), "gone")
			for _, f := range []harness.Folders{{Work: gone}, {Read: []string{gone}}} {
				if re := x.Fails(t, intents.Actions(intents.Sh("true")), f); re.Code != result.CodeSandbox {
					t.Errorf("%s", re.Line())
				}
			}
		})
	}
}

// TestInterrupted: a cancelled context ends in RUN_E005, soon, and nothing is left. It does
// not run beside other tests, because NewTier looks for processes only when it is alone.
func TestInterrupted(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for name, script := range map[string]string{
				"a command":                      "sleep 600",
				"with children":                  "sleep 600 & sleep 600 & setsid sleep 600 & wait",
				"that floods its output":         "yes",
				"that handles the signal itself": "trap 'exit 0' TERM; sleep 600 & wait",
				"that ignores the signal":        "trap '' TERM INT; sleep 600; sleep 600",
			} {
				t.Run(name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, nil)
					ctx, cancel := context.WithCancel(t.Context())
					x.Deps.Progress = func(action, of int) {
						if action == 1 {
							time.AfterFunc(150*time.Millisecond, cancel)
						}
					}
					tree := t.TempDir()
					treetest.Put(t, filepath.Join(tree, "in"), "x")
					begun := time.Now()
					rep, err := harness.Run(ctx, x.Deps, x.Gate, x.Request(intents.Actions(intents.Write("out/a", "1"), intents.Sh(script), intents.Sh("echo >out/never"))+`,"inputs":["in"]`, harness.Folders{Tree: tree}))
					var re *result.RunError
					if !errors.As(err, &re) || re.Code != result.CodeSandbox || !strings.HasPrefix(re.Message, "interrupted") || rep.Bytes != nil {
						t.Errorf("%v, %s", err, rep.Bytes)
					}
					if took := time.Since(begun); took > time.Minute {
						t.Errorf("it took %v", took)
					}
				})
			}
			t.Run("before it begins", func(t *testing.T) {
				x := harnesstest.NewExecutor(t, h, nil)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := harness.Run(ctx, x.Deps, x.Gate, x.Request(intents.Actions(intents.Sh("true")), harness.Folders{})); err == nil {
					t.Error("it went on")
				}
			})
		})
	}
}

// TestProgress: every action is announced before it is performed. After a failure no
// action is announced.
func TestProgress(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Confined), nil)
	var told []string
	x.Deps.Progress = func(action, of int) { told = append(told, fmt.Sprintf("%d/%d", action, of)) }
	x.Run(t, intents.Actions(intents.Write("out/a", ""), intents.Sh("true"), intents.Sh("false"), intents.Sh("true")), harness.Folders{})
	if want := []string{"0/4", "1/4", "2/4"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestOutputsThatWereThere: a declared output that nothing changed is an output as well.
// So is a file that an action wrote with its old content.
func TestOutputsThatWereThere(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			work := t.TempDir()
			treetest.Put(t, filepath.Join(work, "out/a"), "1")
			treetest.Put(t, filepath.Join(work, "out/b"), "2")
			treetest.Put(t, filepath.Join(work, "out/c"), "3")
			rep := x.Run(t, intents.Actions(intents.Write("out/b", "2"), intents.Sh("true"))+`,"outputs":["out/a"]`, harness.Folders{Work: work})
			want := []kernel.FileRef{{Path: "out/a", SHA256: canon.Sum([]byte("1")), SizeBytes: 1}, {Path: "out/b", SHA256: canon.Sum([]byte("2")), SizeBytes: 1}}
			if e := rep.Result.Execution; !rep.Result.Decision.Accepted || !slices.Equal(e.Outputs, want) {
				t.Errorf("%s", rep.Bytes)
			}
		})
	}
}

// TestTwoAtOnce: two executions on one work folder do not see each other.
func TestTwoAtOnce(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			work := t.TempDir()
			treetest.Put(t, filepath.Join(work, "out/shared"), "")
			type answer struct {
				out string
				err error
			}
			answers := make(chan answer, 2)
			for i := range 2 {
				x := harnesstest.NewExecutor(t, h, nil)
				go func() {
					rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(intents.Actions(intents.Sh(fmt.Sprintf("echo %d >>out/shared; sleep 0.3; cat out/shared", i))), harness.Folders{Work: work}))
					if err != nil {
						answers <- answer{err: err}
						return
					}
					answers <- answer{string(rep.Execution.Stdout.Bytes), rep.Execution.Close()}
				}()
			}
			var outs []string
			for range 2 {
				a := <-answers
				if a.err != nil {
					t.Error(a.err)
				}
				outs = append(outs, a.out)
			}
			if slices.Sort(outs); !slices.Equal(outs, []string{"0\n", "1\n"}) {
				t.Errorf("%q", outs)
			}
		})
	}
}
