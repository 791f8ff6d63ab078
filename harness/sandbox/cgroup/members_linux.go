//go:build linux && (amd64 || arm64)

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Start calls f, which starts a process, so that the process begins in the group. With v1, a
// thread enters the group for this and comes back. A thread can move itself cheaply, but
// moving another process waits for all processors.
func (g *Group) Start(f func() error) error {
	if g.unified {
		return f()
	}
	done := make(chan error)
	go g.onThread(f, done)
	return <-done
}

// onThread calls f on a thread that enters the group. It never uses the first thread,
// because /proc/self shows that thread's cgroup as the cgroup of the process.
func (g *Group) onThread(f func() error, done chan<- error) {
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
		runtime.UnlockOSThread() // otherwise the runtime ends this thread, which is still in the group
	}
	done <- err
}

// visit moves the calling thread into the group.
func (g *Group) visit() error {
	for _, folder := range g.folders {
		if err := g.write(folder.path, "tasks", 0); err != nil {
			return fmt.Errorf("cannot enter cgroup %q: %w", folder.path, err)
		}
	}
	return nil
}

// leave moves the calling thread back to the cgroup in which the group was made.
func (g *Group) leave() error {
	for _, folder := range g.folders {
		if err := g.write(filepath.Dir(folder.path), "tasks", 0); err != nil {
			return err
		}
	}
	return nil
}

// Descriptor returns the open folder of a v2 group, for SysProcAttr.CgroupFD. A process that
// starts with it begins in the group. Descriptor returns -1 with v1, and after Kill and Close.
// Since Linux 6.14, the kernel kills a process that starts from outside in a cgroup after
// cgroup.kill was used on it. It compares kill_seq with that of the parent's own cgroup.
func (g *Group) Descriptor() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.unified || g.closed || g.killed {
		return -1
	}
	return int(g.folders[0].dir.Fd())
}

// Kill sends SIGKILL to every process of the group. The group can be used again. With v2 the
// kernel does this in one step. With v1, Kill returns when the group is empty, or after at
// least a fifth of a second. Meanwhile no process can multiply where the pids limit is in
// force.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.killMembers()
	}
}

func (g *Group) killMembers() {
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
	if g.Held.Tasks > 0 {
		g.limitTasks(g.Held.Tasks)
	}
}

// limitTasks changes the limit on processes if the group has the controller.
func (g *Group) limitTasks(n int) {
	for _, f := range g.folders {
		_ = g.write(f.path, "pids.max", int64(n))
	}
}

// killMember kills a process if it is still in the group. It opens the process first, so
// that the id cannot belong to another process.
func (g *Group) killMember(pid int) {
	if pid == os.Getpid() {
		return // a thread of this process visits the group
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

// members returns the processes of the group and of all cgroups below it, as far as this pid
// namespace has ids for them.
func (g *Group) members() []int {
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
