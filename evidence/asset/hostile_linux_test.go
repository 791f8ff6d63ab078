package asset_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
)

// The test binary is also the program that is killed or finds no room. With these variables it
// does the task in a folder.
const folderVar, taskVar = "ASSET_FOLDER", "ASSET_TASK"

func TestMain(m *testing.M) {
	task := map[string]func(out string) error{"write": write, "resume": resume, "fill": fillUp, "hold": hold, "open": reopen, "order": inOrder}[os.Getenv(taskVar)]
	if task == nil {
		os.Exit(m.Run())
	}
	if err := task(os.Getenv(folderVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child returns the command that does a task in a folder, under a wrapper if there is one.
func child(task, out string, under ...string) *exec.Cmd {
	argv := append(under, os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), folderVar+"="+out, taskVar+"="+task)
	return cmd
}

// within ends a test whose work hangs.
func within(t *testing.T, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the work does not end")
	}
}

// text is the content of the file of a round: long, so that a kill would leave a part of it.
func text(id string) string { return strings.Repeat(id+"\n", 20_000) }

// write and resume write cases with assets until they are killed.
func write(out string) error  { return writeTo(asset.Create(out, "new", "r")) }
func resume(out string) error { return writeTo(asset.Resume(out, "new", "r")) }

func writeTo(d *asset.Dir, err error) error {
	if err == nil {
		err = adopt(d)
	}
	for i := 0; err == nil; i++ {
		id := fmt.Sprint("c", i)
		if _, _, err = d.Keep(trial.KindFullBody, id, []byte(text(id))); err == nil {
			_, err = d.Meta(id, 1, []byte(text("meta"+id)))
		}
		if err == nil {
			err = errors.Join(d.Write(id+".json", []byte(text(id))), d.Write("run.json", []byte(text("run"))))
		}
		if err == nil && i%5 == 0 {
			err = d.Manifest("")
		}
	}
	return err
}

// adopt adds the assets of the cases that are there.
func adopt(d *asset.Dir) (err error) {
	for i := 0; err == nil; i++ {
		id := fmt.Sprint("c", i)
		if _, err := d.Read(id+".json", 1<<20); err != nil {
			return nil
		}
		body := "assets/" + string(canon.Sum([]byte(text(id))).Hex()) + ".txt"
		err = errors.Join(d.Adopt(trial.KindFullBody, id, body), d.Adopt(trial.KindFailureMeta, id, asset.MetaHref(id, "new", 1)))
	}
	return err
}

// TestKilled: a kill leaves whole files and temporary ones, and every case file has its assets. The
// next process resumes the directory.
func TestKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	out, dir := t.TempDir(), ""
	for round := range rehearsal.Count(10, 200) {
		cmd := child("resume", out)
		if round == 0 {
			cmd, dir = child("write", out), filepath.Join(out, "new", "r")
		}
		var said strings.Builder
		cmd.Stderr = &said
		ok(t, cmd.Start())
		for begin := time.Now(); round == 0; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "run.json")); err == nil {
				break
			}
			if time.Since(begin) > 2*time.Minute {
				t.Fatal("there is no run.json")
			}
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		ok(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if said.Len() > 0 {
			t.Fatal(said.String())
		}
		whole(t, dir)
	}
	d, err := asset.Resume(out, "new", "r")
	ok(t, err)
	defer d.Close()
	ok(t, adopt(d), d.Manifest(""))
	got, err := d.Seal()
	if want := seal(t, dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for name := range tree(t, dir) {
		if strings.Contains(name, ".tmp-") {
			t.Errorf("%s is left", name)
		}
	}
}

// whole fails the test unless the directory has whole files alone, besides temporary ones.
func whole(t *testing.T, dir string) {
	t.Helper()
	all := tree(t, dir)
	for name, got := range all {
		base := filepath.Base(name)
		id, isCase := strings.CutSuffix(name, ".json")
		switch {
		case strings.HasPrefix(base, ".tmp-"), name == "assets":
		case name == "assets/manifest.json":
			if !strings.HasSuffix(got, "}\n") {
				t.Errorf("%s has %d bytes", name, len(got))
			}
		case strings.HasSuffix(name, ".txt"):
			if base != sum([]byte(got))+".txt" {
				t.Errorf("%s is damaged", name)
			}
		case strings.HasSuffix(name, ".meta.json"):
			if id, _, _ := strings.Cut(base, "."); got != text("meta"+id) {
				t.Errorf("%s has %d bytes", name, len(got))
			}
		case name == "run.json":
			if got != text("run") {
				t.Errorf("%s has %d bytes", name, len(got))
			}
		case isCase && got == text(id):
			for _, needs := range []string{"assets/" + sum([]byte(got)) + ".txt", "assets/" + id + ".new.attempt1.meta.json"} {
				if all[needs] == "" {
					t.Errorf("%s has no %s", name, needs)
				}
			}
		default:
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
}

// inOrder writes a case with an asset, one without, and one more after a resume.
func inOrder(out string) error {
	runtime.LockOSThread() // so that one thread makes all calls
	d, err := asset.Create(out, "new", "r")
	if err != nil {
		return err
	}
	_, _, err = d.Keep(trial.KindFullBody, "a", nil)
	if err = errors.Join(err, d.Write("a.json", nil), d.Write("b.json", nil), d.Manifest(""), d.Close()); err != nil {
		return err
	}
	if d, err = asset.Resume(out, "new", "r"); err != nil {
		return err
	}
	return errors.Join(d.Write("c.json", nil), d.Close())
}

// TestOrder: every file is synced before it has its name, the assets are durable before the case
// that refers to them, and every case is durable afterwards.
func TestOrder(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	out, err := filepath.EvalSymlinks(t.TempDir())
	ok(t, err)
	to := filepath.Join(t.TempDir(), "trace")
	cmd := child("order", out, "strace", "-f", "-y", "-qq", "-e", "signal=none", "-e", "trace=mkdirat,fsync,/renameat", "-o", to)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nothing can be traced here: %v: %s", err, said)
	}
	var got []string
	for _, line := range rehearsal.Trace(t, to) {
		line = strings.ReplaceAll(line, sum(nil), "HASH")
		if m := regexp.MustCompile(`fsync\(\d+<(.*)>`).FindStringSubmatch(line); m != nil {
			got = append(got, "fsync "+cmp.Or(strings.TrimPrefix(m[1], out), "."))
		} else if m := regexp.MustCompile(`mkdirat\(.*<(.*)>, "(.*)"`).FindStringSubmatch(line); m != nil {
			got = append(got, "mkdir "+strings.TrimPrefix(m[1], out)+"/"+m[2])
		} else if m := regexp.MustCompile(`renameat2?\(.*, "(.*?)", .*<(.*?)>, "(.*)"`).FindStringSubmatch(line); m != nil {
			got = append(got, "rename "+m[1]+" "+strings.TrimPrefix(m[2], out)+"/"+m[3])
		}
	}
	const want = `mkdir /new
mkdir /new/r
fsync /new
fsync .
mkdir /new/r/assets
fsync /new/r/assets/.tmp-1
rename .tmp-1 /new/r/assets/HASH.txt
fsync /new/r/assets
fsync /new/r/.tmp-2
rename .tmp-2 /new/r/a.json
fsync /new/r
fsync /new/r/.tmp-3
rename .tmp-3 /new/r/b.json
fsync /new/r
fsync /new/r/assets/.tmp-4
rename .tmp-4 /new/r/assets/manifest.json
fsync /new/r/assets
fsync /new
fsync .
mkdir /new/r/assets
fsync /new/r/assets
fsync /new/r/.tmp-1
rename .tmp-1 /new/r/c.json
fsync /new/r`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("\n%s\nwant\n%s", text, want)
	}
}

// TestSwapped: a directory that is replaced by a link while it is written leads nowhere else: the
// files are in the old directory. Nothing is written through a link to the outside.
func TestSwapped(t *testing.T) {
	d, dir := created(t)
	outside := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(outside, "assets"), 0o755))
	before := tree(t, outside)
	moved := dir + "-moved"
	ok(t, os.Rename(dir, moved), os.Symlink(outside, dir))
	fill(t, d)
	got, err := d.Seal()
	if want := seal(t, moved); err != nil || !reflect.DeepEqual(got, want) || len(want) != 3 {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	ok(t, os.Rename(filepath.Join(moved, "assets"), filepath.Join(moved, "old")))
	for _, target := range []string{outside, filepath.Join("..", "..", ".."), filepath.Join(outside, "assets")} {
		ok(t, os.Symlink(target, filepath.Join(moved, "assets")))
		if _, _, err := d.Keep(trial.KindFullBody, "z", []byte(target)); err == nil || strings.Contains(err.Error(), outside) {
			t.Errorf("kept through a link: %v", err)
		}
		if err := d.Manifest(""); err == nil {
			t.Error("a manifest behind a link")
		}
		if _, err := d.Seal(); err == nil {
			t.Error("sealed with a link")
		}
		ok(t, os.Remove(filepath.Join(moved, "assets")))
	}
	if got := tree(t, outside); !reflect.DeepEqual(got, before) {
		t.Errorf("outside is %v", got)
	}
}

// TestLinkedSide: the folder of a side that is a link is refused, and so is one of the run or of
// the assets. Nothing changes outside.
func TestLinkedSide(t *testing.T) {
	for what, link := range map[string]string{"outside": t.TempDir(), "inside": "baseline", "loose": "none"} {
		t.Run(what, func(t *testing.T) {
			out := t.TempDir()
			ok(t, os.Mkdir(filepath.Join(out, "baseline"), 0o755), os.Symlink(link, filepath.Join(out, "new")))
			if _, err := asset.Create(out, "new", "r"); err == nil {
				t.Error("created behind a link")
			}
			if _, err := asset.Resume(out, "new", "r"); err == nil {
				t.Error("resumed behind a link")
			}
			if what == "outside" && len(tree(t, link)) > 0 {
				t.Errorf("outside is %v", tree(t, link))
			}
		})
	}
	d, dir := created(t)
	ok(t, d.Close())
	outside := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(outside, ".tmp-1"), []byte("mine"), 0o600), os.Remove(filepath.Join(dir, "assets")), os.Symlink(outside, filepath.Join(dir, "assets")))
	if d, err := asset.Resume(filepath.Dir(filepath.Dir(dir)), "new", "r1"); err == nil {
		_, _, err = d.Keep(trial.KindOther, "", []byte("x"))
		if err == nil {
			t.Error("kept behind a link")
		}
		_ = d.Close()
	}
	if got := tree(t, outside); len(got) != 1 {
		t.Errorf("outside is %v", got)
	}
}

// TestTwoRunners: a second runner is refused until the first one has closed the directory, or is
// killed. This holds within one process, too.
func TestTwoRunners(t *testing.T) {
	d, dir := created(t)
	out := filepath.Dir(filepath.Dir(dir))
	busy := func() {
		t.Helper()
		if _, err := asset.Resume(out, "new", "r1"); !errors.Is(err, asset.ErrBusy) {
			t.Errorf("resumed a busy directory: %v", err)
		}
		if _, err := asset.Create(out, "new", "r1"); !errors.Is(err, asset.ErrExists) {
			t.Errorf("created a busy directory: %v", err)
		}
	}
	ok(t, os.WriteFile(filepath.Join(dir, ".tmp-1"), nil, 0o600))
	busy()
	if tree(t, dir)[".tmp-1"] != "" || len(tree(t, dir)) != 2 {
		t.Errorf("a refused runner left %v", tree(t, dir))
	}
	ok(t, d.Close())
	cmd := child("hold", out)
	stdout, err := cmd.StdoutPipe()
	ok(t, err, cmd.Start())
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	busy()
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait()
	d, err = asset.Resume(out, "new", "r1")
	ok(t, err)
	ok(t, d.Close())
}

// hold holds the lock until the process is killed.
func hold(out string) error {
	d, err := asset.Resume(out, "new", "r1")
	if err != nil {
		return err
	}
	defer d.Close()
	fmt.Println("held")
	time.Sleep(time.Hour)
	return nil
}

// fillUp writes until there is no room, or until nothing can be written. Then it makes sure that
// the directory is as it was before the error, and that it goes on where there is room again.
func fillUp(out string) error {
	d, err := asset.Create(out, "new", "r")
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer d.Close()
	if err = d.Write("case.json", []byte("old")); err != nil {
		return err
	}
	ballast := filepath.Join(out, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 100<<10), 0o600); err != nil {
		return err
	}
	big := []byte(strings.Repeat("x", 80<<10))
	_, _, kept := d.Keep(trial.KindFullBody, "case", big)
	_, metaErr := d.Meta("case", 1, big)
	for _, err := range []error{kept, metaErr, d.Write("case.json", big)} {
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("no error of a full disk: %v", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if text, err := d.Read("case.json", 100); err != nil || string(text) != "old" {
		return fmt.Errorf("%q, %w", text, err)
	}
	if err := d.Manifest(""); err != nil {
		return err
	}
	if text, err := d.Read("assets/manifest.json", 1000); err != nil || !strings.Contains(string(text), `"items":[]`) {
		return fmt.Errorf("%q, %w", text, err)
	}
	if _, _, err := d.Keep(trial.KindFullBody, "case", big); err != nil {
		return err
	}
	names, faults, err := d.Names()
	if want := []string{"assets/" + sum(big) + ".txt", "assets/manifest.json", "case.json"}; err != nil || len(faults) > 0 || !reflect.DeepEqual(names, want) {
		return fmt.Errorf("%q, %v, %w", names, faults, err)
	}
	return nil
}

// TestFullDisk: a disk without room leaves what was there, and no temporary file.
func TestFullDisk(t *testing.T) {
	out := t.TempDir()
	const script = `mount -t tmpfs -o size=160k none "$ASSET_FOLDER" || exit 99; exec "$0"`
	cmd := child("fill", out, "unshare", "-rm", "sh", "-c", script)
	said, err := cmd.CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != 1 || strings.HasPrefix(string(said), "unshare:")) {
		t.Skipf("nothing can be mounted here: %v: %s", err, said)
	}
	if err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// reopen resumes a directory and writes into it.
func reopen(out string) error {
	d, err := asset.Resume(out, "new", "r1")
	if err != nil {
		return err
	}
	return errors.Join(d.Write("run.json", nil), d.Close())
}

// TestReadOnly: a file system that is mounted read-only is an error of every call.
func TestReadOnly(t *testing.T) {
	out := t.TempDir()
	d, err := asset.Create(out, "new", "r1")
	ok(t, err, d.Close())
	before := tree(t, out)
	const script = `mount --bind "$ASSET_FOLDER" "$ASSET_FOLDER" && mount -o remount,bind,ro "$ASSET_FOLDER" || exit 99; exec "$0"`
	for task, want := range map[string]string{
		"write": `"new/r": read-only file system`,
		"open":  `"run.json": read-only file system`,
	} {
		said, err := child(task, out, "unshare", "-rm", "sh", "-c", script).CombinedOutput()
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() == 99 || strings.HasPrefix(string(said), "unshare:") {
			t.Skipf("nothing can be mounted here: %v: %s", err, said)
		}
		if got := strings.TrimSpace(string(said)); got != want {
			t.Errorf("%s: %q, want %q", task, got, want)
		}
	}
	if got := tree(t, out); !reflect.DeepEqual(got, before) {
		t.Errorf("%v, and was %v", got, before)
	}
}

// TestHostileEntries: nothing but folders and regular files is opened, and the rest is named.
func TestHostileEntries(t *testing.T) {
	f, dir := opened(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	secret := filepath.Join(t.TempDir(), "secret")
	deep := strings.Repeat("d/", asset.MaxDepth-1)
	ok(t, os.WriteFile(secret, []byte("secret"), 0o600), os.MkdirAll(at(deep+"d/e"), 0o755), os.WriteFile(at(deep+"file"), nil, 0o600), os.Mkdir(at("bad\xff"), 0o755),
		os.WriteFile(at("bad\xff/x"), nil, 0o600), os.WriteFile(at("\xfe"), nil, 0o600), os.WriteFile(at(`back\slash`), nil, 0o600), os.WriteFile(at("c:"), nil, 0o600),
		os.Symlink(secret, at("link")), os.Symlink("d", at("loop")), os.Symlink(filepath.Dir(secret), at("d/out")), os.Symlink("self", at("self")),
		syscall.Mkfifo(at("pipe"), 0o600), syscall.Mkfifo(at("d/pipe"), 0o600), os.WriteFile(at("regular"), []byte("12"), 0o600), os.Symlink("d/d", at("beneath")), os.WriteFile(at("d/d/x"), []byte("12"), 0o600))
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	ok(t, err)
	defer syscall.Close(socket)
	t.Chdir(dir) // the name of a socket is short
	ok(t, syscall.Bind(socket, &syscall.SockaddrUnix{Name: "socket"}))

	within(t, func() {
		names, faults, err := f.Names()
		var want []verify.Entry
		for _, pair := range [][2]string{
			{`back\slash`, "has a name that no href can have"}, {"bad\ufffd", "has a name that no href can have"},
			{"beneath", "is a symbolic link"}, {"c:", "has a name that no href can have"}, {deep + "d/e", "lies too deep"},
			{"d/out", "is a symbolic link"}, {"d/pipe", "is neither a file nor a folder"}, {"link", "is a symbolic link"}, {"loop", "is a symbolic link"},
			{"pipe", "is neither a file nor a folder"}, {"self", "is a symbolic link"}, {"socket", "is neither a file nor a folder"}, {"\ufffd", "has a name that no href can have"},
		} {
			want = append(want, verify.Entry{Name: pair[0], What: pair[1]})
		}
		if err != nil || !reflect.DeepEqual(names, []string{deep + "file", "d/d/x", "regular"}) || !reflect.DeepEqual(faults, want) {
			t.Errorf("%q\n%q\nwant\n%q\n%v", names, faults, want, err)
		}
		for _, name := range []string{"link", "loop", "loop/pipe", "loop/d/d", "loop/d/x", "beneath/x", "d/out/secret", "self", "pipe", "d/pipe", "socket", "bad\xff/x", `back\slash`, "c:", "d"} {
			if text, err := f.Read(name, 100); err == nil || text != nil || strings.Contains(err.Error(), dir) {
				t.Errorf("%q: %q, %v", name, text, err)
			}
		}
		if _, err := asset.Open(at("pipe")); err == nil {
			t.Error("opened a pipe")
		}
		if _, err := asset.Resume(at("pipe"), "new", "r"); err == nil {
			t.Error("resumed in a pipe")
		}
	})
	for _, name := range []string{"regular", "none"} {
		if _, err := asset.Open(at(name)); err == nil {
			t.Errorf("opened %s", name)
		}
	}
}

// TestNoPathOfTheMachine: the errors of a directory that cannot be read or written do not name
// where it is.
func TestNoPathOfTheMachine(t *testing.T) {
	d, dir := created(t)
	ok(t, os.Mkdir(filepath.Join(dir, "case.json"), 0o755))
	err := d.Write("case.json", nil)
	if err == nil || strings.Contains(err.Error(), dir) || !strings.HasPrefix(err.Error(), `"case.json": `) {
		t.Error(err)
	}
	if got := tree(t, dir); len(got) != 2 {
		t.Errorf("%v is left", got)
	}
	ok(t, os.RemoveAll(filepath.Join(dir, "assets")))
	_, _, kept := d.Keep(trial.KindOther, "", nil)
	for _, err := range []error{d.Manifest(""), kept} {
		if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), dir) {
			t.Error(err)
		}
	}
	ok(t, d.Close())
	if err := d.Write("x.json", nil); err == nil {
		t.Error("wrote in a closed directory")
	}
}

// TestInPlace: a directory that is moved, or replaced by a link, is noticed.
func TestInPlace(t *testing.T) {
	for _, part := range []string{"new/r", "new", "."} {
		out := filepath.Join(t.TempDir(), "out")
		d, err := asset.Create(out, "new", "r")
		ok(t, err, d.InPlace())
		place := filepath.Join(out, part)
		ok(t, os.Rename(place, place+"-moved"))
		if err := d.InPlace(); !errors.Is(err, asset.ErrMoved) {
			t.Errorf("%s is gone: %v", part, err)
		}
		if part != "." { // OUT itself may be a link from the beginning
			ok(t, os.Symlink(place+"-moved", place))
			if err := d.InPlace(); !errors.Is(err, asset.ErrMoved) {
				t.Errorf("%s is a link: %v", part, err)
			}
		}
		ok(t, d.Close())
	}
}
