package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// sample has the time and the memory that one process took.
type sample struct {
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"`    // user and system
	Others time.Duration `json:"others_ns"` // CPU time of other processes meanwhile
	Peak   int64         `json:"peak_kib"`
	Exit   int           `json:"exit"`
}

// series is the samples of one command, by round.
type series struct {
	name    string
	samples []sample
}

func (s series) walls() []time.Duration {
	return column(s, func(x sample) time.Duration { return x.Wall })
}
func (s series) cpus() []time.Duration {
	return column(s, func(x sample) time.Duration { return x.CPU })
}
func (s series) others() []float64 {
	return column(s, func(x sample) float64 { return x.Others.Seconds() / x.Wall.Seconds() })
}
func (s series) peaks() []int64 { return column(s, func(x sample) int64 { return x.Peak }) }

func column[T any](s series, get func(sample) T) []T {
	out := make([]T, len(s.samples))
	for i, x := range s.samples {
		out[i] = get(x)
	}
	return out
}

// median is the middle of a list that is not empty; of an even number it is the
// lower of the two.
func median[T int64 | float64 | time.Duration](list []T) T {
	return slices.Sorted(slices.Values(list))[(len(list)-1)/2]
}

// ratios divides the wall times of the same round.
func ratios(a, b series) []float64 {
	out := make([]float64, len(a.samples))
	for i := range out {
		out[i] = float64(a.samples[i].Wall) / float64(b.samples[i].Wall)
	}
	return out
}

// inTurn runs the commands one after the other, round by round, so that what
// disturbs the machine disturbs all of them.
func (s *scene) inTurn(ctx context.Context, t tools, commands []command, warmUp, rounds int) ([]series, error) {
	out := make([]series, len(commands))
	for i, c := range commands {
		out[i].name = c.name
	}
	for round := range warmUp + rounds {
		for i, c := range commands {
			x, err := s.once(ctx, t, c)
			if err != nil {
				return nil, err
			}
			if round >= warmUp {
				out[i].samples = append(out[i].samples, x)
			}
		}
	}
	return out, nil
}

func (s *scene) once(ctx context.Context, t tools, c command) (sample, error) {
	cmd := exec.CommandContext(ctx, t.launch, c.args...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, err)
	}
	var x sample
	if err := json.Unmarshal(out, &x); err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, err)
	}
	if x.Exit != c.exit {
		return sample{}, fmt.Errorf("%s ended with exit status %d instead of %d", c.name, x.Exit, c.exit)
	}
	return x, nil
}

// load is an intent whose whole process is timed for its own sake.
type load struct {
	file string
	what string
	src  []byte
	goal int64 // peak memory in KiB; 0: none
}

func loads() []load {
	return []load{
		{"allowed", "1 KiB", sized(1 << 10), 24 << 10},
		{"content", "1 MiB, one file's content", sized(1 << 20), 64 << 10},
		{"actions", "1 MiB, 256 actions", crowded(1 << 20), 64 << 10},
		{"numbers", "1 MiB, a context of 500 000 small numbers", hostile(1 << 20), 64 << 10},
	}
}

// processes fills the report's part about whole processes.
func (r *report) processes(ctx context.Context, t tools, s *scene, o options) error {
	var err error
	r.side, err = s.inTurn(ctx, t, []command{
		fiadorRun(t, "allowed"), opaEval(t, "allowed"), conftestTest(t, "allowed"), opaSmall(t, "allowed"),
		{"fiador version", []string{t.fiador, "version"}, 0}, {"OPA's evaluator, idle", []string{t.evaluator}, 0}, {"empty Go program", []string{t.empty}, 0},
	}, o.warmUp, o.rounds)
	if err != nil {
		return err
	}
	r.loads = loads()
	var commands []command
	for _, l := range r.loads {
		if err := s.write(l.file+".json", l.src); err != nil {
			return err
		}
		c := fiadorRun(t, l.file)
		c.name = l.what
		commands = append(commands, c)
	}
	r.sizes, err = s.inTurn(ctx, t, commands, min(o.warmUp, 1), max(o.rounds/4, 5))
	return err
}
