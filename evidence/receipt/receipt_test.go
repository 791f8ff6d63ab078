package receipt

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/reason"
)

// TestCounts: go test -json and TAP are counted, and nothing else is.
func TestCounts(t *testing.T) {
	event := func(action, test string) string {
		return fmt.Sprintf(`{"Time":"2026-01-01T00:00:00Z","Action":%q,"Package":"p","Test":%q}`+"\n", action, test)
	}
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		stdout         string
		passed, failed int
		ok             bool
	}{
		"nothing":                 {"", 0, 0, false},
		"a text":                  {"ok\nall tests passed\n", 0, 0, false},
		"go test":                 {"--- FAIL: TestX (0.00s)\nFAIL\nok  \tp\t0.1s\n", 0, 0, false},
		"other JSON":              {`{"Action":"pass"}` + "\n" + `{"Package":"p"}` + "\n[1]\nnull\n3\n", 0, 0, false},
		"go: pass, fail, skip":    {event("run", "A") + event("pass", "A") + event("fail", "B") + event("pass", "C/d") + event("skip", "E"), 2, 1, true},
		"go: no test":             {`{"Action":"skip","Package":"p"}` + "\n", 0, 0, true},
		"go: the package's end":   {event("pass", "A") + `{"Action":"pass","Package":"p"}` + "\n", 1, 0, true},
		"go: output is no result": {event("output", "A") + `{"Action":"output","Package":"p","Test":"A","Output":"{\"Action\":\"pass\"}\n"}` + "\n", 0, 0, true},
		"go: lines that are cut":  {`{"Action":"pass","Pack` + "\n" + event("pass", "A") + "garbage\n" + strings.TrimSuffix(event("fail", "B"), "\n"), 1, 1, true},
		"go: carriage returns":    {strings.ReplaceAll(event("pass", "A"), "\n", "\r\n"), 1, 0, true},
		"go: a long line":         {event("pass", "A") + `{"Action":"output","Package":"p","Output":"` + long + `"}` + "\n" + event("pass", "B"), 2, 0, true},
		"go: a deep line":         {strings.Repeat("[", 1<<20) + "\n" + event("pass", "A"), 1, 0, true},
		"go wins over TAP":        {"1..1\nok 1\nnot ok 2\n" + event("pass", "A"), 1, 0, true},
		"TAP 12":                  {"1..3\nok 1\nnot ok 2 - x\nok 3 # skip no reason\n", 2, 1, true},
		"TAP 12, plan at the end": {"ok\nok\nnot ok\n1..3\n", 2, 1, true},
		"TAP 13":                  {"TAP version 13\nok 1 - a\n  ---\n  not ok: no\n  ...\nnot ok 2 - b # TODO later\n1..2\n", 2, 0, true},
		"TAP 14: subtests":        {"TAP version 14\n# Subtest: s\n    ok 1 - a\n    not ok 2 - b\n    1..2\nnot ok 1 - s\n1..1\n", 0, 1, true},
		"TAP: all skipped":        {"1..0 # SKIP no database\n", 0, 0, true},
		"TAP: carriage returns":   {"1..2\r\nok 1\r\nnot ok 2\r\n", 1, 1, true},
		"TAP: no plan":            {"ok 1\nnot ok 2\n", 0, 0, false},
		"TAP: a plan of words":    {"1..x\nok 1\n", 0, 0, false},
		"TAP: a plan within":      {"  1..2\nok 1\n", 0, 0, false},
		"TAP: another version":    {"TAP version 11\nok 1\n", 0, 0, false},
		"TAP: other words":        {"1..1\nokay\nok1\nok- x\nnot  ok\nnotok 1\n not ok 1\nOK 1\nok 1", 1, 0, true},
		"TAP: a number sign":      {"1..3\nnot ok 1 - issue #12\nnot ok 2 - \\# TODO is a word\nnot ok 3 - \\\\# todo x\n", 1, 2, true},
		"TAP: a word like todo":   {"1..2\nnot ok 1 # todoist\nnot ok 2 # Skipped: x\n", 1, 1, true},
		"TAP: a long line":        {"1..1\nok 1 " + strings.Repeat("# ", 1<<19) + "\n" + strings.Repeat("\\", 1<<20) + "\nnot ok 2 " + long + "# TODO\n", 2, 0, true},
		"TAP: no text":            {"1..1\nok \xff\n\x00ok\n", 1, 0, true},
	} {
		passed, failed, ok := Counts([]byte(c.stdout))
		if passed != c.passed || failed != c.failed || ok != c.ok {
			t.Errorf("%s: %d passed, %d failed, %t; want %d, %d, %t", name, passed, failed, ok, c.passed, c.failed, c.ok)
		}
	}
}

// statuses has the status that each reason gives alone.
func statuses() map[string]Status {
	return map[string]Status{
		reason.CallFailed: Failure, reason.CallOutput: Failure, reason.CallRefused: Failure, reason.CallTimeout: Failure,
		reason.Duplicate: Denied, reason.MaxDelta: Denied, reason.MaxFiles: Denied, reason.MaxToolOps: Denied,
		reason.NotAllowed: Denied, reason.Protected: Denied,
		reason.OutputKind: Denied, reason.OutputLimit: Denied, reason.OutputName: Denied, reason.WriteOutsideRoot: Denied,
		reason.Exit: Failure, reason.InputMissing: Failure, reason.NotExecutable: Failure, reason.NotFound: Failure, reason.OOM: Failure,
		reason.OutputMissing: Failure, reason.Signal: Failure, reason.StateDrift: Failure, reason.StreamLimit: Failure,
		reason.Test: Failure, reason.Trace: Failure, reason.Timeout: Timeout,
	}
}

// TestStatusOf: each reason gives its status. The end of the command decides before what is
// forbidden, and what is forbidden before what failed.
func TestStatusOf(t *testing.T) {
	subjects := map[string]string{
		reason.CallFailed: " /actions/0", reason.CallOutput: " /actions/0", reason.CallRefused: " /actions/0", reason.CallTimeout: " /actions/0",
		reason.StreamLimit: " /actions/0", reason.Exit: " 1", reason.Signal: " 9", reason.Test: " 143",
		reason.InputMissing: " a", reason.NotAllowed: " a", reason.OutputKind: " a", reason.OutputMissing: " a", reason.OutputName: " a",
		reason.Protected: " a", reason.WriteOutsideRoot: " a",
	}
	want := statuses()
	for _, m := range reason.Meanings() {
		text := m.ID + subjects[m.ID]
		if _, err := reason.Parse(text); err != nil {
			t.Errorf("%s %s", text, err)
		}
		if got := StatusOf(kernel.OutcomeBundle, []string{text}); got != want[m.ID] {
			t.Errorf("%s is %q, want %q", text, got, want[m.ID])
		}
		if got := StatusOf(kernel.OutcomeRefuse, []string{text}); got != Denied {
			t.Errorf("a REFUSE with %s is %q", text, got)
		}
		delete(want, m.ID)
	}
	if len(want) > 0 {
		t.Errorf("no reasons: %v", want)
	}
	for _, c := range []struct {
		outcome kernel.Outcome
		reasons []string
		want    Status
	}{
		{kernel.OutcomeBundle, nil, Success},
		{kernel.OutcomeRefuse, nil, Denied},
		{kernel.OutcomeClarify, nil, Denied},
		{kernel.OutcomeClarify, []string{"PLACEHOLDER /goal: x"}, Denied},
		{kernel.OutcomeBundle, []string{"something else"}, Failure},
		{kernel.OutcomeBundle, []string{"OUTPUT_MISSING a", "PROTECTED b"}, Denied},
		{kernel.OutcomeBundle, []string{"TRACE", "MAX_FILES"}, Denied},
		{kernel.OutcomeBundle, []string{"EXIT 1", "MAX_FILES"}, Failure},
		{kernel.OutcomeBundle, []string{"TIMEOUT", "OUTPUT_KIND a"}, Timeout},
		{kernel.OutcomeBundle, []string{"TEST 143", "PROTECTED a"}, Failure},
		{kernel.OutcomeBundle, []string{"INPUT_MISSING a", "INPUT_MISSING b"}, Failure},
	} {
		if got := StatusOf(c.outcome, c.reasons); got != c.want {
			t.Errorf("%s with %q is %s, want %s", c.outcome, c.reasons, got, c.want)
		}
	}
}

// TestNew: each part of a receipt counts in its hash, and its id is a UUID of version 8.
func TestNew(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for i := range 64 {
		r, err := New(Core{AgentID: fmt.Sprint(i)}, Ephemeral{}, "")
		if err != nil || !form.MatchString(r.ReceiptID) {
			t.Fatalf("%s, %v", r.ReceiptID, err)
		}
		h, _ := ParseHash(r.ReceiptHash)
		digits := strings.ReplaceAll(r.ReceiptID, "-", "")
		if digits[:12] != h.Hex()[:12] || digits[13:16] != h.Hex()[13:16] || digits[17:] != h.Hex()[17:32] {
			t.Errorf("%s is not of %s", r.ReceiptID, h)
		}
		seen[r.ReceiptHash] = true
	}
	whole, _ := New(Core{}, Ephemeral{}, "")
	for _, r := range []struct {
		core     Core
		eph      Ephemeral
		previous string
	}{{Core{Status: Success}, Ephemeral{}, ""}, {Core{}, Ephemeral{RunID: "r"}, ""}, {Core{}, Ephemeral{}, whole.ReceiptHash}} {
		other, err := New(r.core, r.eph, r.previous)
		if err != nil || other.ReceiptHash == whole.ReceiptHash || (other.CoreHash == whole.CoreHash) != (r.core.Status == "") {
			t.Errorf("%+v, %v", other, err)
		}
		seen[other.ReceiptHash] = true
	}
	if len(seen) != 64+3 {
		t.Errorf("%d hashes", len(seen))
	}
	text, err := whole.Bytes()
	if err != nil || !strings.HasPrefix(string(text), `{"core":{"after":`) || !strings.HasSuffix(string(text), "}\n") || strings.Contains(string(text), "previous") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFiles: a result has each artifact in one list, and the hash of what is there.
func TestFiles(t *testing.T) {
	var r Result
	r.Files(nil)
	if r.CreatedFiles == nil || r.ModifiedFiles == nil || r.DeletedFiles == nil || r.ArtifactHashes == nil {
		t.Errorf("null in %+v", r)
	}
	r.Files([]Artifact{{"a", Create, File, "", "1"}, {"b", Delete, File, "2", ""}, {"c", Modify, Executable, "3", "4"}, {"d", Create, Link, "", "5"}, {"e", Modify, File, "6", "6"}})
	for _, c := range [][2][]string{{r.CreatedFiles, {"a", "d"}}, {r.DeletedFiles, {"b"}}, {r.ModifiedFiles, {"c", "e"}}} {
		if !slices.Equal(c[0], c[1]) {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
	if want := map[string]string{"a": "1", "c": "4", "d": "5", "e": "6"}; !reflect.DeepEqual(r.ArtifactHashes, want) {
		t.Errorf("%v, want %v", r.ArtifactHashes, want)
	}
}

// TestResultOf: the result of a receipt says why there is no success. A denial names the first
// reason that denies.
func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		status      Status
		reasons     []string
		err, denial string
		scripts     bool
	}{
		{Success, nil, "", "", true},
		{Denied, []string{"MAX_FILES", "PROTECTED a"}, "", "MAX_FILES", false},
		{Denied, []string{"OUTPUT_MISSING a", "NOT_ALLOWED b"}, "", "NOT_ALLOWED b", false},
		{Denied, []string{"COMMAND_SHELL /actions/0/argv: sh"}, "", "COMMAND_SHELL /actions/0/argv: sh", false},
		{Failure, []string{"TEST 1"}, "Tests failed", "", false},
		{Failure, []string{"STATE_DRIFT"}, reason.Title(reason.StateDrift) + ": STATE_DRIFT", "", false},
		{Timeout, []string{"TIMEOUT"}, reason.Title(reason.Timeout) + ": TIMEOUT", "", false},
		{Failure, []string{"else"}, "else", "", false},
	} {
		rc, err := New(Core{Status: c.status, Reasons: c.reasons, Before: "b", After: "a"}, Ephemeral{RunID: "run"}, "")
		if err != nil {
			t.Fatal(err)
		}
		r := ResultOf(rc)
		script := ""
		if c.scripts {
			script = "receipts/" + rc.ReceiptID + "/replay.sh"
		}
		if r.Error != c.err || r.DenialReason != c.denial || r.ProofScript != script || r.ReceiptPath != "receipts/"+rc.ReceiptID+"/RECEIPT.json" || r.RunID != "run" || r.BeforeHash != "b" || r.OutputHash != "a" {
			t.Errorf("%q: %+v", c.reasons, r)
		}
		if scripts := Scripts(rc); c.scripts && !strings.Contains(scripts[ReplayFile], `"MATCH a"`) || len(scripts) > 0 != c.scripts {
			t.Errorf("%q: %v", c.reasons, scripts)
		}
	}
}
