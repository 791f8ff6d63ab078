package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/change"
	supervise "github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// What is timed inside a process is timed in a process of its own, so that it starts
// without a heap and can belong to another user. This program starts itself again for
// it, with insideWord and a job as arguments.
const insideWord = "inside"

// execProfile is the profile of all commands that are executed.
const execProfile = "dev"

// job says what a process does that executes in itself.
type job struct {
	Kind   string
	Dir    string   // the user's folder
	Rounds int      //
	Files  int      // of the tree
	Heap   int      // MiB that the process holds
	Ways   []string // of the loop; none: all
}

const (
	jobClauses = "clauses"
	jobLoop    = "loop"
	jobTree    = "tree"
	jobMany    = "many"
)

// inside does a job and prints what came out.
func inside(args []string) error {
	var j job
	if len(args) != 1 {
		return errors.New("this is for the benchmark itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	x, err := newExecutor(j.Dir)
	if err != nil {
		return err
	}
	defer x.host.Close()
	var out any
	switch j.Kind {
	case jobClauses:
		out, err = x.clauses()
	case jobLoop:
		out, err = x.loop(j)
	case jobTree:
		out, err = x.trees(j)
	case jobMany:
		out, err = x.many(j)
	default:
		err = fmt.Errorf("no job %q", j.Kind)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// executor executes commands as fiador exec does.
type executor struct {
	dir, work string
	gate      *harness.Gate
	host      *sandbox.Host
}

func newExecutor(dir string) (*executor, error) {
	set, err := specs.New()
	if err != nil {
		return nil, err
	}
	resolved, err := harness.Sources{Builtin: profiles.FS(), Profile: execProfile}.Resolve(set)
	if err != nil {
		return nil, err
	}
	return &executor{dir, filepath.Join(dir, "work"), harness.ProfileGate(resolved), sandbox.NewHost("")}, nil
}

// perform is one command from its request to the judgement of what it wrote, and the
// end of its sandbox. Nothing is applied.
func (x *executor) perform(e harness.Exec) (clauses []evidence.Clause, err error) {
	e.Argv = []string{trueProgram}
	task, err := x.gate.Exec(e)
	if err != nil {
		return nil, err
	}
	task.Now = time.Now
	p, err := execute.Perform(context.Background(), execute.Here{Runner: x.host}, task)
	if err != nil {
		return nil, err
	}
	if code, reasons := p.Observed.Judge(); code != 0 || p.Isolation != e.Isolation {
		err = fmt.Errorf("%s isolation: exit status %d %v", p.Isolation, code, reasons)
	}
	return p.Clauses, errors.Join(err, p.Close())
}

// way is a way to run a command that does nothing.
type way struct {
	name string
	run  func() error
}

func (x *executor) ways(names []string) []way {
	direct := func(argv ...string) func() error {
		start := supervise.Direct(argv, []string{"PATH=/usr/bin:/bin"}, x.work)
		return func() error {
			res, err := supervise.Run(context.Background(), start, supervise.Spec{})
			if err == nil && res.ExitCode() != 0 {
				err = fmt.Errorf("exit status %d", res.ExitCode())
			}
			return err
		}
	}
	own := func(e harness.Exec) func() error {
		return func() error { _, err := x.perform(e); return err }
	}
	all := []way{
		{plainWay, direct(trueProgram)},
		{wrappedWay, direct(wrapped(x.work)...)},
		{stagedWay, own(harness.Exec{Work: x.work, Write: sandbox.Staged, Isolation: sandbox.Full})},
		{emptyWay, own(harness.Exec{Write: sandbox.Staged, Isolation: sandbox.Full})},
		{directWay, own(harness.Exec{Work: x.work, Write: sandbox.Direct, Isolation: sandbox.Full})},
		{confinedWay, own(harness.Exec{Write: sandbox.Staged, Isolation: sandbox.Confined})},
		{confinedCopy, own(harness.Exec{Work: x.work, Write: sandbox.Staged, Isolation: sandbox.Confined})},
	}
	if os.Geteuid() != 0 {
		all = append(all, way{confinedHere, own(harness.Exec{Work: x.work, Write: sandbox.Direct, Isolation: sandbox.Confined})})
	}
	if len(names) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(w way) bool { return !slices.Contains(names, w.name) })
}

// clauses returns the clauses that a full and a confined sandbox give this user.
func (x *executor) clauses() (list [2][]evidence.Clause, err error) {
	for i, isolation := range []sandbox.Isolation{sandbox.Full, sandbox.Confined} {
		if list[i], err = x.perform(harness.Exec{Write: sandbox.Staged, Isolation: isolation}); err != nil {
			return list, err
		}
	}
	return list, nil
}

// loopSeries is how long each round of one way took.
type loopSeries struct {
	Name  string
	Times []time.Duration
}

// loop runs all ways in turn, round by round.
func (x *executor) loop(j job) ([]loopSeries, error) {
	heap := make([]byte, j.Heap<<20)
	for i := 0; i < len(heap); i += os.Getpagesize() {
		heap[i] = 1
	}
	defer runtime.KeepAlive(heap)
	const warmUp = 3
	ways := x.ways(j.Ways)
	out := make([]loopSeries, len(ways))
	for round := range warmUp + j.Rounds {
		for i, w := range ways {
			out[i].Name = w.name
			start := time.Now()
			if err := w.run(); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if took := time.Since(start); round >= warmUp {
				out[i].Times = append(out[i].Times, took)
			}
		}
	}
	return out, nil
}

// treeRuns are commands in a large tree, and what cp takes to copy the tree.
type treeRuns struct {
	Series []treeSeries
	Copies []time.Duration
}

// treeSeries are the times of the parts of a command in a large tree, by round.
type treeSeries struct {
	Name  string
	Parts [][]time.Duration
}

// treeParts are those parts.
func treeParts() []string {
	return []string{"start", "command", "changes", "judge", "apply", "close"}
}

const (
	treeChanged = 10  // files that the command changes
	treeFolder  = 100 // files in each folder
)

// trees has a command change a few files of a large tree, which is applied: on an
// overlay and on a copy in turn.
func (x *executor) trees(j job) (out treeRuns, err error) {
	tree := filepath.Join(x.dir, "tree")
	if err := makeTree(tree, j.Files); err != nil {
		return out, err
	}
	out.Series = []treeSeries{{Name: stagedWay}, {Name: confinedCopy}}
	for round := range 1 + j.Rounds {
		for i, isolation := range []sandbox.Isolation{sandbox.Full, sandbox.Confined} {
			s := &out.Series[i]
			times, err := x.changeTree(tree, fmt.Sprintf("%s in round %d", isolation, round), isolation)
			if err != nil {
				return out, fmt.Errorf("%s: %w", s.Name, err)
			}
			if round > 0 { // the first warms up
				s.Parts = append(s.Parts, times)
			}
		}
		took, err := copyTree(tree)
		if err != nil {
			return out, err
		}
		if round > 0 {
			out.Copies = append(out.Copies, took)
		}
	}
	return out, nil
}

// copyTree is how long cp takes for a copy where a sandbox would make its own.
func copyTree(tree string) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "copy-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	err = exec.Command("cp", "-a", tree, dir).Run()
	return time.Since(start), err
}

func treeFile(n int) string {
	return fmt.Sprintf("d%03d/f%02d.txt", n/treeFolder, n%treeFolder)
}

func makeTree(dir string, files int) error {
	for n := range files {
		name := filepath.Join(dir, treeFile(n))
		if n%treeFolder == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
		}
		text := fmt.Sprintf("file %d\n%s", n, strings.Repeat("a line of text that says little\n", 31))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// changeTree runs the command once and times its parts.
func (x *executor) changeTree(folder, text string, isolation sandbox.Isolation) (times []time.Duration, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var script strings.Builder
	for n := range treeChanged {
		fmt.Fprintf(&script, "echo '%s' >%s/f%02d.txt\n", text, entries[n%len(entries)].Name(), n)
	}
	task, err := x.gate.Exec(harness.Exec{Argv: []string{"/bin/sh", "-c", script.String()}, Work: folder, Write: sandbox.Staged, Isolation: isolation})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	last := began
	lap := func() {
		now := time.Now()
		times = append(times, now.Sub(last))
		last = now
	}
	box, err := x.host.Start(context.Background(), task.Sandbox)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	lap()
	res, err := supervise.Run(context.Background(), box.Command(0, task.Budget, nil), supervise.Spec{})
	if err != nil {
		return nil, err
	}
	lap()
	changes, err := box.Changes()
	if err != nil {
		return nil, err
	}
	lap()
	rules := task.Rules
	rules.Exists = func(path string) change.Kind { kind, _, _ := box.Before(path); return kind }
	rules.Below = box.Below
	verdict := change.Judge(changes, rules)
	lap()
	if res.ExitCode() != 0 || len(verdict.Accepted) != treeChanged {
		return nil, fmt.Errorf("exit status %d, %d changes, %v", res.ExitCode(), len(verdict.Accepted), verdict.Reasons)
	}
	if err := tree.Apply(context.Background(), filepath.Join(x.dir, "state"), folder, verdict.Accepted, box.Content, began); err != nil {
		return nil, err
	}
	lap()
	err = box.Close()
	lap()
	if err != nil {
		return nil, err
	}
	got, err := os.ReadFile(filepath.Join(folder, entries[0].Name(), "f00.txt"))
	if err == nil && string(got) != text+"\n" {
		err = fmt.Errorf("the folder has %q", got)
	}
	return times, err
}

// holdings counts the things of the machine that a process holds.
type holdings struct {
	Descriptors int
	Goroutines  int
	Threads     int
	Children    int
	Mounts      int
	Cgroups     int // made by this process
	Folders     int // in the folder for temporary files
	ResidentKiB int64
}

// manyRuns are many runs in one process.
type manyRuns struct {
	Name          string
	Before, After holdings
	Times         []time.Duration
	Plain         []time.Duration // a plain command before each
}

// many runs each of two ways many times, in turn with a plain command. The first run is
// not counted: what a process needs once it has then.
func (x *executor) many(j job) ([]manyRuns, error) {
	var out []manyRuns
	plain := x.ways([]string{plainWay})[0]
	for _, w := range x.ways([]string{stagedWay, confinedWay}) {
		m := manyRuns{Name: w.name}
		if err := w.run(); err != nil {
			return nil, err
		}
		m.Before = held()
		for range j.Rounds {
			for _, side := range []struct {
				way   way
				times *[]time.Duration
			}{{plain, &m.Plain}, {w, &m.Times}} {
				start := time.Now()
				if err := side.way.run(); err != nil {
					return nil, err
				}
				*side.times = append(*side.times, time.Since(start))
			}
		}
		m.After = held()
		out = append(out, m)
	}
	return out, nil
}

func held() holdings {
	runtime.GC()
	h := holdings{
		Descriptors: entriesOf("/proc/self/fd"), Goroutines: runtime.NumGoroutine(), Threads: entriesOf("/proc/self/task"),
		Mounts: linesOf("/proc/self/mountinfo"), Folders: entriesOf(os.TempDir()),
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range tasks {
		b, _ := os.ReadFile(name)
		h.Children += len(strings.Fields(string(b)))
	}
	prefix := "fiador-" + strconv.Itoa(os.Getpid()) + "-"
	_ = filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), prefix) {
			h.Cgroups++
		}
		return nil
	})
	_, _ = fmt.Sscanf(field("/proc/self/status", "VmRSS"), "%d kB", &h.ResidentKiB)
	return h
}

func entriesOf(dir string) int {
	list, _ := os.ReadDir(dir)
	return len(list)
}

func linesOf(file string) int {
	b, _ := os.ReadFile(file)
	return strings.Count(string(b), "\n")
}
