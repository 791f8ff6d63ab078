package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// timing has the time and the memory that one operation takes.
type timing struct {
	what   string
	each   time.Duration
	bytes  int64 // allocated
	allocs int64
}

// timed runs f as a Go benchmark five times and keeps the run in the middle. A
// failing f ends the measurement with its error.
func timed(what string, f func() error) (timing, error) {
	var failed error
	runs := make([]timing, 5)
	for i := range runs {
		res := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					failed = err
					b.FailNow()
				}
			}
		})
		if failed != nil {
			return timing{}, fmt.Errorf("%s: %w", what, failed)
		}
		runs[i] = timing{what, time.Duration(res.NsPerOp()), res.AllocedBytesPerOp(), res.AllocsPerOp()}
	}
	each := make([]time.Duration, len(runs))
	for i, t := range runs {
		each[i] = t.each
	}
	for _, t := range runs {
		if t.each == median(each) {
			return t, nil
		}
	}
	return runs[0], nil
}

// step is one step of a decision, or one way to prepare a gate.
type step struct {
	what string
	f    func() error
}

func timedAll(steps []step) ([]timing, error) {
	out := make([]timing, 0, len(steps))
	for _, s := range steps {
		t, err := timed(s.what, s.f)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// programGC is how the program sets the garbage collector for small intents.
const programGC = 400

// inside fills the report's part about one process. All of it runs on one core.
func (r *report) inside(s *scene) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(programGC))
	for _, part := range []func(*scene) error{r.decisions, r.whereTimeGoes, r.opening, r.manyRules} {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

// decisions times whole decisions with a prepared gate.
func (r *report) decisions(s *scene) error {
	var steps []step
	for _, l := range []struct {
		what string
		src  []byte
	}{
		{"1 KiB", sized(1 << 10)},
		{"100 KiB, one file's content", sized(100 << 10)},
		{"100 KiB, 256 actions", crowded(100 << 10)},
		{"1 MiB, one file's content", sized(1 << 20)},
		{"1 MiB, 256 actions", crowded(1 << 20)},
		{"1 MiB, a context of 500 000 small numbers", hostile(1 << 20)},
	} {
		steps = append(steps, step{l.what, func() error {
			rep, err := s.decide(l.src)
			if err == nil && rep.Result.KernelResultKind != kernel.OutcomeBundle {
				err = fmt.Errorf("outcome %s", rep.Result.KernelResultKind)
			}
			return err
		}})
	}
	var err error
	r.decided, err = timedAll(steps)
	return err
}

func (s *scene) decide(src []byte) (harness.Report, error) {
	return harness.Run(context.Background(), s.deps(), s.gate, harness.Request{
		Source: src, Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone, RunID: "bench",
	})
}

func (s *scene) deps() harness.Deps {
	return harness.Deps{Now: time.Now, Rand: bytes.NewReader(nil), Specs: s.set}
}

// whereTimeGoes times the steps of a decision one by one.
func (r *report) whereTimeGoes(s *scene) error {
	for _, src := range [][]byte{sized(1 << 10), sized(100 << 10), crowded(1 << 20)} {
		steps, err := s.steps(src)
		if err != nil {
			return err
		}
		timings, err := timedAll(steps)
		if err != nil {
			return err
		}
		r.steps = append(r.steps, timings)
	}
	return nil
}

// steps returns the steps of a decision in their order. Each step works on the values
// that the steps before it have made.
func (s *scene) steps(src []byte) ([]step, error) {
	doc, err := canon.Parse(src, canon.MaxIntentBytes)
	if err != nil {
		return nil, err
	}
	in, err := kernel.ParseIntent(doc.Value())
	if err != nil {
		return nil, err
	}
	question, err := s.question(src)
	if err != nil {
		return nil, err
	}
	verdict, err := s.gate.Judge.Eval(context.Background(), question)
	if err != nil {
		return nil, err
	}
	rep, err := s.decide(src)
	if err != nil {
		return nil, err
	}
	return []step{
		{"parse", func() error { _, err := canon.Parse(src, canon.MaxIntentBytes); return err }},
		{"schema", func() error { _, err := s.set.Validate(specs.KindIntent, doc.Value()); return err }},
		{"intent", func() error { _, err := kernel.ParseIntent(doc.Value()); return err }},
		{"effects, findings", func() error { in.Effects(s.gate.Profile); in.FindingsUnder(s.gate.Profile); return nil }},
		{"hash of the source", func() error { canon.Sum(src); return nil }},
		{"policy", func() error { _, err := s.gate.Judge.Eval(context.Background(), question); return err }},
		{"decide", func() error {
			_, err := kernel.Decide(in, question.Effects, question.Findings, verdict)
			return err
		}},
		{"seal", func() error { return seal(rep.Result) }},
	}, nil
}

// seal writes a result by both encoders, reads it back and checks its invariants.
func seal(res result.RunResult) error {
	b, err := res.Bytes()
	if err != nil {
		return err
	}
	if other, err := canon.TransformAgain(res); err != nil || !bytes.Equal(b, append(other, '\n')) {
		return fmt.Errorf("two encoders give other bytes: %v", err)
	}
	if _, unsound := result.Sound(b, &res.Policy); unsound != nil {
		return unsound
	}
	return nil
}

// openedStored is the line of opening about the stored form.
const openedStored = 2

// opening times what a process does before it can decide.
func (r *report) opening(s *scene) error {
	ctx, files, limits := context.Background(), profiles.FS(), policy.DefaultLimits()
	layer, err := policy.LoadLayer(policy.Folder{FS: files, Dir: "builtin"}, policy.Builtin, policy.Limits{})
	if err != nil {
		return err
	}
	layer.Embedded = true
	stored := layer
	if stored.Stored, err = fs.ReadFile(files, "builtin/"+policy.StoredFile); err != nil {
		return err
	}
	r.opened, err = timedAll([]step{
		{"whole opening, schemas not yet compiled", func() error {
			set, err := specs.New()
			if err != nil {
				return err
			}
			_, err = harness.OpenGate(ctx, harness.Sources{Builtin: files, Profile: profileName}, set, limits)
			return err
		}},
		{"of it: profile with its schema", func() error {
			set, err := specs.New()
			if err != nil {
				return err
			}
			_, err = profile.Load(files, profileName, set)
			return err
		}},
		{"of it: the built-in policy from its stored form", func() error {
			_, err := policy.New(ctx, s.gate.Profile, []policy.Layer{stored}, limits)
			return err
		}},
		{"without a stored form: parse and compile the built-in Rego", func() error {
			_, err := policy.New(ctx, s.gate.Profile, []policy.Layer{layer}, limits)
			return err
		}},
		{"refuse an intent by its schema, which is then compiled", func() error {
			set, err := specs.New()
			if err != nil {
				return err
			}
			_, err = set.Validate(specs.KindIntent, map[string]any{})
			return err
		}},
	})
	return err
}

// rulesTiming is a policy of so many rules beside the built-in one.
type rulesTiming struct {
	rules         int
	compile, eval timing
}

// manyRules times policies with a user layer of synthetic rules.
func (r *report) manyRules(s *scene) error {
	ctx := context.Background()
	builtin, err := policy.LoadLayer(policy.Folder{FS: profiles.FS(), Dir: "builtin"}, policy.Builtin, policy.Limits{})
	if err != nil {
		return err
	}
	builtin.Embedded = true
	if builtin.Stored, err = fs.ReadFile(profiles.FS(), "builtin/"+policy.StoredFile); err != nil {
		return err
	}
	question, err := s.question(sized(1 << 10))
	if err != nil {
		return err
	}
	for _, n := range []int{0, 10, 100, 1000} {
		layers := []policy.Layer{builtin}
		if n > 0 {
			layers = append(layers, synthetic(n))
		}
		engine, err := policy.New(ctx, s.gate.Profile, layers, policy.DefaultLimits())
		if err != nil {
			return fmt.Errorf("%d rules: %w", n, err)
		}
		t, err := timedAll([]step{
			{"compile", func() error { _, err := policy.New(ctx, s.gate.Profile, layers, policy.DefaultLimits()); return err }},
			{"eval", func() error { _, err := engine.Eval(ctx, question); return err }},
		})
		if err != nil {
			return fmt.Errorf("%d rules: %w", n, err)
		}
		r.rules = append(r.rules, rulesTiming{n, t[0], t[1]})
	}
	return nil
}

// synthetic returns a user layer of n rules. Each rule has a record, and denies a command
// that the intent does not run.
func synthetic(n int) policy.Layer {
	var b strings.Builder
	b.WriteString("package gate.user.bench\n\nimport future.keywords.not\n")
	for i := range n {
		fmt.Fprintf(&b, `
# METADATA
# title: Command %[1]d is not for this tree
# description: A rule of the benchmark
# custom:
#   id: BENCH_%[1]d
deny contains {"id": "BENCH_%[1]d", "path": e.pointer, "msg": sprintf("%%q is not allowed", [e.command])} if {
	some e in input.effects
	e.kind == "run"
	e.command == "tool-%[1]d"
}
`, i)
	}
	return policy.Layer{Package: "gate.user.bench", Modules: []policy.Module{{Name: "bench/rules.rego", Source: []byte(b.String())}}}
}
