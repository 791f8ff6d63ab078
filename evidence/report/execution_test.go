package report_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/reason"
)

// executed is an intent that was allowed and executed.
func executed(path, src string, e report.Execution, notes ...kernel.Result) report.Item {
	i := accepted(path, src, notes...)
	i.Execution = &e
	return i
}

func rejected(code int, stderr string, reasons ...string) report.Execution {
	return report.Execution{ExitCode: code, Reasons: reasons, Stderr: []byte(stderr)}
}

// executedItems have output and files of a command that could spoil a report.
func executedItems() []report.Item {
	const src = "{\"goal\": \"build\",\n \"actions\": [\n  {\"kind\":\"run\",\"argv\":[\"a\"]},\n  {\"kind\":\"run\",\"argv\":[\"😀\"]}\n ],\n \"outputs\": [\"out/b\"]}\n"
	var reasons []string
	for _, text := range hostile {
		reasons = append(reasons, "OUTPUT_KIND "+text)
	}
	line := executed("batch.jsonl", src[:17]+"}\n", rejected(1, "", "EXIT 1"))
	line.Line = 7
	return []report.Item{
		executed("fine.json", src, report.Execution{Accepted: true, Outputs: 2, OutputBytes: 106, Stderr: []byte("a warning\n")}),
		executed("fine too.json", src, report.Execution{Accepted: true, Outputs: 1, OutputBytes: 1}, denial("NOTED", "/goal", "so", "")),
		executed("exit.json", src, rejected(1, strings.Repeat("early\n", 5)+"1\n2\n3\n4\n\n \t\n5\r\n6\n7\n8\n9\n10\n\n", "EXIT 1"), denial("NOTED", "/goal", "so", "")),
		executed("many.json", src, rejected(9, "", "EXIT 9", "OUTPUT_LIMIT", "OUTPUT_MISSING out/b", `OUTPUT_NAME "out/\u202e\n"`, "STREAM_LIMIT /actions/1", "WRITE_OUTSIDE_ROOT .git/config")),
		executed("-", src, rejected(125, strings.Join(hostile, "\n"), reasons...)),
		executed("x\n##[error]|`y`.json", src, rejected(137, "a\xff##[group]\n::stop-commands::t\n  ::error::x\n]]></system-err>", "OOM")),
		line,
		refused("no.json", src, denial("DENIED", "/goal", "no", "")),
	}
}

// TestExecuted: no format reports a rejected execution as a success, and each says why
// it was rejected. An accepted execution is a success.
func TestExecuted(t *testing.T) {
	const src = `{"goal":"x","actions":[0,{"kind":"run"}]}`
	notes := denial("NOTED", "/goal", "so", "")
	bad := []report.Item{executed("a.json", src, rejected(1, "first\nlast\n", "EXIT 1", "STREAM_LIMIT /actions/1"), notes)}
	good := []report.Item{executed("a.json", src, report.Execution{Accepted: true, Outputs: 2, OutputBytes: 106, Stderr: []byte("first\nlast\n")}, notes)}
	want := map[string][2]string{
		"json":  {"{\"kernel_result_kind\":\"BUNDLE\"}\n", "{\"kernel_result_kind\":\"BUNDLE\"}\n"},
		"human": {"BUNDLE  a.json  bundle_0123456789abcdef\nexecuted: rejected, exit code 1\nEXIT 1  The command ended with an exit code other than 0\nSTREAM_LIMIT /actions/1  The command printed more than is kept\n  | first\n  | last\nnote: NOTED  /goal  so\n", "BUNDLE  a.json  bundle_0123456789abcdef\nexecuted: accepted, exit code 0, 2 outputs, 106 bytes\nnote: NOTED  /goal  so\n"},
		"github": {`::error file=a.json,line=1,col=1,endLine=1,endColumn=1,title=EXIT%3A The command ended with an exit code other than 0::The command ended with an exit code other than 0: 1%0Afirst%0Alast
::error file=a.json,line=1,col=26,endLine=1,endColumn=40,title=STREAM_LIMIT%3A The command printed more than is kept::/actions/1: The command printed more than is kept
::notice file=a.json,line=1,col=9,endLine=1,endColumn=12,title=NOTED%3A Title of NOTED::/goal: so
fiador: 1 intent, 0 BUNDLE, 0 CLARIFY, 0 REFUSE, 1 FAILED, 0 ERROR
`, `::notice file=a.json,line=1,col=9,endLine=1,endColumn=12,title=NOTED%3A Title of NOTED::/goal: so
fiador: 1 intent, 1 BUNDLE, 0 CLARIFY, 0 REFUSE, 0 ERROR
`},
		"junit": {`
    <testcase classname="fiador" name="a.json">
      <failure type="FAILED" message="EXIT The command ended with an exit code other than 0: 1">EXIT The command ended with an exit code other than 0: 1 (line 1, column 1)
STREAM_LIMIT /actions/1 The command printed more than is kept (line 1, column 26)</failure>
      <system-out>executed: rejected, exit code 1
NOTED /goal so (line 1, column 9)</system-out>
      <system-err>| first
| last</system-err>
    </testcase>
`, `
    <testcase classname="fiador" name="a.json">
      <system-out>executed: accepted, exit code 0, 2 outputs, 106 bytes
NOTED /goal so (line 1, column 9)</system-out>
    </testcase>
`},
		"markdown": {"# fiador: REJECTED, 1 of 1 intent\n\n1 intent, 0 BUNDLE, 0 CLARIFY, 0 REFUSE, 1 FAILED, 0 ERROR; profile `default`; kernel `" + kernel.Version + "`\n" + `
| outcome | intent | findings | first reason |
|---|---|---|---|
| FAILED | ` + "`a.json` | 2 | `EXIT 1`" + ` |

## Findings

### FAILED ` + "`a.json`" + `

executed: rejected, exit code 1

- ` + "`EXIT`: `The command ended with an exit code other than 0: 1`" + `
  - stderr: ` + "`first`" + `
  - stderr: ` + "`last`" + `
- ` + "`STREAM_LIMIT` at `/actions/1`, line 1: `The command printed more than is kept`" + `

## Notes

### FAILED ` + "`a.json`\n\n- `NOTED` at `/goal`, line 1: `so`\n",
			"# fiador: ACCEPTED, 1 intent\n\n1 intent, 1 BUNDLE, 0 CLARIFY, 0 REFUSE, 0 ERROR; profile `default`; kernel `" + kernel.Version + "`\n\n## Notes\n\n### BUNDLE `a.json`\n\n- `NOTED` at `/goal`, line 1: `so`\n\n## Accepted\n\n- `a.json`, executed: accepted, exit code 0, 2 outputs, 106 bytes\n"},
		"agent": {`{"accepted":false,"bundle_id":"bundle_0123456789abcdef","execution":{"accepted":false,"exit_code":1,"output_bytes":0,"outputs":0,"stderr":["first","last"]},"findings":[` +
			`{"fix":"look at what the command printed: --evidence FOLDER keeps both streams","id":"EXIT","level":"execution","text":"The command ended with an exit code other than 0: 1"},{"column":26,"fix":"print less, or write it to a file","id":"STREAM_LIMIT","level":"execution","line":1,"pointer":"/actions/1","text":"The command printed more than is kept"},` +
			`{"column":9,"id":"NOTED","level":"note","line":1,"pointer":"/goal","text":"so"}],"outcome":"FAILED","path":"a.json"}` + "\n",
			`{"accepted":true,"bundle_id":"bundle_0123456789abcdef","execution":{"accepted":true,"exit_code":0,"output_bytes":106,"outputs":2},"findings":[{"column":9,"id":"NOTED","level":"note","line":1,"pointer":"/goal","text":"so"}],"outcome":"BUNDLE","path":"a.json"}` + "\n"},
		"sarif": {`"invocations":[{"executionSuccessful":true,"exitCode":1}]`, `"invocations":[{"executionSuccessful":true,"exitCode":0}]`},
	}
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for _, format := range report.Formats() {
		for k, items := range [][]report.Item{bad, good} {
			doc := render(t, format, items)
			check(t, format, doc, items, schema, xmllint)
			whole := format != "junit" && format != "sarif"
			if whole && string(doc) != want[format][k] || !bytes.Contains(doc, []byte(want[format][k])) {
				t.Errorf("%s: got\n%s\nwant\n%s", format, doc, want[format][k])
			}
		}
	}
	if doc := render(t, "sarif", bad); bytes.Contains(doc, []byte("last")) {
		t.Error("what a command printed is in a SARIF file")
	}
}

// TestExecutedPlaces: a reason with a pointer has the place of the pointer; any other
// has the beginning of the intent.
func TestExecutedPlaces(t *testing.T) {
	items := executedItems()
	for _, tc := range []struct {
		item    report.Item
		rule    string
		want    sarifRegion
		logical string
	}{
		{items[3], "STREAM_LIMIT", sarifRegion{4, 3, 4, 31}, "/actions/1"},
		{items[3], "OUTPUT_MISSING", sarifRegion{1, 1, 1, 1}, ""},
		{items[3], "EXIT", sarifRegion{1, 1, 1, 1}, ""},
		{items[6], "EXIT", sarifRegion{7, 1, 7, 1}, ""},
		{executed("a", "{}", rejected(1, "", "STREAM_LIMIT /actions/7")), "STREAM_LIMIT", sarifRegion{1, 1, 1, 3}, "/actions/7"},
	} {
		results := sarifOf(t, render(t, "sarif", []report.Item{tc.item})).Results
		k := slices.IndexFunc(results, func(r sarifResult) bool { return r.RuleID == tc.rule })
		if k < 0 {
			t.Fatalf("%s: no result %s", tc.item.Path, tc.rule)
		}
		at, logical := results[k].Locations[0], ""
		if len(at.LogicalLocations) > 0 {
			logical = at.LogicalLocations[0].FullyQualifiedName
		}
		if at.PhysicalLocation.Region != tc.want || logical != tc.logical || results[k].Level != "error" || results[k].Properties["outcome"] != "FAILED" {
			t.Errorf("%s %s: %+v, want %v %s", tc.item.Path, tc.rule, results[k], tc.want, tc.logical)
		}
	}
}

// TestExecutedFingerprints: the fingerprint of a reason does not depend on the command's
// output, on other reasons, or on the place of its action.
func TestExecutedFingerprints(t *testing.T) {
	prints := func(src string, e report.Execution) []string {
		var list []string
		for _, r := range sarifOf(t, render(t, "sarif", []report.Item{executed("a.json", src, e)})).Results {
			list = append(list, r.PartialFingerprints["fiadorFinding/v1"])
		}
		return list
	}
	first := prints(`{"actions":[1]}`, rejected(1, "at 12:00", "EXIT 1", "STREAM_LIMIT /actions/0"))
	second := prints(`{"actions":[0,1]}`, rejected(1, "at 12:01", "EXIT 1", "OUTPUT_LIMIT", "STREAM_LIMIT /actions/1"))
	other := prints(`{"actions":[1]}`, rejected(2, "", "EXIT 2", "OUTPUT_MISSING out/a", "OUTPUT_MISSING out/b"))
	if !slices.Equal(first, slices.Delete(slices.Clone(second), 1, 2)) {
		t.Errorf("got %v and %v", first, second)
	}
	if all := slices.Concat(second, other); len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Errorf("some of %v are the same", all)
	}
}

// TestExecutedTitles: every reason for a rejection has a title, which specs/reports.md
// has too. Its rule id has no path and no number.
func TestExecutedTitles(t *testing.T) {
	reasons := []string{
		"STREAM_LIMIT /actions/0", reason.OutputLimit, reason.OutputKind + " a", reason.OutputMissing + " a b",
		reason.OutputName + ` "\n"`, reason.WriteOutsideRoot + " a", reason.WriteOutsideRoot,
	}
	for _, end := range []evidence.End{
		{Code: 1, OutOfMemory: true}, {TimedOut: true}, {NotFound: true}, {NotExecutable: true}, {Signal: 9}, {Code: 3},
	} {
		_, of := evidence.Observed{Command: &end}.Judge()
		reasons = append(reasons, of...)
	}
	run := sarifOf(t, render(t, "sarif", []report.Item{executed("a.json", "{}", rejected(1, "", reasons...))}))
	if len(run.Results) != 13 || len(run.Tool.Driver.Rules) != 12 {
		t.Errorf("%d results and %d rules", len(run.Results), len(run.Tool.Driver.Rules))
	}
	page, err := os.ReadFile("../../specs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range run.Tool.Driver.Rules {
		if row := "| `" + r.ID + "` | " + r.ShortDescription.Text + " |\n"; !bytes.Contains(page, []byte(row)) {
			t.Errorf("no row %q", row)
		}
		if !regexp.MustCompile(`^[A-Z_]+$`).MatchString(r.ID) || r.ShortDescription.Text == r.ID {
			t.Errorf("rule %+v", r)
		}
	}
}

// TestStderr: people see the last lines, whatever their content and length.
func TestStderr(t *testing.T) {
	const mib = 1 << 20
	ten := strings.Split(strings.Repeat("x ", 9)+"x", " ")
	for _, tc := range []struct {
		name, stderr string
		want         []string
	}{
		{"nothing", "", nil},
		{"blank", "\n\r\n \t\n", nil},
		{"no line end", "a\nb", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"progress", "1%\r2%\r3%\ndone\n", []string{"1%", "2%", "3%", "done"}},
		{"eleven", "a\n" + strings.Repeat("x\n", 10), ten},
		{"spaces", "  at a (b:1)\n", []string{"  at a (b:1)"}},
		{"not to be seen", "\x1b[2J\x1b]0;t\x07\u202e\x00\xff\u2028", []string{`\u001b[2J\u001b]0;t\u0007\u202e\u0000\xff\u2028`}},
		{"commands", "::error::x\n  ::add-mask::x\n##[error]a##[b]\n####[x", []string{"::error::x", "  ::add-mask::x", `#\u0023[error]a#\u0023[b]`, `###\u0023[x`}},
		{"1 MiB of one line", strings.Repeat("é", mib/2), []string{strings.Repeat("é", 399) + "…"}},
		{"1 MiB of wide characters", strings.Repeat("😀", mib/4), []string{strings.Repeat("😀", 199) + "…"}},
		{"1 MiB of NUL", strings.Repeat("\x00", mib), []string{strings.Repeat(`\u0000`, 66) + `\u0…`}},
		{"1 MiB that is not UTF-8", strings.Repeat("\xff", mib), []string{strings.Repeat(`\xff`, 99) + `\xf…`}},
		{"1 MiB of line ends", strings.Repeat("\n", mib), nil},
		{"1 MiB of lines", strings.Repeat("x\n", mib/2), ten},
	} {
		items := []report.Item{executed("a.json", "{}", rejected(1, tc.stderr, "EXIT 1"))}
		lines := strings.Split(strings.TrimSuffix(string(render(t, "human", items)), "\n"), "\n")[3:]
		var bars []string
		for k, s := range lines {
			lines[k] = strings.TrimPrefix(s, "  | ")
			bars = append(bars, "| "+lines[k])
		}
		if !slices.Equal(lines, tc.want) {
			t.Errorf("%s: got %.500q, want %.500q", tc.name, lines, tc.want)
		}
		var s suites
		if err := xml.Unmarshal(render(t, "junit", items), &s); err != nil || s.Suite[0].Case[0].Err != strings.Join(bars, "\n") {
			t.Errorf("%s: %.500q (%v)", tc.name, s.Suite[0].Case[0].Err, err)
		}
		for _, format := range report.Formats() {
			doc := render(t, format, items)
			check(t, format, doc, items, nil, nil)
			if len(doc) > 16<<10 {
				t.Errorf("%s: %s has %d bytes", tc.name, format, len(doc))
			}
		}
	}
}

// TestExecutedHuman: with and without colours, a command's output never becomes a line,
// a command or an escape of its own.
func TestExecutedHuman(t *testing.T) {
	var b bytes.Buffer
	i := executed("a.json", "{}", rejected(1, "\x1b[0m\n", "EXIT 1"))
	if err := report.Human(&b, true, i); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[32mBUNDLE\x1b[0m  a.json  bundle_0123456789abcdef\n\x1b[31mexecuted: rejected, exit code 1\x1b[0m\n" +
		"\x1b[1mEXIT 1\x1b[0m  The command ended with an exit code other than 0\n  \x1b[2m| \\u001b[0m\x1b[0m\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	for _, text := range hostile {
		i := executed("a.json", "{}", rejected(125, text, "OUTPUT_KIND "+text))
		lines := strings.Split(string(render(t, "human", []report.Item{i})), "\n")
		for _, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
				t.Errorf("a runner obeys %q", line)
			}
		}
		if !strings.HasPrefix(lines[2], "OUTPUT_KIND ") || len(lines) > 4 && !strings.HasPrefix(lines[4], "  | ") && lines[4] != "" {
			t.Errorf("got %q", lines)
		}
	}
	total := render(t, "human", executedItems())
	if want := "TOTAL  8 intents  2 BUNDLE  0 CLARIFY  1 REFUSE  5 FAILED  0 ERROR  profile default\n"; !bytes.HasSuffix(total, []byte(want)) {
		t.Errorf("got %s, want %s", total, want)
	}
}

// TestExecutedGitHubLimits: the last lines of the output are kept, as many as fit.
func TestExecutedGitHubLimits(t *testing.T) {
	stderr := ""
	for _, c := range "abcdefghij" {
		stderr += strings.Repeat(string(c), 500) + "\n"
	}
	for path, lines := range map[string]int{"a": 10, strings.Repeat("p", 400): 9, strings.Repeat("p", 5000): 2} {
		items := []report.Item{executed("a.json", "{}", rejected(125, stderr, "OUTPUT_MISSING "+path))}
		doc := render(t, "github", items)
		check(t, "github", doc, items, nil, nil)
		line, _, _ := strings.Cut(string(doc), "\n")
		_, message, _ := strings.Cut(line[2:], "::")
		message = unescape(message)
		if n := strings.Count(message, "\n"); n != lines || !strings.HasSuffix(message, "jjj…") {
			t.Errorf("%d lines, want %d: %.100q … %q", n, lines, message, message[len(message)-50:])
		}
	}
}

// TestExecutedMemory: only the shown part of a command's output is kept.
func TestExecutedMemory(t *testing.T) {
	const n, size = 64, 256 << 10
	for _, format := range report.Formats() {
		r, err := report.New(format, io.Discard, report.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var items []report.Item
		before := heap()
		for k := range n {
			i := executed("a.json", "{}", rejected(1, strings.Repeat("x", size), "EXIT 1"))
			i.Execution.Accepted = k%2 == 0
			if err := r.Item(i); err != nil {
				t.Fatal(err)
			}
			i.Execution = &report.Execution{Accepted: k%2 == 0}
			items = append(items, i)
		}
		if kept := (int64(heap()) - int64(before)) / n; kept > 8<<10 {
			t.Errorf("%s: %d bytes are kept of an execution", format, kept)
		}
		if err := r.Close(summary(items)); err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(r)
	}
}
