//go:build linux && (amd64 || arm64)

package initproc

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/fiador/fiador/harness/sandbox/wire"
)

const (
	socketFD = 3
	planFD   = 4
)

// An init never runs past this line. The call is here and not in main, because an init does
// not need what main's packages do before main.
var _ = Enter()

// Enter turns the process into an init if it was started as one. Otherwise it returns at
// once.
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

// The exit statuses of an init. They help people to find faults; no program reads them.
const (
	statusEnd     = 0
	statusNoPlan  = 70
	statusNoSetup = 71
	statusOrphan  = 72
)

func run() int {
	ignoreSignals()
	syscall.Umask(0o022)
	if err := do(sysCloseRange, 3, ^uintptr(0)>>1&0x7fffffff, closeRangeExec); err != nil {
		_ = syscall.Sendmsg(socketFD, Report{Kind: Failed, Errno: number(err)}.Encode(), nil, nil, 0)
		// A process that needs only the namespaces of this one must not find it gone.
		_, _ = syscall.Read(socketFD, make([]byte, MessageSize))
		return statusNoPlan
	}
	b, err := readAll(planFD)
	if err != nil {
		return statusNoPlan
	}
	plan, err := DecodePlan(b)
	if err != nil {
		return statusNoPlan
	}
	spareThreads()
	in := &initial{plan: plan, msgs: make(chan message, 4)}
	go in.listen()
	if m, ok := <-in.msgs; !ok || m.kind != Begin {
		return statusOrphan
	}
	w := &walker{plan: plan, mounts: map[string]int{}}
	if at, err := w.setUp(); err != nil {
		in.say(Report{Kind: Failed, At: uint32(at), Errno: number(err)})
		return statusNoSetup
	}
	in.ready = w.ready
	in.say(Report{Kind: Ready}, w.sent...)
	closeAll(w.sent)
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

// ignoreSignals gives every signal its default effect, which is no effect for process 1.
// With the runtime's own handlers, a command inside could end the init. SIGURG stays with
// the runtime.
func ignoreSignals() {
	var act [4]uint64 // a zero sigaction: SIG_DFL
	if syscall.Getpid() != 1 {
		// If these two were ignored, the runtime leaves them ignored, and commands would
		// inherit that.
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
			_ = do(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, 8)
		}
		return
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		if sig == uintptr(syscall.SIGURG) || sig == uintptr(syscall.SIGKILL) || sig == uintptr(syscall.SIGSTOP) {
			continue
		}
		_ = do(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&act)), 0, 8)
	}
}

// spare is the number of threads that an init has in reserve. While a command uses all
// allowed processes, no thread can be made, and the runtime stops the program if it needs
// one.
const spare = 6

func spareThreads() {
	var ready, done sync.WaitGroup
	ready.Add(spare)
	for range spare {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			ready.Wait() // each goroutine has a thread of its own
			runtime.UnlockOSThread()
		})
	}
	done.Wait()
}

// readAll returns the whole content of a descriptor, and closes the descriptor.
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

// message is a message of the supervisor with its descriptors.
type message struct {
	kind  byte
	at    int
	ms    int // time of the command, 0: no limit
	files []int
}

type initial struct {
	plan  *Plan
	msgs  chan message
	ready chan<- func() // to a thread that has given up what commands give up, or nil
}

// listen forwards the supervisor's messages. It obeys Terminate at once. When the supervisor
// ends, listen kills everything inside and ends the init.
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
		msg := message{kind: b[0]}
		if n == MessageSize {
			msg.at, msg.ms = int(wire.Get(b[1:5])), int(wire.Get(b[5:MessageSize]))
		}
		if msg.kind == Terminate {
			in.signalAll([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[min(msg.at, 1)])
			continue
		}
		if list, err := syscall.ParseSocketControlMessage(oob[:m]); err == nil && len(list) == 1 {
			msg.files, _ = syscall.ParseUnixRights(&list[0])
		}
		in.msgs <- msg
	}
}

const msgCloexec = 0x40000000

// say sends a report with descriptors. If the report cannot be sent, the supervisor has
// ended, and say ends the init.
func (in *initial) say(r Report, fds ...int) {
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	if err := syscall.Sendmsg(socketFD, r.Encode(), oob, nil, 0); err != nil {
		in.killAll()
		os.Exit(statusOrphan)
	}
}

// perform performs one action and reports how it ended.
func (in *initial) perform(m message) {
	r := Report{Kind: Done, At: uint32(m.at)}
	defer in.drop()
	if m.at >= len(in.plan.Actions) {
		r.Errno = uint32(syscall.EINVAL)
		in.say(r)
		return
	}
	if a := in.plan.Actions[m.at]; len(a.Argv) == 0 {
		in.drop() // a rule for a path that the file brings about would be missing
		if err := in.write(a, m.files); err != nil {
			r.Errno = number(err)
		}
		closeAll(m.files)
	} else {
		in.command(a, m, &r)
		if a.leftScratch() {
			r.Flags |= Scratch
		}
	}
	in.say(r)
}

// leftScratch says whether a folder for temporary files has an entry. In a full sandbox there
// are two; in a confined one, commands cannot write into /dev/shm.
func (a Action) leftScratch() bool {
	const name = "TMPDIR="
	for _, v := range a.Env {
		if len(v) > len(name) && v[:len(name)] == name {
			dir := v[len(name):]
			return hasEntry(dir) || dir == "/tmp" && hasEntry("/dev/shm")
		}
	}
	return true
}

// hasEntry says whether a folder has an entry, or cannot be read.
func hasEntry(dir string) bool {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err != syscall.ENOENT
	}
	defer syscall.Close(fd)
	var b [4096]byte
	n, err := syscall.ReadDirent(fd, b[:])
	_, entries, _ := syscall.ParseDirent(b[:max(n, 0)], 1, nil)
	return err != nil || entries > 0
}

// write writes a file from a thread that has given up what a command gives up, except for
// the filter. No command runs on that thread, and the filter may refuse a call that
// openBeneath needs.
func (in *initial) write(a Action, files []int) (err error) {
	if a.Given != (len(files) == 1) {
		return syscall.EBADF
	}
	onThread(func() {
		c := in.plan.Confine
		c.Seccomp = nil
		if err = c.apply(); err == nil {
			err = a.write(files)
		}
	})
	return err
}

// write puts a file into the work folder. It never follows a link, and it refuses everything
// but a regular file with one name.
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
	fill := func() error { return writeAll(fd, a.Content) }
	if a.Given {
		fill = func() error { return copyAll(fd, given[0]) }
	}
	return inOrder(
		func() error { return syscall.Ftruncate(fd, 0) },
		fill,
		func() error { return syscall.Fchmod(fd, a.Mode) },
	)
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
	if i := bytes.LastIndexByte([]byte(path), '/'); i >= 0 {
		name = path[i+1:]
		if parent, err = openBeneath(root, path[:i], oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0); err != nil {
			return err
		}
		defer syscall.Close(parent)
	}
	return syscall.Mkdirat(parent, name, 0o755)
}

// command runs one command to its end and kills everything that it started.
func (in *initial) command(a Action, m message, r *Report) {
	path, flags := look(a)
	if len(m.files) != 3 && len(m.files) != 4 {
		r.Errno = uint32(syscall.EBADF)
	}
	if r.Flags |= flags; flags != 0 || r.Errno != 0 {
		closeAll(m.files)
		return
	}
	pid, err := in.start(path, a, m.files)
	closeAll(m.files) // otherwise the end of a stream would not be noticed
	if err != nil {
		in.killAll()
		switch {
		case pid < 0:
			r.Errno = number(err) // the thread could not give up what it must
		case err == syscall.ENOENT || err == syscall.ENOTDIR:
			r.Flags |= NotFound // for a script, its interpreter does not exist
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

// watch ends the command when its time is over: SIGTERM, the plan's grace, SIGKILL. The
// supervisor also has a timer. The init's own timer ends the command even if the supervisor
// is stopped.
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

// await reaps children until the one with this pid has ended, and returns its status.
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

// drop ends the thread of the rehearsal, unless it has ended.
func (in *initial) drop() {
	if in.ready != nil {
		close(in.ready)
		in.ready = nil
	}
}

// start forks from a thread that has given up everything, so that the command never has more
// rights, even before it is executed. The thread ends afterwards. For the first action it is
// the thread of the rehearsal. A pid of -1 with an error means that the thread could not give
// up what it must. With a fourth file, of secrets, the command's own process gives up the
// rights: it reads the secrets, and this process does not.
func (in *initial) start(path string, a Action, files []int) (pid int, err error) {
	last := in.plan.Confine.Last || len(files) > 3
	if last {
		in.drop()
	}
	run, giveUp := onThread, in.plan.Confine.giveUp
	if ready := in.ready; ready != nil {
		in.ready = nil
		run = func(f func()) {
			done := make(chan struct{})
			ready <- func() { defer close(done); f() }
			<-done
		}
		giveUp = in.plan.Confine.limit
	}
	run(func() {
		attr := &syscall.ProcAttr{
			Dir: a.Dir, Env: a.Env, Sys: &syscall.SysProcAttr{Setsid: true},
			Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		}
		if last {
			// The filter refuses this fork, or the limits are too small for this process.
			// The command's own process gives up the rights instead.
			pid, err = in.startLast(path, a, attr, files[3:])
			return
		}
		if err = giveUp(); err != nil {
			pid = -1
			return
		}
		pid, err = syscall.ForkExec(path, a.Argv, attr)
	})
	return pid, err
}

// look finds the command as a shell would, in the PATH of its environment.
func look(a Action) (string, uint8) {
	var st syscall.Stat_t
	if err := syscall.Stat(a.Dir, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return "", NotFound
	}
	name := a.Argv[0]
	if bytes.IndexByte([]byte(name), '/') >= 0 {
		path := name
		if name[0] != '/' {
			path = a.Dir + "/" + name
		}
		return name, runnable(path) // the command starts in its folder, so name is correct as it is
	}
	flags := uint8(NotFound)
	for _, e := range a.Env {
		list, ok := bytes.CutPrefix([]byte(e), []byte("PATH="))
		if !ok {
			continue
		}
		for dir := range bytes.SplitSeq(list, []byte(":")) {
			path := string(dir) + "/" + name
			switch runnable(path) {
			case 0:
				return path, 0
			case NotRunnable:
				flags = NotRunnable
			}
		}
	}
	return "", flags
}

// runnable returns 0 for a regular file that somebody may execute, else NotFound or
// NotRunnable.
func runnable(path string) uint8 {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err == syscall.ENOENT || err == syscall.ENOTDIR {
		return NotFound
	} else if err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Mode&0o111 == 0 {
		return NotRunnable
	}
	return 0
}
