package settings_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/settings"
)

// The test binary is also the program that changes a file, as apply, remove, or both in
// turn, a number of times.
const folderVar, wayVar = "SETTINGS_FOLDER", "SETTINGS_WAY"

const inFolder = ".claude/settings.json"

func TestMain(m *testing.M) {
	dir := os.Getenv(folderVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // strace counts the calls of a thread
	if err := change(dir, os.Getenv(wayVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func change(dir, way string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	f := settings.File{Root: root, Name: inFolder}
	if way != "remove" {
		_, err = f.Apply(context.Background(), kinds["hook"]...)
	}
	if way != "apply" && err == nil {
		_, err = f.Remove(context.Background(), kinds["hook"]...)
	}
	return err
}

func program(dir, way string, before ...string) *exec.Cmd {
	argv := append(before, os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = rehearsal.Env(append(os.Environ(), folderVar+"="+dir, wayVar+"="+way)...)
	return cmd
}

const oldText = "{\n  \"model\": \"opus\"\n}"

// TestKilled kills the program at each call that changes something. The file is the old one
// or the new one, the backup is the old file or is not there, and the same command then
// ends well.
func TestKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed, so no process can be killed at a call")
	}
	absent, present := map[string]string{}, map[string]string{".claude/": "", inFolder: oldText}
	for what, c := range map[string]struct {
		way   string
		start map[string]string
		calls string
	}{
		"apply to a file": {"apply", present, "mkdirat flock openat write fsync renameat fsync openat fchown fchmod write fsync renameat fsync"},
		"apply to none":   {"apply", absent, "mkdirat flock openat write fsync renameat fsync"},
		"remove the edit": {"remove", present, "flock openat fchown fchmod write fsync renameat fsync unlinkat fsync"},
		"remove a file":   {"remove", absent, "flock unlinkat fsync unlinkat unlinkat fsync"}, // the folder is first tried as a file
	} {
		t.Run(what, func(t *testing.T) {
			with := settled(t, c.start, "apply")
			from, to := c.start, with
			if c.way == "remove" {
				from, to = with, c.start
			}
			dir := t.TempDir()
			lay(t, dir, from)
			steps := changing(traced(t, dir, c.way), dir)
			var calls []string
			for _, s := range steps {
				calls = append(calls, s.call)
			}
			if got := strings.Join(calls, " "); got != c.calls {
				t.Errorf("the calls are %s, want %s", got, c.calls)
			}
			for _, s := range steps {
				dir := t.TempDir()
				lay(t, dir, from)
				trace := traced(t, dir, c.way, "-e", "inject=/^"+s.call+"2?$:signal=KILL:when="+strconv.Itoa(s.nth))
				if last := changing(trace, dir); len(last) == 0 || last[len(last)-1].call != s.call {
					t.Fatalf("not killed at %v: %q", s, trace)
				}
				got := tree(t, dir)
				text, there := got[inFolder]
				if !slices.Contains([]string{c.start[inFolder], with[inFolder]}, text) || !there && len(c.start) > 0 {
					t.Errorf("killed at %v: the file is %q", s, text)
				}
				if backup, saved := got[inFolder+".fiador-backup"]; saved && backup != oldText {
					t.Errorf("killed at %v: the backup is %q", s, backup)
				}
				if out, err := program(dir, c.way).CombinedOutput(); err != nil {
					t.Errorf("after the kill at %v: %v, %s", s, err, out)
				}
				last := tree(t, dir)
				maps.DeleteFunc(last, func(name, _ string) bool { return strings.HasPrefix(filepath.Base(name), ".fiador-") })
				if len(to) == 0 {
					delete(last, ".claude/") // after a kill behind the removal of its file nobody knows who made it
				}
				if !maps.Equal(last, to) {
					t.Errorf("killed at %v, then run again: %q, want %q", s, last, to)
				}
			}
		})
	}
}

// call is the nth call of its name in its thread.
type call struct {
	call string
	nth  int
}

var callLine = regexp.MustCompile(`^(\d+) +(\w+)\(`)

// changing returns the calls of a trace that change something in a folder, or lock it.
func changing(trace []string, dir string) (list []call) {
	count := map[string]int{}
	for _, line := range trace {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.TrimSuffix(m[2], "2")
		count[m[1]+name]++
		if strings.Contains(line, dir) && (name != "openat" || strings.Contains(line, "O_CREAT")) {
			list = append(list, call{name, count[m[1]+name]})
		}
	}
	return list
}

// traced runs the program under strace, and returns the lines of the trace.
func traced(t *testing.T, dir, way string, rules ...string) []string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "trace")
	cmd := program(dir, way, slices.Concat([]string{"strace", "-f", "-y", "-qq", "-e", "signal=none", "-o", to,
		"-e", "trace=mkdirat,openat,write,fsync,fchmod,fchown,linkat,/^renameat,unlinkat,flock"}, rules)...)
	out, _ := cmd.CombinedOutput()
	if strings.Contains(string(out), "Operation not permitted") {
		t.Skipf("strace cannot trace here: %s", out)
	}
	return rehearsal.Trace(t, to)
}

// settled returns what a whole run leaves.
func settled(t *testing.T, start map[string]string, way string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	lay(t, dir, start)
	if out, err := program(dir, way).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return tree(t, dir)
}

func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var err error
		if path := filepath.Join(dir, name); strings.HasSuffix(name, "/") {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(files[name]), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAtOnce: processes that apply at the same time leave one entry. Processes that apply
// and remove at the same time, the folder included, leave the file as it was.
func TestAtOnce(t *testing.T) {
	for what, start := range map[string]map[string]string{
		"file": {".claude/": "", inFolder: oldText}, "no file": {},
	} {
		for _, way := range []string{"apply", "both"} {
			dir := t.TempDir()
			lay(t, dir, start)
			failed := make(chan error)
			const n = 8
			for range n {
				go func() {
					out, err := program(dir, way).CombinedOutput()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, out)
					}
					failed <- err
				}()
			}
			for range n {
				if err := <-failed; err != nil {
					t.Errorf("%s, %s: %v", what, way, err)
				}
			}
			want := start
			if way == "apply" {
				want = settled(t, start, "apply")
			}
			if got := tree(t, dir); !maps.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", what, way, got, want)
			}
		}
	}
}

// TestLocked: a change waits for the lock until its context ends, and a dry run does not.
func TestLocked(t *testing.T) {
	f, dir := place(t, "f", []byte("{}"))
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Apply(ctx, kinds["hook"]...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	f.DryRun = true
	must(t)(f.Apply(t.Context(), kinds["hook"]...))
	if got := tree(t, dir); len(got) != 1 || got["f"] != "{}" {
		t.Errorf("%q", got)
	}
}

// TestLinksRefused: symbolic links, hard links, files of others and what is no file are
// refused, and so is a link above the file.
func TestLinksRefused(t *testing.T) {
	for what, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"a link":         {func(dir string) error { return os.Symlink("../real", filepath.Join(dir, "d/f")) }, `"d/f" is a symbolic link`},
		"a broken link":  {func(dir string) error { return os.Symlink("none", filepath.Join(dir, "d/f")) }, `"d/f" is a symbolic link`},
		"a link outside": {func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "d/f")) }, `"d/f" is a symbolic link`},
		"a linked folder": {func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")), os.Symlink("e", filepath.Join(dir, "d")))
		}, `"d" is a symbolic link`},
		"a hard link": {func(dir string) error { return os.Link(filepath.Join(dir, "real"), filepath.Join(dir, "d/f")) }, "more than one hard link"},
		"a pipe":      {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "d/f"), 0o644) }, "not a regular file"},
		"another owner": {func(dir string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			return errors.Join(os.WriteFile(filepath.Join(dir, "d/f"), []byte("{}"), 0o644), os.Chown(filepath.Join(dir, "d/f"), 4711, 4711))
		}, "another user owns it"},
	} {
		t.Run(what, func(t *testing.T) {
			f, dir := place(t, "d/f", nil)
			lay(t, dir, map[string]string{"d/": "", "real": "{}"})
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			before := names(t, dir)
			_, err := f.Apply(t.Context(), kinds["hook"]...)
			var r *settings.Refused
			if !errors.As(err, &r) || r.File != "d/f" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if got := names(t, dir); !slices.Equal(got, before) {
				t.Errorf("%q, want %q", got, before)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "real")); string(text) != "{}" {
				t.Errorf("the other file is %q, %v", text, err)
			}
		})
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	for _, pattern := range []string{"*", ".*", "*/*", "*/.*"} {
		more, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	return list
}

// TestModeAndGroup: a changed file has the old mode and group, whatever the umask is. The
// backup can be read by the owner alone.
func TestModeAndGroup(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o666, 0o640, 0o755, 0o400} {
		f, dir := place(t, "f", []byte("{}"))
		path := filepath.Join(dir, "f")
		group := os.Getegid()
		if os.Geteuid() == 0 {
			group = 4711
		}
		if err := errors.Join(os.Chown(path, -1, group), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		for _, change := range []func(context.Context, ...settings.Edit) (settings.Change, error){f.Apply, f.Remove} {
			must(t)(change(t.Context(), kinds["hook"]...))
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); info.Mode() != mode || int(st.Gid) != group || int(st.Uid) != os.Geteuid() {
				t.Errorf("%v becomes %v, group %d", mode, info.Mode(), st.Gid)
			}
			if info, err := os.Stat(path + ".fiador-backup"); err == nil && info.Mode() != 0o600 {
				t.Errorf("the backup has the mode %v", info.Mode())
			}
		}
	}
}

// TestBackupOfAnother: a backup that is a link, or has another text, is neither used nor
// changed.
func TestBackupOfAnother(t *testing.T) {
	f, dir := place(t, "f", []byte(oldText))
	lay(t, dir, map[string]string{"other": "{}"})
	if err := os.Symlink("other", filepath.Join(dir, "f.fiador-backup")); err != nil {
		t.Fatal(err)
	}
	must(t)(f.Apply(t.Context(), kinds["hook"]...))
	must(t)(f.Remove(t.Context(), kinds["hook"]...))
	if got := tree(t, dir); got["f"] != oldText || got["other"] != "{}" || len(got) != 3 {
		t.Errorf("%q", got)
	}
}
