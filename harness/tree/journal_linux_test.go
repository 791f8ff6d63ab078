//go:build linux && (amd64 || arm64)

package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// mixed makes a scene with operations that leave no temporary name after they are done,
// among others: new folders and new files before deleted entries.
func mixed(base string) (*applyScene, error) {
	s, err := newApplyScene(base, map[string]string{"m": "old", "x": "gone", "y/f": "gone", "z": "gone"})
	if err != nil {
		return nil, err
	}
	s.folder("a")
	s.folder("b")
	s.file("c", "new")
	s.file("d/e/f", "new")
	s.file("m", "new")
	for _, p := range []string{"x", "y", "z"} {
		s.delete(p)
	}
	return s, nil
}

// inDoubt changes the records of a scene as on a file system that cannot identify its
// folders. It returns the number of changed records.
func (s *applyScene) inDoubt(t *testing.T, doubt func(o *origin)) int {
	t.Helper()
	return s.rewrite(t, func(r *record) { doubt(&r.Origin) })
}

// rewrite changes the records of a scene and returns their number.
func (s *applyScene) rewrite(t *testing.T, change func(r *record)) int {
	t.Helper()
	names, err := filepath.Glob(s.state + "/apply-*/*")
	mustDo(t, err)
	n := 0
	for _, name := range names {
		if p := phase(filepath.Base(name)); p != phaseApply && p != phaseUndo && p != phaseClean {
			continue
		}
		b, err := os.ReadFile(name)
		mustDo(t, err)
		var r record
		mustDo(t, json.Unmarshal(b, &r))
		change(&r)
		b, err = json.Marshal(&r)
		mustDo(t, err)
		mustDo(t, os.WriteFile(name, b, 0o600))
		n++
	}
	return n
}

// doubts are the facts that a file system may not know.
var doubts = map[string]func(o *origin){
	"no handle":     func(o *origin) { o.Birth++; o.Handle = nil },
	"other handle":  func(o *origin) { o.Handle = append(o.Handle, 1) },
	"nothing known": func(o *origin) { *o = origin{} },
}

// killedOrFailed returns the faults for a step: the process ends, or the call fails and the
// process ends while the changes are taken back.
func killedOrFailed(n int) []func(call, name string) error {
	hooks := []func(call, name string) error{deadFrom(n)}
	for _, later := range []int{1, 3, 6, 9} {
		fail, dead := failAt(n), deadFrom(n+later)
		hooks = append(hooks, func(call, name string) error {
			if err := fail(call, name); err != nil {
				_ = dead(call, name)
				return err
			}
			return dead(call, name)
		})
	}
	return hooks
}

// TestRecoverDoubt: even if a record may belong to another folder, a kill at any step leads
// to the old or the new state.
func TestRecoverDoubt(t *testing.T) {
	for name, make := range map[string]func(string) (*applyScene, error){"mixed": mixed, "something": something} {
		before, after := applyStates(t, make)
		for why, doubt := range doubts {
			t.Run(name+" "+why, func(t *testing.T) {
				carried := 0
				for n, ended := 0, false; !ended; n++ {
					for i := range killedOrFailed(n) {
						s, err := make(fastDir(t))
						mustDo(t, err)
						err = s.apply(killedOrFailed(n)[i])
						ended = ended || err == nil
						carried += s.inDoubt(t, doubt)
						checkRecovered(t, s, fmt.Sprint(n, " ", i), before, after)
						_ = RemoveAll(filepath.Dir(s.dir))
					}
				}
				if carried < 40 {
					t.Errorf("%d records", carried)
				}
			})
		}
	}
}

// replaced puts another folder in place of a scene's folder and gives it the journal, as if
// it had the inode of the old folder.
func (s *applyScene) replaced(t *testing.T, things map[string]string) {
	t.Helper()
	mustDo(t, os.Rename(s.dir, s.dir+".gone"))
	mustDo(t, os.Mkdir(s.dir, 0o755))
	mustDo(t, standUp(s.dir, things))
	s.renameJournal(t, func(dev, _ uint64) (uint64, uint64) {
		var st unix.Stat_t
		mustDo(t, unix.Stat(s.dir, &st))
		return uint64(st.Dev), st.Ino
	})
}

// renameJournal renames the journal of a scene, if there is one, to that of another folder.
func (s *applyScene) renameJournal(t *testing.T, to func(dev, ino uint64) (uint64, uint64)) {
	t.Helper()
	names, err := filepath.Glob(s.state + "/apply-*")
	mustDo(t, err)
	for _, name := range names {
		var dev, ino uint64
		_, err := fmt.Sscanf(filepath.Base(name), "apply-%x-%x", &dev, &ino)
		mustDo(t, err)
		dev, ino = to(dev, ino)
		mustDo(t, os.Rename(name, filepath.Join(s.state, fmt.Sprintf("apply-%x-%x", dev, ino))))
	}
}

// TestRecoverNewFolder: Recover changes nothing in a folder that has the inode of a removed
// one, whatever the file system knows about both.
func TestRecoverNewFolder(t *testing.T) {
	things := map[string]string{"README": "mine", "a": "mine", "c": "new", "m": "mine", "x": "mine", "y/f": "mine", "f": "mine", "b/": ""}
	want, err := newApplyScene(fastDir(t), things)
	mustDo(t, err)
	old := snapshotOf(want.dir)
	for why, doubt := range doubts {
		t.Run(why, func(t *testing.T) {
			dropped := 0
			for n := 0; ; n++ {
				s, err := mixed(fastDir(t))
				mustDo(t, err)
				ended := s.apply(deadFrom(n)) == nil
				dropped += s.inDoubt(t, doubt)
				s.replaced(t, things)
				if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredNothing || err != nil {
					t.Fatal(n, did, err)
				}
				if got := snapshotOf(s.dir); got != old {
					t.Fatalf("step %d\n%s", n, diffText(old, got))
				}
				s.clear(t)
				_ = RemoveAll(filepath.Dir(s.dir))
				if ended {
					break
				}
			}
			if dropped < 20 {
				t.Errorf("%d records", dropped)
			}
		})
	}
}

// TestApplyMark: the mark is beside the first operation's path, where the user may write,
// and needs no right elsewhere.
func TestApplyMark(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"d/f": "old"})
	s.file("d/f", "new")
	mustDo(t, os.Chmod(s.dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(s.dir, 0o755) })
	s.since = time.Now()
	marked := false
	mustDo(t, s.apply(func(call, name string) error {
		if call == "exchange" {
			names, err := os.ReadDir(s.dir + "/d")
			mustDo(t, err)
			for _, n := range names {
				marked = marked || n.IsDir() && strings.HasPrefix(n.Name(), change.TempPrefix)
			}
		}
		return nil
	}))
	s.clear(t)
	if names, err := os.ReadDir(s.dir + "/d"); err != nil || len(names) != 1 || !marked {
		t.Errorf("%v, %v, marked: %v", names, err, marked)
	}
}

// remounted changes the journal of a scene as if the folder had another device number
// before. It says whether there is a record.
func (s *applyScene) remounted(t *testing.T) bool {
	t.Helper()
	const before = 0xfffe
	n := s.rewrite(t, func(r *record) {
		r.Origin.Handle = nil
		for i := range r.Operations {
			if was := r.Operations[i].Was; was != nil {
				was.Device = before
			}
		}
	})
	s.renameJournal(t, func(_, ino uint64) (uint64, uint64) { return before, ino })
	return n > 0
}

// TestRecoverRemounted: a folder whose device number changed is in the old or the new state
// after recovery, and is not recovered twice.
func TestRecoverRemounted(t *testing.T) {
	for name, make := range map[string]func(string) (*applyScene, error){"mixed": mixed, "something": something} {
		t.Run(name, func(t *testing.T) {
			before, after := applyStates(t, make)
			carried := 0
			for n := 0; ; n++ {
				s, err := make(fastDir(t))
				mustDo(t, err)
				ended := s.apply(deadFrom(n)) == nil
				s.remounted(t)
				half, err := Unfinished(t.Context(), s.state, s.dir)
				mustDo(t, err)
				did, err := Recover(t.Context(), s.state, s.dir)
				if err != nil || half != (did != RecoveredNothing) {
					t.Fatal(n, half, did, err)
				}
				if half {
					carried++
					s.clear(t)
				}
				if got := snapshotOf(s.dir); got != before && got != after {
					t.Fatalf("step %d\n%s", n, diffText(before, got))
				}
				_ = RemoveAll(filepath.Dir(s.dir))
				if ended {
					break
				}
			}
			if carried < 15 {
				t.Errorf("%d records were carried on", carried)
			}
		})
	}
}

// TestRecoverOtherDevice: Recover does not touch the journal of a folder with the same inode
// on another device, whether a process holds that journal or not.
func TestRecoverOtherDevice(t *testing.T) {
	s, err := mixed(fastDir(t))
	mustDo(t, err)
	if s.apply(deadFrom(30)) == nil || !s.remounted(t) {
		t.Fatal("there is no record")
	}
	mustDo(t, os.Rename(s.dir, s.dir+".there"))
	mustDo(t, os.Mkdir(s.dir, 0o755))
	s.renameJournal(t, func(dev, _ uint64) (uint64, uint64) {
		var st unix.Stat_t
		mustDo(t, unix.Stat(s.dir, &st))
		return dev, st.Ino
	})
	s.changes, s.content = nil, map[string]string{}
	s.file("own", "new")
	mustDo(t, s.apply(nil))
	if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredNothing || err != nil {
		t.Error(did, err)
	}
	if names, err := os.ReadDir(s.dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
	if names, err := filepath.Glob(s.state + "/apply-*/apply"); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestRecoverThirdDevice: if the old content of the folder cannot be known, Recover changes
// nothing in it.
func TestRecoverThirdDevice(t *testing.T) {
	s, err := mixed(fastDir(t))
	mustDo(t, err)
	if s.apply(deadFrom(40)) == nil || !s.remounted(t) {
		t.Fatal("there is no record")
	}
	s.rewrite(t, func(r *record) {
		for i := range r.Operations {
			if was := r.Operations[i].Was; was != nil {
				was.Device++
			}
		}
	})
	old := snapshotOf(s.dir)
	if _, err := Recover(t.Context(), s.state, s.dir); err == nil || !strings.Contains(err.Error(), "device has changed") {
		t.Error(err)
	}
	if err := s.apply(nil); err == nil {
		t.Error("applied in spite of it")
	}
	if got := snapshotOf(s.dir); got != old {
		t.Error(diffText(old, got))
	}
}

// TestUnfinished: Unfinished finds half-done changes. It changes neither the folder nor the
// state folder, and makes no state folder.
func TestUnfinished(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	if half, err := Unfinished(t.Context(), s.state, s.dir); half || err != nil {
		t.Error(half, err)
	}
	if _, err := os.Stat(s.state); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	s.file("a", "new")
	journalOf(t, s)
	for range 2 {
		if half, err := Unfinished(t.Context(), s.state, s.dir); !half || err != nil {
			t.Error(half, err)
		}
	}
	if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredForward || err != nil {
		t.Error(did, err)
	}
	s.clear(t)
}

// TestApplyBusy: a caller that waits for another call is told so, and can stop waiting.
func TestApplyBusy(t *testing.T) {
	s := mustApplyScene(t, map[string]string{"a": "old"})
	s.file("a", "new")
	old := snapshotOf(s.dir)
	var st unix.Stat_t
	mustDo(t, unix.Stat(s.dir, &st))
	j, err := openJournal(t.Context(), s.state, &st, true, calls{})
	mustDo(t, err)
	for name, call := range map[string]func(ctx context.Context) error{
		"apply":      func(ctx context.Context) error { return Apply(ctx, s.state, s.dir, s.changes, s.open, s.since) },
		"recover":    func(ctx context.Context) error { _, err := Recover(ctx, s.state, s.dir); return err },
		"unfinished": func(ctx context.Context) error { _, err := Unfinished(ctx, s.state, s.dir); return err },
	} {
		ctx, stop := context.WithCancel(t.Context())
		var told atomic.Int32
		err := call(WithWaiting(ctx, func() {
			told.Add(1)
			time.AfterFunc(100*time.Millisecond, stop)
		}))
		stop()
		if !errors.Is(err, ErrBusy) || told.Load() != 1 {
			t.Errorf("%s: %v, told %d times", name, err, told.Load())
		}
	}
	if got := snapshotOf(s.dir); got != old {
		t.Error(diffText(old, got))
	}
	j.close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Recover(WithWaiting(ctx, func() { t.Error("it waits for nobody") }), s.state, s.dir); err != nil {
		t.Error(err)
	}
	s.clear(t)
}

// TestApplyForeignState: Apply carries out nothing from a state folder or a journal that
// another user could have written.
func TestApplyForeignState(t *testing.T) {
	for name, plant := range map[string]func(state, journal string) error{
		"state of all":       func(state, _ string) error { return os.Chmod(state, 0o777) },
		"state of a group":   func(state, _ string) error { return os.Chmod(state, 0o770) },
		"sticky state":       func(state, _ string) error { return os.Chmod(state, 0o777|fs.ModeSticky) },
		"journal of all":     func(_, journal string) error { return os.Chmod(journal, 0o702) },
		"journal of a group": func(_, journal string) error { return os.Chmod(journal, 0o720) },
		"state of another":   func(state, _ string) error { return os.Lchown(state, 1234, 1234) },
		"journal of another": func(_, journal string) error { return os.Lchown(journal, 1234, 1234) },
		"state behind a link": func(state, _ string) error {
			return errors.Join(os.Lchown(state, 1234, 1234), os.Rename(state, state+"2"), os.Symlink(state+"2", state))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApplyScene(t, map[string]string{"a": "old"})
			s.file("a", "new")
			journal := filepath.Dir(journalOf(t, s))
			old := snapshotOf(s.dir)
			if err := plant(s.state, journal); errors.Is(err, fs.ErrPermission) {
				t.Skipf("only root gives folders away: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if did, err := Recover(t.Context(), s.state, s.dir); did != RecoveredNothing || !errors.Is(err, ErrNotOwn) {
				t.Error(did, err)
			}
			if half, err := Unfinished(t.Context(), s.state, s.dir); half || !errors.Is(err, ErrNotOwn) {
				t.Error(half, err)
			}
			if err := s.apply(nil); !errors.Is(err, ErrNotOwn) {
				t.Error(err)
			}
			if got := snapshotOf(s.dir); got != old {
				t.Error(diffText(old, got))
			}
		})
	}
}
