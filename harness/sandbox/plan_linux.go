//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/sandbox/seccomp"
	"github.com/fiador/fiador/lazy"
)

// Inside is the user and group id of commands in a full sandbox.
const Inside = 1000

// environment returns the fixed environment of every command. A request can add to it.
func environment(home string) []string {
	return []string{
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0",
		"HOME=" + home,
		"LANG=C.UTF-8",
		"LC_ALL=C.UTF-8",
		"PATH=" + SearchPath,
		"PYTHONHASHSEED=0",
		"SOURCE_DATE_EPOCH=0",
		"TMPDIR=" + home,
		"TZ=UTC",
	}
}

// host holds the properties of the machine that a plan depends on.
type host struct {
	system   []string // folders of the system that exist, absolute
	links    []string // system folders that are symbolic links, as "path=target"
	etc      []string // parts of /etc that programs need
	landlock int      // version of Landlock, 0: none
	root     bool     // commands can have an id of their own on the host
	id       int      // the id of commands on the host, if root

	uncounted bool // no cgroup counts the memory of commands
}

// systemPaths are the paths that every command may read and execute.
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// etcPaths are the parts of /etc that belong to installed programs.
var etcPaths = []string{"/etc/alternatives", "/etc/ld.so.cache"}

// etcCertificates is the part of /etc that clients of TLS need.
const etcCertificates = "/etc/ssl/certs"

// etcNetwork are the parts of /etc that network clients need.
var etcNetwork = []string{etcCertificates, "/etc/services", "/etc/protocols", "/etc/resolv.conf"}

// isFile says whether a path listed in this file is a file and not a folder.
func isFile(p string) bool {
	switch p {
	case "/etc/alternatives", "/etc/ssl/certs", "/sys/kernel/mm/transparent_hugepage", "/sys/devices/system/cpu":
		return false
	}
	return !slices.Contains(systemPaths, p)
}

func look() host {
	h := host{landlock: landlockVersion()}
	if os.Geteuid() == 0 {
		h.id = outsideID(mapped("/proc/self/uid_map"), mapped("/proc/self/gid_map"))
		h.root = h.id != 0
	}
	for _, p := range systemPaths {
		if target, err := os.Readlink(p); err == nil {
			h.links = append(h.links, p+"="+target)
		} else if info, err := os.Stat(p); err == nil && info.IsDir() {
			h.system = append(h.system, p)
		}
	}
	for _, p := range slices.Concat(etcPaths, etcNetwork) {
		if _, err := os.Stat(p); err == nil {
			h.etc = append(h.etc, p)
		}
	}
	return h
}

// hiddenProc are the files of /proc that reveal data of the user outside, the identity of
// the machine, or the activity of others on it.
var hiddenProc = []string{"cmdline", "config.gz", "diskstats", "kallsyms", "key-users", "keys", "pressure", "sys/kernel/random/boot_id"}

// devices are the only devices in /dev.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// device returns the device of the host behind a name in /dev. A mapping of zero that
// processes share is memory that no limit of a process bounds. full reads the same bytes but
// cannot be mapped, so it replaces zero where no cgroup counts memory.
func (h host) device(name string) string {
	if name == "zero" && h.uncounted {
		name = "full"
	}
	return "/dev/" + name
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// source is a path of the host that a plan shows. The supervisor has opened it (fd), or the
// init opens it (path).
type source struct {
	path string
	fd   int
	file bool // a file, not a folder
}

// fullPlan returns the plan of a sandbox with a view of its own.
func fullPlan(h host, r Request, staged bool, src map[string]source) initproc.Plan {
	b := &builder{src: src}
	b.add(initproc.Step{Op: initproc.OpIdentity, ID: Inside})
	b.add(initproc.Step{Op: initproc.OpGuard})
	b.add(initproc.Step{Op: initproc.OpPrivate})
	readOnly := uint64(initproc.ReadOnly | initproc.NoSUID | initproc.NoDev)
	for _, p := range h.system {
		b.open(p, readOnly)
	}
	etc := h.shownEtc(r)
	for _, p := range etc {
		b.open(p, readOnly|initproc.NoExec)
	}
	for _, d := range devices {
		b.add(initproc.Step{Op: initproc.OpOpen, Name: "/dev/" + d, From: h.device(d), Attr: initproc.ReadOnly | initproc.NoSUID | initproc.NoExec})
	}
	for _, p := range r.Read {
		b.open(p, readOnly)
	}
	if r.Tree != "" {
		b.open(TreeDir, readOnly)
	}
	if r.Inputs != "" {
		b.open("inputs", readOnly)
	}
	if r.Delta != "" {
		b.open("delta", readOnly)
	}
	if r.Work != "" {
		attr := uint64(initproc.NoSUID | initproc.NoDev)
		if staged {
			attr |= initproc.ReadOnly
		}
		b.open(WorkDir, attr)
	}
	b.add(initproc.Step{Op: initproc.OpRoot, Bytes: 1 * mib, Inodes: 4096, Mode: 0o755, Attr: initproc.NoSUID | initproc.NoDev})
	b.system(h, etc, r.Read)
	b.dev()
	memory := int64(r.Limits.MemoryMB) * mib
	b.tmpfs("tmp", memory, 0o1777)
	b.tmpfs("dev/shm", memory, 0o1777)
	for _, p := range r.Read {
		b.placeAt(p, src[p].file)
	}
	for _, f := range r.Files {
		b.file(strings.TrimPrefix(f.Path, "/"), f.Text)
	}
	if r.Tree != "" {
		b.dir("tree")
		b.add(initproc.Step{Op: initproc.OpPlace, Name: TreeDir, To: "tree"})
	}
	b.work(r, staged)
	b.dir("proc")
	b.add(initproc.Step{Op: initproc.OpProc, To: "proc"})
	for _, name := range hiddenProc {
		b.add(initproc.Step{Op: initproc.OpHide, To: "proc/" + name})
	}
	b.add(initproc.Step{Op: initproc.OpPivot})
	b.add(initproc.Step{Op: initproc.OpSeal})
	b.add(initproc.Step{Op: initproc.OpHostname, Text: "sandbox"})
	if !r.Network {
		b.add(initproc.Step{Op: initproc.OpLoopback})
	}
	if r.Listed {
		b.add(initproc.Step{Op: initproc.OpListen})
	}
	b.add(initproc.Step{Op: initproc.OpEnter, To: WorkDir})
	b.add(initproc.Step{Op: initproc.OpRehearse})
	return initproc.Plan{
		Steps: b.steps, PIDs: true, GraceMS: int(r.grace().Milliseconds()),
		Confine: fullConfine(h, r, staged),
		Actions: actions(r, WorkDir, "/tmp", nil),
	}
}

// builder adds the steps of a plan.
type builder struct {
	src   map[string]source
	steps []initproc.Step
	made  map[string]bool
}

func (b *builder) add(s initproc.Step) { b.steps = append(b.steps, s) }

// open adds a step that opens a path of the host, or uses the descriptor that the supervisor
// opened for it.
func (b *builder) open(name string, attr uint64) {
	s := initproc.Step{Op: initproc.OpOpen, Name: name, From: name, Attr: attr}
	if src, ok := b.src[name]; ok {
		s.From, s.FD = src.path, src.fd
	}
	b.add(s)
}

// dir adds the steps that make a folder and its parents, each once.
func (b *builder) dir(p string) {
	if b.made == nil {
		b.made = map[string]bool{".": true}
	}
	if b.made[p] {
		return
	}
	b.dir(path.Dir(p))
	b.made[p] = true
	b.add(initproc.Step{Op: initproc.OpDir, To: p, Mode: 0o755})
}

func (b *builder) file(p, text string) {
	b.dir(path.Dir(p))
	b.add(initproc.Step{Op: initproc.OpFile, To: p, Text: text, Mode: 0o644})
}

// placeAt puts an opened path of the host at the same path inside.
func (b *builder) placeAt(p string, file bool) {
	to := strings.TrimPrefix(p, "/")
	if file {
		b.file(to, "")
	} else {
		b.dir(to)
	}
	b.add(initproc.Step{Op: initproc.OpPlace, Name: p, To: to})
}

func (b *builder) tmpfs(to string, size int64, mode uint32) {
	b.dir(to)
	b.add(initproc.Step{Op: initproc.OpTmpfs, To: to, Bytes: size, Inodes: 1 << 16, Mode: mode, Attr: initproc.NoSUID | initproc.NoDev})
}

func (b *builder) dev() {
	for _, d := range devices {
		b.placeAt("/dev/"+d, true)
	}
	for _, link := range [][2]string{{"fd", ""}, {"stdin", "/0"}, {"stdout", "/1"}, {"stderr", "/2"}} {
		b.add(initproc.Step{Op: initproc.OpLink, To: "dev/" + link[0], Text: "/proc/self/fd" + link[1]})
	}
}

// stageInodes returns the number of files that may be written. It counts outputs and files
// that are deleted again.
func stageInodes(l Limits) int64 { return int64(l.OutputFiles)*4 + 4096 }

// stageBytes returns the memory for written files: the outputs, and one page per inode,
// because a file of one byte takes a page.
func stageBytes(l Limits) int64 { return l.OutputBytes + stageInodes(l)*4*kib }

// work adds the steps that make the work folder.
func (b *builder) work(r Request, staged bool) {
	b.dir("work")
	if !staged {
		b.add(initproc.Step{Op: initproc.OpPlace, Name: WorkDir, To: "work"})
	} else {
		b.add(initproc.Step{Op: initproc.OpStage, Bytes: stageBytes(r.Limits), Inodes: stageInodes(r.Limits), Mode: 0o755, Attr: initproc.NoSUID | initproc.NoDev})
		var lower []string
		if r.Inputs != "" {
			lower = append(lower, "inputs")
		}
		if r.Delta != "" {
			lower = append(lower, "delta")
		}
		if r.Work != "" {
			lower = append(lower, WorkDir)
		}
		b.add(initproc.Step{Op: initproc.OpOverlay, To: "work", Lower: lower})
	}
	for _, name := range r.Protect {
		b.add(initproc.Step{Op: initproc.OpCover, To: "work/" + name})
	}
	for _, name := range r.Hide {
		b.add(initproc.Step{Op: initproc.OpHide, To: "work/" + name})
	}
}

func (r Request) grace() time.Duration {
	if r.Grace > 0 {
		return r.Grace
	}
	return 2 * time.Second
}

// actions returns the actions as the init performs them. own has the places of r.Files, if
// these are not their paths.
func actions(r Request, work, home string, own map[string]string) []initproc.Action {
	list := make([]initproc.Action, len(r.Actions))
	for i, a := range r.Actions {
		if len(a.Argv) == 0 {
			mode := uint32(0o644)
			switch {
			case a.Given:
				mode = 0o444
			case a.Executable:
				mode = 0o755
			}
			list[i] = initproc.Action{Root: work, Path: a.Path, Content: a.Content, Given: a.Given, Mode: mode}
			continue
		}
		argv := slices.Clone(a.Argv)
		for n, arg := range argv {
			argv[n] = cmp.Or(own[arg], arg)
		}
		list[i] = initproc.Action{
			Argv: argv, Env: mergeEnv(r.environment(home), a.Env),
			Dir: path.Join(work, filepath.ToSlash(a.Dir)),
		}
	}
	return list
}

// mergeEnv returns the fixed environment with the variables of the request added or
// replaced, sorted.
func mergeEnv(fixed, added []string) []string {
	names := map[string]string{}
	for _, e := range slices.Concat(fixed, added) {
		name, _, _ := strings.Cut(e, "=")
		names[name] = e
	}
	return slices.Sorted(maps.Values(names))
}

// Rights of Landlock for files and folders (landlock(7)).
const (
	llExecute    = unix.LANDLOCK_ACCESS_FS_EXECUTE
	llWriteFile  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	llReadFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	llReadDir    = unix.LANDLOCK_ACCESS_FS_READ_DIR
	llRefer      = unix.LANDLOCK_ACCESS_FS_REFER
	llTruncate   = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	llIoctl      = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	llFirst      = 1<<13 - 1 // the rights of version 1
	llRead       = llReadFile | llReadDir
	llReadRun    = llRead | llExecute
	llFiles      = llExecute | llWriteFile | llReadFile | llTruncate | llIoctl // rights that a file can have
	llBind       = unix.LANDLOCK_ACCESS_NET_BIND_TCP
	llConnect    = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	llAbstract   = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	llScopedSign = unix.LANDLOCK_SCOPE_SIGNAL
)

// handled returns the rights that a version of Landlock knows.
func handled(version int) (fs, net, scoped uint64) {
	fs = llFirst
	if version >= 2 {
		fs |= llRefer
	}
	if version >= 3 {
		fs |= llTruncate
	}
	if version >= 4 {
		net = llBind | llConnect
	}
	if version >= 5 {
		fs |= llIoctl
	}
	if version >= 6 {
		scoped = llAbstract | llScopedSign
	}
	return fs, net, scoped
}

// landlockVersion returns the version of Landlock that the kernel has, or 0.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// fullConfine returns what commands in a full sandbox give up. The view contains only what
// commands may read; Landlock is a second barrier against reads and writes.
func fullConfine(h host, r Request, staged bool) initproc.Confine {
	c := initproc.Confine{CPUs: r.Limits.CPUCores, Last: lastStep(r.Limits), Rlimits: rlimits(r, !staged, initThreads)}
	families := []uint32{unix.AF_INET, unix.AF_INET6}
	if staged && r.Tree == "" && len(r.Read) == 0 && !h.uncounted {
		// No shown path of the host can be a socket of another program: neither a mount nor
		// Landlock would stop a command from connecting to it. Connections that wait to be
		// accepted are memory that only a cgroup counts.
		families = append(families, unix.AF_UNIX)
	}
	c.Seccomp = seccomp.Filter(seccomp.Options{Families: families, NoFork: !r.Limits.Forks(), SetID: !staged, Uncounted: h.uncounted})
	if h.landlock == 0 {
		return c
	}
	fs, _, scoped := handled(h.landlock)
	everything := fs &^ llIoctl
	c.Landlock = &initproc.Landlock{FS: fs, Scoped: scoped, Rules: []initproc.Rule{
		{Path: "/", Access: llReadRun & fs},
		{Path: "/tmp", Access: everything},
		{Path: "/dev/shm", Access: everything},
	}}
	for _, p := range writable(r, staged, WorkDir) {
		c.Landlock.Rules = append(c.Landlock.Rules, initproc.Rule{Path: p, Access: everything})
	}
	for _, d := range devices {
		c.Landlock.Rules = append(c.Landlock.Rules, initproc.Rule{Path: "/dev/" + d, Access: (llReadFile | llWriteFile | llTruncate | llIoctl) & fs})
	}
	return c
}

// writable returns the folders that commands can write. Staged changes are judged later;
// direct writes must stay in the roots while they happen.
func writable(r Request, staged bool, work string) []string {
	if staged || r.Roots == nil {
		return []string{work}
	}
	list := make([]string, len(r.Roots))
	for i, root := range r.Roots {
		list[i] = path.Join(work, root)
	}
	return list
}

// rlimits returns the limits of each process. others is the number of processes and threads
// that the kernel counts besides the command's own.
func rlimits(r Request, bounded bool, others int) []initproc.Rlimit {
	list := []initproc.Rlimit{
		{Resource: unix.RLIMIT_CORE, Value: 0},
		{Resource: unix.RLIMIT_STACK, Value: 8 * mib},
		{Resource: unix.RLIMIT_DATA, Value: uint64(r.Limits.MemoryMB) * mib},
		{Resource: unix.RLIMIT_NOFILE, Value: maxDescriptors},
		{Resource: unix.RLIMIT_MEMLOCK, Value: 64 * kib},
		{Resource: unix.RLIMIT_MSGQUEUE, Value: 0},
		{Resource: unix.RLIMIT_NICE, Value: 0},
		{Resource: unix.RLIMIT_RTPRIO, Value: 0},
		{Resource: unix.RLIMIT_NPROC, Value: uint64(r.Limits.Tasks() + others)},
	}
	if bounded {
		list = append(list, initproc.Rlimit{Resource: unix.RLIMIT_FSIZE, Value: uint64(r.Limits.OutputBytes)})
	}
	return list
}

// maxDescriptors is the largest number of descriptors of a process.
const maxDescriptors = 1024

// initMemory is the data memory, in MiB, that an init needs if the limits of its commands
// also apply to it.
const initMemory = 256

// lastStep says whether a command's process must give up its rights itself, as its last
// step. A filter that refuses fork would also stop the init from forking. Memory limits that
// are small for a command are too small for an init.
func lastStep(l Limits) bool { return !l.Forks() || l.MemoryMB < initMemory }

// initThreads is the largest number of threads of an init.
const initThreads = 24

// confinedPlan returns the plan of a sandbox without namespaces. at.work and at.tmp are
// folders of the host; at.work is a copy or the work folder itself.
func confinedPlan(h host, r Request, at places) initproc.Plan {
	steps := []initproc.Step{{Op: initproc.OpGuard}, {Op: initproc.OpReaper}, {Op: initproc.OpEnter, To: at.work}, {Op: initproc.OpRehearse}}
	p := initproc.Plan{Steps: steps, GraceMS: int(r.grace().Milliseconds()), Actions: actions(r, at.work, at.tmp, at.own)}
	p.Confine = initproc.Confine{CPUs: r.Limits.CPUCores, Last: lastStep(r.Limits), UID: at.id, Rlimits: rlimits(r, true, at.others)}
	if at.isolation == None {
		return p
	}
	fs, net, scoped := handled(h.landlock)
	everything := fs &^ llIoctl
	l := &initproc.Landlock{FS: fs, Scoped: scoped}
	families := []uint32{}
	if r.Network {
		families = []uint32{unix.AF_INET, unix.AF_INET6}
	} else {
		l.Net = net
	}
	rule := func(p string, access uint64, file bool) {
		if file {
			access &= llFiles
		}
		l.Rules = append(l.Rules, initproc.Rule{Path: p, Access: access & fs})
	}
	for _, p := range h.system {
		rule(p, llReadRun, false)
	}
	for _, p := range h.etc {
		if r.Network || !slices.Contains(etcNetwork, p) {
			rule(p, llRead, isFile(p))
		}
	}
	for _, p := range readable {
		rule(p, llRead, isFile(p))
	}
	if r.Network {
		rule("/etc/hosts", llReadFile, true)
	}
	for _, d := range devices {
		if h.device(d) == "/dev/"+d { // here no device can replace another
			rule("/dev/"+d, llReadFile|llWriteFile|llTruncate|llIoctl, true)
		}
	}
	for _, p := range r.Read {
		rule(p, llReadRun, at.files[p])
	}
	if r.Tree != "" {
		rule(r.Tree, llReadRun, false)
	}
	for _, p := range slices.Sorted(maps.Values(at.own)) {
		rule(p, llReadFile, true)
	}
	rule(at.work, llReadRun, false)
	for _, p := range writable(r, at.staged, at.work) {
		rule(p, everything, false)
	}
	rule(at.tmp, everything, false)
	p.Confine.Landlock = l
	p.Confine.Seccomp = seccomp.Filter(seccomp.Options{Families: families, NoFork: !r.Limits.Forks(), Shared: true, Uncounted: h.uncounted, SetID: true, NoTruncate: h.landlock < 3})
	return p
}

// readable are paths that reveal little about the host and that programs read at start.
var readable = []string{
	"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/locale.alias", "/etc/ssl/openssl.cnf", "/etc/ssl/certs", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version",
	"/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage", "/sys/devices/system/cpu",
}

// places are the host paths and ids of a sandbox without a view of its own.
type places struct {
	isolation Isolation
	work, tmp string
	staged    bool              // work is a copy
	files     map[string]bool   // those paths of Read that are files
	own       map[string]string // places of Request.Files
	others    int               // processes and threads that the kernel counts besides the command's own
	id        int               // uid and gid of commands; 0: the caller's
}

var rlimitNames = lazy.Value[map[int]string]{Make: func() map[int]string {
	return map[int]string{
		unix.RLIMIT_CORE: "core", unix.RLIMIT_STACK: "stack", unix.RLIMIT_DATA: "data", unix.RLIMIT_NOFILE: "nofile", unix.RLIMIT_MEMLOCK: "memlock",
		unix.RLIMIT_MSGQUEUE: "msgqueue", unix.RLIMIT_NICE: "nice", unix.RLIMIT_RTPRIO: "rtprio", unix.RLIMIT_NPROC: "nproc", unix.RLIMIT_FSIZE: "fsize",
	}
}}

// system shows the host's programs and a made /etc. That /etc reveals nothing about the host
// except the paths in read.
func (b *builder) system(h host, etc, read []string) {
	own := func(p, text string) {
		if !slices.Contains(read, "/"+p) {
			b.file(p, text)
		}
	}
	for _, l := range h.links {
		p, target, _ := strings.Cut(l, "=")
		b.add(initproc.Step{Op: initproc.OpLink, To: strings.TrimPrefix(p, "/"), Text: target})
	}
	for _, p := range h.system {
		b.placeAt(p, false)
	}
	own("etc/passwd", "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	own("etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n")
	own("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n")
	own("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
	if !slices.Contains(etc, "/etc/resolv.conf") {
		own("etc/resolv.conf", "")
	}
	for _, p := range etc {
		b.placeAt(p, isFile(p))
	}
}
