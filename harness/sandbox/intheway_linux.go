//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// foreignLook is how many names of a work folder Foreign looks at.
const foreignLook = 20_000

// Foreign is the first file of the work folder that commands could write but for its group,
// which the sandbox does not have: the kernel copies no such file up. Group is its number.
func (s *Sandbox) Foreign() (name string, group int, found bool) {
	if s.staging != stageOverlay || s.req.Work == "" || s.req.Show != nil {
		return "", 0, false
	}
	uid, gid := s.owners()
	left := foreignLook
	_ = filepath.WalkDir(s.req.Work, func(p string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) != uid || int(st.Gid) == gid || st.Mode&0o200 == 0 {
			return nil
		}
		name, _ = filepath.Rel(s.req.Work, p)
		group, found = int(st.Gid), true
		return fs.SkipAll
	})
	return name, group, found
}

// owners are the user and the group of the files that commands own in the work folder.
func (s *Sandbox) owners() (uid, gid int) {
	if s.id == 0 {
		return os.Geteuid(), os.Getegid()
	}
	info, err := os.Stat(s.req.Work)
	if err != nil {
		return -1, -1
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// Reserved is the file that a command's name stands for, if its owner or group may execute
// it and others, as which the command is started, may not. Dir is where it starts.
func (s *Sandbox) Reserved(name, dir string) (file string, found bool) {
	var places []string
	ours := -1 // who owns files that commands can execute as their owner
	switch {
	case !strings.Contains(name, "/"):
		for p := range strings.SplitSeq(searchPath, ":") {
			places = append(places, path.Join(p, name))
		}
	case path.IsAbs(name) && !strings.HasPrefix(name, WorkDir+"/"):
		places = []string{name}
	default:
		if !path.IsAbs(name) {
			name = path.Join(WorkDir, dir, name)
		}
		places = []string{filepath.Join(s.req.Work, strings.TrimPrefix(name, WorkDir))}
		ours, _ = s.owners()
	}
	if s.id == 0 {
		ours = os.Geteuid()
	}
	for _, p := range places {
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		reserved := info.Mode()&0o110 != 0 && info.Mode()&0o001 == 0 && int(info.Sys().(*syscall.Stat_t).Uid) != ours
		return p, reserved
	}
	return "", false
}
