//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"io/fs"
	"time"
)

// Apply is refused.
func Apply(context.Context, string, string, []Change, Content, time.Time) error { return unsupported() }

// ApplySeen is refused.
func ApplySeen(context.Context, string, string, []Change, Content, Looked) error {
	return unsupported()
}

// SeenOf tells less here: neither device nor inode.
func SeenOf(info fs.FileInfo) *Seen {
	s := &Seen{Kind: KindOther, Size: info.Size(), ChangedNS: info.ModTime().UnixNano()}
	switch {
	case info.Mode().IsRegular():
		s.Kind = KindFile
	case info.IsDir():
		s.Kind = KindFolder
	case info.Mode()&fs.ModeSymlink != 0:
		s.Kind = KindLink
	}
	return s
}

// Recover finds nothing: nothing is ever applied here.
func Recover(context.Context, string, string) (Recovery, error) { return RecoveredNothing, nil }

// Unfinished finds nothing.
func Unfinished(context.Context, string, string) (bool, error) { return false, nil }

// CanApply says that nothing is applied here.
func CanApply() error { return unsupported() }
