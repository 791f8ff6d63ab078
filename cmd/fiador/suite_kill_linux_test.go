//go:build amd64 || arm64

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// evenly is an agent that always does the same for a case, by the number in its id: answers with
// and without assets, failures with and without bodies.
type evenly struct {
	base string

	mu   sync.Mutex
	n    map[string]int // requests by the id of the case
	held int            // requests that wait now
	now  int            // requests that have no answer yet
	most int            // the most of them since counts
	hold chan struct{}  // while it is open, all but every fourth case wait; nil: nobody waits
}

func newEvenly(t *testing.T) *evenly {
	t.Helper()
	s := &evenly{n: map[string]int{}}
	server := httptest.NewServer(s)
	s.base = server.URL
	t.Cleanup(server.Close)
	return s
}

func (s *evenly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID      string `json:"case_id"`
		Version string `json:"version"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		asked.ID = "c000"
	}
	var number int
	_, _ = fmt.Sscanf(asked.ID, "c%d", &number)
	s.mu.Lock()
	s.n[asked.ID]++
	s.now++
	s.most = max(s.most, s.now)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}()
	hold := s.hold
	if number%4 == 1 {
		hold = nil
	}
	if hold != nil {
		s.held++
	}
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		s.held--
		s.mu.Unlock()
	}
	events := `"events":[{"type":"tool_call","ts":1,"call_id":"k","tool":"t","args":{}},{"type":"tool_result","ts":2,"call_id":"k","status":"ok","latency_ms":1,"payload":` +
		`"` + asked.ID + strings.Repeat(" payload", 3000) + `"},{"type":"retrieval","ts":3,"query":"q","doc_ids":["d"],"snippets":["` + strings.Repeat("s", 20000) + `"]}]`
	switch number % 8 {
	default:
		fmt.Fprint(w, answer(asked.ID, asked.Version, ""))
	case 1:
		fmt.Fprint(w, strings.Replace(answer(asked.ID, asked.Version, `,"more":"`+asked.ID+`"`), `"events":[]`, events, 1))
	case 2:
		http.Error(w, "broken "+asked.ID, http.StatusInternalServerError)
	case 3:
		w.Header().Set("Retry-After", "0")
		http.Error(w, strings.Repeat("later ", 3000), http.StatusTooManyRequests)
	case 4:
		fmt.Fprint(w, "I could not do that.")
	case 5:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "caf\xe9")
	case 6:
		panic(http.ErrAbortHandler)
	}
}

// counts returns the requests since the last call, by the id of the case.
func (s *evenly) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n
	s.n = map[string]int{}
	return n
}

// holds lets requests wait until the returned function is called.
func (s *evenly) holds() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.hold = hold
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hold = nil
		close(hold)
	})
}

// waiting waits until so many requests wait.
func (s *evenly) waiting(t *testing.T, n int) {
	t.Helper()
	awaits(t, fmt.Sprintf("%d requests wait", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.held >= n
	})
}

// awaits waits until something holds.
func awaits(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// trials is a bench with an agent and a file of cases.
type trials struct {
	bench
	*evenly
	cases string
}

func newTrials(t *testing.T, cases int) trials {
	t.Helper()
	s := trials{bench: newBench(t), evenly: newEvenly(t)}
	var list []any
	for i := range cases {
		list = append(list, map[string]any{
			"id": fmt.Sprintf("c%03d", i), "input": map[string]any{"user": "do it"},
			"metadata": map[string]any{"tags": []string{[]string{"even", "odd"}[i%2]}},
		})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	s.cases = put(t, s.dir, "cases.json", string(text))
	return s
}

// out returns the folder OUT of a name. Its own name is always the same, for run.json has it.
func (s trials) out(name string) string { return filepath.Join(s.dir, name, "out") }

// dirs returns the version directories in an OUT.
func (s trials) dirs(out string) []string {
	list, _ := filepath.Glob(filepath.Join(out, "*", "*"))
	return list
}

// args is the command line of a run with the id r.
func (s trials) args(out string, more ...string) []string {
	return append([]string{"suite", "run", s.cases, "--out", out, "--run-id", "r"}, more...)
}

// must runs the program to an end with an exit status.
func (s trials) must(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, code := s.run(t, args...)
	if code != want {
		t.Fatalf("%q: exit status %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

// refused runs a command in this process, which is faster. It ends with exit status 2 and one
// error, which is returned.
func (s trials) refused(t *testing.T, args ...string) (stderr string) {
	t.Helper()
	stdout, stderr, code := inside(t, false, args...)
	var e struct {
		Code, Message string
		Details       struct{ Hint string }
	}
	err := json.Unmarshal([]byte(stderr), &e)
	if code != cli.ExitError || stdout != "" || err != nil || e.Code == "" || e.Message == "" || e.Details.Hint == "" || strings.Contains(stderr, s.dir) {
		t.Errorf("%q: exit status %d (%v)\n%s%s", args, code, err, stdout, stderr)
	}
	return stderr
}

// done runs a command in this process, which is faster, to its good end.
func (s trials) done(t *testing.T, args ...string) {
	t.Helper()
	if stdout, stderr, code := inside(t, false, args...); code != cli.ExitAccepted {
		t.Fatalf("%q: exit status %d\n%s%s", args, code, stdout, stderr)
	}
}

// inside runs a command in this process. With tty, standard error is a terminal.
func inside(t *testing.T, tty bool, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = within(t, &out, &errs, tty, args...)
	return out.String(), errs.String(), code
}

// within is inside with streams.
func within(t *testing.T, stdout, stderr io.Writer, tty bool, args ...string) (code int) {
	t.Helper()
	return cli.Run(t.Context(), args, cli.System{
		Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, TTY: tty, Env: func(string) string { return "" }, Now: time.Now, Rand: rand.NewChaCha8([32]byte{}),
	}, commands)
}

// valid verifies the directories of an OUT.
func (s trials) valid(t *testing.T, out, state string) {
	t.Helper()
	dirs := s.dirs(out)
	stdout, stderr, code := inside(t, false, append([]string{"suite", "verify"}, dirs...)...)
	if n := strings.Count(stdout, ": valid, "+state+"\n"); code != cli.ExitAccepted || n != len(dirs) || n == 0 {
		t.Errorf("exit status %d, and of %q are %d %s\n%s%s", code, dirs, n, state, stdout, stderr)
	}
}

// timeless returns the files of an OUT without times, and without hashes of files that have times.
func timeless(t *testing.T, out string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(out, p)
		if strings.HasSuffix(p, ".json") {
			var doc any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Errorf("%s: %v", rel, err)
			}
			still(doc)
			if text, err = json.Marshal(doc); err != nil {
				return err
			}
		} else if stem := strings.TrimSuffix(strings.TrimSuffix(d.Name(), ".txt"), ".bin"); stem != hashOf(text) && !strings.HasPrefix(stem, ".tmp-") {
			t.Errorf("%s is not the content that its name says", rel)
		}
		fmt.Fprintf(&b, "%s %q\n", rel, text)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return b.String()
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// still takes times from a document.
func still(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			switch name {
			case "generated_at", "started_at", "latency_ms", "duration_ms":
				v[name] = 0
			case "artifacts":
				for file := range one.(map[string]any) {
					one.(map[string]any)[file] = ""
				}
			default:
				still(one)
			}
		}
	case []any:
		for _, one := range v {
			still(one)
		}
	}
}

// alike fails if the files of two OUTs differ in more than times.
func alike(t *testing.T, when, got, want string) {
	t.Helper()
	if what := differ(timeless(t, got), timeless(t, want)); what != "" {
		t.Fatalf("%s: not what an undisturbed run leaves\n%s", when, what)
	}
}

// unchanged fails if a folder is not what it was.
func unchanged(t *testing.T, dir, before string) {
	t.Helper()
	if what := differ(shot(t, dir), before); what != "" {
		t.Errorf("the folder has changed\n%s", what)
	}
}

// differ returns the first line in which two texts differ, or "".
func differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf(" got %.2000q\nwant %.2000q", a[min(i, len(a)):min(i+1, len(a))], b[min(i, len(b)):min(i+1, len(b))])
		}
	}
	return ""
}

// TestSuiteSignals: after the first signal every case has its file, the directories are sealed,
// and --resume ends as an undisturbed run does.
func TestSuiteSignals(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 40)
	agent := []string{"--new", s.base, "--baseline", s.base}
	s.done(t, s.args(s.out("whole"), agent...)...)
	s.valid(t, s.out("whole"), "sealed")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			out, release := s.out(sig.String()), s.holds()
			defer release()
			cmd, stdout, stderr := s.command(t, s.args(out, agent...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s.waiting(t, 6) // three of the four cases at once, on both sides
			s.hasEnded(t, out)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			code := status(t, cmd.Wait())
			if code != cli.ExitError || !strings.Contains(stderr.String(), "--run-id r --resume") || strings.Count(stderr.String(), `"code":`) != 1 || strings.Count(stdout.String(), "\n") != 2 {
				t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
			}
			s.valid(t, out, "sealed")
			s.interrupted(t, out)
			release()
			s.must(t, cli.ExitAccepted, s.args(out, append(agent, "--resume")...)...)
			s.valid(t, out, "sealed")
			alike(t, sig.String(), out, s.out("whole"))
		})
	}
	t.Run("replay", func(t *testing.T) {
		agent := []string{"--new", "replay:" + filepath.Join(s.out("whole"), "new", "r"), "--concurrency", "1"}
		s.done(t, s.args(s.out("replayed"), agent...)...)
		s.interruptReplay(t, agent)
		s.must(t, cli.ExitAccepted, s.args(s.out("again"), append(agent, "--resume")...)...)
		s.valid(t, s.out("again"), "sealed")
		alike(t, "replay", s.out("again"), s.out("replayed"))
	})
}

// hasEnded waits until a case of --new has its file.
func (s trials) hasEnded(t *testing.T, out string) {
	t.Helper()
	awaits(t, "a case has ended", func() bool {
		list, _ := filepath.Glob(filepath.Join(out, "new", "r", "c*.json"))
		return len(list) > 0
	})
}

// interrupted checks the files of the cases of an interrupted run.
func (s trials) interrupted(t *testing.T, out string) {
	t.Helper()
	ended, waited, never := 0, 0, 0
	for _, dir := range s.dirs(out) {
		for i := range 40 {
			text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("c%03d.json", i)))
			var doc struct {
				Attempts []json.RawMessage
				Failure  struct {
					Class   string
					Name    string `json:"error_name"`
					Attempt int
					Latency int `json:"latency_ms"`
				} `json:"runner_failure"`
			}
			if err = errors.Join(err, json.Unmarshal(text, &doc)); err != nil {
				t.Error(err)
			}
			f := doc.Failure
			switch {
			case f.Name != "interrupted":
				ended++
			case f.Class != "other" || f.Attempt != 1 || len(doc.Attempts) != 1:
				t.Errorf("%s", text)
			case f.Latency > 0:
				waited++
			default:
				never++
			}
		}
	}
	if ended == 0 || waited > 8 || never < 60-ended {
		t.Errorf("%d cases have ended, %d were interrupted, and %d were never asked", ended, waited, never)
	}
}

// interruptReplay interrupts a run against a recording, which waits for nothing.
func (s trials) interruptReplay(t *testing.T, agent []string) {
	t.Helper()
	for range 100 {
		out := s.out("again")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		cmd, _, stderr := s.command(t, s.args(out, agent...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.hasEnded(t, out)
		_ = cmd.Process.Signal(syscall.SIGINT)
		if status(t, cmd.Wait()) == cli.ExitError && strings.Contains(stderr.String(), "--run-id r --resume") {
			if text, _ := os.ReadFile(filepath.Join(out, "new", "r", "c039.json")); strings.Contains(string(text), `"interrupted"`) {
				s.valid(t, out, "sealed")
				return
			}
		}
	}
	t.Fatal("no signal has come before the end of a run")
}

// TestSuiteSecondSignal: a second signal ends a run that still writes files of cases.
func TestSuiteSecondSignal(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 4000)
	release := s.holds()
	defer release()
	out := s.out("twice")
	files := func() int {
		list, _ := filepath.Glob(filepath.Join(out, "new", "r", "c*.json"))
		return len(list)
	}
	for range 5 {
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		awaits(t, "no request waits", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.held == 0
		})
		cmd, _, stderr := s.command(t, s.args(out, "--new", s.base)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.waiting(t, 3)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		awaits(t, "the run writes interrupted cases", func() bool { return files() > 20 })
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if code := status(t, cmd.Wait()); code == cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s", code, stderr)
		}
		if files() < 4000 {
			timeless(t, out)
			return
		}
	}
	t.Fatal("no second signal has come before the end of a run")
}

// TestSuiteKilled kills runs at moments that nobody chooses: what is there is whole, and --resume
// ends as an undisturbed run does.
func TestSuiteKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newTrials(t, 32)
	whole := map[string]time.Duration{}
	agent := func(repeats string) []string {
		return []string{"--new", s.base, "--baseline", s.base, "--repeats", repeats}
	}
	for _, repeats := range []string{"1", "2"} {
		began := time.Now()
		s.must(t, cli.ExitAccepted, s.args(s.out("whole"+repeats), agent(repeats)...)...)
		whole[repeats] = time.Since(began)
	}
	came := map[int]int{}
	for round := range rehearsal.Count(2, 200) {
		repeats, out := []string{"1", "2"}[round%2], s.out("killed")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		cmd, _, _ := s.command(t, s.args(out, agent(repeats)...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		delay := rand.N(whole[repeats])
		if round%4 > 0 { // most of the time of a run is that of a program that starts
			delay /= 2
			awaits(t, "the run has begun", func() bool { return len(s.dirs(out)) > 0 })
		}
		time.Sleep(delay)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		when := fmt.Sprintf("round %d, killed after %v", round, delay)
		dirs := s.dirs(out)
		timeless(t, s.made(t, out))
		if len(dirs) > 0 {
			stdout, stderr, code := inside(t, false, append([]string{"suite", "verify"}, dirs...)...)
			if code != cli.ExitAccepted && code != cli.ExitRejected || stderr != "" {
				t.Errorf("%s: verify ends with exit status %d\n%s%s", when, code, stdout, stderr)
			}
		}
		files, _ := filepath.Glob(filepath.Join(out, "*", "*", "c*.json"))
		came[len(files)/16]++
		more := []string{"--resume"}
		if len(dirs) == 0 {
			if stderr := s.refused(t, s.args(out, append(agent(repeats), "--resume")...)...); !strings.Contains(stderr, "there is no run") {
				t.Error(stderr)
			}
			more = nil
		}
		s.must(t, cli.ExitAccepted, s.args(out, append(agent(repeats), more...)...)...)
		alike(t, when, out, s.out("whole"+repeats))
		s.valid(t, out, "sealed")
	}
	t.Logf("runs take %v; after a kill there were files, in sixteens: %v", whole, came)
}

// made makes a folder, unless it is there.
func (s trials) made(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSuiteFullDisk: a run that has no room says so, and leaves whole files. With more room,
// --resume ends as an undisturbed run does.
func TestSuiteFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	s := newTrials(t, 16)
	agent := []string{"--new", s.base, "--baseline", s.base}
	s.done(t, s.args(s.out("whole"), agent...)...)
	for i, options := range []string{"size=100k", "size=8k", "size=300k", "ro", "nr_inodes=3", "size=200k", "nr_inodes=20", "nr_inodes=60"} {
		if i%rehearsal.Stride(3) != 0 {
			continue
		}
		t.Run(options, func(t *testing.T) {
			disk, kept := s.made(t, filepath.Join(s.dir, "disk")), s.made(t, s.out("kept "+options))
			out := filepath.Join(disk, "out")
			cmd, stdout, stderr := s.command(t)
			script := `d=$1 o=$2 k=$3; shift 3; mount -t tmpfs -o size=64m none "$d" && mount -o remount,"$o" "$d" || exit 99
"$@" && exit 98; code=$?; cp -a "$d/." "$k/first"; mount -o remount,rw,size=64m,nr_inodes=9999 "$d"
"$@" --resume >&2 || "$@" >&2 || exit 97; cp -a "$d/." "$k/then"; exit $code`
			cmd.Path = "/bin/sh"
			cmd.Args = slices.Concat([]string{"sh", "-c", script, "sh", disk, options, kept, exe(t)}, s.args(out, agent...))
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			code := status(t, cmd.Run())
			if code == 99 {
				t.Skipf("no file system can be mounted here: %s", stderr)
			}
			first, _, _ := strings.Cut(stderr.String(), "\n{\"agent\"")
			said := `"message":"the run cannot be kept: `
			if code != cli.ExitError || stdout.Len() > 0 || !strings.Contains(first, said) || !strings.Contains(first, "--out room and permission") || strings.Contains(first, "interrupted") {
				t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
			}
			before := timeless(t, filepath.Join(kept, "first"))
			if strings.Contains(before, ".tmp-") {
				t.Errorf("half files: %s", before)
			}
			alike(t, options, filepath.Join(kept, "then", "out"), s.out("whole"))
		})
	}
}

// exe is the path of the program.
func exe(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("fiador")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSuitePlaces: a place that is taken is refused, and nothing there changes.
func TestSuitePlaces(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 4)
	out := s.out("taken")
	s.made(t, filepath.Dir(out))
	file := put(t, s.dir, "file", "kept")
	s.must(t, cli.ExitAccepted, s.args(out, "--new", s.base)...)
	s.counts()
	link := filepath.Join(s.made(t, filepath.Join(s.dir, "links", "new")), "r")
	if err := os.Symlink(s.made(t, filepath.Join(s.dir, "victim")), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		remedy string
	}{
		"a file":              {s.args(file, "--new", s.base), "--out room and permission"},
		"beneath a file":      {s.args(filepath.Join(file, "x"), "--new", s.base), "--out room and permission"},
		"a run":               {s.args(out, "--new", s.base), "--resume"},
		"a run, both sides":   {s.args(out, "--new", s.base, "--baseline", s.base), "--resume"},
		"a link":              {s.args(filepath.Join(s.dir, "links"), "--new", s.base), "--resume"},
		"a link, resumed":     {s.args(filepath.Join(s.dir, "links"), "--new", s.base, "--resume"), "--out room and permission"},
		"nothing, resumed":    {s.args(out, "--new", s.base, "--resume", "--run-id", "R2"), "correct --run-id"},
		"no id, resumed":      {[]string{"suite", "run", s.cases, "--new", s.base, "--resume", "--out", out}, "--run-id"},
		"no folder":           {s.args("", "--new", s.base), "name a folder"},
		"a path as id":        {s.args(out, "--new", s.base, "--run-id", "../x"), "letter or digit"},
		"a long id, repeated": {s.args(out, "--new", s.base, "--repeats", "2", "--run-id", strings.Repeat("x", 125)), "letter or digit"},
	} {
		t.Run(name, func(t *testing.T) {
			before := shot(t, s.dir)
			if stderr := s.refused(t, c.args...); !strings.Contains(stderr, c.remedy) {
				t.Error(stderr)
			}
			unchanged(t, s.dir, before)
			if n := s.counts(); len(n) > 0 {
				t.Errorf("requests: %v", n)
			}
		})
	}
}

// TestSuiteTwoRunners: of two runs with one id, one ends as if it were alone, and the other is
// refused.
func TestSuiteTwoRunners(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 16)
	agent := []string{"--new", s.base}
	s.done(t, s.args(s.out("whole"), agent...)...)
	out, release := s.out("two"), s.holds()
	defer release()
	cmd, _, stderr := s.command(t, s.args(out, agent...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.waiting(t, 4)
	before := shot(t, out)
	for remedy, more := range map[string]string{"use another --run-id, or go on with --resume": "--resume=", "wait until the other run has ended": "--resume"} {
		if _, stderr := s.must(t, cli.ExitError, s.args(out, append(agent, more)...)...); !strings.Contains(stderr, remedy) {
			t.Errorf("%s: %s", more, stderr)
		}
	}
	unchanged(t, out, before)
	release()
	if code := status(t, cmd.Wait()); code != cli.ExitAccepted {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	alike(t, "beside others", out, s.out("whole"))
	for range rehearsal.Count(1, 50) {
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		one, _, said := s.command(t, s.args(out, agent...)...)
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := s.run(t, s.args(out, agent...)...)
		if other := status(t, one.Wait()); code+other != cli.ExitError {
			t.Fatalf("exit status %d and %d\n%s\n%s", code, other, stderr, said)
		}
		alike(t, "two at once", out, s.out("whole"))
	}
}

// TestSuiteMoved: a folder that becomes a link during a run leads nowhere else, and the run is no
// success.
func TestSuiteMoved(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 8)
	for name, part := range map[string]string{"the directory": "new/r", "the side": "new", "out": "."} {
		t.Run(name, func(t *testing.T) {
			out, release := s.out("moved "+name), s.holds()
			defer release()
			cmd, stdout, stderr := s.command(t, s.args(out, "--new", s.base)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s.waiting(t, 3)
			place, victim := filepath.Join(out, part), s.made(t, filepath.Join(s.dir, "victim "+name))
			s.made(t, filepath.Join(victim, "r"))
			before := shot(t, victim)
			if err := errors.Join(os.Rename(place, place+" moved"), os.Symlink(victim, place)); err != nil {
				t.Fatal(err)
			}
			release()
			code := status(t, cmd.Wait())
			if code != cli.ExitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), "leave the folder alone") {
				t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
			}
			unchanged(t, victim, before)
		})
	}
}

// TestSuiteResume: --resume refuses another run and then changes nothing, and asks only what has
// no answer.
func TestSuiteResume(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 16)
	out, both := s.out("resumed"), []string{"--baseline", s.base, "--new", s.base}
	s.done(t, s.args(out, both...)...)
	s.done(t, s.args(s.out("whole"), both...)...)
	requests := s.counts()
	replay := "replay:" + filepath.Join(s.out("whole"), "new", "r")
	text, err := os.ReadFile(s.cases)
	if err != nil {
		t.Fatal(err)
	}
	other := put(t, s.dir, "other.json", strings.Replace(string(text), "do it", "do that", 1))
	for says, args := range map[string][]string{
		"cases_sha256":      append([]string{"suite", "run", other, "--out", out, "--run-id", "r", "--resume"}, both...),
		"selected_case_ids": s.args(out, append(both, "--resume", "--only", "c000")...),
		"limits":            s.args(out, append(both, "--resume=errors", "--max-body-bytes", "1000")...),
		"in another way":    s.args(out, "--baseline", s.base, "--new", replay, "--resume"),
	} {
		before := shot(t, out)
		if stderr := s.refused(t, args...); !strings.Contains(stderr, says) || !strings.Contains(stderr, "use another --run-id") {
			t.Errorf("%s: %s", says, stderr)
		}
		unchanged(t, out, before)
	}
	s.done(t, s.args(s.out("repeated"), append(both, "--repeats", "2", "--only", "c000")...)...)
	if stderr := s.refused(t, s.args(s.out("repeated"), append(both, "--repeats", "3", "--only", "c000", "--resume")...)...); !strings.Contains(stderr, "run_group") {
		t.Error(stderr)
	}
	s.counts()
	s.done(t, s.args(out, append(both, "--resume")...)...)
	if n := s.counts(); len(n) > 0 {
		t.Errorf("asked again: %v", n)
	}
	alike(t, "nothing is left to do", out, s.out("whole"))
	s.must(t, cli.ExitAccepted, s.args(out, append(both, "--resume=errors")...)...)
	again := s.counts()
	for id, n := range requests {
		want := 0
		if k := id[3] - '0'; id[2] == '0' && k%8 >= 2 && k%8 <= 6 || id[2] == '1' && k <= 4 {
			want = n / 2 // two runs have asked
		}
		if again[id] != want {
			t.Errorf("%s: asked %d times, want %d", id, again[id], want)
		}
	}
	alike(t, "errors", out, s.out("whole"))
	s.valid(t, out, "sealed")
	// An asset that is damaged or gone: the case runs again.
	list, _ := filepath.Glob(filepath.Join(out, "new", "r", "assets", "c002.new.attempt1.meta.json"))
	if err := os.Remove(strings.Join(list, "")); err != nil {
		t.Fatal(err)
	}
	s.done(t, s.args(out, append(both, "--resume")...)...)
	if n := s.counts(); len(n) != 1 || n["c002"] != 1 {
		t.Errorf("asked again: %v", n)
	}
	alike(t, "an asset was gone", out, s.out("whole"))
}

// TestSuiteResumedCommand: what a command has written to standard error stays an asset of its case.
func TestSuiteResumedCommand(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 3)
	script := `read -r q; echo "$q" >&2; case $q in *c002*) exit 3;; esac; echo '{}'`
	text, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	agent := []string{"--policy", "dev", "--new", "exec:" + put(t, s.dir, "agent.json", string(text))}
	s.done(t, s.args(s.out("whole"), agent...)...)
	s.must(t, cli.ExitAccepted, s.args(s.out("resumed"), agent...)...)
	for _, name := range []string{"c001.json", "assets/manifest.json"} { // as a kill leaves it
		if err := os.Remove(filepath.Join(s.out("resumed"), "new", "r", name)); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, cli.ExitAccepted, s.args(s.out("resumed"), append(agent, "--resume")...)...)
	alike(t, "resumed", s.out("resumed"), s.out("whole"))
	s.valid(t, s.out("resumed"), "sealed")
	manifest, err := os.ReadFile(filepath.Join(s.out("resumed"), "new", "r", "assets", "manifest.json"))
	if err != nil || strings.Count(string(manifest), `/other/`) != 4 || strings.Count(string(manifest), `"run/other/`) != 1 {
		t.Errorf("%s %v", manifest, err)
	}
}

// run1 is what the tests read of run.json.
type run1 struct {
	RunID    string   `json:"run_id"`
	Version  string   `json:"version"`
	Selected []string `json:"selected_case_ids"`
	Group    *struct {
		RunID     string `json:"run_id"`
		Index, Of int
	} `json:"run_group"`
	Stats struct {
		Total     int `json:"cases_total"`
		Completed int `json:"cases_completed"`
		Failed    int `json:"cases_failed"`
		Duration  int `json:"duration_ms"`
	}
}

// runs reads what a run has printed: run.json of a directory as one line.
func (s trials) runs(t *testing.T, out, stdout string) (list []run1) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var r run1
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		text, err := os.ReadFile(filepath.Join(out, r.Version, r.RunID, "run.json"))
		if err != nil || string(text) != line {
			t.Errorf("printed\n%s\nand the file is\n%s", line, text)
		}
		list = append(list, r)
	}
	return list
}

// TestSuitePlan: repeats, a selection, and cases at once.
func TestSuitePlan(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 16)
	out := s.out("repeats")
	stdout, stderr := s.must(t, cli.ExitAccepted, s.args(out, "--baseline", s.base, "--new", s.base, "--repeats", "3", "--tag", "even", "--only", "c000,c001,c002,c004")...)
	list := s.runs(t, out, stdout)
	for i, r := range list {
		id := fmt.Sprintf("r-r%02d", i/2+1)
		if r.RunID != id || r.Version != []string{"baseline", "new"}[i%2] || r.Group == nil || r.Group.RunID != "r" || r.Group.Index != i/2+1 || r.Group.Of != 3 {
			t.Errorf("%d: %+v", i, r)
		}
		if !slices.Equal(r.Selected, []string{"c000", "c002", "c004"}) || r.Stats.Total != 3 || r.Stats.Completed != 1 || r.Stats.Failed != 2 {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if n := s.counts(); len(list) != 6 || len(n) != 3 || n["c000"] != 6 || n["c002"] != 6 || n["c004"] != 6 {
		t.Errorf("%d directories, requests %v", len(list), n)
	}
	if strings.Count(stderr, "\n") != 12 || strings.Count(stderr, "fiador: new c002: http_error") != 3 {
		t.Errorf("stderr is %s", stderr)
	}
	s.valid(t, out, "sealed")
	stdout, _ = s.must(t, cli.ExitRejected, s.args(s.out("fail"), "--new", s.base, "--only", "c000,c002", "--fail-on-error")...)
	if list := s.runs(t, s.out("fail"), stdout); len(list) != 1 || list[0].Group != nil {
		t.Errorf("%+v", list)
	}

	s.atOnce()
	for _, n := range []int{1, 8} {
		release := s.holds()
		defer release()
		var stdout, screen rehearsal.Buffer
		out := s.out(fmt.Sprint("at once ", n))
		code := make(chan int, 1)
		go func() {
			code <- within(t, &stdout, &screen, true, s.args(out, "--new", s.base, "--concurrency", fmt.Sprint(n), "--retries", "0")...)
		}()
		s.waiting(t, n)
		if n == 1 {
			time.Sleep(600 * time.Millisecond) // a case that ends now is shown; and a second request would come
		}
		release()
		if got := <-code; got != cli.ExitAccepted || n == 1 && !strings.Contains(screen.String(), " cases left") {
			t.Errorf("exit status %d, stderr %q", got, screen.String())
		}
		s.runs(t, out, stdout.String())
		if most := s.atOnce(); most != n {
			t.Errorf("%d requests at once, want %d", most, n)
		}
	}
}

// atOnce returns the most requests that were under way at once, since the last call.
func (s *evenly) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.most
	s.most = 0
	return most
}

// TestSuiteUsage: what is wrong on the command line or in the cases is refused before a request
// is sent or a file is written.
func TestSuiteUsage(t *testing.T) {
	t.Parallel()
	s := newTrials(t, 4)
	s.made(t, filepath.Join(s.dir, "files"))
	one := func(more string) string { return `[{"id":"a","input":{"user":"x"}` + more + `}]` }
	twice := func(a, b string) string {
		return `[{"id":"` + a + `","input":{"user":"x"}},{"id":"` + b + `","input":{"user":"x"}}]`
	}
	for i, c := range []struct{ cases, flags, says string }{
		{"", "--repeats 0", "from 1 to 99"}, {"", "--repeats 100", "from 1 to 99"}, {"", "--retries -1", "from 0 to 10"}, {"", "--retries 11", "from 0 to 10"},
		{"", "--concurrency 0", "from 1 to 256"}, {"", "--concurrency 257", "from 1 to 256"}, {"", "--concurrency many", "concurrency"},
		{"", "--max-body-bytes 0", "from 1 to 33554432"}, {"", "--max-body-bytes 33554433", "from 1 to 33554432"},
		{"", "--timeout 0", "1ms to 24h"}, {"", "--timeout 25h", "1ms to 24h"}, {"", "--timeout 5", "timeout"}, {"", "--evidence perhaps", "fail, warn"}, {"", "--resume=all", "missing"},
		{"", "--only c009", `c000`}, {"", "--tag eve", `even`}, {"", "--only c001 --tag even", "no case"}, {"", "--provenance x", "KEY=VALUE"}, {"", "--header X", "NAME=VARIABLE"},
		{"", "--header X=FIADOR_NOT_SET", "FIADOR_NOT_SET"}, {"", "--redact nowhere", "no such file"}, {"", "--conncurrency 4", "unknown flag"},
		{"", "--baseline ftp://x", "--baseline"}, {"", "--baseline http://u:p@127.0.0.1", "without a user"}, {"", "--baseline replay:nowhere", "no such file"}, {"", "--baseline exec:nowhere", "no such file"},
		{"[", "", "hint"}, {"a: [", "", "hint"}, {"", "--new=", "--new"}, {"[]", "", "case"}, {`{"schema_version":"cases.v2","cases":[]}`, "", "cases.v1"},
		{one(`,"expectd":{}`), "", `expected`}, {one(`,"metadata":{"severity":"huge"}`), "", "severity"}, {twice("a", "A"), "", "in case alone"}, {twice("a", "a"), "", "of its own"},
		{twice("a", "run"), "", "another id"}, {twice("a", "Evaluation"), "", "another id"}, {twice("a", "signature"), "", "another id"}, {twice("a", "con"), "", "another id"},
		{twice("a", "../x"), "", "id"}, {twice("a", "x."), "", "id"}, {`[{"id":"a"}]`, "", "input"},
	} {
		t.Run(fmt.Sprintf("%02d %.20s%s", i, c.flags, c.cases), func(t *testing.T) {
			cases := s.cases
			if c.cases != "" {
				cases = put(t, filepath.Join(s.dir, "files"), fmt.Sprintf("%d.yaml", i), c.cases)
			}
			args := append([]string{"suite", "run", cases, "--new", s.base, "--out", s.out("usage"), "--preflight"}, strings.Fields(c.flags)...)
			if stderr := s.refused(t, args...); c.says != "hint" && !strings.Contains(stderr, c.says) {
				t.Errorf("want %q: %s", c.says, stderr)
			}
		})
	}
	if n := s.counts(); len(n) > 0 {
		t.Errorf("requests: %v", n)
	}
	if _, err := os.Lstat(filepath.Dir(s.out("usage"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written: %v", err)
	}
}
