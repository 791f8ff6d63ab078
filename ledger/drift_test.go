package ledger

import (
	"reflect"
	"testing"
)

// TestDriftDifferences: two decisions differ exactly if all their inputs are equal and
// their canonical hashes are not.
func TestDriftDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Record)
		differ bool
	}{
		"nothing":        {func(*Record) {}, false},
		"canonical":      {func(*Record) {}, true},
		"run and result": {func(r *Record) { r.RunID, r.ResultSHA256, r.Evidence.SHA256 = "b", sumOf(70), sumOf(80) }, true},
		"intent":         {func(r *Record) { r.IntentSHA256 = sumOf(10) }, false},
		"input":          {func(r *Record) { r.InputSHA256 = sumOf(30) }, false},
		"policy":         {func(r *Record) { r.PolicySHA256 = sumOf(20) }, false},
		"mode":           {func(r *Record) { r.Mode = "replay" }, false},
		"execution mode": {func(r *Record) { r.ExecutionMode = "execute-sandbox" }, false},
		"kernel":         {func(r *Record) { r.Kernel = "0.2.0" }, false},
		"error":          {func(r *Record) { r.Kind = KindError }, false},
		"begun":          {func(r *Record) { r.Kind = KindBegun }, false},
	} {
		var d Drift
		d.Add(3, decided(nil))
		d.Add(5, decided(func(r *Record) {
			if c.change(r); name != "nothing" {
				r.CanonicalSHA256 = sumOf(60)
			}
		}))
		if (len(d.Differences) == 1) != c.differ {
			t.Errorf("%s: %+v", name, d.Differences)
		}
	}
}

func TestDriftCounts(t *testing.T) {
	var d Drift
	for i, canonical := range []int{6, 6, 7, 6, 8, 7} {
		d.Add(int64(10+i), decided(func(r *Record) { r.CanonicalSHA256 = sumOf(canonical) }))
	}
	if d.Decisions != 6 || len(d.Flips) != 0 || len(d.Differences) != 1 {
		t.Fatalf("%+v", d)
	}
	got := d.Differences[0]
	if got.First != (Decided{10, sumOf(6)}) || got.Other != (Decided{12, sumOf(7)}) || got.Count != 3 {
		t.Errorf("%+v", got)
	}
}

func TestDriftFlips(t *testing.T) {
	type run struct {
		intent         int
		profile        string
		policy         int
		kernel, answer string
	}
	for _, c := range []struct {
		name string
		runs []run
		want []Flip
	}{
		{"none", nil, nil},
		{"policy", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "p", 3, "1", "REFUSE"}}, []Flip{
			{sumOf(1), "p", Verdict{0, "BUNDLE", sumOf(2), "1"}, Verdict{1, "REFUSE", sumOf(3), "1"}, 1},
		}},
		{"kernel", []run{{1, "p", 2, "1", "CLARIFY"}, {1, "p", 2, "2", "BUNDLE"}}, []Flip{
			{sumOf(1), "p", Verdict{0, "CLARIFY", sumOf(2), "1"}, Verdict{1, "BUNDLE", sumOf(2), "2"}, 1},
		}},
		{"same revision", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "p", 2, "1", "REFUSE"}}, nil},
		{"same outcome", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "p", 3, "1", "BUNDLE"}}, nil},
		{"another profile", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "q", 3, "1", "REFUSE"}}, nil},
		{"another intent", []run{{1, "p", 2, "1", "BUNDLE"}, {2, "p", 3, "1", "REFUSE"}}, nil},
		{"others between", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "q", 9, "1", "CLARIFY"}, {2, "p", 3, "1", "CLARIFY"}, {1, "p", 3, "1", "REFUSE"}}, []Flip{
			{sumOf(1), "p", Verdict{0, "BUNDLE", sumOf(2), "1"}, Verdict{3, "REFUSE", sumOf(3), "1"}, 1},
		}},
		{"there and back", []run{{1, "p", 2, "1", "BUNDLE"}, {1, "p", 3, "1", "REFUSE"}, {1, "p", 2, "1", "BUNDLE"}}, []Flip{
			{sumOf(1), "p", Verdict{1, "REFUSE", sumOf(3), "1"}, Verdict{2, "BUNDLE", sumOf(2), "1"}, 2},
		}},
	} {
		var d Drift
		for i, x := range c.runs {
			d.Add(int64(i), decided(func(r *Record) {
				r.IntentSHA256, r.Policy, r.PolicySHA256, r.Kernel, r.ResultKind = sumOf(x.intent), x.profile, sumOf(x.policy), x.kernel, x.answer
			}))
		}
		if !reflect.DeepEqual(d.Flips, c.want) || len(d.Differences) > 0 {
			t.Errorf("%s: %+v and %+v, want %+v", c.name, d.Flips, d.Differences, c.want)
		}
	}
}
