package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
)

// sumOf returns a hash whose digits are those of a number.
func sumOf(n int) canon.ContentHash { return canon.ContentHash(fmt.Sprintf("sha256:%064x", n)) }

// stateOf returns the hash of a state whose digits are those of a number.
func stateOf(n int) string { return fmt.Sprintf("blake3:%064x", n) }

// decidedWork returns the work of a decision.
func decidedWork() *Work {
	return &Work{ItemID: "a", PlanSHA256: sumOf(1), Before: stateOf(2), After: stateOf(3), Receipt: stateOf(4)}
}

// decided returns a complete decision.
func decided(change func(*Record)) Record {
	r := Record{
		Kind: KindDecision, Timestamp: "2026-03-01T10:00:00.000Z", RunID: "run_1", IntentSHA256: sumOf(1), ExecutionMode: "plan-only",
		Mode: "none", Policy: "default", PolicySHA256: sumOf(2), InputSHA256: sumOf(3), BundleSHA256: sumOf(4), Kernel: "0.1.0",
		ResultKind: "BUNDLE", Accepted: true, DecisionSHA256: sumOf(5), CanonicalSHA256: sumOf(6), ResultSHA256: sumOf(7),
		Evidence: Blob{sumOf(8), 9},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestFilter(t *testing.T) {
	yes, no := true, false
	bundle := decided(nil)
	failed := decided(func(r *Record) { r.Accepted, r.Reasons = false, []string{"EXIT 1", "OUTPUT_KIND"} })
	refused := decided(func(r *Record) {
		r.ResultKind, r.Accepted, r.BundleSHA256, r.Reasons, r.Policy = "REFUSE", false, "", []string{"CMD_NOT_ALLOWED"}, "strict"
		r.IntentSHA256 = sumOf(0xabcd)
	})
	begun := Record{Kind: KindBegun, Timestamp: bundle.Timestamp, RunID: "run_2", Policy: "default", IntentSHA256: sumOf(1)}
	failed.Work, begun.Work = decidedWork(), &Work{ItemID: "a-b"}
	fault := Record{Kind: KindError, Timestamp: bundle.Timestamp, Policy: "default", Code: "RUN_E007", RuleID: "IV-02"}
	genesis := Record{Kind: KindGenesis, Timestamp: "2026-02-28T23:59:59.999Z"}
	all := []Record{genesis, bundle, failed, refused, begun, fault}
	for _, c := range []struct {
		name string
		f    Filter
		want string // a digit for each record
	}{
		{"all", Filter{}, "111111"},
		{"since", Filter{Since: "2026-03-01T10:00:00.000Z"}, "011111"},
		{"since later", Filter{Since: "2026-03-01T10:00:00.001Z"}, "000000"},
		{"until", Filter{Until: "2026-03-01T10:00:00.000Z"}, "111111"},
		{"until earlier", Filter{Until: "2026-03-01T09:59:59.999Z"}, "100000"},
		{"kind", Filter{Kinds: []Kind{KindBegun, KindError}}, "000011"},
		{"outcome", Filter{Outcomes: []string{"BUNDLE"}}, "011000"},
		{"outcomes", Filter{Outcomes: []string{"CLARIFY", "REFUSE"}}, "000100"},
		{"accepted", Filter{Accepted: &yes}, "010000"},
		{"not accepted", Filter{Accepted: &no}, "001100"},
		{"profile", Filter{Profiles: []string{"default"}}, "011011"},
		{"intent", Filter{Intent: string(sumOf(1))}, "011010"},
		{"prefix", Filter{Intent: "sha256:00000000"}, "011110"},
		{"reason", Filter{Reasons: []string{"CMD_NOT_ALLOWED"}}, "000100"},
		{"reason without its number", Filter{Reasons: []string{"EXIT"}}, "001000"},
		{"reason with its number", Filter{Reasons: []string{"EXIT 1"}}, "001000"},
		{"reason with another number", Filter{Reasons: []string{"EXIT 2"}}, "000000"},
		{"code", Filter{Reasons: []string{"RUN_E007"}}, "000001"},
		{"rule", Filter{Reasons: []string{"IV-02", "NONE"}}, "000001"},
		{"item", Filter{Item: "a"}, "001000"},
		{"item of a begun", Filter{Item: "a-b"}, "000010"},
		{"no reason", Filter{Reasons: []string{""}}, "000000"},
		{"both", Filter{Outcomes: []string{"BUNDLE"}, Accepted: &no}, "001000"},
	} {
		got := ""
		for _, r := range all {
			got += map[bool]string{true: "1", false: "0"}[c.f.Match(r)]
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if c.f.All() != (c.name == "all") {
			t.Errorf("%s: All is %v", c.name, c.f.All())
		}
	}
}

func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ text, since, until string }{
		{"2026-02-03T04:05:06Z", "2026-02-03T04:05:06.000Z", ""},
		{"2026-02-03T04:05:06.7891+02:00", "2026-02-03T02:05:06.789Z", ""},
		{"2026-02-28", "2026-02-28T00:00:00.000Z", "2026-02-28T23:59:59.999Z"},
		{"24h", "2026-02-28T12:00:00.000Z", ""},
		{"7d", "2026-02-22T12:00:00.000Z", ""},
		{"1d12h", "2026-02-28T00:00:00.000Z", ""},
		{"2w", "2026-02-15T12:00:00.000Z", ""},
		{"90m0s", "2026-03-01T10:30:00.000Z", ""},
		{"0s", "2026-03-01T12:00:00.000Z", ""},
		{"15250w", "1733-11-22T12:00:00.000Z", ""},
	} {
		if c.until == "" {
			c.until = c.since
		}
		for end, want := range map[bool]string{false: c.since, true: c.until} {
			if got, err := ParseMoment(c.text, now, end); got != want || err != nil {
				t.Errorf("%q, end %v: %q, %v; want %q", c.text, end, got, err, want)
			}
		}
	}
	for _, text := range []string{
		"", "yesterday", "7", "d", "-7d", "1.5h", "7d ", "7y", "07d", "15251w", "9999999999999999s", "2026-02-30", "2026-2-3",
		"9999-12-31T23:59:59-01:00", "2026-02-03T04:05:06", "2026-02-03 04:05:06Z", "1d-1h",
	} {
		if got, err := ParseMoment(text, now, false); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestParseHashPrefix(t *testing.T) {
	digits := strings.Repeat("0123456789abcdef", 4)
	for text, good := range map[string]bool{
		digits: true, "sha256:" + digits: true, digits[:8]: true, "sha256:" + digits[:8]: true,
		"": false, "sha256:": false, digits[:7]: false, digits + "0": false, "ABCDEF01": false, "sha1:01234567": false, "0123456g": false,
	} {
		got, err := ParseHashPrefix(text)
		if (err == nil) != good || good && got != "sha256:"+strings.TrimPrefix(text, "sha256:") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestOpen(t *testing.T) {
	open := Open{}
	for i, r := range []Record{
		{Kind: KindGenesis}, {Kind: KindBegun, RunID: "a"}, {Kind: KindBegun, RunID: "b"}, {Kind: KindBegun, RunID: "c"},
		{Kind: KindDecision, RunID: "a"}, {Kind: KindError, RunID: "c"}, {Kind: KindDecision, RunID: "d"},
	} {
		open.See(int64(i), r)
	}
	if len(open) != 1 || open["b"] != 2 {
		t.Errorf("open runs %v", open)
	}
}
