package trial_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// vector is an answer, and what becomes of it.
type vector struct {
	Name       string
	CaseID     string `json:"case_id"`
	Version    trial.Side
	Strict     bool
	Warn       bool
	Limit      *int
	Redactions []string
	Answer     json.RawMessage
	Case       json.RawMessage
	Assets     []struct{ Kind, Content string }
	Faults     []string
}

func vectors(t testing.TB) []vector {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/suite/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		About   string
		Vectors []vector
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Vectors) < 150 || doc.About == "" || strings.ContainsFunc(string(src), func(r rune) bool { return r >= 0x80 }) {
		t.Fatalf("%d vectors in plain ASCII", len(doc.Vectors))
	}
	return doc.Vectors
}

func (v vector) want() trial.Want {
	w := trial.Want{CaseID: v.CaseID, Version: v.Version, Limits: trial.DefaultLimits(), Strict: v.Strict, WarnEvidence: v.Warn, Redactions: v.Redactions}
	if v.Limit != nil {
		w.Limits.MaxPayloadInlineBytes = *v.Limit
	}
	return w
}

// text returns the JSON text of a member of a vector: the text that is the member, or the member.
func text(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	if !strings.HasPrefix(string(raw), `"`) {
		return string(raw)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, src string) any {
	t.Helper()
	v, err := canon.ParseLiteral([]byte(src), len(src), 1e9)
	if err != nil {
		t.Fatalf("%v: %.200s", err, src)
	}
	return v
}

func literal(t testing.TB, v any) string {
	t.Helper()
	b, err := canon.Literal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// file returns the file of a case, decoded, and checks the members that every case has.
func file(t testing.TB, want trial.Want, a trial.Answered) map[string]any {
	t.Helper()
	b, err := trial.OKCase{CaseID: want.CaseID, Version: want.Version, Answered: a, Attempts: []trial.Attempt{{Attempt: 1, StartedAt: "2026-01-02T03:04:05Z", Outcome: trial.OK}}}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	doc := parse(t, string(b)).(map[string]any)
	if literal(t, doc)+"\n" != string(b) {
		t.Errorf("the file has another form:\n%s", b)
	}
	if doc["schema_version"] != "case.v1" || doc["case_id"] != want.CaseID || doc["version"] != string(want.Version) || doc["status"] != "ok" || len(doc["attempts"].([]any)) != 1 {
		t.Errorf("envelope of %s", b)
	}
	return doc
}

// check normalizes an answer, and checks what holds for every answer: the answer is not changed,
// faults are sorted and few, and the answer that the case is restored to gives the case again.
func check(t testing.TB, answer any, want trial.Want) (doc map[string]any, assets []trial.Asset, faults []trial.Fault) {
	t.Helper()
	before := literal(t, answer)
	a, faults := trial.Normalize(answer, want)
	if literal(t, answer) != before {
		t.Errorf("the answer was changed: %s", before)
	}
	if len(faults) > 0 {
		named := faults[:min(len(faults), 20)]
		if !slices.IsSortedFunc(named, func(a, b trial.Fault) int { return strings.Compare(a.Pointer, b.Pointer) }) || len(faults) > 21 {
			t.Errorf("faults %v", faults)
		}
		return nil, nil, faults
	}
	doc = file(t, want, a)
	was := literal(t, doc)
	contents := map[string][]byte{}
	for _, asset := range a.Assets {
		contents[asset.Href] = asset.Content
		if again := trial.NewAsset(asset.Kind, asset.Content); again.Href != asset.Href || !strings.Contains(was, asset.Href) {
			t.Errorf("asset %s", asset.Href)
		}
	}
	read := func(href string) ([]byte, error) {
		b, ok := contents[href]
		if !ok {
			return nil, fmt.Errorf("no asset %s", href)
		}
		return b, nil
	}
	restored, err := trial.Restore(doc, read)
	if err != nil {
		t.Fatal(err)
	}
	if literal(t, doc) != was {
		t.Errorf("the case was changed: %s", was)
	}
	want.Strict = true // there is nothing to repair
	b, again := trial.Normalize(parse(t, literal(t, restored)), want)
	if len(again) > 0 || len(b.Normalizations) > 0 {
		t.Fatalf("the restored answer of %s has %v, %v", was, again, b.Normalizations)
	}
	b.Normalizations = a.Normalizations
	if got := literal(t, file(t, want, b)); got != was {
		t.Fatalf("the restored answer becomes another case:\n%s\n%s", was, got)
	}
	if !slices.EqualFunc(a.Assets, b.Assets, func(a, b trial.Asset) bool { return a.Href == b.Href && a.Kind == b.Kind }) {
		t.Errorf("other assets: %v, %v", a.Assets, b.Assets)
	}
	return doc, a.Assets, nil
}

// TestAnswerVectors: each answer becomes its case with its assets, or has faults at its pointers.
func TestAnswerVectors(t *testing.T) {
	names := map[string]bool{}
	for _, v := range vectors(t) {
		if names[v.Name] || v.Name == "" {
			t.Errorf("two vectors %q", v.Name)
		}
		names[v.Name] = true
		t.Run(v.Name, func(t *testing.T) {
			doc, assets, faults := check(t, parse(t, text(t, v.Answer)), v.want())
			var pointers []string
			for _, f := range faults {
				pointers = append(pointers, f.Pointer)
			}
			if !slices.Equal(pointers, v.Faults) {
				t.Fatalf("faults %v", faults)
			}
			if faults != nil {
				return
			}
			for _, name := range []string{"schema_version", "case_id", "version", "status", "attempts"} {
				delete(doc, name)
			}
			if got, want := literal(t, doc), literal(t, parse(t, text(t, v.Case))); got != want {
				t.Errorf("the case is\n%s\nand should be\n%s", got, want)
			}
			for i, a := range assets {
				if i >= len(v.Assets) || string(a.Kind) != v.Assets[i].Kind || string(a.Content) != v.Assets[i].Content {
					t.Errorf("asset %d is %s: %s", i, a.Kind, a.Content)
				}
			}
			if len(assets) != len(v.Assets) {
				t.Errorf("%d assets", len(assets))
			}
		})
	}
}

// TestVectorsAreComplete: the vectors have every repair and every message of a fault.
func TestVectorsAreComplete(t *testing.T) {
	missing := map[string]bool{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constant := regexp.MustCompile(`(?m)^\s+(?:msg\w+|\w+ +RepairRule) += "(.*?)"`)
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(src), -1) {
			missing[m[1]] = !strings.HasSuffix(name, "_test.go")
		}
	}
	if len(missing) < 18 {
		t.Fatalf("only %d constants found", len(missing))
	}
	for _, v := range vectors(t) {
		a, faults := trial.Normalize(parse(t, text(t, v.Answer)), v.want())
		for _, r := range a.Normalizations {
			delete(missing, string(r.Rule))
		}
		for i, f := range faults {
			if _, known := missing[f.Msg]; !known && i < 20 && strings.HasSuffix(f.Msg, "faults") {
				t.Errorf("%s: %v", v.Name, f)
			}
			delete(missing, f.Msg)
		}
	}
	delete(missing, "the value has no form in JSON") // which no JSON text has: TestNoJSON
	if len(missing) > 0 {
		t.Errorf("no vector has %q", slices.Sorted(maps.Keys(missing)))
	}
}

// TestNoJSON: a value that JSON cannot express is a fault or an error, and never a text.
func TestNoJSON(t *testing.T) {
	const bad = "\xff"
	limits := trial.Limits{MaxPayloadInlineBytes: 4}
	for name, members := range map[string]string{
		"extensions":      `"more":"BAD"`,
		"content":         `"final_output":{"content_type":"json","content":["BAD"]}`,
		"object":          `"final_output":{"content_type":"json","content":{"a":"BAD"}}`,
		"payload_summary": `"events":[{"type":"tool_result","ts":1,"call_id":"c","status":"ok","payload_summary":{"a":"BAD"}}]`,
		"snippets":        `"events":[{"type":"retrieval","ts":1,"query":"q","snippets":["BAD"]}]`,
	} {
		if !strings.Contains(members, "final_output") {
			members += `,"final_output":{"content_type":"text","content":""}`
		}
		answer := parse(t, `{`+members+`}`)
		if _, faults := trial.Normalize(swap(answer, bad), trial.Want{Limits: limits}); len(faults) == 0 {
			t.Errorf("%s: no fault", name)
		}
	}
	a, faults := trial.Normalize(swap(parse(t, `{"workflow_id":"BAD","final_output":{"content_type":"text","content":""}}`), bad), trial.Want{})
	if b, err := (trial.OKCase{Answered: a}).Bytes(); len(faults) > 0 || err == nil || b != nil {
		t.Errorf("%v, %v, %q", faults, err, b)
	}
}

// swap returns a value with another string in the place of each BAD.
func swap(v any, to string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = swap(member, to)
		}
	case []any:
		for i, element := range v {
			v[i] = swap(element, to)
		}
	case string:
		return strings.ReplaceAll(v, "BAD", to)
	}
	return v
}

// TestNewAsset: the name of an asset says whether it is text.
func TestNewAsset(t *testing.T) {
	for content, href := range map[string]string{
		"":         "assets/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.txt",
		"abc":      "assets/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.txt",
		"\x00\xff": "assets/06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8.bin",
	} {
		a := trial.NewAsset(trial.KindOther, []byte(content))
		if a.Href != href || a.ID("case-1") != "case-1/other/"+href[7:23] {
			t.Errorf("%q: %s, %s", content, a.Href, a.ID("case-1"))
		}
	}
}

// TestRestoreRefuses: a case whose assets are missing or changed has no answer.
func TestRestoreRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"no extensions":     `{"extensions_href":"assets/none.txt"}`,
		"no JSON":           `{"extensions_href":"assets/text.txt"}`,
		"no payload":        `{"events":[{"payload_asset_href":"assets/none.txt"}]}`,
		"payload, no JSON":  `{"events":[{"payload_asset_href":"assets/text.txt","payload_asset_type":"json"}]}`,
		"no snippets":       `{"events":[{"snippets_asset_href":"../none.txt"}]}`,
		"snippets, no JSON": `{"events":[{},{"snippets_asset_href":"assets/text.txt","snippets_asset_type":"json"}]}`,
	} {
		v, err := trial.Restore(parse(t, doc).(map[string]any), func(href string) ([]byte, error) {
			if href == "assets/text.txt" {
				return []byte("{"), nil
			}
			return nil, os.ErrNotExist
		})
		if err == nil || v != nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	for _, doc := range []string{`{"events":[[],null]}`, `{"events":{}}`, `{"final_output":1}`} { // Normalize finds the faults
		if v, err := trial.Restore(parse(t, doc).(map[string]any), nil); err != nil || literal(t, v) != doc {
			t.Errorf("%s: %v, %v", doc, v, err)
		}
	}
}

// FuzzNormalize: no answer stops Normalize, and what check says holds for each.
func FuzzNormalize(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(text(f, v.Answer)), v.Strict, v.Warn, uint16(v.want().Limits.MaxPayloadInlineBytes))
	}
	f.Fuzz(func(t *testing.T, src []byte, strict, warn bool, limit uint16) {
		answer, err := canon.ParseLiteral(src, len(src), 10000)
		if err != nil {
			return
		}
		check(t, answer, trial.Want{CaseID: "case-1", Version: "new", Strict: strict, WarnEvidence: warn, Limits: trial.Limits{MaxPayloadInlineBytes: int(limit) - 1}})
	})
}

// TestRandomAnswers mixes the values of the vectors, so that many odd answers have no fault.
func TestRandomAnswers(t *testing.T) {
	var answers []any
	pool := map[string][]any{} // values of members by name
	for _, v := range vectors(t) {
		answer := parse(t, text(t, v.Answer))
		gather(answer, pool)
		answers = append(answers, answer)
	}
	r := rand.New(rand.NewPCG(1, 2))
	good, faulty := 0, 0
	for range 4000 {
		answer := parse(t, literal(t, answers[r.IntN(len(answers))]))
		mutate(r, answer, pool)
		_, _, faults := check(t, answer, trial.Want{CaseID: "case-1", Version: "new", Strict: r.IntN(4) == 0, WarnEvidence: r.IntN(2) == 0, Limits: trial.Limits{MaxPayloadInlineBytes: r.IntN(60) - 1}})
		if len(faults) > 0 {
			faulty++
		} else {
			good++
		}
	}
	if good < 800 || faulty < 800 {
		t.Errorf("%d answers are good, and %d are not", good, faulty)
	}
}

// gather collects the values of all members.
func gather(v any, pool map[string][]any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			pool[name] = append(pool[name], member)
			gather(member, pool)
		}
	case []any:
		for _, element := range v {
			gather(element, pool)
		}
	}
}

// mutate changes some members and elements.
func mutate(r *rand.Rand, v any, pool map[string][]any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch r.IntN(40) {
			case 0:
				delete(v, name)
			case 1:
				v[name] = pool[name][r.IntN(len(pool[name]))]
			case 2:
				names := slices.Sorted(maps.Keys(pool))
				other := names[r.IntN(len(names))]
				v[other] = pool[other][r.IntN(len(pool[other]))]
			default:
				mutate(r, v[name], pool)
			}
		}
	case []any:
		for i := range v {
			mutate(r, v[i], pool)
		}
		if len(v) > 1 && r.IntN(20) == 0 {
			v[0], v[len(v)-1] = v[len(v)-1], v[0]
		}
	}
}

// large returns an answer with so many calls and results, and a payload of 1000 bytes for each.
func large(calls int) string {
	var b strings.Builder
	b.WriteString(`{"final_output":{"content":"done","content_type":"text"},"events":[`)
	for i := range calls {
		fmt.Fprintf(&b, `{"type":"tool_call","ts":%d,"call_id":"c%d","tool":"t","args":{}},{"type":"tool_result","ts":%d,"call_id":"c%d","status":"ok","payload_summary":{"rows":"%0990d"}},`, 2*i, i, 2*i+1, i, i)
	}
	b.WriteString(`{"type":"deep","ts":1,"x":` + strings.Repeat("[", 61) + strings.Repeat("]", 61) + `}],"proposed_actions":[`)
	for i := range calls {
		fmt.Fprintf(&b, `{"action_id":"a%d","action_type":"t","tool_name":"t","params":{},"evidence_refs":[{"kind":"tool_result","call_id":"c%d"},{"kind":"event","id":"%d"}]},`, i, i, i)
	}
	return strings.TrimSuffix(b.String(), ",") + "]}"
}

// TestLargeAnswers: the work for an answer grows with its size, also if every payload is an asset.
func TestLargeAnswers(t *testing.T) {
	allocs := func(calls, limit int) float64 {
		answer := parse(t, large(calls))
		want := trial.Want{Limits: trial.Limits{MaxPayloadInlineBytes: limit}}
		return testing.AllocsPerRun(1, func() {
			if a, faults := trial.Normalize(answer, want); len(faults) > 0 || len(a.Normalizations) != 3*calls {
				t.Errorf("%v, %d repairs", faults, len(a.Normalizations))
			}
		})
	}
	for _, limit := range []int{100, 2000} {
		if few, many := allocs(300, limit), allocs(3000, limit); many > 12*few {
			t.Errorf("limit %d: %.0f allocations for 300 calls, and %.0f for 3000", limit, few, many)
		}
	}
	check(t, parse(t, large(1000)), trial.Want{Limits: trial.Limits{MaxPayloadInlineBytes: 500}})
}

// BenchmarkNormalize normalizes an answer of 3000 calls and about 4 MB.
func BenchmarkNormalize(b *testing.B) {
	src := large(3000)
	answer := parse(b, src)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		trial.Normalize(answer, trial.Want{Limits: trial.DefaultLimits()})
	}
}
