//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupHome is a cgroup in one hierarchy below which the caller makes groups.
type cgroupHome struct {
	folder      string
	unified     bool
	controllers []string // those that the limits need and that are there
}

// homes finds the caller's own cgroups that have controllers for some limits, v1 and
// v2 apart. Those of v2 come first where they have memory and pids, as one that was
// delegated to a user does, and otherwise what has more of them, v2 when they are equal.
// None is empty.
func (r cgroupRoot) homes(limits cgroupLimits) [][]cgroupHome {
	mounts := r.cgroupMounts()
	var v1 []cgroupHome
	var v2 [][]cgroupHome
	var n1, n2 int
	own, _ := os.ReadFile(filepath.Join(r.proc, "self", "cgroup"))
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" {
			for _, h := range r.unifiedHomes(mounts, fields[2], limits) {
				v2, n2 = append(v2, []cgroupHome{h}), max(n2, len(h.controllers))
			}
			continue
		}
		controllers := limits.of(strings.Split(fields[1], ","))
		if len(controllers) == 0 {
			continue
		}
		if folder, _ := r.find(mounts, "cgroup", controllers[0], fields[2]); folder != "" {
			v1, n1 = append(v1, cgroupHome{folder, false, controllers}), n1+len(controllers)
		}
	}
	switch {
	case n1 == 0:
		return v2
	case n1 > n2 && !slices.ContainsFunc(v2, func(homes []cgroupHome) bool { return homes[0].bounds() }):
		return append([][]cgroupHome{v1}, v2...)
	}
	return append(v2, v1)
}

// bounds says whether a home has the controllers without which a command can take the
// machine's memory and its processes.
func (h cgroupHome) bounds() bool {
	return slices.Contains(h.controllers, cgroupMemory) && slices.Contains(h.controllers, cgroupPIDs)
}

// unifiedHomes are the caller's own v2 cgroup, or the one above where the caller has
// moved itself out of the way, and then those above it that were delegated to the user,
// as far as they offer controllers to their children already. They serve a caller that
// is not alone in its own.
func (r cgroupRoot) unifiedHomes(mounts []cgroupMount, own string, limits cgroupLimits) []cgroupHome {
	folder, below := r.find(mounts, "cgroup2", "", own)
	if folder == "" {
		return nil
	}
	if filepath.Base(below) == cgroupSelf {
		folder, below = filepath.Dir(folder), filepath.Dir(below)
	}
	var list []cgroupHome
	file := "cgroup.controllers"
	for {
		if controllers := limits.of(readFields(filepath.Join(folder, file))); len(controllers) > 0 {
			list = append(list, cgroupHome{folder, true, controllers})
		}
		if below == "" || below == "/" {
			return list
		}
		folder, below, file = filepath.Dir(folder), filepath.Dir(below), "cgroup.subtree_control"
		if !r.delegated(folder) {
			return list
		}
	}
}

// delegated says whether a v2 cgroup was given to the caller's user, who is not root: its
// owner may make cgroups in it and move processes between them.
func (r cgroupRoot) delegated(folder string) bool {
	for _, name := range []string{folder, filepath.Join(folder, "cgroup.procs")} {
		var st unix.Stat_t
		if r.user == 0 || unix.Stat(name, &st) != nil || int(st.Uid) != r.user {
			return false
		}
	}
	return true
}

// cgroupMount is a place where a hierarchy, or a part of it, is mounted.
type cgroupMount struct {
	kind    string // "cgroup" or "cgroup2"
	root    string // the cgroup that stands there
	point   string
	options []string // of v1 they name the controllers
}

// cgroupMounts are the mounts that can be written to, as mountinfo has them.
func (r cgroupRoot) cgroupMounts() []cgroupMount {
	text, _ := os.ReadFile(filepath.Join(r.proc, "self", "mountinfo"))
	var list []cgroupMount
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		mount, system := strings.Fields(before), strings.Fields(after)
		if len(mount) < 6 || len(system) < 3 || (system[0] != "cgroup" && system[0] != "cgroup2") {
			continue
		}
		options := strings.Split(system[2], ",")
		if slices.Contains(options, "ro") || slices.Contains(strings.Split(mount[5], ","), "ro") {
			continue
		}
		list = append(list, cgroupMount{system[0], unescapeMount(mount[3]), unescapeMount(mount[4]), options})
	}
	return list
}

// unescapeMount undoes what mountinfo does to blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// find is the folder of a cgroup in the last mount of its hierarchy that shows it, for
// that one covers those before, and the cgroup's path below the mount point. The folder
// is empty where none does.
func (r cgroupRoot) find(mounts []cgroupMount, kind, controller, cgroup string) (folder, below string) {
	for _, m := range slices.Backward(mounts) {
		if m.kind != kind || (controller != "" && !slices.Contains(m.options, controller)) {
			continue
		}
		below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(m.root, "/"))
		if !ok || (below != "" && below[0] != '/') || slices.Contains(strings.Split(below, "/"), "..") {
			continue
		}
		folder := filepath.Join(r.files, m.point, below)
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			return folder, below
		}
	}
	return "", ""
}

// enable has a v2 cgroup offer a home's controllers to its children, as far as it can.
// It returns false, and has changed nothing, where the children could have none of
// them: the cgroup holds other processes than the caller, or may not be changed. What
// is enabled stays so: to disable it would lift the limits of every other child.
func (r cgroupRoot) enable(home cgroupHome, self int) bool {
	file := filepath.Join(home.folder, "cgroup.subtree_control")
	enabled := readFields(file)
	wanted := slices.DeleteFunc(slices.Clone(home.controllers), func(c string) bool { return slices.Contains(enabled, c) })
	if len(wanted) == 0 {
		return true
	}
	moved, ok := r.vacate(home.folder, self)
	if !ok {
		return false
	}
	refused := 0
	for _, c := range wanted {
		if r.tree.write(file, "+"+c) != nil {
			refused++
		}
	}
	if refused < len(home.controllers) {
		return true
	}
	if moved {
		r.moveBack(home.folder)
	}
	return false
}

// vacate empties a v2 cgroup that is to limit its children: a caller that is alone in
// it moves into a child. The root of the hierarchy, which has no type, may hold
// processes. Looking first, and not waiting for EBUSY, matters: pids and cpu could be
// enabled without it, and would make every child one that takes no process.
func (r cgroupRoot) vacate(folder string, self int) (moved, ok bool) {
	if _, err := os.Stat(filepath.Join(folder, "cgroup.type")); err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	pids, err := readPIDs(folder)
	if err != nil {
		return false, false
	}
	if len(pids) == 0 {
		return false, true
	}
	if slices.ContainsFunc(pids, func(pid int) bool { return pid != self }) {
		return false, false
	}
	child := filepath.Join(folder, cgroupSelf)
	if err := r.tree.mkdir(child); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, false
	}
	if err := r.tree.write(filepath.Join(child, "cgroup.procs"), "0"); err != nil {
		_ = r.tree.rmdir(child)
		return false, false
	}
	if pids, err := readPIDs(folder); err != nil || len(pids) > 0 {
		r.moveBack(folder)
		return false, false
	}
	return true, true
}

// moveBack undoes vacate.
func (r cgroupRoot) moveBack(folder string) {
	if r.tree.write(filepath.Join(folder, "cgroup.procs"), "0") == nil {
		_ = r.tree.rmdir(filepath.Join(folder, cgroupSelf))
	}
}

// goBack undoes enable and vacate for a caller that is about to end: no process could
// be put into a cgroup that limits its children. Nothing changes where others are in
// cgroups below, for their limits would be lifted.
func (r cgroupRoot) goBack() {
	placing.Lock()
	defer placing.Unlock()
	self, err := r.process("self")
	if err != nil {
		return
	}
	every := cgroupLimits{1, 1, 1}
	for _, homes := range r.homes(every) {
		folder := homes[0].folder
		pids, err := readPIDs(filepath.Join(folder, cgroupSelf))
		if err != nil || !slices.Equal(pids, []int{self.id}) || len(foldersFrom(folder)) > 2 {
			continue
		}
		file := filepath.Join(folder, "cgroup.subtree_control")
		enabled := readFields(file)
		if len(every.of(enabled)) == len(enabled) && r.tree.write(file, "-"+strings.Join(enabled, " -")) == nil {
			r.moveBack(folder)
		}
	}
}
