//go:build !linux

package policy

// limitData does nothing where the data of a process cannot be bounded.
func limitData() (undo func()) { return func() {} }
