//go:build !unix

package pack

const nonblock = 0

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
