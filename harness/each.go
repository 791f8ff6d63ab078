package harness

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/policy"
)

// Job is one intent of many. Read, if set, returns the bytes of Request.Source when the
// job starts.
type Job struct {
	Request
	Read func(context.Context) ([]byte, error)
}

// End is the end of one job: a report or an error, which is a *result.RunError.
type End struct {
	Request
	Report
	Err error
}

// window is the maximum number of jobs per worker between the first unfinished job and
// the last started one. It bounds the number of ends that wait.
const window = 16

// Each decides every job as Run does, with that many workers, and passes the ends to
// emit in the order of the jobs. An error of emit ends the work. The end of ctx, or an
// evaluation that does not stop, ends it too; Each then returns the error. After an
// evaluation that does not stop, the process must end. Both jobs and emit are called
// from one goroutine each.
func Each(ctx context.Context, deps Deps, gate *Gate, workers int, jobs iter.Seq[Job], emit func(End) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type turn struct {
		job Job
		end chan End
	}
	todo := make(chan turn)
	order := make(chan chan End, workers*window)
	var feeding sync.WaitGroup
	feeding.Go(func() {
		defer close(order)
		defer close(todo)
		for job := range jobs {
			t := turn{job, make(chan End, 1)}
			select {
			case order <- t.end:
			case <-ctx.Done():
				return
			}
			select {
			case todo <- t:
			case <-ctx.Done():
				return
			}
		}
	})
	fatal := make(chan End, 1)
	for range workers {
		go func() {
			for t := range todo {
				end := one(ctx, deps, gate, t.job)
				if endsProcess(end.Err) {
					select {
					case fatal <- end:
					default:
					}
				}
				t.end <- end
			}
		}()
	}
	for next := range order {
		select {
		case end := <-next:
			if err := emit(end); err != nil {
				return err
			}
			if endsProcess(end.Err) {
				return end.Err
			}
		case end := <-fatal:
			return errors.Join(emit(end), end.Err)
		case <-ctx.Done():
			return runerr.Interrupted()
		}
	}
	if ctx.Err() != nil {
		return runerr.Interrupted()
	}
	feeding.Wait()
	return nil
}

func one(ctx context.Context, deps Deps, gate *Gate, job Job) (end End) {
	end = End{Request: job.Request}
	defer func() {
		if p := recover(); p != nil {
			end.Report, end.Err = Report{}, runerr.Panicked()
		}
	}()
	if job.Read != nil {
		if end.Source, end.Err = job.Read(ctx); end.Err != nil {
			return end
		}
	}
	end.Report, end.Err = Run(ctx, deps, gate, end.Request)
	return end
}

// endsProcess says whether an error leaves a running goroutine behind that does not
// stop.
func endsProcess(err error) bool {
	pe, ok := errors.AsType[*policy.Error](err)
	return ok && pe.Kind == policy.KindWatchdog
}
