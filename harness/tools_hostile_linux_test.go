//go:build linux && (amd64 || arm64)

package harness_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
)

// TestHostileValues: a value reaches a command as one argument, byte for byte, or the call is
// refused. It is never an option, never divided, and never a template.
func TestHostileValues(t *testing.T) {
	h := harnesstest.NewTier(t, harnesstest.Tiers[0])
	x := harnesstest.NewExecutor(t, h, nil)
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A"`),
		"T/A.json":    harnesstest.CLI("A", `"executable":"printf","base_args":["%s|"],"arg_mapping":{"pattern":"{value}"}`, ""),
	}))
	for _, value := range []string{"{pattern}", "{value}", "a\nb", "$(id) `id` ; id", "a  b", "*", "%s", "\u202egnp.exe", "\u2028\ufeff\u0301", "\x1b]0;a\x07\r", strings.Repeat("x", 100_000)} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		rep := x.Run(t, intents.Actions(`{"kind":"call","tool_id":"T","params":{"pattern":`+string(text)+`}}`), harness.Folders{})
		if got := string(rep.Execution.Stdout.Bytes); got != value+"|" {
			t.Errorf("%q arrives as %q (%s)", value, got, rep.Bytes)
		}
	}
	argument := x.Gate.Tools
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", `"executable":"cat","stdin":"text"`, ""),
	}))
	for _, value := range []string{"a\x00b\u202e\n--", strings.Repeat("\x00", 128<<10), "-x"} {
		rep := x.Run(t, intents.Actions(`{"kind":"call","tool_id":"T","params":{"text":`+string(mustJSON(t, value))+`}}`, intents.Argv("cat", "calls/001.response.json")), harness.Folders{})
		if got := string(rep.Execution.Stdout.Bytes); got != canonText(t, value)+"\n" {
			t.Errorf("%.20q by standard input is answered as %.40q (%.2000s)", value, got, rep.Bytes)
		}
	}
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "dev")
	gate.UseTools(argument)
	for name, value := range map[string]string{"option": "--pre=sh", "short option": "-exec", "NUL": "a\x00b", "long": strings.Repeat("x", 128<<10)} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(`{"goal":"g","constraints":["c"],`+intents.Actions(`{"kind":"call","tool_id":"T","params":{"pattern":`+string(text)+`}}`)+`}`, "r"))
		if err != nil || !strings.Contains(strings.Join(rep.Decision.Reasons, " "), "PARAMS_INVALID /actions/0/params/pattern") {
			t.Errorf("%s: %s (%v)", name, rep.Bytes, err)
		}
	}
}

// TestBackgroundOfACall: a process that a call leaves behind is dead before the next action.
func TestBackgroundOfACall(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
		x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", shellTool, "")}))
		rep := x.Run(t, intents.Actions(intents.Sh("mkdir out"),
			callT("(setsid sh -c 'while :; do echo >>out/beat; sleep 0.01; done' >/dev/null 2>&1 &); until [ -s out/beat ]; do :; done; echo x"),
			intents.Sh("a=$(wc -c <out/beat); sleep 0.3; [ $a = $(wc -c <out/beat) ] && echo dead")), harness.Folders{})
		if got := string(rep.Execution.Stdout.Bytes); got != "dead\n" {
			t.Errorf("%s: %q %s", isolation, got, rep.Bytes)
		}
	}
}

// TestRetriesEndAtTheDeadline: attempts and the waits between them do not outlast the time of
// the adapter.
func TestRetriesEndAtTheDeadline(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, harnesstest.Tiers[0]), nil)
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A"`),
		"T/A.json":    harnesstest.CLI("A", shellTool, `,"sandbox_override":{"timeout_ms":2000},"errors":{"retry":{"max_attempts":10,"backoff_ms":30000,"retryable_codes":[7]}}`),
	}))
	begun := time.Now()
	rep := x.Run(t, intents.Actions(callT("exit 7")), harness.Folders{})
	if n := len(rep.Execution.Attempts); n != 1 || time.Since(begun) > 25*time.Second {
		t.Errorf("%d attempts in %s: %s", n, time.Since(begun), rep.Bytes)
	}
}
