package ledger

import (
	"reflect"
	"testing"
)

func TestStats(t *testing.T) {
	at := func(stamp string) func(*Record) { return func(r *Record) { r.Timestamp = stamp } }
	var s Stats
	for _, r := range []Record{
		{Kind: KindGenesis, Timestamp: "2026-03-01T00:00:00.000Z"},
		decided(at("2026-03-01T01:00:00.000Z")),
		{Kind: KindBegun, Timestamp: "2026-03-01T02:00:00.000Z", RunID: "run_2", Policy: "default", Mode: "none"},
		decided(func(r *Record) {
			r.Timestamp, r.ExecutionMode, r.Accepted, r.Reasons = "2026-03-02T03:00:00.000Z", "execute-sandbox", false, []string{"EXIT 1", "OUTPUT_KIND"}
			r.PolicySHA256 = sumOf(20)
		}),
		decided(func(r *Record) {
			r.Timestamp, r.ResultKind, r.Accepted, r.BundleSHA256 = "2026-03-02T04:00:00.000Z", "REFUSE", false, ""
			r.Reasons, r.Policy, r.Kernel = []string{"EXIT 1"}, "strict", "0.2.0"
		}),
		{
			Kind: KindError, Timestamp: "2026-03-03T05:00:00.000Z", RunID: "run_5", Policy: "default", PolicySHA256: sumOf(20), Mode: "replay",
			ExecutionMode: "plan-only", Kernel: "0.1.0", Code: "RUN_E007",
		},
	} {
		s.Add(r)
	}
	want := Stats{
		Entries: 6, First: "2026-03-01T00:00:00.000Z", Last: "2026-03-03T05:00:00.000Z", Accepted: 1, Rejected: 2,
		Kinds:    Tally{"genesis": 1, "decision": 3, "begun": 1, "error": 1},
		Outcomes: Tally{"BUNDLE": 2, "REFUSE": 1}, Profiles: Tally{"default": 3, "strict": 1}, Modes: Tally{"none": 3, "replay": 1},
		Executions: Tally{"plan-only": 3, "execute-sandbox": 1}, Reasons: Tally{"EXIT 1": 2, "OUTPUT_KIND": 1}, Codes: Tally{"RUN_E007": 1},
		Kernels: Tally{"0.1.0": 3, "0.2.0": 1}, Days: Tally{"2026-03-01": 1, "2026-03-02": 2, "2026-03-03": 1},
	}
	uses := []PolicyUse{
		{sumOf(20), "default", 2, "2026-03-02T03:00:00.000Z", "2026-03-03T05:00:00.000Z"},
		{sumOf(2), "strict", 2, "2026-03-01T01:00:00.000Z", "2026-03-02T04:00:00.000Z"},
	}
	if got := s.Uses(); !reflect.DeepEqual(got, uses) {
		t.Errorf("policies\n%+v\nwant\n%+v", got, uses)
	}
	if s.Policies = nil; !reflect.DeepEqual(s, want) {
		t.Errorf("\n%+v\nwant\n%+v", s, want)
	}
}

func TestTally(t *testing.T) {
	tally := Tally{"b": 2, "a": 2, "c": 3, "d": 1}
	if got := tally.ByName(); !reflect.DeepEqual(got, []Count{{"a", 2}, {"b", 2}, {"c", 3}, {"d", 1}}) {
		t.Errorf("by name: %v", got)
	}
	if got := tally.Most(); !reflect.DeepEqual(got, []Count{{"c", 3}, {"a", 2}, {"b", 2}, {"d", 1}}) {
		t.Errorf("most: %v", got)
	}
	if got := Tally(nil).Most(); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
