package align

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
)

// alignmentVector is two traces, and what stands beside each other. A row is a mark, the place on
// baseline, the place on new, and the edits of a changed row: part, pointer, from, to.
type alignmentVector struct {
	Name          string
	Baseline, New json.RawMessage
	Rows          [][]any
	Divergence    *grade.Divergence
}

// decoded returns the file of a case. A status is ok unless it is given.
func decoded(t testing.TB, src []byte) map[string]any {
	t.Helper()
	v, err := canon.ParseLiteral(src, len(src), 1e9)
	if err != nil {
		t.Fatalf("%v: %.200s", err, src)
	}
	doc := v.(map[string]any)
	if _, ok := doc["status"]; !ok {
		doc["status"] = "ok"
	}
	return doc
}

// shown returns the rows as a vector has them.
func shown(rows []grade.Row) [][]any {
	list := [][]any{}
	for _, r := range rows {
		row := []any{string(r.Mark), nil, nil}
		for i, u := range []*grade.Unit{r.Baseline, r.New} {
			if u != nil {
				row[i+1] = strings.TrimSuffix(u.Place+" "+u.Result, " ")
			}
		}
		if r.Mark == grade.Different {
			edits := []any{}
			for _, e := range r.Changes {
				edits = append(edits, []any{e.Part, e.Pointer, e.From, e.To})
			}
			row = append(row, edits)
		}
		list = append(list, row)
	}
	return list
}

func indented(t testing.TB, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), `],["`, "],\n[\"")
}

func TestAlignmentVectors(t *testing.T) {
	src, err := os.ReadFile("../../../specs/vectors/evaluation/alignments.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		About   string
		Vectors []alignmentVector
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Vectors) < 40 || doc.About == "" || strings.ContainsFunc(string(src), func(r rune) bool { return r >= 0x80 }) {
		t.Fatalf("%d vectors in plain ASCII", len(doc.Vectors))
	}
	names := make(map[string]bool)
	for _, v := range doc.Vectors {
		if names[v.Name] {
			t.Errorf("two vectors are %q", v.Name)
		}
		names[v.Name] = true
		t.Run(v.Name, func(t *testing.T) {
			baseline, latest := decoded(t, v.Baseline), decoded(t, v.New)
			before := jsonOf([]any{baseline, latest})
			a := Align(baseline, latest)
			if (a == nil) != (v.Rows == nil) {
				t.Fatalf("alignment %v", a)
			}
			if after := jsonOf([]any{baseline, latest}); after != before {
				t.Error("a file was changed")
			}
			if a == nil {
				return
			}
			if got, want := indented(t, shown(a.Rows)), indented(t, v.Rows); got != want {
				t.Errorf("rows\n%s\nwant\n%s", got, want)
			}
			if got, want := indented(t, a.Divergence), indented(t, v.Divergence); got != want {
				t.Errorf("divergence\n%s\nwant\n%s", got, want)
			}
			if a.Approximate {
				t.Error("approximate")
			}
		})
	}
}

// trace is an agent's trace that tests make and change.
type trace struct {
	events []any
	output string
}

func object(pairs ...any) map[string]any {
	o := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

func numberOf(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// step returns the events of one unit. Of n different ones, the i-th has a content of its own.
func step(i, kind int) []any {
	id, text := fmt.Sprintf("c%d", i), fmt.Sprintf("text %d", kind)
	switch {
	case kind%7 == 3:
		return []any{object("type", "retrieval", "ts", numberOf(i), "query", text, "doc_ids", []any{"d1", text})}
	case kind%11 == 5:
		return []any{object("type", "final_output", "ts", numberOf(i), "content_type", "text", "content", text)}
	}
	return []any{
		object("type", "tool_call", "ts", numberOf(i), "call_id", id, "tool", fmt.Sprintf("tool%d", kind%5), "args", object("text", text, "page", numberOf(kind%3))),
		object("type", "tool_result", "ts", numberOf(i), "call_id", id, "status", "ok", "latency_ms", numberOf(i%9), "payload_summary", object("found", text)),
	}
}

func (tr trace) doc() map[string]any {
	return object("status", "ok", "events", tr.events, "final_output", object("content_type", "text", "content", tr.output))
}

// stepsOf returns about that many events, as units whose contents are of that many kinds.
func stepsOf(events, kinds int, r *rand.Rand) (steps [][]any) {
	for n := 0; n < events; {
		kind := len(steps)
		if kinds > 0 {
			kind = r.IntN(kinds)
		}
		steps = append(steps, step(len(steps), kind))
		n += len(steps[len(steps)-1])
	}
	return steps
}

func joined(steps [][]any) trace { return trace{slices.Concat(steps...), "done"} }

// noise changes what is no difference: times, call ids, action ids, latencies, and the order, in
// which results come late, or events stand anywhere.
func noise(t testing.TB, steps [][]any, order string, r *rand.Rand) trace {
	t.Helper()
	var events []any
	for _, s := range steps {
		for _, e := range s {
			o := maps.Clone(e.(map[string]any))
			o["ts"] = numberOf(r.IntN(1e6))
			if id, ok := o["call_id"].(string); ok {
				o["call_id"], o["action_id"] = "other-"+id, "a"+id
			}
			if o["type"] == "tool_result" {
				o["latency_ms"] = numberOf(r.IntN(1e6))
			}
			events = append(events, o)
		}
	}
	switch order {
	case "any":
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	case "late": // results come later, each by some places
		for i := len(events) - 2; i >= 0; i-- {
			if o := events[i].(map[string]any); o["type"] == "tool_result" {
				at := min(i+r.IntN(4), len(events)-1)
				copy(events[i:], events[i+1:at+1])
				events[at] = o
			}
		}
	}
	return trace{events, "done"}
}

// wellFormed fails unless each unit stands in one row and units of new are in order.
func wellFormed(t testing.TB, a *grade.Alignment, baseline, latest map[string]any) {
	t.Helper()
	seen := make(map[string]int)
	var order []string
	for _, r := range a.Rows {
		if r.Baseline != nil {
			seen["old "+r.Baseline.Place]++
		}
		if r.New != nil {
			seen["new "+r.New.Place]++
			order = append(order, r.New.Place)
		}
		if (r.Baseline == nil) != (r.Mark == grade.OnlyNew) || (r.New == nil) != (r.Mark == grade.OnlyOld) || (len(r.Changes) > 0) != (r.Mark == grade.Different) || len(r.Changes) > maxEdits {
			t.Fatalf("row %+v", r)
		}
	}
	var places []string
	for _, u := range Units(latest) {
		places = append(places, u.Place)
	}
	if !slices.Equal(order, places) {
		t.Fatalf("units of new are in another order")
	}
	if want := len(places) + len(Units(baseline)); len(seen) != want {
		t.Fatalf("%d places of %d", len(seen), want)
	}
	for place, n := range seen {
		if n != 1 {
			t.Fatalf("%s in %d rows", place, n)
		}
	}
}

// TestNoDivergence: another order, other times and other call ids alone are no difference.
func TestNoDivergence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		size, kinds := r.IntN(40), r.IntN(12)
		if round == 0 {
			size, kinds = 5000, 0
		}
		steps := stepsOf(size, kinds, r)
		baseline := joined(steps).doc()
		for _, order := range []string{"same", "late", "any"} {
			latest := noise(t, steps, order, r).doc()
			a := Align(baseline, latest)
			wellFormed(t, a, baseline, latest)
			if a.Divergence != nil {
				t.Fatalf("round %d, order %s: %+v\n%s\n%s", round, order, *a.Divergence, jsonOf(baseline), jsonOf(latest))
			}
			for _, row := range a.Rows {
				if row.Mark != grade.Equal {
					t.Fatalf("round %d: row %+v", round, row)
				}
			}
		}
	}
}

// planted is one change of a trace, and what must be named.
type planted struct {
	steps         [][]any
	output        string
	kind          string
	baseline, new string // places; empty: none
}

var plants = []string{"add call", "add retrieval", "add output", "remove", "tool", "arguments", "status", "payload", "no result", "query", "documents", "event output", "output"}

// plant changes one of the steps, the first one from an index on that can be changed so, or the
// first one before it.
func plant(t testing.TB, steps [][]any, at int, what string) (planted, bool) {
	t.Helper()
	kinds := map[string]string{"tool": "tool_call", "arguments": "tool_call", "status": "tool_call", "payload": "tool_call", "no result": "tool_call", "query": "retrieval", "documents": "retrieval", "event output": "final_output"}
	fits := func(i int) bool {
		return kinds[what] == "" || steps[i][0].(map[string]any)["type"] == kinds[what]
	}
	for i := range 2 * len(steps) {
		if i < len(steps) && at+i < len(steps) && fits(at+i) {
			at += i
			break
		} else if n := at - 1 - i; i < len(steps) && n >= 0 && at+i >= len(steps) && fits(n) {
			at = n
			break
		}
	}
	if what != "output" && !strings.HasPrefix(what, "add") && (at >= len(steps) || !fits(at)) {
		return planted{}, false
	}
	first := 0
	for _, s := range steps[:at] {
		first += len(s)
	}
	place, result := fmt.Sprintf("events[%d]", first), fmt.Sprintf("events[%d]", first+1)
	p := planted{steps: slices.Clone(steps), output: "done", baseline: place, new: place}
	change := func(event int, member string, to any) {
		o := maps.Clone(p.steps[at][event].(map[string]any))
		o[member] = to
		p.steps[at] = slices.Clone(p.steps[at])
		p.steps[at][event] = o
	}
	add := func(kind string, events ...any) {
		p.steps = slices.Insert(p.steps, at, events)
		p.kind, p.baseline = kind, ""
	}
	switch what {
	case "add call":
		add("tool_added", object("type", "tool_call", "ts", numberOf(1), "call_id", "planted", "tool", "tool1", "args", object()), object("type", "tool_result", "ts", numberOf(1), "call_id", "planted", "status", "ok"))
	case "add retrieval":
		add("retrieval", object("type", "retrieval", "ts", numberOf(1), "query", "planted", "doc_ids", []any{}))
	case "add output":
		add("output", object("type", "final_output", "ts", numberOf(1), "content_type", "text", "content", "planted"))
	case "remove":
		kind, _ := steps[at][0].(map[string]any)["type"].(string)
		p.steps, p.new = slices.Delete(p.steps, at, at+1), ""
		p.kind = map[string]string{"tool_call": "tool_removed", "retrieval": "retrieval", "final_output": "output"}[kind]
	case "tool":
		change(0, "tool", "planted")
		p.kind, p.new = "tool_removed", ""
	case "arguments":
		change(0, "args", object("text", "planted"))
		p.kind = "arguments"
	case "status":
		change(1, "status", "error")
		p.kind, p.baseline, p.new = "result_status", result, result
	case "payload":
		change(1, "payload_summary", "planted")
		p.kind, p.baseline, p.new = "payload", result, result
	case "no result":
		p.steps[at] = p.steps[at][:1]
		p.kind, p.baseline = "result_status", result
	case "query":
		change(0, "query", "planted")
		p.kind = "retrieval"
	case "documents":
		change(0, "doc_ids", []any{"planted"})
		p.kind = "retrieval"
	case "event output":
		change(0, "content", "planted")
		p.kind = "output"
	case "output":
		p.kind, p.baseline, p.new, p.output = "output", finalPlace, finalPlace, "planted"
	}
	return p, true
}

func placeOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestPlantedChange: one change is named, wherever it stands, and by the mirrored name if the
// sides are changed.
func TestPlantedChange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	mirrored := map[string]string{"tool_added": "tool_removed", "tool_removed": "tool_added"}
	count := make(map[string]int)
	check := func(steps [][]any, at int, what string, order string) {
		p, ok := plant(t, steps, at, what)
		if !ok {
			return
		}
		count[what]++
		changed := noise(t, p.steps, order, r)
		changed.output = p.output
		baseline, latest := joined(steps).doc(), changed.doc()
		a, back := Align(baseline, latest), Align(latest, baseline)
		wellFormed(t, a, baseline, latest)
		d, m := a.Divergence, back.Divergence
		if d == nil || m == nil {
			t.Fatalf("%s at %d: %v, mirrored %v", what, at, d, m)
		}
		if d.Kind != p.kind {
			t.Fatalf("%s at %d: %+v", what, at, *d)
		}
		baselinePlace, newPlace := placeOf(d.Baseline), placeOf(d.New)
		if what == "remove" { // of equal neighbours, any may be named
			find := func(place string) string {
				for _, u := range Units(baseline) {
					if u.Place == place {
						return jsonOf([]any{string(u.Kind), u.Tool, u.Args, u.Status, u.Payload})
					}
				}
				return place
			}
			baselinePlace, p.baseline = find(baselinePlace), find(p.baseline)
		}
		if order == "same" && (baselinePlace != p.baseline || newPlace != p.new) {
			t.Fatalf("%s at %d: named %s, %s, want %s, %s: %s", what, at, baselinePlace, newPlace, p.baseline, p.new, d.Headline)
		}
		if what == "tool" { // one call less and one more: the one on baseline comes first
			return
		}
		if want := mirrored[d.Kind]; m.Kind != d.Kind && m.Kind != want || want != "" && m.Kind != want || m.From != d.To || m.To != d.From || placeOf(m.New) != placeOf(d.Baseline) && what != "remove" || placeOf(m.Baseline) != placeOf(d.New) {
			t.Fatalf("%s at %d: %+v, mirrored %+v", what, at, *d, *m)
		}
		if n := slices.IndexFunc(a.Rows, func(r grade.Row) bool { return r.Mark != grade.Equal }); slices.ContainsFunc(a.Rows[n+1:], func(r grade.Row) bool { return r.Mark != grade.Equal }) {
			t.Fatalf("%s at %d: more than one row differs", what, at)
		}
	}
	long := stepsOf(5000, 0, r)
	for _, what := range plants {
		for _, at := range []int{0, len(long) / 2, len(long) - 1} {
			check(long, at, what, "same")
		}
	}
	for range 150 {
		steps := stepsOf(1+r.IntN(30), r.IntN(8), r)
		for _, what := range plants {
			check(steps, r.IntN(len(steps)), what, "late")
			check(steps, r.IntN(len(steps)), what, "same")
			check(steps, 0, what, "same")
			check(steps, len(steps)-1, what, "same")
		}
	}
	for _, what := range plants {
		if count[what] < 100 {
			t.Errorf("%s: %d times", what, count[what])
		}
	}
}
