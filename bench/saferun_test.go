package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestOutputs: the outputs are the same in every run and have the right length. One file
// has text, the other has bytes that are no text.
func TestOutputs(t *testing.T) {
	for _, size := range []int{1, 76, 77, 78, 154, 100_000} {
		text, binary := textOutput(size), byteOutput(size)
		if len(text) != size || len(binary) != size {
			t.Fatalf("%d and %d bytes instead of %d", len(text), len(binary), size)
		}
		if !bytes.Equal(text, textOutput(size)) || !bytes.Equal(binary, byteOutput(size)) {
			t.Errorf("%d bytes differ from themselves", size)
		}
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		if want := (size + 76) / 77; len(lines) != want || text[size-1] != '\n' {
			t.Errorf("%d bytes have %d lines instead of %d, and end with %q", size, len(lines), want, text[size-1])
		}
		for _, line := range lines[:len(lines)-1] {
			if b, err := base64.StdEncoding.DecodeString(string(line)); err != nil || len(b) != 57 {
				t.Fatalf("a line of %d bytes: %v", len(b), err)
			}
		}
		if bytes.IndexByte(binary, '\n') >= 0 || size > 1000 && utf8.Valid(binary) {
			t.Errorf("%d bytes are lines, or text", size)
		}
	}
}

// TestBackAndForth: every round runs every command. Rounds begin in turn with the first
// and with the last command, and rounds for warming up do not count.
func TestBackAndForth(t *testing.T) {
	var order []int
	list, err := backAndForth([]string{"a", "b", "c"}, 1, 2, func(i int) (sample, error) {
		order = append(order, i)
		return sample{Wall: time.Duration(len(order))}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 2, 1, 0, 0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	for i, want := range [][]time.Duration{{6, 7}, {5, 8}, {4, 9}} {
		if name := string(rune('a' + i)); list[i].name != name || !slices.Equal(list[i].walls(), want) {
			t.Errorf("%s has %v", list[i].name, list[i].walls())
		}
	}
	fault := errors.New("fault")
	if _, err := backAndForth([]string{"a"}, 0, 1, func(int) (sample, error) { return sample{}, fault }); err != fault {
		t.Errorf("error %v", err)
	}
}

// find returns the path of a program that these tests need.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// TestPipeline: every command reads the output of the command before it, and every exit
// status is checked.
func TestPipeline(t *testing.T) {
	dir, sh := t.TempDir(), find(t, "sh")
	tee, env := find(t, "tee"), []string{"PATH=" + os.Getenv("PATH")}
	copied := filepath.Join(dir, "copied")
	say := []string{sh, "-c", "echo one; echo two >&2; exit 3"}
	p := pipeline{"it", [][]string{say, {tee, copied}}, []int{3, 0}}
	x, err := p.run(t.Context(), dir, env)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(copied); err != nil || string(b) != "one\n" {
		t.Errorf("%q, %v", b, err)
	}
	if x.Wall <= 0 || x.CPU <= 0 {
		t.Errorf("%+v", x)
	}
	p.exits = nil
	if _, err = p.run(t.Context(), dir, env); err == nil || !strings.Contains(err.Error(), "exit status 3 instead of 0: two") {
		t.Errorf("error %v", err)
	}
	// The commands before and after a missing command end as well.
	p = pipeline{"it", [][]string{{sh, "-c", "while echo x; do :; done"}, {filepath.Join(dir, "absent")}, {tee, copied}}, nil}
	if _, err = p.run(t.Context(), dir, env); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "messages-*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestCleared: a single log is measured and removed, and two logs are an error.
func TestCleared(t *testing.T) {
	s := &stage{scene: scene{dir: t.TempDir()}}
	if size, err := s.cleared(); size != 0 || err != nil {
		t.Errorf("%d, %v", size, err)
	}
	logs := filepath.Join(s.dir, ".agent", "FAIL-LOGS")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(logs, "a.log"), s.copyFile()} {
		if err := os.WriteFile(name, []byte("1234"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := s.cleared(); size != 4 || err != nil {
		t.Errorf("%d, %v", size, err)
	}
	if list, err := os.ReadDir(s.dir); err != nil || len(list) > 0 {
		t.Errorf("left are %v, %v", list, err)
	}
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.log", "b.log"} {
		if err := os.WriteFile(filepath.Join(logs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.cleared(); err == nil {
		t.Error("two logs are no error")
	}
}

// TestSafeRunReport: the section has every table, and says which goals are met.
func TestSafeRunReport(t *testing.T) {
	const ms = time.Millisecond
	s := func(name string, wall time.Duration, peak int64) series {
		return series{name, []sample{{Wall: wall, Peak: peak}}}
	}
	m := &logged{
		sizes: fullLogged(2), on: "a file system", cat: "of somebody",
		starts: []series{s(trueWay, ms, 0), s(spawnWay, 4*ms, 0), s(loggedWay, 5*ms, 0)},
		copies: []series{
			s(throughCat, 60*ms, 0), s(textWay, 100*ms, 0), s(teeWay, 120*ms, 0), s(bytesCat, 60*ms, 0),
			s(bytesWay, 80*ms, 0), s(readerWay, 30*ms, 0), s(nullWay, 40*ms, 0),
		},
		fails: []series{s(textFailed, 50*ms, 0), s(textFails, 500*ms, 0), s(byteFailed, 50*ms, 0), s(byteFails, 400*ms, 0)},
		logs:  map[string]int64{textFails: 225_000_000, byteFails: 233_000_000},
		peaks: []series{s(peakOf("100 MB"), 0, 4<<10), s(peakOf("1 GB"), 0, 4<<10+512)},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| `safe-run true`, beyond a plain fork and exec | ≤ 1.50 ms | 1.00 ms | met |",
		"| the same, of a plain fork and exec | ≤ 1.30 | 1.25 | met |",
		"| 100 MB of text through a pipe, of the speed of cat | ≥ 0.70 | 0.60 | **missed** |",
		"| peak memory for 1 GB, beyond that for 100 MB | ≤ 4.0 MiB | 0.5 MiB | met |",
		"| the command alone | 1.00 ms | 1.00 ms | 0.0 µs | 0.0 MiB | −3.00 ms | 0.25 |",
		"| 1000 | 0.60 (0.60 to 0.60) of `cat TEXT \\| cat \\| reader` |",
		"| 1250 | 0.75 (0.75 to 0.75) of `cat BYTES \\| cat \\| reader` |",
		"| 200 | 0.10 (0.10 to 0.10) of `FAIL TEXT \\| cat \\| reader` |",
		"TEXT has 225 MB, that of BYTES, which is one event in base64, 233 MB", "quick run",
		"on a file system, with cat of somebody", "| `safe-run cat`, 1 GB | 4.5 MiB | 4.5 MiB |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	if again := string(replaceSection([]byte("# Results\n\n"+got+"\n## After\n"), []byte(got))); again != "# Results\n\n"+got+"\n## After\n" {
		t.Errorf("the section does not replace itself: %q", again)
	}
}

// TestSafeRunMeasured: all of the part runs, with the real programs and a little output.
func TestSafeRunMeasured(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	if runtime.GOOS != "linux" {
		t.Skip("peak memory is read as Linux gives it")
	}
	find(t, "go")
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own := builtForTests(t, root, dir)
	var r report
	z := loggedSizes{starts: 1, copies: 1, bytes: 1_000_000, fails: 1, peaks: 1, times: 2}
	var log bytes.Buffer
	if err := r.safeRun(t.Context(), root, own, dir, z, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m := r.logged
	for _, s := range slices.Concat(m.starts, m.copies, m.fails, m.peaks) {
		if len(s.samples) != 1 || s.samples[0].Wall <= 0 {
			t.Errorf("%s has %+v", s.name, s.samples)
		}
	}
	for name, size := range m.logs {
		// The output, and once more its lines as events or in base64.
		if size < 2*int64(z.bytes) || size > 3*int64(z.bytes) {
			t.Errorf("%s left a log of %d bytes", name, size)
		}
	}
	if len(m.logs) != 2 || m.grown() > goalMorePeaks || named(m.peaks, peakOf("1 MB")).samples[0].Peak <= 0 {
		t.Errorf("%v, %d KiB more", m.logs, m.grown())
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "logged", ".agent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left are %v, %v", left, err)
	}
}

// builtForTests builds Fiador and the two small programs as the tests of their packages
// do, so that most of the build is in the cache already.
func builtForTests(t *testing.T, root, dir string) tools {
	t.Helper()
	for at, list := range map[string][]string{root: {"./cmd/fiador"}, filepath.Join(root, "bench"): {"./testdata/empty", "./testdata/launch", "./testdata/asker"}} {
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", dir + string(filepath.Separator)}, list...)...)
		build.Dir = at
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return tools{fiador: filepath.Join(dir, "fiador"), empty: filepath.Join(dir, "empty"), launch: filepath.Join(dir, "launch"), asker: filepath.Join(dir, "asker")}
}
