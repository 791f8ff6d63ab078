//go:build linux && (amd64 || arm64)

package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/rehearsal"
)

// applyScene is a folder with the changes to apply to it.
type applyScene struct {
	dir, state string
	changes    []change.Change
	content    map[string]string
	since      time.Time
}

// fastDir returns a new folder where a sync costs nothing, if there is one.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fiador-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = RemoveAll(dir) })
	return dir
}

// standUp makes the entries of a folder: "path" to content, a path with a final slash to a
// folder, and "-> target" to a symbolic link. Content may begin with a mode, as in "0755
// text".
func standUp(dir string, things map[string]string) error {
	var names []string
	for name := range things {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, text := filepath.Join(dir, name), things[name]
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, p)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else {
			err = standUpFile(p, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func standUpFile(p, text string) error {
	mode := uint64(0o644)
	if len(text) > 5 && text[0] == '0' && text[4] == ' ' {
		mode, _ = strconv.ParseUint(text[:4], 8, 32)
	}
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		return err
	}
	return unix.Chmod(p, uint32(mode))
}

// newApplyScene makes a folder tree in base with these entries.
func newApplyScene(base string, things map[string]string) (*applyScene, error) {
	s := &applyScene{dir: filepath.Join(base, "tree"), state: filepath.Join(base, "state"), content: map[string]string{}}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return nil, err
	}
	err := standUp(s.dir, things)
	s.since = time.Now()
	return s, err
}

func mustApplyScene(t *testing.T, things map[string]string) *applyScene {
	t.Helper()
	s, err := newApplyScene(fastDir(t), things)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds a change whose Before is the current entry.
func (s *applyScene) add(c change.Change) {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(s.dir, c.Path), &st) == nil {
		c.Before = change.SeenAs(&st)
	}
	s.changes = append(s.changes, c)
}

func (s *applyScene) file(path, text string) {
	s.content[path] = text
	s.add(change.Change{Path: path, Kind: change.KindFile, Size: int64(len(text)), SHA256: sha256.Sum256([]byte(text)), Executable: strings.HasPrefix(text, "#!")})
}
func (s *applyScene) folder(path string) { s.add(change.Change{Path: path, Kind: change.KindFolder}) }
func (s *applyScene) link(path, to string) {
	s.add(change.Change{Path: path, Kind: change.KindLink, Target: to})
}
func (s *applyScene) delete(path string) { s.add(change.Change{Path: path, Kind: change.KindDeleted}) }

func (s *applyScene) open(path string) (io.ReadCloser, error) {
	text, ok := s.content[path]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (s *applyScene) apply(before func(call, name string) error) error {
	return applyTo(context.Background(), s.state, s.dir, s.changes, s.open, terms{since: s.since.UnixNano()}, calls{before: before})
}

func (s *applyScene) recover(before func(call, name string) error) (Recovery, error) {
	return recoverFolder(context.Background(), s.state, s.dir, calls{before: before})
}

// snapshotOf returns the content of a folder as text, without inodes and times.
func snapshotOf(dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%q %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		switch change.KindOf(st.Mode) {
		case change.KindFile:
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		case change.KindLink:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %q", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// clear checks that the state folder is empty.
func (s *applyScene) clear(t *testing.T) {
	t.Helper()
	names, err := os.ReadDir(s.state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(names) > 0 {
		t.Errorf("the state folder has %v, %v", names, err)
	}
}

func diffText(a, b string) string {
	var d strings.Builder
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, l := range la {
		if !slices.Contains(lb, l) {
			d.WriteString("- " + l + "\n")
		}
	}
	for _, l := range lb {
		if !slices.Contains(la, l) {
			d.WriteString("+ " + l + "\n")
		}
	}
	return d.String()
}

// everything makes a scene with every kind of change.
func everything(base string) (*applyScene, error) {
	s, err := newApplyScene(base, map[string]string{
		"keep.txt": "keep", "a.txt": "0640 old", "run.sh": "0755 #!old", "tool": "0600 old", "set": "4755 #!old", "sub/deep/b": "old b",
		"del.txt": "gone", "sub/del": "gone", "deldir/x": "x", "deldir/sub/y": "y", "deldir/link": "-> /etc", "deldir/empty/": "",
		"file-to-folder": "old", "folder-to-file/q": "q", "folder-to-file/r/s": "s", "folder-to-link/t": "t",
		"link-to-file": "-> keep.txt", "file-to-link": "old", "link-to-link": "-> a.txt", "link-to-folder": "-> sub", "dellink": "-> nowhere",
		"hard1": "hard", "zdel/x": "x", "bad\xff\nname": "gone", "stays/": "",
	})
	if err != nil {
		return nil, err
	}
	for _, p := range []string{"hard2", "deldir/hard3", "zdel/hard4"} {
		if err := os.Link(filepath.Join(s.dir, "hard1"), filepath.Join(s.dir, p)); err != nil {
			return nil, err
		}
	}
	s.since = time.Now()
	for _, p := range []string{"a.txt", "run.sh", "set", "sub/deep/b", "hard1", "hard2", "link-to-file", "new.txt", "n/m/o", "not/in/the/list"} {
		s.file(p, "new "+p)
	}
	s.file("tool", "#!new")
	s.file("empty", "")
	s.folder("n")
	s.folder("n/m")
	s.folder("stays")
	s.folder("void")
	s.folder("file-to-folder")
	s.file("file-to-folder/in/it", "new")
	s.folder("link-to-folder")
	s.file("link-to-folder/in", "new")
	s.file("folder-to-file", "new")
	s.link("folder-to-link", "sub")
	s.link("file-to-link", "keep.txt")
	s.link("link-to-link", "keep.txt")
	s.link("n/link", "../keep.txt")
	for _, p := range []string{"del.txt", "sub/del", "deldir", "deldir/x", "folder-to-file/q", "dellink", "zdel", "bad\xff\nname", "was/never/there"} {
		s.delete(p)
	}
	return s, nil
}

// something makes a smaller scene, for tests that run it thousands of times.
func something(base string) (*applyScene, error) {
	s, err := newApplyScene(base, map[string]string{"a": "old", "d/x": "x", "f": "old", "g/y": "y"})
	if err != nil {
		return nil, err
	}
	s.file("a", "new")
	s.delete("d")
	s.folder("f")
	s.file("f/new", "new")
	s.link("g", "a")
	return s, nil
}

// applyStates returns the state of the folder before and after the changes.
func applyStates(t *testing.T, make func(base string) (*applyScene, error)) (before, after string) {
	t.Helper()
	s, err := make(fastDir(t))
	if err != nil {
		t.Fatal(err)
	}
	before = snapshotOf(s.dir)
	if err := s.apply(nil); err != nil {
		t.Fatal(err)
	}
	s.clear(t)
	after = snapshotOf(s.dir)
	if strings.Contains(after, change.TempPrefix) {
		t.Fatalf("something temporary is left:\n%s", after)
	}
	return before, after
}

func TestApply(t *testing.T) {
	s, err := everything(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.apply(nil); err != nil {
		t.Fatal(err)
	}
	s.clear(t)
	id := fmt.Sprintf(" %d:%d ", os.Getuid(), os.Getgid())
	var got []string
	for line := range strings.Lines(snapshotOf(s.dir)) {
		got = append(got, strings.TrimSpace(strings.Replace(line, id, " ", 1)))
	}
	want := `"." 40755` + id + `
"a.txt" 100640 "new a.txt"
"empty" 100644 ""
"file-to-folder" 40755
"file-to-folder/in" 40755
"file-to-folder/in/it" 100644 "new"
"file-to-link" 120777 -> "keep.txt"
"folder-to-file" 100644 "new"
"folder-to-link" 120777 -> "sub"
"hard1" 100644 "new hard1"
"hard2" 100644 "new hard2"
"keep.txt" 100644 "keep"
"link-to-file" 100644 "new link-to-file"
"link-to-folder" 40755
"link-to-folder/in" 100644 "new"
"link-to-link" 120777 -> "keep.txt"
"n" 40755
"n/link" 120777 -> "../keep.txt"
"n/m" 40755
"n/m/o" 100644 "new n/m/o"
"new.txt" 100644 "new new.txt"
"not" 40755
"not/in" 40755
"not/in/the" 40755
"not/in/the/list" 100644 "new not/in/the/list"
"run.sh" 100644 "new run.sh"
"set" 100644 "new set"
"stays" 40755
"sub" 40755
"sub/deep" 40755
"sub/deep/b" 100644 "new sub/deep/b"
"tool" 100700 "#!new"
"void" 40755`
	id = strings.TrimRight(id, " ")
	var lines []string
	for _, line := range got {
		lines = append(lines, strings.TrimSpace(strings.TrimSuffix(line, id)))
	}
	if got, want := strings.Join(lines, "\n"), strings.Replace(want, id+" ", "", 1); got != want {
		t.Errorf("the folder has\n%s\nwhich is\n%s", got, diffText(want, got))
	}
	if did, err := s.recover(nil); did != RecoveredNothing || err != nil {
		t.Errorf("Recover afterwards: %v, %v", did, err)
	}
}

func TestApplyNothing(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "a"})
	old := snapshotOf(s.dir)
	s.folder(".keep")
	s.changes = nil
	s.delete("b")
	if err := s.apply(nil); err != nil {
		t.Fatal(err)
	}
	if err := Apply(t.Context(), s.state, s.dir, nil, nil, s.since); err != nil {
		t.Fatal(err)
	}
	s.clear(t)
	if got := snapshotOf(s.dir); got != old {
		t.Error(diffText(old, got))
	}
}

// TestApplyOrder: Apply makes the system calls in the order that its comment promises.
func TestApplyOrder(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old", "d": "gone"})
	s.file("a", "new")
	s.folder("b")
	s.file("b/c", "#!new")
	s.link("b/l", "c")
	s.delete("d")
	var got []string
	err := s.apply(func(call, name string) error {
		if i := strings.Index(name, "-"); strings.HasPrefix(name, "apply-") && i > 0 {
			name = "JOURNAL"
			if j := strings.IndexByte(name, '/'); j >= 0 {
				name += name[j:]
			}
		}
		got = append(got, call+" "+name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got = slices.DeleteFunc(got, func(c string) bool { return strings.HasPrefix(c, "chown ") })
	want := strings.Split(`mkdir JOURNAL
create JOURNAL
write JOURNAL
fsync JOURNAL
create JOURNAL
write JOURNAL
fsync JOURNAL
create JOURNAL
write JOURNAL
fsync JOURNAL
fsync .
turn JOURNAL
fsync JOURNAL
mkdir a
fsync a
mkdir b
rename b
create a
write a
chmod a
fsync a
create b/c
write b/c
chmod b/c
fsync b/c
symlink b/l
exchange a
rename b/c
rename b/l
rename d
fsync .
fsync b
turn JOURNAL
fsync JOURNAL
unlink a
unlink d
fsync .
fsync b
rmdir a
fsync a
unlink JOURNAL
fsync JOURNAL
unlink JOURNAL
unlink JOURNAL
rmdir JOURNAL`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("the calls were\n%s", strings.Join(got, "\n"))
	}
}

// plainRenames simulates a file system that can neither exchange names nor rename without
// replacing.
func plainRenames(call, _ string) error {
	if call == "exchange" || call == "rename" {
		return unix.EINVAL
	}
	return nil
}

func TestApplyPlainly(t *testing.T) {
	_, after := applyStates(t, everything)
	s, err := everything(fastDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.apply(plainRenames); err != nil {
		t.Fatal(err)
	}
	s.clear(t)
	if got := snapshotOf(s.dir); got != after {
		t.Error(diffText(after, got))
	}
}

const (
	envKill    = "FIADOR_TEST_APPLY_KILL" // base folder, step to be killed at, "plain" or ""
	envUser    = "FIADOR_TEST_APPLY_USER" // set where the tests run as an ordinary user already
	killedCode = 77
)

// TestApplyChild is the process that TestApplyKilled kills.
func TestApplyChild(t *testing.T) {
	base, rest, ok := strings.Cut(os.Getenv(envKill), ":")
	if !ok {
		t.Skip("started by TestApplyKilled")
	}
	at, how, _ := strings.Cut(rest, ":")
	left, _ := strconv.Atoi(at)
	s, err := everything(base)
	if err != nil {
		t.Fatal(err)
	}
	err = s.apply(func(call, name string) error {
		if left--; left < 0 {
			os.Exit(killedCode)
		}
		if how == "plain" {
			return plainRenames(call, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestApplyKilled: a process is killed before any one system call; Recover then restores the
// old or the new state.
func TestApplyKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	before, after := applyStates(t, everything)
	for _, how := range []string{"", "plain"} {
		t.Run("renames "+how, func(t *testing.T) {
			committed, n, stride := -1, 0, rehearsal.Stride(11)
			for ; n < 2000; n += stride {
				base := fastDir(t)
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestApplyChild$")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d:%s", envKill, base, n, how))
				out, err := cmd.CombinedOutput()
				if err != nil && cmd.ProcessState.ExitCode() != killedCode {
					t.Fatalf("step %d: %v\n%s", n, err, out)
				}
				s := &applyScene{dir: filepath.Join(base, "tree"), state: filepath.Join(base, "state")}
				got := checkRecovered(t, s, n, before, after)
				if committed < 0 && got == after {
					committed = n
				}
				if committed >= 0 && got != after {
					t.Fatalf("killed at step %d the old state comes back, at step %d the new one came", n, committed)
				}
				_ = RemoveAll(base)
				if err == nil {
					break
				}
			}
			if committed < 0 || committed == n || n < 100 {
				t.Errorf("committed at %d of %d steps", committed, n)
			}
		})
	}
}

// checkRecovered recovers twice and returns the state of the folder.
func checkRecovered(t *testing.T, s *applyScene, at any, before, after string) string {
	t.Helper()
	if _, err := Recover(t.Context(), s.state, s.dir); err != nil {
		t.Fatalf("step %v: %v", at, err)
	}
	if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredNothing || err != nil {
		t.Fatalf("step %v: Recover has something to do again: %v", at, err)
	}
	s.clear(t)
	got := snapshotOf(s.dir)
	if got != before && got != after {
		t.Fatalf("step %v: the folder is in between\n%s", at, diffText(after, got))
	}
	return got
}

// deadFrom is a hook for a process that ends at a step: every later call fails.
func deadFrom(n int) func(call, name string) error {
	return func(string, string) error {
		if n--; n < 0 {
			return unix.EIO
		}
		return nil
	}
}

// TestApplyKilledTwice: after a recovery that is also killed, another recovery still works.
func TestApplyKilledTwice(t *testing.T) {
	before, after := applyStates(t, something)
	stride := rehearsal.Stride(7)
	for n := 0; ; n += stride {
		first := error(nil)
		for m := 0; ; m += stride {
			s, err := something(fastDir(t))
			if err != nil {
				t.Fatal(err)
			}
			first = s.apply(deadFrom(n))
			_, second := s.recover(deadFrom(m))
			checkRecovered(t, s, fmt.Sprint(n, " ", m), before, after)
			_ = RemoveAll(filepath.Dir(s.dir))
			if second == nil {
				break
			}
		}
		if first == nil {
			break
		}
	}
}

// failAt is a hook in which exactly the given steps fail.
func failAt(steps ...int) func(call, name string) error {
	n := -1
	return func(string, string) error {
		if n++; slices.Contains(steps, n) {
			return unix.ENOSPC
		}
		return nil
	}
}

// TestApplyFails: if any one system call fails, Apply returns with the old state restored or
// the new state complete. If a second call fails as well, Recover does the rest.
func TestApplyFails(t *testing.T) {
	before, after := applyStates(t, something)
	for _, make := range []func(string) (*applyScene, error){something, everything} {
		before, after := before, after
		full := fmt.Sprintf("%p", make) == fmt.Sprintf("%p", everything)
		if full {
			before, after = applyStates(t, everything)
		}
		for n := 0; ; n++ {
			s, err := make(fastDir(t))
			if err != nil {
				t.Fatal(err)
			}
			met := false
			hook := failAt(n)
			err = s.apply(func(call, name string) error {
				err := hook(call, name)
				met = met || err != nil
				return err
			})
			got, want := snapshotOf(s.dir), before
			if err == nil || errors.Is(err, ErrApplied) {
				want = after
			}
			switch {
			case errors.Is(err, ErrUnfinished):
				t.Errorf("step %d: %v", n, err)
			case errors.Is(err, ErrApplied):
				// A replaced entry may still exist.
			case got != want:
				t.Errorf("step %d: %v\n%s", n, err, diffText(want, got))
			}
			if got := checkRecovered(t, s, n, before, after); got != want {
				t.Errorf("step %d: recovered the wrong way", n)
			}
			_ = RemoveAll(filepath.Dir(s.dir))
			if !met {
				break
			}
		}
	}
	for n := 0; ; n++ {
		met := 0
		for m := n + 1; ; m++ {
			s, err := something(fastDir(t))
			if err != nil {
				t.Fatal(err)
			}
			hook := failAt(n, m)
			met = 0
			err = s.apply(func(call, name string) error {
				err := hook(call, name)
				if err != nil {
					met++
				}
				return err
			})
			got := snapshotOf(s.dir)
			if err != nil && !errors.Is(err, ErrApplied) && !errors.Is(err, ErrUnfinished) && got != before {
				t.Errorf("steps %d, %d: %v\n%s", n, m, err, diffText(before, got))
			}
			checkRecovered(t, s, fmt.Sprint(n, " ", m), before, after)
			_ = RemoveAll(filepath.Dir(s.dir))
			if met < 2 {
				break
			}
		}
		if met == 0 {
			break
		}
	}
}

// conflicts calls Apply and expects a conflict at a path and an unchanged folder.
func (s *applyScene) conflicts(t *testing.T, path string, before func(call, name string) error) {
	t.Helper()
	old := snapshotOf(s.dir)
	err := s.apply(before)
	var c *ConflictError
	if !errors.As(err, &c) || c.Path != path {
		t.Fatalf("error %v, want a conflict at %q", err, path)
	}
	s.clear(t)
	if before == nil {
		if got := snapshotOf(s.dir); got != old {
			t.Error(diffText(old, got))
		}
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestApplyConflicts: Apply overwrites no entry that somebody changed after the execution,
// and then applies nothing at all.
func TestApplyConflicts(t *testing.T) {
	things := map[string]string{"a": "old", "d/e/f": "old", "d/g": "old", "l": "-> a", "k/x": "x"}
	for _, c := range []struct {
		name, at string
		change   func(s *applyScene)
		meddle   func(dir string) error
	}{
		{"changed", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error { return os.WriteFile(d+"/a", []byte("mine"), 0) }},
		{"touched", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error { return os.Chmod(d+"/a", 0o600) }},
		{"replaced", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error { return os.Rename(d+"/d/g", d+"/a") }},
		{"deleted", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error { return os.Remove(d + "/a") }},
		{"a link now", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error {
			return errors.Join(os.Remove(d+"/a"), os.Symlink("/etc/passwd", d+"/a"))
		}},
		{"a folder now", "a", func(s *applyScene) { s.file("a", "new") }, func(d string) error { return errors.Join(os.Remove(d+"/a"), os.Mkdir(d+"/a", 0o755)) }},
		{"created", "b", func(s *applyScene) { s.file("b", "new") }, func(d string) error { return os.WriteFile(d+"/b", nil, 0o644) }},
		{"link created", "b", func(s *applyScene) { s.link("b", "a") }, func(d string) error { return os.Symlink("a", d+"/b") }},
		{"file where a folder goes", "b", func(s *applyScene) { s.folder("b") }, func(d string) error { return os.WriteFile(d+"/b", nil, 0o644) }},
		{"file where a folder above goes", "b/c", func(s *applyScene) { s.file("b/c", "new") }, func(d string) error { return os.WriteFile(d+"/b", nil, 0o644) }},
		{"deletion of what changed", "a", func(s *applyScene) { s.delete("a") }, func(d string) error { return os.WriteFile(d+"/a", []byte("mine"), 0) }},
		{"deletion of what is gone", "a", func(s *applyScene) { s.delete("a") }, func(d string) error { return os.Remove(d + "/a") }},
		{"deletion of what came", "b", func(s *applyScene) { s.delete("b") }, func(d string) error { return os.WriteFile(d+"/b", nil, 0o644) }},
		{"link changed", "l", func(s *applyScene) { s.link("l", "d") }, func(d string) error { return errors.Join(os.Remove(d+"/l"), os.Symlink("a", d+"/l")) }},
		{"folder deleted, file in it changed", "d", func(s *applyScene) { s.delete("d") }, func(d string) error { return os.WriteFile(d+"/d/e/f", []byte("mine"), 0) }},
		{"folder deleted, file came", "d", func(s *applyScene) { s.delete("d") }, func(d string) error { return os.WriteFile(d+"/d/e/h", nil, 0o644) }},
		{"folder deleted, file at its top came", "d", func(s *applyScene) { s.delete("d") }, func(d string) error { return os.WriteFile(d+"/d/h", nil, 0o644) }},
		{"folder replaced, file in it changed", "d", func(s *applyScene) { s.file("d", "new") }, func(d string) error { return os.WriteFile(d+"/d/e/f", []byte("mine"), 0) }},
		{"folder gone, file in it was to be replaced", "k/x", func(s *applyScene) { s.file("k/x", "new") }, func(d string) error { return os.RemoveAll(d + "/k") }},
		{"second of two", "b", func(s *applyScene) { s.file("a", "new"); s.file("b", "new") }, func(d string) error { return os.WriteFile(d+"/b", nil, 0o644) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustApplyScene(t, things)
			c.change(s)
			time.Sleep(20 * time.Millisecond) // older kernels have coarse times
			mustDo(t, c.meddle(s.dir))
			s.conflicts(t, c.at, nil)
		})
	}
	t.Run("changed while the command ran", func(t *testing.T) {
		s := mustApplyScene(t, things)
		time.Sleep(20 * time.Millisecond)
		mustDo(t, os.WriteFile(s.dir+"/a", []byte("mine"), 0))
		s.file("a", "new")
		s.conflicts(t, "a", nil)
	})
}

// TestApplyFits: these changes are no conflict.
func TestApplyFits(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old", "gone/x": "x"})
	s.folder("b")
	s.file("b/c", "new")
	s.file("gone/new", "new")
	mustDo(t, os.Mkdir(s.dir+"/b", 0o700))
	mustDo(t, os.WriteFile(s.dir+"/b/mine", nil, 0o644))
	mustDo(t, os.RemoveAll(s.dir+"/gone"))
	mustDo(t, s.apply(nil))
	for _, p := range []string{"b/mine", "b/c", "gone/new"} {
		if _, err := os.Lstat(filepath.Join(s.dir, p)); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(s.dir + "/b"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder that was there is %v, %v", info.Mode(), err)
	}
}

// onceAt is a hook that does something before the first such call.
func onceAt(call, name string, do func() error) func(call, name string) error {
	return func(c, n string) error {
		if c != call || n != name || do == nil {
			return nil
		}
		f := do
		do = nil
		return f()
	}
}

// TestApplyRaces: somebody changes a path after Apply has checked the folder and before
// Apply changes that path. That change stays; everything else is taken back.
func TestApplyRaces(t *testing.T) {
	things := map[string]string{"a": "old a", "b": "old b", "d/x": "x", "z/x": "x"}
	for _, c := range []struct {
		name, call, at, conflict string
		meddle                   func(dir string) error
		want                     map[string]string // in addition to the old entries; "" for a missing entry
	}{
		{"changed before its turn", "create", "a", "b", func(d string) error { return os.WriteFile(d+"/b", []byte("my longer b"), 0) },
			map[string]string{"b": "my longer b"}},
		{"replaced in the last moment", "exchange", "b", "b", func(d string) error {
			return errors.Join(os.WriteFile(d+"/mine", []byte("mine"), 0o644), os.Rename(d+"/mine", d+"/b"))
		}, map[string]string{"b": "mine"}},
		{"created in the last moment", "rename", "n/new", "n/new", func(d string) error { return os.WriteFile(d+"/n/new", []byte("mine"), 0o644) },
			map[string]string{"n/": "", "n/new": "mine"}},
		{"replaced before it is deleted", "rename", "d", "d", func(d string) error {
			return errors.Join(os.Rename(d+"/d", d+"/elsewhere"), os.WriteFile(d+"/d", []byte("mine"), 0o644))
		}, map[string]string{"d": "mine", "d/x": "", "elsewhere/": "", "elsewhere/x": "x"}},
		{"changed beneath what is deleted", "create", "a", "d", func(d string) error { return os.WriteFile(d+"/d/x", []byte("mine"), 0) },
			map[string]string{"d/x": "mine"}},
		{"folder in the way of a new one", "mkdir", "n", "", func(d string) error { return os.Mkdir(d+"/n", 0o755) }, nil},
		{"link in the place of a folder", "rename", "z/new", "z/x", func(d string) error {
			return errors.Join(os.Rename(d+"/z", d+"/elsewhere"), os.Symlink("elsewhere", d+"/z"))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustApplyScene(t, things)
			s.file("a", "new a")
			s.file("b", "new b")
			s.delete("d")
			s.folder("n")
			s.file("n/new", "new")
			s.file("z/new", "new")
			s.file("z/x", "new x")
			time.Sleep(20 * time.Millisecond)
			err := s.apply(onceAt(c.call, c.at, func() error { return c.meddle(s.dir) }))
			var conflict *ConflictError
			if c.conflict != "" && (!errors.As(err, &conflict) || conflict.Path != c.conflict) {
				t.Fatalf("error %v, want a conflict at %q", err, c.conflict)
			}
			if err == nil {
				t.Fatal("no error")
			}
			s.clear(t)
			if c.want == nil {
				return
			}
			want := map[string]string{}
			for _, from := range []map[string]string{things, c.want} {
				for p, text := range from {
					if text == "" && !strings.HasSuffix(p, "/") {
						delete(want, p)
					} else {
						want[p] = text
					}
				}
			}
			other, err := newApplyScene(fastDir(t), want)
			mustDo(t, err)
			if got, want := snapshotOf(s.dir), snapshotOf(other.dir); got != want {
				t.Error(diffText(want, got))
			}
		})
	}
}

// TestApplyPlantedLink: Apply follows no link in place of a folder, whether the link exists
// before or appears while changes are applied.
func TestApplyPlantedLink(t *testing.T) {
	for _, at := range []string{"before", "create out/f", "write out/f", "exchange out/g", "rename out/f"} {
		t.Run(at, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"out/g": "old"})
			outside := fastDir(t)
			mustDo(t, standUp(outside, map[string]string{"g": "theirs"}))
			theirs := snapshotOf(outside)
			s.file("out/f", "new")
			s.file("out/g", "new")
			plant := func() error {
				return errors.Join(os.Rename(s.dir+"/out", s.dir+"/away"), os.Symlink(outside, s.dir+"/out"))
			}
			hook := func(string, string) error { return nil }
			if at == "before" {
				mustDo(t, plant())
			} else {
				call, name, _ := strings.Cut(at, " ")
				hook = onceAt(call, name, plant)
			}
			if err := s.apply(hook); err == nil && at != "exchange out/g" {
				t.Error("no error") // allowed only in the last step, in a folder that was moved afterwards
			}
			if got := snapshotOf(outside); got != theirs {
				t.Errorf("written outside:\n%s", diffText(theirs, got))
			}
			if _, err := Recover(t.Context(), s.state, s.dir); err != nil {
				t.Error(err)
			}
			if got := snapshotOf(outside); got != theirs {
				t.Errorf("written outside:\n%s", diffText(theirs, got))
			}
		})
	}
}

// TestRecoverLeavesOthersAlone: changes that somebody makes after the kill stay, at
// whichever step the kill was.
func TestRecoverLeavesOthersAlone(t *testing.T) {
	for _, at := range []string{"create a", "exchange a", "exchange b", "rename d", "rename n", "fsync .", "turn clean", "unlink a"} {
		t.Run(at, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"a": "old a", "b": "old b", "d/x": "x"})
			s.file("a", "new a")
			s.file("b", "new b")
			s.file("n", "new n")
			s.delete("d")
			time.Sleep(20 * time.Millisecond)
			dead, turned := false, false
			err := s.apply(func(call, name string) error {
				turned = turned || call == "turn"
				dead = dead || at == call+" "+name && turned || call == "turn" && strings.HasSuffix(name, "clean") && at == "turn clean"
				if dead {
					return unix.EIO
				}
				return nil
			})
			if err == nil || !dead {
				t.Fatalf("not killed: %v", err)
			}
			mustDo(t, os.WriteFile(s.dir+"/mine", []byte("mine"), 0o644))
			mustDo(t, os.Rename(s.dir+"/mine", s.dir+"/b"))
			mustDo(t, os.WriteFile(s.dir+"/n", []byte("mine too"), 0o644))
			did, err := Recover(t.Context(), s.state, s.dir)
			if did != RecoveredForward || err != nil {
				t.Fatal(did, err)
			}
			s.clear(t)
			other, err := newApplyScene(fastDir(t), map[string]string{"a": "new a", "b": "mine", "n": "mine too"})
			mustDo(t, err)
			if got, want := snapshotOf(s.dir), snapshotOf(other.dir); got != want {
				t.Error(diffText(want, got))
			}
		})
	}
}

// TestUndoKeeps: if another entry is at the path when a deletion is taken back, both entries
// exist afterwards.
func TestUndoKeeps(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"d/x": "x", "z": "old"})
	s.delete("d")
	s.file("z", "new")
	err := s.apply(func(call, name string) error {
		if call == "exchange" {
			return errors.Join(unix.EIO, os.WriteFile(s.dir+"/d", []byte("mine"), 0o644))
		}
		return nil
	})
	var k *keptError
	if !errors.As(err, &k) || errors.Is(err, ErrUnfinished) {
		t.Fatalf("error %v", err)
	}
	s.clear(t)
	if b, err := os.ReadFile(filepath.Join(s.dir, k.name, "x")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := os.ReadFile(s.dir + "/d"); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestUndoLeavesOthersAlone: undo keeps an entry that somebody else made at a path where
// Apply was to make a new one.
func TestUndoLeavesOthersAlone(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	s.file("a", "new")
	s.folder("n")
	s.file("y", "new")
	s.link("z", "a")
	theirs := map[string]string{"n/x": "mine", "y": "min", "z": "-> y"}
	err := s.apply(func(call, name string) error {
		if call == "create" && name == "a" {
			return errors.Join(unix.EIO, standUp(s.dir, theirs))
		}
		return nil
	})
	if err == nil || errors.Is(err, ErrUnfinished) {
		t.Fatal(err)
	}
	s.clear(t)
	theirs["a"] = "old"
	other, err := newApplyScene(fastDir(t), theirs)
	mustDo(t, err)
	if got, want := snapshotOf(s.dir), snapshotOf(other.dir); got != want {
		t.Error(diffText(want, got))
	}
}

// TestApplyTogether: any number of calls for one folder wait for each other.
func TestApplyTogether(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	s.file("a", "new")
	const n = 12
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			mine := &applyScene{dir: s.dir, state: s.state, content: map[string]string{}, since: s.since}
			mine.file(fmt.Sprintf("dir/%d", i), "new")
			mine.changes = append(mine.changes, s.changes...)
			mine.content["a"] = "new"
			errs[i] = mine.apply(nil)
		})
		all.Go(func() {
			if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredNothing || err != nil {
				t.Error("Recover:", did, err)
			}
		})
	}
	all.Wait()
	s.clear(t)
	won := 0
	for i, err := range errs {
		_, there := os.Lstat(fmt.Sprintf("%s/dir/%d", s.dir, i))
		var c *ConflictError
		switch {
		case err == nil && there == nil:
			won++
		case !errors.As(err, &c) || c.Path != "a" || there == nil:
			t.Errorf("call %d: %v, file %v", i, err, there)
		}
	}
	if won != 1 {
		t.Errorf("%d calls replaced one file", won)
	}
}

// TestApplyTwoProcesses: the lock holds between processes too.
func TestApplyTwoProcesses(t *testing.T) {
	s := mustApplyScene(t, nil)
	s.file("a", "new")
	var st unix.Stat_t
	mustDo(t, unix.Stat(s.dir, &st))
	j, err := openJournal(t.Context(), s.state, &st, true, calls{})
	mustDo(t, err)
	done := make(chan error)
	go func() { done <- s.apply(nil) }()
	select {
	case err := <-done:
		t.Fatalf("the other one did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	j.close()
	mustDo(t, <-done)
	s.clear(t)
}

func TestApplyContent(t *testing.T) {
	for name, text := range map[string]string{"other": "newer", "short": "ne", "long": "newest", "missing": ""} {
		t.Run(name, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"a": "old"})
			old := snapshotOf(s.dir)
			s.file("a", "new")
			s.content["a"] = text
			if name == "missing" {
				delete(s.content, "a")
			}
			if err := s.apply(nil); err == nil {
				t.Error("no error")
			}
			s.clear(t)
			if got := snapshotOf(s.dir); got != old {
				t.Error(diffText(old, got))
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	f := func(path string) change.Change {
		return change.Change{Path: path, Kind: change.KindFile, SHA256: sha256.Sum256(nil)}
	}
	for _, list := range [][]change.Change{
		{f("")}, {f("/a")}, {f("../a")}, {f("a/../b")}, {f("a//b")}, {f("./a")}, {f("a/")}, {f("a\x00b")}, {f(strings.Repeat("a/", 4000) + "b")},
		{f("a"), f("a")}, {f("a"), f("a/b")}, {{Path: "a", Kind: change.KindDeleted}, f("a/b")}, {{Path: "a", Kind: change.KindLink, Target: "b"}, f("a/b")},
		{{Path: "a", Kind: change.KindOther}}, {{Path: "a"}}, {{Path: "a", Kind: change.KindLink}}, {{Path: "a", Kind: change.KindLink, Target: "b\x00"}},
		{{Path: "a", Kind: change.KindFile, Size: -1}}, {f("x/" + change.TempPrefix + "0011223344556677")},
	} {
		s := mustApplyScene(t, nil)
		s.changes = list
		s.content = map[string]string{"a": "", "": "", "b": "", "a/b": ""}
		if err := s.apply(nil); err == nil {
			t.Errorf("%.80q is applied", list[len(list)-1].Path)
		}
		s.clear(t)
	}
}

// TestApplyState: Apply makes the state folder and its parents; it refuses a state folder
// inside the folder itself.
func TestApplyState(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"d/": ""})
	s.file("a", "new")
	for _, state := range []string{s.dir, s.dir + "/state", s.dir + "/d/x/y", s.dir + "/d/../d"} {
		if err := Apply(t.Context(), state, s.dir, s.changes, s.open, s.since); err == nil {
			t.Errorf("%q is accepted", state)
		}
		if _, err := Recover(t.Context(), state, s.dir); err == nil {
			t.Errorf("%q is accepted", state)
		}
	}
	mustDo(t, os.Symlink(s.dir, filepath.Dir(s.dir)+"/link"))
	if err := Apply(t.Context(), filepath.Dir(s.dir)+"/link/d", s.dir, s.changes, s.open, s.since); err == nil {
		t.Error("a link into the folder is accepted")
	}
	deep := filepath.Join(filepath.Dir(s.dir), "new/deep/state")
	mustDo(t, Apply(t.Context(), deep, s.dir, s.changes, s.open, s.since))
	if info, err := os.Stat(deep); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
	if _, err := Recover(t.Context(), filepath.Join(s.dir, "..", "nowhere"), s.dir); err != nil {
		t.Error(err)
	}
	if _, err := Recover(t.Context(), s.state, s.dir+"/nowhere"); err == nil {
		t.Error("a folder that is not there is recovered")
	}
}

// journalOf makes a journal with a record for a scene, as a kill leaves it.
func journalOf(t *testing.T, s *applyScene) string {
	t.Helper()
	committed := false
	err := s.apply(func(call, _ string) error {
		if committed {
			return unix.EIO
		}
		committed = call == "turn"
		return nil
	})
	if !errors.Is(err, ErrUnfinished) {
		t.Fatal(err)
	}
	names, err := filepath.Glob(s.state + "/apply-*/apply")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return names[0]
}

// TestRecoverDamaged: Recover leaves an unreadable record as it is, and nothing is applied
// until a person has looked at it.
func TestRecoverDamaged(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"cut off":      func(b []byte) []byte { return b[:len(b)/2] },
		"empty":        func([]byte) []byte { return nil },
		"next version": func(b []byte) []byte { return bytes.Replace(b, []byte(`"version":1`), []byte(`"version":2`), 1) },
		"more members": func(b []byte) []byte { return bytes.Replace(b, []byte(`"version"`), []byte(`"more":1,"version"`), 1) },
		"path outside": func(b []byte) []byte { return bytes.Replace(b, []byte(`"path":"YQ=="`), []byte(`"path":"Li4="`), 1) },
		"other temp":   func(b []byte) []byte { return bytes.Replace(b, []byte(change.TempPrefix), []byte("aaaaaaaaaaaaaa"), 1) },
		"blob gone":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"a": "old"})
			s.file("a", "new")
			p := journalOf(t, s)
			if damage == nil {
				mustDo(t, os.Remove(filepath.Dir(p)+"/0"))
			} else {
				b, err := os.ReadFile(p)
				mustDo(t, err)
				mustDo(t, os.WriteFile(p, damage(b), 0o600))
			}
			_, err := Recover(t.Context(), s.state, s.dir)
			if err == nil {
				t.Fatal("no error")
			}
			old, err := newApplyScene(fastDir(t), map[string]string{"a": "old"})
			mustDo(t, err)
			if got, want := snapshotOf(s.dir), snapshotOf(old.dir); got != want {
				t.Error(diffText(want, got))
			}
			if damage != nil {
				if err := s.apply(nil); err == nil {
					t.Error("applied in spite of it")
				}
			} else {
				s.clear(t)
			}
		})
	}
}

// TestApplyRecoversFirst: Apply completes an unfinished record before anything else.
func TestApplyRecoversFirst(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	s.file("a", "new")
	journalOf(t, s)
	next := &applyScene{dir: s.dir, state: s.state, content: map[string]string{}, since: s.since}
	next.file("b", "next")
	mustDo(t, next.apply(nil))
	s.clear(t)
	for p, want := range map[string]string{"a": "new", "b": "next"} {
		if b, err := os.ReadFile(filepath.Join(s.dir, p)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
}

// TestApplyBehindAnother: if an earlier run cannot be completed, Apply returns an error that
// is neither ErrApplied nor ErrUnfinished.
func TestApplyBehindAnother(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	s.file("a", "new")
	stuck := func(call, name string) error {
		if call == "unlink" && name == "a" {
			return unix.EIO
		}
		return nil
	}
	if err := s.apply(stuck); !errors.Is(err, ErrApplied) {
		t.Fatal(err)
	}
	next := &applyScene{dir: s.dir, state: s.state, content: map[string]string{}, since: s.since}
	next.file("b", "next")
	if err := next.apply(stuck); err == nil || errors.Is(err, ErrApplied) || errors.Is(err, ErrUnfinished) {
		t.Error(err)
	}
	if _, err := os.Lstat(s.dir + "/b"); err == nil {
		t.Error("the later run is applied")
	}
	if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredForward || err != nil {
		t.Error(did, err)
	}
	s.clear(t)
}

// TestRecoverAnotherFolder: a folder has the inode of the folder of a record, and no
// operation of the record is done yet. Recover carries the record out only if the folder is
// certainly the same one.
func TestRecoverAnotherFolder(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *origin)
		did    Recovery
	}{
		"another birth and handle": {func(o *origin) { o.Birth++; o.Handle[0]++ }, RecoveredNothing},
		"the same":                 {func(o *origin) {}, RecoveredForward},
		"another birth":            {func(o *origin) { o.Birth++ }, RecoveredNothing},
		"another handle":           {func(o *origin) { o.Handle[0]++ }, RecoveredNothing},
		"unknown birth":            {func(o *origin) { o.Birth = 0; o.Handle[0]++ }, RecoveredNothing},
		"unknown handle":           {func(o *origin) { o.Birth++; o.Handle = nil }, RecoveredNothing},
		"nothing known":            {func(o *origin) { *o = origin{} }, RecoveredNothing},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"a": "old"})
			s.file("a", "new")
			p := journalOf(t, s)
			b, err := os.ReadFile(p)
			mustDo(t, err)
			var r record
			mustDo(t, json.Unmarshal(b, &r))
			if r.Origin.Birth == 0 || len(r.Origin.Handle) == 0 {
				t.Skip("the file system does not tell folders apart")
			}
			c.change(&r.Origin)
			b, err = json.Marshal(&r)
			mustDo(t, err)
			mustDo(t, os.WriteFile(p, b, 0o600))
			if did, err := Recover(t.Context(), s.state, s.dir); did != c.did || err != nil {
				t.Error(did, err)
			}
			s.clear(t)
			want := map[Recovery]string{RecoveredForward: "new", RecoveredNothing: "old"}[c.did]
			if b, err := os.ReadFile(s.dir + "/a"); err != nil || string(b) != want {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// TestApplyReadOnlyParts: a folder that nobody may write is deleted together with a folder
// above it. A change inside a folder that nobody may write fails.
func TestApplyReadOnlyParts(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"d/ro/x": "x", "e/x": "old", "z": "old"})
	mustDo(t, os.Chmod(s.dir+"/d/ro", 0o555))
	s.since = time.Now()
	s.delete("d")
	mustDo(t, s.apply(nil))
	s.clear(t)
	if _, err := os.Lstat(s.dir + "/d"); err == nil {
		t.Error("the folder is still there")
	}
	if os.Getuid() == 0 {
		return
	}
	s.changes = nil
	mustDo(t, os.Chmod(s.dir+"/e", 0o555))
	s.file("z", "new")
	s.file("e/x", "new")
	s.since = time.Now()
	old := snapshotOf(s.dir)
	if err := s.apply(nil); !errors.Is(err, unix.EACCES) || errors.Is(err, ErrUnfinished) {
		t.Errorf("error %v", err)
	}
	s.clear(t)
	if got := snapshotOf(s.dir); got != old {
		t.Error(diffText(old, got))
	}
	mustDo(t, os.Chmod(s.dir+"/e", 0o755))
	s.changes = nil
	mustDo(t, os.Chmod(s.dir, 0o555))
	s.file("new", "new")
	if err := s.apply(nil); !errors.Is(err, unix.EACCES) {
		t.Errorf("error %v", err)
	}
	s.clear(t)
	mustDo(t, os.Chmod(s.dir, 0o755))
}

// mountedDir returns a new folder with a file system of its own in memory.
func mountedDir(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestApplyReadOnlyDisk(t *testing.T) {
	base := mountedDir(t, "size=1m")
	s, err := newApplyScene(base, map[string]string{"a": "old"})
	mustDo(t, err)
	s.state = fastDir(t)
	s.file("a", "new")
	old := snapshotOf(s.dir)
	mustDo(t, unix.Mount("", base, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := s.apply(nil); !errors.Is(err, unix.EROFS) || errors.Is(err, ErrUnfinished) {
		t.Errorf("error %v", err)
	}
	s.clear(t)
	if got := snapshotOf(s.dir); got != old {
		t.Error(diffText(old, got))
	}
}

// TestApplyDiskFull: the disk has no room for the files, for the blobs, or for both, which
// are on the same full disk.
func TestApplyDiskFull(t *testing.T) {
	for _, where := range []string{"files", "blobs", "both"} {
		for _, size := range []int{1 << 19, 3 << 19, 4 << 20} {
			t.Run(fmt.Sprint(where, " ", size), func(t *testing.T) {
				base := mountedDir(t, "size=2m")
				tree := base
				if where == "blobs" {
					tree = fastDir(t)
				}
				s, err := newApplyScene(tree, map[string]string{"a": "old", "d/x": "x", "z": "old"})
				mustDo(t, err)
				switch where {
				case "files":
					s.state = fastDir(t)
				case "blobs":
					s.state = base + "/state"
				}
				s.file("a", "new")
				s.delete("d")
				s.file("n/big", strings.Repeat("x", size))
				s.file("z", "new")
				old := snapshotOf(s.dir)
				err = s.apply(nil)
				fits := size < 2<<20 && where != "both" || size < 1<<20
				if fits != (err == nil) || !fits && !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrUnfinished) {
					t.Errorf("error %v", err)
				}
				s.clear(t)
				if got := snapshotOf(s.dir); !fits && got != old {
					t.Error(diffText(old, got))
				}
			})
		}
	}
}

// TestApplyMounts: Apply deletes nothing that is mounted in a folder and moves no mount
// point.
func TestApplyMounts(t *testing.T) {
	base := mountedDir(t, "size=1m")
	s, err := newApplyScene(base, map[string]string{"d/m/": "", "e/": "", "z": "old"})
	mustDo(t, err)
	outside := fastDir(t)
	mustDo(t, standUp(outside, map[string]string{"x": "theirs"}))
	for _, at := range []string{"/d/m", "/e"} {
		mustDo(t, unix.Mount(outside, s.dir+at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(s.dir+at, unix.MNT_DETACH) })
	}
	s.since = time.Now()
	s.delete("d")
	s.conflicts(t, "d", nil)
	s.changes = nil
	s.file("z", "new")
	s.delete("e")
	s.conflicts(t, "e", nil)
	if _, err := os.Stat(outside + "/x"); err != nil {
		t.Error(err)
	}
}

// TestApplyLayers: Apply deletes and replaces folders of an overlay's lower layer, which
// cannot be renamed. A kill or a failure in between has the same result as elsewhere.
func TestApplyLayers(t *testing.T) {
	base := mountedDir(t, "size=64m")
	const most = 150
	things := map[string]string{"a": "old", "d/e/x": "x", "d/y": "y", "f/x": "x", "l/x": "x"}
	for i := range most {
		mustDo(t, standUp(fmt.Sprintf("%s/lower/%d", base, i), things))
	}
	for _, dir := range []string{"upper", "work", "merged", "states"} {
		mustDo(t, os.Mkdir(base+"/"+dir, 0o755))
	}
	err := unix.Mount("overlay", base+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base))
	if err != nil {
		t.Skipf("cannot mount an overlay: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(base+"/merged", unix.MNT_DETACH) })
	next := 0
	scene := func() *applyScene {
		if next == most {
			t.Fatal("more steps than folders")
		}
		s := &applyScene{dir: fmt.Sprintf("%s/merged/%d", base, next), state: fmt.Sprintf("%s/states/%d", base, next), content: map[string]string{}, since: time.Now()}
		next++
		s.file("a", "new")
		s.delete("d")
		s.file("f", "new")
		s.link("l", "a")
		return s
	}
	s := scene()
	before := snapshotOf(s.dir)
	mustDo(t, s.apply(nil))
	s.clear(t)
	after := snapshotOf(s.dir)
	other, err := newApplyScene(fastDir(t), map[string]string{"a": "new", "f": "new", "l": "-> a"})
	mustDo(t, err)
	if want := snapshotOf(other.dir); after != want {
		t.Fatal(diffText(want, after))
	}
	for _, hook := range []func(int) func(string, string) error{deadFrom, func(n int) func(string, string) error { return failAt(n) }} {
		for n := 0; ; n++ {
			s := scene()
			met := false
			do := hook(n)
			err := s.apply(func(call, name string) error {
				err := do(call, name)
				met = met || err != nil
				return err
			})
			got := checkRecovered(t, s, n, before, after)
			if (err == nil || errors.Is(err, ErrApplied)) != (got == after) && !errors.Is(err, ErrUnfinished) {
				t.Errorf("step %d: %v\n%s", n, err, got)
			}
			if !met {
				break
			}
		}
	}
}

// TestApplyOwners: if root applies, a new entry belongs to the owner of the folder, and a
// replacement to the owner of the old entry. Neither has set-id bits.
func TestApplyOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	s := mustApplyScene(t, map[string]string{"a": "4755 #!old", "b": "2640 old", "c/d": "old", "l": "-> a"})
	mustDo(t, os.Chown(s.dir, 1234, 1235))
	mustDo(t, os.Lchown(s.dir+"/a", 555, 556))
	mustDo(t, unix.Chmod(s.dir+"/a", 0o4755))
	mustDo(t, unix.Chmod(s.dir+"/b", 0o2640))
	s.since = time.Now()
	s.file("a", "#!new")
	s.file("b", "new")
	s.folder("n")
	s.file("n/f", "#!new")
	s.link("n/l", "f")
	s.link("l", "b")
	s.file("x/y", "new")
	mustDo(t, s.apply(nil))
	want := `"." 40755 1234:1235
"a" 100755 555:556 "#!new"
"b" 100640 0:0 "new"
"c" 40755 0:0
"c/d" 100644 0:0 "old"
"l" 120777 1234:1235 -> "b"
"n" 40755 1234:1235
"n/f" 100755 1234:1235 "#!new"
"n/l" 120777 1234:1235 -> "f"
"x" 40755 1234:1235
"x/y" 100644 1234:1235 "new"
`
	if got := snapshotOf(s.dir); got != want {
		t.Error(diffText(want, got))
	}
}

func TestExecutable(t *testing.T) {
	for _, c := range []struct {
		old  uint32
		yes  bool
		want uint32
	}{
		{0o644, true, 0o755}, {0o644, false, 0o644}, {0o600, true, 0o700}, {0o640, true, 0o750}, {0o755, false, 0o644},
		{0o744, true, 0o744}, {0o711, false, 0o600}, {0, true, 0o100}, {0o200, true, 0o300}, {0o666, true, 0o777},
	} {
		if got := executable(c.old, c.yes); got != c.want {
			t.Errorf("executable(%o, %v) = %o, want %o", c.old, c.yes, got, c.want)
		}
	}
}

// TestApplyMany: a thousand files, which would fail if each file left a descriptor open.
func TestApplyMany(t *testing.T) {
	s := mustApplyScene(t, nil)
	for i := range 1000 {
		s.file(fmt.Sprintf("d%d/e/f%d", i%50, i), fmt.Sprint(i))
	}
	mustDo(t, s.apply(nil))
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(open) > 100 {
		t.Errorf("%d descriptors are open, %v", len(open), err)
	}
	s.clear(t)
}

// TestApplyAsUser: if root runs the tests, it runs the tests of Apply again as an ordinary
// user.
func TestApplyAsUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(envUser) != "" {
		t.Skip("started by root alone")
	}
	dir, err := os.MkdirTemp("", "fiador-test-")
	mustDo(t, err)
	t.Cleanup(func() { _ = RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	mustDo(t, err)
	mustDo(t, os.WriteFile(dir+"/test", self, 0o755))
	mustDo(t, os.Chmod(dir, 0o755))
	mustDo(t, os.Mkdir(dir+"/tmp", 0o755))
	mustDo(t, os.Chown(dir+"/tmp", 65534, 65534))
	cmd := exec.Command(dir+"/test", "-test.run=^Test(Apply|Recover|Undo)", "-test.short")
	cmd.Dir = dir + "/tmp"
	cmd.Env = rehearsal.Env(envUser+"=1", rehearsal.Form(), "TMPDIR="+dir+"/tmp", "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
