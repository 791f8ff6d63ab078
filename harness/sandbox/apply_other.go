//go:build !(linux && (amd64 || arm64))

package sandbox

import "time"

// Apply is refused.
func Apply(string, string, []Change, Content, time.Time) error { return unsupported() }

// Recover finds nothing: nothing is ever applied here.
func Recover(string, string) (Recovery, error) { return RecoveredNothing, nil }

// Rebase is refused.
func Rebase(string, []Change, time.Time) ([]Change, error) { return nil, unsupported() }
