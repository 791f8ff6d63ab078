//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

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
