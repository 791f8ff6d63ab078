package conformance

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// TestStrictReading: a file with a mistake is refused, with the name of the file and the
// pointer to the place.
func TestStrictReading(t *testing.T) {
	files := fstest.MapFS{"expected/a.log": {Data: []byte("x\n")}}
	const good = `{"version": "1.0", "m0_contract_version": "v0.1.0", "vectors": {"safe_run": [
		{"id": "a", "name": "n", "command": {"args": ["x"]}, "expected": {"exit_code": 0, "log_golden": "a.log"}}]}}`
	if _, err := Parse("f.json", []byte(good), files); err != nil {
		t.Fatal(err)
	}
	const at = "/vectors/safe_run/0"
	for _, c := range []struct{ old, new, pointer, msg string }{
		{`{"version"`, `{version`, "", "byte 1"},
		{`"1.0"`, `"2.0"`, "/version", `"2.0" is none of ["1.0"]`},
		{`"v0.1.0"`, `"v1"`, "/m0_contract_version", "is none of"},
		{`"version": "1.0", `, ``, "", `lacks the member "version"`},
		{`"vectors": {`, `"vectors": [`, "", ""},
		{`"safe_run"`, `"saferun"`, "/vectors", `lacks the member "safe_run"`},
		{`{"safe_run": [`, `{"other": {}, "safe_run": [`, "/vectors/other", "must be a list"},
		{`{"version"`, `{"versions": 1, "version"`, "/versions", `unknown member "versions", did you mean "version"?`},
		{`"id": "a"`, `"id": ""`, at + "/id", "must not be empty"},
		{`"id": "a", `, ``, at, `lacks the member "id"`},
		{`"name"`, `"nam": "x", "name"`, at + "/nam", `did you mean "name"?`},
		{`{"id": "a"`, `{"id": "a", "name": "n", "command": {"args": []}, "expected": {"exit_code": 0}}, {"id": "a"`, at[:len(at)-1] + "1", `a second vector "a"`},
		{`{"args": ["x"]}`, `{}`, at + "/command", "exactly one of args"},
		{`{"args": ["x"]}`, `{"args": ["x"], "args_base64": []}`, at + "/command/args_base64", "given already"},
		{`{"args": ["x"]}`, `{"args": ["x"], "args_template": "simple_fail", "exit_code": 1}`, at + "/command", "exactly one of args"},
		{`{"args": ["x"]}`, `{"args": ["x"], "exit_code": 1}`, at + "/command", `"exit_code" has no place here`},
		{`{"args": ["x"]}`, `{"args_template": "simple_fail"}`, at + "/command", `lacks the member "exit_code"`},
		{`{"args": ["x"]}`, `{"args_template": "simple"}`, at + "/command/args_template", `"simple" is none of`},
		{`{"args": ["x"]}`, `{"args_base64": ["eA"]}`, at + "/command/args_base64/0", "is not base64 with padding"},
		{`{"args": ["x"]}`, `{"args": ["a\u0000"]}`, at + "/command/args/0", "NUL"},
		{`{"args": ["x"]}`, `{"args": [1]}`, at + "/command/args/0", "must be a string"},
		{`["x"]`, `["x"], "env": {"A=": "b"}`, at + "/command/env/A=", "no environment can hold this"},
		{`["x"]`, `["x"], "env": {"A": 1}`, at + "/command/env/A", "must be a string"},
		{`["x"]`, `["x"], "stdin": "", "stdin_base64": ""`, at + "/command/stdin_base64", "given already"},
		{`["x"]`, `["x"], "stdin": "a", "stdin_closed": true`, at + "/command", "closed"},
		{`["x"]`, `["x"], "signals": [{"signal": "USR1"}]`, at + "/command/signals/0/signal", "is none of TERM"},
		{`["x"]`, `["x"], "signals": [{"signal": "TERM", "delay": 1}]`, at + "/command/signals/0/delay", `did you mean "delay_ms"?`},
		{`["x"]`, `["x"], "interrupt_signal": "TERM"`, at + "/command", `"interrupt_signal" has no place here`},
		{`"exit_code": 0, `, ``, at + "/expected", `lacks the member "exit_code"`},
		{`"exit_code": 0`, `"exit_code": 256`, at + "/expected/exit_code", "whole number from 0 to 255"},
		{`"exit_code": 0`, `"exit_code": 1.5`, at + "/expected/exit_code", "whole number"},
		{`"exit_code": 0`, `"exit_code": 0, "exit_cod": 1`, at + "/expected/exit_cod", `did you mean "exit_code"?`},
		{`"exit_code": 0`, `"exit_code": 0, "stdout_contain": []`, at + "/expected/stdout_contain", `did you mean "stdout_contains"?`},
		{`"exit_code": 0`, `"exit_code": 0, "artifacts_created": "no"`, at + "/expected/artifacts_created", "must be true or false"},
		{`"exit_code": 0`, `"exit_code": 0, "artifacts_created": false`, at + "/expected", "a log of what creates none"},
		{`"exit_code": 0`, `"exit_code": 0, "stdout_pattern": "("`, at + "/expected/stdout_pattern", "is no regular expression"},
		{`"exit_code": 0`, `"exit_code": 0, "file_exists": ["../x"]`, at + "/expected/file_exists/0", "no clean path"},
		{`"exit_code": 0`, `"exit_code": 0, "own_words": ["stdin"]`, at + "/expected/own_words/0", "is none of"},
		{`"exit_code": 0`, `"exit_code": 0, "stdout_sha256": "abc"`, at + "/expected/stdout_sha256", "64 lower-case"},
		{`"exit_code": 0`, `"exit_code": 0, "log_file_mode": "600"`, at + "/expected/log_file_mode", "four octal digits"},
		{`"a.log"`, `"b.log"`, at + "/expected/log_golden", `there is no golden log "b.log"`},
		{`"a.log"`, `"../expected/a.log"`, at + "/expected/log_golden", "is no name of a file"},
		{`"a.log"`, `"a.log", "log": "x"`, at + "/expected/log_golden", "given already"},
		{`"command"`, `"deadline_ms": 0, "command"`, at + "/deadline_ms", "whole number"},
		{`"command"`, `"setup": {"files": [{"path": "/x"}]}, "command"`, at + "/setup/files/0/path", "no clean path"},
		{`"command"`, `"setup": {"files": [{"path": "x", "mode": "0999"}]}, "command"`, at + "/setup/files/0/mode", "four octal digits"},
		{`"command"`, `"setup": {"links": [{"path": "x"}]}, "command"`, at + "/setup/links/0", `lacks the member "to"`},
		{`"command"`, `"setup": {"folders": [{"path": "x", "content": "y"}]}, "command"`, at + "/setup/folders/0/content", "unknown member"},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%s is not in the file", c.old)
		}
		_, err := Parse("f.json", []byte(strings.Replace(good, c.old, c.new, 1)), files)
		var fe *FileError
		if !errors.As(err, &fe) || fe.File != "f.json" || fe.Pointer != c.pointer || !strings.Contains(fe.Msg, c.msg) {
			t.Errorf("%s for %s: %v", c.new, c.old, err)
			continue
		}
		if want := "f.json: " + c.pointer; !strings.HasPrefix(err.Error(), strings.TrimSuffix(want, ": ")) {
			t.Errorf("%q does not begin with file and pointer", err)
		}
	}
}

// TestMatches: {{any}} stands for text without LF.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		is        bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"ab", "a", false}, {"", "", true},
		{"a{{any}}", "a", true}, {"a{{any}}", "abc", true}, {"a{{any}}", "ab\n", false}, {"a{{any}}\n", "ab\n", true},
		{"{{any}}b{{any}}c", "xbxbxc", true}, {"{{any}}b{{any}}c", "xb\nc", false}, {"{{any}}\n{{any}}", "a\nb", true},
		{"a{{any}}b\nc", "axb\nc", true}, {"a{{any}}b\nc", "axb\nd", false},
	} {
		if got := matches(strings.Split(c.want, anything), c.got); got != c.is {
			t.Errorf("%q and %q: %v", c.want, c.got, got)
		}
	}
}

// TestDifference: for long texts, the first line that differs is shown.
func TestDifference(t *testing.T) {
	long := strings.Repeat("same line\n", 100)
	for _, c := range []struct {
		want, got string
		fault     Fault
	}{
		{"a\n", "b\n", Fault{"x differs", "a\n", "b\n"}},
		{long + "a\n", long + "b\n", Fault{"x differs at line 101", "a\n", "b\n"}},
		{long, long + "b\n", Fault{"x differs at line 101", "nothing more", "b\n"}},
		{long + "a", long, Fault{"x differs at line 101", "a", "nothing more"}},
		{long + "{{any}}\na\n", long + "z\nb\n", Fault{"x differs at line 102", "a\n", "b\n"}},
	} {
		if got := difference("x", c.want, c.got); got != c.fault {
			t.Errorf("%+v", got)
		}
	}
}
