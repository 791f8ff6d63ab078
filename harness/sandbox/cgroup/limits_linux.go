//go:build linux && (amd64 || arm64)

package cgroup

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

// Limits are the limits of a group. A value that is not positive is not set.
type Limits struct {
	Memory int64 // bytes, swap included
	Tasks  int   // processes and threads
	CPUs   int   // processor time, in whole processors
}

// of returns those of the controllers that the limits need.
func (l Limits) of(controllers []string) []string {
	var list []string
	for _, c := range [...]struct {
		name string
		set  bool
	}{{cgroupMemory, l.Memory > 0}, {cgroupPIDs, l.Tasks > 0}, {cgroupCPU, l.CPUs > 0}} {
		if c.set && slices.Contains(controllers, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}

// limit sets the limits of some controllers on a folder and returns the controllers whose
// limit is in force.
func (g *Group) limit(folder string, controllers []string, l Limits) []string {
	var held []string
	for _, c := range controllers {
		var err error
		switch c {
		case cgroupMemory:
			if err = g.limitMemory(folder, l.Memory); err == nil {
				g.Held.Memory = l.Memory
			}
		case cgroupPIDs:
			if err = g.write(folder, "pids.max", int64(l.Tasks)); err == nil {
				g.Held.Tasks = l.Tasks
			}
		case cgroupCPU:
			if err = g.limitCPU(folder, l.CPUs); err == nil {
				g.Held.CPUs = l.CPUs
			}
		}
		if err == nil {
			held = append(held, c)
		}
	}
	return held
}

func (g *Group) write(folder, file string, n int64) error {
	return g.root.tree.write(filepath.Join(folder, file), strconv.FormatInt(n, 10))
}

// limitMemory bounds memory and swap together. It returns an error if swap would extend the
// limit.
func (g *Group) limitMemory(folder string, bytes int64) error {
	if g.unified {
		// If this write fails, the kernel kills one process instead of all; the limit still
		// applies.
		_ = g.write(folder, "memory.oom.group", 1)
		err := g.write(folder, "memory.swap.max", 0)
		if err != nil && !(missing(err) && g.root.swapless()) {
			return err
		}
		return g.write(folder, "memory.max", bytes)
	}
	// A parent can pass this on: a process that reaches the limit would then wait forever.
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

// missing says whether a file is missing or has no effect, because the kernel does not count
// swap.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)
}

// swapless says whether the machine has no swap space.
func (r Root) swapless() bool {
	text, err := os.ReadFile(filepath.Join(r.proc, "swaps"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.Count(strings.TrimSpace(string(text)), "\n") == 0
}

// limitCPU bounds processor time to that of some whole processors.
func (g *Group) limitCPU(folder string, cpus int) error {
	if g.unified {
		return g.root.tree.write(filepath.Join(folder, "cpu.max"), fmt.Sprintf("%d %d", cpus*cgroupPeriod, cgroupPeriod))
	}
	period, err := readNumber(filepath.Join(folder, "cpu.cfs_period_us"))
	if err != nil {
		return err
	}
	return g.write(folder, "cpu.cfs_quota_us", int64(cpus)*period)
}

// Memory says whether the limit on memory and swap of all processes together is in force.
func (g *Group) Memory() bool { return g.Held.Memory > 0 }

// PIDs says whether the limit on processes and threads is in force.
func (g *Group) PIDs() bool { return g.Held.Tasks > 0 }

// CPU says whether the limit on processor time is in force.
func (g *Group) CPU() bool { return g.Held.CPUs > 0 }

// OOMKills returns how many processes of the group the kernel has killed for lack of memory,
// in this cgroup or an ancestor. It returns 0 where no memory limit is in force.
func (g *Group) OOMKills() int {
	file := "memory.oom_control"
	if g.unified {
		file = "memory.events"
	}
	var n int64
	g.inMemory(func(folder string) { n = readKey(filepath.Join(folder, file), "oom_kill") })
	return int(n)
}

// Peak returns the largest memory use of the group at one time, in bytes. It returns 0 where
// that is unknown (v2 before kernel 5.19).
func (g *Group) Peak() int64 {
	file := "memory.max_usage_in_bytes"
	if g.unified {
		file = "memory.peak"
	}
	var n int64
	g.inMemory(func(folder string) { n, _ = readNumber(filepath.Join(folder, file)) })
	return n
}

// inMemory calls read with the folder of the memory controller, if the group is open and has
// one.
func (g *Group) inMemory(read func(folder string)) {
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
