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

// Sweep kills and removes the groups below the caller's own cgroup whose maker has ended. It
// leaves groups that a process holds open, and groups of other users that it may not remove.
// An error says that another group remains.
func Sweep(root Root) error {
	// Without a readable /proc, every maker would seem to have ended.
	if _, err := root.process("self"); err != nil {
		return nil
	}
	var failed []error
	for _, homes := range root.Homes(Limits{1, 1, 1}) {
		for _, name := range root.Orphans(homes) {
			if err := root.sweep(homes, name); err != nil && !errors.Is(err, fs.ErrPermission) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// Orphans returns the names of groups in homes whose maker has ended, sorted.
func (r Root) Orphans(homes []Home) []string {
	var names []string
	for _, h := range homes {
		entries, _ := os.ReadDir(h.Folder)
		for _, e := range entries {
			name, ok := ParseName(e.Name())
			if ok && e.IsDir() && r.gone(name) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sweep removes one group, unless a process holds it open.
func (r Root) sweep(homes []Home, name string) error {
	g := &Group{root: r, unified: homes[0].unified}
	for _, h := range homes {
		f, err := openFolder(filepath.Join(h.Folder, name), unix.LOCK_EX)
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
	return g.Close()
}

// Name is the name of a group's folders, after its maker. Groups of one process differ in n.
type Name struct {
	PID   int
	start uint64 // start time of the maker, in ticks since boot
	n     int
}

// String returns the name of the folders.
func (c Name) String() string {
	return fmt.Sprintf("%s%d-%d-%d", Prefix, c.PID, c.start, c.n)
}

// ParseName accepts exactly what String returns.
func ParseName(s string) (Name, bool) {
	var c Name
	parts := strings.Split(strings.TrimPrefix(s, Prefix), "-")
	if len(parts) != 3 {
		return Name{}, false
	}
	c.PID, _ = strconv.Atoi(parts[0])
	c.start, _ = strconv.ParseUint(parts[1], 10, 64)
	c.n, _ = strconv.Atoi(parts[2])
	if c.PID <= 0 || c.n < 0 || c.String() != s {
		return Name{}, false
	}
	return c, true
}

// procState distinguishes a process from a later one with the same id.
type procState struct {
	id    int
	start uint64 // ticks since boot
	dead  bool   // the process has ended and its parent has not waited for it
}

// process reads the state of a process by its id, or of "self".
func (r Root) process(id string) (procState, error) {
	text, err := os.ReadFile(filepath.Join(r.proc, id, "stat"))
	if err != nil {
		return procState{}, err
	}
	return parseProcState(string(text))
}

// parseProcState parses /proc/PID/stat. The second field, the name of the program, may
// contain anything, also parentheses and blanks.
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

// gone says whether the maker of a group has certainly ended, as far as this pid namespace
// can tell.
func (r Root) gone(name Name) bool {
	p, err := r.process(strconv.Itoa(name.PID))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return p.dead || p.start != name.start
}
