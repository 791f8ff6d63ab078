// Package sandboxes opens the host on which a command executes, and reads --read.
package sandboxes

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// Open opens the host of executions. It first removes the remains of killed supervisors. A
// Ctrl-C waits until the host is closed.
func Open(a *cli.App) *sandbox.Host {
	if err := sandbox.Sweep(""); err != nil {
		a.Term.Warning("what an earlier execution has left could not be removed: " + runerr.Reason(err))
	}
	a.Busy.Enter()
	return sandbox.NewHost("")
}

// Close releases the resources of the host.
func Close(ctx context.Context, a *cli.App, host *sandbox.Host) {
	_ = host.Close()
	a.Busy.LeaveSoon(ctx)
}

// ReadPaths returns the absolute paths of what a command may read. It refuses an absent path, a
// place that the sandbox makes itself, and a link that leads out of what is shown. Its errors
// begin with what, which says where the names stand, such as "--read".
func ReadPaths(what string, names []string) ([]string, error) {
	var list []string
	for _, name := range names {
		abs, err := filepath.Abs(name)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return nil, cli.Usage("name a file or a folder that is there", "%s %q: %s", what, canon.Clean(name), runerr.Reason(err))
		}
		if why := harness.ReadFault(abs); why != "" {
			return nil, cli.Usage("name the files and folders that the command needs", "%s %q: %s", what, canon.Clean(name), why)
		}
		list = append(list, abs)
	}
	for i, p := range list {
		if ledOut(p, list) {
			return nil, cli.Unfit("name where it leads", "%s %q: it lies in what commands can read anyway, and is a link that leads out of it", what, canon.Clean(names[i]))
		}
	}
	return list, nil
}

// ledOut reports whether a path lies beneath another shown folder, but is a link whose
// File is not shown.
func ledOut(p string, list []string) bool {
	shown := func(p string, strictly bool) bool {
		return sandbox.Shown(p) || slices.ContainsFunc(list, func(q string) bool { return kernel.Beneath(p, q) && !(strictly && p == q) })
	}
	if !shown(p, true) {
		return false
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil || shown(real, false) {
		return false
	}
	return !slices.ContainsFunc(list, func(q string) bool {
		at, err := filepath.EvalSymlinks(q)
		return q != p && err == nil && kernel.Beneath(p, q) && kernel.Beneath(real, at)
	})
}
