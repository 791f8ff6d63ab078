//go:build linux && (amd64 || arm64)

package sandbox

import "golang.org/x/sys/unix"

// Platform is the release of the system's kernel, and the version of Landlock that it
// has, 0 for none.
func Platform() (release string, landlock int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return release, landlockVersion()
}
