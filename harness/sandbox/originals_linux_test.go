//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// TestDeltaStaysInside: a list whose paths pass a link of the same list makes nothing outside.
func TestDeltaStaysInside(t *testing.T) {
	base, _ := deltaBase(t)
	outside := base + "/outside"
	realHost(t, base, "mkdir outside; ln -s ../outside link")
	for i, target := range []string{outside, "../outside", "../link"} {
		err := WriteDelta(fmt.Sprint(base, "/delta", i), []change.Change{
			{Path: "a", Kind: change.KindLink, Target: target}, {Path: "a/x", Kind: change.KindDeleted},
		}, Delta{Hides: func(string) bool { return true }})
		if list, readErr := os.ReadDir(outside); err == nil || readErr != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v (%v)", target, err, list, readErr)
		}
	}
}

// TestOriginalsUnread: what cannot be read is an error, unless commands cannot see it. What is
// gone, and what lies beneath something that is no folder, is no entry.
func TestOriginalsUnread(t *testing.T) {
	base, _ := deltaBase(t)
	list := func(r Request) (string, error) {
		var paths []string
		err := r.Originals(func(o Original, _ func() (*os.File, error)) error {
			paths = append(paths, o.Path)
			return nil
		})
		return strings.Join(paths, " "), err
	}
	realHost(t, base, "mkdir delta; ln -s top delta/a; echo >delta/f; mknod delta/h c 0 0")
	over := Request{Work: base + "/work", Delta: base + "/delta"}
	if got, err := list(over); err != nil || got != "a f e link odd name run to-a top" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := (layers{-2}).names(".", true); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	if _, _, err := (layers{-2}).look("a"); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return // who can read everything
	}
	for _, mode := range []fs.FileMode{0, 0o400} {
		if err := os.Chmod(base+"/work/a", mode); err != nil {
			t.Fatal(err)
		}
		r := Request{Work: base + "/work"}
		if got, err := list(r); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("mode %o: %s, %v", mode, got, err)
		}
		r.Hide = []string{"a"}
		if got, err := list(r); err != nil || !slices.Contains(strings.Fields(got), "top") {
			t.Errorf("mode %o, hidden: %s, %v", mode, got, err)
		}
	}
	if err := os.Chmod(base+"/work/a", 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestOriginalsUnreadAsUser(t *testing.T) { testAsUser(t, "TestOriginalsUnread") }
