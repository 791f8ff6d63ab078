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

// foreignLook is the number of names in a work folder that Foreign examines.
const foreignLook = 20_000

// Foreign returns the first file of the work folder that commands own and may write, but
// that has a group the sandbox does not have. The kernel does not copy such a file up. group
// is the number of that group.
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

// owners returns the user and the group of the files that commands own in the work folder.
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

// Reserved returns the file that a command's name resolves to. found says that its owner or
// group may execute the file, but commands may not, because they run as others. dir is the
// folder in which the command starts.
func (s *Sandbox) Reserved(name, dir string) (file string, found bool) {
	var places []string
	ours := -1 // owner of the files that commands execute as their owner
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
