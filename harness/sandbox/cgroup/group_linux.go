//go:build linux && (amd64 || arm64)

// Package cgroup makes a cgroup for one sandbox, v1 or v2, and limits memory, processes and
// processor time in it. It owns the names of its folders, and removes those whose maker has
// ended (Sweep).
package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The controllers that a group uses. Memory comes first: after pids or cpu are enabled in a
// cgroup that holds processes, v2 refuses memory there.
const (
	cgroupMemory = "memory"
	cgroupPIDs   = "pids"
	cgroupCPU    = "cpu"
)

const (
	// Prefix begins the name of every folder that this package makes.
	Prefix = "fiador-"
	// cgroupSelf is the child cgroup into which the caller moves itself when v2 requires an
	// empty parent.
	cgroupSelf = Prefix + "self"
	// cgroupPeriod is the default cpu period of v2, in microseconds.
	cgroupPeriod = 100_000
	// cgroupNames is the largest number of groups of one process at a time.
	cgroupNames = 1 << 16
)

// Root is the machine as this package sees it. The zero value has no cgroups.
type Root struct {
	files string // prefix of every mount point
	proc  string // the folder /proc
	user  int    // user whose delegated cgroups are used
	tree  fileSystem
}

// Machine returns the machine that the caller runs on.
func Machine() Root {
	return Root{files: "/", proc: "/proc", user: os.Geteuid(), tree: kernelTree{}}
}

// Group is the cgroup of one sandbox: one folder with v2, one folder per hierarchy with v1.
// Its folders are locked (flock, shared) while it is open. The lock tells a sweeper in
// another pid namespace that the maker lives. Methods may be called concurrently; after
// Close they do nothing.
type Group struct {
	root    Root
	unified bool
	Held    Limits // the limits that are in force; zero: not in force

	mu      sync.Mutex
	closed  bool
	killed  bool           // by cgroup.kill
	folders []cgroupFolder // in the order they were made
}

// cgroupFolder is a folder of a group, open and locked.
type cgroupFolder struct {
	path        string
	dir         *os.File
	controllers []string // controllers with a limit in force
}

// Open makes a group below the caller's own cgroup, or below an ancestor that was delegated
// to the user, in the order of Homes. A limit that is not positive is not set. A limit that
// could not be set is not held (Memory, PIDs, CPU). If no limit is held, Open returns nil,
// nil and leaves no folder of a group. An error says that folders were made that can be
// neither used nor removed.
//
// With v2, a caller that is alone in its cgroup moves into a child of it (cgroupSelf). It
// stays there until GoBack, because the kernel requires a cgroup that limits its children to
// hold no processes of its own.
func Open(root Root, memoryBytes int64, tasks int, cpus int) (*Group, error) {
	placing.Lock()
	defer placing.Unlock()
	limits := Limits{memoryBytes, tasks, cpus}
	self, err := root.process("self")
	if err != nil {
		return nil, nil
	}
	for _, homes := range root.Homes(limits) {
		if homes[0].unified && !root.enable(homes[0], self.id) {
			continue
		}
		g, err := root.newGroup(homes, limits, self)
		if g != nil || err != nil {
			return g, err
		}
	}
	return nil, nil
}

// placing is held while a caller prepares its own cgroup for a group, or leaves it.
var placing sync.Mutex

// newGroup makes a group in homes under the first name that is free in all of them.
func (r Root) newGroup(homes []Home, limits Limits, self procState) (*Group, error) {
	for n := range cgroupNames {
		g := &Group{root: r, unified: homes[0].unified}
		err := g.fill(homes, Name{self.id, self.start, n}.String(), limits)
		switch {
		case err == nil && len(g.folders) > 0:
			return g, nil
		case err == nil:
			return nil, nil
		}
		if closed := g.Close(); closed != nil || !errors.Is(err, unix.EEXIST) {
			return nil, cmp.Or(closed, err)
		}
	}
	return nil, nil
}

// fill makes the folders of a group. It returns EEXIST if the name is taken.
func (g *Group) fill(homes []Home, name string, limits Limits) error {
	for _, h := range homes {
		path := filepath.Join(h.Folder, name)
		switch err := g.root.tree.mkdir(path); {
		case errors.Is(err, unix.EEXIST):
			return err
		case err != nil:
			continue
		}
		f, err := openFolder(path, unix.LOCK_SH)
		if err == nil && g.usable(path) {
			f.controllers = g.limit(path, h.controllers, limits)
		}
		if len(f.controllers) > 0 {
			g.folders = append(g.folders, f)
			continue
		}
		f.dir.Close()
		if err := g.root.tree.rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cannot remove cgroup %q: %w", path, err)
		}
	}
	return nil
}

// usable says whether a new folder can hold processes. A folder below a threaded v2 cgroup
// cannot.
func (g *Group) usable(folder string) bool {
	kind, err := os.ReadFile(filepath.Join(folder, "cgroup.type"))
	return !g.unified || err != nil || strings.TrimSpace(string(kind)) == "domain"
}

// openFolder opens and locks the folder of a group. The kernel releases the lock when the
// process ends, however it ends.
func openFolder(path string, lock int) (cgroupFolder, error) {
	f := cgroupFolder{path: path}
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return f, err
	}
	if _, err := uninterrupted(func() (int, error) { return 0, unix.Flock(int(dir.Fd()), lock|unix.LOCK_NB) }); err != nil {
		dir.Close()
		return f, err
	}
	f.dir = dir
	return f, nil
}

// Close kills the remaining processes of the group and removes its folders. It removes the
// first folder last, because that folder keeps the name taken. It tries for about two
// seconds, longer where v1 cannot kill a process. After an error the group is closed and its
// folders are left to Sweep. A second Close does nothing.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	defer func() {
		for _, f := range g.folders {
			f.dir.Close()
		}
	}()
	for wait := time.Millisecond; ; wait *= 2 {
		err := g.remove()
		if err == nil || wait > time.Second || !errors.Is(err, unix.EBUSY) {
			return err
		}
		g.killMembers()
		time.Sleep(wait)
	}
}

// remove removes the empty folders. It returns an error at the first folder that it cannot
// remove.
func (g *Group) remove() error {
	for _, f := range slices.Backward(g.folders) {
		err := g.root.tree.rmdir(f.path)
		if errors.Is(err, unix.EBUSY) {
			for _, folder := range slices.Backward(foldersFrom(f.path)) {
				err = g.root.tree.rmdir(folder)
			}
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cannot remove cgroup %q: %w", f.path, err)
		}
	}
	return nil
}
