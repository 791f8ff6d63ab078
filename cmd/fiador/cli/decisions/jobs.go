package decisions

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
)

// Targets finds the files of intents that the arguments name: files, folders, patterns
// and -. A malformed pattern is a usage error.
func Targets(args []string) ([]intake.File, error) {
	list, err := intake.Find(args)
	return list, badPattern(err)
}

// badPattern makes a usage error of a malformed pattern. It returns other errors as they are.
func badPattern(err error) error {
	if bad, ok := errors.AsType[*intake.PatternError](err); ok {
		return cli.Usage("quote a name that has such characters with \\", "%s", bad)
	}
	return err
}

// Jobs yields the intents of all files, in order: one of a file, or one of each line of
// JSON Lines that is not blank. What cannot be read is a job too, and its Read returns
// the error. All jobs are plans without model calls.
func Jobs(ctx context.Context, a *cli.App, files []intake.File) iter.Seq[harness.Job] {
	return func(yield func(harness.Job) bool) {
		for _, t := range files {
			request := harness.Request{Path: screen.Path(t.Name), Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
			job := harness.Job{Request: request}
			switch {
			case t.Err != nil:
				job.Read = failing(t.Err)
			case t.Lines():
				none := true
				for l, err := range a.Lines(ctx, t.Name, canon.MaxIntentBytes) {
					job := harness.Job{Request: request}
					job.Line, job.Source = l.Number, l.Bytes
					if l.Long {
						err = runerr.Read(runerr.Text{Name: request.Path + ":" + strconv.Itoa(l.Number)}, &canon.Error{Kind: canon.KindSize, Offset: canon.MaxIntentBytes})
					}
					if err != nil {
						job.Read = failing(err)
					}
					if none = false; !yield(job) {
						return
					}
				}
				if !none {
					continue
				}
				// An empty file is an error: a check of nothing does not pass.
				job.Read = failing(runerr.Unreadable(request.Path, "no intent found: every line is blank", ""))
			default:
				job.Read = func(ctx context.Context) ([]byte, error) {
					src, err := a.Read(ctx, t.Name, canon.MaxIntentBytes)
					return src.Bytes, err
				}
			}
			if !yield(job) {
				return
			}
		}
	}
}

// failing returns the Read of a job that cannot be read.
func failing(err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return nil, err }
}

// ItemOf returns the end of a run in the form for reports. An item has an error, a
// decision, or a decision with an execution.
func ItemOf(end harness.End) report.Item {
	i := report.Item{Path: end.Path, Source: end.Source, Result: end.Bytes, Decision: end.Decision}
	if end.Source != nil {
		i.SHA256 = canon.Sum(end.Source)
	}
	if end.Err != nil {
		i.Err = runerr.Of(end.Err)
		return i
	}
	i.RunID = end.Result.RunID
	if e := end.Result.Execution; e != nil {
		i.Execution = &report.Execution{
			Accepted: end.Result.Decision.Accepted, ExitCode: e.ExitCode, Reasons: end.Result.Decision.Reasons,
			Outputs: len(e.Outputs), OutputBytes: e.TotalOutputBytes,
		}
		if end.Execution != nil {
			i.Execution.Stderr = end.Execution.Stderr.Bytes
		}
	}
	return i
}
