package main

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		list []int64
		want int64
	}{{[]int64{3}, 3}, {[]int64{9, 1, 5}, 5}, {[]int64{7, 1, 5, 3, 9}, 5}} {
		before := slices.Clone(tc.list)
		if got := median(tc.list); got != tc.want {
			t.Errorf("median of %v is %d", tc.list, got)
		}
		if !slices.Equal(tc.list, before) {
			t.Errorf("%v was reordered", before)
		}
	}
}

// TestIntentsAreAllowed: each timed decision allows its intent, which has the size that
// the results name.
func TestIntentsAreAllowed(t *testing.T) {
	s, err := newScene(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{
		"1 KiB": sized(1 << 10), "1 MiB": sized(1 << 20), "256 actions": crowded(1 << 20), "numbers": hostile(1 << 20),
	} {
		rep, err := s.decide(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rep.Result.KernelResultKind != kernel.OutcomeBundle {
			t.Errorf("%s: %s %v", name, rep.Result.KernelResultKind, rep.Result.Decision.Reasons)
		}
		if least := canon.MaxIntentBytes * 9 / 10; name != "1 KiB" && (len(src) < least || len(src) > canon.MaxIntentBytes) {
			t.Errorf("%s has %d bytes", name, len(src))
		}
	}
	if n := len(sized(1 << 10)); n < 900 || n > 1100 {
		t.Errorf("1 KiB has %d bytes", n)
	}
}

// TestGenerated: the folder is the same in every run, and has the size and the mixture
// that the results name. Each intent is the same in a folder of any size.
func TestGenerated(t *testing.T) {
	s, err := newScene(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const total = 1000
	size, counts := 0, map[kernel.Outcome]int{}
	for n := range total {
		src := generated(n)
		if !bytes.Equal(src, generated(n)) {
			t.Fatalf("intent %d differs from itself", n)
		}
		rep, err := s.decide(src)
		if err != nil {
			t.Fatalf("intent %d: %v", n, err)
		}
		size += len(src)
		counts[rep.Decision.Outcome]++
	}
	if size < total*900 || size > total*1100 {
		t.Errorf("%d bytes on average", size/total)
	}
	if n := counts[kernel.OutcomeBundle]; n < total*77/100 || n > total*87/100 {
		t.Errorf("of %d: %s", total, outcomes(counts))
	}
	if counts[kernel.OutcomeClarify] < total*3/100 || counts[kernel.OutcomeRefuse] < total*8/100 {
		t.Errorf("of %d: %s", total, outcomes(counts))
	}
}

// TestRules: every rule has an id and a condition of its own. The policy loads, and some
// rule denies some intent.
func TestRules(t *testing.T) {
	s, err := newScene(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ids, bodies := map[string]int{}, map[string]int{}
	for n := range 1000 {
		r := nthRule(n)
		body := strings.Join(r.body, "\n")
		if first, dup := ids[r.id]; dup {
			t.Errorf("rules %d and %d have the id %s", first, n, r.id)
		}
		if first, dup := bodies[body]; dup {
			t.Errorf("rules %d and %d are alike:\n%s", first, n, body)
		}
		ids[r.id], bodies[body] = n, n
	}
	if err := s.addRules("many", 1000); err != nil {
		t.Fatal(err)
	}
	user := policy.Folder{FS: os.DirFS(s.dir), Dir: "many"}
	patient := policy.DefaultLimits() // the time of an evaluation is not the subject
	patient.Compile, patient.Deadline = time.Minute, time.Minute
	s.gate, err = harness.OpenGate(t.Context(), harness.Sources{
		Builtin: profiles.FS(), User: &user, File: harness.ProfileFile,
	}, s.set, patient)
	if err != nil {
		t.Fatal(err)
	}
	denied := map[string]bool{}
	for n := range 300 {
		rep, err := s.decide(generated(n))
		if err != nil {
			t.Fatalf("intent %d: %v", n, err)
		}
		for _, reason := range rep.Result.Decision.Reasons {
			id, _, _ := strings.Cut(reason, " ")
			if _, own := ids[id]; own {
				denied[strings.TrimRight(id, "0123456789")] = true
			}
		}
	}
	for _, kind := range []string{"COMMAND_", "PLACE_", "GOAL_"} {
		if !denied[kind] {
			t.Errorf("no rule %s denies anything", kind)
		}
	}
}

func TestLine(t *testing.T) {
	units := []int{1, 2, 4, 8}
	times := make([]time.Duration, len(units))
	for i, n := range units {
		times[i] = 3*time.Second + time.Duration(n)*time.Second/2
	}
	if slope, base := line(units, times); math.Abs(slope-0.5) > 1e-9 || math.Abs(base-3) > 1e-9 {
		t.Errorf("line of %v and %v", slope, base)
	}
	if off := offLine(units, times); off > 1e-9 {
		t.Errorf("points of a line are %v off", off)
	}
	if g := growth(units, []time.Duration{1, 2, 4, 8}); math.Abs(g-1) > 1e-9 {
		t.Errorf("linear growth is %v", g)
	}
}
