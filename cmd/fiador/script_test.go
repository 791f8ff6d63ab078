// A key is made of the randomness that the caller gives.
//
//go:debug cryptocustomrand=1

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	seeded "math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestMain runs the tests as if no signal were ignored, even under nohup or in the
// background of a script. Otherwise the programs that they start would ignore it too. When
// the test binary stands in for fiador, TestMain leaves signals alone.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "fiador" {
		for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(s) {
				signal.Notify(make(chan os.Signal, 1), s)
			}
		}
	}
	testscript.Main(rehearsal.Tests{M: m}, map[string]func(){"fiador": fiador, "model-endpoint": modelEndpoint, "mcp-server": mcpServer})
}

// steady is the name of a folder beside the program. If it exists, the program's clock
// stands still. Its randomness then follows from its arguments and from the number of
// earlier calls with them.
const steady = "steady"

var steadyTime = time.Date(2026, 5, 6, 4, 5, 6, 789_000_000, time.UTC)

// fiador is the program of the tests.
func fiador() {
	exe, err := os.Executable()
	calls := filepath.Join(filepath.Dir(exe), steady)
	_, missing := os.Stat(calls)
	// The programs that conformance calls need a running clock.
	if err != nil || missing != nil || strings.Contains(os.Getenv("TMPDIR"), "/fiador-conformance-") {
		main()
	}
	runtime.GOMAXPROCS(1) // ids are drawn in one order
	work := os.Getenv("WORK")
	args := strings.Join(os.Args[1:], "\x00")
	mark := sha256.Sum256([]byte(work + "\x00" + os.Getenv("HOME") + "\x00" + args))
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(calls, fmt.Sprintf("%x.%d", mark, n)), os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		f.Close()
		if work != "" {
			args = strings.ReplaceAll(args, work, "")
		}
		seed := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", args, n))
		now := steadyTime.Add(time.Duration(n) * time.Second)
		process(func() time.Time { return now }, seeded.NewChaCha8(seed))
	}
}

// TestScripts runs testdata/script. Besides the commands of testscript there are "exits N
// COMMAND...", which demands the exact exit status, those of rehearsal.LedgerCommands, and the
// conditions [exists:PATH] and [unprivileged]. The tests of fiador-ledgerd run the scripts of
// testdata/script that make their ledgers with "ledger" too.
func TestScripts(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	p := scriptParams()
	if os.Getenv(witnessedVar) == "1" {
		t.Log("most scripts are left to the witness: " + witnessedVar + "=1")
		for _, name := range slices.Sorted(maps.Keys(timed)) {
			p.Files = append(p.Files, filepath.Join(p.Dir, name+".txtar"))
		}
		p.Dir = ""
	}
	testscript.Run(t, p)
}

// witnessedVar is the variable of the environment that says, with 1, that "make witness" runs
// in the same change. TestScripts then runs only the scripts that the witness leaves out.
const witnessedVar = "FIADOR_WITNESSED"

// timed are scripts that the witness leaves out, because hashes follow from the time: an agent
// writes it into a file, a ledger signs it, or another process ends earlier or later. Of
// work_foreign an ordinary user can run nothing.
var timed = map[string]bool{"work_ledger": true, "work_replay": true, "work_together": true, "work_foreign": true}

func scriptParams() testscript.Params {
	return testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           rehearsal.Holds,
		Cmds:                rehearsal.LedgerCommands(folders{(*testscript.TestScript).Exec}),
	}
}

// folders makes ledgers in folders.
type folders struct {
	exec func(ts *testscript.TestScript, command string, args ...string) error
}

func (f folders) Make(ts *testscript.TestScript, name, origin string) {
	ts.Check(f.exec(ts, "fiador", "ledger", "init", name, "--origin", origin, "--key", name+".key"))
	rehearsal.Named(ts, name, name, name+".key")
}

func (f folders) Copy(ts *testscript.TestScript, name, copied string) {
	ts.Check(f.exec(ts, "cp", "-R", name, copied))
	rehearsal.Named(ts, copied, copied, name+".key")
}

func (folders) Entries(ts *testscript.TestScript, name string, change func([][]byte) [][]byte) {
	file := filepath.Join(ts.MkAbs(name), "ledger.jsonl")
	b, err := os.ReadFile(file)
	ts.Check(err)
	lines := change(bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")))
	for i, line := range lines {
		lines[i] = append(bytes.TrimSuffix(line, []byte("\n")), '\n')
	}
	ts.Check(os.WriteFile(file, bytes.Join(lines, nil), 0o644))
}

func (folders) Checkpoint(ts *testscript.TestScript, name string, change func([]byte) []byte) {
	file := filepath.Join(ts.MkAbs(name), "checkpoint")
	b, err := os.ReadFile(file)
	ts.Check(err)
	ts.Check(os.WriteFile(file, change(b), 0o644))
}

func (folders) Evidence(ts *testscript.TestScript, name string) string {
	return filepath.Join(ts.MkAbs(name), "evidence")
}
