//go:build !unix

package git

import "syscall"

// attributes returns the attributes of a git process in a folder: none on this system.
func attributes(string) (attr *syscall.SysProcAttr, owner bool, err error) { return nil, false, nil }
