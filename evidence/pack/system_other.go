//go:build !unix

package pack

import "io/fs"

const nonblock = 0

// sameGroup does nothing: there are no groups here.
func sameGroup(string, fs.FileInfo) error { return nil }

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
