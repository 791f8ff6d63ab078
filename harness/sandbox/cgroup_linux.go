//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The controllers that a group uses. Memory comes first: once pids or cpu are enabled
// in a cgroup that holds processes, v2 refuses memory there.
const (
	cgroupMemory = "memory"
	cgroupPIDs   = "pids"
	cgroupCPU    = "cpu"
)

const (
	// cgroupPrefix begins the name of every folder that is made.
	cgroupPrefix = "fiador-"
	// cgroupSelf is where the caller moves itself when v2 wants its own cgroup empty.
	cgroupSelf = cgroupPrefix + "self"
	// cgroupPeriod is the cpu period that v2 has by default, in microseconds.
	cgroupPeriod = 100_000
	// cgroupNames bounds the groups of one process at a time.
	cgroupNames = 1 << 16
)

// cgroupRoot is the machine as groups see it. The zero value has no cgroups.
type cgroupRoot struct {
	files string // stands before every mount point
	proc  string // folder of the processes
	tree  cgroupTree
}

// hostGroups is the machine that the caller runs on.
func hostGroups() cgroupRoot {
	return cgroupRoot{files: "/", proc: "/proc", tree: kernelTree{}}
}

// cgroupTree changes a cgroup file system. Its errors are or wrap errno values.
type cgroupTree interface {
	mkdir(folder string) error
	rmdir(folder string) error
	write(file, value string) error
}

// kernelTree is the cgroup file system of the kernel.
type kernelTree struct{}

// mkdir makes a folder that only its owner can open, so that nobody else can hold the
// lock that keeps it from being swept.
func (kernelTree) mkdir(folder string) error { return unix.Mkdir(folder, 0o700) }

func (kernelTree) rmdir(folder string) error { return unix.Rmdir(folder) }

// write repeats what a signal interrupts: v1 memory limits answer EINTR, and the
// runtime sends signals of its own.
func (kernelTree) write(file, value string) error {
	fd, err := uninterrupted(func() (int, error) { return unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = uninterrupted(func() (int, error) { return unix.Write(fd, []byte(value)) })
	return err
}

func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// group is a cgroup of one sandbox: one folder with v2, one for each hierarchy with
// v1. While it is open its folders are locked (flock, shared), which says to a sweeper
// in another pid namespace that the maker lives. Methods may be called at the same
// time; after close they do nothing.
type group struct {
	root    cgroupRoot
	unified bool
	held    cgroupLimits // what was set; zero: not held

	mu      sync.Mutex
	closed  bool
	killed  bool           // by cgroup.kill
	folders []cgroupFolder // in the order they were made
}

// cgroupFolder is a folder of a group, open and locked.
type cgroupFolder struct {
	path        string
	dir         *os.File
	controllers []string // those that hold a limit
}

// cgroupLimits are the limits of a group. What is not positive is not set.
type cgroupLimits struct {
	memory int64 // bytes, swap included
	tasks  int   // processes and threads
	cpus   int   // processors' worth of time
}

// of says which of some controllers the limits need.
func (l cgroupLimits) of(controllers []string) []string {
	var list []string
	for _, c := range [...]struct {
		name string
		set  bool
	}{{cgroupMemory, l.memory > 0}, {cgroupPIDs, l.tasks > 0}, {cgroupCPU, l.cpus > 0}} {
		if c.set && slices.Contains(controllers, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}

// openGroup makes a group below the caller's own cgroup: with v2 or with v1, whichever
// offers more of the limits. A limit that is not positive is not set, one that could
// not be set is not held (memory, pids, cpu). Without any there is no group, and no
// error: the result is nil, nil, and no folder of a group is left. An error says that
// folders were made that can be neither used nor removed.
//
// With v2 the caller, where it is alone in its cgroup, moves into a child of it
// (cgroupSelf) and stays there, for the kernel wants a cgroup that limits its children
// to hold no processes of its own.
func openGroup(root cgroupRoot, memoryBytes int64, tasks int, cpus int) (*group, error) {
	limits := cgroupLimits{memoryBytes, tasks, cpus}
	self, err := root.process("self")
	if err != nil {
		return nil, nil
	}
	for _, homes := range root.homes(limits) {
		if homes[0].unified && !root.enable(homes[0], self.id) {
			continue
		}
		g, err := root.newGroup(homes, limits, self)
		if g != nil || err != nil {
			return g, err
		}
	}
	return nil, nil
}

// newGroup makes a group in some homes under the first name that is free in all.
func (r cgroupRoot) newGroup(homes []cgroupHome, limits cgroupLimits, self procState) (*group, error) {
	for n := range cgroupNames {
		g := &group{root: r, unified: homes[0].unified}
		err := g.fill(homes, cgroupName{self.id, self.start, n}.String(), limits)
		switch {
		case err == nil && len(g.folders) > 0:
			return g, nil
		case err == nil:
			return nil, nil
		}
		if closed := g.close(); closed != nil {
			return nil, closed
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, nil
}

// fill makes the folders of a group. It fails with EEXIST where the name is taken.
func (g *group) fill(homes []cgroupHome, name string, limits cgroupLimits) error {
	for _, h := range homes {
		path := filepath.Join(h.folder, name)
		switch err := g.root.tree.mkdir(path); {
		case errors.Is(err, unix.EEXIST):
			return err
		case err != nil:
			continue
		}
		f, err := openFolder(path, unix.LOCK_SH)
		if err == nil && g.usable(path) {
			f.controllers = g.limit(path, h.controllers, limits)
		}
		if len(f.controllers) > 0 {
			g.folders = append(g.folders, f)
			continue
		}
		f.dir.Close()
		if err := g.root.tree.rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cannot remove cgroup %q: %w", path, err)
		}
	}
	return nil
}

// usable says whether a new folder can hold processes: not one below a v2 cgroup that
// is threaded.
func (g *group) usable(folder string) bool {
	kind, err := os.ReadFile(filepath.Join(folder, "cgroup.type"))
	return !g.unified || err != nil || strings.TrimSpace(string(kind)) == "domain"
}

// openFolder opens and locks the folder of a group. The lock goes when the process
// ends, however it ends.
func openFolder(path string, lock int) (cgroupFolder, error) {
	f := cgroupFolder{path: path}
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return f, err
	}
	if _, err := uninterrupted(func() (int, error) { return 0, unix.Flock(int(dir.Fd()), lock|unix.LOCK_NB) }); err != nil {
		dir.Close()
		return f, err
	}
	f.dir = dir
	return f, nil
}

// limit sets the limits of some controllers on a folder and returns the controllers
// whose limit holds.
func (g *group) limit(folder string, controllers []string, l cgroupLimits) []string {
	var held []string
	for _, c := range controllers {
		var err error
		switch c {
		case cgroupMemory:
			if err = g.limitMemory(folder, l.memory); err == nil {
				g.held.memory = l.memory
			}
		case cgroupPIDs:
			if err = g.write(folder, "pids.max", int64(l.tasks)); err == nil {
				g.held.tasks = l.tasks
			}
		case cgroupCPU:
			if err = g.limitCPU(folder, l.cpus); err == nil {
				g.held.cpus = l.cpus
			}
		}
		if err == nil {
			held = append(held, c)
		}
	}
	return held
}

func (g *group) write(folder, file string, n int64) error {
	return g.root.tree.write(filepath.Join(folder, file), strconv.FormatInt(n, 10))
}

// limitMemory bounds memory and swap together. A limit that swap would widen is an
// error.
func (g *group) limitMemory(folder string, bytes int64) error {
	if g.unified {
		// Without it one process dies instead of all; the limit holds all the same.
		_ = g.write(folder, "memory.oom.group", 1)
		err := g.write(folder, "memory.swap.max", 0)
		if err != nil && !(missing(err) && g.root.swapless()) {
			return err
		}
		return g.write(folder, "memory.max", bytes)
	}
	// Inherited from the parent: who reaches the limit would wait for ever.
	if readKey(filepath.Join(folder, "memory.oom_control"), "oom_kill_disable") == 1 {
		if err := g.write(folder, "memory.oom_control", 0); err != nil {
			return err
		}
	}
	if err := g.write(folder, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	err := g.write(folder, "memory.memsw.limit_in_bytes", bytes)
	if missing(err) {
		return g.write(folder, "memory.swappiness", 0)
	}
	return err
}

// missing says whether a file is not there, or is and does nothing: the kernel does not
// count swap.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)
}

// swapless says whether the machine has nowhere to swap to.
func (r cgroupRoot) swapless() bool {
	text, err := os.ReadFile(filepath.Join(r.proc, "swaps"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.Count(strings.TrimSpace(string(text)), "\n") == 0
}

func (g *group) limitCPU(folder string, cpus int) error {
	if g.unified {
		return g.root.tree.write(filepath.Join(folder, "cpu.max"), fmt.Sprintf("%d %d", cpus*cgroupPeriod, cgroupPeriod))
	}
	period, err := readNumber(filepath.Join(folder, "cpu.cfs_period_us"))
	if err != nil {
		return err
	}
	return g.write(folder, "cpu.cfs_quota_us", int64(cpus)*period)
}

// memory says whether the limit of memory and swap of all processes together holds.
func (g *group) memory() bool { return g.held.memory > 0 }

// pids says whether the limit of processes and threads holds.
func (g *group) pids() bool { return g.held.tasks > 0 }

// cpu says whether the limit of processor time holds.
func (g *group) cpu() bool { return g.held.cpus > 0 }

// add moves a process with all its threads into the group. After an error it may be in
// some of the folders. What it used of memory before stays with its former cgroup.
func (g *group) add(pid int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return os.ErrClosed
	}
	for _, f := range g.folders {
		if err := g.write(f.path, "cgroup.procs", int64(pid)); err != nil {
			return fmt.Errorf("cannot add process %d to cgroup %q: %w", pid, f.path, err)
		}
	}
	return nil
}

// start calls f, which starts a process, so that the process begins its life in the
// group. With v1 that takes a thread that goes into the group and comes back: moving a
// thread into a group by itself is cheap, moving another process waits for all
// processors.
func (g *group) start(f func() error) error {
	if g.unified {
		return f()
	}
	done := make(chan error)
	go g.onThread(f, done)
	return <-done
}

// onThread calls f on a thread that visits the group: never the first one, whose cgroup
// is what /proc/self says the process has.
func (g *group) onThread(f func() error, done chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		second := make(chan error)
		go g.onThread(f, second)
		err := <-second
		runtime.UnlockOSThread()
		done <- err
		return
	}
	err := g.visit()
	if err == nil {
		err = f()
	}
	if g.leave() == nil {
		runtime.UnlockOSThread() // or the thread ends, which is in the group
	}
	done <- err
}

// visit moves the calling thread into the group.
func (g *group) visit() error {
	for _, folder := range g.folders {
		if err := g.write(folder.path, "tasks", 0); err != nil {
			return fmt.Errorf("cannot enter cgroup %q: %w", folder.path, err)
		}
	}
	return nil
}

// leave moves the calling thread back to where the group was made.
func (g *group) leave() error {
	for _, folder := range g.folders {
		if err := g.write(filepath.Dir(folder.path), "tasks", 0); err != nil {
			return err
		}
	}
	return nil
}

// descriptor is the open folder of a v2 group, for SysProcAttr.CgroupFD: a process that
// starts with it needs no add. It is -1 with v1, and after kill and close: since 6.14
// the kernel kills what starts from outside in a cgroup that cgroup.kill was used on
// (it compares kill_seq with that of the parent's own cgroup).
func (g *group) descriptor() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.unified || g.closed || g.killed {
		return -1
	}
	return int(g.folders[0].dir.Fd())
}

// oomKills is how many processes of the group the kernel has killed for want of
// memory, whether here or further up. 0 where memory does not hold.
func (g *group) oomKills() int {
	file := "memory.oom_control"
	if g.unified {
		file = "memory.events"
	}
	var n int64
	g.inMemory(func(folder string) { n = readKey(filepath.Join(folder, file), "oom_kill") })
	return int(n)
}

// peak is the most memory that the group has used at a time, in bytes, or 0 where that
// is not known (v2 before kernel 5.19).
func (g *group) peak() int64 {
	file := "memory.max_usage_in_bytes"
	if g.unified {
		file = "memory.peak"
	}
	var n int64
	g.inMemory(func(folder string) { n, _ = readNumber(filepath.Join(folder, file)) })
	return n
}

// inMemory calls read with the folder of the memory controller, if the group has one
// that is not closed.
func (g *group) inMemory(read func(folder string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	for _, f := range g.folders {
		if slices.Contains(f.controllers, cgroupMemory) {
			read(f.path)
		}
	}
}

// kill sends SIGKILL to every process of the group, which can be used again, with add.
// With v2 that is one step of the kernel. With v1 it returns when the group is empty, or after a
// fifth of a second and more; meanwhile no process can multiply where pids holds.
func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.killMembers()
	}
}

func (g *group) killMembers() {
	if g.unified && g.write(g.folders[0].path, "cgroup.kill", 1) == nil {
		g.killed = true
		return
	}
	g.limitTasks(0)
	for range 100 {
		alive := g.members()
		if len(alive) == 0 {
			break
		}
		for _, pid := range alive {
			g.killMember(pid)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if g.held.tasks > 0 {
		g.limitTasks(g.held.tasks)
	}
}

// limitTasks changes the limit of processes where the group has the controller.
func (g *group) limitTasks(n int) {
	for _, f := range g.folders {
		_ = g.write(f.path, "pids.max", int64(n))
	}
}

// killMember kills a process that is still of the group once its id cannot be given to
// another any more.
func (g *group) killMember(pid int) {
	if pid == os.Getpid() {
		return // a thread that visits
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if slices.Contains(g.members(), pid) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// members are the processes of the group, those of cgroups that were made below it
// included, as far as this pid namespace has ids for them.
func (g *group) members() []int {
	var list []int
	for _, f := range g.folders {
		for _, folder := range foldersFrom(f.path) {
			pids, _ := readPIDs(folder)
			list = append(list, pids...)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(pid int) bool { return pid <= 0 })
}

// close kills what is left in the group and removes its folders, the first of them
// last, for that one keeps the name. It tries for about two seconds, longer where v1
// cannot kill a process; after an error the group is closed and its folders are left to
// sweepGroups. Closing again does nothing.
func (g *group) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	defer func() {
		for _, f := range g.folders {
			f.dir.Close()
		}
	}()
	for wait := time.Millisecond; ; wait *= 2 {
		err := g.remove()
		if err == nil || wait > time.Second || !errors.Is(err, unix.EBUSY) {
			return err
		}
		g.killMembers()
		time.Sleep(wait)
	}
}

// remove removes the folders as far as they are empty. It fails at the first that
// stays.
func (g *group) remove() error {
	for _, f := range slices.Backward(g.folders) {
		err := g.root.tree.rmdir(f.path)
		if errors.Is(err, unix.EBUSY) {
			for _, folder := range slices.Backward(foldersFrom(f.path)) {
				err = g.root.tree.rmdir(folder)
			}
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cannot remove cgroup %q: %w", f.path, err)
		}
	}
	return nil
}

// foldersFrom lists a folder and those below it, each after the one that holds it.
func foldersFrom(folder string) []string {
	var list []string
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// sweepGroups kills and removes the groups below the caller's own cgroup whose maker is
// gone. It leaves those that somebody holds open, and those of others that it may not
// remove; an error says that one stayed.
func sweepGroups(root cgroupRoot) error {
	// Without processes to look at, every maker would seem gone.
	if _, err := root.process("self"); err != nil {
		return nil
	}
	var failed []error
	for _, homes := range root.homes(cgroupLimits{1, 1, 1}) {
		for _, name := range root.orphans(homes) {
			if err := root.sweep(homes, name); err != nil && !errors.Is(err, fs.ErrPermission) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// orphans are the names of groups in some homes whose maker is gone, sorted.
func (r cgroupRoot) orphans(homes []cgroupHome) []string {
	var names []string
	for _, h := range homes {
		entries, _ := os.ReadDir(h.folder)
		for _, e := range entries {
			name, ok := parseCgroupName(e.Name())
			if ok && e.IsDir() && r.gone(name) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sweep removes one group, unless somebody holds it open.
func (r cgroupRoot) sweep(homes []cgroupHome, name string) error {
	g := &group{root: r, unified: homes[0].unified}
	for _, h := range homes {
		f, err := openFolder(filepath.Join(h.folder, name), unix.LOCK_EX)
		switch {
		case err == nil:
			g.folders = append(g.folders, f)
		case !errors.Is(err, fs.ErrNotExist):
			for _, f := range g.folders {
				f.dir.Close()
			}
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil
			}
			return err
		}
	}
	return g.close()
}

// cgroupName names the folders of a group after its maker. Groups of one process
// differ in n.
type cgroupName struct {
	pid   int
	start uint64 // of the maker, in ticks since boot
	n     int
}

func (c cgroupName) String() string {
	return fmt.Sprintf("%s%d-%d-%d", cgroupPrefix, c.pid, c.start, c.n)
}

// parseCgroupName accepts what String writes and nothing else.
func parseCgroupName(s string) (cgroupName, bool) {
	var c cgroupName
	parts := strings.Split(strings.TrimPrefix(s, cgroupPrefix), "-")
	if len(parts) != 3 {
		return cgroupName{}, false
	}
	c.pid, _ = strconv.Atoi(parts[0])
	c.start, _ = strconv.ParseUint(parts[1], 10, 64)
	c.n, _ = strconv.Atoi(parts[2])
	if c.pid <= 0 || c.n < 0 || c.String() != s {
		return cgroupName{}, false
	}
	return c, true
}

// procState tells a process from a later one that has its id.
type procState struct {
	id    int
	start uint64 // ticks since boot
	dead  bool   // it has ended and nobody has waited for it
}

// process looks at a process by its id, or at "self".
func (r cgroupRoot) process(id string) (procState, error) {
	text, err := os.ReadFile(filepath.Join(r.proc, id, "stat"))
	if err != nil {
		return procState{}, err
	}
	return parseProcState(string(text))
}

// parseProcState reads /proc/PID/stat. The name of the program, the second field, may
// hold anything, brackets and blanks included.
func parseProcState(stat string) (procState, error) {
	bad := fmt.Errorf("not the state of a process: %q", stat)
	id, _, _ := strings.Cut(stat, " ")
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 20 {
		return procState{}, bad
	}
	pid, err := strconv.Atoi(id)
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	if err != nil || err2 != nil {
		return procState{}, bad
	}
	return procState{pid, start, fields[0] == "Z" || fields[0] == "X"}, nil
}

// gone says whether the maker of a group has certainly ended, as far as this pid
// namespace can tell.
func (r cgroupRoot) gone(name cgroupName) bool {
	p, err := r.process(strconv.Itoa(name.pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return p.dead || p.start != name.start
}

// cgroupHome is a cgroup in one hierarchy below which the caller makes groups.
type cgroupHome struct {
	folder      string
	unified     bool
	controllers []string // those that the limits need and that are there
}

// homes finds the caller's own cgroups that have controllers for some limits, v1 and
// v2 apart: first what has more of them, v2 when they are equal. None is empty.
func (r cgroupRoot) homes(limits cgroupLimits) [][]cgroupHome {
	mounts := r.cgroupMounts()
	var v1, v2 []cgroupHome
	var n1, n2 int
	own, _ := os.ReadFile(filepath.Join(r.proc, "self", "cgroup"))
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" {
			if h, ok := r.unifiedHome(mounts, fields[2], limits); ok {
				v2, n2 = append(v2, h), n2+len(h.controllers)
			}
			continue
		}
		controllers := limits.of(strings.Split(fields[1], ","))
		if len(controllers) == 0 {
			continue
		}
		if folder, _ := r.find(mounts, "cgroup", controllers[0], fields[2]); folder != "" {
			v1, n1 = append(v1, cgroupHome{folder, false, controllers}), n1+len(controllers)
		}
	}
	list := [][]cgroupHome{v2, v1}
	if n1 > n2 {
		list = [][]cgroupHome{v1, v2}
	}
	return slices.DeleteFunc(list, func(homes []cgroupHome) bool { return len(homes) == 0 })
}

// unifiedHome is the caller's own v2 cgroup, or the one above where the caller has
// moved itself out of the way.
func (r cgroupRoot) unifiedHome(mounts []cgroupMount, own string, limits cgroupLimits) (cgroupHome, bool) {
	folder, below := r.find(mounts, "cgroup2", "", own)
	if folder == "" {
		return cgroupHome{}, false
	}
	if filepath.Base(below) == cgroupSelf {
		folder = filepath.Dir(folder)
	}
	controllers := limits.of(readFields(filepath.Join(folder, "cgroup.controllers")))
	return cgroupHome{folder, true, controllers}, len(controllers) > 0
}

// cgroupMount is a place where a hierarchy, or a part of it, is mounted.
type cgroupMount struct {
	kind    string // "cgroup" or "cgroup2"
	root    string // the cgroup that stands there
	point   string
	options []string // of v1 they name the controllers
}

// cgroupMounts are the mounts that can be written to, as mountinfo has them.
func (r cgroupRoot) cgroupMounts() []cgroupMount {
	text, _ := os.ReadFile(filepath.Join(r.proc, "self", "mountinfo"))
	var list []cgroupMount
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		mount, system := strings.Fields(before), strings.Fields(after)
		if len(mount) < 6 || len(system) < 3 || (system[0] != "cgroup" && system[0] != "cgroup2") {
			continue
		}
		options := strings.Split(system[2], ",")
		if slices.Contains(options, "ro") || slices.Contains(strings.Split(mount[5], ","), "ro") {
			continue
		}
		list = append(list, cgroupMount{system[0], unescapeMount(mount[3]), unescapeMount(mount[4]), options})
	}
	return list
}

// unescapeMount undoes what mountinfo does to blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// find is the folder of a cgroup in the last mount of its hierarchy that shows it, for
// that one covers those before, and the cgroup's path below the mount point. The folder
// is empty where none does.
func (r cgroupRoot) find(mounts []cgroupMount, kind, controller, cgroup string) (folder, below string) {
	for _, m := range slices.Backward(mounts) {
		if m.kind != kind || (controller != "" && !slices.Contains(m.options, controller)) {
			continue
		}
		below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(m.root, "/"))
		if !ok || (below != "" && below[0] != '/') || slices.Contains(strings.Split(below, "/"), "..") {
			continue
		}
		folder := filepath.Join(r.files, m.point, below)
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			return folder, below
		}
	}
	return "", ""
}

// enable has a v2 cgroup offer a home's controllers to its children, as far as it can.
// It returns false, and has changed nothing, where the children could have none of
// them: the cgroup holds other processes than the caller, or may not be changed. What
// is enabled stays so: to disable it would lift the limits of every other child.
func (r cgroupRoot) enable(home cgroupHome, self int) bool {
	file := filepath.Join(home.folder, "cgroup.subtree_control")
	enabled := readFields(file)
	wanted := slices.DeleteFunc(slices.Clone(home.controllers), func(c string) bool { return slices.Contains(enabled, c) })
	if len(wanted) == 0 {
		return true
	}
	moved, ok := r.vacate(home.folder, self)
	if !ok {
		return false
	}
	refused := 0
	for _, c := range wanted {
		if r.tree.write(file, "+"+c) != nil {
			refused++
		}
	}
	if refused < len(home.controllers) {
		return true
	}
	if moved {
		r.moveBack(home.folder)
	}
	return false
}

// vacate empties a v2 cgroup that is to limit its children: a caller that is alone in
// it moves into a child. The root of the hierarchy, which has no type, may hold
// processes. Looking first, and not waiting for EBUSY, matters: pids and cpu could be
// enabled without it, and would make every child one that takes no process.
func (r cgroupRoot) vacate(folder string, self int) (moved, ok bool) {
	if _, err := os.Stat(filepath.Join(folder, "cgroup.type")); err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	pids, err := readPIDs(folder)
	if err != nil {
		return false, false
	}
	if len(pids) == 0 {
		return false, true
	}
	if slices.ContainsFunc(pids, func(pid int) bool { return pid != self }) {
		return false, false
	}
	child := filepath.Join(folder, cgroupSelf)
	if err := r.tree.mkdir(child); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, false
	}
	if err := r.tree.write(filepath.Join(child, "cgroup.procs"), "0"); err != nil {
		_ = r.tree.rmdir(child)
		return false, false
	}
	if pids, err := readPIDs(folder); err != nil || len(pids) > 0 {
		r.moveBack(folder)
		return false, false
	}
	return true, true
}

// moveBack undoes vacate.
func (r cgroupRoot) moveBack(folder string) {
	if r.tree.write(filepath.Join(folder, "cgroup.procs"), "0") == nil {
		_ = r.tree.rmdir(filepath.Join(folder, cgroupSelf))
	}
}

// readPIDs lists the processes of a cgroup, without those below it. One of another pid
// namespace is 0 with v2 and missing with v1.
func readPIDs(folder string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var list []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		list = append(list, pid)
	}
	return list, nil
}

func readFields(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

func readNumber(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readKey is the number beside a name in a file of such pairs, or 0.
func readKey(file, key string) int64 {
	fields := readFields(file)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == key {
			n, _ := strconv.ParseInt(fields[i+1], 10, 64)
			return n
		}
	}
	return 0
}
