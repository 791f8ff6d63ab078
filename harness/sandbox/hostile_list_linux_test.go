//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fixed(args ...string) func(*scene) []string { return func(*scene) []string { return args } }

// hostileList returns every attack that prints a verdict. Attacks that take time, or that
// concern leftovers, have tests of their own.
func hostileList() []hostile {
	list := fileAttacks()
	list = append(list, procAttacks()...)
	list = append(list, processAttacks()...)
	list = append(list, networkAttacks()...)
	list = append(list, environmentAttacks()...)
	list = append(list, privilegeAttacks()...)
	list = append(list, kernelAttacks()...)
	return list
}

func fileAttacks() []hostile {
	home := func(sc *scene) []string { return []string{sc.in("home/canary")} }
	// elsewhere is a temporary folder outside that of the tests.
	elsewhere := func(sc *scene) []string {
		var paths []string
		for _, dir := range []string{"/var/tmp", "/dev/shm"} {
			temp, err := os.MkdirTemp(dir, "hostile-")
			if err != nil {
				continue
			}
			sc.Cleanup(func() { _ = os.RemoveAll(temp) })
			name := filepath.Join(temp, "canary")
			if os.Chmod(temp, 0o777) == nil && os.WriteFile(name, []byte(secretText), 0o666) == nil {
				paths = append(paths, name)
			}
		}
		return paths
	}
	// hidden is a path in the work folder, as commands see it.
	hidden := func(sc *scene) []string {
		return []string{"hidden/key", "./hidden/../hidden/key", filepath.Join(sc.work, "hidden/key")}
	}
	hide := func(_ *scene, r *Request) { r.Hide = []string{"hidden"} }
	hideFile := func(_ *scene, r *Request) { r.Hide = []string{"hidden/key"} }
	outside := func(sc *scene) []string {
		sc.untouched()
		return []string{sc.in("outside")}
	}
	return []hostile{
		{name: "read another home", program: "read", args: home, clause: ClauseFiles, bare: byAnyone},
		{name: "read shadow", program: "read", args: fixed("/etc/shadow", "/etc/gshadow", "/etc/shadow-"), clause: ClauseFiles, bare: byRoot},
		{name: "read another tmp", program: "read", args: elsewhere, clause: ClauseFiles, bare: byAnyone},
		{name: "read by detours", program: "detour", args: home, clause: ClauseFiles, bare: byAnyone},
		{name: "list another home", program: "list", args: func(sc *scene) []string {
			return []string{sc.in("home"), sc.dir, "/root", "/home", "/var", "/boot", "/sys", "/run"}
		}, clause: ClauseFiles, bare: byAnyone},
		{name: "execute outside", program: "exec", args: func(sc *scene) []string { return []string{sc.in("home/run")} }, clause: ClauseFiles, bare: byAnyone},
		{name: "read what is hidden", program: "read", args: hidden, request: hide, clause: ClauseFiles, bare: byAnyone},
		{name: "read a hidden file", program: "read", args: hidden, request: hideFile, clause: ClauseFiles, bare: byAnyone},
		{name: "read what is hidden, direct", program: "read", args: hidden, clause: ClauseFiles, bare: byAnyone,
			request: func(_ *scene, r *Request) { r.Hide, r.Write = []string{"hidden"}, Direct }},
		{name: "read what is hidden by its folder", program: "detour", args: func(sc *scene) []string { return []string{sc.in("work/hidden/key")} }, request: hide, clause: ClauseFiles, bare: byAnyone},
		{name: "move what hides", clause: ClauseFiles, bare: byAnyone, request: func(_ *scene, r *Request) { r.Hide = []string{"deep/hidden"} },
			script: func(sc *scene) string {
				sc.mkdir("work/deep/hidden")
				sc.write("work/deep/hidden/key", secretText, 0o666)
				return `mv deep shallow 2>/dev/null; cp -r deep copy 2>/dev/null; ln deep/hidden/key k 2>/dev/null; rm -rf deep 2>/dev/null; mkdir -p deep
					if cat deep/hidden/key shallow/hidden/key copy/hidden/key k 2>/dev/null | grep -q "` + secretText + `"; then echo "BREACH: moved it"; else echo "HELD: it stays"; fi`
			}},
		{name: "write outside", program: "write", args: outside, clause: ClauseFiles, bare: byAnyone},
		{name: "write what is shown", program: "write", clause: ClauseFiles, bare: byAnyone,
			args: func(sc *scene) []string {
				sc.untouched()
				if sc.where == inFull {
					return []string{"/tree"}
				}
				return []string{sc.in("outside")}
			}, request: func(sc *scene, r *Request) { r.Tree = sc.in("outside") }},
		{name: "write what may be read", program: "write", args: outside, clause: ClauseFiles, bare: byAnyone,
			request: func(sc *scene, r *Request) { r.Read = append(r.Read, sc.in("outside")) }},
		{name: "write the system", program: "write-system", clause: ClauseFiles, bare: byRoot},
		{name: "write the work folder", clause: ClauseFiles, bare: byAnyone,
			script: func(sc *scene) string {
				return `echo new >new; echo changed >kept; rm -r hidden; echo "HELD: nothing yet"`
			}, after: func(sc *scene) string {
				kept, _ := os.ReadFile(sc.in("work/kept"))
				if _, err := os.Stat(sc.in("work/new")); err == nil || string(kept) != "kept" {
					return "staged writes came through"
				}
				return ""
			}},
		{name: "write what is protected, direct", clause: ClauseFiles, bare: byAnyone,
			request: func(_ *scene, r *Request) { r.Write, r.Protect = Direct, []string{".git", ".file"} },
			script: func(sc *scene) string {
				sc.mkdir("work/.git/hooks")
				sc.write("work/.file", "as it was", 0o666)
				return `mv .git .got 2>/dev/null; mkdir -p .git/hooks 2>/dev/null; echo x >.git/hooks/x; echo x >>.file; rm -rf .git .file 2>/dev/null; echo "HELD: see the host"`
			}, after: func(sc *scene) string {
				b, err := os.ReadFile(sc.in("work/.file"))
				if err != nil || string(b) != "as it was" {
					return "a protected file was changed"
				}
				if _, err := os.Stat(sc.in("work/.git/hooks/x")); err == nil {
					return "a hook was written"
				}
				if _, err := os.Stat(sc.in("work/.git/hooks")); err != nil {
					return "a protected folder is gone"
				}
				return ""
			}},
		{name: "setuid file, direct", clause: ClauseFiles, bare: byAnyone,
			request: func(_ *scene, r *Request) { r.Write = Direct },
			script: func(sc *scene) string {
				return `cp /usr/bin/true mine; chmod 4755 mine; python3 -c 'import os
os.close(os.open("opened", os.O_CREAT|os.O_WRONLY, 0o4755))' 2>/dev/null; echo "HELD: see the host"`
			}, after: func(sc *scene) string {
				for _, name := range []string{"mine", "opened"} {
					if info, err := os.Stat(sc.in("work/" + name)); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
						return "a setuid file of " + fmt.Sprint(statUID(info)) + " is on the host"
					}
				}
				return ""
			}},
		{name: "metadata outside", program: "metadata", args: func(sc *scene) []string { return []string{sc.in("outside/file")} }, clause: ClauseMetadata, partly: true, bare: byAnyone},
		{name: "owner and attributes outside", program: "owner", args: func(sc *scene) []string { return []string{sc.in("outside/file")} }, clause: ClauseKernel, bare: byAnyone},
		{name: "metadata of what is shown", program: "metadata", clause: ClauseFiles, partly: true, bare: byAnyone,
			args: func(sc *scene) []string {
				if sc.where == inFull {
					return []string{"/tree/file"}
				}
				return []string{sc.in("outside/file")}
			}, request: func(sc *scene, r *Request) { r.Tree = sc.in("outside") }},
		{name: "metadata of the system", program: "metadata", args: fixed("/usr/bin/env"), clause: ClauseFiles, bare: byRoot},
		{name: "watch another home", program: "watch", args: func(sc *scene) []string { return []string{sc.in("home")} }, clause: ClauseFiles, partly: true, bare: byAnyone},
		{name: "open by handle", program: "handle", clause: ClauseFiles, bare: byRoot},
		{name: "layers of the overlay", program: "layers", clause: ClauseFiles, bare: byNobody, unless: "there is no overlay without a sandbox"},
		{name: "forged layers", program: "forge", request: hide, clause: ClauseFiles, bare: byAnyone,
			args: func(sc *scene) []string {
				sc.mkdir("work/door")
				sc.write("work/door-key", "", 0o666)
				for path, value := range map[string]string{"work/door": "/hidden", "work/door-key": "/hidden/key"} {
					_ = unix.Setxattr(sc.in(path), "user.overlay.redirect", []byte(value), 0)
				}
				_ = unix.Setxattr(sc.in("work/door-key"), "user.overlay.metacopy", nil, 0)
				return nil
			}},
	}
}

func procAttacks() []hostile {
	return []hostile{
		{name: "process 1 in proc", program: "proc-of", args: fixed("init"), clause: ClauseProcs, bare: byAnyone},
		{name: "host process in proc", program: "proc-of", args: func(sc *scene) []string { return []string{strconv.Itoa(sc.victim(unix.SIGWINCH, ""))} }, clause: ClauseProcs, bare: byAnyone},
		{name: "supervisor in proc", program: "proc-of", args: fixed(strconv.Itoa(os.Getpid())), clause: ClauseProcs, bare: byAnyone},
		{name: "what proc says of the machine", program: "proc-machine", clause: ClauseFiles, bare: byAnyone},
		{name: "own program", program: "own-exe", clause: ClauseFiles, bare: byAnyone},
		{name: "process names", program: "processes", args: func(sc *scene) []string {
			// In two parts, so that the attacker's own arguments do not contain it.
			mark := strconv.Itoa(rand.Int())
			sc.victim(unix.SIGWINCH, "mark-"+mark)
			return []string{"mark", mark}
		}, clause: ClauseProcs, partly: true, bare: byAnyone},
		{name: "proc and sys to write", program: "proc-writes", clause: ClauseKernel, bare: byRoot},
		{name: "release agent", clause: ClauseKernel, bare: byRoot, unless: "there is no such file where only cgroup v2 is mounted",
			script: func(*scene) string {
				return `for f in /sys/fs/cgroup/*/release_agent /sys/fs/cgroup/release_agent; do if test -w $f && : 2>/dev/null >>$f; then echo "BREACH: $f"; fi; done
					mkdir /sys/fs/cgroup/*/fiador-hostile 2>/dev/null && { rmdir /sys/fs/cgroup/*/fiador-hostile; echo "BREACH: made a cgroup"; }
					echo "HELD: none can be written"`
			}},
		{name: "devices", clause: ClauseFiles, bare: byAnyone},
		{name: "keys of the session", program: "keys", args: fixed("fiador-hostile-key"), extra: supervised, clause: ClauseKernel, bare: byAnyone},
	}
}

func processAttacks() []hostile {
	victim := func(sc *scene) []string { return []string{strconv.Itoa(sc.victim(unix.SIGWINCH, ""))} }
	list := []hostile{
		{name: "signal a host process", program: "signal", args: victim, clause: ClauseProcs, bare: byAnyone},
		{name: "signal the supervisor", program: "signal", args: fixed(strconv.Itoa(os.Getpid())), clause: ClauseProcs, bare: byAnyone},
		{name: "signal everything", program: "signal-all", args: func(sc *scene) []string {
			// Without a sandbox the signal reaches every process. It is a signal that harms
			// no process and that the victims of other attacks do not wait for.
			sig := unix.SIGWINCH
			if sc.where == inNone {
				sig = unix.SIGCHLD
			}
			sc.victim(sig, "")
			return []string{strconv.Itoa(int(sig))}
		}, clause: ClauseProcs, bare: byAnyone},
		{name: "trace a host process", program: "trace", args: victim, clause: ClauseProcs, bare: byAnyone},
		{name: "trace process 1", program: "trace", args: fixed("init"), clause: ClauseProcs, bare: byAnyone},
		{name: "tune a host process", program: "tune", args: victim, clause: ClauseProcs, bare: byAnyone},
		{name: "tune the init", program: "tune", args: fixed("init"), clause: ClauseProcs, bare: byAnyone},
		{name: "shared memory of the host", program: "sysv", args: hostMemory, clause: ClauseProcs, bare: byAnyone},
		{name: "message queue of the host", program: "queue", args: hostQueue, clause: ClauseProcs, bare: byAnyone},
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGSEGV, unix.SIGSTOP, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGPROF, unix.SIGURG} {
		a := hostile{name: "init gets " + unix.SignalName(sig), program: "signal-init", args: fixed(strconv.Itoa(int(sig))), clause: ClauseProcs, bare: byAnyone}
		list = append(list, a)
	}
	return list
}

// hostMemory makes a shared memory segment of the host that everybody may use.
func hostMemory(sc *scene) []string {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		sc.Skip(err)
	}
	sc.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		sc.Fatal(err)
	}
	copy(b, secretText)
	if err := unix.SysvShmDetach(b); err != nil {
		sc.Fatal(err)
	}
	if sc.where == inFull {
		return []string{strconv.Itoa(id), "own"}
	}
	return []string{strconv.Itoa(id)}
}

// hostQueue makes a message queue of the host that everybody may read.
func hostQueue(sc *scene) []string {
	name := "fiador-hostile-" + strconv.Itoa(rand.Int())
	path := append([]byte(name), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&path[0])), unix.O_CREAT|unix.O_RDWR, 0o666, 0, 0, 0)
	if errno != 0 {
		sc.Skip(errno)
	}
	_ = unix.Close(int(fd))
	sc.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&path[0])), 0, 0) })
	return []string{name}
}

func networkAttacks() []hostile {
	allowed := func(sc *scene) []string {
		if sc.where == inFull {
			return []string{"1", "2", "10"} // unix, inet, inet6
		}
		return []string{"1"}
	}
	// socketIn is a server's socket in a folder that is shown.
	socketIn := func(folder, inside string) func(sc *scene) []string {
		return func(sc *scene) []string {
			sc.listen("unix", sc.in(folder+"/s"))
			if sc.where == inFull && inside != "" {
				return []string{inside + "/s"}
			}
			return []string{sc.in(folder + "/s")}
		}
	}
	return []hostile{
		{name: "loopback server", program: "tcp", args: func(sc *scene) []string { return []string{sc.listen("tcp", "127.0.0.1:0").String()} }, clause: ClauseNetwork, bare: byAnyone},
		{name: "loopback server, IPv6", program: "tcp", args: func(sc *scene) []string {
			if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
				sc.serve(l)
				return []string{l.Addr().String()}
			}
			sc.Skip("no IPv6")
			return nil
		}, clause: ClauseNetwork, bare: byAnyone},
		{name: "datagrams", program: "udp", args: hostDatagrams, clause: ClauseNetwork, bare: byAnyone},
		{name: "names", program: "udp", args: fixed("8.8.8.8:53"), clause: ClauseNetwork, bare: byAnyone, unless: "the machine may have no way to that server, and it may not answer nonsense"},
		{name: "abstract socket", program: "unix", args: func(sc *scene) []string {
			return []string{sc.listen("unix", "@fiador-hostile-"+strconv.Itoa(rand.Int())).String()}
		}, clause: ClauseNetwork, bare: byAnyone},
		{name: "abstract socket, with the network", program: "unix", args: func(sc *scene) []string {
			return []string{sc.listen("unix", "@fiador-hostile-"+strconv.Itoa(rand.Int())).String()}
		}, clause: ClauseNetwork, bare: byAnyone, request: func(_ *scene, r *Request) { r.Network = true }},
		{name: "socket outside", program: "unix", args: socketIn("home", ""), clause: ClauseNetwork, bare: byAnyone},
		{name: "socket in the tree", program: "unix", args: socketIn("outside", "/tree"), clause: ClauseNetwork, bare: byAnyone,
			request: func(sc *scene, r *Request) { r.Tree = sc.in("outside") }},
		{name: "socket in what may be read", program: "unix", args: socketIn("outside", ""), clause: ClauseNetwork, bare: byAnyone,
			request: func(sc *scene, r *Request) { r.Read = append(r.Read, sc.in("outside")) }},
		{name: "socket in the work folder", program: "unix", args: socketIn("work", "/work"), clause: ClauseNetwork, bare: byAnyone},
		{name: "socket in the work folder, direct", program: "unix", args: socketIn("work", "/work"), clause: ClauseNetwork, bare: byAnyone,
			request: func(_ *scene, r *Request) { r.Write = Direct }},
		{name: "socket families", program: "families", args: allowed, clause: ClauseNetwork, bare: byAnyone},
		{name: "socket pairs", program: "pairs", args: allowed, clause: ClauseNetwork, bare: byAnyone},
		{name: "vsock", clause: ClauseNetwork, bare: byAnyone, unless: "the kernel may have none"},
		{name: "netlink", clause: ClauseNetwork, bare: byAnyone},
		{name: "packet", clause: ClauseNetwork, bare: byRoot, unless: "the kernel may have none"},
		{name: "raw", clause: ClauseNetwork, bare: byRoot},
		{name: "raw6", clause: ClauseNetwork, bare: byRoot, unless: "the kernel may have no IPv6"},
		{name: "alg", clause: ClauseKernel, bare: byAnyone, unless: "the kernel may have none"},
	}
}

// hostDatagrams starts a server that answers every message.
func hostDatagrams(sc *scene) []string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		sc.Fatal(err)
	}
	sc.Cleanup(func() { _ = c.Close() })
	go func() {
		for {
			_, from, err := c.ReadFrom(make([]byte, 100))
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(secretText), from)
		}
	}()
	return []string{c.LocalAddr().String()}
}

func environmentAttacks() []hostile {
	return []hostile{
		{name: "environment", program: "environ", extra: supervised, clause: ClauseEnv, bare: byAnyone},
		{name: "PATH of the supervisor", extra: supervised, clause: ClauseEnv, bare: byAnyone,
			script: func(*scene) string { return `env true; echo "HELD: the system's own"` }},
		{name: "BASH_ENV of the supervisor", extra: supervised, clause: ClauseEnv, bare: byAnyone, unless: "there may be no bash",
			script: func(*scene) string { return `bash -c 'echo "HELD: nothing read"'` }},
		{name: "descriptors", extra: supervised, clause: ClauseFiles, bare: byAnyone},
		{name: "paths from descriptors", extra: supervised, clause: ClauseFiles, bare: byAnyone,
			script: func(sc *scene) string {
				return `for d in $(seq 3 20) 100 200 300; do for p in /dev/fd/$d/etc/passwd /proc/self/fd/$d/canary /dev/fd/$d; do
					if test "$p" != /etc/passwd && grep -q "root:.*/root:\|` + secretText + `" $p 2>/dev/null; then echo "BREACH: $p"; exit; fi; done; done; echo "HELD: none leads out"`
			}},
		{name: "environment of process 1", extra: supervised, clause: ClauseEnv, bare: byAnyone,
			script: func(sc *scene) string {
				return `for p in 1 $PPID self; do if grep -q "` + secretText + `" /proc/$p/environ 2>/dev/null; then echo "BREACH: $p"; exit; fi; done; echo "HELD: none"`
			}},
		{name: "terminal", extra: onTerminal, clause: ClauseKernel, bare: byRoot},
	}
}

func privilegeAttacks() []hostile {
	list := []hostile{
		{name: "capabilities", clause: ClauseKernel, bare: byAnyone},
		{name: "become root", program: "become-root", clause: ClauseKernel, bare: byRoot},
		{name: "limits", program: "rlimits", clause: ClauseKernel, bare: byAnyone},
		{name: "processors", args: fixed("1"), clause: ClauseCPU, but: "quota", bare: byAnyone, unless: "the machine may have one processor"},
		{name: "su", clause: ClauseKernel, bare: byRoot,
			script: func(*scene) string {
				return `if su root -c true </dev/null >/dev/null 2>&1; then echo "BREACH: became root"; else echo "HELD: $?"; fi`
			}},
		{name: "mount by a setuid program", clause: ClauseKernel, bare: byRoot,
			script: func(*scene) string {
				return `mkdir m; if mount -t tmpfs none m 2>/dev/null; then echo "BREACH: mounted"; umount m; else echo "HELD: $?"; fi`
			}},
	}
	if name := os.Getenv(setuidVar); name != "" {
		list = append(list, hostile{name: "setuid program", clause: ClauseKernel, bare: byUser,
			script:  func(*scene) string { return name + " " + hostileArg + " euid" },
			request: func(_ *scene, r *Request) { r.Read = append(r.Read, name) }})
	}
	return list
}

// kernelAttacks returns system calls that must be refused for all arguments, each with the
// users who may make it without a sandbox.
func kernelAttacks() []hostile {
	inside := func(in string, bare ...string) func(sc *scene) []string {
		return func(sc *scene) []string {
			if sc.where == inNone {
				return bare
			}
			return strings.Fields(in)
		}
	}
	const config = "the kernel may be built without it, or the machine may have turned it off"
	list := []hostile{
		{name: "mount", args: inside(". /tmp /usr", "."), bare: byRoot},
		{name: "bind", args: fixed("."), bare: byRoot},
		{name: "remount", args: inside("/usr / /proc /work /tmp", "/proc/self/task"), bare: byRoot},
		{name: "umount", args: inside("/tmp /usr /proc /work .", "/proc/self/task"), bare: byRoot},
		{name: "fsopen", bare: byRoot}, {name: "fsconfig", bare: byAnyone}, {name: "fsmount", bare: byRoot}, {name: "fspick", bare: byRoot},
		{name: "open_tree", bare: byRoot}, {name: "move_mount", bare: byRoot}, {name: "mount_setattr", bare: byRoot},
		{name: "pivot_root", bare: byRoot}, {name: "chroot", bare: byRoot},
		{name: "quotactl", bare: byAnyone, unless: config}, {name: "acct", bare: byRoot, unless: config},
		{name: "swapon", bare: byRoot, unless: config}, {name: "swapoff", bare: byRoot, unless: config},
		{name: "listmount", bare: byAnyone, unless: "Linux 6.8"}, {name: "statmount", bare: byAnyone, unless: "Linux 6.8"},
		{name: "name_to_handle_at", bare: byAnyone, unless: config}, {name: "fanotify", bare: byAnyone, unless: config},
		{name: "io_uring", bare: byAnyone, unless: config}, {name: "io_uring_register", bare: byAnyone, unless: config},
		{name: "userfaultfd", bare: byAnyone, unless: config}, {name: "bpf", bare: byRoot, unless: config},
		{name: "perf_event_open", bare: byAnyone, unless: config},
		{name: "add_key", bare: byAnyone, unless: config}, {name: "request_key", bare: byAnyone, unless: config}, {name: "keyctl", bare: byAnyone, unless: config},
		{name: "syslog", bare: byRoot}, {name: "kexec_load", bare: byRoot, unless: config}, {name: "init_module", bare: byRoot, unless: config},
		{name: "finit_module", bare: byRoot, unless: config}, {name: "delete_module", bare: byRoot, unless: config}, {name: "reboot", bare: byRoot},
		{name: "vhangup", unless: "it is not tried: it would hang the terminal up"},
		{name: "memfd_secret", bare: byAnyone, unless: config}, {name: "kcmp", bare: byAnyone, unless: config}, {name: "personality", bare: byAnyone},
		{name: "ptrace me", bare: byAnyone},
		{name: "settimeofday", bare: byRoot}, {name: "clock_settime", bare: byRoot}, {name: "adjtimex", bare: byRoot},
		{name: "sethostname", bare: byRoot}, {name: "setdomainname", bare: byRoot},
		{name: "TIOCSTI", bare: byAnyone}, {name: "TIOCSTI up", bare: byAnyone}, {name: "TIOCLINUX", bare: byAnyone},
		{name: "setns", bare: byAnyone}, {name: "clone3", bare: byAnyone},
		{name: "clone3 of a user namespace", bare: byAnyone, unless: "users may be forbidden to make namespaces"},
		{name: "above the newest", bare: byAnyone, unless: "Linux 6.17"},
		{name: "far above", unless: "no kernel has that number"},
		{name: "int80", bare: byAnyone, unless: config}, {name: "elf32", bare: byAnyone, unless: config},
		{name: "x32", bare: byAnyone, unless: config},
	}
	for _, kind := range []string{"mount", "pid", "net", "ipc", "uts", "cgroup", "time", "user"} {
		who := byRoot
		if kind == "user" {
			who = byAnyone
		}
		list = append(list, hostile{name: "unshare " + kind, bare: who, unless: config})
		if kind != "time" {
			list = append(list, hostile{name: "clone " + kind, bare: who, unless: config})
		}
	}
	if runtime.GOARCH == "amd64" {
		list = append(list,
			hostile{name: "iopl", bare: byRoot, unless: config}, hostile{name: "ioperm", bare: byRoot, unless: config},
			hostile{name: "modify_ldt", bare: byAnyone, unless: config}, hostile{name: "uselib", bare: byAnyone, unless: config},
			hostile{name: "ustat", bare: byAnyone, unless: config}, hostile{name: "sysfs", bare: byAnyone, unless: config})
	}
	for i := range list {
		list[i].clause = ClauseKernel
	}
	return list
}

func statUID(info os.FileInfo) uint32 { return statOf(info).Uid }
