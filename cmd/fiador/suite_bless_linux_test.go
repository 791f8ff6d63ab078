//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// recordings copies the runs of the demo to OUT, with the id recording.
func (v versus) recordings(t *testing.T) {
	t.Helper()
	for _, side := range []string{"baseline", "new"} {
		if err := os.CopyFS(v.at(side, "recording"), os.DirFS(filepath.Join(root, "harness", "suite", "recording", "demo", side))); err != nil {
			t.Fatal(err)
		}
	}
}

// does runs a command of suite to its good end.
func (v versus) does(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, code := suite(t, args...)
	if code != cli.ExitAccepted {
		t.Fatalf("%q: exit status %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// TestBless: a blessed run is a sealed baseline of what was blessed, by which the run itself is
// unchanged; the run stays as it is, and its signature does not become one of the baseline.
func TestBless(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.recordings(t)
	key, pub := v.keygen(t, "key")
	new := v.at("new", "recording")
	before, run := shot(t, v.out), filesOf(t, new)
	to := filepath.Join(v.dir, "baselines", "main")
	said := v.does(t, "bless", new, "--to", to, "--sign", key)
	if !strings.Contains(said, "baseline, blessed from the run recording\n") {
		t.Error(said)
	}
	unchanged(t, v.out, before)
	if said := v.does(t, "verify", to, "--key", pub); !strings.HasSuffix(said, ": valid, sealed\n") {
		t.Error(said)
	}
	blessed := filesOf(t, to)
	var doc struct {
		Version string
		From    string `json:"blessed_from"`
	}
	if err := json.Unmarshal([]byte(blessed["run.json"]), &doc); err != nil || doc.Version != "baseline" || doc.From != "sha256:"+hashOf([]byte(run["run.json"])) {
		t.Errorf("%+v (%v)", doc, err)
	}
	for name, text := range blessed {
		if strings.Contains(text, `"version":"new"`) || strings.Contains(text, `"side":"new"`) {
			t.Errorf("%s is still of new", name)
		}
		if !strings.HasSuffix(name, ".json") && text != run[name] {
			t.Errorf("%s is another", name)
		}
	}
	if len(blessed) != len(run)+1 {
		t.Errorf("%d files, of %d and a signature", len(blessed), len(run))
	}
	c := v.compare(t, cli.ExitAccepted, "--baseline", to, "--new", new, "--out", filepath.Join(v.dir, "cmp"))
	for _, one := range c.Cases {
		if !strings.HasPrefix(one.Class, "unchanged_") || one.Trace == "changed" {
			t.Errorf("%+v", one)
		}
	}
	if len(c.Cases) != 4 {
		t.Errorf("%+v", c)
	}
	// Without --sign there is no signature, and --key wants one of the run.
	v.copied(t, to+"/signature.json", new+"/signature.json")
	v.does(t, "bless", new, "--to", to+"2")
	if _, err := os.Stat(to + "2/signature.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a signature: %v", err)
	}
	v.refuses(t, "RUN_E006", []string{"signature"}, "bless", new, "--to", to+"3", "--key", pub)
	// A run with an evaluation, which stays behind.
	put(t, new, "evaluation.json", blessed["run.json"])
	if _, _, code := suite(t, "bless", new, "--to", to+"4"); code == cli.ExitAccepted {
		if _, err := os.Stat(to + "4/evaluation.json"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an evaluation: %v", err)
		}
	}
}

// TestBlessRepeats: several repeats become one folder, by which they can be compared.
func TestBlessRepeats(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.group(t, [3]string{"no", "no", "no"}, [3]string{"yes", "no", "yes"})
	to := filepath.Join(v.dir, "kept")
	v.does(t, "bless", filepath.Join(v.out, "new"), "--to", to)
	v.does(t, "verify", to+"/g-r01", to+"/g-r02", to+"/g-r03")
	if c := v.compare(t, cli.ExitAccepted, "--baseline", to, "--new", filepath.Join(v.out, "new")); c.class("a") != "flaky_same" || c.class("b") != "unchanged_pass" || len(c.Baseline.RunIDs) != 3 {
		t.Errorf("%+v", c)
	}
	one := v.at("new", "g-r01")
	v.refuses(t, "RUN_E006", []string{"once"}, "bless", one, one, "--to", to+"2")
	v.refuses(t, "RUN_E006", []string{"once"}, "bless", one, filepath.Join(v.out, "new"), "--to", to+"2")
	other := v.write(t, sample{side: "new", id: "other", answers: map[string]string{"a": "yes", "b": "yes"}})
	v.refuses(t, "RUN_E006", []string{"does not belong"}, "bless", one, other, "--to", to+"2")
	v.refuses(t, "RUN_E004", []string{"several runs", "g, other"}, "bless", filepath.Join(v.out, "new"), "--to", to+"2")
}

// TestBlessRefuses: what is taken, invalid or of baseline is refused, and nothing is written.
func TestBlessRefuses(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	new, to := v.at("new", "r"), filepath.Join(v.dir, "to")
	file := put(t, v.dir, "file", "kept")
	link := filepath.Join(v.dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(v.dir, "empty"), 0o777), os.Symlink("nowhere", link)); err != nil {
		t.Fatal(err)
	}
	key, pub := v.keygen(t, "key")
	for name, c := range map[string]struct {
		code string
		says string
		args []string
	}{
		"a folder": {"RUN_E006", "--to", []string{new, "--to", filepath.Join(v.dir, "empty")}}, "a file": {"RUN_E006", "--to", []string{new, "--to", file}}, "a link": {"RUN_E006", "--to", []string{new, "--to", link}},
		"beneath a file": {"RUN_E006", "room and permission", []string{new, "--to", filepath.Join(file, "x")}}, "in the run": {"RUN_E006", "--to", []string{new, "--to", filepath.Join(new, "x")}},
		"deep in the run": {"RUN_E006", "--to", []string{new, "--to", filepath.Join(new, "assets", "x", "y")}}, "in another run": {"RUN_E006", "--to", []string{new, "--to", filepath.Join(v.at("baseline", "r"), "x")}},
		"nothing": {"RUN_E001", "--to", []string{new}}, "empty": {"RUN_E001", "--to", []string{new, "--to", ""}}, "dash": {"RUN_E001", "--to", []string{new, "--to", "-"}},
		"a baseline": {"RUN_E006", "needs no blessing", []string{v.at("baseline", "r"), "--to", to}}, "no run": {"RUN_E001", "version directory", []string{v.dir, "--to", to}}, "not there": {"RUN_E001", "version directory", []string{to, "--to", to}},
		"no key": {"RUN_E001", "keygen", []string{new, "--to", to, "--sign", pub}}, "key in it": {"RUN_E004", "key", []string{new, "--to", filepath.Dir(key), "--sign", key}}, "unsigned": {"RUN_E006", "signature", []string{new, "--to", to, "--key", pub}},
	} {
		t.Run(name, func(t *testing.T) { v.refuses(t, c.code, []string{c.says}, append([]string{"bless"}, c.args...)...) })
	}
	lost := v.write(t, sample{side: "new", id: "lost", unsealed: true, answers: map[string]string{"a": "lost", "b": "yes"}})
	v.refuses(t, "RUN_E006", []string{"not valid", "suite verify"}, "bless", lost, "--to", to)
}

// TestBlessKilled: a kill during bless leaves the whole baseline or nothing at the place, and what
// else is left begins with .tmp-.
func TestBlessKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	v := newVersus(t)
	answers := map[string]string{}
	for i := range 100 {
		answers[fmt.Sprintf("c%03d", i)] = "yes"
	}
	new := v.write(t, sample{side: "new", id: "r", answers: answers})
	place := filepath.Join(v.dir, "kept")
	begin := func() *exec.Cmd {
		cmd := command(t, "suite", "bless", new, "--to", filepath.Join(place, "main"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaits(t, "a copy has begun", func() bool { list, _ := os.ReadDir(place); return len(list) > 0 })
		return cmd
	}
	undisturbed, began := begin(), time.Now()
	if err := undisturbed.Wait(); err != nil {
		t.Fatal(err)
	}
	span := time.Since(began) // of the copy
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	half, whole := 0, 0
	for range rehearsal.Count(4, 100) {
		cmd := begin()
		time.Sleep(rand.N(span + 1))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		list, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			switch {
			case e.Name() == "main":
				v.does(t, "verify", filepath.Join(place, "main"))
				whole++
			case strings.HasPrefix(e.Name(), ".tmp-"):
				half++
			default:
				t.Errorf("left behind: %s", e.Name())
			}
		}
		if _, err := os.Stat(filepath.Join(place, "main")); err != nil {
			v.does(t, "bless", new, "--to", filepath.Join(place, "main"))
			v.does(t, "verify", filepath.Join(place, "main"))
		}
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d halves and %d whole baselines", half, whole)
}

// TestBlessTogether: of two that bless at once, one makes the baseline, and the other is refused.
func TestBlessTogether(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.recordings(t)
	for i := range rehearsal.Count(5, 100) {
		to := filepath.Join(v.dir, fmt.Sprint("main", i))
		codes, said := make(chan int, 2), make(chan string, 2)
		for range 2 {
			go func() {
				_, stderr, code := suite(t, "bless", v.at("new", "recording"), "--to", to)
				codes <- code
				said <- stderr
			}()
		}
		if sum := <-codes + <-codes; sum != cli.ExitError {
			t.Errorf("exit status %d together\n%s\n%s", sum, <-said, <-said)
		}
		v.does(t, "verify", to)
	}
	if list, _ := filepath.Glob(filepath.Join(v.dir, ".tmp-*")); len(list) > 0 {
		t.Errorf("left behind: %q", list)
	}
}

// TestCompareKilled: a kill during compare leaves whole files and valid directories.
func TestCompareKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	v := newVersus(t)
	v.recordings(t)
	if _, stderr, code := suite(t, "compare", v.out); code != cli.ExitRejected {
		t.Fatal(stderr)
	}
	want, early := filesOf(t, v.out), 0
	for range rehearsal.Count(6, 200) {
		for name := range filesOf(t, v.out) {
			if filepath.Base(name) == "evaluation.json" || !strings.Contains(name, "/") {
				_ = os.Remove(filepath.Join(v.out, name))
			}
		}
		cmd := command(t, "suite", "compare", v.out)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1800000000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaits(t, "a file is written", func() bool {
			list, _ := os.ReadDir(v.out)
			return len(list) > 2
		})
		time.Sleep(rand.N(10 * time.Millisecond))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for name, text := range filesOf(t, v.out) {
			if was, known := want[name]; known && was != text || !known && (strings.Contains(name, "/") || !strings.HasPrefix(name, ".tmp-") && !strings.HasPrefix(name, ".fiador-")) {
				t.Errorf("%s is left, with %d bytes", name, len(text))
			}
		}
		if _, err := os.Stat(filepath.Join(v.out, "compare-report.json")); err != nil {
			early++
		}
		v.does(t, "verify", v.at("new", "recording"), v.at("baseline", "recording"))
	}
	t.Logf("%d kills came before the end", early)
	v.compare(t, cli.ExitRejected, v.out)
}

// TestCompareFullDisk: without room neither compare nor bless leaves a half file, and both say what
// helps. With more room they end as ever.
func TestCompareFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	v := newVersus(t)
	v.recordings(t)
	script := `d=$1 from=$2 room=$3 program=$4; mount -t tmpfs -o size=2m none "$d" || exit 99; cp -a "$from" "$d/out"; head -c 9000000 /dev/zero >"$d/fill" 2>/dev/null; truncate -s "-$room" "$d/fill"
"$program" suite compare "$d/out"; a=$?; "$program" suite bless "$d/out/new/recording" --to "$d/kept/main"; b=$?; ls -AR "$d"; rm "$d/fill"
echo "then"; "$program" suite compare "$d/out" >/dev/null 2>&1; c=$?; "$program" suite bless "$d/out/new/recording" --to "$d/kept/main" 2>&1 && "$program" suite verify "$d/kept/main"; echo "ended $a $b $c"`
	for _, room := range []string{"0", "4k", "8k", "12k", "20k", "28k"} {
		disk := filepath.Join(v.dir, "disk")
		if err := os.MkdirAll(disk, 0o777); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr strings.Builder
		cmd := exec.Command("/bin/sh", "-c", script, "sh", disk, v.out, room, command(t).Path)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if code := status(t, cmd.Run()); code == 99 {
			t.Skipf("no file system can be mounted here: %s", stderr.String())
		}
		first, then, _ := strings.Cut(stdout.String(), "then\n")
		if !strings.Contains(then, "ended 2 2 1\n") || !strings.Contains(then, ": valid, sealed\n") || strings.Count(stderr.String(), "room and permission") != 2 || strings.Contains(first, ".tmp-") || strings.Contains(first, ".fiador-") ||
			strings.Contains(first, "main") || strings.Contains(first, `"schema_version"`) || strings.Contains(first, "signature.json") {
			t.Errorf("%s:\n%s\n%s", room, stdout.String(), stderr.String())
		}
	}
}

// TestComparePlaces: where nothing can be read or written, compare says what helps, and leaves no
// half file.
func TestComparePlaces(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	empty := filepath.Join(v.dir, "empty")
	half := filepath.Join(v.dir, "half")
	for _, dir := range []string{empty, filepath.Join(half, "baseline"), filepath.Join(half, "new")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	file, new := put(t, v.dir, "file", "kept"), v.at("new", "r")
	key, pub := v.keygen(t, "key")
	for name, c := range map[string]struct {
		code string
		says string
		args []string
	}{
		"no folder": {"RUN_E004", "suite run --out", []string{filepath.Join(v.dir, "none")}}, "an empty folder": {"RUN_E004", "suite run --out", []string{empty}}, "empty sides": {"RUN_E004", "no run of new", []string{half}},
		"a file": {"RUN_E001", "suite run --out", []string{file}}, "nothing": {"RUN_E001", "--new", nil}, "an empty name": {"RUN_E001", "ROOT", []string{""}}, "dash": {"RUN_E001", "./-", []string{"-"}}, "two": {"RUN_E001", "", []string{v.out, v.out}},
		"no new": {"RUN_E001", "version directory", []string{"--new", filepath.Join(v.dir, "none")}}, "empty new": {"RUN_E001", "--new", []string{"--new", ""}}, "new is -": {"RUN_E001", "--new", []string{"--new", "-"}}, "new is empty": {"RUN_E001", "version directory", []string{"--new", empty}},
		"baseline is -": {"RUN_E001", "--baseline", []string{"--new", new, "--baseline", "-"}}, "out is -": {"RUN_E001", "--out", []string{v.out, "--out", "-"}}, "out is empty": {"RUN_E001", "--out", []string{v.out, "--out", ""}},
		"out is a file": {"RUN_E006", "--out room and permission", []string{v.out, "--out", file}}, "out beneath a file": {"RUN_E001", "--out", []string{v.out, "--out", filepath.Join(file, "x")}},
		"out is a run": {"RUN_E004", "does not change", []string{v.out, "--out", new}}, "out in a run": {"RUN_E004", "does not change", []string{v.out, "--out", filepath.Join(new, "assets", "deep")}}, "a report in a run": {"RUN_E004", "does not change", []string{v.out, "--report", "json=" + filepath.Join(new, "run.json")}},
		"a report twice": {"RUN_E004", "one file", []string{v.out, "--report", "json=" + file + "2", "--report", "json=" + filepath.Join(v.out, "..", "file2")}}, "report over the page": {"RUN_E004", "another file", []string{v.out, "--report", "json=" + filepath.Join(v.out, "report.html")}},
		"report over the signature": {"RUN_E004", "another file", []string{v.out, "--report", "json=" + filepath.Join(v.out, "signature.json")}}, "report is -": {"RUN_E001", "--format", []string{v.out, "--report", "json=-"}},
		"key is none": {"RUN_E001", "keygen", []string{v.out, "--sign", pub}}, "key is -": {"RUN_E001", "", []string{v.out, "--sign", "-"}}, "key in OUT": {"RUN_E004", "key", []string{v.out, "--out", v.dir, "--sign", key}},
		"run.json as ROOT": {"RUN_E001", "", []string{filepath.Join(new, "run.json")}}, "a run as ROOT": {"RUN_E004", "no run of new", []string{new}},
	} {
		t.Run(name, func(t *testing.T) { v.refuses(t, c.code, []string{c.says}, append([]string{"compare"}, c.args...)...) })
	}
	if apart, err := os.MkdirTemp("/dev/shm", "fiador-test-"); err == nil { // where the nearest common folder is the root
		defer os.RemoveAll(apart)
		if err := os.CopyFS(apart, os.DirFS(new)); err != nil {
			t.Fatal(err)
		}
		v.refuses(t, "RUN_E001", []string{"--out"}, "compare", "--baseline", v.at("baseline", "r"), "--new", apart)
		v.compare(t, cli.ExitAccepted, "--baseline", v.at("baseline", "r"), "--new", apart, "--out", v.out)
	}
	run := filepath.Join(new, "run.json")
	text, err := os.ReadFile(run)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"a folder": func() error { return os.Mkdir(run, 0o777) }, "a pipe": func() error { return syscall.Mkfifo(run, 0o666) }, "a link": func() error { return os.Symlink(file, run) },
		"huge": func() error { return errors.Join(os.WriteFile(run, nil, 0o666), os.Truncate(run, 65<<20)) }, "binary": func() error { return os.WriteFile(run, []byte("\x00\xff"), 0o666) },
	} {
		t.Run("run.json is "+name, func(t *testing.T) {
			remove(t, run)
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if name == "huge" || name == "a pipe" { // no shot of these
				if stdout, stderr, code := suite(t, "compare", v.out); code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"hint"`) || strings.Contains(stderr, "RUN_E007") {
					t.Errorf("exit status %d: %s%s", code, stdout, stderr)
				}
			} else {
				before := shot(t, v.out)
				if stdout, stderr, code := suite(t, "compare", v.out); code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"hint"`) || strings.Contains(stderr, "RUN_E007") {
					t.Errorf("exit status %d: %s%s", code, stdout, stderr)
				}
				unchanged(t, v.out, before)
			}
			remove(t, run)
			put(t, new, "run.json", string(text))
		})
	}
	v.occupied(t)
}

// occupied compares where something else stands at the place of a file of OUT: a folder is an error,
// and a link is replaced, not followed.
func (v versus) occupied(t *testing.T) {
	t.Helper()
	victim := put(t, v.dir, "victim", "kept")
	for _, name := range []string{"compare-report.json", "report.html", "signature.json", "new/r/evaluation.json"} {
		place := filepath.Join(v.out, name)
		_ = os.Remove(place)
		if err := errors.Join(os.Mkdir(place, 0o777), os.WriteFile(filepath.Join(place, "kept"), nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := suite(t, "compare", v.out)
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"hint"`) || strings.Contains(stderr, "RUN_E007") {
			t.Errorf("%s is a folder: exit status %d\n%s%s", name, code, stdout, stderr)
		}
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
		if name == "new/r/evaluation.json" { // a link in a version directory is a violation
			continue
		}
		if err := os.Symlink(victim, place); err != nil {
			t.Fatal(err)
		}
		v.compare(t, cli.ExitAccepted, v.out)
		if text, err := os.ReadFile(victim); err != nil || string(text) != "kept" {
			t.Errorf("%s was a link: %q, %v", name, text, err)
		}
		if list := slices.Sorted(func(yield func(string) bool) {
			for name := range filesOf(t, v.out) {
				if strings.HasPrefix(filepath.Base(name), ".") && !yield(name) {
					return
				}
			}
		}); len(list) > 0 {
			t.Errorf("half files: %q", list)
		}
	}
}

// TestCompareMoved: a folder that becomes a link while the cases are read leads nowhere else.
func TestCompareMoved(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for name, c := range map[string]struct{ out, part, place string }{
		"OUT":               {"out", "out", "out"},
		"a new OUT":         {"fresh", "fresh", "fresh"},
		"the folder above":  {"above/out", "above", "above"},
		"a version, inside": {"out", "out/new/r", "out/victim"},
		"a side":            {"out", "out/new", "out"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersus(t)
			v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
			victim := filepath.Join(v.dir, "victim")
			if c.place == "out/victim" {
				victim = filepath.Join(v.dir, c.place)
			}
			for _, dir := range []string{filepath.Join(victim, "r"), filepath.Join(victim, "out"), filepath.Join(v.dir, "above", "out")} {
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			cases := filepath.Join(v.dir, "cases.json")
			if err := syscall.Mkfifo(cases, 0o666); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			cmd := command(t, "suite", "compare", "--baseline", v.at("baseline", "r"), "--new", v.at("new", "r"), "--out", filepath.Join(v.dir, c.out), "--cases", cases)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pipe := writer(t, cases) // both sides are loaded then
			part := filepath.Join(v.dir, c.part)
			if err := os.Rename(part, part+" moved"); err != nil && c.part != "fresh" {
				t.Fatal(err)
			}
			if err := os.Symlink(victim, part); err != nil {
				t.Fatal(err)
			}
			before := shot(t, victim)
			if _, err := pipe.WriteString(twoCases); err != nil {
				t.Fatal(err)
			}
			_ = pipe.Close()
			if code := status(t, cmd.Wait()); code != cli.ExitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), "leave it alone") {
				t.Errorf("exit status %d\n%s%s", code, stdout.String(), stderr.String())
			}
			unchanged(t, victim, before)
		})
	}
}

// writer opens a FIFO as soon as a program reads it.
func writer(t *testing.T, fifo string) (pipe *os.File) {
	t.Helper()
	awaits(t, "a program reads "+fifo, func() bool {
		var err error
		pipe, err = os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	return pipe
}

// TestCompareInterrupted: after a Ctrl-C nothing is written.
func TestCompareInterrupted(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	cases := filepath.Join(v.dir, "cases.json")
	if err := syscall.Mkfifo(cases, 0o666); err != nil {
		t.Fatal(err)
	}
	before := shot(t, v.out)
	var stdout, stderr strings.Builder
	cmd := command(t, "suite", "compare", v.out, "--cases", cases)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe := writer(t, cases)
	defer pipe.Close()
	_ = cmd.Process.Signal(os.Interrupt)
	if code := status(t, cmd.Wait()); code != cli.ExitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit status %d\n%s%s", code, stdout.String(), stderr.String())
	}
	unchanged(t, v.out, before)
}

// TestBlessForeign: of a run of another runner, every file that its documents name comes along,
// wherever it lies.
func TestBlessForeign(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	dir := v.write(t, sample{side: "new", id: "r", unsealed: true, answers: map[string]string{"a": "yes", "b": "down"}, extensionsOf: "a"})
	copied := "assets/" + hashOf([]byte(twoCases)) + ".txt"
	for name, text := range map[string]string{"more/cases.txt": twoCases, "notes.md": "by hand"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, text)
	}
	for _, name := range []string{"run.json", "assets/manifest.json"} {
		rewrite(t, filepath.Join(dir, name), swap(copied, "more/cases.txt"))
	}
	rewrite(t, filepath.Join(dir, "a.json"), swap(`"case_id"`, `"of_tomorrow":{"n":1.50},"case_id"`))
	v.does(t, "verify", dir)
	before, to := shot(t, dir), filepath.Join(v.dir, "to")
	v.does(t, "bless", dir, "--to", to)
	unchanged(t, dir, before)
	if said := v.does(t, "verify", to); !strings.HasSuffix(said, ": valid, sealed\n") {
		t.Error(said)
	}
	kept := filesOf(t, to)
	if kept["more/cases.txt"] != twoCases || kept["notes.md"] != "by hand" || !strings.Contains(kept["a.json"], `{"n":1.50}`) {
		t.Errorf("%q", kept)
	}
	if c := v.compare(t, cli.ExitError, "--baseline", to, "--new", dir); c.class("a") != "unchanged_pass" || c.class("b") != "baseline_unusable" {
		t.Errorf("%+v", c)
	}
}
