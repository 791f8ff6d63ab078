//go:build !windows

package saferun

func handle(fd uintptr) int { return int(fd) }
