//go:build linux && (amd64 || arm64)

package initproc

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	socketFD = 3
	planFD   = 4
)

// A process that is an init never gets further than this line. It stands here and
// not in main, because what main's packages do before main is of no use to an init.
var _ = Enter()

// Enter turns the process into an init if that is what it was started as, and
// otherwise returns at once.
func Enter() struct{} {
	if len(os.Args) == 0 {
		return struct{}{}
	}
	switch os.Args[0] {
	case Name:
		os.Exit(run())
	case NameLast:
		os.Exit(last())
	}
	return struct{}{}
}

// The exit statuses of an init; nobody but a person who looks for a fault reads
// them.
const (
	statusEnd     = 0
	statusNoPlan  = 70
	statusNoSetup = 71
	statusOrphan  = 72
)

func run() int {
	debug.SetGCPercent(-1)
	ignoreSignals()
	syscall.Umask(0o022)
	if _, err := call(sysCloseRange, 3, ^uintptr(0)>>1&0x7fffffff, closeRangeExec); err != nil {
		_ = syscall.Sendmsg(socketFD, Report{Kind: Failed, Errno: number(err)}.Encode(), nil, nil, 0)
		// Whoever wants this process for its namespaces alone is not to find it gone.
		_, _ = syscall.Read(socketFD, make([]byte, MessageSize))
		return statusNoPlan
	}
	plan, err := readPlan()
	if err != nil {
		return statusNoPlan
	}
	spareThreads()
	in := &initial{plan: plan, msgs: make(chan message, 4)}
	go in.listen()
	if m, ok := <-in.msgs; !ok || m.kind != Begin {
		return statusOrphan
	}
	w := &walker{plan: plan, mounts: map[string]int{}, upper: -1}
	if at, err := w.setUp(); err != nil {
		in.say(Report{Kind: Failed, At: uint32(at), Errno: number(err)}, -1)
		return statusNoSetup
	}
	in.say(Report{Kind: Ready}, w.upper)
	syscall.Close(w.upper)
	for {
		m, ok := <-in.msgs
		if !ok {
			return statusEnd
		}
		if m.kind == Perform {
			in.perform(m)
		}
	}
}

// ignoreSignals gives every signal its default effect, which for process 1 is none:
// the runtime's own handlers would let a command inside end the init. SIGURG stays
// with the runtime.
func ignoreSignals() {
	var act [4]uint64 // a zero sigaction: SIG_DFL
	if syscall.Getpid() != 1 {
		// The runtime leaves these two ignored where they were, and commands would too.
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
			_, _ = call(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, 8)
		}
		return
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		if sig == uintptr(syscall.SIGURG) || sig == uintptr(syscall.SIGKILL) || sig == uintptr(syscall.SIGSTOP) {
			continue
		}
		_, _ = call(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&act)), 0, 8)
	}
}

// spare is how many threads an init has in reserve. While a command holds all the
// processes that there may be, no thread can be made, and the runtime gives up when it
// wants one.
const spare = 6

func spareThreads() {
	var ready, done sync.WaitGroup
	ready.Add(spare)
	for range spare {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			ready.Wait() // each on a thread of its own
			runtime.UnlockOSThread()
		})
	}
	done.Wait()
}

func readPlan() (*Plan, error) {
	b, err := readAll(planFD)
	if err != nil {
		return nil, err
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	return &p, nil
}

func readAll(fd int) ([]byte, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		m, err := syscall.Pread(fd, b[n:], int64(n))
		if err == syscall.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return nil, syscall.EIO
		}
		n += m
	}
	return b, syscall.Close(fd)
}

func number(err error) uint32 {
	if errno, ok := err.(syscall.Errno); ok {
		return uint32(errno)
	}
	return uint32(syscall.EIO)
}

// message is one of the supervisor's, with the descriptors that came along.
type message struct {
	kind  byte
	at    int
	ms    int // time of the command, 0: no limit
	files []int
}

type initial struct {
	plan *Plan
	msgs chan message

	mu     sync.Mutex
	target int // pid of the command that runs, or 0
}

// listen hands on what the supervisor says. Terminate is obeyed at once. When the
// supervisor is gone, so is everything here.
func (in *initial) listen() {
	b, oob := make([]byte, 16), make([]byte, 64)
	for {
		n, m, _, _, err := syscall.Recvmsg(socketFD, b, oob, msgCloexec)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			in.killAll()
			os.Exit(statusOrphan)
		}
		if b[0] == Terminate {
			in.signalAll(syscall.SIGTERM)
			continue
		}
		msg := message{kind: b[0]}
		if n == MessageSize {
			msg.at, msg.ms = int(get(b[1:5])), int(get(b[5:9]))
		}
		if list, err := syscall.ParseSocketControlMessage(oob[:m]); err == nil && len(list) == 1 {
			msg.files, _ = syscall.ParseUnixRights(&list[0])
		}
		in.msgs <- msg
	}
}

const msgCloexec = 0x40000000

// say sends a report, with a descriptor unless it is -1. A supervisor that cannot be
// told is gone.
func (in *initial) say(r Report, fd int) {
	var oob []byte
	if fd >= 0 {
		oob = syscall.UnixRights(fd)
	}
	if err := syscall.Sendmsg(socketFD, r.Encode(), oob, nil, 0); err != nil {
		in.killAll()
		os.Exit(statusOrphan)
	}
}

// perform does one action and reports how it ended.
func (in *initial) perform(m message) {
	r := Report{Kind: Done, At: uint32(m.at)}
	if m.at >= len(in.plan.Actions) {
		r.Errno = uint32(syscall.EINVAL)
		in.say(r, -1)
		return
	}
	if a := in.plan.Actions[m.at]; len(a.Argv) == 0 {
		if err := in.write(a, m.files); err != nil {
			r.Errno = number(err)
		}
		closeAll(m.files)
	} else {
		in.command(a, m, &r)
	}
	in.say(r, -1)
}

// write writes from a thread that has given up what a command gives up, but for the
// filter: no command runs here, and openBeneath needs what the filter may refuse.
func (in *initial) write(a Action, files []int) error {
	if a.Given != (len(files) == 1) {
		return syscall.EBADF
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		c := in.plan.Confine
		c.Seccomp = nil
		if err := c.apply(); err != nil {
			done <- err
			return
		}
		done <- a.write(files)
	}()
	return <-done
}

// write puts a file into the work folder, but never through a link, and never into
// what is no regular file of one name.
func (a Action) write(given []int) error {
	root, err := syscall.Open(a.Root, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(root)
	for i, c := range a.Path {
		if c != '/' {
			continue
		}
		if err := mkdirBeneath(root, a.Path[:i]); err != nil {
			return err
		}
	}
	fd, err := openBeneath(root, a.Path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, uint64(a.Mode))
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Nlink > 1 {
		return syscall.EEXIST
	}
	if err := syscall.Ftruncate(fd, 0); err != nil {
		return err
	}
	if a.Given {
		err = copyAll(fd, given[0])
	} else {
		err = writeAll(fd, a.Content)
	}
	if err != nil {
		return err
	}
	return syscall.Fchmod(fd, a.Mode)
}

func mkdirBeneath(root int, path string) error {
	fd, err := openBeneath(root, path, oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err == nil {
		return syscall.Close(fd)
	}
	if err != syscall.ENOENT {
		return err
	}
	parent, name := root, path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		name = path[i+1:]
		if parent, err = openBeneath(root, path[:i], oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0); err != nil {
			return err
		}
		defer syscall.Close(parent)
	}
	return syscall.Mkdirat(parent, name, 0o755)
}

// command runs one command to its end and the end of everything that it started.
func (in *initial) command(a Action, m message, r *Report) {
	path, flags := look(a)
	if len(m.files) != 3 {
		r.Errno = uint32(syscall.EBADF)
	}
	if r.Flags |= flags; flags != 0 || r.Errno != 0 {
		closeAll(m.files)
		return
	}
	pid, err := in.start(path, a, m.files)
	closeAll(m.files) // or the end of a stream would not show
	if err != nil {
		in.killAll()
		switch {
		case pid < 0:
			r.Errno = number(err) // what it was to give up could not be given up
		case err == syscall.ENOENT || err == syscall.ENOTDIR:
			r.Flags |= NotFound // of a script, its interpreter
		default:
			r.Flags |= NotRunnable
		}
		return
	}
	var timed atomic.Bool
	stop := in.watch(m.ms, &timed)
	status, err := await(pid)
	stop()
	if timed.Load() {
		r.Flags |= TimedOut
	}
	if err != nil {
		r.Errno = number(err)
	}
	if status.Signaled() {
		r.Signal = uint8(status.Signal())
	} else {
		r.Code = uint8(status.ExitStatus())
	}
	if !in.killAll() {
		r.Flags |= Survivors
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) == nil {
		r.MaxRSS = uint64(u.Maxrss) << 10
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}

// watch ends the command when its time is over: SIGTERM, the plan's grace, SIGKILL.
// It keeps time here as well as outside, so that a supervisor that was stopped
// cannot make a command live longer.
func (in *initial) watch(ms int, timed *atomic.Bool) func() {
	if ms == 0 {
		return func() {}
	}
	var last *time.Timer
	var mu sync.Mutex
	first := time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
		mu.Lock()
		defer mu.Unlock()
		timed.Store(true)
		in.signalAll(syscall.SIGTERM)
		last = time.AfterFunc(time.Duration(in.plan.GraceMS)*time.Millisecond, func() { in.signalAll(syscall.SIGKILL) })
	})
	return func() {
		first.Stop()
		mu.Lock()
		defer mu.Unlock()
		if last != nil {
			last.Stop()
		}
	}
}

func await(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if got == pid {
			return status, nil
		}
	}
}

// start forks from a thread that has given up everything, so that the command never
// has more, not even before it is executed. The thread ends with it. A pid of -1 with
// an error means that the thread could not give up what it must.
func (in *initial) start(path string, a Action, files []int) (int, error) {
	type begun struct {
		pid int
		err error
	}
	done := make(chan begun)
	go func() {
		runtime.LockOSThread() // and never unlocked
		attr := &syscall.ProcAttr{
			Dir: a.Dir, Env: a.Env, Sys: &syscall.SysProcAttr{Setsid: true},
			Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		}
		if in.plan.Confine.Last {
			// This fork is what the filter refuses, or this process needs more than
			// the limits leave: the command's own process gives up what is to be
			// given up.
			pid, err := in.startLast(path, a, attr)
			done <- begun{pid, err}
			return
		}
		if err := in.plan.Confine.apply(); err != nil {
			done <- begun{-1, err}
			return
		}
		if err := in.plan.Confine.limit(); err != nil {
			done <- begun{-1, err}
			return
		}
		pid, err := syscall.ForkExec(path, a.Argv, attr)
		done <- begun{pid, err}
	}()
	b := <-done
	if b.err == nil {
		in.mu.Lock()
		in.target = b.pid
		in.mu.Unlock()
	}
	return b.pid, b.err
}

// look finds the command as a shell would, in the PATH of its environment.
func look(a Action) (string, uint8) {
	var st syscall.Stat_t
	if err := syscall.Stat(a.Dir, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return "", NotFound
	}
	name := a.Argv[0]
	if strings.Contains(name, "/") {
		path := name
		if name[0] != '/' {
			path = a.Dir + "/" + name
		}
		return name, runnable(path) // it starts in its folder
	}
	flags := uint8(NotFound)
	for _, e := range a.Env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			switch runnable(dir + "/" + name) {
			case 0:
				return dir + "/" + name, 0
			case NotRunnable:
				flags = NotRunnable
			}
		}
	}
	return "", flags
}

func runnable(path string) uint8 {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err == syscall.ENOENT || err == syscall.ENOTDIR {
		return NotFound
	} else if err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Mode&0o111 == 0 {
		return NotRunnable
	}
	return 0
}
