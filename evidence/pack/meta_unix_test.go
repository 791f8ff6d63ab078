//go:build unix

package pack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// folderOf writes a pack into a folder that is alone in its parent folder.
func folderOf(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pack")
	w, err := Create(dir)
	if err == nil {
		err = errors.Join(w.Stage(files), w.Commit())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// there returns the names in a folder.
func there(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, d := range list {
		out = append(out, d.Name())
	}
	return out
}

// holds checks that the folder has the pack of these files, and nothing else.
func holds(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	p, err := ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, Of(files)) {
		t.Errorf("%s has %v, or another pack", dir, there(t, dir))
	}
}

func alone(t *testing.T, dir string) {
	t.Helper()
	if list := there(t, filepath.Dir(dir)); len(list) != 1 {
		t.Errorf("beside the pack stand %v", list)
	}
}

func setTo(text string) func(*Pack) ([]byte, error) {
	return func(*Pack) ([]byte, error) { return []byte(text), nil }
}

func TestSetMeta(t *testing.T) {
	files := map[string][]byte{RunFile: []byte("{}\n")}
	dir := folderOf(t, files)
	for _, text := range []string{"{\"a\":1}\n", "{}\n", "{}\n"} {
		before := files[MetaFile]
		err := SetMeta(dir, func(p *Pack) ([]byte, error) {
			if string(p.File(MetaFile)) != string(before) {
				t.Errorf("change is given %q", p.File(MetaFile))
			}
			return []byte(text), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		files[MetaFile] = []byte(text)
		holds(t, dir, files)
		alone(t, dir)
	}
	// The permissions stay, a link to the folder is accepted, and a change without
	// effect writes nothing.
	if err := os.Chmod(filepath.Join(dir, MetaFile), 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := SetMeta(link, setTo("[]\n")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, MetaFile))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := SetMeta(dir, setTo("[]\n")); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(filepath.Join(dir, MetaFile)); err != nil || !os.SameFile(info, again) {
		t.Errorf("the same bytes were written again: %v", err)
	}
	files[MetaFile] = []byte("[]\n")
	holds(t, dir, files)
	alone(t, dir)
	alone(t, link)
}

func TestSetMetaFails(t *testing.T) {
	files := map[string][]byte{RunFile: []byte("{}\n"), MetaFile: []byte("{}\n")}
	dir := folderOf(t, files)
	mine := errors.New("mine")
	if err := SetMeta(dir, func(*Pack) ([]byte, error) { return nil, mine }); !errors.Is(err, mine) {
		t.Errorf("the error of change is %v", err)
	}
	err := SetMeta(dir, func(*Pack) ([]byte, error) { return nil, SetMeta(dir, setTo("[]\n")) })
	if !errors.Is(err, ErrBusy) {
		t.Errorf("the second of two gets %v", err)
	}
	if err := SetMeta(dir+"x", setTo("[]\n")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder is %v", err)
	}
	if err := SetMeta(filepath.Join(dir, RunFile), setTo("[]\n")); err == nil {
		t.Error("a file is a folder")
	}
	holds(t, dir, files)
	alone(t, dir)
	// A folder in the place of the file cannot be replaced, and nothing is left.
	if err := os.Remove(filepath.Join(dir, MetaFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, MetaFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := SetMeta(dir, setTo("[]\n")); err == nil {
		t.Error("a folder was replaced")
	}
	alone(t, dir)
}

// TestSetMetaWithoutRoom: a write that fails half way leaves the old file.
func TestSetMetaWithoutRoom(t *testing.T) {
	if dir := os.Getenv("PACK_WITHOUT_ROOM"); dir != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
			t.Fatal(err)
		}
		if err := SetMeta(dir, setTo(strings.Repeat("x", 1000))); !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("the error is %v", err)
		}
		return
	}
	files := map[string][]byte{RunFile: []byte("{}\n"), MetaFile: []byte("{}\n")}
	dir := folderOf(t, files)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSetMetaWithoutRoom$")
	cmd.Env = append(os.Environ(), "PACK_WITHOUT_ROOM="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	holds(t, dir, files)
	alone(t, dir)
}

// TestSetMetaKilled: a process that is killed between two steps leaves the old file or the
// new one, and nothing else in the pack. The pack can be given another meta.json.
func TestSetMetaKilled(t *testing.T) {
	if dir := os.Getenv("PACK_KILLED"); dir != "" {
		die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
		_ = SetMeta(dir, func(*Pack) ([]byte, error) {
			if os.Getenv("PACK_AT") == "change" {
				die()
			}
			beside, err := stage(dir, []byte("[]\n"))
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("PACK_AT") == "stage" {
				die()
			}
			if err := place(beside, dir); err != nil {
				t.Fatal(err)
			}
			die()
			return nil, nil
		})
		t.Fatal("not killed")
	}
	for at, want := range map[string]string{"change": "{}\n", "stage": "{}\n", "place": "[]\n"} {
		files := map[string][]byte{RunFile: []byte("{}\n"), MetaFile: []byte("{}\n")}
		dir := folderOf(t, files)
		cmd := exec.Command(os.Args[0], "-test.run=^TestSetMetaKilled$")
		cmd.Env = append(os.Environ(), "PACK_KILLED="+dir, "PACK_AT="+at)
		out, err := cmd.CombinedOutput()
		var end *exec.ExitError
		if !errors.As(err, &end) || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v: %s", at, err, out)
		}
		files[MetaFile] = []byte(want)
		holds(t, dir, files)
		if err := SetMeta(dir, setTo("{\"a\":1}\n")); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		files[MetaFile] = []byte("{\"a\":1}\n")
		holds(t, dir, files)
	}
}
