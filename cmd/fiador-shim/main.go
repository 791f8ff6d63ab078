//go:build linux && (amd64 || arm64)

// Command fiador-shim performs on a worker what a spec demands. The worker starts it without
// arguments in the folder of an action (specs/remote.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/remote/worker"
)

// copied is argv[0] of the copy, whose argument is the folder that it stands in.
const copied = "fiador-shim (copy)"

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "fiador-shim:", err)
		os.Exit(1)
	}
}

// run returns an error if there is no result.
func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case len(args) == 2 && args[0] == copied:
		return worker.Perform(ctx, ".", args[1])
	case len(args) > 1:
		return errors.New("it takes no arguments: start it in the folder of an action")
	}
	why := restart(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return worker.Refuse(".", why)
}

// restart replaces this process by a copy of the program that every user may execute: the
// sandbox starts the program once more under another id, and a worker may lay it out for its
// owner alone. The process stays the same, for a sandbox sets up a cgroup only for a process that
// is alone in its own. The error says why no copy can be started.
func restart(ctx context.Context) error {
	var why error
	for _, place := range []string{os.TempDir(), job.OutDir} { // the first may forbid executables
		err := restartIn(ctx, place)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why = errors.Join(why, err)
	}
	return fmt.Errorf("no copy of the shim can be started on the worker: set TMPDIR to a folder that allows it: %w", why)
}

// restartIn starts a copy in a new folder of a place. The copy removes the folder, unless it is
// killed.
func restartIn(ctx context.Context, place string) error {
	err := os.MkdirAll(place, 0o755)
	if err == nil {
		place, err = filepath.Abs(place)
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(place, worker.ScratchPrefix)
	if err != nil {
		return err
	}
	// Commands under another id come to their files through this folder and cannot list it.
	if err = os.Chmod(dir, 0o711); err == nil {
		file := filepath.Join(dir, "shim")
		if err = copySelf(file); err == nil && ctx.Err() == nil {
			err = syscall.Exec(file, []string{copied, dir}, os.Environ())
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// copySelf copies this program to a new file.
func copySelf(file string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}
