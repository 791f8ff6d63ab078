package saferun_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness/rehearsal"
)

// whole returns what is wrong with a log, or nil.
func whole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = transcript.Open(f, info.Size())
	return err
}

// strace skips the test where strace cannot trace.
func strace(t *testing.T) {
	t.Helper()
	name, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed, so no system call can be made to fail")
	}
	if out, err := exec.Command(name, "-f", "-b", "execve", "-y", "-qq", "-o", os.DevNull, "-e", "inject=fsync:error=EIO:when=1+", "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
}

// faulty runs safe-run under rules of strace, which do not apply to its command. It
// returns the lines of the trace that the rules affect. The folder of logs is "logs". A
// rule counts the calls of each thread, so a run may not meet a rule.
func faulty(t *testing.T, dir string, rules []string, args ...string) (r result, met []string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	under := append([]string{"strace", "-f", "-b", "execve", "-y", "-qq", "-e", "signal=none", "-o", trace}, rules...)
	r = run(t, options{dir: dir, under: under, env: []string{"SAFE_LOG_DIR=" + filepath.Join(dir, "logs")}}, args...)
	for _, line := range rehearsal.Trace(t, trace) {
		if strings.Contains(line, "(INJECTED)") || strings.HasSuffix(line, "= ?") {
			met = append(met, kindOf(line))
		}
	}
	return r, met
}

var callLine = regexp.MustCompile(`^\d+ +(\w+)\((.*)`)

// kindOf names the step of writing a log that a traced call belongs to.
func kindOf(line string) string {
	m := callLine.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	switch call, args := m[1], m[2]; {
	case strings.Contains(args, "<anon_inode:"):
		return "runtime"
	case call == "write" && !strings.Contains(args, "/logs/"), call == "openat" && !strings.Contains(args, "/logs"):
		return "other"
	case call == "mkdirat", call == "linkat":
		return call
	case call == "unlinkat" && !strings.Contains(args, ".safe-run-"):
		return call + " log"
	case strings.HasPrefix(call, "renameat"):
		return "rename"
	case strings.Contains(args, ".safe-run-"):
		return call + " temp"
	case call == "openat" && strings.Contains(args, `, ".", `):
		return call + " folder again"
	default:
		return call + " folder"
	}
}

// steps are the rules for each system call that writes a log, and the steps that the call
// takes.
var steps = []struct {
	call  string
	kinds []string
}{
	{"mkdirat", []string{"mkdirat"}},
	{"openat", []string{"openat folder", "openat temp", "openat folder again"}},
	{"write", []string{"write temp"}},
	{"fsync", []string{"fsync temp", "fsync folder"}},
	{"linkat", []string{"linkat"}},
	{"unlinkat", []string{"unlinkat temp"}},
}

// faults calls f with the rules for one fault after another, until every step has met a
// fault. f returns the steps that did.
func faults(t *testing.T, fault string, f func(t *testing.T, rules []string) (met []string)) {
	t.Helper()
	for _, s := range steps {
		t.Run(s.call+" "+fault, func(t *testing.T) {
			missing := slices.Clone(s.kinds)
			for round := 0; len(missing) > 0 && round < 200; round++ {
				rule := fmt.Sprintf("inject=%s:%s:when=%d", s.call, fault, 1+round%4)
				met := f(t, []string{"-e", "trace=" + s.call, "-e", rule})
				missing = slices.DeleteFunc(missing, func(k string) bool { return slices.Contains(met, k) })
			}
			if len(missing) > 0 {
				t.Errorf("no fault was met by %q", missing)
			}
		})
	}
}

// TestLogFaults: whichever system call fails while a log is written, the exit status is
// that of the command. There is no log or a whole one. Standard error says which, and why.
func TestLogFaults(t *testing.T) {
	t.Parallel()
	strace(t)
	for name, text := range map[string]string{"EIO": "input/output error", "ENOSPC": "no space left on device", "EROFS": "read-only file system"} {
		faults(t, "error="+name, func(t *testing.T, rules []string) []string {
			dir := t.TempDir()
			if strings.Contains(rules[1], "openat") { // leave out the files that the runtime opens
				rules = append(rules, "-P", filepath.Join(dir, "logs"))
			}
			// Without output the only writes are those of the log.
			r, met := faulty(t, dir, rules, sh("exit 3")...)
			if slices.Contains(met, "runtime") {
				return nil // this write wakes a thread, and the runtime cannot bear its failure
			}
			if r.code != 3 || r.stdout != "" {
				t.Errorf("%q: exit status %d, standard output %q", met, r.code, r.stdout)
			}
			checkFault(t, r, met, text)
			return met
		})
	}
}

// checkFault checks the folder and standard error after a fault.
func checkFault(t *testing.T, r result, met []string, reason string) {
	t.Helper()
	if slices.Contains(met, "other") {
		return // the fault hit standard error
	}
	folder := filepath.Join(r.dir, "logs")
	temp, log := left(t, folder)
	prefix := fmt.Sprintf("safe-run: exit code 3, no log: folder %q: ", folder)
	if log != "" {
		prefix = fmt.Sprintf("safe-run: exit code 3, log %q", filepath.Join(folder, log))
		if err := whole(filepath.Join(folder, log)); err != nil {
			t.Errorf("%q: %v", met, err)
		}
	}
	notRemoved := slices.Contains(met, "unlinkat temp")
	if len(met) == 0 || notRemoved && temp == "" {
		reason = ""
	}
	rest, found := strings.CutPrefix(r.stderr, prefix)
	if !found || !strings.HasSuffix(rest, reason+"\n") || strings.Count(rest, "\n") > 1 || strings.Contains(rest, folder) || temp != "" && !notRemoved {
		t.Errorf("%q: standard error %q, want %q and %q; the folder has %q and %q", met, r.stderr, prefix, reason, log, temp)
	}
}

// left returns the temporary file and the log in a folder, or empty names.
func left(t *testing.T, folder string) (temp, log string) {
	t.Helper()
	list := logs(t, folder)
	all := strings.Join(list, " ")
	m := regexp.MustCompile(`^(\.safe-run-[0-9a-f]{8}\.tmp)? ?(safe-run-\d{8}-\d{6}-[0-9a-f]{8}\.log)?$`).FindStringSubmatch(all)
	if m == nil {
		t.Fatalf("left is %q", list)
	}
	return m[1], m[2]
}

// TestFaultThatStays: a fault that occurs at every attempt. A temporary file that cannot
// be removed does no harm to the log.
func TestFaultThatStays(t *testing.T) {
	strace(t)
	for _, tc := range []struct {
		call      string
		temp, log bool // the files that are left
	}{
		{"fsync", false, false}, {"linkat", false, false}, {"unlinkat", true, true}, {"linkat,unlinkat", true, false},
	} {
		r, met := faulty(t, t.TempDir(), []string{"-e", "trace=" + tc.call, "-e", "inject=" + tc.call + ":error=EIO"}, sh("echo out; exit 3")...)
		temp, log := left(t, filepath.Join(r.dir, "logs"))
		if r.code != 3 || r.stdout != "out\n" || temp != "" != tc.temp || log != "" != tc.log || len(met) == 0 {
			t.Errorf("%s: exit status %d, standard output %q, left is %q and %q", tc.call, r.code, r.stdout, temp, log)
		}
		if tc.temp {
			met = append(met, "unlinkat temp")
		}
		checkFault(t, r, met, "input/output error")
	}
}

// TestCallsThatAreInterrupted: an interrupted system call is repeated.
func TestCallsThatAreInterrupted(t *testing.T) {
	strace(t)
	faults(t, "error=EINTR", func(t *testing.T, rules []string) []string {
		dir := t.TempDir()
		if strings.Contains(rules[1], "openat") {
			rules = append(rules, "-P", filepath.Join(dir, "logs"))
		}
		r, met := faulty(t, dir, rules, sh("exit 3")...)
		if list := logs(t, filepath.Join(dir, "logs")); len(list) != 1 || whole(filepath.Join(dir, "logs", list[0])) != nil || r.code != 3 {
			t.Errorf("%q: exit status %d, standard error %q, left is %q", met, r.code, r.stderr, list)
		}
		return met
	})
}

// TestKilledAnywhere: safe-run is killed before each system call that writes a log. An
// existing log is whole, and one temporary file may be left. Neither disturbs the next
// run.
func TestKilledAnywhere(t *testing.T) {
	strace(t)
	faults(t, "signal=KILL", func(t *testing.T, rules []string) []string {
		dir := t.TempDir()
		if strings.Contains(rules[1], "openat") {
			rules = append(rules, "-P", filepath.Join(dir, "logs"))
		}
		folder := filepath.Join(dir, "logs")
		r, met := faulty(t, dir, rules, sh("exit 3")...)
		if len(met) > 0 != (r.code == -1) {
			t.Errorf("%q: exit status %d", met, r.code)
		}
		checkKilled(t, folder, met)
		before := logs(t, folder)
		next := run(t, options{dir: dir, env: []string{"SAFE_LOG_DIR=logs"}}, sh("exit 4")...)
		if l := openLog(t, filepath.Join(dir, next.named(t))); l.Code() != 4 || len(logs(t, folder)) != len(before)+1 {
			t.Errorf("%q: code %d after %q, and there is %q", met, l.Code(), before, logs(t, folder))
		}
		return met
	})
}

func checkKilled(t *testing.T, folder string, met []string) {
	t.Helper()
	var all, temps int
	for _, name := range logs(t, folder) {
		switch filepath.Ext(name) {
		case ".log":
			all++
			if err := whole(filepath.Join(folder, name)); err != nil {
				t.Errorf("%q: %v", met, err)
			}
		case ".tmp":
			temps++
		default:
			t.Errorf("%q: %q was left", met, name)
		}
	}
	if all > 1 || temps > 1 {
		t.Errorf("%q: %d logs and %d temporary files", met, all, temps)
	}
}

// TestWithoutLinks: on a file system without hard links, too, a log is there whole or not
// at all, and replaces nothing.
func TestWithoutLinks(t *testing.T) {
	strace(t)
	const noReplace = "inject=renameat2:error=EINVAL" // a rename that replaces nothing fails too
	for _, links := range []string{"EPERM", "EOPNOTSUPP", "ENOSYS"} {
		for _, tc := range []struct {
			rules []string
			left  int // how many logs there are
		}{
			{nil, 1},
			{[]string{"-e", noReplace}, 1},
			{[]string{"-e", "inject=/^renameat:error=EIO"}, 0},
			{[]string{"-e", noReplace, "-e", "inject=/^renameat$:error=EIO"}, 0},
			{[]string{"-e", "inject=/^renameat:signal=KILL"}, 0},
		} {
			dir := t.TempDir()
			folder := filepath.Join(dir, "logs")
			rules := append([]string{"-e", "trace=linkat,/^renameat", "-e", "inject=linkat:error=" + links}, tc.rules...)
			r, _ := faulty(t, dir, rules, sh("echo out; exit 3")...)
			killed := strings.Contains(rules[len(rules)-1], "KILL") && r.code == -1
			if r.code != 3 && !killed || r.stdout != "out\n" {
				t.Errorf("%q: exit status %d, standard output %q", rules, r.code, r.stdout)
			}
			checkKilled(t, folder, rules)
			list := logs(t, folder)
			if !killed && len(list) != tc.left {
				t.Errorf("%q: there is %q; standard error %q", rules, list, r.stderr)
			}
			if tc.left == 1 && len(list) == 1 {
				info, err := os.Stat(filepath.Join(folder, list[0]))
				if err != nil || info.Mode() != 0o600 || r.named(t) != filepath.Join(folder, list[0]) {
					t.Errorf("%q: the log is %v, named %q (%v)", rules, info.Mode(), r.named(t), err)
				}
			}
			if tc.left == 0 && !killed && !strings.HasSuffix(r.stderr, fmt.Sprintf("no log: folder %q: input/output error\n", folder)) {
				t.Errorf("%q: standard error %q", rules, r.stderr)
			}
		}
	}
}

// TestNoClobberWithoutLinks: without hard links, too, a name that is taken is not
// replaced. The test takes the names of the next minutes. They contain the process id,
// which a shell prints.
func TestNoClobberWithoutLinks(t *testing.T) {
	strace(t)
	for _, call := range []string{"linkat", "linkat,renameat2"} {
		dir := t.TempDir()
		var stamps []string
		for i := range int(hang / time.Second) {
			stamps = append(stamps, time.Now().UTC().Add(time.Duration(i)*time.Second).Format("20060102T150405Z"))
		}
		const script = `mkdir logs; for s in $STAMPS; do echo mine >logs/$s-pid$$-FAIL.log; ln -s ../target logs/$s-pid$$-FAIL-1.log; done
			exec strace -D -f -b execve -qq -o /dev/null -e trace="$CALL" -e inject="$CALL":error=EOPNOTSUPP "$0" "$@"`
		o := options{dir: dir, under: []string{"sh", "-c", script}, env: []string{
			"STAMPS=" + strings.Join(stamps, " "), "CALL=" + call, "SAFE_LOG_DIR=logs", "SAFE_RUN_LOG_NAMES=rfc",
		}}
		r := run(t, o, sh("exit 3")...)
		name := r.named(t)
		if !strings.HasSuffix(name, "-FAIL-2.log") || whole(filepath.Join(dir, name)) != nil {
			t.Errorf("%s: the log is %q", call, name)
		}
		ok(t, os.Remove(filepath.Join(dir, name)))
		for _, other := range logs(t, filepath.Join(dir, "logs")) {
			text, err := os.ReadFile(filepath.Join(dir, "logs", other))
			link := strings.HasSuffix(other, "-1.log")
			if string(text) != "mine\n" && !link || (err != nil) != link {
				t.Errorf("%s: %q has %q (%v)", call, other, text, err)
			}
		}
	}
}

// mounted runs safe-run where "full" is a small file system in memory. Afterwards the
// remaining files are in "left".
func mounted(t *testing.T, o options, size string, args ...string) result {
	t.Helper()
	o.dir = t.TempDir()
	if out, err := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=4k", "none", o.dir).CombinedOutput(); err != nil {
		t.Skipf("nothing can be mounted here, so no file system can be full: %v: %s", err, out)
	}
	const script = `mkdir full && mount -t tmpfs -o "$SIZE" none full || exit 99; "$0" "$@"; code=$?; cp -R full left; exit $code`
	o.under, o.env = []string{"unshare", "-rm", "sh", "-c", script}, append(o.env, "SIZE="+size)
	return run(t, o, args...)
}

// lines returns a command that prints so many bytes, 100 a line, on both streams, and
// fails.
func lines(stdout, stderr int) []string {
	line := strings.Repeat("123456789 ", 10)[:99]
	return sh(fmt.Sprintf(`yes "%s" | head -c %d; yes "%[1]s" | head -c %[3]d >&2; exit 3`, line, stdout, stderr))
}

// TestLogFull: if a log does not fit, there is no log. The caller has all of the output,
// and the exit status is unchanged.
func TestLogFull(t *testing.T) {
	const size = 150_000
	fits, cut := 0, 0
	for _, limit := range []string{"size=4k", "size=16k", "size=64k", "size=200k", "size=320k", "size=2m", "nr_inodes=1", "nr_inodes=2", "nr_inodes=3", "nr_inodes=4"} {
		r := mounted(t, options{env: []string{"SAFE_LOG_DIR=full/logs"}}, limit, lines(size, 0)...)
		list := logs(t, filepath.Join(r.dir, "left/logs"))
		want := "safe-run: exit code 3, no log: folder \"full/logs\": no space left on device\n"
		if len(list) > 0 {
			fits++
			want = fmt.Sprintf("safe-run: exit code 3, log %q\n", "full/logs/"+list[0])
			if err := whole(filepath.Join(r.dir, "left/logs", list[0])); err != nil || len(list) > 1 {
				t.Errorf("%s: %q was left, %v", limit, list, err)
			}
		} else {
			cut++
		}
		if r.code != 3 || len(r.stdout) != size || r.stderr != want {
			t.Errorf("%s: exit status %d, %d bytes of standard output, standard error %q, want %q", limit, r.code, len(r.stdout), shortened(r.stderr), want)
		}
	}
	if fits == 0 || cut == 0 {
		t.Errorf("%d logs did fit and %d did not", fits, cut)
	}
}

var cutNote = regexp.MustCompile(`^safe-run output cut: (\d+) bytes not logged: (.*)$`)

// checkCut checks the log of a run whose output could not be kept as a whole.
func checkCut(t *testing.T, name string, r result, stdout, stderr int, why string) {
	t.Helper()
	all, said, found := strings.Cut(r.stderr, "safe-run:")
	if r.code != 3 || len(r.stdout) != stdout || len(all) != stderr || !found {
		t.Errorf("%s: exit status %d, %d and %d bytes for the caller, and %q", name, r.code, len(r.stdout), len(all), said)
	}
	l := r.log(t)
	if len(l.Notes()) != 1 || l.Code() != 3 {
		t.Fatalf("%s: notes %q, code %d", name, l.Notes(), l.Code())
	}
	m := cutNote.FindStringSubmatch(l.Notes()[0])
	if m == nil || m[2] != why {
		t.Fatalf("%s: note %q", name, l.Notes()[0])
	}
	missed, err := strconv.Atoi(m[1])
	if err != nil || missed == 0 || len(l.stdout)+len(l.stderr)+missed != stdout+stderr {
		t.Errorf("%s: %d and %d bytes in the log, and %d are said to be missing", name, len(l.stdout), len(l.stderr), missed)
	}
	if !strings.HasPrefix(r.stdout, l.stdout) || !strings.HasPrefix(all, l.stderr) {
		t.Errorf("%s: the log has other bytes than the caller", name)
	}
}

// TestSpoolFull: output that cannot be recorded reaches the caller. The log has the
// recorded part, and says how many bytes are missing.
func TestSpoolFull(t *testing.T) {
	const size = 1_000_000
	for _, limit := range []string{"size=4k", "size=8k", "size=100k", "size=300k", "nr_inodes=1", "nr_inodes=2"} {
		stderr := size / 2
		if limit == "nr_inodes=2" { // there is room for one of two files
			stderr = size
		}
		r := mounted(t, options{env: []string{"TMPDIR=full"}}, limit, lines(size, stderr)...)
		if list := logs(t, filepath.Join(r.dir, "left")); len(list) > 0 {
			t.Errorf("%s: %q was left", limit, list)
		}
		ok(t, os.RemoveAll(filepath.Join(r.dir, "left")))
		checkCut(t, limit, r, size, stderr, "no space left on device")
	}
	r := mounted(t, options{env: []string{"TMPDIR=full"}}, "size=4k", sh("yes | head -c 1000000")...)
	if r.code != 0 || len(r.stdout) != size || r.stderr != "" || len(logs(t, filepath.Join(r.dir, ".agent"))) > 0 {
		t.Errorf("a run that succeeds: exit status %d, %d bytes, standard error %q", r.code, len(r.stdout), r.stderr)
	}
}

// TestSpoolFolderBad: a path that is no folder matters only to output that does not fit
// into memory.
func TestSpoolFolderBad(t *testing.T) {
	const size = 600_000
	for value, why := range map[string]string{"none": "no such file or directory", "/dev/null": "not a directory", "/proc": "no such file or directory"} {
		r := run(t, options{env: []string{"TMPDIR=" + value}}, lines(size, 1000)...)
		checkCut(t, value, r, size, 1000, why)
		run(t, options{env: []string{"TMPDIR=" + value}}, lines(1000, 1000)...).failed(t, 3)
	}
}

// TestCutIsSaid: standard error says that a log is incomplete. A log of the merged view
// has no place for this message.
func TestCutIsSaid(t *testing.T) {
	const size = 600_000
	for _, view := range []string{"ledger", "merged"} {
		r := run(t, options{env: []string{"TMPDIR=none", "SAFE_RUN_VIEW=" + view}}, lines(size, 0)...)
		const kept = 256 << 10
		want := fmt.Sprintf("safe-run: the last %d bytes of output could not be logged: no such file or directory\nsafe-run: exit code 3, log %q\n", size-kept, r.named(t))
		if r.code != 3 || r.stderr != want {
			t.Errorf("exit status %d, standard error %q, want %q", r.code, shortened(r.stderr), want)
		}
		if text, err := os.ReadFile(filepath.Join(r.dir, r.named(t))); view == "merged" && (err != nil || string(text) != r.stdout[:kept]) {
			t.Errorf("%d bytes in the log: %v", len(text), err)
		}
	}
}

// TestFileTooLarge: a shell sets a limit for the size of files. It limits the log and the
// file that keeps the output.
func TestFileTooLarge(t *testing.T) {
	limit := options{under: []string{"sh", "-c", `ulimit -f 100; exec "$0" "$@"`}}
	for _, size := range []int{200_000, 2_000_000} {
		r := run(t, limit, lines(size, 0)...)
		want := "safe-run: exit code 3, no log: folder \".agent/FAIL-LOGS\": file too large\n"
		if list := logs(t, filepath.Join(r.dir, ".agent/FAIL-LOGS")); r.code != 3 || len(r.stdout) != size || !strings.HasSuffix(r.stderr, want) || len(list) > 0 {
			t.Errorf("exit status %d, %d bytes of standard output, standard error %q, left is %q", r.code, len(r.stdout), shortened(r.stderr), list)
		}
	}
	run(t, limit, lines(1000, 1000)...).failed(t, 3)
}

// TestSpoolLeavesNothing: the file with the output beyond memory is gone however safe-run
// ends, even if it is killed between two system calls.
func TestSpoolLeavesNothing(t *testing.T) {
	t.Parallel()
	strace(t)
	for _, call := range []string{"unlinkat", "write", "pread64"} {
		for when := 1; when <= 8; when++ {
			dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
			ok(t, os.Mkdir(filepath.Join(dir, "spool"), 0o700))
			under := []string{"strace", "-f", "-b", "execve", "-qq", "-o", trace, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, when)}
			r := run(t, options{dir: dir, under: under, env: []string{"TMPDIR=spool"}}, lines(600_000, 0)...)
			if list := logs(t, filepath.Join(dir, "spool")); len(list) > 0 {
				t.Errorf("%s %d: exit status %d, and %q was left", call, when, r.code, list)
			}
		}
	}
}
