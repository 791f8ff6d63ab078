//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostileArg is argv[1] of a test binary that is started as one of the programs.
const hostileArg = "hostile-program"

// secretText must not be seen by any command.
const secretText = "the secret of the house"

// held and breach begin the last line of what a program prints.
const (
	held   = "HELD: "
	breach = "BREACH: "
)

// tiocLinux is TIOCLINUX, an ioctl that package unix does not have.
const tiocLinux = 0x541c

// The program runs before the tests do, and never gets to them.
var _ = playProgram()

func playProgram() struct{} {
	if len(os.Args) < 3 || os.Args[1] != hostileArg {
		return struct{}{}
	}
	name, args := os.Args[2], os.Args[3:]
	if role, ok := roles()[name]; ok {
		os.Exit(role(args))
	}
	attack, ok := attacks()[name]
	if !ok {
		fmt.Println("no such program:", name)
		os.Exit(3)
	}
	tellVerdict(attack(args))
	os.Exit(0)
	return struct{}{}
}

func tellVerdict(got string, err error) {
	if err == nil {
		fmt.Println(breach + got)
		return
	}
	fmt.Println(held + strings.ReplaceAll(err.Error(), "\n", "; "))
}

// attackFunc returns what the attack got, or what stopped it.
type attackFunc func(args []string) (got string, err error)

// attempt is one way of many.
type attempt struct {
	what string
	do   func() error
}

// tryAll returns the result of the first attempt that succeeds, or why none did.
func tryAll(list ...attempt) (string, error) {
	var errs []string
	for _, a := range list {
		err := a.do()
		if err == nil {
			return a.what, nil
		}
		errs = append(errs, a.what+": "+err.Error())
	}
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Sprint("and ", len(errs)-3, " more"))
	}
	return "", errors.New(strings.Join(errs, "; "))
}

// looked returns nil if the kernel examined the arguments of the call: such an error depends
// on the arguments, not on the caller.
func looked(errno syscall.Errno) error {
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT, unix.EROFS:
		return errno
	}
	return nil
}

// tryCall tries a system call.
func tryCall(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return looked(errno)
}

// asked is looked for the error of a wrapped call.
func asked(err error) error {
	var errno syscall.Errno
	if err == nil || !errors.As(err, &errno) {
		return err
	}
	return looked(errno)
}

func cString(s string) uintptr {
	b := append([]byte(s), 0)
	shownBytes = append(shownBytes, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func cBytes(b []byte) uintptr {
	shownBytes = append(shownBytes, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// shownBytes keeps the bytes passed to the kernel until the program ends.
var shownBytes [][]byte

// attacks returns the programs that print a verdict.
func attacks() map[string]attackFunc {
	list := map[string]attackFunc{
		"read":             readFiles,
		"list":             listFolders,
		"detour":           readByDetour,
		"exec":             execOutside,
		"write":            writeOutside,
		"write-system":     writeSystem,
		"metadata":         changeMetadata,
		"owner":            changeOwner,
		"proc-of":          procOf,
		"proc-writes":      procWrites,
		"processes":        seeProcesses,
		"devices":          openDevices,
		"handle":           openByHandle,
		"capabilities":     haveCapabilities,
		"become-root":      becomeRoot,
		"rlimits":          raiseLimits,
		"processors":       moreProcessors,
		"signal":           signalProcess,
		"signal-all":       signalAll,
		"signal-init":      signalInit,
		"trace":            traceProcess,
		"tune":             tuneProcess,
		"tcp":              func(a []string) (string, error) { return talk("tcp", a[0]) },
		"udp":              func(a []string) (string, error) { return talk("udp", a[0]) },
		"unix":             func(a []string) (string, error) { return talk("unix", a[0]) },
		"families":         socketFamilies,
		"pairs":            socketPairs,
		"environ":          seeEnvironment,
		"descriptors":      seeDescriptors,
		"euid":             effectiveUser,
		"int80":            int80,
		"elf32":            runELF32,
		"terminal":         injectInput,
		"sysv":             shareMemory,
		"queue":            openQueue,
		"watch":            watchFolder,
		"keys":             seeKeys,
		"layers":           reachLayers,
		"forge":            forgeLayers,
		"own-exe":          ownProgram,
		"proc-machine":     readMachine,
		"fork":             forkAnyway,
		"threads":          haveThreads,
		"imitate":          imitateReports,
		"memory":           takePrivateMemory,
		"shared-memory":    takeSharedMemory,
		"grown-memory":     takeGrownMemory,
		"zero-memory":      takeZeroMemory,
		"together":         takeTogether,
		"disk":             fillDisk,
		"inodes":           fillInodes,
		"open-descriptors": exhaustDescriptors,
		"tasks":            countTasks,
	}
	for name, call := range kernelCalls() {
		list[name] = func(args []string) (string, error) { return name, call(args) }
	}
	return list
}

// ---- files ----

// readFiles tries to read each path as a file.
func readFiles(paths []string) (string, error) {
	var list []attempt
	for _, p := range paths {
		list = append(list, attempt{p, func() error { return secretIn(os.ReadFile(p)) }})
		list = append(list, attempt{"openat2 " + p, func() error {
			fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_RDONLY})
			if err != nil {
				return err
			}
			return secretIn(io.ReadAll(os.NewFile(uintptr(fd), p)))
		}})
		list = append(list, attempt{"O_PATH " + p, func() error {
			fd, err := unix.Open(p, unix.O_PATH, 0)
			if err != nil {
				return err
			}
			return secretIn(os.ReadFile("/proc/self/fd/" + strconv.Itoa(fd)))
		}})
	}
	return tryAll(list...)
}

// secretIn returns nil if the bytes contain the secret.
func secretIn(b []byte, err error) error {
	if err != nil {
		return err
	}
	if bytes.Contains(b, []byte(secretText)) || bytes.Contains(b, []byte("root:")) {
		return nil
	}
	return errors.New("nothing secret in it")
}

func listFolders(paths []string) (string, error) {
	var list []attempt
	for _, p := range paths {
		list = append(list, attempt{p, func() error {
			names, err := os.ReadDir(p)
			if err == nil && len(names) == 0 {
				err = errors.New("empty")
			}
			return err
		}})
	}
	return tryAll(list...)
}

// readByDetour tries to read a file by every way around its path.
func readByDetour(args []string) (string, error) {
	p := args[0]
	up := strings.Repeat("../", 40)
	ways := []string{
		up + p, "/proc/self/root" + p, "/proc/1/root" + p, "/proc/1/cwd/" + up + p, "/proc/self/cwd/" + up + p,
		"/proc/thread-self/root" + p, fmt.Sprintf("/proc/%d/root%s", os.Getppid(), p), "/dev/fd/../root" + p,
		"/tmp/" + up + p, "/dev/shm/" + up + p, "/tree/" + up + p, "/usr/" + up + p,
	}
	var list []attempt
	for _, w := range ways {
		list = append(list, attempt{w, func() error { return secretIn(os.ReadFile(w)) }})
	}
	made := func(what string, do func(name string) error) {
		name := "detour-" + what
		list = append(list, attempt{what, func() error {
			if err := do(name); err != nil {
				return err
			}
			return secretIn(os.ReadFile(name))
		}})
	}
	made("symlink", func(n string) error { return os.Symlink(p, n) })
	made("symlink-up", func(n string) error { return os.Symlink(up+p, n) })
	made("symlink-proc", func(n string) error { return os.Symlink("/proc/1/root"+p, n) })
	made("hard link", func(n string) error { return os.Link(p, n) })
	made("hard link of a descriptor", func(n string) error {
		fd, err := unix.Open(p, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, n, unix.AT_SYMLINK_FOLLOW)
	})
	made("exchange", func(n string) error {
		if err := os.WriteFile(n, nil, 0o600); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, n, unix.RENAME_EXCHANGE)
	})
	made("rename", func(n string) error { return os.Rename(p, n) })
	list = append(list, attempt{"from the root", func() error {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		f, err := unix.Openat(fd, up+p[1:], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return secretIn(io.ReadAll(os.NewFile(uintptr(f), p)))
	}})
	list = append(list, attempt{"chdir", func() error {
		if err := os.Chdir(filepath.Dir(p)); err != nil {
			return err
		}
		return secretIn(os.ReadFile(filepath.Base(p)))
	}})
	return tryAll(list...)
}

// execOutside tries to execute a file outside.
func execOutside(args []string) (string, error) {
	return tryAll(attempt{args[0], func() error { return exec.Command(args[0]).Run() }})
}

// writeOutside tries to change something in a folder of the host that contains file, doomed,
// folder and full/.
func writeOutside(args []string) (string, error) {
	dir := args[0]
	in := func(name string) string { return filepath.Join(dir, name) }
	open := func(path string, flags int) error {
		f, err := os.OpenFile(path, flags, 0o666)
		if err == nil {
			_, err = f.WriteString("written")
		}
		return err
	}
	if err := os.WriteFile("mine", []byte("mine"), 0o666); err != nil {
		return "", fmt.Errorf("cannot even write here: %w", err)
	}
	list := []attempt{
		{"create", func() error { return open(in("new"), os.O_CREATE|os.O_WRONLY) }},
		{"append", func() error { return open(in("file"), os.O_APPEND|os.O_WRONLY) }},
		{"open to truncate", func() error { return open(in("file"), os.O_TRUNC|os.O_WRONLY) }},
		{"truncate", func() error { return unix.Truncate(in("file"), 1) }},
		{"unlink", func() error { return os.Remove(in("doomed")) }},
		{"mkdir", func() error { return os.Mkdir(in("newdir"), 0o777) }},
		{"rmdir", func() error { return unix.Rmdir(in("folder")) }},
		{"symlink", func() error { return os.Symlink("/", in("newlink")) }},
		{"fifo", func() error { return unix.Mkfifo(in("newfifo"), 0o666) }},
		{"socket", func() error { return unix.Mknod(in("newsock"), unix.S_IFSOCK|0o666, 0) }},
		{"whiteout", func() error { return unix.Mknod(in("newdev"), unix.S_IFCHR|0o666, 0) }},
		{"rename there", func() error { return os.Rename(in("doomed"), in("renamed")) }},
		{"rename in", func() error { return os.Rename("mine", in("mine")) }},
		{"rename out", func() error { return os.Rename(in("doomed"), "theirs") }},
		{"link in", func() error { return os.Link("mine", in("linked")) }},
		{"unnamed", func() error {
			_, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
			return err
		}},
		{"by dots", func() error {
			return open(strings.Repeat("../", 40)+in("new2"), os.O_CREATE|os.O_WRONLY)
		}},
		{"by symlink", func() error {
			_ = os.Symlink(in("new3"), "way")
			return open("way", os.O_CREATE|os.O_WRONLY)
		}},
		{"by symlinked folder", func() error {
			_ = os.Symlink(dir, "wayd")
			return open("wayd/new4", os.O_CREATE|os.O_WRONLY)
		}},
		{"by root of process 1", func() error { return open("/proc/1/root"+in("new5"), os.O_CREATE|os.O_WRONLY) }},
		{"by root of the parent", func() error {
			return open(fmt.Sprintf("/proc/%d/root%s", os.Getppid(), in("new6")), os.O_CREATE|os.O_WRONLY)
		}},
	}
	return tryAll(list...)
}

// writeSystem tries to make a file in a folder of the system.
func writeSystem([]string) (string, error) {
	var list []attempt
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/bin", "/lib", "/dev", "/proc", "/sys", "/run", "/var", "/tree", "/root", "/home"} {
		p := filepath.Join(dir, "fiador-hostile-"+strconv.Itoa(os.Getpid()))
		list = append(list, attempt{p, func() error {
			f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			f.Close()
			return os.Remove(p)
		}})
	}
	for _, p := range []string{"/etc/passwd", "/etc/ld.so.cache", "/usr/bin/env", "/bin/sh"} {
		list = append(list, attempt{"open " + p, func() error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err == nil {
				f.Close()
			}
			return err
		}})
	}
	return tryAll(list...)
}

// changeOwner tries to change the owner and the extended attributes of a file, which no
// build needs to change.
func changeOwner(args []string) (string, error) {
	p := args[0]
	uid, gid := os.Getuid(), os.Getgid()
	return tryAll(
		attempt{"chown", func() error { return unix.Chown(p, uid, gid) }},
		attempt{"lchown", func() error { return unix.Lchown(p, -1, gid) }},
		attempt{"fchownat", func() error { return unix.Fchownat(unix.AT_FDCWD, p, -1, -1, 0) }},
		attempt{"setxattr", func() error { return unix.Setxattr(p, "user.fiador", []byte("x"), 0) }},
		attempt{"lsetxattr", func() error { return unix.Lsetxattr(p, "user.fiador", []byte("x"), 0) }},
		attempt{"fsetxattr", func() error {
			fd, err := unix.Open(p, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Fsetxattr(fd, "user.fiador", []byte("x"), 0)
		}},
	)
}

// changeMetadata sets metadata of a file to its current values.
func changeMetadata(args []string) (string, error) {
	p := args[0]
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		return "", err
	}
	return tryAll(
		attempt{"chmod", func() error { return unix.Chmod(p, st.Mode&0o7777) }},
		attempt{"chown", func() error { return unix.Chown(p, int(st.Uid), int(st.Gid)) }},
		attempt{"utimes", func() error { return unix.UtimesNano(p, []unix.Timespec{st.Atim, st.Mtim}) }},
		attempt{"setxattr", func() error {
			defer unix.Removexattr(p, "user.fiador")
			return unix.Setxattr(p, "user.fiador", []byte("x"), 0)
		}},
	)
}

// openByHandle tries to open a file by its inode number, without a path: the number of the
// root folder is known.
func openByHandle([]string) (string, error) {
	open := func(at string, h unix.FileHandle) error {
		fd, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(fd, h, unix.O_RDONLY)
		return asked(err)
	}
	root := make([]byte, 8)
	binary.NativeEndian.PutUint32(root, 2)
	return tryAll(
		attempt{"the root by number", func() error { return open("/usr", unix.NewFileHandle(1, root)) }},
		attempt{"the root by number, from here", func() error { return open(".", unix.NewFileHandle(1, root)) }},
		attempt{"a handle that was asked for", func() error {
			h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
			if err != nil {
				return err
			}
			return open("/usr", h)
		}},
	)
}

// watchFolder tries to learn the names in a folder from its events.
func watchFolder(args []string) (string, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return "", err
	}
	_, err = unix.InotifyAddWatch(fd, args[0], unix.IN_ALL_EVENTS)
	return "events in " + args[0], err
}

// reachLayers tries to open the layers of the work folder's overlay.
func reachLayers([]string) (string, error) {
	ways := []string{"/.stage", "/.stage/upper", "/.lower0", "/work/../.stage/upper", "/proc/1/root/.stage", "/proc/1/cwd/.stage", "/work/.stage", ".stage", "/.none"}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for _, option := range strings.FieldsFunc(string(b), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		for _, name := range []string{"upperdir=", "workdir=", "lowerdir="} {
			if dirs, ok := strings.CutPrefix(option, name); ok {
				for dir := range strings.SplitSeq(dirs, ":") {
					ways = append(ways, dir, "/"+dir, "/work/"+dir)
				}
			}
		}
	}
	var list []attempt
	for _, p := range ways {
		list = append(list, attempt{p, func() error {
			_, err := unix.Open(p, unix.O_PATH, 0)
			return err
		}})
	}
	for fd := 3; fd < 1024; fd++ {
		list = append(list, attempt{"descriptor " + strconv.Itoa(fd), func() error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return errors.New("no folder")
			}
			return nil
		}})
	}
	return tryAll(list...)
}

// forgeLayers tries to write the overlay's private attributes, which can redirect a folder.
// It looks for a folder "hidden" with "key"; the host forged "door".
func forgeLayers([]string) (string, error) {
	_ = os.Mkdir("forged", 0o755)
	_ = os.WriteFile("forged-key", nil, 0o644)
	for _, space := range []string{"user", "trusted"} {
		_ = unix.Setxattr("forged", space+".overlay.redirect", []byte("/hidden"), 0)
		_ = unix.Setxattr("forged", space+".overlay.origin", []byte("/hidden"), 0)
		_ = unix.Setxattr("forged-key", space+".overlay.metacopy", nil, 0)
		_ = unix.Setxattr("forged-key", space+".overlay.redirect", []byte("/hidden/key"), 0)
	}
	_ = os.Rename("forged", "forged2")
	_ = os.Rename("forged2", "forged")
	return readFiles([]string{"forged/key", "forged-key", "door/key", "door-key", "hidden/key"})
}

// ownProgram tries to find the program that started this one, to read or replace it.
func ownProgram([]string) (string, error) {
	open := func(p string, flags int) attempt {
		return attempt{p + " " + strconv.Itoa(flags), func() error {
			_, err := unix.Open(p, flags, 0)
			return err
		}}
	}
	up := fmt.Sprintf("/proc/%d/exe", os.Getppid())
	return tryAll(open("/proc/1/exe", unix.O_RDONLY), open("/proc/1/exe", unix.O_PATH), open(up, unix.O_RDONLY), open(up, unix.O_PATH), open(up, unix.O_WRONLY))
}

// ---- processes ----

// target is a process to attack: a number, or the parent, or the process at the top.
func target(arg string) int {
	switch arg {
	case "parent":
		return os.Getppid()
	case "init":
		if _, err := os.Stat("/proc/1"); err == nil && os.Getppid() == 1 {
			return 1
		}
		return os.Getppid()
	}
	pid, _ := strconv.Atoi(arg)
	return pid
}

func procOf(args []string) (string, error) {
	var list []attempt
	for _, arg := range args {
		dir := fmt.Sprintf("/proc/%d/", target(arg))
		for _, name := range []string{"mem", "environ", "maps", "auxv", "exe", "pagemap", "syscall", "stack"} {
			list = append(list, attempt{name, func() error {
				f, err := os.Open(dir + name)
				if err != nil {
					return err
				}
				if name == "mem" {
					return nil
				}
				_, err = f.Read(make([]byte, 16))
				return err
			}})
		}
		for _, name := range []string{"root", "cwd", "fd", "map_files", "ns"} {
			list = append(list, attempt{name, func() error {
				if name == "ns" {
					_, err := os.Readlink(dir + "ns/mnt")
					return err
				}
				_, err := os.ReadDir(dir + name)
				return err
			}})
		}
		list = append(list, attempt{"mem to write", func() error {
			_, err := unix.Open(dir+"mem", unix.O_RDWR, 0)
			return err
		}})
	}
	return tryAll(list...)
}

// seeProcesses looks for a process whose arguments contain a mark.
func seeProcesses(args []string) (string, error) {
	pids := withMark(args[0] + "-" + args[1])
	if len(pids) == 0 {
		return "", errors.New("nobody there")
	}
	return fmt.Sprint("processes ", pids), nil
}

// withMark returns the other processes whose arguments contain a mark.
func withMark(mark string) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, name := range names {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		if b, err := os.ReadFile(name); err == nil && pid != os.Getpid() && bytes.Contains(b, []byte(mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// procWrites tries to open files for writing that change the kernel. It writes nothing.
func procWrites([]string) (string, error) {
	paths := []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger",
		"/proc/sys/user/max_user_namespaces", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/1/oom_score_adj", "/proc/1/coredump_filter",
		"/proc/kcore", "/proc/kmsg", "/proc/kpagecount",
		"/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/release_agent",
	}
	agents, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
	procs, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	var list []attempt
	for _, p := range slices.Concat(paths, agents, procs, []string{"/sys/fs/cgroup/cgroup.procs"}) {
		flags := unix.O_WRONLY
		if strings.HasPrefix(p, "/proc/k") {
			flags = unix.O_RDONLY
		}
		list = append(list, attempt{p, func() error {
			_, err := unix.Open(p, flags, 0)
			return err
		}})
	}
	return tryAll(list...)
}

// readMachine tries to read the identity of the machine and the activity of others on it.
func readMachine([]string) (string, error) {
	var list []attempt
	for _, name := range []string{"cmdline", "config.gz", "diskstats", "kallsyms", "pressure/cpu", "pressure/io", "pressure/memory", "sys/kernel/random/boot_id"} {
		list = append(list, attempt{"/proc/" + name, func() error {
			b, err := os.ReadFile("/proc/" + name)
			if err == nil && len(b) == 0 {
				err = errors.New("empty")
			}
			return err
		}})
	}
	return tryAll(list...)
}

// signalProcess reaches a process with SIGWINCH, which harms none, by every call.
func signalProcess(args []string) (string, error) {
	pid := target(args[0])
	sig := unix.SIGWINCH
	return tryAll(
		attempt{"kill", func() error { return unix.Kill(pid, sig) }},
		attempt{"kill 0", func() error { return unix.Kill(pid, 0) }},
		attempt{"kill the group", func() error { return unix.Kill(-pid, sig) }},
		attempt{"tgkill", func() error { return unix.Tgkill(pid, pid, sig) }},
		attempt{"tkill", func() error { return mustCall(unix.SYS_TKILL, uintptr(pid), uintptr(sig)) }},
		attempt{"rt_sigqueueinfo", func() error {
			info := make([]byte, 128)
			binary.NativeEndian.PutUint32(info, uint32(sig))
			code := int32(-1) // SI_QUEUE
			binary.NativeEndian.PutUint32(info[8:], uint32(code))
			return mustCall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig), cBytes(info))
		}},
		attempt{"pidfd_send_signal", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, sig, nil, 0)
		}},
		attempt{"the owner of a pipe", func() error { return signalByOwner(pid) }},
	)
}

// mustCall tries a system call that has to succeed.
func mustCall(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// signalByOwner makes the kernel send the signal when an own pipe becomes readable. The
// caller checks the mark of the victim to see whether the signal arrived.
func signalByOwner(pid int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_ASYNC); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, pid); err != nil {
		return err
	}
	_, _ = unix.FcntlInt(uintptr(p[0]), 10 /* F_SETSIG */, int(unix.SIGWINCH))
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC)
	_, _ = unix.Write(p[1], []byte("x"))
	return errors.New("sent, if the kernel let it pass")
}

// signalAll sends the signal args[0] to every process that it can reach; the victim says
// whether it arrived.
func signalAll(args []string) (string, error) {
	number, _ := strconv.Atoi(args[0])
	return "", fmt.Errorf("kill(-1): %v", unix.Kill(-1, syscall.Signal(number)))
}

// signalInit sends a deadly signal to the process above. Process 1 of a namespace may
// receive it, and must ignore it.
func signalInit(args []string) (string, error) {
	pid := target("init")
	number, _ := strconv.Atoi(args[0])
	sig := syscall.Signal(number)
	ways := []attempt{
		{"kill", func() error { return unix.Kill(pid, sig) }},
		{"tgkill", func() error { return unix.Tgkill(pid, pid, sig) }},
		{"pidfd", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, sig, nil, 0)
		}},
	}
	var errs []error
	for _, w := range ways {
		if err := w.do(); err != nil {
			errs = append(errs, err)
			continue
		}
		if pid != 1 {
			_ = unix.Kill(pid, unix.SIGCONT)
			return w.what + " " + sig.String(), nil
		}
	}
	time.Sleep(100 * time.Millisecond)
	if b, err := os.ReadFile("/proc/1/stat"); err == nil && bytes.Contains(b, []byte(") T ")) {
		return "process 1 is stopped", nil
	}
	return "", fmt.Errorf("still there: %w", errors.Join(errs...))
}

// traceProcess tries to read the memory of another process.
func traceProcess(args []string) (string, error) {
	pid := target(args[0])
	local := make([]byte, 8)
	remote := uintptr(unsafe.Pointer(&os.Args))
	move := func(number uintptr) error {
		l := [2]uintptr{uintptr(unsafe.Pointer(&local[0])), 8}
		r := [2]uintptr{remote, 8}
		return tryCall(number, uintptr(pid), uintptr(unsafe.Pointer(&l)), 1, uintptr(unsafe.Pointer(&r)), 1, 0)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return tryAll(
		attempt{"process_vm_readv", func() error { return move(unix.SYS_PROCESS_VM_READV) }},
		attempt{"process_vm_writev", func() error {
			// To an address that nobody has.
			remote = 8
			return move(unix.SYS_PROCESS_VM_WRITEV)
		}},
		attempt{"ptrace seize", func() error {
			err := mustCall(unix.SYS_PTRACE, 0x4206, uintptr(pid))
			if err == nil {
				_ = unix.PtraceDetach(pid)
			}
			return err
		}},
		attempt{"ptrace attach", func() error {
			if err := unix.PtraceAttach(pid); err != nil {
				return err
			}
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, unix.WALL, nil)
			return unix.PtraceDetach(pid)
		}},
		attempt{"pidfd_getfd", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return asked(err)
		}},
		attempt{"kcmp", func() error {
			return mustCall(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 0, 0, 0)
		}},
		attempt{"process_madvise", func() error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			iov := [2]uintptr{remote &^ 4095, 4096}
			return tryCall(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, unix.MADV_COLD, 0)
		}},
		attempt{"get_robust_list", func() error {
			var head, size uintptr
			return mustCall(unix.SYS_GET_ROBUST_LIST, uintptr(pid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size)))
		}},
		attempt{"move_pages", func() error { return mustCall(unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, 0) }},
		attempt{"migrate_pages", func() error {
			var none uint64
			at := uintptr(unsafe.Pointer(&none))
			return mustCall(unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, at, at)
		}},
	)
}

// tuneProcess tries to change the limits, priority and processors of another process. A
// limit of processor time would end that process.
func tuneProcess(args []string) (string, error) {
	pid := target(args[0])
	return tryAll(
		attempt{"prlimit to set", func() error {
			var l unix.Rlimit
			if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &l); err != nil {
				return err
			}
			return unix.Prlimit(pid, unix.RLIMIT_CORE, &l, nil)
		}},
		attempt{"prlimit to read", func() error {
			var l unix.Rlimit
			return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l)
		}},
		attempt{"setpriority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 1) }},
		attempt{"sched_setaffinity", func() error {
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(pid, &set); err != nil {
				return err
			}
			return unix.SchedSetaffinity(pid, &set)
		}},
		attempt{"sched_setscheduler", func() error {
			var param int32
			return mustCall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), 3 /* SCHED_BATCH */, uintptr(unsafe.Pointer(&param)))
		}},
		attempt{"ioprio_set", func() error { return mustCall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|4) }},
	)
}

// ---- privileges and limits ----

func haveCapabilities([]string) (string, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return "", err
	}
	for _, d := range data {
		if d.Effective|d.Permitted|d.Inheritable != 0 {
			return fmt.Sprintf("%+v", data), nil
		}
	}
	return tryAll(
		attempt{"capset", func() error {
			all := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&head, &all[0])
		}},
		attempt{"ambient", func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
		}},
		attempt{"no_new_privs off", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) }},
		attempt{"no_new_privs is off", func() error {
			n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			if err == nil && n == 1 {
				err = errors.New("it is on")
			}
			return err
		}},
		attempt{"setgroups", func() error { return unix.Setgroups([]int{0}) }},
		attempt{"seccomp off", func() error { return unix.Prctl(unix.PR_SET_SECCOMP, 0, 0, 0, 0) }},
	)
}

func becomeRoot([]string) (string, error) {
	return tryAll(
		attempt{"setresuid", func() error { return mustCall(unix.SYS_SETRESUID, 0, 0, 0) }},
		attempt{"setresgid", func() error { return mustCall(unix.SYS_SETRESGID, 0, 0, 0) }},
		attempt{"setfsuid", func() error {
			_, _ = unix.SetfsuidRetUid(0)
			if id, _ := unix.SetfsuidRetUid(-1); id != 0 {
				return errors.New("stays")
			}
			return nil
		}},
		attempt{"setgroups", func() error { return mustCall(unix.SYS_SETGROUPS, 0, 0) }},
	)
}

// raiseLimits tries to raise its limits.
func raiseLimits([]string) (string, error) {
	var list []attempt
	for name, resource := range map[string]int{
		"descriptors": unix.RLIMIT_NOFILE, "data": unix.RLIMIT_DATA, "processes": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE,
		"locked": unix.RLIMIT_MEMLOCK, "nice": unix.RLIMIT_NICE, "real time": unix.RLIMIT_RTPRIO,
	} {
		list = append(list, attempt{name, func() error {
			var l unix.Rlimit
			if err := unix.Getrlimit(resource, &l); err != nil {
				return err
			}
			if l.Max == unix.RLIM_INFINITY {
				if resource == unix.RLIMIT_NPROC {
					return errors.New("no limit of this kind")
				}
				return nil
			}
			return unix.Prlimit(0, resource, &unix.Rlimit{Cur: l.Max, Max: l.Max + 1}, nil)
		}})
	}
	list = append(list,
		attempt{"priority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }},
		attempt{"real time", func() error {
			param := int32(1)
			return mustCall(unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* SCHED_FIFO */, uintptr(unsafe.Pointer(&param)))
		}},
		attempt{"real time io", func() error { return mustCall(unix.SYS_IOPRIO_SET, 1, 0, 1<<13|4) }},
	)
	return tryAll(list...)
}

// moreProcessors runs on more processors than args[0].
func moreProcessors(args []string) (string, error) {
	most, _ := strconv.Atoi(args[0])
	var set unix.CPUSet
	for i := range 1024 {
		set.Set(i)
	}
	err := unix.SchedSetaffinity(0, &set)
	set.Zero()
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return "", err
	}
	if set.Count() <= most {
		return "", fmt.Errorf("%d processors: %v", set.Count(), err)
	}
	return fmt.Sprintf("%d processors", set.Count()), nil
}

func effectiveUser([]string) (string, error) {
	if os.Geteuid() != os.Getuid() || os.Geteuid() == 0 {
		return fmt.Sprintf("user %d acts as %d", os.Getuid(), os.Geteuid()), nil
	}
	return "", fmt.Errorf("user %d", os.Geteuid())
}

// ---- network ----

// talk connects to a server of the host, which greets: it does so while it has much else to
// do, too. A server of the world is waited for shortly.
func talk(network, address string) (string, error) {
	patience := 30 * time.Second
	if strings.HasPrefix(address, "8.8.8.8:") {
		patience = 2 * time.Second
	}
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("hello")); err != nil {
		return "", err
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	return fmt.Sprintf("%s %s said %q", network, address, b[:n]), err
}

// socketFamilies tries every family but those in args.
func socketFamilies(args []string) (string, error) {
	var list []attempt
	for family := range 64 {
		if slices.Contains(args, strconv.Itoa(family)) {
			continue
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			what := fmt.Sprintf("family %d type %d", family, kind)
			list = append(list, attempt{what, func() error { return socketed(unix.SYS_SOCKET, uintptr(family), uintptr(kind)) }})
			list = append(list, attempt{what + " with high bits", func() error {
				return socketed(unix.SYS_SOCKET, uintptr(family)|1<<32, uintptr(kind))
			}})
		}
	}
	return tryAll(list...)
}

// socketPairs tries to make a pair in every family except those in args. A family without
// pairs has made a socket before it returns an error.
func socketPairs(args []string) (string, error) {
	var list []attempt
	for family := range 64 {
		if slices.Contains(args, strconv.Itoa(family)) {
			continue
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			list = append(list, attempt{fmt.Sprintf("pair of family %d type %d", family, kind), func() error {
				return socketed(unix.SYS_SOCKETPAIR, uintptr(family), uintptr(kind))
			}})
		}
	}
	return tryAll(list...)
}

func socketed(number, family, kind uintptr) error {
	pair := make([]byte, 8)
	_, _, errno := syscall.Syscall6(number, family, kind, 0, cBytes(pair), 0, 0)
	switch errno {
	case 0, unix.EOPNOTSUPP:
		return nil
	}
	return errno
}

// ---- environment and descriptors ----

// seeEnvironment looks for variables that are not those of every sandbox.
func seeEnvironment([]string) (string, error) {
	fixed := environment("")
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		known := slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") })
		if !known || name == "PATH" && value != SearchPath || strings.Contains(e, secretText) {
			return e, nil
		}
	}
	return "", errors.New("nothing but what is always there")
}

// seeDescriptors looks for files and folders that are open from the start.
func seeDescriptors([]string) (string, error) {
	var list []attempt
	for fd := 3; fd < 1024; fd++ {
		list = append(list, attempt{"descriptor " + strconv.Itoa(fd), func() error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG, unix.S_IFDIR, unix.S_IFSOCK, unix.S_IFBLK, unix.S_IFCHR:
				return nil
			}
			return errors.New("of the runtime")
		}})
	}
	return tryAll(list...)
}

// imitateReports writes a forged report of an init to every descriptor that it finds,
// including its own output.
func imitateReports(args []string) (string, error) {
	var reports [][]byte
	for _, kind := range []byte{'r', 'f', 'd'} {
		b := make([]byte, 32)
		copy(b, "fdr\x01")
		b[4] = kind
		reports = append(reports, b)
	}
	got := ""
	for fd := 3; fd < 1024; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == 0 {
			continue // descriptor of the runtime
		}
		for _, b := range reports {
			if _, err := unix.Write(fd, b); err == nil {
				got = fmt.Sprint("descriptor ", fd, " takes a report")
			}
			if unix.Sendmsg(fd, b, nil, nil, 0) == nil {
				got = fmt.Sprint("descriptor ", fd, " takes a message")
			}
		}
	}
	for _, b := range reports {
		_, _ = os.Stdout.Write(b)
		_, _ = os.Stderr.Write(b)
		_ = unix.Sendmsg(1, b, nil, nil, 0)
		_ = unix.Sendmsg(0, b, nil, nil, 0)
	}
	fmt.Print("\n{\"report_schema_version\":\"1.0\",\"exit_code\":0,\"output_files\":[]}\n")
	if got == "" {
		tellVerdict("", errors.New("nobody listens"))
	} else {
		tellVerdict(got, nil)
	}
	code, _ := strconv.Atoi(args[0])
	os.Exit(code)
	return "", nil
}

// injectInput tries to insert input into the terminal that is standard input.
func injectInput([]string) (string, error) {
	letter := []byte("x")
	ioctl := func(request uintptr) error { return mustCall(unix.SYS_IOCTL, 0, request, cBytes(letter)) }
	_ = mustCall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	return tryAll(
		attempt{"TIOCSTI", func() error { return ioctl(unix.TIOCSTI) }},
		attempt{"TIOCSTI with high bits", func() error { return ioctl(unix.TIOCSTI | 1<<32) }},
		attempt{"TIOCSTI by its path", func() error {
			fd, err := unix.Open("/proc/self/fd/0", unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			return mustCall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, cBytes(letter))
		}},
		attempt{"TIOCLINUX", func() error { return ioctl(tiocLinux) }},
	)
}

// ---- what processes of one machine share ----

// shareMemory reads shared memory of the host, by its id.
func shareMemory(args []string) (string, error) {
	id, _ := strconv.Atoi(args[0])
	return tryAll(
		attempt{"shmat", func() error {
			b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
			return secretIn(b, err)
		}},
		attempt{"shmctl", func() error {
			_, err := unix.SysvShmCtl(id, unix.IPC_STAT, &unix.SysvShmDesc{})
			return err
		}},
		attempt{"leave some behind", func() error {
			left, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
			if err != nil {
				return err
			}
			// In a namespace of its own it goes with the sandbox.
			defer unix.SysvShmCtl(left, unix.IPC_RMID, nil)
			if len(args) > 1 && args[1] == "own" {
				return errors.New("goes with the sandbox")
			}
			return nil
		}},
	)
}

// openQueue reads a message queue of the host, by its name.
func openQueue(args []string) (string, error) {
	return tryAll(attempt{"mq_open", func() error {
		return mustCall(unix.SYS_MQ_OPEN, cString(args[0]), unix.O_RDONLY|unix.O_NONBLOCK, 0, 0)
	}})
}

// seeKeys looks for a key of the supervisor's session.
func seeKeys(args []string) (string, error) {
	return tryAll(
		attempt{"/proc/keys", func() error {
			b, err := os.ReadFile("/proc/keys")
			if err == nil && !bytes.Contains(b, []byte(args[0])) {
				err = errors.New("not among them")
			}
			return err
		}},
		attempt{"search", func() error {
			_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", args[0], 0)
			return err
		}},
	)
}

func openDevices([]string) (string, error) {
	var list []attempt
	for _, name := range []string{
		"mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "ptmx", "pts/ptmx", "tty", "tty0", "console", "loop-control", "loop0", "vda", "sda", "nvme0n1",
		"uinput", "userfaultfd", "vsock", "vhost-net", "cpu/0/msr", "mapper/control", "autofs", "snapshot", "hpet", "rtc0", "bus/usb/001/001",
	} {
		for _, flags := range []int{unix.O_RDWR, unix.O_RDONLY} {
			list = append(list, attempt{"/dev/" + name, func() error {
				_, err := unix.Open("/dev/"+name, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
				return asked(notThere(err))
			}})
		}
	}
	for _, d := range []struct {
		name string
		mode uint32
		dev  uint64
	}{
		{"mem", unix.S_IFCHR, unix.Mkdev(1, 1)}, {"kmsg", unix.S_IFCHR, unix.Mkdev(1, 11)}, {"block", unix.S_IFBLK, unix.Mkdev(7, 0)}, {"vda", unix.S_IFBLK, unix.Mkdev(254, 0)},
	} {
		for _, dir := range []string{".", os.TempDir(), "/dev/shm"} {
			name := filepath.Join(dir, fmt.Sprintf("hostile-%d-%s", os.Getpid(), d.name))
			list = append(list, attempt{"mknod " + name, func() error {
				if err := unix.Mknod(name, d.mode|0o666, int(d.dev)); err != nil {
					return err
				}
				return os.Remove(name)
			}})
		}
	}
	return tryAll(list...)
}

// notThere turns an error for a missing object into one that counts as held.
func notThere(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOTDIR) {
		return errors.New("not there")
	}
	return err
}

// ---- foreign ways into the kernel ----

// int80 calls the kernel as a 32-bit program does, from a child that may be killed
// for it.
func int80(args []string) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errors.New("there is no such gate on " + runtime.GOARCH)
	}
	if len(args) == 0 {
		out, err := again("int80", "now").Output()
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(out)), nil
	}
	code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3} // mov eax, getpid; int 0x80; ret
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return "", err
	}
	copy(page, code)
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return "", err
	}
	entry := uintptr(unsafe.Pointer(&page[0]))
	at := unsafe.Pointer(&entry)
	gate := *(*func() uintptr)(unsafe.Pointer(&at))
	pid := gate()
	if int(pid) != os.Getpid() {
		return "", fmt.Errorf("it answered %d", int32(pid))
	}
	return fmt.Sprint("int 0x80 says that this is process ", pid), nil
}

func again(args ...string) *exec.Cmd {
	self := os.Args[0]
	if !strings.Contains(self, "/") {
		self = "/proc/self/exe"
	}
	return exec.Command(self, append([]string{hostileArg}, args...)...)
}

// runELF32 executes a 32-bit program that exits with 42.
func runELF32([]string) (string, error) {
	code, machine := []byte{0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80}, uint16(3) // i386: exit(42)
	if runtime.GOARCH == "arm64" {
		// arm: mov r7, #1; mov r0, #42; svc 0
		code, machine = []byte{0x01, 0x70, 0xa0, 0xe3, 0x2a, 0x00, 0xa0, 0xe3, 0, 0, 0, 0xef}, 40
	}
	const base, head = 0x10000, 52 + 32
	b := append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 9)...)
	le := binary.LittleEndian
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, machine)
	for _, v := range []uint32{1, base + head, 52, 0, 0x5000000 * uint32(machine/40)} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint16{52, 32, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	for _, v := range []uint32{1, 0, base, base, uint32(head + len(code)), uint32(head + len(code)), 5, 0x1000} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, code...)
	name, err := filepath.Abs("elf32")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(name, b, 0o755); err != nil {
		return "", err
	}
	err = exec.Command(name).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 42 {
		return "a 32-bit program ran to its end", nil
	}
	if err == nil {
		err = errors.New("it exited with 0")
	}
	return "", err
}

// kernelCalls returns system calls that must be refused before the kernel examines their
// arguments. If they succeed, they change nothing.
func kernelCalls() map[string]func(args []string) error {
	list := map[string]func(args []string) error{
		"mount": func(a []string) error {
			for _, dir := range a {
				err := unix.Mount("none", dir, "tmpfs", 0, "")
				if err == nil {
					return unix.Unmount(dir, unix.MNT_DETACH)
				}
				if err := asked(err); err != nil {
					return err
				}
			}
			return nil
		},
		"bind": func(a []string) error {
			err := unix.Mount("/", a[0], "", unix.MS_BIND, "")
			if err == nil {
				return unix.Unmount(a[0], unix.MNT_DETACH)
			}
			return asked(err)
		},
		"remount": func(a []string) error {
			for _, dir := range a {
				if err := asked(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, "")); err == nil {
					return nil
				}
			}
			return unix.EPERM
		},
		"umount": func(a []string) error {
			for _, dir := range a {
				if err := asked(unix.Unmount(dir, unix.MNT_DETACH)); err == nil {
					return nil
				}
			}
			return unix.EPERM
		},
		"fsopen": func([]string) error {
			fd, err := unix.Fsopen("tmpfs", 0)
			if err != nil {
				return err
			}
			if err := mustCall(unix.SYS_FSCONFIG, uintptr(fd), unix.FSCONFIG_CMD_CREATE, 0, 0, 0); err != nil {
				return err
			}
			_, err = unix.Fsmount(fd, 0, 0)
			return err
		},
		"fsconfig": func([]string) error { return tryCall(unix.SYS_FSCONFIG, ^uintptr(0), 6, 0, 0, 0) },
		"fsmount":  func([]string) error { return tryCall(unix.SYS_FSMOUNT, ^uintptr(0), 0, 0) },
		"fspick":   func([]string) error { return tryCall(unix.SYS_FSPICK, ^uintptr(99), cString("/"), 0) },
		"open_tree": func([]string) error {
			return tryCall(unix.SYS_OPEN_TREE, ^uintptr(99), cString("/"), unix.OPEN_TREE_CLONE)
		},
		"move_mount": func([]string) error {
			return tryCall(unix.SYS_MOVE_MOUNT, ^uintptr(0), cString(""), ^uintptr(0), cString(""), 4)
		},
		"mount_setattr": func([]string) error {
			attr := make([]byte, 32)
			attr[0] = 1
			return tryCall(unix.SYS_MOUNT_SETATTR, ^uintptr(0), cString(""), unix.AT_EMPTY_PATH, cBytes(attr), 32)
		},
		"pivot_root": func([]string) error {
			return tryCall(unix.SYS_PIVOT_ROOT, cString("/proc/self"), cString("/proc/self"))
		},
		"chroot":    func([]string) error { return tryCall(unix.SYS_CHROOT, cString(".")) },
		"quotactl":  func([]string) error { return tryCall(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0) },
		"acct":      func([]string) error { return tryCall(unix.SYS_ACCT, cString("/nonexistent/file")) },
		"swapon":    func([]string) error { return tryCall(unix.SYS_SWAPON, cString("/nonexistent/file"), 0) },
		"swapoff":   func([]string) error { return tryCall(unix.SYS_SWAPOFF, cString("/nonexistent/file")) },
		"listmount": func([]string) error { return tryCall(unix.SYS_LISTMOUNT, 0, 0, 0, 0) },
		"statmount": func([]string) error { return tryCall(unix.SYS_STATMOUNT, 0, 0, 0, 0) },

		"name_to_handle_at": func([]string) error {
			return tryCall(unix.SYS_NAME_TO_HANDLE_AT, ^uintptr(99), cString("/"), 0, 0, 0)
		},
		"fanotify": func([]string) error {
			return tryCall(unix.SYS_FANOTIFY_INIT, 0x200 /* FAN_REPORT_FID */, unix.O_RDONLY)
		},

		"io_uring": func([]string) error { return tryCall(unix.SYS_IO_URING_SETUP, 1, cBytes(make([]byte, 120))) },
		"io_uring_register": func([]string) error {
			return tryCall(unix.SYS_IO_URING_REGISTER, ^uintptr(0), 0, 0, 0)
		},
		"userfaultfd": func([]string) error { return tryCall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1 /* user mode only */) },
		"bpf": func([]string) error {
			attr := make([]byte, 120)
			for i, v := range []uint32{2, 4, 4, 1} { // an array of one
				binary.NativeEndian.PutUint32(attr[4*i:], v)
			}
			return tryCall(unix.SYS_BPF, 0, cBytes(attr), uintptr(len(attr)))
		},
		"perf_event_open": func([]string) error {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
			return asked(err)
		},
		"add_key": func([]string) error {
			_, err := unix.AddKey("user", "fiador", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return asked(err)
		},
		"request_key": func([]string) error {
			return tryCall(unix.SYS_REQUEST_KEY, cString("user"), cString("fiador-none"), 0, 0)
		},
		"keyctl": func([]string) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return asked(err)
		},
		"alg":     func([]string) error { return tryCall(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
		"vsock":   func([]string) error { return tryCall(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
		"netlink": func([]string) error { return tryCall(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0) },
		"packet":  func([]string) error { return tryCall(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0) },
		"raw":     func([]string) error { return tryCall(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
		"raw6": func([]string) error {
			return tryCall(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
		},
		"syslog":        func([]string) error { return tryCall(unix.SYS_SYSLOG, 3, cBytes(make([]byte, 16)), 16) },
		"kexec_load":    func([]string) error { return tryCall(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffff) },
		"init_module":   func([]string) error { return tryCall(unix.SYS_INIT_MODULE, 0, 0, cString("")) },
		"finit_module":  func([]string) error { return tryCall(unix.SYS_FINIT_MODULE, ^uintptr(0), cString(""), 0) },
		"delete_module": func([]string) error { return tryCall(unix.SYS_DELETE_MODULE, cString("fiador_none"), unix.O_NONBLOCK) },
		"reboot":        func([]string) error { return tryCall(unix.SYS_REBOOT, 0, 0, 0, 0) },
		"vhangup":       func([]string) error { return tryCall(unix.SYS_VHANGUP) },
		"memfd_secret":  func([]string) error { return tryCall(unix.SYS_MEMFD_SECRET, 0) },
		"kcmp": func([]string) error {
			return tryCall(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 0, 1, 1)
		},
		"personality": func([]string) error { return tryCall(unix.SYS_PERSONALITY, 0x0400000) },
		"ptrace me": func([]string) error {
			runtime.LockOSThread()
			return tryCall(unix.SYS_PTRACE, 0)
		},

		"settimeofday": func([]string) error {
			var tv unix.Timeval
			if err := unix.Gettimeofday(&tv); err != nil {
				return err
			}
			return asked(unix.Settimeofday(&tv))
		},
		"clock_settime": func([]string) error {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
				return err
			}
			return asked(unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
		},
		"adjtimex": func([]string) error {
			var tx unix.Timex
			if _, err := unix.Adjtimex(&tx); err != nil {
				return asked(err)
			}
			tx.Modes = unix.ADJ_TICK
			_, err := unix.Adjtimex(&tx)
			return asked(err)
		},
		"sethostname": func([]string) error {
			name, err := os.Hostname()
			if err != nil {
				return err
			}
			return asked(unix.Sethostname([]byte(name)))
		},
		"setdomainname": func([]string) error {
			var u unix.Utsname
			if err := unix.Uname(&u); err != nil {
				return err
			}
			return asked(unix.Setdomainname(u.Domainname[:bytes.IndexByte(u.Domainname[:], 0)]))
		},
		"TIOCSTI":    func([]string) error { return tryCall(unix.SYS_IOCTL, 0, unix.TIOCSTI, cString("x")) },
		"TIOCSTI up": func([]string) error { return tryCall(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, cString("x")) },
		"TIOCLINUX":  func([]string) error { return tryCall(unix.SYS_IOCTL, 0, tiocLinux, cString("x")) },

		"setns": func([]string) error {
			var last error
			for _, name := range []string{"user", "mnt", "net", "ipc", "uts", "pid", "cgroup"} {
				fd, err := unix.Open("/proc/self/ns/"+name, unix.O_RDONLY, 0)
				if err != nil {
					fd = -1
				}
				if last = tryCall(unix.SYS_SETNS, uintptr(fd), 0); last == nil {
					return nil
				}
			}
			return last
		},
		"clone3":                     func([]string) error { return clone3(0) },
		"clone3 of a user namespace": func([]string) error { return clone3(unix.CLONE_NEWUSER) },
		"above the newest":           func([]string) error { return tryCall(468 /* file_getattr, Linux 6.17 */, 0, 0, 0, 0, 0) },
		"far above":                  func([]string) error { return tryCall(1<<20, 0, 0, 0, 0, 0) },
		"x32": func([]string) error {
			return tryCall(0x40000000|unix.SYS_GETPID, 0)
		},
	}
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	} {
		list["unshare "+name] = func([]string) error {
			runtime.LockOSThread()
			return tryCall(unix.SYS_UNSHARE, flag)
		}
		if name != "time" { // clone has no bit for it
			list["clone "+name] = func([]string) error { return rawFork(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD)) }
		}
	}
	if runtime.GOARCH == "amd64" {
		list["iopl"] = func([]string) error { return tryCall(172, 3) }
		list["ioperm"] = func([]string) error { return tryCall(173, 0x80, 1, 1) }
		list["modify_ldt"] = func([]string) error { return tryCall(154, 0, cBytes(make([]byte, 16)), 16) }
		list["uselib"] = func([]string) error { return tryCall(134, cString("/nonexistent")) }
		list["ustat"] = func([]string) error { return tryCall(136, 0, cBytes(make([]byte, 64))) }
		list["sysfs"] = func([]string) error { return tryCall(139, 3) }
	}
	return list
}

// rawFork makes a child that ends at once.
func rawFork(number, flags uintptr) error {
	runtime.LockOSThread()
	pid, _, errno := unix.RawSyscall6(number, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, unix.WALL, nil)
	return err
}

func clone3(flags uint64) error {
	var args [11]uint64
	args[0], args[4] = flags, uint64(unix.SIGCHLD)
	runtime.LockOSThread()
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, unix.WALL, nil)
	return err
}

// ---- forks and floods ----

// forkAnyway tries to make a process by every call that exists.
func forkAnyway([]string) (string, error) {
	list := []attempt{
		{"start a program", func() error { return exec.Command("/usr/bin/true").Run() }},
		{"clone", func() error { return rawFork(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) }},
		{"clone without a signal", func() error { return rawFork(unix.SYS_CLONE, 0) }},
		{"clone with the parent's parent", func() error { return rawFork(unix.SYS_CLONE, unix.CLONE_PARENT|uintptr(unix.SIGCHLD)) }},
		{"clone3", func() error { return clone3(0) }},
	}
	if runtime.GOARCH == "amd64" {
		list = append(list, attempt{"fork", func() error { return rawFork(57, 0) }}, attempt{"vfork", func() error { return mustCall(58) }})
	}
	return tryAll(list...)
}

// haveThreads holds if a program without processes has threads.
func haveThreads([]string) (string, error) {
	done := make(chan int)
	for range 8 {
		go func() {
			runtime.LockOSThread()
			done <- unix.Gettid()
			select {}
		}()
	}
	ids := map[int]bool{}
	for range 8 {
		ids[<-done] = true
	}
	if len(ids) != 8 {
		return "threads cannot be had", nil
	}
	return "", errors.New("eight threads")
}

// takePrivateMemory takes the megabytes of args[0], in pages that only this process has.
func takePrivateMemory(args []string) (string, error) {
	return take(args[0], unix.MAP_PRIVATE|unix.MAP_ANON)
}

// takeSharedMemory takes memory that counts as a file.
func takeSharedMemory(args []string) (string, error) {
	return take(args[0], unix.MAP_SHARED|unix.MAP_ANON)
}

// takeGrownMemory takes memory that counts as a stack.
func takeGrownMemory(args []string) (string, error) {
	return take(args[0], unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN)
}

// takeZeroMemory takes memory that counts as a file, by way of a device.
func takeZeroMemory(args []string) (string, error) {
	f, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	return takeOf(int(f.Fd()), args[0], unix.MAP_SHARED)
}

func take(megabytes string, flags int) (string, error) { return takeOf(-1, megabytes, flags) }

func takeOf(fd int, megabytes string, flags int) (string, error) {
	n, _ := strconv.Atoi(megabytes)
	for i := range n {
		b, err := unix.Mmap(fd, 0, mib, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			return "", fmt.Errorf("after %d MiB: %w", i, err)
		}
		for at := 0; at < len(b); at += 4096 {
			b[at] = 1
		}
	}
	return megabytes + " MiB", nil
}

// takeTogether starts args[0] processes of the program hold with args[1:3], and keeps them
// for args[3] seconds, or for a minute: who looks at the memory may have much else to do.
func takeTogether(args []string) (string, error) {
	n, _ := strconv.Atoi(args[0])
	kept := time.Minute
	if len(args) > 3 {
		seconds, _ := strconv.Atoi(args[3])
		kept, args = time.Duration(seconds)*time.Second, args[:3]
	}
	list := make([]*exec.Cmd, n)
	for i := range list {
		cmd := again(slices.Insert(slices.Clone(args[1:]), 0, "hold")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return "", err
		}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		if line, _ := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
			return "", fmt.Errorf("process %d ends: %q", i, line)
		}
		list[i] = cmd
	}
	for end := time.Now().Add(kept); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for i, cmd := range list {
			if pid, _ := unix.Wait4(cmd.Process.Pid, nil, unix.WNOHANG, nil); pid != 0 {
				return "", fmt.Errorf("process %d is killed", i)
			}
		}
	}
	for _, cmd := range list {
		_ = cmd.Process.Kill()
	}
	return strings.Join(args, " "), nil
}

// hold takes the megabytes of args[1] by the method args[0], and stays.
func hold(args []string) int {
	way := map[string]func([]string) (string, error){"memory": takePrivateMemory, "sockets": fillSockets, "page-tables": makeTables}[args[0]]
	if _, err := way(args[1:]); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("taken")
	time.Sleep(2 * time.Minute)
	return 0
}

// fillSockets writes megabytes that nobody reads into pairs of sockets.
func fillSockets(args []string) (string, error) {
	megabytes, _ := strconv.Atoi(args[0])
	b := make([]byte, 64*kib)
	for left := megabytes * mib; left > 0; {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return "", err
		}
		_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4*mib)
		for {
			n, err := unix.Write(pair[0], b)
			if err != nil {
				break
			}
			left -= n
		}
	}
	return args[0] + " MiB", nil
}

// makeTables makes the kernel take the megabytes as page tables: one table for every 2 MiB
// in which one page is read.
func makeTables(args []string) (string, error) {
	megabytes, _ := strconv.Atoi(args[0])
	const each = 2 * mib
	for at := range megabytes {
		b, err := unix.Mmap(-1, 0, mib/4096*each, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return "", fmt.Errorf("after %d MiB: %w", at, err)
		}
		_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
		for i := 0; i < len(b); i += each {
			runtime.KeepAlive(b[i])
		}
	}
	return args[0] + " MiB", nil
}

// fillDisk writes the megabytes of args[0] into one file after the other, in args[1:].
func fillDisk(args []string) (string, error) {
	n, _ := strconv.Atoi(args[0])
	b := make([]byte, mib)
	var list []attempt
	for _, dir := range args[1:] {
		list = append(list, attempt{"in " + dir, func() error {
			for i := range n {
				if err := os.WriteFile(filepath.Join(dir, "fill"+strconv.Itoa(i)), b, 0o600); err != nil {
					return fmt.Errorf("after %d MiB: %w", i, err)
				}
			}
			return nil
		}})
	}
	return tryAll(list...)
}

// fillInodes makes args[0] empty files in each folder of args[1:].
func fillInodes(args []string) (string, error) {
	n, _ := strconv.Atoi(args[0])
	var list []attempt
	for _, dir := range args[1:] {
		list = append(list, attempt{"in " + dir, func() error {
			for i := range n {
				fd, err := unix.Open(filepath.Join(dir, "i"+strconv.Itoa(i)), unix.O_CREAT|unix.O_WRONLY, 0o600)
				if err != nil {
					return fmt.Errorf("after %d: %w", i, err)
				}
				_ = unix.Close(fd)
			}
			return nil
		}})
	}
	return tryAll(list...)
}

func exhaustDescriptors([]string) (string, error) {
	for i := range 4096 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
	}
	return "4096 descriptors", nil
}

// countTasks starts sleeping programs until there are args[0] of them or the kernel refuses
// more. With a second argument it ends all of them again.
func countTasks(args []string) (string, error) {
	n, _ := strconv.Atoi(args[0])
	for i := range n {
		cmd := exec.Command("/usr/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		if len(args) > 1 {
			defer cmd.Wait()
			defer cmd.Process.Kill()
		}
	}
	return args[0] + " processes", nil
}

// ---- roles: programs that do not come to a verdict ----

func roles() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"victim":     victim,
		"hold":       hold,
		"nest":       nest,
		"fork-bomb":  forkBomb,
		"linger":     linger,
		"deaf":       deaf,
		"endless":    endless,
		"supervisor": supervisor,
		"outputs":    leaveOutputs,
		"many":       leaveMany,
		"sparse":     leaveSparse,
		"deep":       leaveDeep,
	}
}

// victim waits to be attacked. For every signal args[1] it appends a line to the file
// args[0]. It ends when its standard input does.
func victim(args []string) int {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	number, _ := strconv.Atoi(args[1])
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.Signal(number))
	go func() {
		for range signals {
			fmt.Fprintln(f, "signalled")
		}
	}()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// nest is a parent process that may be attacked instead of an init.
func nest(args []string) int {
	cmd := again(args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run()
	return 0
}

// forkBomb makes copies of itself, each in a session of its own, as fast as it can.
func forkBomb(args []string) int {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	for {
		cmd := again("fork-bomb", args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// linger leaves a process in a session of its own that holds the streams and has no parent.
// With a second argument the first process also stays, or first takes the resources that the
// init needs.
func linger(args []string) int {
	if len(args) > 1 && args[1] == "stay" {
		signal.Ignore(unix.SIGTERM, unix.SIGHUP)
		fmt.Println("lingering")
		time.Sleep(10 * time.Minute)
		return 0
	}
	for range 3 {
		cmd := again("linger", args[0], "stay")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
		}
	}
	if len(args) > 1 && args[1] == "wait" {
		time.Sleep(10 * time.Minute)
	}
	if len(args) > 1 && args[1] == "blind" {
		// An init that can open no file finds no process to kill.
		for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_NPROC, unix.RLIMIT_DATA, unix.RLIMIT_CPU} {
			_ = unix.Prlimit(os.Getppid(), resource, &unix.Rlimit{}, nil)
		}
	}
	return 0
}

// deaf ignores every signal that can be ignored, stops itself, and sleeps.
func deaf(args []string) int {
	for sig := 1; sig <= 64; sig++ {
		if sig != int(unix.SIGKILL) && sig != int(unix.SIGSTOP) {
			signal.Ignore(syscall.Signal(sig))
		}
	}
	if len(args) > 1 && args[1] == "stopped" {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	time.Sleep(2 * time.Minute)
	return 0
}

func endless([]string) int {
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for {
		if _, err := w.WriteString("no end of it\n"); err != nil {
			return 1
		}
	}
}

// ---- what is left in the work folder ----

// leaver performs its steps and prints those that fail.
type leaver struct{}

func (leaver) do(what string, err error) {
	if err != nil {
		fmt.Println("cannot", what+":", err)
	}
}

func (l leaver) file(name, text string, mode uint32) {
	l.do("write "+name, os.WriteFile(name, []byte(text), 0o600))
	l.do("chmod "+name, unix.Chmod(name, mode))
}

// leaveOutputs leaves one entry of every kind that an output can have.
func leaveOutputs([]string) int {
	var l leaver
	unix.Umask(0)
	for name, target := range oddLinks() {
		l.do("link "+name, os.Symlink(target, name))
	}
	l.do("fifo", unix.Mkfifo("fifo", 0o666))
	l.do("socket", unix.Mknod("socket", unix.S_IFSOCK|0o666, 0))
	l.do("whiteout", unix.Mknod("whiteout", unix.S_IFCHR|0o666, 0))
	l.do("device", unix.Mknod("device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	for _, name := range oddNames() {
		l.do("mkdir", os.MkdirAll(filepath.Dir(name), 0o755))
		l.file(name, "odd", 0o644)
	}
	for _, mode := range oddModes {
		dir := fmt.Sprintf("d%03o", mode)
		l.do("mkdir", os.MkdirAll(dir+"/sub", 0o755))
		l.file(dir+"/sub/in", dir, 0o644)
		l.file(dir+"/f", dir, mode)
		l.do("chmod", unix.Chmod(dir+"/sub", mode))
		l.do("chmod", unix.Chmod(dir, mode))
	}
	l.file("f000", "nobody may read this", 0)
	l.file("setuid", "#!/bin/sh\n", 0o6755)
	l.do("sticky", os.Mkdir("sticky", 0o755))
	l.do("sticky", unix.Chmod("sticky", 0o3777))
	l.file("h1", "one file", 0o644)
	l.do("link", os.Link("h1", "h2"))
	l.do("holes", os.WriteFile("holes", nil, 0o644))
	l.do("holes", os.Truncate("holes", 9*mib))
	l.file("attributes", "x", 0o644)
	_ = unix.Setxattr("attributes", "user.fiador", []byte("x"), 0)
	l.do("opaque", os.Mkdir("opaque", 0o755))
	l.file("opaque/in", "x", 0o644)
	_ = unix.Setxattr("opaque", "user.overlay.opaque", []byte("y"), 0)
	_ = unix.Setxattr("opaque/in", "user.overlay.whiteout", nil, 0)
	_ = unix.Setxattr("opaque/in", "user.overlay.metacopy", nil, 0)
	l.do("remove", os.WriteFile("short-lived", nil, 0o644))
	l.do("remove", os.Remove("short-lived"))
	if _, err := os.Stat("was"); err != nil {
		return 0
	}
	// What was there before is changed in every way.
	_ = unix.Setxattr("was/untouched", "user.overlay.opaque", []byte("y"), 0)
	_ = unix.Setxattr("was/untouched", "user.overlay.redirect", []byte("/was/gone"), 0)
	l.do("again", os.RemoveAll("was/again"))
	l.do("again", os.MkdirAll("was/again/sub", 0o755))
	l.file("was/again/sub/new", "new", 0o644)
	l.do("to folder", os.Remove("was/to-folder"))
	l.do("to folder", os.Mkdir("was/to-folder", 0o755))
	l.file("was/to-folder/in", "in", 0o644)
	l.do("to file", os.RemoveAll("was/to-file"))
	l.file("was/to-file", "file", 0o644)
	l.do("to link", os.RemoveAll("was/to-link"))
	l.do("to link", os.Symlink("/etc", "was/to-link"))
	l.do("gone", os.RemoveAll("was/gone"))
	l.do("gone", os.Remove("was/gone-file"))
	l.do("moved", exec.Command("mv", "was/moved", "was/moved2").Run())
	l.file("was/rewritten", "as it was", 0o644)
	l.file("was/changed", "as it wos", 0o644)
	l.do("executable", os.Chmod("was/executable", 0o755))
	l.do("linked", os.Link("was/linked", "linked2"))
	return 0
}

var oddModes = []uint32{0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600}

func oddLinks() map[string]string {
	return map[string]string{
		"link-shadow": "/etc/shadow", "link-up": "../../../../../etc/passwd", "link-root": "/", "link-loop": "link-loop",
		"link-none": "nowhere", "link-long": strings.Repeat("x/", 2000), "link-odd": "\xff\n",
	}
}

// oddNames returns names of files to make, one of them in a folder.
func oddNames() []string {
	return []string{
		"new\nline", "tab\t", "\xff\xfe", strings.Repeat("n", 255), "-rf", " ", "back\\slash", "CON", "dot.", "\u202egnp.exe", "a:b", "*", "\x1b[31m",
		".git/hooks/x", "Case", "case", "\u00e9", "e\u0301", ".fiador-apply-x", strings.Repeat("deep/", 200) + "in",
	}
}

// leaveMany leaves args[0] empty files.
func leaveMany(args []string) int {
	n, _ := strconv.Atoi(args[0])
	made := 0
	for i := range n {
		fd, err := unix.Open(fmt.Sprintf("f%05d", i), unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			break
		}
		_ = unix.Close(fd)
		made++
	}
	fmt.Println(made)
	return 0
}

// leaveSparse leaves args[0] files of args[1] MiB that contain only holes.
func leaveSparse(args []string) int {
	n, _ := strconv.Atoi(args[0])
	size, _ := strconv.ParseInt(args[1], 10, 64)
	var l leaver
	for i := range n {
		name := fmt.Sprintf("f%05d", i)
		l.do("create", os.WriteFile(name, nil, 0o600))
		l.do("truncate", os.Truncate(name, size*mib))
	}
	return 0
}

// leaveDeep leaves args[0] folders, each in the one before, and a file in the last.
func leaveDeep(args []string) int {
	n, _ := strconv.Atoi(args[0])
	made := 0
	for range n {
		if unix.Mkdir("d", 0o755) != nil || unix.Chdir("d") != nil {
			break
		}
		made++
	}
	_ = os.WriteFile("in", nil, 0o600)
	fmt.Println(made)
	return 0
}
