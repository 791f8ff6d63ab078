//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupLimits are the limits of a group. What is not positive is not set.
type cgroupLimits struct {
	memory int64 // bytes, swap included
	tasks  int   // processes and threads
	cpus   int   // processors' worth of time
}

// of says which of some controllers the limits need.
func (l cgroupLimits) of(controllers []string) []string {
	var list []string
	for _, c := range [...]struct {
		name string
		set  bool
	}{{cgroupMemory, l.memory > 0}, {cgroupPIDs, l.tasks > 0}, {cgroupCPU, l.cpus > 0}} {
		if c.set && slices.Contains(controllers, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}

// limit sets the limits of some controllers on a folder and returns the controllers
// whose limit holds.
func (g *group) limit(folder string, controllers []string, l cgroupLimits) []string {
	var held []string
	for _, c := range controllers {
		var err error
		switch c {
		case cgroupMemory:
			if err = g.limitMemory(folder, l.memory); err == nil {
				g.held.memory = l.memory
			}
		case cgroupPIDs:
			if err = g.write(folder, "pids.max", int64(l.tasks)); err == nil {
				g.held.tasks = l.tasks
			}
		case cgroupCPU:
			if err = g.limitCPU(folder, l.cpus); err == nil {
				g.held.cpus = l.cpus
			}
		}
		if err == nil {
			held = append(held, c)
		}
	}
	return held
}

func (g *group) write(folder, file string, n int64) error {
	return g.root.tree.write(filepath.Join(folder, file), strconv.FormatInt(n, 10))
}

// limitMemory bounds memory and swap together. A limit that swap would widen is an
// error.
func (g *group) limitMemory(folder string, bytes int64) error {
	if g.unified {
		// Without it one process dies instead of all; the limit holds all the same.
		_ = g.write(folder, "memory.oom.group", 1)
		err := g.write(folder, "memory.swap.max", 0)
		if err != nil && !(missing(err) && g.root.swapless()) {
			return err
		}
		return g.write(folder, "memory.max", bytes)
	}
	// Inherited from the parent: who reaches the limit would wait for ever.
	if readKey(filepath.Join(folder, "memory.oom_control"), "oom_kill_disable") == 1 {
		if err := g.write(folder, "memory.oom_control", 0); err != nil {
			return err
		}
	}
	if err := g.write(folder, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	err := g.write(folder, "memory.memsw.limit_in_bytes", bytes)
	if missing(err) {
		return g.write(folder, "memory.swappiness", 0)
	}
	return err
}

// missing says whether a file is not there, or is and does nothing: the kernel does not
// count swap.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)
}

// swapless says whether the machine has nowhere to swap to.
func (r cgroupRoot) swapless() bool {
	text, err := os.ReadFile(filepath.Join(r.proc, "swaps"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.Count(strings.TrimSpace(string(text)), "\n") == 0
}

func (g *group) limitCPU(folder string, cpus int) error {
	if g.unified {
		return g.root.tree.write(filepath.Join(folder, "cpu.max"), fmt.Sprintf("%d %d", cpus*cgroupPeriod, cgroupPeriod))
	}
	period, err := readNumber(filepath.Join(folder, "cpu.cfs_period_us"))
	if err != nil {
		return err
	}
	return g.write(folder, "cpu.cfs_quota_us", int64(cpus)*period)
}

// memory says whether the limit of memory and swap of all processes together holds.
func (g *group) memory() bool { return g.held.memory > 0 }

// pids says whether the limit of processes and threads holds.
func (g *group) pids() bool { return g.held.tasks > 0 }

// cpu says whether the limit of processor time holds.
func (g *group) cpu() bool { return g.held.cpus > 0 }

// oomKills is how many processes of the group the kernel has killed for want of
// memory, whether here or further up. 0 where memory does not hold.
func (g *group) oomKills() int {
	file := "memory.oom_control"
	if g.unified {
		file = "memory.events"
	}
	var n int64
	g.inMemory(func(folder string) { n = readKey(filepath.Join(folder, file), "oom_kill") })
	return int(n)
}

// peak is the most memory that the group has used at a time, in bytes, or 0 where that
// is not known (v2 before kernel 5.19).
func (g *group) peak() int64 {
	file := "memory.max_usage_in_bytes"
	if g.unified {
		file = "memory.peak"
	}
	var n int64
	g.inMemory(func(folder string) { n, _ = readNumber(filepath.Join(folder, file)) })
	return n
}

// inMemory calls read with the folder of the memory controller, if the group has one
// that is not closed.
func (g *group) inMemory(read func(folder string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	for _, f := range g.folders {
		if slices.Contains(f.controllers, cgroupMemory) {
			read(f.path)
		}
	}
}
