package conformance

import (
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/specs"
)

// TestVectors: the tool and both wrappers pass every vector, under both kinds of names,
// and the wrappers behave as the tool does, byte for byte.
func TestVectors(t *testing.T) {
	wrapper := func(words ...string) []string {
		path, err := filepath.Abs(filepath.Join("../../docs/wrappers", words[len(words)-1]))
		if err != nil {
			t.Fatal(err)
		}
		return append(words[:len(words)-1], path)
	}
	for _, c := range []struct {
		name    string
		names   LogNames
		program []string
		ref     []string
	}{
		{"tool", Contract, []string{tool}, nil},
		{"tool, rfc", RFC, []string{tool}, nil},
		{"sh", Contract, wrapper(found(t, "sh"), "safe-run.sh"), []string{tool}},
		{"python", Contract, wrapper(python(t), "safe_run.py"), []string{tool}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.program[0] == "" {
				t.Skip("python3 is not installed")
			}
			r := Runner{Program: c.program, Reference: c.ref, Names: c.names, Parallel: 8}
			if faults := runPatiently(t, r, embedded(t, "")); faults != "" {
				t.Error(faults)
			}
		})
	}
}

func found(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// python returns the path of the interpreter itself, not of a script that looks for it;
// "" if there is none.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// TestVectorsFile: the vectors are plain ASCII, there are many, and each golden log is
// the log of a vector.
func TestVectorsFile(t *testing.T) {
	files := specs.SafeRunVectors()
	src, err := fs.ReadFile(files, "vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("byte %d is not plain ASCII", i)
	}
	if n := len(embedded(t, "")); n < 65 {
		t.Errorf("only %d vectors", n)
	}
	if n := len(embedded(t, "00")); n != 5 {
		t.Errorf("%d vectors of the contract", n)
	}
	golden, err := fs.ReadDir(files, "expected")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range golden {
		if !strings.Contains(string(src), `"log_golden": "`+g.Name()+`"`) {
			t.Errorf("%s is no vector's log", g.Name())
		}
	}
}

// published is a file in the form of the published vectors, with sections of other tools.
const published = `{
  "version": "1.0", "m0_contract_version": "v0.1.0", "description": "d",
  "vectors": {
    "safe_run": [
      {"id": "safe-run-001", "name": "a", "m0_spec": [], "description": "d",
       "command": {"args": ["echo", "fine"], "env": {}},
       "expected": {"exit_code": 0, "stdout_contains": ["fine"], "artifacts_created": false, "file_not_exists": [".agent/FAIL-LOGS"]}},
      {"id": "safe-run-002", "name": "b", "m0_spec": ["M0-P1-I1", "M0-P1-I2"], "description": "d",
       "command": {"args_template": "print_and_exit", "print_stdout": "OUT", "print_stderr": "ERR", "exit_code": 7, "env": {}},
       "expected": {"exit_code": 7, "artifacts_created": true, "file_exists": [".agent/FAIL-LOGS"],
         "log_file_pattern": "^\\d{8}T\\d{6}Z-pid\\d+-FAIL\\.log$", "log_content_markers": ["=== STDOUT ===", "OUT", "=== STDERR ===", "ERR"]}},
      {"id": "safe-run-003", "name": "c", "m0_spec": ["M0-P1-I2"], "description": "d",
       "command": {"args_template": "long_running", "interrupt_signal": "TERM", "env": {}},
       "expected": {"exit_code_oneOf": [130, 143], "artifacts_created": true,
         "log_file_pattern": "^\\d{8}T\\d{6}Z-pid\\d+-ABORTED\\.log$", "log_content_markers": ["=== STDOUT ===", "=== STDERR ==="]}},
      {"id": "safe-run-004", "name": "d", "m0_spec": [], "description": "d",
       "command": {"args_template": "simple_fail", "exit_code": 3, "env": {"SAFE_LOG_DIR": "elsewhere"}},
       "expected": {"exit_code": 3, "artifacts_created": true, "file_exists": ["elsewhere"], "file_not_exists": [".agent/FAIL-LOGS"], "log_file_in_dir": "elsewhere"}},
      {"id": "safe-run-005", "name": "e", "m0_spec": ["M0-P1-I1"], "description": "d",
       "command": {"args_template": "multiline_output", "output_lines": ["one", "two", "three"], "exit_code": 9, "env": {"SAFE_SNIPPET_LINES": "2"}},
       "expected": {"exit_code": 9, "stderr_contains": ["two", "three"], "artifacts_created": true}}
    ],
    "safe_other": [{"id": "x", "anything": {"goes": [1]}}, {}],
    "safe_more": [3]
  },
  "templates": {"description": "d", "print_and_exit": "d"}
}`

// TestPublishedForm: a file in the form of the published vectors runs unchanged, under
// their kind of names.
func TestPublishedForm(t *testing.T) {
	suite, err := Parse("published.json", []byte(published), os.DirFS(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if len(suite.Vectors) != 5 || suite.Left["safe_other"] != 2 || suite.Left["safe_more"] != 1 || len(suite.Left) != 2 {
		t.Errorf("%d vectors, %v left out", len(suite.Vectors), suite.Left)
	}
	r := Runner{Program: []string{tool}, Reference: []string{tool}, Names: RFC, Parallel: 5}
	if faults := runPatiently(t, r, suite.Vectors); faults != "" {
		t.Error(faults)
	}
	r.Names = Contract
	faults := run(t, r, suite.Vectors)
	for _, id := range []string{"safe-run-002", "safe-run-003"} {
		if !strings.Contains(faults, id+": the name of the log does not match") {
			t.Errorf("%s passes under other names: %s", id, faults)
		}
	}
}

// TestIgnoredSignals: signals that this process ignores are not ignored by a program
// under test, and are ignored again afterwards. The test runs in its own process,
// started as nohup would: a Go process cannot undo that it ignores a signal.
func TestIgnoredSignals(t *testing.T) {
	const inner = "CONFORMANCE_TEST_IGNORES"
	if os.Getenv(inner) == "" {
		cmd := exec.Command(found(t, "sh"), "-c", `trap "" INT HUP; exec "$0" -test.run='^TestIgnoredSignals$'`, os.Args[0])
		cmd.Env = append(os.Environ(), inner+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	still := func() bool { return signal.Ignored(syscall.SIGINT) && signal.Ignored(syscall.SIGHUP) }
	if !still() {
		t.Fatal("the signals are not ignored")
	}
	r := Runner{Program: []string{tool}, Names: Contract, Parallel: 8}
	if faults := runPatiently(t, r, embedded(t, "12", "302", "303")); faults != "" {
		t.Error(faults)
	}
	if !still() {
		t.Error("the signals are no longer ignored")
	}
}
