package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence"
)

// confinedSizes are the sizes at which the sandbox is timed.
type confinedSizes struct {
	rounds    int // of a loop in one process
	processes int // rounds of whole processes
	files     int // of the large tree
	trees     int // rounds over it
	runs      int // in one process
	heap      int // MiB in the process that starts sandboxes
	heaps     int // rounds without and with it
}

func fullConfined(processes int) confinedSizes {
	return confinedSizes{201, processes, 10000, 7, 1000, 200, 60}
}
func quickConfined() confinedSizes { return confinedSizes{3, 2, 200, 2, 20, 20, 3} }

// ordinaryID is the user that root starts everything once more as: one that owns
// nothing and may do nothing.
const ordinaryID = 65534

// The commands that are compared.
const (
	plainWay     = "plain"
	wrappedWay   = "bubblewrap"
	stagedWay    = "full, staged"
	emptyWay     = "full, staged, empty folder"
	directWay    = "full, direct"
	confinedWay  = "confined, empty folder"
	confinedCopy = "confined, a copy"
	confinedHere = "confined, direct"
	versionWay   = "fiador version"
	nothingWay   = "empty Go program"
)

// confined has the measurements of the sandbox.
type confined struct {
	sizes confinedSizes
	bwrap string // version
	users []confinedUser
}

// confinedUser has the measurements of one user.
type confinedUser struct {
	name      string
	clauses   [2][]evidence.Clause // of a full sandbox, and of a confined one
	loop      []series
	processes []series
	trees     treeRuns
	many      []manyRuns
	light     []series // the loop again, in turn with the next
	heavy     []series // with a heap
}

// confined fills the report's part about the sandbox.
func (r *report) confined(ctx context.Context, t tools, dir string, sizes confinedSizes, log io.Writer) error {
	version, err := exec.CommandContext(ctx, "bwrap", "--version").Output()
	if err != nil {
		return fmt.Errorf("bubblewrap: %w", err)
	}
	r.sandboxed = &confined{sizes: sizes, bwrap: strings.TrimSpace(strings.TrimPrefix(string(version), "bubblewrap"))}
	// Others have to reach the programs.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	users := []int{os.Geteuid()}
	if users[0] == 0 {
		users = append(users, ordinaryID)
	}
	for _, id := range users {
		u := user{id: id, tools: t, dir: filepath.Join(dir, "user-"+strconv.Itoa(id))}
		if err := u.prepare(); err != nil {
			return err
		}
		fmt.Fprintf(log, "timing the sandbox as %s\n", u.name())
		m, err := u.measure(ctx, sizes)
		if err != nil {
			return fmt.Errorf("as %s: %w", u.name(), err)
		}
		r.sandboxed.users = append(r.sandboxed.users, m)
	}
	return nil
}

// user is somebody as whom sandboxes are started.
type user struct {
	id    int
	tools tools
	dir   string // a folder of that user's
}

func (u user) name() string {
	if u.id == 0 {
		return "root"
	}
	return "an ordinary user"
}

func (u user) work() string { return filepath.Join(u.dir, "work") }

// prepare makes the user's folder, with a small tree to work in.
func (u user) prepare() error {
	files := map[string]string{"Makefile": "all:\n"}
	for i := range 20 {
		files[fmt.Sprintf("src/file-%02d.txt", i)] = strings.Repeat("a line of text\n", 40)
	}
	for name, text := range files {
		name = filepath.Join(u.work(), name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(u.dir, "tmp"), 0o755); err != nil {
		return err
	}
	if u.id == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(u.dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, u.id, u.id)
	})
}

// run starts a program as the user and reads the JSON that it prints.
func (u user) run(ctx context.Context, into any, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = u.work()
	cmd.Env = []string{"HOME=" + u.dir, "TMPDIR=" + filepath.Join(u.dir, "tmp"), "PATH=" + os.Getenv("PATH")}
	if u.id != os.Geteuid() {
		become(cmd, u.id)
	}
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s: %w: %s", argv[0], err, failed.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// inside has a process of its own do something (inside.go).
func (u user) inside(ctx context.Context, into any, j job) error {
	j.Dir = u.dir
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return u.run(ctx, into, u.tools.bench, insideWord, string(b))
}

func (u user) measure(ctx context.Context, z confinedSizes) (m confinedUser, err error) {
	m.name = u.name()
	if err := u.inside(ctx, &m.clauses, job{Kind: jobClauses}); err != nil {
		return m, err
	}
	if m.loop, err = u.loop(ctx, job{Rounds: z.rounds}); err != nil {
		return m, err
	}
	if m.processes, err = u.wholeProcesses(ctx, z.processes); err != nil {
		return m, err
	}
	if err := u.inside(ctx, &m.trees, job{Kind: jobTree, Rounds: z.trees, Files: z.files}); err != nil {
		return m, err
	}
	if err := u.inside(ctx, &m.many, job{Kind: jobMany, Rounds: z.runs}); err != nil {
		return m, err
	}
	m.light, m.heavy, err = u.heaps(ctx, z)
	return m, err
}

func (u user) loop(ctx context.Context, j job) ([]series, error) {
	j.Kind = jobLoop
	var list []loopSeries
	if err := u.inside(ctx, &list, j); err != nil {
		return nil, err
	}
	out := make([]series, len(list))
	for i, s := range list {
		out[i].name = s.Name
		for _, t := range s.Times {
			out[i].samples = append(out[i].samples, sample{Wall: t})
		}
	}
	return out, nil
}

// heaps loops without and with a heap, a few rounds at a time.
func (u user) heaps(ctx context.Context, z confinedSizes) (light, heavy []series, err error) {
	ways := []string{plainWay, wrappedWay, emptyWay, confinedWay}
	const turns = 3
	for range turns {
		for _, side := range []struct {
			list *[]series
			heap int
		}{{&light, 0}, {&heavy, z.heap}} {
			got, err := u.loop(ctx, job{Rounds: (z.heaps + turns - 1) / turns, Heap: side.heap, Ways: ways})
			if err != nil {
				return nil, nil, err
			}
			if *side.list == nil {
				*side.list = make([]series, len(got))
			}
			for i, s := range got {
				(*side.list)[i].name = s.name
				(*side.list)[i].samples = append((*side.list)[i].samples, s.samples...)
			}
		}
	}
	return light, heavy, nil
}

// wholeProcesses times whole processes in turn, each in the small tree.
func (u user) wholeProcesses(ctx context.Context, rounds int) ([]series, error) {
	fiador := func(flags ...string) []string {
		return slices.Concat([]string{u.tools.fiador, "exec", "--policy", execProfile}, flags, []string{"--", "true"})
	}
	commands := []command{
		{plainWay, []string{trueProgram}, 0},
		{wrappedWay, wrapped(u.work()), 0},
		{stagedWay, fiador("--isolation", "full"), 0},
		{directWay, fiador("--isolation", "full", "--write", "direct"), 0},
		{confinedCopy, fiador("--isolation", "confined"), 0},
		{versionWay, []string{u.tools.fiador, "version"}, 0},
		{nothingWay, []string{u.tools.empty}, 0},
	}
	if u.id != 0 { // root cannot write directly without a view of its own
		commands = slices.Insert(commands, 5, command{confinedHere, fiador("--isolation", "confined", "--write", "direct"), 0})
	}
	out := make([]series, len(commands))
	for round := range rounds + 1 {
		for i, c := range commands {
			out[i].name = c.name
			var x sample
			if err := u.run(ctx, &x, append([]string{u.tools.launch}, c.args...)...); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if x.Exit != c.exit {
				return nil, fmt.Errorf("%s ended with exit status %d instead of %d", c.name, x.Exit, c.exit)
			}
			if round > 0 { // the first warms up
				out[i].samples = append(out[i].samples, x)
			}
		}
	}
	return out, nil
}

const trueProgram = "/bin/true"

// wrapped is bubblewrap with all the isolation that it offers by flags: namespaces, a
// view of the system's programs, and the folder work to write into. Bubblewrap does not
// stage writes, sets no limits and uses no Landlock. It takes a filter of system calls
// only as a program that somebody else has made.
func wrapped(work string) []string {
	args := []string{
		"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
	}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	return append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", work, "/work", "--chdir", "/work", trueProgram)
}

// goProgram says how the programs of this part were built.
func goProgram() string {
	return fmt.Sprintf("%s, %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
