package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

func TestNew(t *testing.T) {
	for _, format := range report.Formats() {
		if _, err := report.New(format, io.Discard, report.Options{}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	if r, err := report.New("yaml", io.Discard, report.Options{}); err == nil || r != nil || !strings.Contains(err.Error(), `"yaml"`) {
		t.Errorf("yaml gives %v, %v", r, err)
	}
}

func TestItem(t *testing.T) {
	for _, tc := range []struct {
		item          report.Item
		name, outcome string
	}{
		{report.Item{Path: "a.json", Decision: kernel.Decision{Outcome: kernel.OutcomeBundle}}, "a.json", "BUNDLE"},
		{report.Item{Path: "a.jsonl", Line: 3, Decision: kernel.Decision{Outcome: kernel.OutcomeClarify}}, "a.jsonl:3", "CLARIFY"},
		{report.Item{Path: "-", Decision: kernel.Decision{Outcome: kernel.OutcomeRefuse}}, "-", "REFUSE"},
		{report.Item{Path: "a.json", Decision: kernel.Decision{Outcome: kernel.OutcomeBundle}, Err: &result.RunError{}}, "a.json", "ERROR"},
		{report.Item{Path: "a.json"}, "a.json", "ERROR"},
		{executed("a.json", "{}", report.Execution{Accepted: true}), "a.json", "BUNDLE"},
		{executed("a.json", "{}", report.Execution{}), "a.json", "FAILED"},
		{report.Item{Path: "a.json", Execution: &report.Execution{}, Err: &result.RunError{}}, "a.json", "ERROR"},
		{report.Item{Path: "a.json", Decision: kernel.Decision{Outcome: "ACCEPTED"}}, "a.json", "ERROR"},
		{report.Item{Path: "a.go", Unannounced: "added", Decision: kernel.Decision{Outcome: kernel.OutcomeBundle}}, "a.go", "UNANNOUNCED"},
	} {
		if tc.item.Name() != tc.name || tc.item.Outcome() != tc.outcome {
			t.Errorf("got %s %s, want %s %s", tc.item.Name(), tc.item.Outcome(), tc.name, tc.outcome)
		}
		var c report.Counts
		c.Add(tc.item)
		got := map[string]int{"BUNDLE": c.Bundle, "CLARIFY": c.Clarify, "REFUSE": c.Refuse, "FAILED": c.Failed, "ERROR": c.Errors, "UNANNOUNCED": c.Unannounced}[tc.outcome]
		rejected := map[string]int{"CLARIFY": 1, "REFUSE": 1, "FAILED": 1}[tc.outcome]
		intents := map[bool]int{true: 0, false: 1}[tc.outcome == "UNANNOUNCED"]
		if got != 1 || c.Total() != intents || c.Rejected() != rejected {
			t.Errorf("%s is counted as %+v", tc.outcome, c)
		}
	}
}

// TestNothing: no items, no decision and no error are reported as such.
func TestNothing(t *testing.T) {
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for _, items := range [][]report.Item{nil, {{Path: "empty.json"}}} {
		for _, format := range report.Formats() {
			doc := render(t, format, items)
			if items == nil {
				check(t, format, doc, items, schema, xmllint)
			}
			switch format {
			case "json":
				if len(doc) != 0 {
					t.Errorf("json: %s", doc)
				}
			case "agent":
				if (len(doc) == 0) != (items == nil) {
					t.Errorf("agent: %s", doc)
				}
			case "sarif":
				if run := sarifOf(t, doc).Invocations[0]; run.ExecutionSuccessful || run.ExitCode != 2 {
					t.Errorf("sarif: %+v", run)
				}
			case "junit":
				if want := `tests="` + strconv.Itoa(len(items)); !bytes.Contains(doc, []byte(want)) {
					t.Errorf("junit: no %s", want)
				}
			default:
				if want := map[bool]string{true: "0 intents", false: "ERROR"}[items == nil]; !bytes.Contains(doc, []byte(want)) {
					t.Errorf("%s does not say %q: %s", format, want, doc)
				}
			}
		}
	}
}

// TestStatus: a check of nothing passes only if it was asked about a change, and a path without an
// announcement fails it as a rejected intent does.
func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		summary report.Summary
		want    int
	}{
		{report.Summary{}, 2},
		{report.Summary{ReportOnly: true}, 2},
		{report.Summary{Change: true}, 0},
		{report.Summary{Counts: report.Counts{Unannounced: 1}}, 2},
		{report.Summary{Change: true, Counts: report.Counts{Unannounced: 1}}, 1},
		{report.Summary{Change: true, ReportOnly: true, Counts: report.Counts{Unannounced: 1}}, 0},
		{report.Summary{Counts: report.Counts{Bundle: 1}}, 0},
		{report.Summary{Counts: report.Counts{Bundle: 1, Clarify: 1}}, 1},
		{report.Summary{Counts: report.Counts{Bundle: 1, Failed: 1}, ReportOnly: true}, 0},
		{report.Summary{Change: true, Counts: report.Counts{Refuse: 1, Errors: 1}, ReportOnly: true}, 2},
	} {
		if got := tc.summary.Status(); got != tc.want {
			t.Errorf("%+v is status %d, want %d", tc.summary, got, tc.want)
		}
		if run := sarifOf(t, renderWith(t, "sarif", nil, tc.summary)).Invocations[0]; run.ExitCode != tc.want || run.ExecutionSuccessful != (tc.want < 2) {
			t.Errorf("%+v is %+v", tc.summary, run)
		}
	}
	none := report.Summary{Change: true}
	for format, want := range map[string]string{"markdown": "# fiador: ACCEPTED, the change brings no intent\n", "junit": `tests="0" failures="0" errors="0"`, "human": "TOTAL  0 intents", "github": "fiador: 0 intents"} {
		doc := renderWith(t, format, nil, none)
		check(t, format, doc, nil, sarifSchema(t), junitSchema(t))
		if !bytes.Contains(doc, []byte(want)) {
			t.Errorf("%s does not say %q: %s", format, want, doc)
		}
	}
}

func TestReportOnly(t *testing.T) {
	testReportOnly(t, refused("a.json", `{}`, denial("DENIED", "/goal", "no", "")))
	testReportOnly(t, executed("a.json", `{}`, rejected(1, "", "EXIT 1")))
}

func testReportOnly(t *testing.T, i report.Item) {
	items := []report.Item{i}
	s := summary(items)
	for _, only := range []bool{false, true} {
		s.ReportOnly = only
		for _, format := range []string{"human", "github", "markdown"} {
			if doc := renderWith(t, format, items, s); bytes.Contains(doc, []byte("REPORT ONLY")) != only {
				t.Errorf("%s, report only %v: %s", format, only, doc)
			}
		}
		want := map[bool]int{false: 1, true: 0}[only]
		if run := sarifOf(t, renderWith(t, "sarif", items, s)).Invocations[0]; run.ExitCode != want || !run.ExecutionSuccessful {
			t.Errorf("report only %v: %+v", only, run)
		}
	}
	s.Counts.Errors = 1
	if run := sarifOf(t, renderWith(t, "sarif", items, s)).Invocations[0]; run.ExitCode != 2 {
		t.Errorf("an error in a report-only run: %+v", run)
	}
}

func TestHuman(t *testing.T) {
	i := refused("a\x1b.json", "{}", denial("DENIED", "/goal", "no", "do not"), denial("DENIED", "/a", "no", "do not"))
	i.Decision.Notes = []kernel.Result{denial("NOTED", "/b", "so", "")}
	const plain = `REFUSE  a\u001b.json  2 findings
DENIED  /goal  no
hint: do not
DENIED  /a  no
note: NOTED  /b  so
`
	color := strings.NewReplacer("[31", "\x1b[31mREFUSE\x1b[0m", "[1", "\x1b[1mDENIED\x1b[0m", "[2", "\x1b[2mhint:\x1b[0m", "[n", "\x1b[2mnote: NOTED\x1b[0m").
		Replace("[31  a\\u001b.json  2 findings\n[1  /goal  no\n[2 do not\n[1  /a  no\n[n  /b  so\n")
	for _, tc := range []struct {
		color bool
		want  string
	}{{false, plain}, {true, color}} {
		var b bytes.Buffer
		if err := report.Human(&b, tc.color, i); err != nil || b.String() != tc.want {
			t.Errorf("got %q, want %q (%v)", b.String(), tc.want, err)
		}
	}
	if got := render(t, "human", []report.Item{i}); string(got) != plain {
		t.Errorf("one intent gets a closing line: %s", got)
	}
	var b bytes.Buffer
	r, err := report.New("human", &b, report.Options{Color: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(summary([]report.Item{i, i})); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[1mTOTAL\x1b[0m  2 intents  0 BUNDLE  0 CLARIFY  \x1b[31m2 REFUSE\x1b[0m  0 ERROR  profile default\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestAnswers: two questions with different answers never look the same.
func TestAnswers(t *testing.T) {
	for want, options := range map[string][]string{
		"a, b": {"a", "b"}, `"a, b"`: {"a, b"}, `"a, b", "c"`: {"a, b", "c"}, `"a", "b, c"`: {"a", "b, c"},
		`"\"a\"", "b"`: {`"a"`, "b"}, `"\"a\", \"b\""`: {`"a", "b"`},
	} {
		if got := report.Answers(options); got != want {
			t.Errorf("%q: %s, want %s", options, got, want)
		}
		q := kernel.Result{Module: "gate.builtin", ID: "CHOICE", Text: "which?", Options: options}
		var b strings.Builder
		item := report.Item{Path: "a.json", Decision: kernel.Decision{Outcome: kernel.OutcomeClarify, Findings: []kernel.Result{q}}}
		if err := report.Human(&b, false, item); err != nil || !strings.Contains(b.String(), "answers: "+want+"\n") {
			t.Errorf("%s: %v", b.String(), err)
		}
	}
}

// TestFixes: every format for people gives the fix of a question, with or without
// answers, and of a note.
func TestFixes(t *testing.T) {
	item := report.Item{Path: "a.json", Source: []byte("{}"), Decision: kernel.Decision{
		Outcome: kernel.OutcomeClarify,
		Findings: []kernel.Result{
			{Module: "gate.builtin", ID: "CHOICE", Text: "which?", Title: "Choice", Why: "Because", Options: []string{"a", "b"}, Fix: "take one"},
			{Module: "gate.builtin", ID: "FREE", Text: "what?", Title: "Free", Why: "Because", Fix: "say it"},
		},
		Notes: []kernel.Result{{Module: "gate.builtin", ID: "NOTED", Text: "so", Title: "Noted", Why: "Because", Fix: "mind it"}},
	}}
	for _, format := range []string{"human", "github", "junit", "sarif", "markdown"} {
		got := string(render(t, format, []report.Item{item}))
		for _, want := range []string{"take one", "say it"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s does not say %q:\n%s", format, want, got)
			}
		}
		if has := strings.Contains(got, "mind it"); has != strings.Contains(got, "NOTED") {
			t.Errorf("%s shows the note without its fix:\n%s", format, got)
		}
	}
}

// TestPlaces: lines end with LF, columns are UTF-16 code units.
func TestPlaces(t *testing.T) {
	at := func(offset int64) result.RunError {
		return result.RunError{Code: result.CodeNotJSON, Message: "x", Details: map[string]any{"offset": offset}}
	}
	pointing := func(pointer string) result.RunError {
		return result.RunError{Code: result.CodeNotIntent, Message: "x", Details: map[string]any{"pointer": pointer}}
	}
	elsewhere := pointing("/b")
	elsewhere.Details["file"] = "profile.json"
	const src = "{\"😀\":\"é\",\r\n\"b\":[1,\r2]\n}"
	for _, tc := range []struct {
		name string
		item report.Item
		want sarifRegion
	}{
		{"astral before", refused("a", src, denial("D", "/😀", "", "")), sarifRegion{1, 7, 1, 10}},
		{"after CRLF, over a lone CR", refused("a", src, denial("D", "/b", "", "")), sarifRegion{2, 5, 2, 11}},
		{"element", refused("a", src, denial("D", "/b/1", "", "")), sarifRegion{2, 9, 2, 10}},
		{"root", refused("a", src, denial("D", "", "", "")), sarifRegion{1, 1, 3, 2}},
		{"absent", refused("a", src, denial("D", "/constraints/0", "", "")), sarifRegion{1, 1, 3, 2}},
		{"offset", broken("a", src, at(2)), sarifRegion{1, 3, 1, 5}},
		{"offset at a line end", broken("a", src, at(13)), sarifRegion{1, 11, 1, 11}},
		{"offset at the end", broken("a", src, at(int64(len(src)))), sarifRegion{3, 2, 3, 2}},
		{"offset beyond", broken("a", src, at(1<<40)), sarifRegion{3, 2, 3, 2}},
		{"negative offset", broken("a", src, at(-1)), sarifRegion{1, 1, 1, 2}},
		{"offset in bytes that are not UTF-8", broken("a", "[\xff\xfe]", at(2)), sarifRegion{1, 3, 1, 4}},
		{"pointer of an error", broken("a", src, pointing("/b/0")), sarifRegion{2, 6, 2, 7}},
		{"pointer into another file", broken("a", src, elsewhere), sarifRegion{1, 1, 1, 1}},
		{"no place", broken("a", src, result.RunError{Code: result.CodeInternal}), sarifRegion{1, 1, 1, 1}},
		{"not read", broken("a", "", at(5)), sarifRegion{1, 1, 1, 1}},
		{"JSON Lines", lineItem(refused("a", "{\"é\":1}\r\n", denial("D", "/é", "", ""))), sarifRegion{41, 6, 41, 7}},
		{"end of a JSON Lines line", lineItem(broken("a", "{\"é\":1\n", at(8))), sarifRegion{41, 7, 41, 7}},
	} {
		got := sarifOf(t, render(t, "sarif", []report.Item{tc.item})).Results[0].Locations[0].PhysicalLocation.Region
		if got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func lineItem(i report.Item) report.Item {
	i.Line = 41
	return i
}

// TestFingerprints: text before a finding does not change its fingerprint, and no two
// findings of a run share one.
func TestFingerprints(t *testing.T) {
	prints := func(items ...report.Item) []string {
		var list []string
		for _, r := range sarifOf(t, render(t, "sarif", items)).Results {
			list = append(list, r.PartialFingerprints["fiadorFinding/v1"])
		}
		return list
	}
	a := func(pointer string) kernel.Result { return denial("A", pointer, "text", "fix") }
	first := prints(refused("x.json", `{"actions":[1,2]}`, a("/actions/0"), a("/actions/1"), denial("B", "/actions/1", "text", "")))
	moved := prints(
		accepted("w.json", `{}`, denial("A", "", "text", "")),
		refused("x.json", "\n\n{\"actions\":[0,1,2]}", denial("C", "/actions/0", "new", ""), a("/actions/1"), a("/actions/2"), denial("B", "/actions/2", "text", "other")))
	if !slices.Equal(first, moved[2:]) {
		t.Errorf("got %v, want %v", moved[2:], first)
	}
	all := slices.Concat(first, moved[:2], prints(refused("y.json", `{}`, a(""), denial("A", "", "tex", ""), denial("A", "", "ttext", ""))))
	if n := len(all); len(slices.Compact(slices.Sorted(slices.Values(all)))) != n {
		t.Errorf("some of %d prints are the same", n)
	}
	for _, p := range all {
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p) {
			t.Errorf("print %q", p)
		}
	}
}

func TestSARIFDocument(t *testing.T) {
	schema := sarifSchema(t)
	builtin, org := denial("ID", "/goal", "t", "built-in fix"), denial("ID", "/goal", "t", "org fix")
	org.Module, org.Title = "gate.org.x", "Theirs"
	question := denial("ID", "/goal", "t", "")
	bare := kernel.Result{Module: "kernel", ID: "NOT_PERMITTED", Path: "/actions/0", Text: "{no} [rule](1)"}
	line := refused("b.jsonl", "{}", bare)
	line.Line = 2
	items := []report.Item{
		asked("a b/ü:?#%.json", "{}", question), refused("-", "{}", org), accepted("-", "{}", builtin), line,
		accepted("c.json", "{}"), accepted("c.json", "{}"), line, broken("gone", "", result.RunError{Code: "RUN_E999"}),
	}
	doc := render(t, "sarif", items)
	if schema != nil {
		check(t, "sarif", render(t, "sarif", items[:4]), items[:4], schema, nil)
	}
	run := sarifOf(t, doc)
	var ids []string
	for _, r := range run.Tool.Driver.Rules {
		ids = append(ids, strings.Join([]string{r.ID, r.Name, r.ShortDescription.Text, r.FullDescription.Text, r.Help.Text, r.DefaultConfiguration.Level}, "|"))
	}
	want := []string{
		"ID|TitleOfID|Title of ID|Why ID is there|built-in fix|error",
		"NOT_PERMITTED|NotPermitted|NOT_PERMITTED|NOT_PERMITTED|NOT_PERMITTED|error",
		"RUN_E999|RunE999|RUN_E999|RUN_E999|RUN_E999|error",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("rules\n%s\nwant\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
	var artifacts []string
	for _, a := range run.Artifacts {
		parent := -1
		if a.ParentIndex != nil {
			parent = *a.ParentIndex
		}
		artifacts = append(artifacts, fmt.Sprintf("%s %d %.4s", a.Location.URI, parent, a.Hashes["sha-256"]))
	}
	sum := canon.Sum([]byte("{}")).Hex()[:4]
	want = []string{"a%20b/%C3%BC%3A%3F%23%25.json -1 " + sum, "stdin -1 " + sum, "b.jsonl -1 ", " 2 " + sum, "c.json -1 " + sum, "gone -1 "}
	if !slices.Equal(artifacts, want) {
		t.Errorf("artifacts %q, want %q", artifacts, want)
	}
	if text := run.Results[3].Message.Text; text != "{{no}} [rule] (1)" {
		t.Errorf("message %q", text)
	}
	if layer := run.Results[1].Properties["layer"]; layer != "gate.org.x" || run.Results[5].Properties["outcome"] != "ERROR" {
		t.Errorf("properties %v %v", layer, run.Results[5].Properties)
	}
	if run.Tool.Driver.Name != "fiador" || run.Tool.Driver.Version != kernel.Version || run.ColumnKind != "utf16CodeUnits" {
		t.Errorf("run %+v", run.Tool)
	}
}

// TestGitHubLimits: a long text is shortened by UTF-16 code units so that the advice
// stays.
func TestGitHubLimits(t *testing.T) {
	long := denial("DENIED", "/goal", strings.Repeat("😀", 5000), strings.Repeat("f", 5000))
	items := []report.Item{refused("a.json", `{"goal":"x"}`, long)}
	doc := render(t, "github", items)
	check(t, "github", doc, items, nil, nil)
	line, _, _ := strings.Cut(string(doc), "\n")
	if !strings.Contains(line, "😀…%0Afix: fff") || !strings.HasSuffix(line, "f…") {
		t.Errorf("%.200q … %q", line, line[len(line)-100:])
	}
	for n, end := range map[int]string{247: "t", 248: "…", 400: "…"} {
		long.Title = strings.Repeat("t", n) // after "DENIED: "
		doc := string(render(t, "github", []report.Item{refused("a.json", `{"goal":"x"}`, long)}))
		_, title, _ := strings.Cut(doc, "title=")
		title, _, _ = strings.Cut(title, "::")
		title = unescape(strings.ReplaceAll(title, "%3A", ":"))
		if len([]rune(title)) != 255 || !strings.HasSuffix(title, end) {
			t.Errorf("a title of %d characters becomes one of %d: %q", 8+n, len([]rune(title)), title)
		}
	}
}

func TestManyFindings(t *testing.T) {
	var list []kernel.Result
	var src strings.Builder
	src.WriteString(`{"actions":[`)
	for k := range 1000 {
		list = append(list, denial("DENIED", "/actions/"+strconv.Itoa(k), "no", "do not"))
		src.WriteString("\n 0,")
	}
	src.WriteString("0]}")
	items := []report.Item{refused("a.json", src.String(), list...)}
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for _, format := range report.Formats() {
		check(t, format, render(t, format, items), items, schema, xmllint)
	}
	last := sarifOf(t, render(t, "sarif", items)).Results[999].Locations[0].PhysicalLocation.Region
	if want := (sarifRegion{1001, 2, 1001, 3}); last != want {
		t.Errorf("got %v, want %v", last, want)
	}
	if page := render(t, "markdown", items); bytes.Count(page, []byte("fix: ")) != 1 || bytes.Count(page, []byte("DENIED")) != 1001 {
		t.Error("the page does not have each finding once and their fix once")
	}
}

// TestMemory: no source and no result of 10 000 accepted intents is kept.
func TestMemory(t *testing.T) {
	const n = 10000
	schema, xmllint := sarifSchema(t), junitSchema(t)
	var items []report.Item
	for k := range n {
		items = append(items, accepted("intents/"+strconv.Itoa(k)+".json", `{"goal":"x"}`))
	}
	for _, format := range report.Formats() {
		t.Run(format, func(t *testing.T) {
			check(t, format, render(t, format, items), items, schema, xmllint)

			r, err := report.New(format, io.Discard, report.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := heap()
			for k := range n {
				i := items[k]
				i.Source, i.Result = bytes.Repeat([]byte(" "), 8<<10), make([]byte, 8<<10)
				i.Path = string([]byte(i.Path))
				if err := r.Item(i); err != nil {
					t.Fatal(err)
				}
			}
			kept := (int64(heap()) - int64(before)) / n
			if limit := map[string]int64{"json": 1, "agent": 1, "human": 1, "github": 1}[format]; kept > max(limit, 192) || limit > 0 && kept > limit {
				t.Errorf("%d bytes are kept of an accepted intent", kept)
			}
			if err := r.Close(summary(items)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMarkdownLimit: the page stays below 1 MiB, and its shown and omitted rows together
// are all rows.
func TestMarkdownLimit(t *testing.T) {
	long := strings.Repeat("😀`|\n", 300)
	var items []report.Item
	wrong, notes := 0, 0
	for k := range 3000 {
		name := strings.Repeat("long name ", 20) + strconv.Itoa(k)
		q := denial("ASKED", "/goal", long+"q", "")
		q.Options = slices.Repeat([]string{long}, 50)
		items = append(items, refused(name, `{}`, denial("DENIED", "/goal", long, strconv.Itoa(k)), denial("DENIED", "/goal", long, long)),
			asked(name, `{}`, q), accepted(name, `{}`, denial("NOTED", "/goal", long, "")), accepted(name, `{}`),
			broken(name, "", result.RunError{Code: result.CodeUnreadable, Message: long}))
		wrong, notes = wrong+4, notes+1
	}
	items = append(items, refused("last.json", `{}`, denial("TINY", "", "it would fit", "")))
	wrong++
	page := render(t, "markdown", items)
	check(t, "markdown", page, items, nil, nil)
	if bytes.Contains(page, []byte("it would fit")) {
		t.Error("what is left out is not the end")
	}
	if len(page) < 800<<10 {
		t.Errorf("only %d bytes", len(page))
	}
	parts := regexp.MustCompile(`(?m)^(## Findings|## Notes|<details>)$`).Split(string(page), -1)
	if len(parts) != 4 {
		t.Fatalf("%d parts", len(parts))
	}
	for k, want := range []int{9001, wrong, notes, 6000} {
		m := regexp.MustCompile(`\*\*(\d+) more (intent|finding|note)s left out`).FindStringSubmatch(parts[k])
		shown := len(regexp.MustCompile("(?m)^(- `|\\| [CRE][^|]+ \\| `)").FindAllString(parts[k], -1))
		if m == nil || shown == 0 {
			t.Errorf("part %d shows %d and leaves out %v", k, shown, m)
			continue
		}
		if left, err := strconv.Atoi(m[1]); err != nil || shown+left != want {
			t.Errorf("part %d shows %d and leaves out %d of %d", k, shown, left, want)
		}
	}
	if !strings.Contains(parts[1], "  - 30 more answers\n") {
		t.Error("a long list of answers is not cut")
	}
}

func TestMarkdownAccepted(t *testing.T) {
	for _, n := range []int{1, 10, 11} {
		var items []report.Item
		for k := range n {
			items = append(items, accepted("i"+strconv.Itoa(k), "{}"))
		}
		page := string(render(t, "markdown", items))
		if strings.Contains(page, "<details>") != (n > 10) || strings.Count(page, "\n- `i") != n || !strings.Contains(page, "# fiador: ACCEPTED, "+strconv.Itoa(n)) {
			t.Errorf("%d accepted: %s", n, page)
		}
	}
}

// TestWriteErrors: a failed write gives an error, at the latest from Close.
func TestWriteErrors(t *testing.T) {
	items := hardItems()
	for _, format := range report.Formats() {
		whole := len(render(t, format, items))
		for _, room := range []int{0, whole / 2, whole - 1} {
			r, err := report.New(format, &narrow{room}, report.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var errs []error
			for _, i := range items {
				errs = append(errs, r.Item(i))
			}
			if err := errors.Join(append(errs, r.Close(summary(items)))...); !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d of %d bytes: %v", format, room, whole, err)
			}
		}
	}
}

var errFull = errors.New("full")

type narrow struct{ room int }

func (n *narrow) Write(b []byte) (int, error) {
	if len(b) > n.room {
		return 0, errFull
	}
	n.room -= len(b)
	return len(b), nil
}

// TestJSONIsWhole: each RunResult is one line, byte for byte.
func TestJSONIsWhole(t *testing.T) {
	items := hardItems()
	doc := render(t, "json", items)
	n := 0
	for line := range bytes.Lines(doc) {
		if !json.Valid(line) {
			t.Errorf("%q", line)
		}
		n++
	}
	if n != 7 {
		t.Errorf("%d lines", n)
	}
}
