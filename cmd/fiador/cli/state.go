package cli

import "path/filepath"

// StateFolder returns the folder of what lasts between commands: journals, and what the logs
// of servers have promised. It never lies in a tree that commands work on.
func StateFolder(a *App) (string, error) {
	if dir := a.Env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fiador"), nil
	}
	if home := a.Env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "fiador"), nil
	}
	return "", Usage("set HOME or XDG_STATE_HOME to a folder of yours", "there is no folder for journals")
}
