//go:build !linux

package agents

// alone says that the system has no network for one process: the clients' settings alone keep
// them offline.
func alone() (int, bool) { return 0, false }
