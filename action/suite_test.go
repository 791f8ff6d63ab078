//go:build linux

package action_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suiteInputs are the defaults of the mode suite.
func suiteInputs(a archive) map[string]string {
	inputs := checkInputs(a)
	inputs["INPUT_MODE"] = "suite"
	return inputs
}

// recorded is a folder with runs: those of fiador suite demo, of which new is rejected, a
// baseline that is equal to new, and a run of new without an answer.
func recorded(t *testing.T, a archive) string {
	t.Helper()
	r := newRunner(t, nil)
	r.put("work/cases.json", `[{"id":"ticket","input":{"user":"x"}}]`)
	for _, c := range []struct {
		want int
		argv string
	}{
		{1, "suite demo --out runs"},
		{0, "suite bless runs/new/demo --to equal"},
		{0, "suite run cases.json --new http://127.0.0.1:1 --retries 0 --out silent --run-id silent"},
		{0, "pack keygen --name example.com/suites --key suite.key"},
	} {
		if status, out := r.run(append([]string{a.program}, strings.Fields(c.argv)...)...); status != c.want {
			t.Fatalf("%s: status %d\n%s", c.argv, status, out)
		}
	}
	r.put("work/none/README.md", "no run")
	r.put("work/allows/profile.json", `{"name":"allows","extends":"dev"}`)
	r.put("work/refuses/profile.json", `{"name":"refuses","extends":"dev","model_adapters":["other"]}`)
	return filepath.Join(r.dir, "work")
}

// copied copies recorded runs into the workspace. Nobody else can read the key.
func copied(t *testing.T, r *runner, runs string) {
	t.Helper()
	work := filepath.Join(r.dir, "work")
	if err := errors.Join(os.CopyFS(work, os.DirFS(runs)), os.Chmod(filepath.Join(work, "suite.key"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	a := released(t)
	runs := recorded(t, a)
	with := func(pairs ...string) map[string]string {
		set := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			set["INPUT_"+pairs[i]] = pairs[i+1]
		}
		return set
	}
	equal := func(pairs ...string) map[string]string {
		return with(append([]string{"BASELINE", "equal", "NEW", "runs/new/demo", "OUT", "report"}, pairs...)...)
	}
	for _, c := range []struct {
		name    string
		set     map[string]string
		status  int
		outcome string
		report  string // folder of the report, in the workspace; empty: there is none
		says    string
	}{
		{"rejected", nil, 1, "rejected", "runs", "::error file="},
		{"accepted", equal(), 0, "accepted", "report", "fiador: ACCEPTED"},
		{"no decision", with("RUNS", "silent"), 2, "error", "silent", ""},
		{"report elsewhere", with("OUT", "a b/$(touch pwned)"), 1, "rejected", "a b/$(touch pwned)", ""},
		{"a folder with a dash", with("OUT", "-"), 1, "rejected", "-", ""},
		{"working directory", with("WORKING_DIRECTORY", "runs", "RUNS", "."), 1, "rejected", "runs", ""},
		{"missing working directory", with("WORKING_DIRECTORY", "-nowhere"), 2, "error", "", "cannot be entered"},
		{"report only", with("REPORT_ONLY", "true"), 0, "rejected", "runs", "REPORT ONLY"},
		{"report only, accepted", equal("REPORT_ONLY", "true"), 0, "accepted", "report", ""},
		{"report only, no decision", with("REPORT_ONLY", "true", "RUNS", "silent"), 2, "error", "silent", ""},
		{"limits", with("LIMITS", "\nmax-regressions=1\n\nmin-answers=0.5\nallow-removed\n"), 0, "accepted", "runs", ""},
		{"a limit that is broken", equal("LIMITS", "min-pass-rate=1"), 1, "rejected", "report", ""},
		{"a policy that allows", equal("SUITE_POLICY", "allows"), 0, "accepted", "report", ""},
		{"a policy that refuses", equal("SUITE_POLICY", "refuses"), 1, "rejected", "report", "policy_violation"},
		{"signed", equal("SIGN", "suite.key"), 0, "accepted", "report", ""},
		{"run", with("RUN_ID", "demo"), 1, "rejected", "runs", ""},

		{"no runs", with("RUNS", "none"), 2, "error", "", "RUN_E0"},
		{"no folder", with("RUNS", "##[error]nowhere"), 2, "error", "", "::error title=fiador::"},
		{"two folders", with("RUNS", "runs\nsilent", "OUT", "report"), 2, "error", "", ""},
		{"a folder like a flag", with("RUNS", "--report-only", "OUT", "report"), 2, "error", "", ""},
		{"shell text", with("RUNS", "$(touch pwned)`touch pwned`;touch pwned"), 2, "error", "", ""},
		{"shell text elsewhere", with("RUN_ID", "$(touch pwned)", "CASES", "`touch pwned`", "TOOLS", ";touch pwned"), 2, "error", "", ""},
		{"no such run", equal("NEW", "runs/new/demo\nnowhere"), 2, "error", "", ""},
		{"new stands for baseline", equal("BASELINE", "runs/new/demo"), 2, "error", "", ""},
		{"no such cases", with("CASES", "nowhere.json"), 2, "error", "", ""},
		{"a limit that is no number", with("LIMITS", "alpha=$(touch pwned)"), 2, "error", "", ""},
		{"unknown policy", with("SUITE_POLICY", "lenient"), 2, "error", "", ""},
		{"tools without a policy", with("TOOLS", "none"), 2, "error", "", ""},
		{"run and directories", equal("RUN_ID", "demo"), 2, "error", "", "--run-id picks a run of ROOT"},
		{"unsigned runs", with("KEYS", "example.com/suites+b55c3176+AZHuavC/fpjxE66TmtdrQmv3v6+811cT0JwcxhAX6z+H"), 2, "error", "", ""},
		{"report to standard output", with("SARIF", "-"), 2, "error", "", ""},
	} {
		for _, shell := range shells {
			t.Run(c.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, suiteInputs(a))
				copied(t, r, runs)
				maps.Copy(r.env, c.set)
				status, out := r.run(shell, script(t, "check.sh"))
				compared(t, r, status, c.status, c.outcome, c.report, out)
				if !strings.Contains(out, c.says) {
					t.Errorf("not %q:\n%s", c.says, out)
				}
				if _, err := os.Lstat(filepath.Join(r.dir, "work", "pwned")); err == nil {
					t.Error("an input was run")
				}
			})
		}
	}
}

// compared demands of a comparison its exit status, its outputs, its summary and its report.
func compared(t *testing.T, r *runner, status, want int, outcome, report, out string) {
	t.Helper()
	got := r.outputs()
	folder := got["report"]
	if delete(got, "report"); status != want || len(got) != 2 || got["status"] != fmt.Sprint(want) || got["outcome"] != outcome {
		t.Errorf("status %d, outputs %v, want status %d and outcome %s\n%s", status, got, want, outcome, out)
	}
	title := map[string]string{"accepted": "ACCEPTED", "rejected": "REJECTED", "error": "NO DECISION"}[outcome]
	if report == "" {
		title = "ERROR, no decision was made"
		if folder != "" {
			t.Errorf("report %q", folder)
		}
	} else {
		var doc struct {
			Gate struct {
				Status   string
				ExitCode int `json:"exit_code"`
			}
		}
		b, err := os.ReadFile(filepath.Join(folder, "compare-report.json"))
		if err == nil {
			err = json.Unmarshal(b, &doc)
		}
		is := map[string]string{"pass": "accepted", "fail": "rejected", "inconclusive": "error"}[doc.Gate.Status]
		if folder != filepath.Join(r.dir, "work", report) || err != nil || is != outcome || doc.Gate.ExitCode != want {
			t.Errorf("the report in %q says %+v; %v", folder, doc.Gate, err)
		}
	}
	if got := r.get("commands/STEP_SUMMARY"); !strings.HasPrefix(got, "# fiador: "+title) {
		t.Errorf("summary %.300s", got)
	}
	if left, _ := os.ReadDir(filepath.Join(r.dir, "temp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::") && strings.Contains(line, "##[") {
			t.Errorf("the runner obeys %q", line)
		}
	}
}

// TestSuiteWithoutOutputs: a comparison that sets no outputs ends with status 2.
func TestSuiteWithoutOutputs(t *testing.T) {
	t.Parallel()
	a := released(t)
	runs := recorded(t, a)
	for _, c := range []struct{ name, value, want string }{
		{"INPUT_MODE", "Suite", `mode "Suite" is neither check nor suite`},
		{"INPUT_MODE", "suite compare", "is neither check nor suite"},
		{"INPUT_POLICY", "strict", "policy is an input of the mode check"},
		{"INPUT_CHANGED", "main", "changed and covers are inputs of the mode check"},
		{"INPUT_COVERS", "main..HEAD", "changed and covers are inputs of the mode check"},
		{"INPUT_BASELINE", "equal", "baseline is set, and new is not"},
		{"INPUT_NEW", "runs/new/demo", "new is set, and out is not"},
		{"INPUT_LIMITS", "max-regressions=1\nreport-only", `limits has the line "report-only"`},
		{"INPUT_LIMITS", "policy=dev", "limits has the line"},
		{"INPUT_LIMITS", " max-infra=1", "limits has the line"},
		{"INPUT_LIMITS", "max-infra", "limits has the line"},
		{"INPUT_OUT", "x\noutcome=accepted", "has a control character in its name"},
	} {
		for _, shell := range shells {
			r := newRunner(t, suiteInputs(a))
			copied(t, r, runs)
			r.env[c.name] = c.value
			status, out := r.run(shell, script(t, "check.sh"))
			if got := r.outputs(); status != 2 || !strings.Contains(out, c.want) || len(got) > 0 {
				t.Errorf("%s=%q: status %d, outputs %v\n%s", c.name, c.value, status, got, out)
			}
		}
	}
	for _, name := range []string{"RUN_ID", "BASELINE", "NEW", "CASES", "OUT", "LIMITS", "TOOLS", "KEYS", "SIGN"} {
		r := newRunner(t, checkInputs(a))
		r.put("work/intents/a.json", allowed)
		r.env["INPUT_"+name] = "x"
		if status, out := r.run("sh", script(t, "check.sh")); status != 2 || !strings.Contains(out, "the mode is check") {
			t.Errorf("%s in the mode check: status %d\n%s", name, status, out)
		}
	}
}

// TestSuiteSecondReport: a comparison without a decision never names the report of an earlier one.
func TestSuiteSecondReport(t *testing.T) {
	t.Parallel()
	a := released(t)
	runs := recorded(t, a)
	r := newRunner(t, suiteInputs(a))
	copied(t, r, runs)
	if _, err := os.Stat(filepath.Join(r.dir, "work", "runs", "compare-report.json")); err != nil {
		t.Fatal(err)
	}
	r.env["INPUT_CASES"] = "nowhere.json"
	status, out := r.run("sh", script(t, "check.sh"))
	compared(t, r, status, 2, "error", "", out)
}

// TestSuiteHostile: nothing that a run or its cases say becomes a command of the log, an output or
// markup of the summary.
func TestSuiteHostile(t *testing.T) {
	t.Parallel()
	a := released(t)
	const evil = "##[set-output name=outcome]accepted\n::set-output name=outcome::accepted\r\n<script>| `x` ![x](https://example.com/x)$(touch pwned)"
	quoted := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%q", evil), `\x`, `\u00`), `"`)
	for _, shell := range shells {
		r := newRunner(t, suiteInputs(a))
		root := "work/##[error]runs/"
		r.put(root+"cases.json", `[{"id":"a","title":"`+quoted+`","suite":"`+quoted+`","input":{"user":"`+quoted+`"},"expected":{"must_not_include":["`+quoted+`"],"tool_forbidden":["`+quoted+`"]}}]`)
		call := `{"type":"tool_call","ts":0,"call_id":"c","tool":"` + quoted + `","args":{}}`
		for side, answer := range map[string][2]string{"baseline": {"", "safe"}, "new": {call, quoted}} {
			r.put(root+side+"/r/run.json", `{"schema_version":"run.v1","run_id":"r","version":"`+side+`","generated_at":"2026-01-01T00:00:00Z","base_url":"`+quoted+`","cases_path":"c","out_dir":".","selected_case_ids":["a"],"runner_version":"`+quoted+`"}`)
			r.put(root+side+"/r/a.json", `{"schema_version":"case.v1","case_id":"a","version":"`+side+`","status":"ok","proposed_actions":[],"events":[`+answer[0]+`],"final_output":{"content_type":"text","content":"`+answer[1]+`"}}`)
		}
		r.env["INPUT_RUNS"], r.env["INPUT_CASES"] = "##[error]runs", "##[error]runs/cases.json"
		status, out := r.run(shell, script(t, "check.sh"))
		compared(t, r, status, 1, "rejected", "##[error]runs", out)
		if n := strings.Count(r.get("commands/OUTPUT"), "\n"); n != 3 {
			t.Errorf("%d outputs", n)
		}
		notes := 0
		for line := range strings.Lines(out) {
			switch command, _, _ := strings.Cut(line, " "); command {
			case "::error", "::warning", "::notice":
				notes++
			default:
				if strings.HasPrefix(line, "::") {
					t.Errorf("the runner obeys %q", line)
				}
			}
		}
		if notes == 0 {
			t.Errorf("there are no annotations:\n%s", out)
		}
		summary := r.get("commands/STEP_SUMMARY")
		markup := regexp.MustCompile("``.*?``").ReplaceAllString(summary, "code")
		if markup == summary {
			t.Error("the summary does not name the tool")
		}
		for _, bad := range []string{"<script>", "![x]", "\n::", "\r"} {
			if strings.Contains(markup, bad) {
				t.Errorf("the summary has %q:\n%s", bad, summary)
			}
		}
		if _, err := os.Lstat(filepath.Join(r.dir, "work", "pwned")); err == nil {
			t.Error("a text was run")
		}
	}
}
