//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package settings

import (
	"context"
	"io/fs"
	"os"
)

// foreign says nothing: a file tells neither its owner nor its links here.
func foreign(fs.FileInfo) string { return "" }

// keepGroup does nothing: files have no group here.
func keepGroup(*os.File, fs.FileInfo) error { return nil }

// lock does nothing: a folder cannot be locked here.
func lock(context.Context, *os.File) error { return nil }
