//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// group writes a run group "g" with three repeats on both sides.
func (v versus) group(t *testing.T, baseline, new [3]string) {
	t.Helper()
	for side, said := range map[string][3]string{"baseline": baseline, "new": new} {
		for i, answer := range said {
			v.write(t, sample{side: side, id: fmt.Sprintf("g-r%02d", i+1), of: 3, index: i + 1, answers: map[string]string{"a": answer, "b": "yes"}})
		}
	}
}

// TestCompareRepeats: the repeats of a run are found by ROOT, by a folder and by several flags, and
// what does not belong together is refused.
func TestCompareRepeats(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.group(t, [3]string{"yes", "yes", "yes"}, [3]string{"yes", "no", "no"})
	dirs := func(side string, n ...int) (list []string) {
		for _, i := range n {
			list = append(list, "--"+side, v.at(side, fmt.Sprintf("g-r%02d", i)))
		}
		return list
	}
	all := slices.Concat(dirs("new", 3, 1, 2), dirs("baseline", 2, 3, 1), []string{"--out", v.out})
	var first string
	for name, args := range map[string][]string{
		"ROOT":    {v.out},
		"run-id":  {v.out, "--run-id", "g"},
		"folders": {"--baseline", filepath.Join(v.out, "baseline"), "--new", filepath.Join(v.out, "new")},
		"flags":   all,
	} {
		c := v.compare(t, cli.ExitAccepted, args...)
		a := c.Cases[0]
		if a.Class != "flaky_worse" || a.New.K != 1 || a.New.N != 3 || c.class("b") != "unchanged_pass" || fmt.Sprint(c.New.RunIDs, c.Baseline.RunIDs) != "[g-r01 g-r02 g-r03] [g-r01 g-r02 g-r03]" {
			t.Errorf("%s: %+v", name, c)
		}
		if got := shot(t, v.out); first == "" {
			first = got
		} else if got != first {
			t.Errorf("%s: %s", name, differ(got, first))
		}
	}
	if c := v.compare(t, cli.ExitRejected, v.out, "--run-id", "g-r02"); c.class("a") != "regression" || c.Cases[0].New.N != 1 {
		t.Errorf("one repeat: %+v", c)
	}
	if c := v.compare(t, cli.ExitError, dirs("new", 1)...); fmt.Sprint(c.codes()) != "[answers]" || c.Cases[0].New.N != 1 {
		t.Errorf("two repeats have no answer: %+v", c)
	}
	v.compare(t, cli.ExitAccepted, append(dirs("new", 1), "--min-answers", "0.3")...)
	v.refuses(t, "RUN_E006", []string{`"g-r01"`, "once"}, slices.Concat([]string{"compare"}, all, dirs("new", 1))...)
	v.refuses(t, "RUN_E006", []string{"baseline", "bless"}, "compare", "--new", v.at("baseline", "g-r01"))
	v.refuses(t, "RUN_E006", []string{"new", "bless"}, "compare", "--new", v.at("new", "g-r01"), "--baseline", v.at("new", "g-r02"))
	v.refuses(t, "RUN_E001", []string{`"h"`, "--run-id"}, "compare", v.out, "--run-id", "h")
	if err := os.CopyFS(v.at("new", ".tmp-KILLED"), os.DirFS(v.at("new", "g-r01"))); err != nil { // as a kill during bless leaves it
		t.Fatal(err)
	}
	for args, want := range map[string]string{"": "", "g-r02": "new: 1 of the 3 repeats of g are compared"} {
		if _, stderr, _ := suite(t, "compare", v.out, "--run-id", args); !strings.Contains(stderr, want) || (want == "") == strings.Contains(stderr, "repeats") {
			t.Errorf("%q: %s", args, stderr)
		}
	}
	v.write(t, sample{side: "new", id: "alone", answers: map[string]string{"a": "yes", "b": "yes"}})
	v.refuses(t, "RUN_E004", []string{"several runs", "alone, g", "--run-id"}, "compare", v.out)
	v.refuses(t, "RUN_E004", []string{"several runs", "alone, g"}, "compare", v.out, "--run-id", "h")
	v.refuses(t, "RUN_E004", []string{"several runs", "alone, g"}, "compare", "--new", filepath.Join(v.out, "new"))
	v.refuses(t, "RUN_E006", []string{"does not belong"}, "compare", "--new", v.at("new", "alone"), "--new", v.at("new", "g-r01"))
	if c := v.compare(t, cli.ExitAccepted, v.out, "--run-id", "alone"); fmt.Sprint(c.New.RunIDs) != "[alone]" || c.class("a") != "unchanged_pass" {
		t.Errorf("%+v", c)
	}
	v.refuses(t, "RUN_E004", []string{"--run-id"}, append(append([]string{"compare"}, all...), "--run-id", "g")...)
}

// TestCompareAdded: without a baseline every case is added, and a removed case is a reason.
func TestCompareAdded(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	new := v.write(t, sample{side: "new", id: "r", answers: map[string]string{"a": "yes"}})
	if c := v.compare(t, cli.ExitAccepted, "--new", new); c.class("a") != "added" || c.Baseline != nil {
		t.Errorf("%+v", c)
	}
	v.write(t, sample{side: "baseline", id: "r", answers: map[string]string{"a": "yes", "b": "yes"}})
	if c := v.compare(t, cli.ExitRejected, v.out); c.class("b") != "removed" || fmt.Sprint(c.codes()) != "[removed]" {
		t.Errorf("%+v", c)
	}
	v.compare(t, cli.ExitAccepted, v.out, "--allow-removed")
}

// TestCompareLimits: limits are flags, a report-only gate says 0 instead of 1 and never instead of
// 2, and what is out of range is refused.
func TestCompareLimits(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "no"})
	for _, c := range []struct {
		flags        string
		exit         int
		status, code string
	}{
		{"", 1, "fail", "[regression]"}, {"--report-only", 0, "fail", "[regression]"}, {"--max-regressions 1", 0, "pass", "[]"},
		{"--max-regressions 1 --min-pass-rate 0.5", 0, "pass", "[]"}, {"--max-regressions 1 --min-pass-rate 0.51", 1, "fail", "[pass_rate]"}, {"--max-regressions 1 --min-pass-rate 1 --report-only", 0, "fail", "[pass_rate]"},
		{"--max-regressions 1 --max-weak-rate 0 --max-flaky 0 --alpha 0 --min-answers 1", 0, "pass", "[]"},
	} {
		if got := v.compare(t, c.exit, append([]string{v.out}, strings.Fields(c.flags)...)...); got.Gate.Status != c.status || fmt.Sprint(got.codes()) != c.code {
			t.Errorf("%s: %+v", c.flags, got.Gate)
		}
	}
	down := newVersus(t)
	down.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "down"})
	for flags, exit := range map[string]int{"": 2, "--report-only": 2, "--max-infra 1 --min-answers 0.5": 0, "--max-infra 1 --min-answers 0.51": 2} {
		if got := down.compare(t, exit, append([]string{down.out}, strings.Fields(flags)...)...); (got.Gate.Status == "inconclusive") != (exit == 2) {
			t.Errorf("%s: %+v", flags, got.Gate)
		}
	}
	for _, flags := range []string{
		"--min-pass-rate 1.01", "--min-pass-rate -0.1", "--min-pass-rate NaN", "--min-pass-rate Inf", "--max-weak-rate NaN", "--max-weak-rate 2", "--alpha 0.6", "--alpha NaN", "--alpha -Inf", "--min-answers +Inf", "--min-answers nan",
		"--min-answers 1.1", "--max-regressions -1", "--max-infra -1", "--max-flaky -1",
	} {
		name, _, _ := strings.Cut(flags, " ")
		v.refuses(t, "RUN_E001", []string{name, "give a number from 0"}, append([]string{"compare", v.out}, strings.Fields(flags)...)...)
	}
	for _, flags := range []string{"--max-regressions 1e99", "--max-flaky x", "--min-pass-rate much", "--format xml", "--report xml=f", "--report json", "--report json=", "--record", "--tools x", "--baseline x", "extra"} {
		stdout, stderr, code := suite(t, append([]string{"compare", v.out}, strings.Fields(flags)...)...)
		if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, `"hint":`) {
			t.Errorf("%s: exit status %d, %s%s", flags, code, stdout, stderr)
		}
	}
}

// toolCall is a call in the events of an answer, and its result unless the status is empty.
func toolCall(id, tool, args, status string) string {
	call := fmt.Sprintf(`{"type":"tool_call","ts":1,"call_id":%q,"action_id":"x","tool":%q,"args":%s}`, id, tool, args)
	if status == "" {
		return call
	}
	return call + fmt.Sprintf(`,{"type":"tool_result","ts":2,"call_id":%q,"status":%q,"latency_ms":1,"payload_summary":"p"}`, id, status)
}

// proposing is an answer that proposes the call of a tool, or nothing, and has events.
func proposing(tool, params string, events ...string) string {
	action := ""
	if tool != "" {
		action = fmt.Sprintf(`{"action_id":"x","action_type":"t","tool_name":%q,"params":%s,"risk_level":"low","risk_tags":[],"evidence_refs":[]}`, tool, params)
	}
	return `{"final_output":{"content_type":"text","content":"yes"},"proposed_actions":[` + action + `],"events":[` + strings.Join(events, ",") + `]}`
}

// TestComparePolicy: a policy decides what was proposed, and each call that is not exactly what its
// action proposed. A call without a result was executed, and what is undecided is never allowed.
func TestComparePolicy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("t", 5000)
	answers := map[string]string{
		"silent": "yes", "proposed": proposing("t", `{"a":1}`), "done": proposing("t", `{"a":1}`, toolCall("c", "t", `{"a":1}`, "ok")),
		"differs": proposing("t", `{"a":1}`, toolCall("c", "t", `{"a":2}`, "ok")), "other-tool": proposing("t", `{}`, toolCall("c", "u", `{}`, "ok")),
		"no-result": proposing("", "", toolCall("c", "t", `{}`, "")), "failed": proposing("", "", toolCall("c", "t", `{}`, "error")),
		"long": proposing("", "", toolCall("c", long, `{}`, "ok")), "digits": proposing("t", `{"a":1.0}`, toolCall("c", "t", `{"a":1}`, "ok")),
	}
	want := map[string]string{ // under a policy that allows no call: subject, outcome, executed
		"silent": "", "proposed": "proposed_actions[0] REFUSE false", "done": "proposed_actions[0] REFUSE true", "differs": "proposed_actions[0] REFUSE false, events[0] REFUSE true",
		"other-tool": "proposed_actions[0] REFUSE false, events[0] REFUSE true", "no-result": "events[0] REFUSE true", "failed": "events[0] REFUSE false",
		"long": "events[0] undecided true", "digits": "proposed_actions[0] REFUSE false, events[0] REFUSE true",
	}
	var cases []map[string]any
	for id := range answers {
		cases = append(cases, map[string]any{"id": id, "input": map[string]any{"user": "u"}, "expected": map[string]any{"must_include": []string{""}}})
	}
	doc, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	v := newVersus(t)
	new := v.write(t, sample{side: "new", id: "r", cases: strings.ReplaceAll(string(doc), `"must_include":[""]`, ""), answers: answers})
	got := func(c compared, id string) string {
		var list []string
		for _, one := range c.Cases {
			for _, a := range one.New.Actions {
				if one.ID == id {
					list = append(list, fmt.Sprint(a.Subject, " ", a.Outcome, " ", a.Executed))
				}
				if (a.Outcome == "undecided") != (a.IntentSHA256 == "") {
					t.Errorf("%s: %+v", one.ID, a)
				}
			}
		}
		return strings.Join(list, ", ")
	}
	c := v.compare(t, cli.ExitRejected, "--new", new, "--policy", "default")
	for id := range answers {
		if got(c, id) != want[id] {
			t.Errorf("%s: %q, want %q", id, got(c, id), want[id])
		}
	}
	var violations []string
	for _, r := range c.Gate.Reasons {
		if r.Code == "policy_violation" {
			violations = r.Cases
		}
	}
	if fmt.Sprint(violations) != "[differs digits done long no-result other-tool]" {
		t.Errorf("%q", violations)
	}
	// A policy that allows every call: what makes no intent is not allowed all the same.
	c = v.compare(t, cli.ExitRejected, "--new", new, "--policy", "dev")
	for id := range answers {
		if s := got(c, id); (s != "") != (id == "long") {
			t.Errorf("%s: %q", id, s)
		}
	}
	if c := v.compare(t, cli.ExitAccepted, "--new", new); len(got(c, "long")) > 0 {
		t.Errorf("without a policy: %+v", c)
	}
	v.refuses(t, "RUN_E004", nil, "compare", "--new", new, "--policy", "nobody")
	v.refuses(t, "RUN_E001", []string{"--ledger"}, "compare", "--new", new, "--policy", "default", "--record")
	v.refuses(t, "RUN_E004", []string{"--policy"}, "compare", "--new", new, "--record", "--ledger", v.dir)

	ledger, key := filepath.Join(v.dir, "ledger"), filepath.Join(v.dir, "ledger.key")
	if _, stderr, code := inside(t, false, "ledger", "init", ledger, "--origin", "example.com/suite", "--key", key); code != cli.ExitAccepted {
		t.Fatal(stderr)
	}
	record := []string{"--new", new, "--policy", "default", "--record", "--ledger", ledger, "--ledger-key", key}
	v.refuses(t, "RUN_E006", []string{"the cases have not"}, append([]string{"compare", "--cases", put(t, v.dir, "one.json", `[{"id":"silent","input":{"user":"u"}}]`)}, record...)...) // and nothing is recorded
	v.compare(t, cli.ExitRejected, record...)
	stdout, stderr, code := inside(t, false, "ledger", "list", "--ledger", ledger, "--format", "csv")
	if n := strings.Count(stdout, ",REFUSE,"); code != cli.ExitAccepted || n != 10 || strings.Count(stdout, ",RUN_E003,") != 1 {
		t.Errorf("exit status %d, %d decisions that refuse\n%s%s", code, n, stdout, stderr)
	}
	if stdout, stderr, code := inside(t, false, "ledger", "verify", "--ledger", ledger, "--all-seals", "--evidence"); code != cli.ExitAccepted || !strings.Contains(stdout, "CLEAN") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

// TestCompareTools: with --tools a call is bound to its tool, and decided by what the tool does.
func TestCompareTools(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	for name, text := range map[string]string{
		"tools/CLI/tool.json": `{"tool_id":"CLI","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`,
		"tools/CLI/A.json":    `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"CLI","type":"cli","interface":{"cli":{"executable":"printf","base_args":["%s|"],"arg_mapping":{"text":"{value}"}}}}`,
		"printf/profile.json": strings.Replace(toolProfile(""), `"allowed_commands":"*"`, `"allowed_commands":["printf"]`, 1),
		"other/profile.json":  strings.Replace(toolProfile(""), `"allowed_commands":"*"`, `"allowed_commands":["cat"]`, 1),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(v.dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		put(t, v.dir, name, text)
	}
	if _, stderr, code := inside(t, false, "tool", "index", filepath.Join(v.dir, "tools")); code != cli.ExitAccepted {
		t.Fatal(stderr)
	}
	new := v.write(t, sample{side: "new", id: "r", answers: map[string]string{
		"a": proposing("", "", toolCall("c", "CLI", `{"text":"one"}`, "ok"), toolCall("d", "CLI", `{"nothing":"one"}`, "ok")), "b": proposing("", "", toolCall("c", "other", `{}`, "ok")),
	}})
	reasons := func(args ...string) string {
		var list []string
		for _, one := range v.compare(t, cli.ExitRejected, append([]string{"--new", new}, args...)...).Cases {
			for _, a := range one.New.Actions {
				word, _, _ := strings.Cut(strings.Join(a.Reasons, " "), " ")
				list = append(list, one.ID+" "+a.Subject+" "+word)
			}
		}
		return strings.Join(list, ", ")
	}
	tools := []string{"--tools", filepath.Join(v.dir, "tools"), "--policy"}
	for policy, want := range map[string]string{
		"printf": "a events[2] PARAMS_INVALID, b events[0] TOOL_UNKNOWN",
		"other":  "a events[0] CMD_NOT_ALLOWED, a events[2] PARAMS_INVALID, b events[0] TOOL_UNKNOWN",
	} {
		if got := reasons(append(tools, filepath.Join(v.dir, policy))...); got != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
	}
	if got := reasons("--policy", filepath.Join(v.dir, "strict-not-there", "..", "printf")); !strings.HasPrefix(got, "a events[0] CALL_NOT_ALLOWED") {
		t.Errorf("without tools: %q", got)
	}
	v.refuses(t, "RUN_E004", []string{"--policy"}, "compare", "--new", new, "--tools", filepath.Join(v.dir, "tools"))
}

// added returns the files of a folder that were not there before, and fails if others have changed.
func added(t *testing.T, dir string, before map[string]string) (names []string) {
	t.Helper()
	for name, text := range filesOf(t, dir) {
		was, there := before[name]
		if !there {
			names = append(names, name)
		} else if was != text {
			t.Errorf("%s has changed", name)
		}
		delete(before, name)
	}
	for name := range before {
		t.Errorf("%s is gone", name)
	}
	slices.Sort(names)
	return names
}

// TestCompareUntouched: judging adds evaluation.json beneath OUT and nothing else, changes no
// baseline elsewhere, starts no program and opens no socket.
func TestCompareUntouched(t *testing.T) {
	t.Parallel()
	v := newVersus(t)
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	place := filepath.Join(v.dir, "elsewhere", "main")
	v.moved(t, v.at("baseline", "r"), place)
	elsewhere, before := shot(t, place), filesOf(t, v.out)
	v.compare(t, cli.ExitAccepted, "--baseline", place, "--new", v.at("new", "r"), "--out", v.out, "--policy", "default")
	unchanged(t, place, elsewhere)
	if names := added(t, v.out, before); fmt.Sprint(names) != "[compare-report.json new/r/evaluation.json report.html]" {
		t.Errorf("%q", names)
	}
	// A side that is a link lies elsewhere too.
	remove(t, filepath.Join(v.out, "baseline"))
	if err := os.Symlink(filepath.Dir(place), filepath.Join(v.out, "baseline")); err != nil {
		t.Fatal(err)
	}
	v.compare(t, cli.ExitAccepted, v.out)
	unchanged(t, place, elsewhere)
	remove(t, filepath.Join(v.out, "baseline"))
	v.moved(t, place, v.at("baseline", "r"))
	for _, name := range []string{"report.html", "compare-report.json", "new/r/evaluation.json"} {
		remove(t, filepath.Join(v.out, name))
	}

	tracer, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed, so that no system call can be seen")
	}
	if out, err := exec.Command(tracer, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	before = filesOf(t, v.out)
	cmd := exec.Command(tracer, "-f", "-qq", "-e", "trace=%network,execve", "-e", "signal=none", "-o", trace, command(t).Path, "suite", "compare", v.out, "--policy", "default")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(trace)
	if n := strings.Count(string(text), "\n"); err != nil || n != 1 || strings.Count(string(text), "execve(") != 1 {
		t.Errorf("%v: system calls:\n%s", err, text)
	}
	if names := added(t, v.out, before); fmt.Sprint(names) != "[baseline/r/evaluation.json compare-report.json new/r/evaluation.json report.html]" {
		t.Errorf("%q", names)
	}
}

// moved moves a folder.
func (v versus) moved(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestCompareReadOnlyBaseline: a baseline that can only be read is judged, and gets nothing.
func TestCompareReadOnlyBaseline(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount, and become another user")
	}
	v := newVersus(t)
	v.dir = rehearsal.SharedTemp(t)
	v.out = filepath.Join(v.dir, "out")
	v.pair(t, [2]string{"yes", "yes"}, [2]string{"yes", "yes"})
	name := installed(t, filepath.Join(v.dir, "fiador"))
	for _, dir := range []string{v.out, v.at("new", "r")} {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	before := shot(t, filepath.Join(v.out, "baseline"))
	script := `b=$1; shift; mount --bind "$b" "$b" && mount -o remount,bind,ro "$b" || exit 99; "$@"`
	for how, cmd := range map[string]*exec.Cmd{
		"mount": {Path: "/bin/sh", Args: []string{"sh", "-c", script, "sh", filepath.Join(v.out, "baseline"), name, "suite", "compare", v.out}, SysProcAttr: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}},
		"user":  {Path: name, Args: []string{name, "suite", "compare", v.out}, SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}},
	} {
		cmd.Dir, cmd.Env = "/", rehearsal.Env("PATH="+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if code := status(t, err); code == 99 {
			t.Logf("nothing can be mounted here: %s", out)
		} else if code != cli.ExitAccepted || strings.Count(string(out), "can only be read") != 1 {
			t.Errorf("%s: exit status %d\n%s", how, code, out)
		}
		unchanged(t, filepath.Join(v.out, "baseline"), before)
		if _, err := os.Stat(filepath.Join(v.at("new", "r"), "evaluation.json")); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		for _, name := range []string{"report.html", "compare-report.json", "new/r/evaluation.json"} {
			remove(t, filepath.Join(v.out, name))
		}
		if list, _ := filepath.Glob(filepath.Join(v.out, ".*")); len(list) > 0 {
			t.Errorf("%s: left behind: %q", how, list)
		}
	}
}

// TestCompareSameBytes: the same runs leave the same bytes, wherever they lie, from wherever they
// are compared, however they are named, and on however many cores.
func TestCompareSameBytes(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	v := newVersus(t)
	key, _ := v.keygen(t, "key")
	fill := func(v versus) {
		for _, side := range []string{"baseline", "new"} {
			if err := os.CopyFS(v.at(side, "recording"), os.DirFS(filepath.Join(root, "harness", "suite", "recording", "demo", side))); err != nil {
				t.Fatal(err)
			}
		}
	}
	deep := versus{v.dir, filepath.Join(v.dir, "a much longer path", "with spaces & more", "out")}
	fill(v)
	fill(deep)
	link := filepath.Join(v.dir, "link")
	if err := os.Symlink(deep.out, link); err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	for _, c := range []struct {
		name, dir, cores string
		of               versus
		args             []string
	}{
		{"first", v.dir, "2", v, []string{v.out}}, {"again", v.dir, "2", v, []string{v.out}}, {"one core", v.dir, "1", v, []string{"out"}}, {"eight cores", v.dir, "8", v, []string{"./out/"}},
		{"in it", v.out, "2", v, []string{"."}}, {"in new", filepath.Join(v.out, "new"), "2", v, []string{".."}}, {"copied", v.dir, "8", deep, []string{deep.out}}, {"by a link", v.dir, "2", deep, []string{link}},
		{"by flags", deep.out, "2", deep, []string{"--new", "new/recording", "--baseline", deep.at("baseline", "recording")}}, {"by folders", "/", "2", deep, []string{"--new", link + "/new", "--baseline", link + "/baseline", "--out", deep.out}},
	} {
		cmd := command(t, append([]string{"suite", "compare", "--policy", "default", "--sign", key}, c.args...)...)
		var stdout, stderr strings.Builder
		cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &stdout, &stderr
		cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "SOURCE_DATE_EPOCH=1800000000", "GOMAXPROCS="+c.cores, "TZ=Asia/Kolkata", "HOME="+v.dir)
		if code := status(t, cmd.Run()); code != cli.ExitRejected {
			t.Fatalf("%s: exit status %d\n%s%s", c.name, code, stdout.String(), stderr.String())
		}
		got := filesOf(t, c.of.out)
		got["stdout"] = stdout.String()
		if want == nil {
			want = got
			for _, name := range []string{"report.html", "compare-report.json", "signature.json", "new/recording/evaluation.json", "baseline/recording/evaluation.json"} {
				if want[name] == "" || strings.Contains(want[name], v.dir) {
					t.Errorf("%s is empty, or names a folder of this machine", name)
				}
			}
			if !strings.Contains(want["compare-report.json"], "2027-01-15T08:00:00Z") || want["stdout"] != want["compare-report.json"] {
				t.Errorf("%s", want["stdout"])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s: %s: %s", c.name, name, differ(got[name], want[name]))
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d files instead of %d", c.name, len(got), len(want))
		}
	}
	for _, wrong := range []string{"-1", "soon", "253402300800", "1e9"} {
		cmd := command(t, "suite", "compare", v.out)
		cmd.Env = rehearsal.Env("SOURCE_DATE_EPOCH=" + wrong)
		if out, err := cmd.CombinedOutput(); status(t, err) != cli.ExitError || !strings.Contains(string(out), "seconds since 1970") {
			t.Errorf("%s: %s", wrong, out)
		}
	}
}
