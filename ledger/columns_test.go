package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// ofEachKind returns records of each kind, with all their members, and without the
// optional ones.
func ofEachKind() []Record {
	stamp := Record{Timestamp: "2026-03-01T10:00:00.000Z", ClockBehindMS: 5}
	key := "=example.com/a,b+00000000+AAAA"
	rec := func(k Kind, change func(*Record)) Record {
		r := stamp
		r.Kind = k
		change(&r)
		return r
	}
	run := func(r *Record) {
		d := decided(nil)
		r.RunID, r.IntentSHA256, r.ExecutionMode, r.Mode, r.Policy = d.RunID, d.IntentSHA256, d.ExecutionMode, d.Mode, d.Policy
		r.PolicySHA256, r.Kernel = d.PolicySHA256, d.Kernel
	}
	return []Record{
		rec(KindGenesis, func(r *Record) { r.Format, r.Origin, r.Key = Format, "=example.com/a,b", key }),
		rec(KindKeyRotation, func(r *Record) { r.Key = key }),
		rec(KindRepair, func(r *Record) {
			r.Repairs = []Repair{{RepairTornTail, 10, 4, sumOf(1)}, {RepairNewline, 20, 1, ""}}
		}),
		rec(KindBegun, func(r *Record) { run(r); r.InputSHA256, r.BundleSHA256 = sumOf(3), sumOf(4) }),
		rec(KindBegun, func(r *Record) {
			run(r)
			r.InputSHA256, r.BundleSHA256, r.Work = sumOf(3), sumOf(4), &Work{ItemID: "a", Base: stateOf(5)}
		}),
		decided(nil),
		decided(func(r *Record) { r.Work = decidedWork() }),
		decided(func(r *Record) { r.ClockBehindMS, r.Accepted, r.Reasons = 7, false, []string{"-A", "EXIT 1"} }),
		decided(func(r *Record) {
			r.ResultKind, r.Accepted, r.BundleSHA256, r.Policy = "REFUSE", false, "", "-x"
		}),
		rec(KindError, func(r *Record) { run(r); r.Code, r.RuleID = "RUN_E007", "IV-02" }),
		rec(KindError, func(r *Record) { run(r); r.Code, r.ClockBehindMS = "RUN_E001", 0 }),
	}
}

// TestIndexed: an entry with its index is canonical, and the index is the only new
// member.
func TestIndexed(t *testing.T) {
	for i, r := range ofEachKind() {
		entry, err := r.text()
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(entry, &m); err != nil {
			t.Fatal(err)
		}
		m["index"] = 1000 + i
		want, err := canon.Canonical(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := Indexed(r.Kind, entry, int64(1000+i)); string(got) != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", r.Kind, got, want)
		}
	}
}

// TestRow: a row has all values of the entry, each under its name.
func TestRow(t *testing.T) {
	for i, r := range ofEachKind() {
		entry, err := r.text()
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(entry, &m); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"index": fmt.Sprint(i)}
		for name, v := range m {
			switch v := v.(type) {
			case map[string]any:
				for inner, v := range v {
					want[name+"_"+inner] = fmt.Sprint(v)
				}
			case []any:
				if name == "repairs" {
					b, err := canon.Canonical(v)
					if err != nil {
						t.Fatal(err)
					}
					want[name] = string(b)
					continue
				}
				var texts []string
				for _, s := range v {
					texts = append(texts, s.(string))
				}
				want[name] = strings.Join(texts, "|")
			case nil:
				want[name] = ""
			default:
				want[name] = fmt.Sprint(v)
			}
		}
		row := r.Row(int64(i))
		if len(row) != len(columns) {
			t.Fatalf("%d cells for %d columns", len(row), len(columns))
		}
		for k, name := range Columns() {
			if strings.IndexByte("=+-@", (row[k] + " ")[0]) >= 0 {
				t.Errorf("%s: %s is a formula: %q", r.Kind, name, row[k])
			}
			if got := strings.TrimPrefix(row[k], "'"); got != want[name] {
				t.Errorf("%s: %s is %q, want %q", r.Kind, name, got, want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("%s: not in the row: %v", r.Kind, want)
		}
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "'a": "''a", "a=1": "a=1", "1": "1",
	} {
		if got := Cell(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if c := Columns(); !slices.Equal(c, columns) || &c[0] == &columns[0] {
		t.Error("Columns gives its own list away")
	}
}
