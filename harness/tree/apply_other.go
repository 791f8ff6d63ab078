//go:build !(linux && (amd64 || arm64))

package tree

import (
	"context"
	"errors"
	"time"

	"github.com/fiador/fiador/harness/change"
)

// Apply returns an error on this system.
func Apply(context.Context, string, string, []change.Change, Content, time.Time) error {
	return errUnsupported
}

// ApplySeen returns an error on this system.
func ApplySeen(context.Context, string, string, []change.Change, Content, Looked) error {
	return errUnsupported
}

// Recover finds nothing, because nothing is ever applied on this system.
func Recover(context.Context, string, string) (Recovery, error) { return RecoveredNothing, nil }

// Unfinished returns false.
func Unfinished(context.Context, string, string) (bool, error) { return false, nil }

// CanApply returns an error on this system.
func CanApply() error { return errUnsupported }

var errUnsupported = errors.New("changes are applied to folders on Linux (amd64, arm64) alone")
