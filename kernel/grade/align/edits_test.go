package align

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
)

// TestLongestSubsequence: myers finds as many pairs as the table of all prefixes does. Of lists that
// are too long for that, it finds a common subsequence.
func TestLongestSubsequence(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	solved := func(n, k, kinds int) myers {
		list := func(n int) []int {
			l := make([]int, n)
			for i := range l {
				l[i] = r.IntN(kinds)
			}
			return l
		}
		m := myers{a: list(n), b: list(k)}
		m.solve(0, n, 0, k)
		x, y := -1, -1
		for _, p := range m.pairs {
			if p.x <= x || p.y <= y || m.a[p.x] != m.b[p.y] {
				t.Fatalf("%v and %v: %v", m.a, m.b, m.pairs)
			}
			x, y = p.x, p.y
		}
		return m
	}
	for range 4000 {
		m := solved(r.IntN(25), r.IntN(25), 1+r.IntN(6))
		table := make([][]int, len(m.a)+1)
		table[0] = make([]int, len(m.b)+1)
		for i, v := range m.a {
			table[i+1] = make([]int, len(m.b)+1)
			for j, w := range m.b {
				table[i+1][j+1] = max(table[i][j+1], table[i+1][j])
				if v == w {
					table[i+1][j+1] = table[i][j] + 1
				}
			}
		}
		if want := table[len(m.a)][len(m.b)]; len(m.pairs) != want || m.greedy {
			t.Fatalf("%v and %v: %d pairs, want %d", m.a, m.b, len(m.pairs), want)
		}
	}
	if m := solved(9000, 7000, 10); !m.greedy || len(m.pairs) < 700 {
		t.Errorf("%d pairs of long lists", len(m.pairs))
	}
}

// TestLongTraces: two changes that are far apart are both found, and all else is equal, where the
// traces between them are too long for the shortest difference.
func TestLongTraces(t *testing.T) {
	queries := func(changed bool) map[string]any {
		return retrievals(12000, func(i int) int {
			if changed && (i == 10 || i == 11990) {
				return -i
			}
			return i
		}, func(int) int { return 1 })
	}
	a := Align(queries(false), queries(true))
	counts := make(map[grade.Mark]int)
	for _, r := range a.Rows {
		counts[r.Mark]++
	}
	if !a.Approximate || counts[grade.Different] != 2 || counts[grade.Equal] != 11999 || a.Divergence.Headline != "retrieval: query changed at events[10]" {
		t.Errorf("approximate %v, rows %v, %+v", a.Approximate, counts, a.Divergence)
	}
}

// TestEditsAreBounded: a row has at most 200 edits; long values are hashes, long pointers are cut.
func TestEditsAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxEditBytes)
	many := make([]any, 0, 1000)
	for i := range 1000 {
		many = append(many, numberOf(i))
	}
	deep := any("end")
	for range 60 {
		deep = object(strings.Repeat("n", 500), deep)
	}
	edits := func(from, to any) []grade.Edit {
		return unitEdits(&grade.Unit{Kind: grade.UnitCall, Args: from}, &grade.Unit{Kind: grade.UnitCall, Args: to})
	}
	if got := edits(many, many[1:]); len(got) != maxEdits || got[199] != (grade.Edit{Part: "arguments", Pointer: "/199", From: "199", To: "200"}) {
		t.Errorf("%d edits, the last %+v", len(got), got[len(got)-1])
	}
	if got := unitEdits(&grade.Unit{Kind: grade.UnitCall, Args: many, Status: "ok"}, &grade.Unit{Kind: grade.UnitCall, Args: many[1:], Status: "error"}); len(got) != maxEdits {
		t.Errorf("%d edits", len(got))
	}
	if got := edits(object("a", long+"y"), object("a", long)); len(got) != 1 || got[0].From != string(canon.Sum([]byte(`"`+long+`y"`))) || got[0].To != string(canon.Sum([]byte(`"`+long+`"`))) {
		t.Errorf("%+v", got)
	}
	if got := edits(object("k", long), `{"k":"`+long+`"}`); len(got) != 1 || got[0].From == got[0].To {
		t.Errorf("an object and the text that spells it: %+v", got)
	}
	if got := edits(object("a", []any{long}), object()); len(got) != 1 || got[0].From != string(canon.Sum([]byte(`["`+long+`"]`))) || got[0].To != "" {
		t.Errorf("%+v", got)
	}
	if got := edits(deep, nil); len(got) != 1 || got[0].To != "" || !strings.HasPrefix(got[0].From, "sha256:") {
		t.Errorf("%+v", got)
	}
	got := edits(deep, object(strings.Repeat("n", 500), object()))
	if len(got) != 1 || len(got[0].Pointer) > 260 || !strings.HasSuffix(got[0].Pointer, "…") {
		t.Errorf("%+v", got)
	}
	call := func(tool, status string) map[string]any {
		return object("status", "ok", "events", []any{object("type", "tool_call", "call_id", "c", "tool", tool), object("type", "tool_result", "call_id", "c", "status", status)})
	}
	output := grade.Unit{Kind: grade.UnitOutput, Place: finalPlace}
	if d := firstDivergence([]grade.Row{{Mark: grade.Different, Baseline: &output, New: &output}}); d.Headline != "output: changed" || d.Pointer != "" {
		t.Errorf("a row without an edit: %+v", d)
	}
	tool := strings.Repeat("t", 1000)
	if d := Align(call(tool, long), call(tool, long+"y")).Divergence; d.Kind != "result_status" || len(d.Headline) > 900 || len(d.From) > 260 || len(d.Tool) > 260 {
		t.Errorf("%+v", d)
	}
}

// TestUnitsOfOddFiles: what no agent of ours leaves is a unit all the same, and nothing fails.
func TestUnitsOfOddFiles(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`{"status":"runner_error","events":[{"type":"retrieval"}]}`, ``},
		{`{}`, ``},
		{`{"events":{},"final_output":[]}`, ``},
		{`{"events":[null,1,"a",[],{},{"type":null},{"type":{}}]}`, `other||events[0]||0|-1 other||events[1]||0|-1 other||events[2]||0|-1 other||events[3]||0|-1 other||events[4]||0|-1 other||events[5]||0|-1 other||events[6]||0|-1`},
		{`{"events":[{"type":"tool_call","tool":1,"ts":"x"},{"type":"tool_result","latency_ms":-3,"ts":1e400}]}`, `call||events[0]||0|-1 call||events[1]|events[1]|0|-3`},
		{`{"events":[{"type":"tool_result","call_id":"a"},{"type":"tool_call","call_id":"a","tool":"t"},{"type":"tool_call","call_id":"a","tool":"u"},{"type":"tool_result","call_id":"a"},{"type":"tool_result","call_id":"a"}]}`, `call|t|events[1]|events[0]|0|-1 call|u|events[2]|events[3]|0|-1 call||events[4]|events[4]|0|-1`},
		{`{"events":[{"type":"final_output","content":"a","ts":7},{"type":"span","ts":8}],"final_output":{"content":"a"}}`, `other|span|events[1]||8|-1 output||final_output||7|-1`},
		{`{"events":[{"type":"final_output","content":"a"},{"type":"final_output","content":"b"}],"final_output":{"content":"a"}}`, `output||events[0]||0|-1 output||events[1]||0|-1 output||final_output||0|-1`},
	} {
		doc, err := canon.ParseLiteral([]byte(c.doc), len(c.doc), 1000)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range Units(doc.(map[string]any)) {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s|%v|%v", u.Kind, u.Tool, u.Place, u.Result, u.TS, u.Latency))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.doc, strings.Join(got, " "), c.want)
		}
	}
	if Units(nil) == nil || Align(nil, nil) != nil {
		t.Error("no file")
	}
	odd := Align(object("status", "ok", "events", []any{1.5, []string{"a"}}), object("status", "ok", "events", []any{2.5}))
	if len(odd.Rows) != 2 || odd.Divergence != nil {
		t.Errorf("%+v", odd)
	}
}

// FuzzAlign: no two JSON objects are too odd, and what differs one way differs the other way.
func FuzzAlign(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 30 {
		steps := stepsOf(1+r.IntN(8), 5, r)
		for _, what := range plants {
			if p, ok := plant(f, steps, r.IntN(len(steps)), what); ok {
				f.Add(jsonOf(joined(steps).doc()), jsonOf(noise(f, p.steps, "late", r).doc()))
			}
		}
	}
	f.Add(`{"events":[null,{"type":[]}],"final_output":0}`, `{"events":[{"type":"tool_result","call_id":null,"payload":{"a":[1,{}]},"payload_summary":""}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		docs := []map[string]any{}
		for _, src := range []string{a, b} {
			v, err := canon.ParseLiteral([]byte(src), 1<<16, 1<<12)
			doc, ok := v.(map[string]any)
			if err != nil || !ok {
				return
			}
			doc["status"] = "ok"
			docs = append(docs, doc)
		}
		one, back := Align(docs[0], docs[1]), Align(docs[1], docs[0])
		wellFormed(t, one, docs[0], docs[1])
		wellFormed(t, back, docs[1], docs[0])
		equal := func(a *grade.Alignment) (n int) {
			for _, r := range a.Rows {
				if r.Mark == grade.Equal {
					n++
				}
			}
			return n
		}
		if (one.Divergence == nil) != (back.Divergence == nil) || equal(one) != equal(back) {
			t.Fatalf("%d equal rows, %+v; mirrored %d, %+v", equal(one), one.Divergence, equal(back), back.Divergence)
		}
		if d := one.Divergence; d != nil {
			known := strings.Contains(" tool_added tool_removed arguments result_status payload retrieval output ", " "+d.Kind+" ")
			if !known || d.Baseline == nil && d.New == nil || d.Headline == "" || (d.Kind == "tool_added") != (d.Baseline == nil && d.Kind != "retrieval" && d.Kind != "output") {
				t.Fatalf("%+v", *d)
			}
		}
		if same := Align(docs[0], docs[0]); same.Divergence != nil || equal(same) != len(same.Rows) {
			t.Fatalf("%+v", same)
		}
	})
}
