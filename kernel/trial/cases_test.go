package trial_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/specs"
)

func decoded(t *testing.T, src string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(src), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value()
}

// listOf returns a document of cases that have these ids.
func listOf(ids ...string) string {
	var list []string
	for _, id := range ids {
		list = append(list, `{"id":`+strconv.Quote(id)+`,"input":{"user":"u"}}`)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// TestReadCases: both forms of a document give the same cases, in its order.
func TestReadCases(t *testing.T) {
	list := `[{"id":"b","title":"t","suite":"s","input":{"user":"u"},"expected":{"semantic":1,"must_include":["x"],"assumption_state":2},"metadata":{"severity":"critical","tags":["y","x"],"idempotent":true}},{"id":"a","input":{"user":"u"}}]`
	for _, src := range []string{list, `{"schema_version":"cases.v1","cases":` + list + `}`} {
		if _, faults := specs.Walk(specs.KindSuiteCases, decoded(t, src), 0); faults > 0 {
			t.Fatalf("the document does not fit its schema: %s", src)
		}
		cases, err := trial.ReadCases(decoded(t, src))
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) != 2 || cases[0].ID != "b" || cases[1].ID != "a" {
			t.Fatalf("got %+v", cases)
		}
		c := cases[0]
		if c.Title != "t" || c.Suite != "s" || c.Severity != "critical" || !c.Idempotent || !slices.Equal(c.Tags, []string{"y", "x"}) || !slices.Equal(c.NotJudged, []string{"assumption_state", "semantic"}) {
			t.Errorf("got %+v", c)
		}
		if c.Input.(map[string]any)["user"] != "u" || c.Expected == nil || c.Metadata == nil || cases[1].Expected != nil || cases[1].Idempotent {
			t.Errorf("got %+v", cases)
		}
	}
}

// TestPatterns: a pattern that does not compile is an error of the document, before anything runs.
func TestPatterns(t *testing.T) {
	doc := `[{"id":"a","input":{"user":"u"},"expected":{"must_include":["(","regex:^ok$"],"must_not_include":["fine","regex:(unclosed"]}}]`
	_, err := trial.ReadCases(decoded(t, doc))
	fault, ok := errors.AsType[*trial.CasesError](err)
	if !ok || fault.Pointer != "/0/expected/must_not_include/1" || !strings.Contains(fault.Msg, "missing closing )") {
		t.Errorf("got %v", err)
	}
	if _, err := trial.ReadCases(decoded(t, strings.Replace(doc, "(unclosed", "(closed)", 1))); err != nil {
		t.Error(err)
	}
}

// TestCaseIDs: an id is the name of a file on every system, and of no other case.
func TestCaseIDs(t *testing.T) {
	good := []string{"a", "0", "A.b_c-d", "con1", "COM10", "a.CON", "running", "run.x", strings.Repeat("x", 128)}
	if _, err := trial.ReadCases(decoded(t, listOf(good...))); err != nil {
		t.Error(err)
	}
	many := make([]string, 10_001)
	for i := range many {
		many[i] = "c" + strconv.Itoa(i)
	}
	_, most := specs.Walk(specs.KindSuiteCases, decoded(t, listOf(many[1:]...)), 0)
	_, more := specs.Walk(specs.KindSuiteCases, decoded(t, listOf(many...)), 0)
	if most > 0 || more == 0 {
		t.Errorf("10 000 cases have %d faults, and 10 001 have %d", most, more)
	}
	if _, err := trial.ReadCases(decoded(t, listOf(many[1:]...))); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		ids     []string
		pointer string
	}{
		{[]string{""}, "/0/id"},
		{[]string{"a", "../x"}, "/1/id"},
		{[]string{"a/b"}, "/0/id"},
		{[]string{".a"}, "/0/id"},
		{[]string{"_a"}, "/0/id"},
		{[]string{"é"}, "/0/id"},
		{[]string{"a b"}, "/0/id"},
		{[]string{"a."}, "/0/id"},
		{[]string{strings.Repeat("x", 129)}, "/0/id"},
		{[]string{"CON"}, "/0/id"},
		{[]string{"con.x"}, "/0/id"},
		{[]string{"Com1"}, "/0/id"},
		{[]string{"lpt9.txt"}, "/0/id"},
		{[]string{"nul"}, "/0/id"},
		{[]string{"run"}, "/0/id"},
		{[]string{"Evaluation"}, "/0/id"},
		{[]string{"SIGNATURE"}, "/0/id"},
		{[]string{"a", "b", "a"}, "/2/id"},
		{[]string{"a", "b", "B"}, "/2/id"},
		{[]string{}, ""},
	} {
		for prefix, src := range map[string]string{"": listOf(c.ids...), "/cases": `{"schema_version":"cases.v1","cases":` + listOf(c.ids...) + `}`} {
			_, err := trial.ReadCases(decoded(t, src))
			e, ok := errors.AsType[*trial.CasesError](err)
			if !ok {
				t.Errorf("%.80q is accepted (%v)", c.ids, err)
			} else if e.Pointer != prefix+c.pointer || e.Msg == "" || e.Hint == "" {
				t.Errorf("%.80q: got %+v", c.ids, e)
			}
		}
	}
}

// TestSelect: ids and tags select cases, and a misspelt one is an error that names the nearest.
func TestSelect(t *testing.T) {
	cases, err := trial.ReadCases(decoded(t, `[{"id":"one","input":{"user":""},"metadata":{"tags":["fast","net"]}},{"id":"two","input":{"user":""},"metadata":{"tags":["slow"]}},{"id":"three","input":{"user":""}}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ only, tags, want, hint string }{
		{"", "", "one two three", ""},
		{"three one", "", "one three", ""},
		{"", "slow", "two", ""},
		{"", "slow net", "one two", ""},
		{"one two", "slow", "two", ""},
		{"three", "slow", "", "one of these ids"},
		{"tow", "", "", `"two"`},
		{"", "fats", "", `"fast"`},
		{"something", "", "", "stand in the document"},
		{"ONE", "", "", `"one"`},
	} {
		got, err := cases.Select(strings.Fields(c.only), strings.Fields(c.tags))
		var ids []string
		for _, one := range got {
			ids = append(ids, one.ID)
		}
		if strings.Join(ids, " ") != c.want || (err == nil) != (c.hint == "") {
			t.Errorf("%q, %q: got %q, error %v", c.only, c.tags, ids, err)
		}
		if e, ok := errors.AsType[*trial.CasesError](err); err != nil && (!ok || !strings.Contains(e.Hint, c.hint)) {
			t.Errorf("%q, %q: error %v", c.only, c.tags, err)
		}
	}
}

// TestCasesOfFixtures: the cases of the suites that exist are read.
func TestCasesOfFixtures(t *testing.T) {
	for name, want := range map[string]int{"demo": 9, "minimal-v1": 2} {
		src, err := os.ReadFile(rehearsal.NeedFixture(t, "agent-qa-toolkit", name, "cases.json"))
		if err != nil {
			t.Fatal(err)
		}
		cases, err := trial.ReadCases(decoded(t, string(src)))
		if err != nil || len(cases) != want {
			t.Errorf("%s: %d cases, error %v", name, len(cases), err)
		}
	}
}
