//go:build linux && (amd64 || arm64)

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Home is a cgroup of one hierarchy below which the caller makes groups.
type Home struct {
	Folder      string
	unified     bool
	controllers []string // available controllers that the limits need
}

// Homes returns the caller's own cgroups that have controllers for some limits, v1 and v2
// separately. No list in the result is empty. The cgroups of v2 come first if one of them
// has memory and pids, as one delegated to a user does. Otherwise the version with more
// controllers comes first, v2 if both have the same number.
func (r Root) Homes(limits Limits) [][]Home {
	mounts := r.cgroupMounts()
	var v1 []Home
	var v2 [][]Home
	var n1, n2 int
	own, _ := os.ReadFile(filepath.Join(r.proc, "self", "cgroup"))
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" {
			for _, h := range r.unifiedHomes(mounts, fields[2], limits) {
				v2, n2 = append(v2, []Home{h}), max(n2, len(h.controllers))
			}
			continue
		}
		controllers := limits.of(strings.Split(fields[1], ","))
		if len(controllers) == 0 {
			continue
		}
		if folder, _ := r.find(mounts, "cgroup", controllers[0], fields[2]); folder != "" {
			v1, n1 = append(v1, Home{folder, false, controllers}), n1+len(controllers)
		}
	}
	switch {
	case n1 == 0:
		return v2
	case n1 > n2 && !slices.ContainsFunc(v2, func(homes []Home) bool { return homes[0].bounds() }):
		return append([][]Home{v1}, v2...)
	}
	return append(v2, v1)
}

// bounds says whether a home has the controllers that stop a command from taking all memory
// and processes of the machine.
func (h Home) bounds() bool {
	return slices.Contains(h.controllers, cgroupMemory) && slices.Contains(h.controllers, cgroupPIDs)
}

// unifiedHomes returns the caller's own v2 cgroup, or its parent if the caller has moved
// itself into cgroupSelf. It adds the ancestors that were delegated to the user and already
// offer controllers to their children. A caller that is not alone in its own cgroup uses
// those.
func (r Root) unifiedHomes(mounts []cgroupMount, own string, limits Limits) []Home {
	folder, below := r.find(mounts, "cgroup2", "", own)
	if folder == "" {
		return nil
	}
	if filepath.Base(below) == cgroupSelf {
		folder, below = filepath.Dir(folder), filepath.Dir(below)
	}
	var list []Home
	file := "cgroup.controllers"
	for {
		if controllers := limits.of(readFields(filepath.Join(folder, file))); len(controllers) > 0 {
			list = append(list, Home{folder, true, controllers})
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

// delegated says whether a v2 cgroup was given to the caller's user, who is not root. The
// owner of such a cgroup may make cgroups in it and move processes between them.
func (r Root) delegated(folder string) bool {
	for _, name := range []string{folder, filepath.Join(folder, "cgroup.procs")} {
		var st unix.Stat_t
		if r.user == 0 || unix.Stat(name, &st) != nil || int(st.Uid) != r.user {
			return false
		}
	}
	return true
}

// cgroupMount is a mount of a hierarchy, or of a part of it.
type cgroupMount struct {
	kind    string // "cgroup" or "cgroup2"
	root    string // the cgroup at the mount point
	point   string
	options []string // with v1 they contain the names of the controllers
}

// cgroupMounts returns the writable mounts in mountinfo.
func (r Root) cgroupMounts() []cgroupMount {
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

// unescapeMount decodes the escapes of blanks and backslashes in mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// find returns the folder of a cgroup and the cgroup's path below the mount point. It uses
// the last mount of the hierarchy that shows the cgroup, because a later mount covers
// earlier ones. The folder is empty if no mount shows the cgroup.
func (r Root) find(mounts []cgroupMount, kind, controller, cgroup string) (folder, below string) {
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

// enable makes a v2 cgroup offer a home's controllers to its children, as far as possible.
// It returns false and changes nothing if the children would get none of the controllers.
// This happens if the cgroup holds other processes than the caller, or may not be changed.
// Controllers stay enabled, because disabling one would lift the limits of every other
// child.
func (r Root) enable(home Home, self int) bool {
	file := filepath.Join(home.Folder, "cgroup.subtree_control")
	enabled := readFields(file)
	wanted := slices.DeleteFunc(slices.Clone(home.controllers), func(c string) bool { return slices.Contains(enabled, c) })
	if len(wanted) == 0 {
		return true
	}
	moved, ok := r.vacate(home.Folder, self)
	if !ok {
		return false
	}
	refused := 0
	for _, c := range wanted {
		if r.tree.write(file, "+"+c) != nil {
			refused++
		}
	}
	none := refused == len(home.controllers)
	if none && moved {
		r.moveBack(home.Folder)
	}
	return !none
}

// vacate empties a v2 cgroup that will limit its children: a caller that is alone in it
// moves into a child. The root of the hierarchy, which has no type, may hold processes.
// vacate checks first and does not wait for EBUSY. Without the check, pids and cpu could be
// enabled, and no child could then hold a process.
func (r Root) vacate(folder string, self int) (moved, ok bool) {
	if _, err := os.Stat(filepath.Join(folder, "cgroup.type")); err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	pids, err := readPIDs(folder)
	switch {
	case err != nil || slices.ContainsFunc(pids, func(pid int) bool { return pid != self }):
		return false, false
	case len(pids) == 0:
		return false, true
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
func (r Root) moveBack(folder string) {
	if r.tree.write(filepath.Join(folder, "cgroup.procs"), "0") == nil {
		_ = r.tree.rmdir(filepath.Join(folder, cgroupSelf))
	}
}

// GoBack undoes enable and vacate for a caller that is about to end. Otherwise no process
// could be put into its cgroup, which limits its children. If other cgroups exist below,
// GoBack changes nothing, because it would lift their limits.
func (r Root) GoBack() {
	placing.Lock()
	defer placing.Unlock()
	self, err := r.process("self")
	if err != nil {
		return
	}
	every := Limits{1, 1, 1}
	for _, homes := range r.Homes(every) {
		folder := homes[0].Folder
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
