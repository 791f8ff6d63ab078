package saferun_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/saferun"
)

// late is a time shortly before midnight in UTC. In its own zone it is on the next day.
var late = time.Date(2027, 1, 1, 8, 59, 58, 999999999, time.FixedZone("", 9*60*60))

// inside is a run of safe-run in this process.
type inside struct {
	dir     string // of logs
	names   string
	now     time.Time // the zero value: the time
	rand    io.Reader // nil: random
	signals chan os.Signal
}

// run runs a shell script.
func (in inside) run(t *testing.T, script string) (code int, stderr string) {
	t.Helper()
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if in.rand == nil {
		in.rand = rand.Reader
	}
	if in.now.IsZero() {
		in.now = time.Now()
	}
	var errs rehearsal.Buffer
	code = saferun.Run(sh(script), saferun.System{
		Stdin: stdin, Stdout: io.Discard, Stderr: &errs, Signals: in.signals,
		Env: []string{path, "SAFE_LOG_DIR=" + in.dir, "SAFE_RUN_LOG_NAMES=" + in.names},
		Now: func() time.Time { return in.now }, Rand: in.rand,
	})
	return code, errs.String()
}

// same reads as one byte, repeated without end.
type same byte

func (s same) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s)
	}
	return len(b), nil
}

// logs returns the names in a folder, and none for an absent folder.
func logs(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestLogName: the name has the time of the command's start, in UTC in every time zone,
// and eight random digits.
func TestLogName(t *testing.T) {
	before := time.Now().UTC().Truncate(time.Second)
	r := run(t, options{env: []string{"TZ=Asia/Tokyo"}}, sh("exit 3")...)
	l := r.failed(t, 3)
	m := regexp.MustCompile(`^safe-run-(\d{8}-\d{6})-[0-9a-f]{8}\.log$`).FindStringSubmatch(filepath.Base(l.path))
	if m == nil {
		t.Fatalf("the log is %q", l.path)
	}
	if at, err := time.Parse("20060102-150405", m[1]); err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("the log %q of a run at %v: %v", l.path, before, err)
	}
	pid := strconv.Itoa(os.Getpid())
	for _, tc := range []struct {
		names, want string
		signals     []os.Signal
	}{
		{"", "safe-run-20261231-235958-03030303.log", nil},
		{"", "safe-run-20261231-235958-03030303.log", []os.Signal{syscall.SIGTERM}},
		{"rfc", "20261231T235958Z-pid" + pid + "-FAIL.log", nil},
		{"rfc", "20261231T235958Z-pid" + pid + "-ABORTED.log", []os.Signal{syscall.SIGTERM}},
	} {
		in := inside{dir: t.TempDir(), names: tc.names, now: late, rand: same(3), signals: make(chan os.Signal, 1)}
		script, want := "exit 3", "exit code 3"
		for _, s := range tc.signals {
			in.signals <- s
			script, want = "sleep 1000", "interrupted by TERM, exit code 143"
		}
		_, stderr := in.run(t, script)
		if got := logs(t, in.dir); !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%q: logs %q, want %q", tc.names, got, tc.want)
		}
		if want = fmt.Sprintf("safe-run: %s, log %q\n", want, filepath.Join(in.dir, tc.want)); stderr != want {
			t.Errorf("standard error %q, want %q", stderr, want)
		}
	}
}

// TestNoClobber: a file with the name of a log, or of its temporary file, is neither
// replaced nor followed. safe-run finds another name, and tries 100.
func TestNoClobber(t *testing.T) {
	const first = "safe-run-20261231-235958-01010101.log"
	rfc := "20261231T235958Z-pid" + strconv.Itoa(os.Getpid()) + "-FAIL"
	for _, tc := range []struct {
		name  string
		rand  func() io.Reader
		names string
		taken []string
		want  string // the log; "": there is no log
		why   string // the reason for no log
	}{
		{"a name", bytesThen(2, "\x02\x02\x02\x02\x01\x01\x01\x01"), "", []string{first}, "safe-run-20261231-235958-02020202.log", ""},
		{"many names", bytesThen(2, strings.Repeat("\x01", 4*100)), "", []string{first}, "safe-run-20261231-235958-02020202.log", ""},
		{"every name", bytesThen(1, ""), "", []string{first}, "", "100 names are taken"},
		{"a temporary name", bytesThen(2, "\x01\x01\x01\x01"), "", []string{".safe-run-01010101.tmp"}, "safe-run-20261231-235958-02020202.log", ""},
		{"every temporary name", bytesThen(1, ""), "", []string{".safe-run-01010101.tmp"}, "", "file exists"},
		{"no randomness", func() io.Reader { return strings.NewReader("") }, "", nil, "", "EOF"},
		{"no randomness for the name", func() io.Reader { return strings.NewReader("abcd") }, "", nil, "", "EOF"},
		{"rfc", nil, "rfc", []string{rfc + ".log"}, rfc + "-1.log", ""},
		{"rfc, two", nil, "rfc", []string{rfc + ".log", rfc + "-1.log", rfc + "-3.log"}, rfc + "-2.log", ""},
		{"rfc, all", nil, "rfc", numbered(rfc, 100), "", "100 names are taken"},
		{"rfc, all but one", nil, "rfc", numbered(rfc, 99), rfc + "-99.log", ""},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				in := inside{dir: filepath.Join(t.TempDir(), "logs"), names: tc.names, now: late}
				if tc.rand != nil {
					in.rand = tc.rand()
				}
				target := filepath.Join(t.TempDir(), "target")
				ok(t, os.Mkdir(in.dir, 0o755))
				for _, name := range tc.taken {
					kind.make(t, filepath.Join(in.dir, name), target)
				}
				before := state(t, in.dir, target)
				code, stderr := in.run(t, "echo out; exit 3")
				want := fmt.Sprintf("safe-run: exit code 3, log %q\n", filepath.Join(in.dir, tc.want))
				if tc.want == "" {
					want = fmt.Sprintf("safe-run: exit code 3, no log: folder %q: %s\n", in.dir, tc.why)
				} else {
					if l := openLog(t, filepath.Join(in.dir, tc.want)); l.Code() != 3 || l.stdout != "out\n" {
						t.Errorf("code %d, standard output %q", l.Code(), l.stdout)
					}
					ok(t, os.Remove(filepath.Join(in.dir, tc.want)))
				}
				if code != 3 || stderr != want {
					t.Errorf("exit status %d, standard error %q, want %q", code, stderr, want)
				}
				if after := state(t, in.dir, target); after != before {
					t.Errorf("after the run there is\n%s\nbefore it there was\n%s", after, before)
				}
			})
		}
	}
}

// bytesThen reads as a text, and then as one byte over and over.
func bytesThen(then same, text string) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(text), then) }
}

// numbered returns the first n names of a run.
func numbered(base string, n int) (names []string) {
	names = append(names, base+".log")
	for i := 1; i < n; i++ {
		names = append(names, base+"-"+strconv.Itoa(i)+".log")
	}
	return names
}

// kinds are the kinds of files that may have the name already.
var kinds = []struct {
	name string
	make func(t *testing.T, path, target string)
}{
	{"a file", func(t *testing.T, path, _ string) { ok(t, os.WriteFile(path, []byte("mine"), 0o644)) }},
	{"a folder", func(t *testing.T, path, _ string) { ok(t, os.Mkdir(path, 0o755)) }},
	{"a symlink to nothing", func(t *testing.T, path, target string) { ok(t, os.Symlink(target, path)) }},
	{"a symlink to a file", func(t *testing.T, path, target string) {
		ok(t, os.WriteFile(target, []byte("mine"), 0o644), os.Symlink(target, path))
	}},
	{"a symlink to a folder", func(t *testing.T, path, target string) {
		ok(t, os.MkdirAll(target, 0o755), os.Symlink(target, path))
	}},
}

// state describes everything beneath some paths.
func state(t *testing.T, paths ...string) string {
	t.Helper()
	var b strings.Builder
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			text := []byte("")
			if info.Mode().IsRegular() {
				text, err = os.ReadFile(path)
			}
			fmt.Fprintf(&b, "%s %v %q\n", path, info.Mode(), text)
			return err
		})
		ok(t, err)
	}
	return b.String()
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestModes: only the caller can use a log and its folder, whatever the umask is. An
// existing folder keeps its mode.
func TestModes(t *testing.T) {
	for _, umask := range []string{"000", "022", "077"} {
		for _, there := range []bool{false, true} {
			dir := t.TempDir()
			want := map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/c": 0o700}
			if there {
				ok(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.Chmod(filepath.Join(dir, "a/b"), 0o755), os.Chmod(filepath.Join(dir, "a"), 0o751))
				want["a"], want["a/b"] = 0o751, 0o755
			}
			o := options{dir: dir, env: []string{"SAFE_LOG_DIR=a/b/c"}, under: []string{"sh", "-c", "umask " + umask + `; exec "$0" "$@"`}}
			r := run(t, o, sh("exit 3")...)
			want[r.named(t)] = 0o600
			for name, mode := range want {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
					t.Errorf("umask %s: %s is %v, want %v (%v)", umask, name, info.Mode(), mode, err)
				}
			}
		}
	}
}

var namedLog = regexp.MustCompile(`(?m)^safe-run: exit code \d+, log (".*")$`)

// named returns the path of the log on standard error, without its quotes.
func (r result) named(t *testing.T) string {
	t.Helper()
	m := namedLog.FindStringSubmatch(r.stderr)
	if m == nil {
		t.Fatalf("standard error names no log: %q", r.stderr)
	}
	name, err := strconv.Unquote(m[1])
	ok(t, err)
	return name
}

// folders has a folder "folder", a file "file" and symlinks.
func folders(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ok(t,
		os.MkdirAll(filepath.Join(dir, "far/folder"), 0o755), os.Mkdir(filepath.Join(dir, "folder"), 0o755),
		os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o644),
		os.Symlink("far/folder", filepath.Join(dir, "link")), os.Symlink("nothing", filepath.Join(dir, "dangling")),
		os.Symlink("file", filepath.Join(dir, "to file")), os.Symlink("loop", filepath.Join(dir, "loop")))
	return dir
}

// TestLogFolder: the place of the log for each kind of SAFE_LOG_DIR. The printed path
// leads to the log, and is one line of printable text.
func TestLogFolder(t *testing.T) {
	for _, tc := range []struct{ dir, want string }{
		{"", ".agent/FAIL-LOGS"}, {"folder", "folder"}, {"folder/", "folder"}, {"./folder", "folder"}, {"new", "new"}, {"new/er//est/", "new/er/est"},
		{".", "."}, {"folder/..", "."}, {"new/../new", "new"}, {"/ABSOLUTE/new", "new"}, {"/ABSOLUTE/folder/../new", "new"},
		{"link", "far/folder"}, {"link/new", "far/folder/new"}, {"link/../new", "far/new"}, {"link/..", "far"}, {"/ABSOLUTE/link/../new", "far/new"},
		{" ", " "}, {"a b", "a b"}, {"-", "-"}, {"--help", "--help"}, {"*", "*"}, {"ordner ä\u202e", "ordner ä\u202e"},
		{"new\nline", "new\nline"}, {`quo"te\n`, `quo"te\n`}, {"esc\x1b[2J\r\x07", "esc\x1b[2J\r\x07"}, {"bad\xff", "bad\xff"}, {"u\u2028\u0085", "u\u2028\u0085"},
		{"'", "'"}, {strings.Repeat("n", 255), strings.Repeat("n", 255)},
	} {
		dir := folders(t)
		value := strings.Replace(tc.dir, "/ABSOLUTE", dir, 1)
		r := run(t, options{dir: dir, env: []string{"SAFE_LOG_DIR=" + value}}, sh("exit 3")...)
		name := r.named(t)
		if !strings.HasPrefix(name, "/") {
			name = dir + "/" + name // not Join, which would not follow a symlink before ".."
		}
		list, err := filepath.Glob(filepath.Join(escaped(filepath.Join(dir, tc.want)), "safe-run-*"))
		if err != nil || len(list) != 1 {
			t.Errorf("%q: logs %q, %v", tc.dir, list, err)
			continue
		}
		one, err := os.Stat(list[0])
		ok(t, err)
		if other, err := os.Stat(name); err != nil || !os.SameFile(one, other) {
			t.Errorf("%q: the log is %q, named is %q (%v)", tc.dir, list[0], name, err)
		}
		openLog(t, list[0])
		if lines := strings.Count(r.stderr, "\n"); r.code != 3 || lines != 1 || strings.ContainsFunc(strings.TrimSuffix(r.stderr, "\n"), unprintable) {
			t.Errorf("%q: exit status %d, standard error %q", tc.dir, r.code, r.stderr)
		}
	}
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// escaped returns a pattern that matches only this path.
func escaped(path string) string { return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`) }

// TestBadLogFolder: if no log can be written, the exit status is unchanged, and standard
// error says why. No file is changed.
func TestBadLogFolder(t *testing.T) {
	for _, tc := range []struct{ dir, why string }{
		{"file", "not a directory"}, {"file/new", "not a directory"}, {"file/new/er", "not a directory"},
		{"to file", "not a directory"}, {"to file/new", "not a directory"}, {"/dev/null", "not a directory"},
		{"dangling", "file exists"}, {"dangling/new", "file exists"}, {"loop", "file exists"}, {"loop/new", "file exists"},
		{strings.Repeat("n", 256), "file name too long"},
		{"file/\n\x1b\"", "not a directory"}, {"/proc/none", "no such file or directory"},
	} {
		dir := folders(t)
		before := state(t, dir)
		r := run(t, options{dir: dir, env: []string{"SAFE_LOG_DIR=" + tc.dir}}, sh("echo out; echo err >&2; exit 3")...)
		want := fmt.Sprintf("err\nsafe-run: exit code 3, no log: folder %q: %s\n", tc.dir, tc.why)
		if r.code != 3 || r.stdout != "out\n" || r.stderr != want {
			t.Errorf("exit status %d, standard output %q, standard error %q, want %q", r.code, r.stdout, r.stderr, want)
		}
		if after := state(t, dir); after != before {
			t.Errorf("%.20q: there is\n%s\nbefore there was\n%s", tc.dir, after, before)
		}
	}
}

// ordinary changes options to those of an ordinary user, and opens every folder above dir
// to everybody.
func (o options) ordinary(t *testing.T) options {
	t.Helper()
	if os.Getuid() != 0 {
		return o
	}
	for d := o.dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		ok(t, os.Chmod(d, 0o755))
	}
	binary, err := os.Open(self(t))
	ok(t, err)
	t.Cleanup(func() { binary.Close() })
	// Only root may be able to read the folder of the test binary, so the test passes an
	// open descriptor.
	o.under, o.extra = append(o.under, "sh", "-c", `exec /proc/self/fd/3 "$@"`), []*os.File{binary}
	o.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return o
}

// TestLogFolderUnwritable: as for any folder that an ordinary user may not write to.
func TestLogFolderUnwritable(t *testing.T) {
	for _, tc := range []struct {
		mode fs.FileMode
		dir  string
		why  string // "": there is a log
	}{
		{0o777, "folder", ""}, {0o777, "folder/new", ""},
		{0o555, "folder", "permission denied"}, {0o555, "folder/new", "permission denied"},
		{0o000, "folder", "permission denied"}, {0o000, "folder/new/er", "permission denied"}, {0o666, "folder", "permission denied"},
	} {
		dir := folders(t)
		o := options{dir: dir, env: []string{"SAFE_LOG_DIR=" + tc.dir}}.ordinary(t)
		ok(t, os.Chmod(filepath.Join(dir, "folder"), tc.mode))
		r := run(t, o, sh("echo out; exit 3")...)
		ok(t, os.Chmod(filepath.Join(dir, "folder"), 0o755))
		want := fmt.Sprintf("safe-run: exit code 3, no log: folder %q: %s\n", tc.dir, tc.why)
		if tc.why == "" {
			want = fmt.Sprintf("safe-run: exit code 3, log %q\n", r.named(t))
		}
		if r.code != 3 || r.stdout != "out\n" || r.stderr != want {
			t.Errorf("%v: exit status %d, standard output %q, standard error %q, want %q", tc.mode, r.code, r.stdout, r.stderr, want)
		}
		if list := logs(t, filepath.Join(dir, "folder")); tc.why != "" && len(list) > 0 {
			t.Errorf("%v: %q was left", tc.mode, list)
		}
	}
}

// TestFiftyAtOnce: fifty runs at the same time, in a folder that does not exist yet, each
// leave a whole log and nothing else.
func TestFiftyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var tools []*tool
	for i := range 50 {
		tools = append(tools, start(t, options{dir: dir}, sh(`echo "$1"; echo "$1" >&2; exit 3`, strconv.Itoa(i))...))
	}
	seen := map[string]bool{}
	for i, p := range tools {
		r := p.wait()
		l := openLog(t, filepath.Join(dir, r.named(t)))
		want := strconv.Itoa(i) + "\n"
		if seen[l.path] || r.code != 3 || l.Code() != 3 || l.stdout != want || l.stderr != want {
			t.Errorf("run %d: exit status %d, log %q has %q and %q", i, r.code, l.path, l.stdout, l.stderr)
		}
		seen[l.path] = true
	}
	if list := logs(t, filepath.Join(dir, ".agent/FAIL-LOGS")); len(list) != 50 {
		t.Errorf("%d files: %q", len(list), list)
	}
}

// TestFiftyNames: fifty runs at the same time whose logs would have the same name.
func TestFiftyNames(t *testing.T) {
	in := inside{dir: filepath.Join(t.TempDir(), "logs"), names: "rfc", now: late}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if code, stderr := in.run(t, "echo "+strconv.Itoa(i)+"; exit 3"); code != 3 || !strings.HasPrefix(stderr, "safe-run: exit code 3, log ") {
				t.Errorf("exit status %d, standard error %q", code, stderr)
			}
		})
	}
	all.Wait()
	want := numbered("20261231T235958Z-pid"+strconv.Itoa(os.Getpid())+"-FAIL", 50)
	slices.Sort(want)
	if got := logs(t, in.dir); !slices.Equal(got, want) {
		t.Errorf("logs %q, want %q", got, want)
	}
	seen := map[string]bool{}
	for _, name := range want {
		seen[openLog(t, filepath.Join(in.dir, name)).stdout] = true
	}
	if len(seen) != 50 {
		t.Errorf("logs of %d runs: one was replaced by another", len(seen))
	}
}

// TestNeverPartial: a watcher of the folder sees only whole logs, however large they are
// and however soon it opens them.
func TestNeverPartial(t *testing.T) {
	const runs = 30
	dir := t.TempDir()
	done := make(chan struct{})
	var worker sync.WaitGroup
	opened := map[string]bool{}
	worker.Go(func() {
		for last := false; !last; time.Sleep(50 * time.Microsecond) {
			select {
			case <-done:
				last = true
			default:
			}
			list, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil {
				t.Error(err)
			}
			for _, path := range list {
				if !opened[path] {
					opened[path] = true
					if err := whole(path); err != nil {
						t.Errorf("a log was seen before it was whole: %v", err)
					}
				}
			}
		}
	})
	var runners sync.WaitGroup
	for range 2 {
		runners.Go(func() {
			for range runs / 2 {
				in := inside{dir: dir}
				if code, stderr := in.run(t, `yes "a line of some length, so that there are not too many of them" | head -c 1000000; exit 3`); code != 3 {
					t.Errorf("exit status %d, standard error %q", code, stderr)
				}
			}
		})
	}
	runners.Wait()
	close(done)
	worker.Wait()
	if len(opened) != runs {
		t.Errorf("%d logs were opened, want %d", len(opened), runs)
	}
}

// TestViews compares every byte of a log in both views.
func TestViews(t *testing.T) {
	script := sh(`printf 'a\r\n\nbase64:x\npart'; printf 'e \377\n' >&2; exit 3`)
	const ledger = "=== STDOUT ===\na\r\n\nbase64:x\npart\n=== STDERR ===\ne \xff\n\n--- BEGIN EVENTS ---\n" +
		`[SEQ=1][META] safe-run start: cmd="sh -c 'printf '\''a\r\n\nbase64:x\npart'\''; printf '\''e \377\n'\'' >&2; exit 3' sh"` + "\n" +
		"[SEQ=2][STDOUT] a\n[SEQ=3][STDOUT] \n[SEQ=4][STDOUT] base64:YmFzZTY0Ong=\n[SEQ=5][STDERR] base64:ZSD/\n[SEQ=6][STDOUT] part\n" +
		"[SEQ=7][META] safe-run exit: code=3\n--- END EVENTS ---\n"
	const merged = "a\r\n\nbase64:x\ne \xff\npart"
	for view, want := range map[string]string{"": ledger, "ledger": ledger, "merged": merged} {
		r := run(t, options{env: []string{"SAFE_RUN_VIEW=" + view}}, script...)
		got, err := os.ReadFile(filepath.Join(r.dir, r.named(t)))
		if err != nil || string(got) != want {
			t.Errorf("view %q: %q, want %q (%v)", view, got, want, err)
		}
		if r.code != 3 || r.stdout != "a\r\n\nbase64:x\npart" {
			t.Errorf("view %q: exit status %d, standard output %q", view, r.code, r.stdout)
		}
	}
}

// TestOwnLine: the messages of safe-run begin on a new line. The caller's copy ends at the
// end of the command's output.
func TestOwnLine(t *testing.T) {
	for script, want := range map[string]string{
		`exit 3`: "", `printf 'a\n' >&2; exit 3`: "a\n", `printf 'a\n\n' >&2; exit 3`: "a\n\n",
		`printf 'a' >&2; exit 3`: "a\n", `printf 'a\nb\r' >&2; exit 3`: "a\nb\r\n", `printf b; exit 3`: "",
	} {
		r := run(t, options{}, sh(script)...)
		if got, _, found := strings.Cut(r.stderr, "safe-run: exit code 3, log "); !found || got != want {
			t.Errorf("%s: standard error %q, want %q", script, r.stderr, want)
		}
	}
	r := run(t, options{}, sh(`printf a >&2`)...)
	if r.code != 0 || r.stderr != "a" {
		t.Errorf("exit status %d, standard error %q", r.code, r.stderr)
	}
	both, err := os.Create(filepath.Join(t.TempDir(), "both"))
	ok(t, err)
	defer both.Close()
	run(t, options{stdout: both, stderr: both}, sh(`echo a >&2; sleep 0.1; printf b; exit 3`)...)
	text, err := os.ReadFile(both.Name())
	if got, _, found := strings.Cut(string(text), "safe-run: exit code 3, log "); !found || got != "a\nb\n" || err != nil {
		t.Errorf("one file for both has %q, %v", text, err)
	}
}

// TestMergedSaysNothing: a log of the merged view has no line of safe-run itself, even
// without output of the command.
func TestMergedSaysNothing(t *testing.T) {
	for _, argv := range [][]string{sh("exit 3"), {"no-such-command"}, sh("kill -9 $$")} {
		r := run(t, options{env: []string{"SAFE_RUN_VIEW=merged"}}, argv...)
		if text, err := os.ReadFile(filepath.Join(r.dir, r.named(t))); err != nil || len(text) > 0 {
			t.Errorf("%q: %q, %v", argv, text, err)
		}
	}
}
