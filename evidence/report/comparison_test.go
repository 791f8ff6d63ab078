package report_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// sideOf is one side of a case: k of n runs passed, of the given number.
func sideOf(k, n, runs int, cause string, failed ...string) *grade.SideResult {
	s := &grade.SideResult{State: grade.StablePass, K: k, N: n, Runs: runs, Errors: runs - n, Failed: failed}
	switch {
	case n == 0:
		s.State = grade.NoData
	case k == 0:
		s.State = grade.StableFail
	case k < n:
		s.State = grade.Flaky
	}
	if cause != "" {
		s.RootCause = &grade.RootCause{Name: cause, Confidence: "high", Evidence: []string{}}
	}
	return s
}

func caseOf(id string, class grade.Class, old, new *grade.SideResult) grade.CaseResult {
	return grade.CaseResult{CaseID: id, Class: class, Baseline: old, New: new}
}

// compared is a comparison of cases, whose gate has the given reasons. A case stands in
// the line of its number, from 2 on.
func compared(status string, exit int, reasons []grade.Reason, cases ...grade.CaseResult) report.Comparison {
	c := report.Comparison{Cases: "suite/cases.jsonl", Document: []byte("{}\n")}
	c.Comparison = grade.Comparison{
		SchemaVersion: grade.CompareVersion, EvaluatorVersion: "1.9.0", Baseline: &grade.Side{}, Cases: cases,
		Gate:    grade.Gate{Status: status, ExitCode: exit, Reasons: reasons, Limits: grade.DefaultLimits()},
		Summary: grade.Summary{Classes: map[grade.Class]int{}, PassShare: map[trial.Side]grade.Share{}, Answers: map[trial.Side]grade.Ratio{}},
	}
	lines := map[string]int{}
	for k, r := range cases {
		lines[r.CaseID] = k + 2
		c.Summary.Classes[r.Class]++
		for name, s := range map[trial.Side]*grade.SideResult{trial.Baseline: r.Baseline, trial.New: r.New} {
			if s == nil {
				continue
			}
			share, ratio := c.Summary.PassShare[name], c.Summary.Answers[name]
			if s.N > 0 {
				share.N++
			}
			if s.State == grade.StablePass {
				share.K++
			}
			ratio.K, ratio.N = ratio.K+s.N, ratio.N+s.Runs
			ratio.Rate = grade.Round(float64(ratio.K) / float64(ratio.N))
			c.Summary.PassShare[name], c.Summary.Answers[name] = share, ratio
		}
	}
	c.Line = func(id string) int { return lines[id] }
	return c
}

// mixed has a case of every kind that a format shows in its own way.
func mixed() report.Comparison {
	ticket := caseOf("refund", grade.Regression, sideOf(5, 5, 5, ""), sideOf(0, 5, 5, "tool_failure", "must_include:0", "policy", "tool_success"))
	ticket.Title, ticket.Suite, ticket.Severity, ticket.Trace = "A customer wants 249.90 EUR back", "refunds", "critical", "changed"
	ticket.Divergence = &grade.Divergence{Kind: "result_status", Headline: "create_ticket: result went from ok to error at events[2]"}
	ticket.New.Actions = []grade.Action{{Tool: "issue_refund", Outcome: "REFUSE", Executed: true}, {Tool: "send_mail", Outcome: "CLARIFY"}}
	drifted := caseOf("drifted", grade.UnchangedPass, sideOf(5, 5, 5, ""), sideOf(5, 5, 5, ""))
	drifted.Trace, drifted.Divergence = "changed", &grade.Divergence{Headline: "get_order: argument /id went from 1 to 2 at events[0]"}
	return compared(grade.GateFail, 1, []grade.Reason{
		{Code: "regression", Count: 1, Cases: []string{"refund"}}, {Code: "policy_violation", Count: 1, Cases: []string{"refund"}},
		{Code: "pass_rate", Count: 0.4, Limit: 0.9, Cases: []string{"refund", "flaky", "old"}}, {Code: "infra_regression", Count: 1, Cases: []string{"timeout"}},
	},
		caseOf("calm", grade.UnchangedPass, sideOf(5, 5, 5, ""), sideOf(5, 5, 5, "")), drifted,
		caseOf("flaky", grade.FlakySame, sideOf(3, 5, 5, "output_mismatch"), sideOf(3, 5, 5, "output_mismatch", "equals")),
		caseOf("wobbly", grade.FlakyBetter, sideOf(3, 5, 5, "output_mismatch"), sideOf(4, 5, 5, "output_mismatch", "equals")),
		caseOf("gone", grade.Removed, sideOf(5, 5, 5, ""), nil),
		caseOf("lost", grade.Inconclusive, sideOf(3, 4, 5, "infra_timeout"), sideOf(0, 0, 5, "infra_network")),
		caseOf("old", grade.UnchangedFail, sideOf(0, 5, 5, "output_mismatch", "equals"), sideOf(0, 5, 5, "output_mismatch", "equals")),
		caseOf("known", grade.UnchangedFail, sideOf(0, 5, 5, "output_mismatch", "equals"), sideOf(0, 5, 5, "output_mismatch", "equals")),
		ticket, caseOf("timeout", grade.InfraRegression, sideOf(5, 5, 5, ""), sideOf(0, 0, 5, "infra_timeout")),
		caseOf("young", grade.Added, nil, sideOf(5, 5, 5, "")),
	)
}

func written(t testing.TB, c report.Comparison, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b, format, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestComparisonGolden: every format says the same of a comparison, and as testdata
// has it; hostile text stays text.
func TestComparisonGolden(t *testing.T) {
	schema, xmllint := sarifSchema(t), junitSchema(t)
	hard, first := hostileComparison(hostile), hostileComparison(hostile)
	slices.Reverse(first.Gate.Reasons[:2])
	for _, format := range report.ComparisonFormats() {
		t.Run(format, func(t *testing.T) {
			for _, c := range []report.Comparison{mixed(), hard, first} {
				got := written(t, c, format)
				checkComparison(t, c, format, got, schema, xmllint)
				if !bytes.Equal(got, written(t, c, format)) {
					t.Error("a second writing differs")
				}
			}
			got, path := written(t, mixed(), format), filepath.Join("testdata", "compared."+format)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs (%v); -update writes it anew. Got\n%s", path, err, got)
			}
		})
	}
	var b bytes.Buffer
	if err := mixed().Write(&b, "yaml", report.Options{}); err == nil || b.Len() > 0 || !strings.Contains(err.Error(), `"yaml"`) {
		t.Errorf("yaml gives %q, %v", b.String(), err)
	}
}

// TestHeadline: the decision and its first reason, in the words of a reader.
func TestHeadline(t *testing.T) {
	good, bad, none := sideOf(1, 1, 1, ""), sideOf(0, 1, 1, "unknown"), sideOf(0, 0, 1, "infra_timeout")
	a, b := caseOf("a", grade.UnchangedPass, good, good), caseOf("b", grade.InfraRegression, good, none)
	for want, c := range map[string]report.Comparison{
		"ACCEPTED":               compared(grade.GatePass, 0, nil, a),
		"REJECTED: 1 regression": compared(grade.GateFail, 1, []grade.Reason{{Code: "regression", Count: 1, Cases: []string{"c"}}}, caseOf("c", grade.Regression, good, bad)),
		"NO DECISION: 1 of 2 runs of new has an answer, and 1 more reason": compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "answers", Count: 0.5, Limit: 0.95, Cases: []string{"b"}}, {Code: "infra_regression", Count: 1, Cases: []string{"b"}}}, a, b),
		"NO DECISION: 0 of 1 run of new have an answer":                    compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "answers", Limit: 0.95, Cases: []string{"b"}}}, b),
		"NO DECISION: no case of new has an answer":                        compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "no_cases", Limit: 1}}),
		"REJECTED: the suite as a whole is worse":                          compared(grade.GateFail, 1, []grade.Reason{{Code: "suite_worse", Count: 0.03, Limit: 0.05, Cases: []string{"a"}}}, a),
		"REJECTED: 2 cases did what the policy does not allow":             compared(grade.GateFail, 1, []grade.Reason{{Code: "policy_violation", Count: 2, Cases: []string{"a", "b"}}}, a, b),
		"REJECTED: 3 critical cases fail, and 2 more reasons":              compared(grade.GateFail, 0, []grade.Reason{{Code: "critical_failure", Count: 3}, {Code: "flaky"}, {Code: "weak"}}),
		"NO DECISION: 12 cases have no answer on baseline":                 compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "baseline_unusable", Count: 12}}),
		"NO DECISION: É": compared("", 2, []grade.Reason{{Code: "É"}}),
	} {
		if got := c.Headline(); got != strings.ReplaceAll(want, "É", "é") {
			t.Errorf("%q, want %q", got, want)
		}
		if first, _, _ := strings.Cut(string(written(t, c, "human")), "\n"); first != c.Headline() {
			t.Errorf("human begins with %q", first)
		}
		if !strings.HasPrefix(string(written(t, c, "markdown")), "# fiador: "+c.Headline()+"\n") || !strings.Contains(string(written(t, c, "github")), "\nfiador: "+c.Headline()+"; ") && !strings.HasPrefix(string(written(t, c, "github")), "fiador: "+c.Headline()+"; ") {
			t.Errorf("%s: markdown or github does not say so", c.Headline())
		}
	}
	var colored bytes.Buffer
	if err := mixed().Write(&colored, "human", report.Options{Color: true}); err != nil || !strings.HasPrefix(colored.String(), "\x1b[31mREJECTED\x1b[0m: 1 regression, and 3 more reasons\n\x1b[1mregression\x1b[0m  ") {
		t.Errorf("%v %q", err, colored.String())
	}
}

// TestComparisonNeverGreen: what is not accepted has a failure or an error in JUnit and a
// result in SARIF, even if no case is named; a case that fails or did not run never
// passes.
func TestComparisonNeverGreen(t *testing.T) {
	good, bad := sideOf(1, 1, 1, ""), sideOf(0, 1, 1, "")
	for _, tc := range []struct {
		c       report.Comparison
		element string
	}{
		{compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "no_cases", Limit: 1}}), "error"},
		{compared(grade.GateFail, 1, []grade.Reason{{Code: "new_code"}}), "failure"},
		{compared(grade.GateFail, 1, []grade.Reason{{Code: "secret_exposed", Count: 1, Cases: []string{"a"}}}, caseOf("a", grade.UnchangedPass, good, good)), "failure"},
		{compared(grade.GateInconclusive, 2, []grade.Reason{{Code: "answers", Count: 0.5, Limit: 0.9, Cases: []string{"a"}}}, caseOf("a", grade.UnchangedPass, good, sideOf(1, 1, 2, ""))), "error"},
		{compared(grade.GatePass, 0, nil, caseOf("a", grade.Regression, good, bad)), "skipped"},
		{compared(grade.GatePass, 0, nil, caseOf("a", grade.ChangedFail, bad, bad)), "skipped"},
		{compared(grade.GatePass, 0, nil, caseOf("a", grade.Removed, good, nil)), "skipped"},
		{compared(grade.GatePass, 0, nil, caseOf("a", grade.FlakyWorse, good, sideOf(1, 2, 2, ""))), "flakyFailure"},
		{compared(grade.GatePass, 0, nil, caseOf("a", grade.Inconclusive, good, sideOf(0, 0, 1, ""))), "error"},
		{compared(grade.GateFail, 1, []grade.Reason{{Code: "regression", Count: 1, Cases: []string{"b"}}}, caseOf("a", grade.Regression, good, bad)), "failure"},
	} {
		doc := written(t, tc.c, "junit")
		m := regexp.MustCompile(`<`+tc.element+` type="[^"]+" message="[^"]+">`).FindAll(doc, -1)
		if len(m) != 1 {
			t.Errorf("no %s with a message:\n%s", tc.element, doc)
		}
		if n := len(sarifOf(t, written(t, tc.c, "sarif")).Results); (tc.c.Gate.Status != grade.GatePass) && n == 0 {
			t.Errorf("no result of\n%s", doc)
		}
	}
}

// TestComparisonReportOnly: a rejection that does not fail the run stays one.
func TestComparisonReportOnly(t *testing.T) {
	c := mixed()
	for exit, only := range map[int]bool{0: true, 1: false} {
		c.Gate.ExitCode = exit
		for _, format := range []string{"human", "github", "markdown"} {
			doc := written(t, c, format)
			if bytes.Contains(doc, []byte("REPORT ONLY")) != only || !bytes.Contains(doc, []byte("REJECTED")) {
				t.Errorf("%s, exit code %d:\n%s", format, exit, doc)
			}
		}
		if run := sarifOf(t, written(t, c, "sarif")).Invocations[0]; run.ExitCode != exit || !run.ExecutionSuccessful {
			t.Errorf("%+v", run)
		}
	}
}

// TestComparisonPrints: the fingerprint of a result stays when its counts, its line and
// the other cases change.
func TestComparisonPrints(t *testing.T) {
	prints := func(c report.Comparison) (list []string) {
		for _, r := range sarifOf(t, written(t, c, "sarif")).Results {
			if strings.HasPrefix(r.Message.Text, "refund") {
				list = append(list, r.PartialFingerprints["fiadorFinding/v1"])
			}
		}
		return list
	}
	a, b := mixed(), mixed()
	b.Comparison.Cases = slices.DeleteFunc(b.Comparison.Cases, func(r grade.CaseResult) bool { return r.CaseID == "flaky" })
	b.Line = nil
	for k := range b.Comparison.Cases {
		if r := &b.Comparison.Cases[k]; r.CaseID == "refund" {
			r.New, r.Divergence = sideOf(0, 4, 5, "tool_failure", r.New.Failed...), nil
		}
	}
	if x, y := prints(a), prints(b); len(x) != 6 || !slices.Equal(x, y) {
		t.Errorf("%q, then %q", x, y)
	}
}

// hostileComparison puts texts into every place that an agent, or the writer of a case,
// has a hand in.
func hostileComparison(texts []string) report.Comparison {
	var cases []grade.CaseResult
	for k, text := range texts {
		next := texts[(k+1)%len(texts)]
		r := caseOf(fmt.Sprintf("case-%02d %s", k, text), []grade.Class{grade.Regression, grade.UnchangedFail, grade.FlakyWorse}[k%3], sideOf(1, 1, 1, ""), sideOf(0, 1, 1, next, "equals", "x"+text, "x"+next+":0"))
		r.Title, r.Suite, r.Trace = text, next, "changed"
		r.Divergence = &grade.Divergence{Kind: "payload", Tool: text, From: text, To: next, Headline: text + ": " + next}
		r.New.Actions = []grade.Action{{Subject: text, Tool: next, Outcome: text, Reasons: texts, Executed: true}}
		if k%3 == 2 {
			r.Divergence = nil
		}
		cases = append(cases, r)
	}
	var reasons []grade.Reason
	for _, code := range append([]string{"egression"}, texts...) {
		r := grade.Reason{Code: "r" + code, Count: 30, Limit: 0.5}
		for _, c := range cases {
			r.Cases = append(r.Cases, c.CaseID)
		}
		reasons = append(reasons, r)
	}
	reasons = append(reasons, grade.Reason{Code: grade.CodePolicyViolation, Count: 1, Cases: []string{cases[0].CaseID}})
	c := compared(grade.GateFail, 1, reasons, cases...)
	c.EvaluatorVersion, c.Cases = texts[0], texts[len(texts)-1]+"/cases.jsonl"
	return c
}

func FuzzComparison(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, "a")
		f.Add("", text)
	}
	f.Add("//a\x07", "///%") // no host
	schema := sarifSchema(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		c := hostileComparison([]string{a, b, a + b})
		for _, format := range report.ComparisonFormats() {
			checkComparison(t, c, format, written(t, c, format), schema, nil)
		}
	})
}

// TestLargeComparison: 10 000 cases, all of them changed, or none of them.
func TestLargeComparison(t *testing.T) {
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for _, changed := range []bool{true, false} {
		var cases []grade.CaseResult
		for k := range 10000 {
			r := caseOf(fmt.Sprintf("case-%05d", k), grade.UnchangedPass, sideOf(5, 5, 5, ""), sideOf(5, 5, 5, ""))
			if changed {
				r.Class, r.New, r.Trace = grade.Regression, sideOf(0, 5, 5, "tool_failure", "tool_success"), "changed"
				r.Divergence = &grade.Divergence{Headline: strings.Repeat("x|`", 80) + " at events[2]"}
			}
			cases = append(cases, r)
		}
		status, reasons := grade.GatePass, []grade.Reason(nil)
		if changed {
			status, reasons = grade.GateFail, []grade.Reason{{Code: "regression", Count: 10000, Cases: []string{"case-00000", "case-00001"}}}
		}
		c := compared(status, 0, reasons, cases...)
		for _, format := range report.ComparisonFormats() {
			doc := written(t, c, format)
			checkComparison(t, c, format, doc, schema, xmllint)
			switch format {
			case "junit":
				if n := bytes.Count(doc, []byte("<failure ")); n != len(cases) && changed {
					t.Errorf("%d failures: a reason that names two cases is about all of its class", n)
				}
			case "sarif":
				run := sarifOf(t, doc)
				if want := map[bool]int{true: 5000}[changed]; len(run.Results) != want || bytes.Contains(doc, []byte("15000 more results left out")) != changed {
					t.Errorf("%d results", len(run.Results))
				}
			case "markdown":
				m := regexp.MustCompile(`\*\*(\d+) more cases left out`).FindSubmatch(doc)
				if shown := bytes.Count(doc, []byte("5/5 -> ")); m == nil && shown != 10000 || m != nil && fmt.Sprint(10000-shown) != string(m[1]) {
					t.Errorf("%d cases are shown, and %q left out", shown, m)
				}
			}
		}
	}
}

// checkComparison holds a report of a comparison against the rules of its format.
func checkComparison(t *testing.T, c report.Comparison, format string, doc []byte, schema *jsonschema.Schema, xmllint func(*testing.T, []byte)) {
	t.Helper()
	if format == "json" {
		if !bytes.Equal(doc, c.Document) {
			t.Errorf("json is not the document: %s", doc)
		}
		return
	}
	checkText(t, doc)
	switch format {
	case "github":
		lines := strings.Split(strings.TrimSuffix(string(doc), "\n"), "\n")
		for _, line := range lines[:len(lines)-1] {
			if m := command.FindStringSubmatch(line); m == nil || strings.Contains(line, "##[") {
				t.Errorf("%q is no command", line)
			} else {
				for _, p := range strings.Split(m[2], ",") {
					if !property.MatchString(p) {
						t.Errorf("the property %q in %q", p, line)
					}
				}
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "fiador: ") || strings.Contains(last, "##[") {
			t.Errorf("the last line is %q", last)
		}
	case "junit":
		checkComparedJUnit(t, c, doc)
		if xmllint != nil {
			xmllint(t, doc)
		}
	case "sarif":
		checkSchema(t, doc, schema)
		run := sarifOf(t, doc)
		prints := map[string]bool{}
		for _, r := range run.Results {
			if p := r.PartialFingerprints["fiadorFinding/v1"]; prints[p] {
				t.Errorf("two results have the fingerprint %s", p)
			} else {
				prints[p] = true
			}
			if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || strings.Contains(r.Message.Text, "](") {
				t.Errorf("result %+v", r)
			}
		}
	case "markdown":
		if len(doc) >= 1<<20 {
			t.Errorf("%d bytes", len(doc))
		}
		for _, line := range strings.Split(string(doc), "\n")[1:] {
			if rest := withoutCode(line); !comparedLine.MatchString(rest) {
				t.Errorf("%.200q leaves %.200q", line, rest)
			}
		}
	case "human":
		for line := range strings.Lines(string(doc)) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
				t.Errorf("a runner obeys %q", line)
			}
		}
	}
}

// comparedLine is a line of the page of a comparison behind the first, with a bullet in
// place of each code span.
var comparedLine = regexp.MustCompile(`^(` + strings.NewReplacer("•", "[•–]", "RATE", `(none|\d+/\d+)`, "WORDS", `(–|[A-Za-z0-9 ,;:.'()_-]+)`).Replace(strings.Join([]string{
	``,
	`> \*\*REPORT ONLY:\*\* new is rejected, and that does not fail this run\.`,
	`\d+ cases?(, \d+ [a-z_]+)*; (\d+/\d+ -> )?\d+/\d+ pass; evaluator •`,
	`## (Reasons|Needs a look)`,
	`\| reason \| title \| count \| limit \| cases \| fix \|`,
	`\| class \| case \| baseline, new \| what changed first \| failed on new \|`,
	`(\|---)+\|`,
	`\| • \| WORDS \| [0-9.]+ \| [0-9.]+ \| (•(, •)*)?(, )?(\d+ more)? \| WORDS \|`,
	`\| • \| • \| RATE -> RATE \| • \| • \|`,
	`\*\*\d+ more (reason|case)s? left out here to keep the page short: the format junit has them all\.\*\*`,
	`</?details>`,
	`<summary>\d+ cases? pass(es)? as before</summary>`,
	`- •, RATE -> RATE`,
}, "|")) + `)$`)

// checkComparedJUnit: each case is one test case, and the totals are the elements.
func checkComparedJUnit(t *testing.T, c report.Comparison, doc []byte) {
	t.Helper()
	var s suites
	if err := xml.Unmarshal(doc, &s); err != nil {
		t.Fatalf("%v\n%.2000s", err, doc)
	}
	suite, failures, errors := s.Suite[0], 0, 0
	for _, k := range suite.Case {
		if k.Failure != nil {
			failures++
		}
		if k.Error != nil {
			errors++
		}
	}
	gate := 0
	for _, r := range c.Gate.Reasons {
		if len(r.Cases) == 0 {
			gate = 1
		}
	}
	if n := len(c.Comparison.Cases) + gate; len(suite.Case) != n || suite.Tests != n || suite.Failures != failures || suite.Errors != errors {
		t.Errorf("%d cases, %d tests, %d of %d failures, %d of %d errors", len(suite.Case), suite.Tests, suite.Failures, failures, suite.Errors, errors)
	}
	if c.Gate.Status != grade.GatePass && failures+errors == 0 {
		t.Errorf("%s, and no test case says so", c.Gate.Status)
	}
}
