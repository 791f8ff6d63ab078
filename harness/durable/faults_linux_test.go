package durable_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/rehearsal"
)

// The test binary is also the program that gets the fault. With these variables it puts
// the file "f" in a folder.
const folderVar, wayVar = "DURABLE_FOLDER", "DURABLE_WAY"

func TestMain(m *testing.M) {
	dir := os.Getenv(folderVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // strace counts the calls of a thread
	if err := put(dir, os.Getenv(wayVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func put(dir, way string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if way == "add" {
		return durable.Write(root, "f", []byte("new"), 0o600)
	}
	f, err := durable.Create(root, "f", 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("new"); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Replace()
}

// order is the order of the calls that change something, as in the comment of package
// durable.
var order = map[string]string{
	"add":     "openat write fsync linkat unlinkat fsync",
	"replace": "openat write fsync renameat fsync",
}

// traced puts a file in a new folder under strace, with the rules. It returns the folder,
// the trace, and the program's error.
func traced(t *testing.T, way string, rules ...string) (dir string, trace []string, err error) {
	t.Helper()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed, so no system call can be made to fail")
	}
	if dir, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if way == "replace" {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", slices.Concat([]string{"-f", "-y", "-qq", "-e", "signal=none", "-o", to}, rules, []string{os.Args[0]})...)
	cmd.Env = append(os.Environ(), folderVar+"="+dir, wayVar+"="+way)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "Operation not permitted") {
		t.Skipf("strace cannot trace here: %s", out)
	}
	return dir, rehearsal.Trace(t, to), err
}

var callLine = regexp.MustCompile(`^\d+ +(\w+)\(`)

// TestOrder: the system calls are those of the package's comment, in the same order.
func TestOrder(t *testing.T) {
	for way, want := range order {
		dir, trace, err := traced(t, way, "-e", "trace=openat,write,fsync,linkat,unlinkat,/renameat")
		var calls []string
		for _, line := range trace {
			m := callLine.FindStringSubmatch(line)
			if m != nil && strings.Contains(line, dir) && (m[1] != "openat" || strings.Contains(line, "O_CREAT")) {
				calls = append(calls, strings.TrimSuffix(m[1], "2"))
			}
		}
		if got := strings.Join(calls, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", way, got, err, want)
		}
		stands(t, dir, "f", "new")
	}
}

// everywhere puts a fault in every call of each way in turn. It passes on the line of the
// trace with the fault, and the folder. strace counts the calls of each thread, so another
// thread of the Go runtime can meet the fault first. Then some call in the folder meets none,
// and everything is done again.
func everywhere(t *testing.T, fault string, check func(t *testing.T, way, at, dir string)) {
	for way, all := range order {
		rehearsal.Again(t, 5, func(int) string {
			met := 0
			for _, call := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(all)))) {
				for when := 1; ; when++ {
					dir, trace, _ := traced(t, way, "-e", "trace=/"+call, "-e", "inject=/"+call+":"+fault+":when="+strconv.Itoa(when))
					faults := slices.DeleteFunc(trace, func(line string) bool { return !faulty.MatchString(line) })
					if len(faults) == 0 {
						break
					}
					// A kill ends calls of other threads too.
					if i := slices.IndexFunc(faults, func(line string) bool { return strings.Contains(line, dir) }); i >= 0 {
						met++
						check(t, way, faults[i], dir)
					}
				}
			}
			if want := len(strings.Fields(all)); met < want {
				return fmt.Sprintf("%s: %d faults in the folder, want %d or more", way, met, want)
			}
			return ""
		})
	}
}

// faulty is the line of a call with an error of strace, or of one that a kill ended. Its
// result is "?", or "? <unavailable>" if the thread was gone before strace looked at it.
var faulty = regexp.MustCompile(`\(INJECTED\)| = \?`)

// TestKilled: a kill at any call leaves the old state of the place or the new file, and
// besides at most the temporary name.
func TestKilled(t *testing.T) {
	everywhere(t, "signal=KILL", func(t *testing.T, way, at, dir string) {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Name() != "f" && !strings.HasPrefix(d.Name(), ".fiador-") {
				t.Errorf("killed at %s: %s is left", at, d.Name())
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "f"))
		if got := string(b); got != "new" && !(way == "replace" && got == "old") && !(way == "add" && errors.Is(err, os.ErrNotExist)) {
			t.Errorf("%s, killed at %s: %q, %v", way, at, got, err)
		}
	})
}

// TestFaults: an error before the file has its place leaves the old state of the place,
// and no temporary file. An error of the last steps leaves the new file. An error of the
// link does so too, because then a rename takes the place of the link.
func TestFaults(t *testing.T) {
	everywhere(t, "error=EIO", func(t *testing.T, way, at, dir string) {
		want := map[string]string{"replace": "old"}[way]
		if late.MatchString(at) && !strings.Contains(at, "O_CREAT") && !strings.Contains(at, `AT_FDCWD`) {
			want = "new"
		}
		if strings.Contains(at, "unlinkat(") { // the temporary name is left
			if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != want {
				t.Errorf("an error at %s: %q, %v", at, b, err)
			}
			return
		}
		stands(t, dir, "f", want)
	})
}

// late are the calls after which the new file exists: the link, whose place a rename can
// take, and all calls after the file has its place. The temporary file is synced before,
// and its name is in the trace.
var late = regexp.MustCompile(` (linkat|unlinkat|openat)\(| fsync\(\d+<[^>.]*>`)

// TestWithoutLinks: if hard links fail, a new file is put in its place all the same, and
// replaces nothing.
func TestWithoutLinks(t *testing.T) {
	dir, _, err := traced(t, "add", "-e", "trace=linkat", "-e", "inject=linkat:error=EOPNOTSUPP")
	if err != nil {
		t.Fatal(err)
	}
	stands(t, dir, "f", "new")
}

// TestFolderWithoutSync: a file system that cannot sync folders causes no error.
func TestFolderWithoutSync(t *testing.T) {
	dir, _, err := traced(t, "add", "-e", "trace=fsync", "-e", "inject=fsync:error=EINVAL:when=2")
	if err != nil {
		t.Fatal(err)
	}
	stands(t, dir, "f", "new")
}
