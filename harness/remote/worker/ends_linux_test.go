//go:build linux && (amd64 || arm64)

package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
)

// timeless returns a result without what differs from run to run: times and memory.
func timeless(t *testing.T, a answer) []byte {
	t.Helper()
	a.PeakMemory = 0
	for _, s := range a.Steps {
		if s.End != nil {
			s.End.MaxRSS, s.End.DurationMS = 0, 0
		}
	}
	a.Plan = "" // names the folder for copies
	b, _, err := a.Artifact()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRepeats: actions that share the files of a cache, and write to them, have one and the same
// result. The files of the cache stay as they are.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for _, tier := range harnesstest.Tiers {
		for _, user := range users() {
			t.Run(fmt.Sprint(tier, ", user ", user), func(t *testing.T) {
				hostOf(t, tier)
				from, list := inputs(t)
				s := specOf(tier, sh("echo more >>a/file; chmod 600 top; touch -d @0 a/b/file; rm a/b/file; cat a/file"))
				s.Work = list
				l := newAction(t, s, "", nil)
				l.user = user
				cache := cached(t, l, from)
				was := statesOf(t, cache)
				var first answer
				for i := range 3 {
					a := l.perform(t)
					if a.Refused != nil || string(a.files["stdout/0"]) != "content of a/filemore\n" {
						t.Fatalf("run %d: %s", i, a.result)
					}
					if i == 0 {
						first = a
					}
					if !bytes.Equal(timeless(t, a), timeless(t, first)) || !bytes.Equal(a.data, first.data) {
						t.Errorf("run %d has another result:\n%s\n%s", i, timeless(t, a), timeless(t, first))
					}
				}
				if now := statesOf(t, cache); now != was {
					t.Errorf("the cache was %s and is %s", was, now)
				}
			})
		}
	}
}

// statesOf describes all files of a folder: their bytes, modes, owners and times of change.
func statesOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		err = syscall.Lstat(p, &st)
		fmt.Fprintf(&b, "%s %q %o %d %v %v\n", p, text, st.Mode, st.Uid, st.Mtim, st.Ctim)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTree: commands read the tree, with its modes, links and empty folders, and cannot write it.
func TestTree(t *testing.T) {
	t.Parallel()
	for _, user := range users() {
		t.Run(fmt.Sprint("user ", user), func(t *testing.T) {
			h := hostOf(t, sandbox.Full)
			tree := folder(t)
			if err := os.Chmod(filepath.Join(tree, "mine"), 0o755); err != nil { // its owner alone could list it
				t.Fatal(err)
			}
			s := specOf(sandbox.Full, sandbox.Action{Argv: []string{"sh", "-c", "cd /tree; find . | LC_ALL=C sort | xargs stat -c '%n %A %N'; cat a/* deep/*/*/* </dev/null; (echo x >>a/file) 2>/dev/null || echo read-only; ls /work"}})
			s.Tree, s.ShowsTree = lists(t, tree), true
			l := newAction(t, s, "", nil)
			l.user = user
			layInputs(t, tree, filepath.Join(l.dir, job.TreeDir), s.Tree, copied(0o444, 0))
			a := l.perform(t)
			compare(t, here(t, h, s, "", tree), a, s)
			if out := string(a.files["stdout/0"]); !strings.Contains(out, "read-only") || !strings.Contains(out, "exec.sh -rwxr-xr-x") {
				t.Errorf("the command printed %s", out)
			}
		})
	}
}

// TestManyFiles: so many changed files that the folder for temporary files has no copies left in
// it, and all of them are in data.tar.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	s := specOf(sandbox.Confined, sh("i=0; while [ $i -lt 3000 ]; do echo $i >f$i; i=$((i+1)); done"))
	a := newAction(t, s, "", nil).perform(t)
	if a.Refused != nil || len(a.Changes) != 3000 || len(a.files) != 3002 {
		t.Errorf("%d changes, %d entries, %+v", len(a.Changes), len(a.files), a.Refused)
	}
}

// TestSignals: a worker that ends the shim gets no result, and nothing is left: no process, no
// folder for copies, no output.
func TestSignals(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, tier := range harnesstest.Tiers {
		for _, user := range users() {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
				t.Run(fmt.Sprint(tier, ", user ", user, ", ", sig), func(t *testing.T) {
					hostOf(t, tier)
					mark := "86" + strconv.Itoa(1000*os.Getpid()+int(sig)*10+user%7) + "." + strconv.Itoa(len(tier))
					l := newAction(t, specOf(tier, sh("echo x >a; trap '' TERM; sleep "+mark+" & sleep "+mark)), "", nil)
					l.user = user
					cmd, said := l.start(t)
					await(t, func() bool { return len(running(t, "sleep\x00"+mark)) == 2 })
					if err := cmd.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
					_ = cmd.Wait()
					if cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(said.String(), "fiador-shim: ") || strings.Count(said.String(), "\n") != 1 {
						t.Errorf("it ended with %v and said %q", cmd.ProcessState, said)
					}
					if left := running(t, mark); len(left) > 0 {
						t.Errorf("processes are left: %v", left)
					}
					l.cleared(t)
				})
			}
		}
	}
}

// TestSignalWhileLayingOut: the shim ends while it copies a large input.
func TestSignalWhileLayingOut(t *testing.T) {
	t.Parallel()
	s := specOf(sandbox.Confined, sh("true"))
	s.Work = []job.Entry{{Path: "large", Kind: job.File, Mode: 0o644, Size: 1 << 30, SHA256: "sha256:" + zeros}}
	rehearsal.Again(t, 3, func(int) string {
		from := t.TempDir()
		if err := os.WriteFile(filepath.Join(from, "large"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(from, "large"), 1<<30); err != nil {
			t.Fatal(err)
		}
		l := newAction(t, s, from, func(from, to string) error { return os.Rename(from, to) })
		cmd, _ := l.start(t)
		await(t, func() bool {
			list, _ := filepath.Glob(filepath.Join(l.temp, "*", job.WorkDir, "large"))
			_, err := os.Stat(filepath.Join(l.dir, job.ResultFile))
			return len(list) == 1 || err == nil
		})
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() == 0 {
			return "it had copied the input before the signal came"
		}
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("it ended with %v", cmd.ProcessState)
		}
		l.cleared(t)
		return ""
	})
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// await waits until something holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// running returns the processes whose command lines contain a text.
func running(t *testing.T, mark string) (list []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), mark) {
			list = append(list, string(line))
		}
	}
	return list
}

// TestOtherPlaces: where the folder for temporary files is of no use, the shim makes its copies
// beside its outputs. Where none is, it refuses.
func TestOtherPlaces(t *testing.T) {
	t.Parallel()
	l := newAction(t, specOf(sandbox.Confined, sh("echo x >a")), "", nil)
	l.through = []string{"env", "TMPDIR=" + filepath.Join(l.dir, job.SpecFile)} // no folder
	if a := l.perform(t); a.Refused != nil || len(a.Changes) != 1 {
		t.Errorf("%s", a.result)
	}
	const noexec = `mount -t tmpfs -o noexec tmpfs "$TMPDIR" && exec "$@"`
	const nowhere = `mount --bind fiador/out fiador/out && mount -o remount,bind,noexec fiador/out && ` + noexec
	space := func(script string) []string {
		return []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"}
	}
	l = newAction(t, specOf(sandbox.Confined, sh("echo x >a")), "", nil)
	l.through = space(nowhere)
	if cmd, said := l.start(t); cmd.Wait() != nil {
		t.Skipf("no folder can be mounted here: %s", said)
	}
	l.cleared(t, job.ResultFile, job.DataFile)
	if a := l.read(t); a.Refused == nil || a.Refused.Kind != job.RefusedWorker || !strings.Contains(a.Refused.Message, "TMPDIR") {
		t.Errorf("without a place to start from: %s", a.result)
	}
	l.through = space(noexec)
	if a := l.perform(t); a.Refused != nil || len(a.Changes) != 1 {
		t.Errorf("%s", a.result)
	}
}

// TestSweeps: a shim removes what a killed one has left, one folder each time, and nothing that may
// be in use or is another's.
func TestSweeps(t *testing.T) {
	l := newAction(t, specOf(sandbox.Confined, sh("true")), "", nil)
	hour := time.Now().Add(-time.Hour)
	for _, name := range []string{"held", "left-1", "left-2", "of-another", "young"} {
		dir := filepath.Join(l.temp, "fiador-shim-"+name)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "work"), 0o755), os.WriteFile(filepath.Join(dir, "work/x"), nil, 0o400)); err != nil {
			t.Fatal(err)
		}
		if name == "of-another" && (os.Geteuid() != 0 || os.Chown(dir, stranger, stranger) != nil) {
			_ = os.RemoveAll(dir)
		} else if name != "young" {
			if err := os.Chtimes(dir, hour, hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Symlink("fiador-shim-young", filepath.Join(l.temp, "fiador-shim-link")), os.Mkdir(filepath.Join(l.temp, "other-left"), 0o755), os.Chtimes(filepath.Join(l.temp, "other-left"), hour, hour)); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(l.temp, "fiador-shim-held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	want := []string{"held", "left-1", "left-2", "link", "of-another", "young"}
	if os.Geteuid() != 0 {
		want = slices.DeleteFunc(want, func(s string) bool { return s == "of-another" })
	}
	for _, gone := range []string{"left-1", "left-2", ""} {
		cmd, said := l.start(t)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		want = slices.DeleteFunc(want, func(s string) bool { return s == gone })
		list, err := filepath.Glob(filepath.Join(l.temp, "*"))
		for i := range list {
			list[i] = strings.TrimPrefix(filepath.Base(list[i]), "fiador-shim-")
		}
		if err != nil || !slices.Equal(list, append(slices.Clone(want), "other-left")) {
			t.Errorf("there are %v (%v), want %v and other-left", list, err, want)
		}
	}
}

// TestStarted: an answer that cannot be written after the commands ran says that they had begun.
func TestStarted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user mounts nothing")
	}
	spec := specOf(sandbox.Confined, sh("head -c 3000000 /dev/zero"))
	spec.StdoutMax = 4 << 20
	l := newAction(t, spec, "", nil)
	out := filepath.Join(l.dir, job.OutDir)
	if err := syscall.Mount("tmpfs", out, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("nothing can be mounted here: ", err)
	}
	defer syscall.Unmount(out, 0)
	if a := l.perform(t); a.Refused == nil || !a.Refused.Started || a.Refused.Kind != job.RefusedWorker {
		t.Errorf("%+v", a.Refused)
	}
}

// TestNoResult: an action whose outputs cannot be written, and a shim with an argument, end with
// status 1 and one line.
func TestNoResult(t *testing.T) {
	t.Parallel()
	l := newAction(t, specOf(sandbox.Confined), "", nil)
	l.before = func(t *testing.T) {
		out := filepath.Join(l.dir, job.OutDir)
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd, said := l.start(t)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("it ended with %v and said %q", cmd.ProcessState, said)
	}
	out, err := exec.Command(shim, "--help").CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("with an argument: %v, %s", err, out)
	}
}
