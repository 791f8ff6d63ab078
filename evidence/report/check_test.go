package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/rehearsal"
)

// sarifSchema returns nil if the schema is missing.
func sarifSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	path := rehearsal.Fixture("formats", "sarif-schema-2.1.0.json")
	if path == "" {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// junitSchema returns a function that checks a document by the JUnit schema, or nil if
// the schema or xmllint is missing.
func junitSchema(t testing.TB) func(t *testing.T, doc []byte) {
	t.Helper()
	path := rehearsal.Fixture("formats", "junit-10.xsd")
	program, err := exec.LookPath("xmllint")
	if path == "" || err != nil {
		return nil
	}
	return func(t *testing.T, doc []byte) {
		t.Helper()
		cmd := exec.Command(program, "--noout", "--schema", path, "-")
		cmd.Stdin = bytes.NewReader(doc)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("xmllint: %v\n%s\n%.2000s", err, out, doc)
		}
	}
}

func TestSARIFSchemaIsThere(t *testing.T) {
	if sarifSchema(t) == nil {
		t.Skip("the fixtures folder is not there; FIADOR_FIXTURES names it: reports are not held against the SARIF schema")
	}
}

func TestJUnitSchemaIsThere(t *testing.T) {
	if junitSchema(t) == nil {
		t.Skip("xmllint (libxml2-utils) or the fixtures folder (FIADOR_FIXTURES) is not there: reports are not held against the JUnit schema")
	}
}

// check checks a report by the rules of its format and by its items.
func check(t *testing.T, format string, doc []byte, items []report.Item, schema *jsonschema.Schema, xmllint func(*testing.T, []byte)) {
	t.Helper()
	if format != "json" && format != "agent" {
		checkText(t, doc)
	}
	if sum := summary(items).Counts; format != "json" && format != "human" && sum.Failed > 0 && !bytes.Contains(doc, []byte(report.OutcomeFailed)) {
		t.Errorf("%d executions were rejected, and %s does not say so", sum.Failed, format)
	}
	switch format {
	case "json":
		checkJSON(t, doc, items)
	case "agent":
		checkAgent(t, doc, items)
	case "github":
		checkGitHub(t, doc, items)
	case "junit":
		checkJUnit(t, doc, items)
		if xmllint != nil {
			xmllint(t, doc)
		}
	case "sarif":
		checkSARIF(t, doc, items, schema)
	case "markdown":
		checkMarkdown(t, doc)
	}
}

// checkText: whatever an intent contains, a report is UTF-8, and each of its characters
// except LF is visible.
func checkText(t *testing.T, doc []byte) {
	t.Helper()
	if !utf8.Valid(doc) {
		t.Error("the report is not UTF-8")
	}
	for i, r := range string(doc) {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U at byte %d: %.80q", r, i, doc[i:])
		}
	}
	if len(doc) > 0 && doc[len(doc)-1] != '\n' {
		t.Errorf("no LF at the end: %.80q", doc[max(0, len(doc)-80):])
	}
}

func checkJSON(t *testing.T, doc []byte, items []report.Item) {
	t.Helper()
	var want []byte
	for _, i := range items {
		want = append(want, i.Result...)
	}
	if !bytes.Equal(doc, want) {
		t.Errorf("got %s, want %s", doc, want)
	}
}

var (
	command  = regexp.MustCompile(`^::(error|warning|notice) ([^:]*)::(.*)$`)
	property = regexp.MustCompile(`^(file|line|col|endLine|endColumn|title)=(.+)$`)
)

// checkGitHub parses each line as the runner does.
func checkGitHub(t *testing.T, doc []byte, items []report.Item) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(doc), "\n"), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "fiador: "+strconv.Itoa(summary(items).Counts.Total())+" intent") || strings.Contains(last, "##[") {
		t.Errorf("the last line is %q", last)
	}
	wanted := map[string]int{}
	for _, i := range items {
		for level, n := range levels(i) {
			wanted[map[string]string{"error": "error", "warning": "warning", "note": "notice"}[level]] += n
		}
	}
	for _, line := range lines[:len(lines)-1] {
		m := command.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no command: %q", line)
			continue
		}
		wanted[m[1]]--
		for _, p := range strings.Split(m[2], ",") {
			if !property.MatchString(p) {
				t.Errorf("no property: %q in %q", p, line)
			}
		}
		if n := len(utf16.Encode([]rune(unescape(m[3])))); n == 0 || n > 4096 {
			t.Errorf("a message of %d code units: %.80q", n, line)
		}
	}
	for name, n := range wanted {
		if n != 0 {
			t.Errorf("%d commands %s are missing", n, name)
		}
	}
}

// unescape decodes the message of a command as the runner does.
func unescape(s string) string {
	for _, r := range [][2]string{{"%0D", "\r"}, {"%0A", "\n"}, {"%25", "%"}} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

// levels counts the findings of an item by level.
func levels(i report.Item) map[string]int {
	switch i.Outcome() {
	case report.OutcomeError:
		violations, _ := i.Err.Details["violations"].([]any)
		return map[string]int{"error": max(1, len(violations))}
	case report.OutcomeUnannounced:
		return map[string]int{"error": 1}
	case "CLARIFY":
		return map[string]int{"warning": len(i.Decision.Findings), "note": len(i.Decision.Notes)}
	}
	n := map[string]int{"error": len(i.Decision.Findings), "note": len(i.Decision.Notes)}
	if i.Outcome() == report.OutcomeFailed {
		n["error"] += len(i.Execution.Reasons)
	}
	return n
}

type suites struct {
	Suite []struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Case     []struct {
			Name    string `xml:"name,attr"`
			Failure *bad   `xml:"failure"`
			Error   *bad   `xml:"error"`
			Out     string `xml:"system-out"`
			Err     string `xml:"system-err"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

type bad struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Body    string `xml:",chardata"`
}

func checkJUnit(t *testing.T, doc []byte, items []report.Item) {
	t.Helper()
	var s suites
	if err := xml.Unmarshal(doc, &s); err != nil {
		t.Fatalf("%v\n%.2000s", err, doc)
	}
	if len(s.Suite) != 1 || len(s.Suite[0].Case) != len(items) {
		t.Fatalf("%d suites", len(s.Suite))
	}
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a runner obeys %q", line)
		}
	}
	suite, failures, errors := s.Suite[0], 0, 0
	for k, c := range suite.Case {
		i := items[k]
		n := levels(i)
		if c.Name != screen.Plain(i.Name()) {
			t.Errorf("case %q, want %q", c.Name, i.Name())
		}
		out := n["note"]
		if i.Execution != nil {
			out++
		}
		if lines := strings.Count(c.Out, "\n") + 1; out > 0 && lines != out || out == 0 && c.Out != "" {
			t.Errorf("%s: notes %q", c.Name, c.Out)
		}
		if lines := strings.Count(c.Err, "\n") + 1; lines > 10 || c.Err != "" && i.Outcome() != report.OutcomeFailed {
			t.Errorf("%s: standard error %q", c.Name, c.Err)
		}
		wrong := n["error"] + n["warning"]
		switch {
		case i.Outcome() == report.OutcomeError:
			errors++
			checkBad(t, c.Error, string(i.Err.Code), wrong)
		case i.Outcome() != "BUNDLE":
			failures++
			checkBad(t, c.Failure, i.Outcome(), wrong)
		}
		if (c.Error != nil) != (i.Outcome() == report.OutcomeError) || (c.Failure != nil) != (i.Err == nil && i.Outcome() != "BUNDLE") {
			t.Errorf("%s: failure %v and error %v for %s", c.Name, c.Failure, c.Error, i.Outcome())
		}
	}
	if suite.Tests != len(items) || suite.Failures != failures || suite.Errors != errors {
		t.Errorf("%d tests, %d failures, %d errors; want %d, %d, %d", suite.Tests, suite.Failures, suite.Errors, len(items), failures, errors)
	}
}

func checkBad(t *testing.T, b *bad, kind string, lines int) {
	t.Helper()
	if b == nil || b.Type != kind || b.Message == "" || strings.Count(b.Body, "\n")+1 != lines {
		t.Errorf("%+v, want type %s and %d lines", b, kind, lines)
	}
}

type sarifRun struct {
	Tool struct {
		Driver struct {
			Name, Version, InformationURI string
			Rules                         []struct {
				ID, Name, HelpURI                       string
				ShortDescription, FullDescription, Help struct{ Text string }
				DefaultConfiguration                    struct{ Level string }
			}
		}
	}
	ColumnKind  string
	Invocations []struct {
		ExecutionSuccessful bool
		ExitCode            int
	}
	Artifacts []sarifArtifact
	Results   []sarifResult
}

type sarifArtifact struct {
	Location struct {
		URI string
	}
	ParentIndex *int
	Hashes      map[string]string
}

type sarifResult struct {
	RuleID    string
	RuleIndex int
	Level     string
	Message   struct{ Text string }
	Locations []struct {
		PhysicalLocation struct {
			ArtifactLocation struct {
				URI   string
				Index int
			}
			Region sarifRegion
		}
		LogicalLocations []struct{ FullyQualifiedName string }
	}
	PartialFingerprints map[string]string
	Properties          map[string]any
}

type sarifRegion struct{ StartLine, StartColumn, EndLine, EndColumn int }

func sarifOf(t *testing.T, doc []byte) sarifRun {
	t.Helper()
	var log struct{ Runs []sarifRun }
	if err := json.Unmarshal(doc, &log); err != nil {
		t.Fatalf("%v\n%.2000s", err, doc)
	}
	if len(log.Runs) != 1 {
		t.Fatalf("%d runs", len(log.Runs))
	}
	return log.Runs[0]
}

// checkSchema holds a SARIF document against its schema, if that is there.
func checkSchema(t *testing.T, doc []byte, schema *jsonschema.Schema) {
	t.Helper()
	if schema == nil {
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%v\n%.2000s", err, doc)
	}
}

func checkSARIF(t *testing.T, doc []byte, items []report.Item, schema *jsonschema.Schema) {
	t.Helper()
	checkSchema(t, doc, schema)
	run := sarifOf(t, doc)
	rules := run.Tool.Driver.Rules
	if run.Tool.Driver.InformationURI != "https://github.com/fiador/fiador" {
		t.Errorf("%+v", run.Tool.Driver)
	}
	for k, r := range rules {
		if k > 0 && r.ID <= rules[k-1].ID {
			t.Errorf("rule %s stands behind %s", r.ID, rules[k-1].ID)
		}
		if strings.EqualFold(r.Name, r.ID) || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" || r.DefaultConfiguration.Level == "" {
			t.Errorf("rule %s does not say enough: %+v", r.ID, r)
		}
	}
	wanted, failed := map[string]int{}, len(items) == 0
	for _, i := range items {
		failed = failed || i.Err != nil
		for level, n := range levels(i) {
			wanted[level] += n
		}
	}
	prints := map[string]bool{}
	for _, r := range run.Results {
		wanted[r.Level]--
		if rules[r.RuleIndex].ID != r.RuleID || len(r.Locations) != 1 || r.Properties["outcome"] == nil {
			t.Errorf("result %+v", r)
		}
		place := r.Locations[0].PhysicalLocation
		if run.Artifacts[place.ArtifactLocation.Index].Location.URI != place.ArtifactLocation.URI {
			t.Errorf("artifact %d is not %s", place.ArtifactLocation.Index, place.ArtifactLocation.URI)
		}
		if p := r.PartialFingerprints["fiadorFinding/v1"]; prints[p] || len(p) != 64 {
			t.Errorf("the fingerprint %q is not its own", p)
		} else {
			prints[p] = true
		}
	}
	for level, n := range wanted {
		if n != 0 {
			t.Errorf("%d results of level %s are missing", n, level)
		}
	}
	if len(run.Artifacts) < len(items) || run.Invocations[0].ExecutionSuccessful == failed {
		t.Errorf("%d artifacts, invocation %+v", len(run.Artifacts), run.Invocations)
	}
}

// textAt cuts a region out of a text.
func textAt(t *testing.T, src []byte, r sarifRegion) string {
	t.Helper()
	lines := strings.SplitAfter(string(src), "\n")
	offset := func(line, column int) int {
		n := 0
		for _, l := range lines[:line-1] {
			n += len(l)
		}
		units := utf16.Encode([]rune(lines[line-1]))
		return n + len(string(utf16.Decode(units[:column-1])))
	}
	return string(src[offset(r.StartLine, r.StartColumn):offset(r.EndLine, r.EndColumn)])
}

// valueAt returns the value at a pointer, or at its deepest existing ancestor.
func valueAt(v any, pointer string) any {
	for _, token := range strings.Split(pointer, "/")[1:] {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var next any
		ok := false
		switch at := v.(type) {
		case map[string]any:
			next, ok = at[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i < len(at) {
				next, ok = at[i], true
			}
		}
		if !ok {
			return v
		}
		v = next
	}
	return v
}

// checkMarkdown removes the code spans from a page. The rest must be fixed words and
// marks of this package.
func checkMarkdown(t *testing.T, doc []byte) {
	t.Helper()
	if len(doc) >= 1<<20 {
		t.Errorf("%d bytes", len(doc))
	}
	for _, line := range strings.Split(string(doc), "\n") {
		rest := withoutCode(line)
		if !markdownLine.MatchString(rest) {
			t.Errorf("%.200q leaves %.200q", line, rest)
		}
	}
}

// markdownLine is a line of the page with a bullet in place of each code span. A dash
// means an empty text.
var markdownLine = regexp.MustCompile(`^(` + strings.ReplaceAll(strings.Join([]string{
	``,
	`# fiador: (no intents|ACCEPTED, the change brings no intent|REJECTED, \d+ changed paths? (is|are) not announced|(ERROR, no decision about \d+ of|REJECTED, \d+ of|ACCEPTED,) \d+ intents?)`,
	`> \*\*REPORT ONLY:\*\* a rejected intent does not fail this run\.`,
	`\d+ intents?, \d+ BUNDLE, \d+ CLARIFY, \d+ REFUSE, (\d+ FAILED, )?\d+ ERROR(; \d+ changed paths? (is|are) not announced)?(; profile •)?(; kernel •)?`,
	`\| outcome \| intent \| findings \| first reason \|`,
	`\|---\|---\|---\|---\|`,
	`\| (CLARIFY|REFUSE|FAILED|ERROR|UNANNOUNCED) \| • \| \d+ \| • \|`,
	`## (Findings|Notes|Accepted)`,
	`### (BUNDLE|CLARIFY|REFUSE|FAILED|ERROR|UNANNOUNCED) •`,
	`executed: rejected, exit code \d+`,
	`- •( at •)?(, line \d+)?: •`,
	`  - (fix|answer|stderr): •`,
	`  - \d+ more answers?`,
	`\*\*\d+ more (intent|finding|note)s? left out here to keep the page short: the formats sarif and junit have them all\.\*\*`,
	`</?details>`,
	`<summary>\d+ accepted intents</summary>`,
	`- •(, executed: accepted, exit code 0, \d+ outputs?, \d+ bytes?)?`,
}, "|"), "•", "[•–]") + `)$`)

// withoutCode replaces each code span by a bullet. It finds spans as CommonMark does: a
// run of backticks ends at the next run of the same length. A bar in a table ends a
// cell, even in a span.
func withoutCode(line string) string {
	var b strings.Builder
	for line != "" {
		if line[0] != '`' {
			_, size := utf8.DecodeRuneInString(line)
			b.WriteString(line[:size])
			line = line[size:]
			continue
		}
		n := len(line) - len(strings.TrimLeft(line, "`"))
		end := closing(line[n:], n)
		if end < 0 || n > 80 {
			b.WriteString(line[:n])
			line = line[n:]
			continue
		}
		b.WriteString("•")
		if strings.HasPrefix(b.String(), "|") {
			b.WriteString(strings.Repeat("|", strings.Count(line[:n+end], "|")))
		}
		line = line[n+end+n:]
	}
	return b.String()
}

func closing(s string, n int) int {
	for k := 0; k < len(s); k++ {
		if s[k] != '`' {
			continue
		}
		run := len(s[k:]) - len(strings.TrimLeft(s[k:], "`"))
		if run == n {
			return k
		}
		k += run
	}
	return -1
}
