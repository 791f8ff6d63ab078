// Package conformance runs the vectors of safe-run against any program that claims to
// be one, and says what is not as it must be. Linux only: elsewhere [Runner.Run]
// refuses.
//
// # One vector
//
// A vector gets a new folder. Beneath it are the working folder, with what its setup
// names and nothing else, a HOME and a TMPDIR. The program is called as its own words
// followed by the words of the vector, with an environment of HOME, TMPDIR, LC_ALL=C,
// what the caller gives ([Runner.Env]) and what the vector gives. It leads a session of
// its own, without a terminal.
//
// What a caller may rely on, and the test that shows it:
//
//   - A program that does not end within the vector's deadline is killed with everything
//     it started, also what has left its session, and the vector fails
//     (TestHangIsKilled). So is one whose output does not end (TestFlood).
//   - Nothing that a program started is left running, and what was left fails the vector
//     unless it is declared (TestLeftRunning). Processes are known by a variable of their
//     environment: one that has cleared that escapes.
//   - Signals go to the program alone, not to what it started: forwarding them is its
//     own work (TestSignalNotForwarded).
//   - Programs are started with no signal ignored, even if this process ignores some, as
//     under nohup (TestIgnoredSignals). Two runs at once must not be of a process that does.
//   - Every expectation of a vector is looked at, and an expectation that is not known
//     is refused when the file is read (TestWrongPrograms, TestStrictReading).
//   - A comparison with a reference takes nothing for equal but the name of the log and
//     the path of the working folder (TestComparison).
package conformance

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// LogNames is how logs are named.
type LogNames string

// The forms of a name: that of the contract, safe-run-YYYYMMDD-HHMMSS-RANDOM.log, and
// that of the published vectors, YYYYMMDDTHHMMSSZ-pidN-FAIL.log or -ABORTED.log.
const (
	Contract LogNames = "contract"
	RFC      LogNames = "rfc"
)

// A Runner runs vectors.
type Runner struct {
	// Program is the argv of the program under test; each vector's words follow. The
	// first word is a path, and no path in it is relative: every vector has a working
	// folder of its own.
	Program []string
	// Reference is the argv of the program that Program is compared with; nil: with none.
	Reference []string
	// Names are asked for with SAFE_RUN_LOG_NAMES when they are RFC, and expected.
	Names LogNames
	// Env is what both programs get of the caller's environment: NAME=VALUE.
	Env []string
	// Dir is a folder that is there. Each vector has a folder beneath it while it runs.
	Dir string
	// Parallel is how many vectors run at once; less than 1: one.
	Parallel int
}

// Verdict is what became of a vector. It has passed if it has no faults.
type Verdict struct {
	Vector Vector
	Faults []Fault
}

// Fault is one thing that is not as it must be. Its texts are cut to a size that can be
// shown, and hold what the program printed as it is: a terminal must escape it.
type Fault struct {
	What string
	Want string // empty where What says it all
	Got  string
}

// Run runs the vectors and hands each verdict over in the order of the vectors, as soon
// as it is there. An error means that there is no verdict: a program could not be
// started, or a folder not be made, or ctx was done. Nothing is running when it returns.
func (r Runner) Run(ctx context.Context, vectors []Vector, each func(Verdict)) error {
	defer unignore()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := make([]chan Verdict, len(vectors))
	for i := range verdicts {
		verdicts[i] = make(chan Verdict, 1)
	}
	var workers sync.WaitGroup
	next := make(chan int)
	for range max(r.Parallel, 1) {
		workers.Go(func() {
			for i := range next {
				v, err := r.judge(ctx, vectors[i], filepath.Join(r.Dir, strconv.Itoa(i)))
				if err != nil {
					cancel(err)
					return
				}
				verdicts[i] <- v
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range vectors {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	defer workers.Wait()
	for i := range vectors {
		select {
		case v := <-verdicts[i]:
			each(v)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// judge runs one vector in a folder that it makes and removes.
func (r Runner) judge(ctx context.Context, v Vector, dir string) (verdict Verdict, err error) {
	if ctx.Err() != nil {
		return Verdict{}, context.Cause(ctx)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Verdict{}, err
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	verdict.Vector = v
	seen, err := r.observe(ctx, r.Program, v, filepath.Join(dir, "program"))
	if err != nil {
		return Verdict{}, err
	}
	verdict.Faults = v.check(seen, r.Names)
	if r.Reference == nil || seen.stopped != "" {
		return verdict, nil
	}
	ref, err := r.observe(ctx, r.Reference, v, filepath.Join(dir, "reference"))
	if err != nil {
		return Verdict{}, err
	}
	verdict.Faults = append(verdict.Faults, v.compare(seen, ref)...)
	return verdict, nil
}

// discard removes a folder and what is in it, whatever its permissions.
func discard(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// unignore has this process receive, and drop, what it ignores: what is ignored would be
// inherited. again puts that back.
func unignore() (again func()) {
	var ignored []os.Signal
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE} {
		if signal.Ignored(s) {
			ignored = append(ignored, s)
		}
	}
	if ignored == nil {
		return func() {}
	}
	signal.Notify(make(chan os.Signal, 1), ignored...)
	return func() { signal.Ignore(ignored...) }
}
