package ledgers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestLedgerErrorsHavePlainNames: an error of a ledger names files relative to its folder,
// and does not show the place of that folder.
func TestLedgerErrorsHavePlainNames(t *testing.T) {
	const dir = "/srv/secret/gate"
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "lstat", Path: dir, Err: syscall.ENOENT}, "no such file"},
		{&fs.PathError{Op: "write", Path: dir + "/ledger.jsonl", Err: syscall.ENOSPC}, "ledger.jsonl: no space left on device"},
		{&fs.PathError{Op: "openat", Path: ".state/head", Err: syscall.EACCES}, ".state/head: permission denied"},
		{&fs.PathError{Op: "open", Path: "/srv/secret/other", Err: syscall.EACCES}, "other: permission denied"},
		{&os.LinkError{Op: "rename", Old: dir + "/a.next", New: dir + "/a", Err: syscall.EIO}, "a: input/output error"},
		{os.NewSyscallError("fdatasync", syscall.EIO), "input/output error"},
		{fmt.Errorf("the entry could not be written: %w", &fs.PathError{Op: "write", Path: dir + "/ledger.jsonl", Err: syscall.EIO}), "the entry could not be written: ledger.jsonl: input/output error"},
		{
			errors.Join(&fs.PathError{Op: "write", Path: dir + "/a", Err: syscall.EIO}, fmt.Errorf("%w: %w", errors.New("x"), &fs.PathError{Op: "fsync", Path: dir + "/b", Err: syscall.EIO})),
			"a: input/output error; x: b: input/output error",
		},
		{errors.New("it is a link"), "it is a link"},
	} {
		if got := WithoutPaths(tc.err, dir); got != tc.want {
			t.Errorf("%q: %q instead of %q", tc.err, got, tc.want)
		}
		if got := (&recordingError{tc.err}).Error(); strings.Contains(got, "secret") || strings.Contains(got, "\n") {
			t.Errorf("%q: %q", tc.err, got)
		}
	}
}
