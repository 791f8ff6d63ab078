//go:build unix

package verify

import "syscall"

// makeOther makes an entry that is no file, folder or link.
func makeOther(path string) error { return syscall.Mkfifo(path, 0o600) }
