// Package conformance runs the vectors of safe-run against any program that claims to be
// a safe-run, and reports every difference from the expected results. Linux only:
// elsewhere [Runner.Run] refuses.
//
// # One vector
//
// Each vector gets a new folder. It contains the working folder, with only the entries
// of the vector's setup, a HOME and a TMPDIR. The program is called with its own words
// followed by the words of the vector. Its environment has HOME, TMPDIR, LC_ALL=C, the
// caller's variables ([Runner.Env]) and the vector's. The program leads a session of its
// own, without a terminal.
//
// The runner has these guarantees, each with its test:
//
//   - A program that exceeds the vector's deadline is killed with every process that it
//     started, also those that have left its session, and the vector fails
//     (TestHangIsKilled). The same happens to a program with endless output (TestFlood).
//   - No process that a program started stays running. Such a process fails the vector,
//     unless it is declared (TestLeftRunning). Processes are recognised by a variable of
//     their environment: a process that has cleared the variable escapes.
//   - Signals go to the program alone, not to its child processes: the program itself
//     must forward them (TestSignalNotForwarded).
//   - Programs are started with no signal ignored, even if this process ignores some, as
//     under nohup (TestIgnoredSignals). A process that ignores signals must not run two
//     runs at once.
//   - Every expectation of a vector is checked. An unknown expectation is refused when
//     the file is read (TestWrongPrograms, TestStrictReading).
//   - A comparison with a reference ignores only the name of the log and the path of the
//     working folder (TestComparison).
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

// LogNames is the form of the names of logs.
type LogNames string

// The forms of a name. The contract has safe-run-YYYYMMDD-HHMMSS-RANDOM.log. The
// published vectors have YYYYMMDDTHHMMSSZ-pidN-FAIL.log or -ABORTED.log.
const (
	Contract LogNames = "contract"
	RFC      LogNames = "rfc"
)

// A Runner runs vectors.
type Runner struct {
	// Program is the argv of the program under test; each vector's words follow. The
	// first word is a path. No path in it is relative, because every vector has its own
	// working folder.
	Program []string
	// Reference is the argv of the program that Program is compared with; nil: no
	// comparison.
	Reference []string
	// Names is the expected form. If it is RFC, SAFE_RUN_LOG_NAMES asks for it.
	Names LogNames
	// Env is the part of the caller's environment that both programs get: NAME=VALUE.
	Env []string
	// Dir is an existing folder. Each vector has a folder beneath it while it runs.
	Dir string
	// Parallel is the number of vectors that run at once; less than 1 means one.
	Parallel int
}

// Verdict is the result of a vector. The vector has passed if there are no faults.
type Verdict struct {
	Vector Vector
	Faults []Fault
}

// Fault is one difference from the expectation. Its texts are shortened. They contain
// the program's output unescaped: a terminal must escape it.
type Fault struct {
	What string
	Want string // empty if What is enough
	Got  string
}

// Run runs the vectors and passes each verdict to each, in the order of the vectors, as
// soon as it is known. An error means that there is no verdict: a program could not be
// started, a folder could not be made, or ctx was done. Nothing is running when Run
// returns.
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
	seen, err := r.observe(ctx, r.Program, v, filepath.Join(dir, "program"))
	if err != nil {
		return Verdict{}, err
	}
	verdict = Verdict{v, v.check(seen, r.Names)}
	if r.Reference != nil && seen.stopped == "" {
		ref, err := r.observe(ctx, r.Reference, v, filepath.Join(dir, "reference"))
		if err != nil {
			return Verdict{}, err
		}
		verdict.Faults = append(verdict.Faults, v.compare(seen, ref)...)
	}
	return verdict, nil
}

// discard removes a folder and its content, whatever its permissions.
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

// unignore makes this process receive, and drop, the signals that it ignores, because a
// child would inherit an ignored signal. again restores the earlier state.
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
