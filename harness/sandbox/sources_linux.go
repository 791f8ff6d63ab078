//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel"
)

// firstSource is the number, in the init, of the first mount descriptor that it receives.
const firstSource = 5

// openSources opens the paths that root's init may not open itself. For every user it checks
// that the paths of the request exist.
func (h *Host) openSources(s *Sandbox, src map[string]source) error {
	r := s.req
	named := map[string]string{}
	for _, p := range r.Read {
		named[p] = p
	}
	owned := []string{WorkDir, "delta"} // what commands own
	for name, p := range map[string]string{TreeDir: r.Tree, "inputs": r.Inputs, "delta": r.Delta, WorkDir: r.Work} {
		if p != "" && (r.Show == nil || !slices.Contains(owned, name)) { // with Show, commands see a copy of the work folder
			named[name] = p
		}
	}
	names := slices.Sorted(maps.Keys(named))
	for _, name := range names {
		p := named[name]
		info, err := os.Stat(p)
		if err != nil {
			return s.fail(StepFiles, err)
		}
		src[name] = source{path: p, file: !info.IsDir()}
	}
	if !h.root {
		return nil
	}
	for _, name := range names {
		p := named[name]
		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
		if !slices.Contains(owned, name) {
			flags |= unix.AT_RECURSIVE
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, p, flags)
		if err != nil {
			return h.unopened(p, err)
		}
		if slices.Contains(owned, name) {
			err = h.showAsOwn(fd)
		}
		if err != nil {
			_ = unix.Close(fd)
			if s.staging != stageNone {
				s.staging = stageCopy // this file system cannot be shown under another id
				delete(src, name)
				continue
			}
			return s.fail(StepFiles, fmt.Errorf("%s: %w", p, err))
		}
		src[name] = source{path: p, fd: firstSource + len(s.files), file: src[name].file}
		s.files = append(s.files, os.NewFile(uintptr(fd), p))
	}
	return nil
}

// unopened returns the error for a path of the host that could not be opened. Its step is
// the step of an init that opens the path itself.
func (h *Host) unopened(p string, err error) error {
	e := &Error{Isolation: Full, Step: initproc.OpOpen, Msg: p}
	errors.As(err, &e.Errno)
	return h.Diagnose(e)
}

// showAsOwn maps the owner and the group of a folder to the id of commands.
func (h *Host) showAsOwn(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	ns, err := h.idmap(int(st.Uid), int(st.Gid))
	if err != nil {
		return err
	}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
}

// openCopy shows a copy of the work folder, in dir, as the work folder.
func (h *Host) openCopy(s *Sandbox, dir string, src map[string]source) error {
	src[WorkDir] = source{path: dir}
	if !h.root {
		return nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return h.unopened(dir, err)
	}
	src[WorkDir] = source{path: dir, fd: firstSource + len(s.files)}
	s.files = append(s.files, os.NewFile(uintptr(fd), dir))
	return nil
}

// idmap returns a user namespace that maps an owner and a group of files to the id of
// commands in root's sandboxes. A process that ends at once creates the namespace.
func (h *Host) idmap(uid, gid int) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [2]int{uid, gid}
	if f := h.maps[key]; f != nil {
		return f, nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{initproc.Name}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{nil, nil, nil, theirs},
		Sys: &syscall.SysProcAttr{
			Cloneflags:                 unix.CLONE_NEWUSER,
			UidMappings:                []syscall.SysProcIDMap{{ContainerID: uid, HostID: h.id, Size: 1}},
			GidMappings:                []syscall.SysProcIDMap{{ContainerID: gid, HostID: h.id, Size: 1}},
			GidMappingsEnableSetgroups: true,
		},
	})
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
	_ = p.Kill()
	_, _ = p.Wait()
	if err != nil {
		return nil, err
	}
	h.maps[key] = f
	return f, nil
}

// makeScratch makes the sandbox's own folder on the host.
func (h *Host) makeScratch(s *Sandbox) error {
	if s.scratch != "" {
		return nil
	}
	dir, err := NewScratch(h.temp)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return s.fail(StepFiles, err)
	}
	s.scratch = dir
	return nil
}

// putFiles writes Request.Files into the sandbox's own folder, where no command can write
// them, and returns their places by their paths.
func (s *Sandbox) putFiles() (map[string]string, error) {
	own := map[string]string{}
	for _, f := range s.req.Files {
		to := filepath.Join(s.scratch, "files", f.Path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, []byte(f.Text), 0o644); err != nil {
			return nil, err
		}
		own[f.Path] = to
	}
	if len(own) == 0 || s.id == 0 {
		return own, nil
	}
	return own, giveAway(filepath.Join(s.scratch, "files"), s.id)
}

const scratchPrefix = "fiador-sandbox-"

// NewScratch makes a folder in another, or among the temporary files, for Sweep to find.
func NewScratch(in string) (string, error) { return os.MkdirTemp(in, scratchName()+"-") }

// scratchName names the process that made a folder, so that Sweep can recognize a folder
// whose process has ended.
func scratchName() string {
	pid := os.Getpid()
	return scratchPrefix + strconv.Itoa(pid) + "-" + startTime(pid)
}

// startTime returns the start time of a process, in ticks since the machine started. It
// returns "" for a process that does not exist.
func startTime(pid int) string {
	if fields := initproc.Stat(strconv.Itoa(pid)); len(fields) >= 20 {
		return fields[19]
	}
	return ""
}

// Sweep removes the folders beneath temp and the cgroups of supervisors that were killed.
func Sweep(temp string) error {
	err := cgroup.Sweep(cgroup.Machine())
	dirs, globErr := filepath.Glob(filepath.Join(cmp.Or(temp, os.TempDir()), scratchPrefix+"*"))
	shared, _ := filepath.Glob(filepath.Join(sharedMemory, scratchPrefix+"*")) // the same pattern
	err = cmp.Or(err, globErr)
	for _, dir := range append(dirs, shared...) {
		parts := strings.Split(strings.TrimPrefix(filepath.Base(dir), scratchPrefix), "-")
		if len(parts) != 3 {
			continue
		}
		pid, atoiErr := strconv.Atoi(parts[0])
		if atoiErr != nil || startTime(pid) == parts[1] {
			continue
		}
		if info, statErr := os.Lstat(dir); statErr != nil || !info.IsDir() || !ours(int(info.Sys().(*syscall.Stat_t).Uid)) {
			continue
		}
		err = cmp.Or(err, tree.RemoveAll(dir))
	}
	return err
}

// ours says whether this user's sandboxes can have made a folder with this owner.
func ours(uid int) bool {
	if euid := os.Geteuid(); uid == euid || euid != 0 {
		return uid == euid
	}
	return uid >= hostID && uid <= hostID+1<<16 || uid == outsideID(mapped("/proc/self/uid_map"), mapped("/proc/self/gid_map"))
}

// giveAway makes an id the owner and group of a folder and of everything in it.
func giveAway(dir string, id int) error {
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, id, id)
	})
}

// Shown says whether every sandbox shows an absolute path of the host at the same path,
// without a request for it.
func Shown(p string) bool {
	return slices.ContainsFunc(slices.Concat(systemPaths, etcPaths), func(q string) bool { return kernel.Beneath(p, q) })
}

// reads returns the paths of Read that a view of its own must add. Each path is listed once.
// Paths beneath another listed path, and paths that the view shows anyway, are left out.
func (h host) reads(r Request) []string {
	shown := slices.Concat(h.system, h.shownEtc(r))
	for _, l := range h.links {
		p, _, _ := strings.Cut(l, "=")
		shown = append(shown, p)
	}
	var list []string
	for i, p := range r.Read {
		known := slices.ContainsFunc(shown, func(q string) bool { return kernel.Beneath(p, q) })
		for k, q := range r.Read {
			known = known || kernel.Beneath(p, q) && (p != q || k < i)
		}
		if !known {
			list = append(list, p)
		}
	}
	return list
}

// shownEtc returns the parts of /etc that a view shows unchanged from the host.
func (h host) shownEtc(r Request) []string {
	return slices.DeleteFunc(slices.Clone(h.etc), func(p string) bool {
		return !r.Network && slices.Contains(etcNetwork, p) && !(r.Listed && p == etcCertificates)
	})
}
