//go:build linux && (amd64 || arm64)

package sandbox

import "golang.org/x/sys/unix"

// Platform returns the release of the kernel and the version of Landlock, 0 for none.
func Platform() (release string, landlock int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return release, landlockVersion()
}
