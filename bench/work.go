package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workSizes are the sizes at which work items are timed.
type workSizes struct {
	files  int // of the tree
	rounds int // of whole processes that look at the tree
	edits  int // rounds of whole processes that edit or copy it
	items  int // of the long plan; its fifths are compared
	plans  int // runs of the long plan
	agents int // that sleep, in one level
	levels int // runs of the level with each number of jobs
}

func fullWork(rounds int) workSizes {
	return workSizes{10_000, rounds, (rounds + 1) / 2, 500, max(3, rounds/8), 16, max(3, rounds/4)}
}
func quickWork() workSizes { return workSizes{140, 2, 2, 10, 1, 2, 1} }

// The ways that are compared, each in its own table.
const (
	coldState = "fiador work state, without an index"
	warmState = "fiador work state, with the index"
	gitStatus = "git status"
	allHashed = "find, xargs, b3sum"

	itemRun = "fiador work run, one item"
	execRun = "fiador exec, the same command"
	treeCp  = "cp -a of the tree"
)

// worked has the measurements of work items.
type worked struct {
	sizes   workSizes
	load    string // of the machine before, as Linux counts it
	on      string // file system of all folders
	folders int    // of the tree
	bytes   int64
	git     string // version; empty: it is not there
	b3sum   string
	states  []series
	items   []series
	plans   []planRun
	levels  []series // by workJobs
}

// planRun is one run of the long plan.
type planRun struct {
	wall           time.Duration
	begun, applied []time.Duration // of each item, in the order in which that happened
}

// workScene is a folder with a tree, a repository of it, and what items need.
type workScene struct {
	toolScene
	sizes workSizes
}

const (
	workTree   = "tree"
	workStore  = "states" // of the tree
	workEdited = 7        // files that the one item edits
	sleeps     = 100 * time.Millisecond
)

// workJobs are the numbers of agents of a level that run at once.
func workJobs() []int { return []int{1, 2, 8} }

// work fills the report's part about work items.
func (r *report) work(ctx context.Context, t tools, dir string, z workSizes, log io.Writer) error {
	s := &workScene{toolScene{scene: scene{dir: filepath.Join(dir, "work")}, tools: t}, z}
	m := &worked{sizes: z, load: loadAverage(), git: versionOf(ctx, "git"), b3sum: versionOf(ctx, "b3sum")}
	r.worked = m
	fmt.Fprintln(log, "writing the tree")
	if err := m.prepare(ctx, s); err != nil {
		return err
	}
	m.on = fileSystem(s.dir)
	return inParts(ctx, []part[*workScene]{
		{"the state of a tree", m.stating}, {"one item", m.editing}, {"a long plan", m.planning}, {"a level", m.sleeping},
	}, s, "work", log)
}

// versionOf is the version that a program prints, or empty if the program is not there.
func versionOf(ctx context.Context, program string) string {
	out, _ := exec.CommandContext(ctx, program, "--version").Output()
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// workFile is the name of a file of the tree: seven in a folder, and forty folders in one.
func workFile(n int) string {
	const each, beneath = 7, 40
	folder := n / each
	return fmt.Sprintf("%s/p%02d/d%02d/f%d.txt", workTree, folder/beneath, folder%beneath, n%each)
}

// edit is a command of the shell that adds a line to files which lie far from one another.
func (z workSizes) edit() string {
	var b strings.Builder
	for n := range workEdited {
		fmt.Fprintf(&b, "echo more >>%s\n", strings.TrimPrefix(workFile(n*z.files/workEdited), workTree+"/"))
	}
	return b.String()
}

// prepare writes the tree, its repository, the plans and the agents.
func (m *worked) prepare(ctx context.Context, s *workScene) error {
	folders := map[string]bool{}
	for n := range m.sizes.files {
		name := workFile(n)
		text := strings.Repeat(fmt.Sprintf("a line of file %d\n", n), 40+n*37%160)
		folders[filepath.Dir(name)], folders[filepath.Dir(filepath.Dir(name))] = true, true
		m.bytes += int64(len(text))
		if err := s.put(name, text); err != nil {
			return err
		}
	}
	m.folders = len(folders)
	long, err := s.plan(m.sizes.items, func(n int, item map[string]any) {
		item["actions"] = []any{map[string]string{"kind": "write", "path": fmt.Sprintf("out/%04d.txt", n), "content": fmt.Sprintf("of item %d\n", n)}}
	})
	if err != nil {
		return err
	}
	level, err := s.plan(m.sizes.agents, func(_ int, item map[string]any) { item["agent_id"] = "sleeper" })
	if err != nil {
		return err
	}
	agent := func(argv ...string) map[string]any {
		return map[string]any{"argv": argv, "stdin": "none", "trace": "optional"}
	}
	agents, err := json.Marshal(map[string]any{"agents": map[string]any{
		"editor": agent("/bin/sh", "-c", m.sizes.edit()), "sleeper": agent("sleep", fmt.Sprint(sleeps.Seconds())),
	}})
	if err != nil {
		return err
	}
	const one = `{"id":"edit","agent_id":"editor","description":"Edit some files","constraints":{"max_files":7}}`
	if err := errors.Join(s.put("long.json", long), s.put("level.json", level), s.put("agents.json", string(agents)), s.put("edit.json", one), s.put("empty/a.txt", "a\n")); err != nil || m.git == "" {
		return err
	}
	for _, argv := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-qm", "all"}} {
		if err := s.does(ctx, slices.Concat(s.git(), argv)...); err != nil {
			return err
		}
	}
	return nil
}

// plan is a plan of one level.
func (s *workScene) plan(items int, add func(n int, item map[string]any)) (string, error) {
	list := make([]map[string]any, items)
	for n := range list {
		list[n] = map[string]any{"id": fmt.Sprintf("item-%04d", n), "agent_id": "none", "description": "Item " + strconv.Itoa(n)}
		add(n, list[n])
	}
	b, err := json.Marshal(map[string]any{"plan_version": "1.0.0", "items": list})
	return string(b), err
}

// git is a command on the repository of the tree, which lies outside of it.
func (s *workScene) git() []string {
	return []string{"git", "--git-dir=" + filepath.Join(s.dir, "git"), "--work-tree=" + filepath.Join(s.dir, workTree), "-C", filepath.Join(s.dir, workTree)}
}

// run is a command that runs a plan.
func (s *workScene) run(plan, tree, store string, flags ...string) []string {
	return append([]string{s.tools.fiador, "work", "run", plan, "--agents", "agents.json", "--policy", execProfile, "--tree", tree, "--store", store, "--rerun"}, flags...)
}

// stating times what says whether a tree has changed. Nothing has.
func (m *worked) stating(ctx context.Context, s *workScene) (err error) {
	state := []string{s.tools.fiador, "work", "state", workTree, "--store", workStore}
	forget := func() error {
		if err := os.Remove(filepath.Join(s.dir, workStore, "index")); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	known := func() error { return s.does(ctx, state...) }
	ways := []workWay{{command{coldState, state, 0}, forget, nil}, {command{warmState, state, 0}, known, nil}}
	if m.git != "" {
		ways = append(ways, workWay{command{gitStatus, append(s.git(), "status", "--porcelain"), 0}, nil, nil})
	}
	if m.b3sum != "" {
		ways = append(ways, workWay{command{allHashed, []string{"sh", "-c", "find " + workTree + " -type f -print0 | xargs -0 b3sum"}, 0}, nil, nil})
	}
	// No index takes a file for known that has just been written.
	time.Sleep(3 * time.Second)
	if m.git != "" {
		if out, err := s.output(ctx, command{"", append(s.git(), "status", "--porcelain"), 0}); err != nil || len(out) > 0 {
			return fmt.Errorf("git sees changes: %.200s (%w)", out, err)
		}
	}
	m.states, err = s.turns(ctx, ways, 2, m.sizes.rounds)
	return err
}

// editing times an item that edits a few files of the tree.
func (m *worked) editing(ctx context.Context, s *workScene) (err error) {
	// An ext4 without a journal is slow to make files when many were removed just before.
	copies := filepath.Join(s.dir, "copies")
	defer func() { err = errors.Join(err, os.RemoveAll(copies)) }()
	if err := os.Mkdir(copies, 0o755); err != nil {
		return err
	}
	moved := 0
	// What was copied must not have to be written when another way syncs a file.
	keep := func() error {
		moved++
		if err := os.Rename(filepath.Join(s.dir, "copy"), filepath.Join(copies, strconv.Itoa(moved))); err != nil {
			return err
		}
		return s.does(ctx, "sync")
	}
	name := filepath.Join(s.dir, workFile(0))
	before, err := os.Stat(name)
	if err != nil {
		return err
	}
	const warmUp = 2
	m.items, err = s.turns(ctx, []workWay{
		{command{itemRun, s.run("edit.json", workTree, workStore), 0}, nil, nil},
		{command{execRun, []string{s.tools.fiador, "exec", "--policy", execProfile, "--work", workTree, "--", "/bin/sh", "-c", m.sizes.edit()}, 0}, nil, nil},
		{command{treeCp, []string{"cp", "-a", workTree, "copy"}, 0}, nil, keep},
	}, warmUp, m.sizes.edits)
	if err != nil {
		return err
	}
	after, err := os.Stat(name)
	if want := before.Size() + int64(2*(warmUp+m.sizes.edits)*len("more\n")); err == nil && after.Size() != want {
		err = fmt.Errorf("%s has %d bytes instead of %d: a way did not edit it", workFile(0), after.Size(), want)
	}
	return err
}

// planning times the items of a long plan, in a new folder with a new store each time.
func (m *worked) planning(ctx context.Context, s *workScene) error {
	for n := range m.sizes.plans {
		tree, store := fmt.Sprintf("long-%d", n), fmt.Sprintf("long-%d-store", n)
		if err := os.Mkdir(filepath.Join(s.dir, tree), 0o755); err != nil {
			return err
		}
		p, err := s.timedPlan(ctx, tree, store)
		if err != nil {
			return err
		}
		m.plans = append(m.plans, p)
	}
	return nil
}

// timedPlan runs the long plan. An item has begun when its receipt says so, and is applied when its
// result is printed.
func (s *workScene) timedPlan(ctx context.Context, tree, store string) (p planRun, err error) {
	argv := s.run("long.json", tree, store)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return p, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var results []string
	for lines.Scan() {
		p.applied = append(p.applied, time.Since(start))
		results = append(results, lines.Text())
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	p.wall = time.Since(start)
	if err == nil && len(results) != s.sizes.items+1 {
		err = fmt.Errorf("the plan of %d items has printed %d lines", s.sizes.items, len(results))
	}
	if err != nil {
		return p, err
	}
	p.applied = p.applied[:s.sizes.items]
	for _, line := range results[:s.sizes.items] {
		var result struct {
			Receipt string `json:"receipt_path"`
		}
		var receipt struct {
			Ephemeral struct {
				Begun time.Time `json:"started_at"`
			}
		}
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			return p, err
		}
		src, err := os.ReadFile(filepath.Join(s.dir, store, result.Receipt))
		if err == nil {
			err = json.Unmarshal(src, &receipt)
		}
		if err != nil {
			return p, err
		}
		p.begun = append(p.begun, receipt.Ephemeral.Begun.Sub(start))
	}
	slices.Sort(p.begun)
	return p, nil
}

// sleeping times a level of agents that sleep.
func (m *worked) sleeping(ctx context.Context, s *workScene) (err error) {
	var ways []workWay
	for _, jobs := range workJobs() {
		ways = append(ways, workWay{
			command: command{fmt.Sprintf("--jobs %d", jobs), s.run("level.json", "empty", "level", "--jobs", strconv.Itoa(jobs)), 0},
			before:  func() error { return os.RemoveAll(filepath.Join(s.dir, "level")) },
		})
	}
	m.levels, err = s.turns(ctx, ways, 1, m.sizes.levels)
	return err
}
