//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/sandbox/census"
	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/sandbox/proxy"
	"github.com/fiador/fiador/harness/tree"
)

// Host starts sandboxes. It examines the machine once and keeps the result.
type Host struct {
	host
	temp string // folder for copies

	ungrouped atomic.Bool           // no cgroup is available
	refused   atomic.Pointer[Error] // why there are no namespaces

	mu   sync.Mutex
	maps map[[2]int]*os.File // user namespaces for idmapped mounts, by owner and group
}

// NewHost examines the machine. Folders for copies are made beneath the folder temp.
func NewHost(temp string) *Host {
	return &Host{host: look(), temp: temp, maps: map[[2]int]*os.File{}}
}

// Close closes the files that the host keeps open and moves the caller back to its own
// cgroup. The caller closes the host's sandboxes first.
func (h *Host) Close() error {
	cgroup.Machine().GoBack()
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for key, f := range h.maps {
		errs = append(errs, f.Close())
		delete(h.maps, key)
	}
	return errors.Join(errs...)
}

// Sandbox is a sandbox that is set up. The caller performs its actions one after another and
// then calls Finish, which ends everything inside. After that, Changes compares the written
// files with the originals.
type Sandbox struct {
	Isolation Isolation
	Clauses   []evidence.Clause
	PlanHash  [32]byte // SHA-256 of the plan's JSON; it depends on the machine

	req     Request
	work    string // the work folder as a host path, or empty where only upper has it
	staging staging
	upper   *os.File // the folder that holds the written files; for a copy, the copy itself
	port    *os.File // the socket that commands connect to; nil where no hosts are listed
	proxy   proxy.Proxy
	copied  map[string]mark // the files of a copy right after it was made
	process *os.Process
	socket  int
	reports chan initproc.Report
	gone    chan struct{} // closed when the init sends nothing more
	group   *cgroup.Group
	meter   *census.Meter // nil where a cgroup counts memory
	id      int           // id of commands on the host; used where root starts the sandbox
	scratch string        // the sandbox's own folder on the host, or empty
	inputs  Inputs        // copies that Close removes
	files   []*os.File
	once    sync.Once
	err     error
	changed func() ([]change.Change, error) // compares once
}

// staging is how written files are kept apart from the work folder.
type staging string

const (
	stageNone    staging = "direct"
	stageOverlay staging = "overlay in memory"
	stageCopy    staging = "copy"
)

// Start sets up the strongest sandbox that the machine allows between Most and Least. On an
// error, which is an *Error unless ctx ended, nothing of the request has run and nothing is
// left.
func (h *Host) Start(ctx context.Context, r Request) (*Sandbox, error) {
	r.Most, r.Least = cmp.Or(r.Most, Full), cmp.Or(r.Least, Full)
	if e := r.unlistable(r.Most); e != nil {
		return nil, e
	}
	if r.Listed {
		r.Least = Full
	}
	if r.Write == Direct && r.Delta != "" {
		return nil, &Error{Isolation: r.Most, Step: StepFiles, Msg: "changes cannot lie over a folder that is written directly: use staged writes"}
	}
	var first *Error
	for _, tier := range []Isolation{Full, Confined, None} {
		if !r.Most.AtLeast(tier) || !tier.AtLeast(r.Least) {
			continue
		}
		if e := h.refused.Load(); e != nil && tier == Full {
			first = e
			continue
		}
		s, err := h.start(ctx, tier, r, false)
		if overlayed(err) {
			s, err = h.start(ctx, tier, r, true)
		}
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return nil, err
		}
		if first = cmp.Or(first, e); !e.host() {
			return nil, e
		}
		if tier == Full && e.Step == StepStart && e.Cause != "" && e.Cause != CauseLimit {
			h.refused.Store(e) // this cause does not change while the process runs
		}
	}
	if first == nil {
		return nil, &Error{Isolation: r.Least, Step: StepHost, Msg: "stronger than what was asked for at most"}
	}
	return nil, first
}

// overlayed says whether the overlay failed. Start then copies the work folder instead.
func overlayed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Step == initproc.OpOverlay || e.Step == initproc.OpStage)
}

// host says whether the machine, not the request, causes the error.
func (e *Error) host() bool {
	switch e.Step {
	case StepFiles:
		return e.Cause != ""
	case initproc.OpHide:
		return false
	case initproc.OpOpen:
		return e.Errno != unix.ENOENT && e.Errno != unix.EACCES && e.Errno != unix.ENOTDIR && e.Errno != unix.ELOOP
	}
	return true
}

func (h *Host) start(ctx context.Context, tier Isolation, r Request, copied bool) (_ *Sandbox, err error) {
	if tier == Full {
		r.Read = h.reads(r)
	}
	s := &Sandbox{Isolation: tier, req: r, socket: -1}
	s.changed = sync.OnceValues(func() ([]change.Change, error) { return s.changes(false) })
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if !h.ungrouped.Load() {
		s.group, err = cgroup.Open(cgroup.Machine(), int64(r.Limits.MemoryMB)*mib, r.Limits.Tasks()+initThreads, r.Limits.CPUCores)
		h.ungrouped.Store(s.group == nil)
	}
	if err != nil {
		return nil, s.fail(StepLimits, err)
	}
	// Without openat2, nothing that commands leave can be read safely.
	dot, err := tree.Beneath(unix.AT_FDCWD, ".", unix.O_PATH)
	if err == nil {
		err = unix.Close(dot)
	}
	if err != nil {
		return nil, h.Diagnose(s.fail(StepOpenat2, err))
	}
	if s.id = h.id; tier != Full && h.root {
		s.id = h.confinedID()
	}
	var plan initproc.Plan
	if tier == Full {
		plan, err = h.prepareFull(s, copied)
	} else {
		plan, err = h.prepareConfined(s)
	}
	if err != nil {
		return nil, err
	}
	if h.with(s.group).uncounted {
		if s.meter, err = census.New(s.scratch, maxDescriptors); err != nil {
			return nil, s.fail(StepLimits, err)
		}
	}
	withinHard(plan.Confine.Rlimits)
	s.Clauses = h.clauses(s)
	if err := h.launch(ctx, s, plan); err != nil {
		return nil, err
	}
	return s, nil
}

// withinHard lowers limits to the hard limits of this process.
func withinHard(list []initproc.Rlimit) {
	for i, l := range list {
		var own unix.Rlimit
		if unix.Getrlimit(l.Resource, &own) == nil {
			list[i].Value = min(l.Value, own.Max)
		}
	}
}

// fail returns the error of a step that is not part of the plan.
func (s *Sandbox) fail(step string, err error) *Error {
	e := &Error{Isolation: s.Isolation, Step: step}
	if !errors.As(err, &e.Errno) {
		e.Msg = err.Error()
	}
	return e
}

// prepareFull opens the paths that the plan shows, and compiles the plan. The init of an
// ordinary user can open every path itself. The init of root runs under an id that cannot.
// The supervisor therefore opens every path that does not belong to the system and hands it
// over.
func (h *Host) prepareFull(s *Sandbox, copied bool) (initproc.Plan, error) {
	r := s.req
	if r.Write == Direct && r.Show != nil {
		return initproc.Plan{}, &Error{Isolation: s.Isolation, Step: StepFiles, Msg: "of a folder that is written directly everything is shown: use staged writes"}
	}
	s.staging = stageNone
	switch {
	case r.Write == Staged && copied:
		s.staging = stageCopy
	case r.Write == Staged:
		s.staging = stageOverlay
	}
	src := map[string]source{}
	if err := h.openSources(s, src); err != nil {
		return initproc.Plan{}, err
	}
	if s.staging == stageCopy {
		if err := h.copyWork(s); err != nil {
			return initproc.Plan{}, err
		}
		r.Inputs, r.Delta, r.Work = "", "", s.work
	}
	if s.staging == stageOverlay && r.Show != nil {
		var err error
		if r.Work, err = h.copyView(s); err != nil {
			return initproc.Plan{}, err
		}
		r.Delta = ""
	}
	if r.Work != s.req.Work {
		if err := h.openCopy(s, r.Work, src); err != nil {
			return initproc.Plan{}, err
		}
	}
	return fullPlan(h.with(s.group), r, s.staging == stageOverlay, src), nil
}

// with returns the properties of the machine, with those of a cgroup.
func (h *Host) with(g *cgroup.Group) host {
	own := h.host
	own.uncounted = g == nil || !g.Memory()
	return own
}

// prepareConfined makes the folders that replace a view, and compiles the plan.
func (h *Host) prepareConfined(s *Sandbox) (initproc.Plan, error) {
	r := s.req
	if s.Isolation == Confined && h.landlock == 0 {
		return initproc.Plan{}, h.Diagnose(&Error{Isolation: Confined, Step: "landlock", Errno: unix.ENOSYS})
	}
	at := places{isolation: s.Isolation, files: map[string]bool{}, id: s.id}
	for _, p := range r.Read {
		info, err := os.Stat(p)
		if err != nil {
			return initproc.Plan{}, s.fail(StepFiles, err)
		}
		at.files[p] = !info.IsDir()
	}
	if !h.root {
		at.others = census.Tasks(os.Getuid()) + initThreads
	}
	if err := h.makeScratch(s); err != nil {
		return initproc.Plan{}, err
	}
	at.tmp = filepath.Join(s.scratch, "tmp")
	if err := os.Mkdir(at.tmp, 0o700); err != nil {
		return initproc.Plan{}, s.fail(StepFiles, err)
	}
	var err error
	if at.own, err = s.putFiles(); err != nil {
		return initproc.Plan{}, s.fail(StepFiles, err)
	}
	if at.id != 0 {
		if err := reachable(s.scratch); err != nil {
			return initproc.Plan{}, err
		}
	}
	s.staging, s.work = stageNone, r.Work
	if why := h.indirect(r); why != "" {
		return initproc.Plan{}, &Error{Isolation: s.Isolation, Step: StepFiles, Msg: why + " without a view of its own: use staged writes"}
	}
	if r.Write != Direct || r.Work == "" {
		s.staging = stageCopy
		if err := h.copyWork(s); err != nil {
			return initproc.Plan{}, err
		}
	}
	at.work, at.staged = s.work, s.staging == stageCopy
	if at.id != 0 {
		for _, dir := range []string{s.scratch, at.tmp} {
			if err := os.Lchown(dir, at.id, at.id); err != nil {
				return initproc.Plan{}, h.Diagnose(s.fail(StepFiles, err))
			}
		}
	}
	return confinedPlan(h.with(s.group), r, at), nil
}

// indirect says why a request with direct writes needs a view of its own, or returns "".
func (h *Host) indirect(r Request) string {
	if r.Write != Direct || r.Work == "" {
		return ""
	}
	if len(r.Hide) > 0 || r.Show != nil {
		return "nothing can be hidden from direct writes"
	}
	for _, name := range r.Protect {
		if _, err := os.Lstat(filepath.Join(r.Work, name)); err == nil {
			return name + " cannot be protected from direct writes"
		}
	}
	if h.root {
		return "root cannot write directly"
	}
	return ""
}

// reachable returns an error if an id that owns nothing cannot reach a folder.
func reachable(dir string) error {
	for p := filepath.Dir(dir); ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil || info.Mode()&0o001 == 0 {
			return &Error{Isolation: Confined, Step: StepFiles, Errno: unix.EACCES, Msg: "commands cannot come to the folder for copies", Cause: CauseTemp, Remedy: causes.Get()[CauseTemp].remedy}
		}
		if p == "/" {
			return nil
		}
	}
}

// launch starts the init, sends it the plan and waits until it reports that it is ready.
func (h *Host) launch(ctx context.Context, s *Sandbox, plan initproc.Plan) error {
	told, err := unnamed("plan", plan.Encode())
	if err != nil {
		return s.fail(StepFiles, err)
	}
	defer told.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return s.fail(StepFiles, err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "init")
	s.socket = pair[0]
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = theirs.Close()
		return s.fail(StepFiles, err)
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   initproc.Env(),
		Files: append([]*os.File{null, null, null, theirs, told}, s.files...),
		Sys:   h.processAttr(s),
	}
	start := func() (err error) {
		s.process, err = os.StartProcess("/proc/self/exe", []string{initproc.Name}, attr)
		return err
	}
	if s.group == nil {
		err = start()
	} else {
		err = s.group.Start(start)
	}
	_ = theirs.Close() // otherwise the end of the init would not be noticed
	if err != nil {
		return h.Diagnose(s.fail(StepStart, err))
	}
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
	s.reports, s.gone = make(chan initproc.Report, 1), make(chan struct{})
	go s.listen(s.reports, s.gone)
	// An init that has already ended has reported the reason, if it could.
	_ = s.send(initproc.Message(initproc.Begin, 0, 0), nil)
	// The hash is made while the init performs the steps.
	b, err := json.Marshal(plan)
	if err != nil {
		return s.fail(StepFiles, err)
	}
	s.PlanHash = sha256.Sum256(b)
	return h.await(ctx, s, plan)
}

// setUpTime is the largest duration of a set-up. It guards against a host that hangs.
const setUpTime = 30 * time.Second

func (h *Host) await(ctx context.Context, s *Sandbox, plan initproc.Plan) error {
	late := time.NewTimer(setUpTime)
	defer late.Stop()
	select {
	case rep, ok := <-s.reports:
		switch {
		case !ok:
			return h.Diagnose(&Error{Isolation: s.Isolation, Step: StepReport})
		case rep.Kind == initproc.Failed:
			e := &Error{Isolation: s.Isolation, At: int(rep.At), Errno: syscall.Errno(rep.Errno)}
			if e.At < len(plan.Steps) {
				st := plan.Steps[e.At]
				e.Step, e.Msg = st.Op, strings.TrimSpace(st.From+" "+st.To)
			}
			return h.Diagnose(e)
		case rep.Kind != initproc.Ready || s.staging == stageOverlay && s.upper == nil || s.req.Listed && s.port == nil:
			return &Error{Isolation: s.Isolation, Step: StepReport, Msg: "an unexpected report"}
		}
		return nil
	case <-late.C:
		return &Error{Isolation: s.Isolation, Step: StepReport, Msg: "the set-up did not end"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// processAttr returns the namespaces and the identity with which the init starts.
func (h *Host) processAttr(s *Sandbox) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Setsid: true}
	if s.group != nil && s.group.Descriptor() >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, s.group.Descriptor()
	}
	if s.Isolation != Full {
		return sys
	}
	sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	if !s.req.Network {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if h.root {
		uid, gid = h.id, h.id
		sys.GidMappingsEnableSetgroups = true
		sys.Credential = &syscall.Credential{Uid: Inside, Gid: Inside}
	}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: Inside, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: Inside, HostID: gid, Size: 1}}
	sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE}
	return sys
}

// Finish ends everything inside. The written files can still be read.
func (s *Sandbox) Finish() error {
	s.once.Do(func() {
		if s.process != nil {
			s.err = s.end()
		}
	})
	return s.err
}

func (s *Sandbox) end() error {
	_ = shutdown(s.socket)
	if s.Isolation == Full {
		// The kernel kills everything in a pid namespace with its process 1.
		_ = s.process.Kill()
	} else if !s.waits(killTime) {
		_ = s.process.Kill()
	}
	if s.group != nil && s.Isolation != Full {
		s.group.Kill()
	}
	_, err := s.process.Wait()
	if s.gone != nil {
		<-s.gone
	}
	_ = unix.Close(s.socket)
	s.socket = -1
	return err
}

func shutdown(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) }

// killTime is the time in which an init without a pid namespace must kill what it started.
const killTime = 15 * time.Second

// waits waits for the end of the init's process and says whether it ends within d.
func (s *Sandbox) waits(d time.Duration) bool {
	fd, err := unix.PidfdOpen(s.process.Pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	end := time.Now().Add(d)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		return n > 0
	}
}

// Owns makes Close remove the inputs too.
func (s *Sandbox) Owns(in Inputs) { s.inputs = in }

// Close ends everything inside and releases everything that the sandbox holds. It removes
// the written files.
func (s *Sandbox) Close() error {
	err := errors.Join(s.release(), s.inputs.Remove())
	s.inputs = Inputs{}
	return err
}

// release is Close without the inputs.
func (s *Sandbox) release() error {
	errs := []error{s.Finish()}
	if s.socket >= 0 {
		errs = append(errs, unix.Close(s.socket))
		s.socket = -1
	}
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
	if s.upper != nil {
		errs = append(errs, s.upper.Close())
		s.upper = nil
	}
	if s.port != nil {
		errs = append(errs, s.port.Close())
		s.port = nil
	}
	if s.group != nil {
		errs = append(errs, s.group.Close())
		s.group = nil
	}
	if s.scratch != "" {
		errs = append(errs, tree.RemoveAll(s.scratch))
		s.scratch = ""
	}
	return errors.Join(errs...)
}
