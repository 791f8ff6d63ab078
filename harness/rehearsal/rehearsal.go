// Package rehearsal owns how the tests are run: in their short or in their full form, with
// or without the race detector, at a terminal, and beside a server. Tests alone import it.
package rehearsal

import (
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// Tests are the tests of a package that takes long, for its TestMain.
type Tests struct{ *testing.M }

// Run runs the tests and returns the exit status. Four tests that call Parallel run at a
// time on every machine, because most of them wait; the flag -parallel says otherwise.
// Garbage is collected less often than by default, in this process alone: on two cores the
// collector takes a fifth of the time of such a package. Above 512 MiB it collects more
// often again: an engine of policies ends a process that has more than 768 MiB.
func (t Tests) Run() int {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	return t.M.Run()
}

// FullVar is the variable of the environment that asks for the full form of the tests: 1 asks
// all tests. 0/16 to 15/16 ask a sixteenth of the files with tests each. A test and its helpers,
// which are mostly in one file, have the same form.
const FullVar = "FIADOR_FULL"

// Full says whether the test that calls it runs in its full form. The short form leaves out
// repetition and no kind of case: fewer rounds of a storm, every n-th failing system call, fewer
// bytes of a flood. Under the race detector the form is always the short one.
func Full() bool {
	share, parts, divided := strings.Cut(os.Getenv(FullVar), "/")
	if Raced || !divided {
		return !Raced && share == "1"
	}
	n, err := strconv.ParseUint(share, 10, 32)
	of, bad := strconv.ParseUint(parts, 10, 32)
	return err == nil && bad == nil && of > 0 && uint64(crc32.ChecksumIEEE([]byte(caller())))%of == n
}

// caller returns the name of the file that called into this package, which has tests or helps
// tests.
func caller() string {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if name := filepath.Base(f.File); name != "rehearsal.go" || !more {
			return name
		}
	}
}

// Form returns the setting of the environment for a process with a small environment of
// its own. The process then runs its tests in the same form.
func Form() string { return FullVar + "=" + os.Getenv(FullVar) }

// Count returns the number of repetitions in the form that runs.
func Count(short, full int) int {
	if Full() {
		return full
	}
	return short
}

// Stride returns 1 in the full form, so that a test takes each step. In the short form it
// returns short.
func Stride(short int) int { return Count(short, 1) }

// NotUnderRace skips a test under the race detector, and says why.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if Raced {
		t.Skip("not under the race detector: " + why)
	}
}

// Reasons of tests that do not run under the race detector.
const (
	// Policies is the reason of tests that evaluate hundreds of policies, one after the
	// other.
	Policies = "hundreds of policies, one by one, take ten times as long and share nothing new"
	// Processes is the reason of tests of kills, faults and whole programs.
	Processes = "what happens, happens in other processes, which other tests start under it"
	// Memory is the reason of tests of limits, and of measures of memory.
	Memory = "the detector needs more memory than the test allows"
	// Inputs is the reason of tests of many or large inputs that one goroutine reads.
	Inputs = "one goroutine reads many inputs, ten times slower, and shares nothing"
)

// Env returns an environment for a program of the tests. A program built with the race
// detector waits for a second at its end, unless its environment says otherwise.
func Env(list ...string) []string {
	if Raced {
		list = append(list, "GORACE=atexit_sleep_ms=0")
	}
	return list
}

// GitEnv returns an environment for programs that call git: git knows who commits, and reads
// no configuration of this machine.
func GitEnv(home string, more ...string) []string {
	return Env(append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}, more...)...)
}

// SharedTemp returns a folder for the temporary files of another user's test, which is
// removed at the end of the test t. The machine's own may be root's alone.
func SharedTemp(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fiador-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}
