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

// sweepGroups kills and removes the groups below the caller's own cgroup whose maker is
// gone. It leaves those that somebody holds open, and those of others that it may not
// remove; an error says that one stayed.
func sweepGroups(root cgroupRoot) error {
	// Without processes to look at, every maker would seem gone.
	if _, err := root.process("self"); err != nil {
		return nil
	}
	var failed []error
	for _, homes := range root.homes(cgroupLimits{1, 1, 1}) {
		for _, name := range root.orphans(homes) {
			if err := root.sweep(homes, name); err != nil && !errors.Is(err, fs.ErrPermission) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// orphans are the names of groups in some homes whose maker is gone, sorted.
func (r cgroupRoot) orphans(homes []cgroupHome) []string {
	var names []string
	for _, h := range homes {
		entries, _ := os.ReadDir(h.folder)
		for _, e := range entries {
			name, ok := parseCgroupName(e.Name())
			if ok && e.IsDir() && r.gone(name) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sweep removes one group, unless somebody holds it open.
func (r cgroupRoot) sweep(homes []cgroupHome, name string) error {
	g := &group{root: r, unified: homes[0].unified}
	for _, h := range homes {
		f, err := openFolder(filepath.Join(h.folder, name), unix.LOCK_EX)
		switch {
		case err == nil:
			g.folders = append(g.folders, f)
		case !errors.Is(err, fs.ErrNotExist):
			for _, f := range g.folders {
				f.dir.Close()
			}
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil
			}
			return err
		}
	}
	return g.close()
}

// cgroupName names the folders of a group after its maker. Groups of one process
// differ in n.
type cgroupName struct {
	pid   int
	start uint64 // of the maker, in ticks since boot
	n     int
}

func (c cgroupName) String() string {
	return fmt.Sprintf("%s%d-%d-%d", cgroupPrefix, c.pid, c.start, c.n)
}

// parseCgroupName accepts what String writes and nothing else.
func parseCgroupName(s string) (cgroupName, bool) {
	var c cgroupName
	parts := strings.Split(strings.TrimPrefix(s, cgroupPrefix), "-")
	if len(parts) != 3 {
		return cgroupName{}, false
	}
	c.pid, _ = strconv.Atoi(parts[0])
	c.start, _ = strconv.ParseUint(parts[1], 10, 64)
	c.n, _ = strconv.Atoi(parts[2])
	if c.pid <= 0 || c.n < 0 || c.String() != s {
		return cgroupName{}, false
	}
	return c, true
}

// procState tells a process from a later one that has its id.
type procState struct {
	id    int
	start uint64 // ticks since boot
	dead  bool   // it has ended and nobody has waited for it
}

// process looks at a process by its id, or at "self".
func (r cgroupRoot) process(id string) (procState, error) {
	text, err := os.ReadFile(filepath.Join(r.proc, id, "stat"))
	if err != nil {
		return procState{}, err
	}
	return parseProcState(string(text))
}

// parseProcState reads /proc/PID/stat. The name of the program, the second field, may
// hold anything, brackets and blanks included.
func parseProcState(stat string) (procState, error) {
	bad := fmt.Errorf("not the state of a process: %q", stat)
	id, _, _ := strings.Cut(stat, " ")
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 20 {
		return procState{}, bad
	}
	pid, err := strconv.Atoi(id)
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	if err != nil || err2 != nil {
		return procState{}, bad
	}
	return procState{pid, start, fields[0] == "Z" || fields[0] == "X"}, nil
}

// gone says whether the maker of a group has certainly ended, as far as this pid
// namespace can tell.
func (r cgroupRoot) gone(name cgroupName) bool {
	p, err := r.process(strconv.Itoa(name.pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return p.dead || p.start != name.start
}
