package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// maxResident is the peak memory that a command about one pack may use, in KiB, whatever
// the pack contains.
const maxResident = 1536 << 10

// hostilePack is an invalid pack that an attacker has made.
type hostilePack struct {
	name string
	// make makes the hostile pack at a path, from a whole pack if it needs one. It may
	// skip the test.
	make func(t *testing.T, at string)
	// code is the exit status of pack verify, and says is a part of its output.
	code int
	says string
	// few: the pack takes long, and only pack verify reads it.
	few bool
}

// hostileYard is a folder with a whole pack, files that must not change, and a hostile
// pack.
type hostileYard struct {
	dir, whole, at string
}

func newHostileYard(t *testing.T, whole string) hostileYard {
	t.Helper()
	dir := t.TempDir()
	y := hostileYard{dir, filepath.Join(dir, "whole"), filepath.Join(dir, "yard", "pack")}
	if err := os.Mkdir(filepath.Dir(y.at), 0o755); err != nil {
		t.Fatal(err)
	}
	copyOf(t, whole, y.whole)
	put(t, dir, "intent.json", allowed)
	put(t, dir, "secret", "a secret\n")
	return y
}

// hostileBase returns a valid pack that exists until the end of the test.
func hostileBase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "whole")
	if out, err := command(t, "run", put(t, dir, "intent.json", allowed), "--pack", at).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return at
}

// everything lists the entries beneath the yard with name, kind and size, and the content
// of small files. For the pack itself it lists only the name.
func (y hostileYard) everything(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(y.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == y.at {
			list = append(list, name)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		line := name + " " + d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += " " + string(b)
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// run runs the program on the hostile pack. The program must end and use little memory. It
// must write only where the arguments say. Its output must not move the cursor.
func (y hostileYard) run(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	before := y.everything(t)
	cmd := command(t, args...)
	cmd.Dir = y.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "TMPDIR="+y.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := watchMemory(cmd.Process.Pid)
	hung := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !hung.Stop() {
		t.Fatalf("%q does not end", args)
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	resident := peak()
	if resident > maxResident && !rehearsal.Raced {
		t.Errorf("%q took %d MiB", args, resident>>10)
	}
	if after := y.everything(t); !slices.Equal(before, after) {
		t.Errorf("%q has changed what stands there:\n%q\n%q", args, before, after)
	}
	checkPlain(t, args, stdout.Bytes(), slices.Contains(args, "json"))
	checkPlain(t, args, stderr.Bytes(), true)
	if n := stdout.Len() + stderr.Len(); n > 4<<20 {
		t.Errorf("%q printed %d bytes", args, n)
	}
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

// checkPlain fails unless a text is lines of UTF-8 without a control character. In JSON
// the control characters from U+007F on are allowed, because programs read it.
func checkPlain(t *testing.T, args []string, text []byte, isJSON bool) {
	t.Helper()
	control := func(r rune) bool { return r < 0x20 && r != '\n' || !isJSON && r >= 0x7f && r < 0xa0 }
	if !utf8.Valid(text) || bytes.ContainsFunc(text, control) {
		t.Errorf("%q prints control characters: %.300q", args, text)
	}
	if bytes.Contains(text, []byte("a secret")) || bytes.Contains(text, []byte("goroutine ")) {
		t.Errorf("%q prints what it must not: %.300q", args, text)
	}
}

// watchMemory samples the memory of a process every few milliseconds. The function that it
// returns gives the peak of the resident memory in KiB, after the end of the process. The
// value of wait4 includes the memory of this process before the program was loaded.
func watchMemory(pid int) (peak func() int) {
	done, most := make(chan struct{}), make(chan int)
	go func() {
		high := 0
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
				now := 0
				_, _ = fmt.Sscan(rest, &now)
				high = max(high, now)
			}
			select {
			case <-done:
				tick.Stop()
				most <- high
				return
			case <-tick.C:
			}
		}
	}()
	return func() int { close(done); return <-most }
}

// check runs every command that takes a pack on a hostile one. The short form runs pack
// verify and two of the others, which differ from one pack to the next.
func (h hostilePack) check(t *testing.T, n int, whole string) {
	y := newHostileYard(t, whole)
	h.make(t, y.at)
	text, code := y.run(t, "pack", "verify", y.at)
	if code != h.code || !strings.Contains(text, h.says) {
		t.Errorf("exit status %d, want %d and %q:\n%.2000s", code, h.code, h.says, text)
	}
	if h.few {
		return
	}
	to := filepath.Join(y.dir, "yard")
	for i, args := range [][]string{
		{"pack", "verify", "--format", "json", y.at},
		{"pack", "verify", "--level", "structural", y.at},
		{"pack", "show", y.at},
		{"pack", "archive", y.at, filepath.Join(to, "pack.tar.gz")},
		{"reproduce", y.at, "--intent", filepath.Join(y.dir, "intent.json")},
		{"apply", y.at, "--to", to},
	} {
		if (i+n)%rehearsal.Stride(3) != 0 {
			continue
		}
		text, code := y.run(t, args...)
		if code != cli.ExitRejected && code != cli.ExitError || text == "" {
			t.Errorf("%q: exit status %d:\n%.2000s", args, code, text)
		}
	}
}

// copyOf makes a folder with the files of another.
func copyOf(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// wholeAt returns the whole pack beside the path of a hostile one.
func wholeAt(at string) string { return filepath.Join(at, "..", "..", "whole") }

// with makes a copy of a whole pack and changes it.
func with(do func(t *testing.T, at string) error) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		copyOf(t, wholeAt(at), at)
		if err := do(t, at); err != nil {
			t.Fatal(err)
		}
	}
}

// replaced makes a copy of a whole pack and puts something else in the place of a file.
func replaced(name string, do func(path string) error) func(t *testing.T, at string) {
	return with(func(t *testing.T, at string) error {
		path := filepath.Join(at, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return do(path)
	})
}

func linkIn(name, target string) func(t *testing.T, at string) {
	return replaced(name, func(path string) error { return os.Symlink(target, path) })
}

// device makes a device node. Only root can, and only on some machines.
func device(name string, major, minor int) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		replaced(name, func(path string) error {
			err := syscall.Mknod(path, syscall.S_IFCHR|0o666, major<<8|minor)
			if err != nil {
				t.Skipf("no device can be made here: %v", err)
			}
			return nil
		})(t, at)
	}
}

func socket(path string) error {
	// The name of a socket must be short, so the socket is made from its folder.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dirOf(path), filepath.Base(path))
	return syscall.Bind(fd, &syscall.SockaddrUnix{Name: short})
}

// dirOf opens the folder of a path, for the rest of the process.
func dirOf(path string) int {
	fd, err := syscall.Open(filepath.Dir(path), syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func sparse(name string, size int64) func(t *testing.T, at string) {
	return replaced(name, func(path string) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(size), f.Close())
	})
}

func holds(name string, text func() string) func(t *testing.T, at string) {
	return replaced(name, func(path string) error { return os.WriteFile(path, []byte(text()), 0o644) })
}

func repeated(before, unit string, n int, after string) func() string {
	return func() string { return before + strings.Repeat(unit, n) + after }
}

// hard makes a whole pack in which name has a mode without permissions. The mode is
// restored at the end, so that the pack can be removed.
func hard(mode fs.FileMode, name string) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		if os.Geteuid() == 0 {
			t.Skip("root reads everything")
		}
		with(func(t *testing.T, at string) error {
			path := filepath.Join(at, name)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = os.Chmod(path, info.Mode().Perm()) })
			return os.Chmod(path, mode)
		})(t, at)
	}
}

func hostileFolders() []hostilePack {
	extra := func(name string) func(t *testing.T, at string) {
		return with(func(_ *testing.T, at string) error { return os.WriteFile(at+"/"+name, nil, 0o644) })
	}
	list := []hostilePack{
		{name: "a link to a file of another pack", make: linkIn("run.json", "../../whole/run.json"), code: 1, says: "PK6"},
		{name: "a link to a secret", make: linkIn("bundle.json", "../../secret"), code: 1, says: "PK6"},
		{name: "a link to a folder", make: linkIn("run.json", ".."), code: 1, says: "PK6"},
		{name: "a link to nothing", make: linkIn("run.json", "nowhere"), code: 1, says: "PK6"},
		{name: "a link to itself", make: linkIn("run.json", "run.json"), code: 1, says: "PK6"},
		{name: "a link to a device without end", make: linkIn("run.json", "/dev/zero"), code: 1, says: "PK6"},
		{name: "a FIFO", make: replaced("run.json", func(path string) error { return syscall.Mkfifo(path, 0o644) }), code: 1, says: "PK12"},
		{name: "a socket", make: replaced("run.json", socket), code: 1, says: "PK12"},
		{name: "a device without end", make: device("run.json", 1, 5), code: 1, says: "PK12"},
		{name: "a device without anything", make: device("policy.json", 1, 3), code: 1, says: "PK12"},
		{name: "a folder in the place of a file", make: replaced("run.json", func(path string) error { return os.Mkdir(path, 0o755) }), code: 1, says: "PK12"},
		{name: "folders in folders", make: replaced("deep", func(path string) error {
			return os.MkdirAll(path+strings.Repeat("/d", 1500), 0o755)
		}), code: 1, says: "PK12"},
		{name: "many files", make: with(func(_ *testing.T, at string) error {
			for i := range rehearsal.Count(2_000, 100_000) {
				if err := os.WriteFile(fmt.Sprintf("%s/f%06d", at, i), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		}), code: 1, says: "PK2"},
		{name: "a file that cannot be read", make: hard(0, "run.json"), code: 2, says: "permission denied"},
		{name: "a folder that cannot be listed", make: hard(0o300, "."), code: 2, says: "permission denied"},
		{name: "a folder that cannot be searched", make: hard(0o600, "."), code: 2, says: "permission denied"},
		{name: "nothing", make: func(t *testing.T, at string) {
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}, code: 1, says: "PK1"},
	}
	for name, file := range map[string]string{
		"a line end": "run\n.json", "an escape sequence": "\x1b[2J\x1b]0;x\x07.json", "no UTF-8": "\xff\xfe.json", "a carriage return": "run.json\rVALID  pack  strict",
		"a direction mark": "a\u202egnp.json", "a long name": strings.Repeat("n", 255), "a name of blanks": "   ", "a backslash": `..\run.json`, "a C1 control": "\u009b31m",
	} {
		list = append(list, hostilePack{name: "a file named with " + name, make: extra(file), code: 1, says: "PK"})
	}
	for _, name := range []string{"run.json", "bundle.json", "policy.json", "evidence.json", "patch.json", "runner.json", "model_io.json", "ledger.jsonl", "meta.json", "other"} {
		list = append(list, hostilePack{name: "10 GB in " + name, make: sparse(name, 10<<30), code: 1, says: "PK"})
	}
	return append(list, hostileTexts()...)
}

// hostileTexts returns packs with a hostile text in a file. The full form has each text in
// each file, and the short form each text in a fifth of the files.
func hostileTexts() []hostilePack {
	var list []hostilePack
	const depth, values = 100_000, 1_000_000
	for i, name := range []string{"run.json", "bundle.json", "policy.json", "evidence.json", "patch.json", "runner.json", "model_io.json", "ledger.jsonl", "meta.json"} {
		texts := map[string]func() string{
			"brackets":              repeated("", "[", depth, strings.Repeat("]", depth)+"\n"),
			"open brackets":         repeated("", "[", depth, ""),
			"objects in objects":    repeated("", `{"a":`, depth, "1"+strings.Repeat("}", depth)+"\n"),
			"a million values":      repeated("[0", ",0", values, "]\n"),
			"a million members":     repeated(`{"a":0`, `,"a":0`, values, "}\n"),
			"almost too many":       repeated("[[]", ",[]", 249_990, "]\n"),
			"one long number":       repeated("", "9", 1<<20, "\n"),
			"one long string":       repeated(`"`, "a", 3<<20, "\"\n"),
			"surrogates":            repeated(`"`, `\ud800`, 500_000, "\"\n"),
			"control characters":    repeated("\"", "\x1b[2J", 1000, "\"\n"),
			"bytes that are no UTF": repeated("\"", "\xff", 1000, "\"\n"),
		}
		for j, what := range slices.Sorted(maps.Keys(texts)) {
			if (i+j)%rehearsal.Stride(5) != 0 {
				continue
			}
			text := texts[what]
			few := strings.Contains(what, "almost") || strings.Contains(what, "surrogates") || strings.Contains(what, "long")
			list = append(list, hostilePack{name: what + " in " + name, make: holds(name, text), code: 1, says: "", few: few || name != "run.json" && name != "patch.json"})
		}
	}
	return append(list,
		hostilePack{name: "as large as is read", make: with(func(t *testing.T, at string) error {
			for name, size := range map[string]int64{"run.json": 64 << 20, "evidence.json": 64 << 20, "patch.json": 128 << 20, "model_io.json": 128 << 20, "bundle.json": 16 << 20} {
				sparse(name, size)(t, at+"-")
				if err := errors.Join(os.RemoveAll(filepath.Join(at, name)), os.Rename(filepath.Join(at+"-", name), filepath.Join(at, name)), os.RemoveAll(at+"-")); err != nil {
					return err
				}
			}
			return nil
		}), code: 1, says: "", few: true},
		hostilePack{name: "a large string in every file", make: with(func(_ *testing.T, at string) error {
			for name, size := range map[string]int{"run.json": 60 << 20, "evidence.json": 60 << 20, "patch.json": 120 << 20, "model_io.json": 120 << 20, "bundle.json": 15 << 20} {
				if err := os.WriteFile(filepath.Join(at, name), []byte(`{"a":"`+strings.Repeat("x", size)+"\"}\n"), 0o644); err != nil {
					return err
				}
			}
			return nil
		}), code: 1, says: "", few: true},
		hostilePack{name: "operations that are all wrong", make: holds("patch.json", func() string {
			return `{"operations":[{"op":"x","path":"../a"}` + strings.Repeat(`,{"op":"x","path":"../a"}`, 90_000) + `],"patch_schema_version":""}` + "\n"
		}), code: 1, says: "PS", few: true},
	)
}

// TestHostilePacks: no hostile pack does harm.
func TestHostilePacks(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	whole := hostileBase(t)
	list := slices.Concat(hostileFolders(), hostileArchives())
	slices.SortFunc(list, func(a, b hostilePack) int { return strings.Compare(a.name, b.name) })
	for n, h := range list {
		t.Run(h.name, func(t *testing.T) { h.check(t, n, whole) })
	}
}

// TestHostilePackPaths: a path that is neither a folder nor a regular file is no pack. The
// command does not wait for it.
func TestHostilePackPaths(t *testing.T) {
	t.Parallel()
	y := newHostileYard(t, hostileBase(t))
	fifo := filepath.Join(y.dir, "fifo")
	loop := filepath.Join(y.dir, "loop")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o644), os.Symlink("loop", loop), os.Symlink("/dev/zero", filepath.Join(y.dir, "zero"))); err != nil {
		t.Fatal(err)
	}
	y.at = fifo
	for _, name := range []string{fifo, loop, filepath.Join(y.dir, "zero"), "/dev/zero", "/dev/null", "", "nowhere\n\x1b[2J", "/proc/self/mem", filepath.Join(y.dir, "secret")} {
		for _, args := range [][]string{{"pack", "verify", name}, {"pack", "show", name}, {"reproduce", name, "--intent", "intent.json"}, {"apply", name, "--to", "yard"}} {
			if text, code := y.run(t, args...); code != cli.ExitError || text == "" {
				t.Errorf("%q: exit status %d: %s", args, code, text)
			}
		}
	}
}
