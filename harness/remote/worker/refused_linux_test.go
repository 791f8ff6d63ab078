//go:build linux && (amd64 || arm64)

package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// canaried adds to a spec, whose commands run without isolation, a command that leaves a file
// outside its sandbox. It returns a function that says whether the command was started.
func canaried(t *testing.T, l *laid) (started func() bool) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(l.dir), "canary")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	l.spec.Actions = append(l.spec.Actions, job.Action{Argv: []string{"sh", "-c", "echo started >" + filepath.Join(dir, "started")}})
	return func() bool {
		_, err := os.Stat(filepath.Join(dir, "started"))
		return err == nil
	}
}

// refused checks that the shim refuses an action and has started no command.
func refused(t *testing.T, l *laid, started func() bool, kind string) *job.Refusal {
	t.Helper()
	a := l.perform(t)
	if a.Refused == nil {
		t.Fatalf("it was performed: %s", a.result)
	}
	if a.Refused.Kind != kind || a.Refused.Message == "" || len(a.Steps)+len(a.Changes) > 0 || started() {
		t.Errorf("refused with %+v, a command started: %t; want kind %s", a.Refused, started(), kind)
	}
	return a.Refused
}

// inputs makes a small work folder.
func inputs(t *testing.T) (dir string, list []job.Entry) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"a", "a/b", "z"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/b/file", "a/file", "top"} {
		if err := copiedText(filepath.Join(dir, name), []byte("content of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, lists(t, dir)
}

// wrongs are the ways in which a worker can have other inputs than the spec lists. Each changes
// the laid out work folder.
var wrongs = map[string]func(work string) error{
	"nothing wrong":  func(string) error { return nil },
	"a missing file": func(work string) error { return os.Remove(filepath.Join(work, "a/file")) },
	"no file at all": os.RemoveAll,
	"other bytes": func(work string) error {
		return os.WriteFile(filepath.Join(work, "a/file"), []byte("longer than that"), 0)
	},
	"fewer bytes": func(work string) error { return os.Truncate(filepath.Join(work, "top"), 3) },
	"more bytes":  func(work string) error { return os.Truncate(filepath.Join(work, "top"), 1<<20) },
	"other bytes of the same size": func(work string) error {
		return os.WriteFile(filepath.Join(work, "a/file"), []byte("CONTENT OF a/file"), 0)
	},
	"an extra file":            func(work string) error { return os.WriteFile(filepath.Join(work, "a/more"), nil, 0o644) },
	"an extra file at the top": func(work string) error { return os.WriteFile(filepath.Join(work, "\xff"), nil, 0o644) },
	"an extra folder":          func(work string) error { return os.Mkdir(filepath.Join(work, "a/more"), 0o755) },
	"an extra folder with a file": func(work string) error {
		return errors.Join(os.Mkdir(filepath.Join(work, "more"), 0o755), os.WriteFile(filepath.Join(work, "more/x"), nil, 0o644))
	},
	"an extra link": func(work string) error { return os.Symlink("top", filepath.Join(work, "more")) },
	"a link instead of a file": func(work string) error {
		return errors.Join(os.Rename(filepath.Join(work, "top"), filepath.Join(work, "../top")), os.Symlink("../top", filepath.Join(work, "top")))
	},
	"a link instead of a folder": func(work string) error {
		return errors.Join(os.Rename(filepath.Join(work, "a/b"), filepath.Join(work, "../b")), os.Symlink("../../b", filepath.Join(work, "a/b")))
	},
	"a FIFO instead of a file": func(work string) error {
		return errors.Join(os.Remove(filepath.Join(work, "top")), syscall.Mkfifo(filepath.Join(work, "top"), 0o644))
	},
	"a folder instead of a file": func(work string) error {
		return errors.Join(os.Remove(filepath.Join(work, "top")), os.Mkdir(filepath.Join(work, "top"), 0o755))
	},
	"a file instead of a folder": func(work string) error { return os.WriteFile(filepath.Join(work, "z"), nil, 0o644) },
	"a file instead of all": func(work string) error {
		return errors.Join(os.RemoveAll(work), os.WriteFile(work, nil, 0o644))
	},
}

// TestWrongInputs: an input root that is not exactly what the spec lists is refused before
// anything starts. The work folder and the tree are held against their lists alike.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	for name, wrong := range wrongs {
		for _, folder := range []string{job.WorkDir, job.TreeDir} {
			t.Run(name+", "+folder, func(t *testing.T) {
				from, list := inputs(t)
				s := specOf(sandbox.None)
				if s.Work = list; folder == job.TreeDir {
					s.Work, s.Tree, s.ShowsTree = nil, list, true
				}
				l := newAction(t, s, "", nil)
				layInputs(t, from, filepath.Join(l.dir, folder), list, copied(0o644, 0))
				started := canaried(t, l)
				if err := wrong(filepath.Join(l.dir, folder)); err != nil {
					t.Fatal(err)
				}
				if name == "nothing wrong" { // a canary that never sings proves nothing
					if a := l.perform(t); a.Refused != nil || !started() {
						t.Errorf("the command was not started: %s", a.result)
					}
					return
				}
				if r := refused(t, l, started, job.RefusedInputs); !strings.Contains(r.Message, folder) {
					t.Errorf("the message names no path: %s", r.Message)
				}
			})
		}
	}
}

// TestHiddenTree: files of a tree that the spec does not show are refused.
func TestHiddenTree(t *testing.T) {
	t.Parallel()
	from, list := inputs(t)
	l := newAction(t, specOf(sandbox.None), "", nil)
	started := canaried(t, l)
	layInputs(t, from, filepath.Join(l.dir, job.TreeDir), list, copied(0o644, 0))
	refused(t, l, started, job.RefusedInputs)
	l = newAction(t, specOf(sandbox.None), "", nil)
	l.spec.Tree = list
	refused(t, l, canaried(t, l), job.RefusedSpec)
}

// TestHostileLists: a list with an entry that could come to stand elsewhere, or with too much, is
// refused before anything is laid out.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	text := []byte("x")
	file := func(path string) job.Entry {
		return job.Entry{Path: path, Kind: job.File, Size: 1, SHA256: canon.Sum(text), Mode: 0o644}
	}
	folder := func(path string) job.Entry { return job.Entry{Path: path, Kind: job.Folder, Mode: 0o755} }
	link := func(path, target string) job.Entry { return job.Entry{Path: path, Kind: job.Link, Target: target} }
	with := func(e job.Entry, change func(*job.Entry)) []job.Entry {
		change(&e)
		return []job.Entry{e}
	}
	many := make([]job.Entry, job.MaxEntries+1)
	for i := range many {
		many[i] = folder(fmt.Sprintf("%06d", i))
	}
	large := func(n int, size int64) (list []job.Entry) {
		for i := range n {
			list = append(list, with(file(fmt.Sprint("f", i)), func(e *job.Entry) { e.Size = size })...)
		}
		return list
	}
	for name, list := range map[string][]job.Entry{
		"upwards":                   {file("../escaped")},
		"upwards further on":        {folder("a"), file("a/../../escaped")},
		"absolute":                  {file("/tmp/escaped")},
		"no path":                   {file("")},
		"the folder itself":         {folder(".")},
		"not clean":                 {folder("a"), file("a//b")},
		"a dot":                     {folder("a"), file("a/./b")},
		"a slash at the end":        {folder("a/")},
		"a null byte":               {file("a\x00b")},
		"through a link":            {link("a", "/tmp"), file("a/escaped")},
		"through a link, deeper":    {folder("a"), link("a/b", ".."), file("a/b/c")},
		"through a link to itself":  {folder("a"), link("b", "a"), file("b/c")},
		"beneath a file":            {file("a"), file("a/b")},
		"beneath nothing":           {file("a/b")},
		"a folder after its file":   {file("a/b"), folder("a")},
		"twice":                     {file("a"), file("a")},
		"twice, of two kinds":       {file("a"), folder("a")},
		"not sorted":                {file("b"), file("a")},
		"an unknown kind":           with(file("a"), func(e *job.Entry) { e.Kind = "device" }),
		"no kind":                   with(file("a"), func(e *job.Entry) { e.Kind = "" }),
		"set-uid":                   with(file("a"), func(e *job.Entry) { e.Mode = 0o4755 }),
		"a negative mode":           with(file("a"), func(e *job.Entry) { e.Mode = -1 }),
		"a negative size":           with(file("a"), func(e *job.Entry) { e.Size = -1 }),
		"no hash":                   with(file("a"), func(e *job.Entry) { e.SHA256 = "" }),
		"a folder with a size":      with(folder("a"), func(e *job.Entry) { e.Size = -1 << 50 }),
		"a link without a target":   {link("a", "")},
		"a file with a target":      with(file("a"), func(e *job.Entry) { e.Target = "b" }),
		"too many entries":          many,
		"too many bytes":            large(1, job.MaxBytes+1),
		"too many bytes together":   large(9, job.MaxBytes/8),
		"a sum that would overflow": large(3, 1<<53-1),
	} {
		t.Run(name, func(t *testing.T) {
			l := newAction(t, specOf(sandbox.None), "", nil)
			l.spec.Work = list
			refused(t, l, canaried(t, l), job.RefusedSpec)
		})
	}
	// Both lists together.
	l := newAction(t, specOf(sandbox.None), "", nil)
	l.spec.Work, l.spec.Tree, l.spec.ShowsTree = many[:job.MaxEntries/2], many[:job.MaxEntries/2+1], true
	refused(t, l, canaried(t, l), job.RefusedSpec)
}

// TestHostileSpecs: a spec that is not one, whole and canonical, is refused, and so is one with
// numbers that would mean something else to the sandbox.
func TestHostileSpecs(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *job.Spec){
		"another version":        func(s *job.Spec) { s.Version = "2.0.0" },
		"no version":             func(s *job.Spec) { s.Version = "" },
		"a negative budget":      func(s *job.Spec) { s.BudgetMS = -1 },
		"an endless budget":      func(s *job.Spec) { s.BudgetMS = 1<<53 - 1 },
		"a negative timeout":     func(s *job.Spec) { s.Actions[0].TimeoutMS = -1 },
		"a timeout of 2^32 ms":   func(s *job.Spec) { s.Actions[0].TimeoutMS = 1 << 32 },
		"a negative limit":       func(s *job.Spec) { s.StdoutMax = -1 },
		"an input not in base64": func(s *job.Spec) { s.Actions[0].Stdin = new("?") },
		"a file not in base64":   func(s *job.Spec) { s.Actions = append(s.Actions, job.Action{Path: "a", Content: "?"}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newAction(t, specOf(sandbox.None), "", nil)
			started := canaried(t, l)
			change(l.spec)
			refused(t, l, started, job.RefusedSpec)
		})
	}
	for name, change := range map[string]func(text []byte) []byte{
		"empty":                    func([]byte) []byte { return []byte{} },
		"truncated":                func(b []byte) []byte { return b[:len(b)/2] },
		"no line feed":             func(b []byte) []byte { return b[:len(b)-1] },
		"two line feeds":           func(b []byte) []byte { return append(b, '\n') },
		"two documents":            func(b []byte) []byte { return slices.Concat(b, b) },
		"not canonical":            func(b []byte) []byte { return bytes.Replace(b, []byte(`{"`), []byte(`{ "`), 1) },
		"an unknown member":        func(b []byte) []byte { return bytes.Replace(b, []byte(`"cut":`), []byte(`"cu":true,"cut":`), 1) },
		"a member twice":           func(b []byte) []byte { return bytes.Replace(b, []byte(`"cut":`), []byte(`"cut":true,"cut":`), 1) },
		"a number of another type": func(b []byte) []byte { return bytes.Replace(b, []byte(`"cut":false`), []byte(`"cut":0`), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newAction(t, specOf(sandbox.None), "", nil)
			started := canaried(t, l)
			text, _, err := l.spec.Artifact()
			if err != nil {
				t.Fatal(err)
			}
			l.text = change(text)
			refused(t, l, started, job.RefusedSpec)
		})
	}
	t.Run("none", func(t *testing.T) {
		l := newAction(t, specOf(sandbox.None), "", nil)
		started := canaried(t, l)
		l.before = func(t *testing.T) {
			if err := os.Remove(filepath.Join(l.dir, job.SpecFile)); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, l, started, job.RefusedSpec)
	})
}

// TestUnreachableIsolation: if the sandbox cannot be what the spec demands, no command starts.
func TestUnreachableIsolation(t *testing.T) {
	t.Parallel()
	// A namespace of users in which there can be no further one.
	noNamespaces := []string{"unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"", "sh"}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespace of users can be made here: %v %s", err, out)
	}
	for _, c := range []struct {
		name        string
		through     []string
		least, most string
		cause       string
		change      func(*job.Spec)
	}{
		{name: "at most confined, at least full", least: "full", most: "confined"},
		{name: "an unknown isolation", least: "complete", most: "none"},
		{name: "no user namespaces", through: noNamespaces, least: "full", cause: sandbox.CauseLimit},
		{name: "no user namespaces, and an unknown isolation", through: noNamespaces, least: "complete", cause: sandbox.CauseLimit},
		{name: "hosts are listed", least: "none", most: "none", change: func(s *job.Spec) { s.Listed = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newAction(t, specOf(sandbox.None), "", nil)
			l.through = c.through
			l.spec.Isolation.Least, l.spec.Isolation.Most = c.least, c.most
			if c.change != nil {
				c.change(l.spec)
			}
			r := refused(t, l, canaried(t, l), job.RefusedIsolation)
			if r.Isolation == "" || r.Step == "" || r.Cause != c.cause || (r.Remedy == "") != (c.cause == "" && c.change == nil) {
				t.Errorf("the refusal is %+v", r)
			}
		})
	}
	l := newAction(t, specOf(sandbox.None), "", nil)
	l.through = noNamespaces
	if started := canaried(t, l); l.perform(t).Refused != nil || !started() {
		t.Error("without isolation nothing starts there, so the others prove nothing")
	}
}
