//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/lazy"
)

// The known causes of a sandbox that cannot be set up.
const (
	CauseLimit    = "userns-limit"    // the limit of user namespaces is 0 or reached
	CauseOff      = "userns-off"      // a setting forbids users to make user namespaces
	CauseSeccomp  = "outer-seccomp"   // a filter around this process refuses
	CauseCaps     = "withheld-caps"   // the ids could not be mapped: capabilities are withheld
	CauseAppArmor = "apparmor"        // AppArmor restricts user namespaces
	CauseProc     = "masked-proc"     // parts of /proc are covered, so that a fresh one is refused
	CauseOverlay  = "no-overlay"      // no overlayfs for users
	CauseKernel   = "old-kernel"      // a system call does not exist
	CauseLandlock = "no-landlock"     // the kernel has no Landlock, or it is off
	CauseTemp     = "temp-noexec"     // the folder for copies cannot be used
	CauseNoProc   = "no-proc"         // /proc does not exist
	CauseRoot     = "changed-root"    // the process is in a changed root
	CauseNested   = "initial-ramdisk" // pivot_root cannot leave the root
)

// known says what a cause means and which one action helps. No remedy turns off a protection
// for the whole machine.
type known struct{ means, remedy string }

const weaker = "; or use a profile whose isolation is confined"

var causes = lazy.Value[map[string]known]{Make: func() map[string]known {
	return map[string]known{
		CauseLimit: {"the limit of user namespaces is 0 or reached",
			"ask the administrator for: sysctl -w user.max_user_namespaces=15000" + weaker},
		CauseOff: {"users may not make user namespaces here",
			"ask the administrator for: sysctl -w kernel.unprivileged_userns_clone=1" + weaker},
		CauseSeccomp: {"a filter of system calls around this process refuses it",
			"in a container: docker run --security-opt seccomp=FILE, with a filter that lets clone, mount and pivot_root through" + weaker},
		CauseCaps: {"the ids of a user namespace could not be mapped: capabilities are withheld",
			"in a container: docker run --cap-add SETUID --cap-add SETGID, or start it as an ordinary user" + weaker},
		CauseAppArmor: {"AppArmor restricts user namespaces to programs that it knows",
			"give this program a profile: a file in /etc/apparmor.d with \"profile fiador PATH flags=(unconfined) { userns, }\", PATH being where it is installed, then apparmor_parser -r FILE" + weaker},
		CauseProc: {"parts of /proc are covered, so the kernel refuses a fresh one",
			"in a container: docker run --security-opt systempaths=unconfined, in Kubernetes procMount: Unmasked" + weaker},
		CauseOverlay: {"there is no overlayfs for users",
			"use Linux 5.11 or newer with overlayfs; until then the work folder is copied"},
		CauseKernel: {"the kernel does not have what it takes",
			"use Linux 5.12 or newer"},
		CauseLandlock: {"the kernel has no Landlock, or it is off",
			"use Linux 5.13 or newer with landlock among the lsm= of the kernel command line"},
		CauseTemp: {"the folder for copies cannot be used",
			"set TMPDIR to a folder that may be written and has room"},
		CauseNoProc: {"there is no /proc", "mount it: mount -t proc proc /proc"},
		CauseRoot: {"the kernel makes no user namespaces here: in a changed root, or where a security module forbids it",
			"start it outside of the chroot" + weaker},
		CauseNested: {"the root cannot be left: it is an initial ramdisk",
			"start the system from a disk or an image" + weaker},
	}
}}

// Diagnose adds the known cause to an error. The failed step and its errno decide; where two
// causes look alike, settings of the machine decide.
func (h *Host) Diagnose(e *Error) *Error {
	e.Cause = h.cause(e)
	if k, ok := causes.Get()[e.Cause]; ok {
		e.Msg, e.Remedy = k.means, k.remedy
	}
	return e
}

func (h *Host) cause(e *Error) string {
	denied := e.Errno == syscall.EPERM || e.Errno == syscall.EACCES
	switch {
	case e.Step == StepFiles && e.Isolation == Confined && e.Errno == syscall.EACCES:
		return CauseTemp
	case e.Step == StepStart && e.Errno == syscall.ENOSPC:
		return CauseLimit
	case e.Step == StepStart && denied:
		return startDenied()
	case e.Step == StepStart && e.Errno == syscall.EINVAL:
		return CauseKernel
	case e.Errno == syscall.ENOSYS && e.Step == "landlock", e.Errno == syscall.EOPNOTSUPP && e.Step == initproc.OpRehearse:
		return CauseLandlock
	case e.Errno == syscall.ENOSYS:
		if filtered() {
			return CauseSeccomp
		}
		return CauseKernel
	case e.Step == initproc.OpProc && denied:
		return CauseProc
	case e.Step == initproc.OpOverlay:
		return CauseOverlay
	case e.Step == initproc.OpPivot && e.Errno == syscall.EINVAL:
		return CauseNested
	case denied && setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return CauseAppArmor
	case denied && filtered():
		return CauseSeccomp
	case denied && os.Geteuid() == 0 && e.Step != StepFiles || e.Step == StepFiles && e.Errno == syscall.EPERM && os.Geteuid() == 0:
		return CauseCaps
	case e.Step == StepStart && e.Errno == syscall.ENOENT:
		return CauseNoProc
	}
	return ""
}

// startDenied says why the init could not be started. It tries a namespace without a mapping
// of ids: if that works, the mapping was refused.
func startDenied() string {
	switch {
	case setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		return CauseOff
	case setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && os.Geteuid() != 0:
		return CauseAppArmor
	case bareNamespace() == nil:
		return CauseCaps
	case filtered():
		return CauseSeccomp
	}
	return CauseRoot
}

// bareNamespace starts a process in a user namespace without a mapping of ids. The process
// ends at once.
func bareNamespace() error {
	p, err := os.StartProcess("/proc/self/exe", []string{initproc.Name}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// filtered says whether a filter of system calls applies to this process.
func filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}

// setting returns the content of a file of /proc without blanks around it, or "".
func setting(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// Probe tries each tier with a plan that runs nothing and puts the work folder on an
// overlay. It returns, for each tier, whether the tier is available and why not.
func (h *Host) Probe(ctx context.Context) []Probe {
	var list []Probe
	for _, tier := range []Isolation{Full, Confined} {
		p := Probe{Isolation: tier}
		work, err := os.MkdirTemp(h.temp, scratchName()+"-")
		if err != nil {
			p.Err = &Error{Isolation: tier, Step: StepFiles, Msg: err.Error(), Cause: CauseTemp, Remedy: causes.Get()[CauseTemp].remedy}
			list = append(list, p)
			continue
		}
		s, err := h.Start(ctx, Request{
			Work: work, Write: Staged, Least: tier, Most: tier,
			Limits: Limits{MemoryMB: 64, CPUCores: 1, MaxChildren: 1, OutputFiles: 1, OutputBytes: kib},
		})
		if err == nil {
			p.Clauses, p.Staging = s.Clauses, string(s.staging)
			err = s.Close()
		}
		if err != nil && !errors.As(err, &p.Err) {
			p.Err = &Error{Isolation: tier, Step: StepReport, Msg: err.Error()}
		}
		_ = tree.RemoveAll(work)
		list = append(list, p)
	}
	return list
}

// ThisMachine returns the facts about the machine of this process.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, GoVersion: runtime.Version(), LandlockABI: landlockVersion()}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.KernelRelease = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// foreignLook is the number of names in a work folder that Foreign examines.
const foreignLook = 20_000

// Foreign returns the first file of the work folder that commands own and may write, but
// that has a group the sandbox does not have. The kernel does not copy such a file up. group
// is the number of that group.
func (s *Sandbox) Foreign() (name string, group int, found bool) {
	if s.staging != stageOverlay || s.req.Work == "" || s.req.Show != nil {
		return "", 0, false
	}
	uid, gid := s.owners()
	was, _ := s.originals()
	defer was.close()
	left := foreignLook
	_ = filepath.WalkDir(s.req.Work, func(p string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) != uid || int(st.Gid) == gid || st.Mode&0o200 == 0 {
			return nil
		}
		rel, _ := filepath.Rel(s.req.Work, p)
		if _, top := was.find(rel); top == nil || top.Dev != st.Dev || top.Ino != st.Ino {
			return nil // the delta has another one, or none
		}
		name, group, found = rel, int(st.Gid), true
		return fs.SkipAll
	})
	return name, group, found
}

// owners returns the user and the group of the files that commands own in the work folder.
func (s *Sandbox) owners() (uid, gid int) {
	if s.id == 0 {
		return os.Geteuid(), os.Getegid()
	}
	info, err := os.Stat(s.req.Work)
	if err != nil {
		return -1, -1
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// Reserved returns the file that a command's name resolves to. found says that its owner or
// group may execute the file, but commands may not, because they run as others. dir is the
// folder in which the command starts.
func (s *Sandbox) Reserved(name, dir string) (file string, found bool) {
	var places []string
	ours := -1 // owner of the files that commands execute as their owner
	switch {
	case !strings.Contains(name, "/"):
		for p := range strings.SplitSeq(SearchPath, ":") {
			places = append(places, path.Join(p, name))
		}
	case path.IsAbs(name) && !strings.HasPrefix(name, WorkDir+"/"):
		places = []string{name}
	default:
		if !path.IsAbs(name) {
			name = path.Join(WorkDir, dir, name)
		}
		places = []string{filepath.Join(s.req.Work, strings.TrimPrefix(name, WorkDir))}
		ours, _ = s.owners()
	}
	if s.id == 0 {
		ours = os.Geteuid()
	}
	for _, p := range places {
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		reserved := info.Mode()&0o110 != 0 && info.Mode()&0o001 == 0 && int(info.Sys().(*syscall.Stat_t).Uid) != ours
		return p, reserved
	}
	return "", false
}
