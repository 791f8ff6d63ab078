package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// many yields n jobs, each with an intent of its own, and counts how many were taken.
func many(n int, taken *atomic.Int64) iter.Seq[harness.Job] {
	return func(yield func(harness.Job) bool) {
		for i := range n {
			taken.Add(1)
			src := fmt.Appendf(nil, `{"goal":"goal %d","constraints":["c"]}`, i)
			if !yield(harness.Job{Request: harness.Request{Path: fmt.Sprint(i), Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone},
				Read: func(context.Context) ([]byte, error) { return src, nil }}) {
				return
			}
		}
	}
}

// slow allows every intent, each after a different time.
func slow(in policy.Input) (kernel.Verdict, error) {
	goal := in.Intent.(map[string]any)["goal"].(string)
	time.Sleep(time.Duration(len(goal)*7919%5) * time.Millisecond)
	return kernel.Verdict{}, nil
}

// TestEachKeepsTheOrder: ends come in the order of the jobs, whichever job is ready first.
// Jobs are not taken far ahead of the emitted ends.
func TestEachKeepsTheOrder(t *testing.T) {
	d := harnesstest.Runs(t)
	var taken atomic.Int64
	next := 0
	const workers = 4
	err := harness.Each(t.Context(), d, harnesstest.GateWith(t, d, harnesstest.JudgeFunc(slow)), workers, many(300, &taken), func(e harness.End) error {
		if e.Err != nil || e.Path != fmt.Sprint(next) || e.Result.Intent.Path != e.Path || len(e.Source) == 0 {
			t.Errorf("end %d is of %q: %v", next, e.Path, e.Err)
		}
		next++
		if ahead := taken.Load() - int64(next); ahead > workers*harness.Window+workers+2 {
			t.Errorf("%d jobs are taken ahead", ahead)
		}
		return nil
	})
	if err != nil || next != 300 {
		t.Errorf("%d ends, error %v", next, err)
	}
}

// TestEachGoesOnAfterAnError: a failure of one intent, a panic included, is the end of
// that intent alone.
func TestEachGoesOnAfterAnError(t *testing.T) {
	d := harnesstest.Runs(t)
	jobs := func(yield func(harness.Job) bool) {
		request := harness.Request{Path: "i", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
		for i := range 6 {
			job := harness.Job{Request: request, Read: func(context.Context) ([]byte, error) { return []byte(intents.Simple), nil }}
			switch i {
			case 1:
				job.Read = func(context.Context) ([]byte, error) { panic("secret") }
			case 2:
				job.Read = func(context.Context) ([]byte, error) { return nil, &result.RunError{Code: result.CodeUnreadable} }
			case 3:
				job.Read, job.Source, job.Line = nil, []byte("{"), 7
			}
			if !yield(job) {
				return
			}
		}
	}
	var codes []string
	err := harness.Each(t.Context(), d, harnesstest.GateWith(t, d, harnesstest.JudgeFunc(slow)), 2, jobs, func(e harness.End) error {
		var re *result.RunError
		errors.As(e.Err, &re)
		switch {
		case re == nil:
			codes = append(codes, string(e.Decision.Outcome))
		default:
			codes = append(codes, string(re.Code))
			if re.Code == result.CodeNotJSON && !strings.HasPrefix(re.Message, "i:7: ") {
				t.Errorf("message %q", re.Message)
			}
		}
		return nil
	})
	if want := "REFUSE RUN_E007 RUN_E001 RUN_E002 REFUSE REFUSE"; err != nil || strings.Join(codes, " ") != want {
		t.Errorf("ends are %q, error %v", codes, err)
	}
}

// TestEachStops: Each stops at an error of emit, at the end of the context, and at an
// evaluation that does not stop.
func TestEachStops(t *testing.T) {
	d := harnesstest.Runs(t)
	var taken atomic.Int64
	stop := errors.New("stop")
	n := 0
	err := harness.Each(t.Context(), d, harnesstest.GateWith(t, d, harnesstest.JudgeFunc(slow)), 2, many(100000, &taken), func(harness.End) error {
		if n++; n == 5 {
			return stop
		}
		return nil
	})
	if err != stop || n != 5 || taken.Load() > 200 {
		t.Errorf("%d ends, %d taken, error %v", n, taken.Load(), err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	err = harness.Each(ctx, d, harnesstest.GateWith(t, d, harnesstest.JudgeFunc(slow)), 2, many(100000, &taken), func(harness.End) error { cancel(); return nil })
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeInternal || !strings.Contains(re.Message, "interrupted") {
		t.Errorf("error %v", err)
	}

	stuck := harnesstest.JudgeFunc(func(in policy.Input) (kernel.Verdict, error) {
		if in.Intent.(map[string]any)["goal"] == "goal 3" {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindWatchdog, Msg: "x"}
		}
		return kernel.Verdict{}, nil
	})
	var last harness.End
	err = harness.Each(t.Context(), d, harnesstest.GateWith(t, d, stuck), 2, many(100000, &taken), func(e harness.End) error { last = e; return nil })
	if !errors.As(err, &re) || last.Path != "3" || last.Err == nil {
		t.Errorf("last end %q, error %v", last.Path, err)
	}
}
